/* path: the two readings of a path a client sends (behaviour.md 1.2).
 *
 * The lexical reading removes ".." before links are followed; the kernel's follows links first.
 * Both then have links resolved in every existing component; a dangling link is resolved by its
 * text; what does not exist yet stays as written. Results are absolute, without ".", "..", "//".
 * Reads the file system, changes nothing. Threads: any.
 */
#ifndef GH_GATE_PATH_H
#define GH_GATE_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct gate_path {
    char *kernel;  /* links first: what an open() would reach; owned */
    char *lexical; /* ".." first; NULL when it equals `kernel`; owned */
    char *spelled; /* absolute, ".." removed lexically, no link resolved; NULL when it equals
                      `kernel`: deny entries and names are matched against it as well; owned */
};

void gate_path_fini(struct gate_path *path);

/* Normalise `text` against the canonical `working_dir`; `home` (may be NULL) replaces a leading "~"
 * or "~/". Fails with GH_INVALID (empty, a NUL, longer than PATH_MAX, too many links) or GH_NOMEM.
 */
GH_MUST_USE enum gh_code gate_path_resolve(const char *text, const char *working_dir,
                                           const char *home, struct gate_path *ret,
                                           struct gh_err *err);

/* True when `path` equals `dir` or lies below it, by whole components. Both absolute. */
bool gate_path_within(const char *path, const char *dir);

#endif
