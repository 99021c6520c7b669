#include "scan/fold.h"

#include <stdbool.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

struct range {
    uint32_t first, last;
    enum fold fold;
};

/* Beside the letters; in order. White space is Unicode's and the blank-looking fillers; nothing are
 * controls, format characters, variation selectors, tags and combining marks. */
static const struct range ranges[] = {
    {0x0000, 0x0008, FOLD_NOTHING},    {0x0009, 0x000D, FOLD_BLANK},
    {0x000E, 0x001F, FOLD_NOTHING},    {0x0020, 0x0020, FOLD_BLANK},
    {0x0021, 0x0021, FOLD_STOP},       {0x0027, 0x0027, FOLD_APOSTROPHE},
    {0x002C, 0x002C, FOLD_STOP},       {0x002E, 0x002E, FOLD_STOP},
    {0x003A, 0x003B, FOLD_STOP},       {0x003F, 0x003F, FOLD_STOP},
    {0x005C, 0x005C, FOLD_BACKSLASH},  {0x007F, 0x0084, FOLD_NOTHING},
    {0x0085, 0x0085, FOLD_BLANK},      {0x0086, 0x009F, FOLD_NOTHING},
    {0x00A0, 0x00A0, FOLD_BLANK},      {0x00AD, 0x00AD, FOLD_NOTHING},
    {0x0300, 0x036F, FOLD_NOTHING},    {0x061C, 0x061C, FOLD_NOTHING},
    {0x115F, 0x1160, FOLD_BLANK},      {0x1680, 0x1680, FOLD_BLANK},
    {0x17B4, 0x17B5, FOLD_NOTHING},    {0x180B, 0x180F, FOLD_NOTHING},
    {0x1AB0, 0x1AFF, FOLD_NOTHING},    {0x1DC0, 0x1DFF, FOLD_NOTHING},
    {0x2000, 0x200A, FOLD_BLANK},      {0x200B, 0x200F, FOLD_NOTHING},
    {0x2018, 0x2019, FOLD_APOSTROPHE}, {0x2028, 0x2029, FOLD_BLANK},
    {0x202A, 0x202E, FOLD_NOTHING},    {0x202F, 0x202F, FOLD_BLANK},
    {0x205F, 0x205F, FOLD_BLANK},      {0x2060, 0x206F, FOLD_NOTHING},
    {0x20D0, 0x20FF, FOLD_NOTHING},    {0x2800, 0x2800, FOLD_BLANK},
    {0x3000, 0x3000, FOLD_BLANK},      {0x3001, 0x3002, FOLD_STOP},
    {0x3164, 0x3164, FOLD_BLANK},      {0xFE00, 0xFE0F, FOLD_NOTHING},
    {0xFE20, 0xFE2F, FOLD_NOTHING},    {0xFEFF, 0xFEFF, FOLD_NOTHING},
    {0xFF01, 0xFF01, FOLD_STOP},       {0xFF07, 0xFF07, FOLD_APOSTROPHE},
    {0xFF0C, 0xFF0C, FOLD_STOP},       {0xFF0E, 0xFF0E, FOLD_STOP},
    {0xFF1A, 0xFF1B, FOLD_STOP},       {0xFF1F, 0xFF1F, FOLD_STOP},
    {0xFFA0, 0xFFA0, FOLD_BLANK},      {0xFFF9, 0xFFFB, FOLD_NOTHING},
    {0x1BCA0, 0x1BCA3, FOLD_NOTHING},  {0x1D173, 0x1D17A, FOLD_NOTHING},
    {0xE0000, 0xE0FFF, FOLD_NOTHING},
};

struct run {
    uint32_t first;
    const char *letters;
};

#define LOOKALIKE(first, letters) {first, letters},
static const struct run runs[] = {
#include "lookalikes.def"
};

/* The last run that starts at or before `code`, or NULL. */
static const struct run *find_run(uint32_t code)
{
    size_t low = 0;
    size_t high = COUNT(runs);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (runs[middle].first <= code) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? &runs[low - 1] : NULL;
}

static enum fold letter(char c)
{
    return (enum fold)(FOLD_A + (c - 'a'));
}

enum fold scan_fold(uint32_t code)
{
    if ((code | 0x20) >= 'a' && (code | 0x20) <= 'z') {
        return letter((char)(code | 0x20));
    }
    for (size_t i = 0; i < COUNT(ranges) && ranges[i].first <= code; i++) {
        if (code <= ranges[i].last) {
            return ranges[i].fold;
        }
    }
    const struct run *run = find_run(code);
    if (run == NULL || code - run->first >= strlen(run->letters)) {
        return FOLD_OTHER;
    }
    char c = run->letters[code - run->first];
    return c == '-' ? FOLD_OTHER : letter(c);
}

unsigned char scan_ascii(enum fold fold)
{
    static const unsigned char ascii[] = {
        [FOLD_OTHER] = SCAN_OTHER, [FOLD_BLANK] = ' ',      [FOLD_APOSTROPHE] = '\'',
        [FOLD_STOP] = '.',         [FOLD_BACKSLASH] = '\\', [FOLD_NOTHING] = '\x7F',
    };
    bool is_letter = fold >= FOLD_A && fold < FOLD_APOSTROPHE;
    return is_letter ? (unsigned char)('a' + (fold - FOLD_A)) : ascii[fold];
}

static bool is_tail(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

size_t scan_decode(const unsigned char *s, size_t left, uint32_t *ret)
{
    unsigned char c = s[0];
    if (c < 0x80) {
        *ret = c;
        return 1;
    }
    if (c >= 0xC2 && c <= 0xDF && left >= 2 && is_tail(s[1])) {
        *ret = (uint32_t)(c & 0x1F) << 6 | (s[1] & 0x3F);
        return 2;
    }
    if ((c & 0xF0) == 0xE0 && left >= 3 && is_tail(s[1]) && is_tail(s[2])) {
        uint32_t code = (uint32_t)(c & 0x0F) << 12 | (uint32_t)(s[1] & 0x3F) << 6 | (s[2] & 0x3F);
        *ret = code;
        return code >= 0x800 && (code < 0xD800 || code > 0xDFFF) ? 3 : 0;
    }
    if ((c & 0xF8) == 0xF0 && left >= 4 && is_tail(s[1]) && is_tail(s[2]) && is_tail(s[3])) {
        uint32_t code = (uint32_t)(c & 0x07) << 18 | (uint32_t)(s[1] & 0x3F) << 12 |
                        (uint32_t)(s[2] & 0x3F) << 6 | (s[3] & 0x3F);
        *ret = code;
        return code >= 0x10000 && code <= 0x10FFFF ? 4 : 0;
    }
    return 0;
}

size_t scan_decode_back(const unsigned char *s, size_t end, uint32_t *ret)
{
    for (size_t n = 1; n <= 4 && n <= end; n++) {
        if (scan_decode(s + end - n, n, ret) == n) {
            return end - n;
        }
    }
    *ret = UINT32_MAX;
    return end - 1;
}
