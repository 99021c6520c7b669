#include "text/glyph.h"

#include <unictype.h>
#include <unistr.h>
#include <uniwidth.h>

#define ZWNJ 0x200C
#define ZWJ 0x200D
#define TEXT_SELECTOR 0xFE0E
#define EMOJI_SELECTOR 0xFE0F
#define KEYCAP 0x20E3
#define CLASS_VIRAMA 9

/* Real orthographies stay below; a pile of marks paints over the lines around it. */
#define MAX_MARKS 8

struct range {
    uint32_t first, last;
};

/* Format characters by category, yet drawn: Arabic and Syriac number signs, Kaithi number signs. */
static const struct range drawn_formats[] = {
    {0x0600, 0x0605}, {0x06DD, 0x06DD},   {0x070F, 0x070F},   {0x0890, 0x0891},
    {0x08E2, 0x08E2}, {0x110BD, 0x110BD}, {0x110CD, 0x110CD},
};

/* Symbols and marks by category, yet blank: Braille without dots, null notehead, Khitan filler. */
static const struct range blank_symbols[] = {
    {0x2800, 0x2800},
    {0x16FE4, 0x16FE4},
    {0x1D159, 0x1D159},
};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static bool is_within(uint32_t code, const struct range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (code >= ranges[i].first && code <= ranges[i].last) {
            return true;
        }
    }
    return false;
}

static bool has_category(uint32_t code, uint32_t mask)
{
    return uc_is_general_category_withtable(code, mask);
}

static bool is_mark(uint32_t code)
{
    return code >= 0x0300 &&
           has_category(code, UC_CATEGORY_MASK_Mn | UC_CATEGORY_MASK_Me | UC_CATEGORY_MASK_Mc);
}

static bool is_regional(uint32_t code)
{
    return code >= 0x1F1E6 && code <= 0x1F1FF;
}

bool glyph_is_inkless(uint32_t code)
{
    if (code > ' ' && code < 0x7F) {
        return false;
    }
    if (has_category(code, UC_CATEGORY_MASK_Cc | UC_CATEGORY_MASK_Cf | UC_CATEGORY_MASK_Z)) {
        return !is_within(code, drawn_formats, COUNT(drawn_formats));
    }
    return uc_is_property_default_ignorable_code_point(code) ||
           is_within(code, blank_symbols, COUNT(blank_symbols));
}

/* Decode at `at`; the length, or 0 when the byte there does not start a valid character. */
static size_t decode(const struct glyph_walk *walk, size_t at, uint32_t *ret)
{
    if (at >= walk->len) {
        return 0;
    }
    int n = u8_mbtoucr(ret, (const uint8_t *)walk->text + at, walk->len - at);
    return n > 0 ? (size_t)n : 0;
}

static bool joins_forward(uint32_t code)
{
    int type = code == 0 ? UC_JOINING_TYPE_U : uc_joining_type(code);
    return type == UC_JOINING_TYPE_D || type == UC_JOINING_TYPE_L;
}

static bool joins_back(uint32_t code)
{
    int type = code == 0 ? UC_JOINING_TYPE_U : uc_joining_type(code);
    return type == UC_JOINING_TYPE_D || type == UC_JOINING_TYPE_R;
}

/* The emoji blocks have places that are reserved: emoji by property, and yet unassigned. */
static bool is_drawn_emoji(uint32_t code)
{
    return uc_is_property_extended_pictographic(code) && !has_category(code, UC_CATEGORY_MASK_Cn);
}

/* Whether a zero width joiner or non-joiner is part of the writing here: behind a virama, where it
 * breaks or forces a cursive connection, before a virama, and between the parts of an emoji. */
static bool is_joiner_at_home(const struct glyph_walk *walk, uint32_t code, uint32_t next)
{
    if (walk->last == 0 || walk->last == ZWJ || walk->last == ZWNJ) {
        return false;
    }
    if (is_mark(walk->last) && uc_combining_class(walk->last) == CLASS_VIRAMA) {
        return true;
    }
    bool forward = joins_forward(walk->base);
    bool back = joins_back(next);
    if (code == ZWNJ) {
        return forward && back;
    }
    bool is_before_virama = next != 0 && uc_combining_class(next) == CLASS_VIRAMA;
    return forward != back || (walk->is_emoji && is_drawn_emoji(next)) ||
           (is_before_virama && walk->marks < MAX_MARKS);
}

/* An emoji or text selector right behind a character that has both forms. */
static bool is_selector_at_home(const struct glyph_walk *walk, uint32_t next)
{
    if (walk->last == 0 || !uc_is_property_emoji(walk->last)) {
        return false;
    }
    return walk->last >= 0x80 || next == KEYCAP;
}

