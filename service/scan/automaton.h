/* automaton: the phrase list compiled to one table walk a byte.
 *
 * Internal to scan. An Aho-Corasick automaton over folded symbols. Two rules of folding are built
 * into the table, so that plain ASCII is matched byte by byte without folding it first: a blank
 * behind a blank changes nothing, and a backslash leads to a waiting state in which n, r and t mean
 * a blank. States are row offsets into the table; those that end a phrase have SCAN_HIT set.
 */
#ifndef GH_SCAN_AUTOMATON_H
#define GH_SCAN_AUTOMATON_H

#include <stdint.h>

#include "base/err.h"
#include "scan/fold.h"
#include "scan/phrases.h"

#define SCAN_ROOT 0
#define SCAN_HIT 0x8000U
#define SCAN_ROW_BITS 5
#define SCAN_HIT_ROW (SCAN_HIT >> SCAN_ROW_BITS)
#define SCAN_ROWS (SCAN_HIT_ROW + SCAN_PHRASES)

struct scan {
    uint16_t next[SCAN_ROWS * FOLD_COUNT]; /* next[state + symbol] is a state */
    uint8_t hit[SCAN_PHRASES];    /* row - SCAN_HIT_ROW to the lowest phrase ending there */
    uint8_t symbol[0x80];         /* scan_fold of ASCII */
    unsigned char ascii[0x10000]; /* scan_ascii of the scan_fold of the basic plane */
};

/* Fill *scan. Fails with GH_NOMEM. */
GH_MUST_USE enum gh_code scan_compile(struct scan *scan, struct gh_err *err);

#endif
