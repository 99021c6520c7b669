/* diff: two texts as counts and hunks for people. libgit2 does the work.
 *
 * Pure (no repository, no file is read). Threads: any.
 */
#ifndef GH_TEXT_DIFF_H
#define GH_TEXT_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Most lines of both texts together. The search for the shortest change is worse than linear, and
 * the texts come from strangers. */
#define TEXT_DIFF_MAX_LINES 250000

struct text_diff {
    size_t added, removed; /* lines */
    bool is_binary;
    bool is_cut; /* hunks end before the change does: limits reached */
};

/* Compare `old` and `new` and append a JSON array of hunks to `out`:
 *   [{"old_start":1,"old_lines":3,"new_start":1,"new_lines":4,"header":"@@ ...",
 *     "lines":[{"kind":" "|"+"|"-","old":1|null,"new":1|null,"text":"neutralised, no newline",
 *               "no_newline":true?}]}]
 * with at most `max_lines` lines and 3 lines of context; line texts go through text_neutral, and
 * are cut at 2000 characters with "cut":true. Above TEXT_DIFF_MAX_LINES there are no hunks, is_cut
 * is set and the counts are those of the whole texts. Fails with GH_NOMEM. */
GH_MUST_USE enum gh_code text_diff_hunks(const char *old, size_t old_len, const char *new,
                                         size_t new_len, size_t max_lines, struct gh_buf *out,
                                         struct text_diff *ret, struct gh_err *err);

/* Keep libgit2 ready between calls: each diff starts it otherwise, which takes milliseconds. One
 * text_diff_close for each text_diff_open; without them everything works, slower. */
void text_diff_open(void);
void text_diff_close(void);

#endif
