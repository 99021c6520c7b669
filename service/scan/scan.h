/* scan: a phrase list for text that tries to steer an agent. A tripwire, not a defence.
 *
 * Rules: behaviour.md 6.1-6.3. The whole input is scanned, in one pass that is linear in the text.
 * Before matching, white space (and the two-character escapes \n, \t, \r) folds to one blank,
 * invisible and format characters vanish, ASCII folds to lower case, and look-alike letters
 * (Cyrillic, Greek, full-width, mathematical) fold to the ASCII letter they imitate. Offsets refer
 * to the original. Pure after scan_new; threads: any may share one scanner.
 */
#ifndef GH_SCAN_SCAN_H
#define GH_SCAN_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct scan; /* the compiled phrase list */

struct scan_finding {
    const char *marker; /* the phrase, first in list order; static */
    size_t offset;      /* byte offset in the original text of its first byte */
    size_t length;      /* bytes of the original it spans */
    char excerpt[700];  /* original text around it: up to 80 bytes each side widened to character
                           boundaries, control characters but LF, CR and TAB removed */
};

/* Compile the built-in list. *ret is owned by caller (scan_free). Fails with GH_NOMEM. */
GH_MUST_USE enum gh_code scan_new(struct scan **ret, struct gh_err *err);
void scan_free(struct scan *scan);

/* True when a phrase was found. Never fails: no heap, bounded stack. */
bool scan_text(const struct scan *scan, const char *text, size_t len, struct scan_finding *ret);

/* The number of phrases and phrase `i` in list order; for tests and documents. */
size_t scan_phrases(void);
const char *scan_phrase(size_t i);

#endif
