/* fold: what a character is to the phrase matcher, and stepping over UTF-8.
 *
 * Internal to scan. Pure; threads: any.
 */
#ifndef GH_SCAN_FOLD_H
#define GH_SCAN_FOLD_H

#include <stddef.h>
#include <stdint.h>

/* The matcher's alphabet. 32 symbols, so that a state is one row of 64 bytes. */
enum fold {
    FOLD_OTHER, /* anything no phrase has */
    FOLD_BLANK, /* white space; a run of it counts once */
    FOLD_A,     /* to FOLD_A + 25: a letter or its imitation */
    FOLD_APOSTROPHE = FOLD_A + 26,
    FOLD_STOP,      /* . , : ; ! ? and the end of the text */
    FOLD_BACKSLASH, /* before n, r or t the two are one blank */
    FOLD_NOTHING,   /* invisible: as if it were not there */
    FOLD_COUNT
};

#define SCAN_OTHER '#' /* an ASCII character whose symbol is FOLD_OTHER */

/* The symbol of a code point. A code point above 0x10FFFF is a programming error. */
enum fold scan_fold(uint32_t code);

/* An ASCII character with that symbol. */
unsigned char scan_ascii(enum fold fold);

/* Decode the valid UTF-8 character at `s` (`left` > 0 bytes); its length, or 0 when there is none.
 */
size_t scan_decode(const unsigned char *s, size_t left, uint32_t *ret);

/* The start of the character that ends at `end` > 0; an invalid byte is a character by itself.
 * *ret is its code point, or UINT32_MAX for an invalid byte. */
size_t scan_decode_back(const unsigned char *s, size_t end, uint32_t *ret);

#endif
