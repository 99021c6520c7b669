/* glyph: text as characters that can be looked at and characters that cannot.
 *
 * Internal to text. libunistring's tables decide; what depends on the neighbours (joiners, emoji
 * variation selectors, piled-up marks) is decided here. Pure; threads: any.
 */
#ifndef GH_TEXT_GLYPH_H
#define GH_TEXT_GLYPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum glyph_kind {
    GLYPH_PLAIN,  /* written as it is */
    GLYPH_HIDDEN, /* a character that is invisible, reorders, or acts: written as an escape */
    GLYPH_BAD,    /* one byte that is not UTF-8: written as an escape */
};

struct glyph {
    enum glyph_kind kind;
    uint32_t code;        /* the code point; the byte for GLYPH_BAD */
    const char *bytes;    /* borrowed from the text */
    size_t len;           /* bytes */
    bool is_continuation; /* belongs to the character before it: never the place for a cut */
};

struct glyph_walk {
    const char *text; /* borrowed */
    size_t len;
    size_t at;         /* the next byte */
    uint32_t base;     /* the last plain character that is not a mark, or 0 */
    uint32_t last;     /* the last plain character, or 0 */
    unsigned marks;    /* combining marks on `base` so far */
    bool is_emoji;     /* `base` is an emoji and nothing but its own selectors came since */
    bool is_half_flag; /* `last` is the first of two regional indicators */
};

#define GLYPH_WALK(text, len) ((struct glyph_walk){(text), (len), 0, 0, 0, 0, false, false})

/* Step to the next character; false at the end. */
bool glyph_next(struct glyph_walk *walk, struct glyph *ret);

/* Skip the run of printable ASCII at the walk's place and return its length in bytes. */
size_t glyph_skip_ascii(struct glyph_walk *walk);

/* True for a character that leaves no ink anywhere: blanks, controls, format characters, fillers.
 */
bool glyph_is_inkless(uint32_t code);

/* Display columns of a plain character on a terminal. */
int glyph_columns(uint32_t code);

#endif