/* The characters whose treatment depends on what stands around them. */
static bool is_contextual_hidden(const struct glyph_walk *walk, uint32_t code, size_t end)
{
    uint32_t next = 0;
    if (decode(walk, end, &next) == 0) {
        next = 0;
    }
    return code == ZWNJ || code == ZWJ ? !is_joiner_at_home(walk, code, next)
                                       : !is_selector_at_home(walk, next);
}

static bool is_hidden(const struct glyph_walk *walk, uint32_t code, size_t end)
{
    if (code < 0x80) {
        return code < ' ' || code == 0x7F;
    }
    if (code == ZWNJ || code == ZWJ || code == TEXT_SELECTOR || code == EMOJI_SELECTOR) {
        return is_contextual_hidden(walk, code, end);
    }
    /* A mark without a base would attach itself to whatever stands before the text. */
    if (is_mark(code) && (walk->base == 0 || walk->marks >= MAX_MARKS)) {
        return true;
    }
    return glyph_is_inkless(code) ||
           has_category(code, UC_CATEGORY_MASK_Co | UC_CATEGORY_MASK_Cn | UC_CATEGORY_MASK_Cs);
}

static void note_hidden(struct glyph_walk *walk, const struct glyph *glyph)
{
    walk->last = 0;
    walk->is_emoji = false;
    walk->is_half_flag = false;
    /* The ninth mark is shown, and so is the tenth: the pile does not start again behind an escape.
     */
    if (!is_mark(glyph->code)) {
        walk->base = 0;
        walk->marks = 0;
    }
}

static void note_plain(struct glyph_walk *walk, struct glyph *glyph)
{
    uint32_t code = glyph->code;
    bool is_joiner = code == ZWJ || code == ZWNJ;
    bool is_selector = code == TEXT_SELECTOR || code == EMOJI_SELECTOR;
    bool is_modifier = walk->is_emoji && uc_is_property_emoji_modifier(code);
    bool is_attached = is_mark(code);
    bool is_second_flag = walk->is_half_flag && is_regional(code);
    bool is_joined = walk->last == ZWJ || walk->last == ZWNJ;
    glyph->is_continuation =
        is_joiner || is_selector || is_modifier || is_attached || is_second_flag || is_joined;
    walk->is_half_flag = is_regional(code) && !is_second_flag;
    walk->last = code;
    if (is_joiner || is_selector || is_modifier) {
        return;
    }
    walk->marks = is_attached ? walk->marks + 1 : 0;
    if (!is_attached) {
        walk->base = code;
        walk->is_emoji = code >= 0x80 && uc_is_property_extended_pictographic(code);
    }
}

bool glyph_next(struct glyph_walk *walk, struct glyph *ret)
{
    if (walk->at >= walk->len) {
        return false;
    }
    *ret = (struct glyph){.kind = GLYPH_BAD, .bytes = walk->text + walk->at};
    ret->len = decode(walk, walk->at, &ret->code);
    if (ret->len == 0) {
        ret->code = (unsigned char)walk->text[walk->at];
        ret->len = 1;
        walk->base = 0;
        note_hidden(walk, ret);
    } else if (is_hidden(walk, ret->code, walk->at + ret->len)) {
        ret->kind = GLYPH_HIDDEN;
        note_hidden(walk, ret);
    } else {
        ret->kind = GLYPH_PLAIN;
        note_plain(walk, ret);
    }
    walk->at += ret->len;
    return true;
}

#define BLOCK 32

/* Written so that the compiler can look at a whole block at once. */
static bool is_block_ascii(const unsigned char *s)
{
    unsigned char odd = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        odd |= (unsigned char)((unsigned char)(s[i] - ' ') > '~' - ' ');
    }
    return odd == 0;
}

size_t glyph_skip_ascii(struct glyph_walk *walk)
{
    const unsigned char *s = (const unsigned char *)walk->text;
    size_t start = walk->at;
    size_t at = start;
    while (walk->len - at >= BLOCK && is_block_ascii(s + at)) {
        at += BLOCK;
    }
    while (at < walk->len && s[at] >= ' ' && s[at] <= '~') {
        at++;
    }
    if (at > start) {
        walk->base = s[at - 1];
        walk->last = s[at - 1];
        walk->marks = 0;
        walk->is_emoji = false;
        walk->is_half_flag = false;
    }
    walk->at = at;
    return at - start;
}

int glyph_columns(uint32_t code)
{
    int columns = uc_width(code, "UTF-8");
    /* Some terminals draw an emoji wide once it is asked for; count it so everywhere. */
    return code == EMOJI_SELECTOR ? 1 : columns > 0 ? columns : 0;
}
