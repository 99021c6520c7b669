#include "scan/scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "scan/automaton.h"

/* Bytes matched at a time: small enough for the stack and for the nearest cache. */
#define WINDOW_BYTES 16384
#define BLOCK_BYTES 32
#define LANES 4
/* Fewest bytes that are worth the lanes. */
#define MIN_LANES_BYTES 512

#define EXCERPT_SIDE_BYTES 80
/* The most of the found text itself in an excerpt: a phrase stuffed with invisible characters can
 * be of any length. */
#define EXCERPT_SPAN_BYTES 160

struct search {
    const struct scan *scan;
    const unsigned char *text;
    size_t len;
    size_t state;
    size_t phrase; /* the lowest phrase found, or SCAN_PHRASES */
    size_t end; /* behind its first occurrence; len + 1 when the end of the text is its last dot */
};

/* A stretch of the text as ASCII: each other character replaced by the one that it folds to. */
struct window {
    const unsigned char *bytes; /* `copy`, or the text itself where that is ASCII */
    size_t count;
    size_t phrase; /* the lowest phrase that ends in the window, or SCAN_PHRASES */
    size_t last;   /* the byte its first occurrence ends with */
    unsigned char copy[WINDOW_BYTES];
};

enum gh_code scan_new(struct scan **ret, struct gh_err *err)
{
    gh_autofree struct scan *scan = calloc(1, sizeof *scan);
    if (scan == NULL) {
        return gh_fail(err, GH_NOMEM, "no memory for the phrase list");
    }
    GH_TRY(scan_compile(scan, err));
    *ret = gh_steal(&scan);
    return GH_OK;
}

void scan_free(struct scan *scan)
{
    free(scan);
}

size_t scan_phrases(void)
{
    return SCAN_PHRASES;
}

const char *scan_phrase(size_t i)
{
    return scan_phrase_list[i];
}

/* No branches, so that the compiler can take the block at once. */
static bool is_block_ascii(const unsigned char *text)
{
    unsigned char all = 0;
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        all |= text[i];
    }
    return all < 0x80;
}

/* Where the ASCII that starts at `at` ends, at most `end`. */
static size_t find_ascii_end(const unsigned char *text, size_t at, size_t end)
{
    while (end - at >= BLOCK_BYTES && is_block_ascii(text + at)) {
        at += BLOCK_BYTES;
    }
    while (at < end && text[at] < 0x80) {
        at++;
    }
    return at;
}

/* Fold the character at `at` to one byte, or two; moves `at` behind it. */
static size_t fold_char(const struct search *search, size_t *at, unsigned char bytes[2])
{
    const struct scan *scan = search->scan;
    const unsigned char *s = search->text + *at;
    size_t count = 0;
    if (*s < 0x80) {
        bytes[count++] = *s;
        *at += 1;
        return count;
    }
    /* A backslash and the imitation of an n are no escape: something must stand between them. */
    if (*at > 0 && s[-1] == '\\') {
        bytes[count++] = SCAN_OTHER;
    }
    uint32_t code = 0;
    size_t n = scan_decode(s, search->len - *at, &code);
    bytes[count] = SCAN_OTHER;
    if (n > 0) {
        bytes[count] = code < sizeof scan->ascii ? scan->ascii[code] : scan_ascii(scan_fold(code));
    }
    *at += n > 0 ? n : 1;
    return count + 1;
}

/* Copy and fold from `at` while a window has room; returns where the next one starts. */
static size_t fold_window(const struct search *search, size_t at, struct window *window)
{
    size_t count = 0;
    while (at < search->len && count + 2 <= WINDOW_BYTES) {
        size_t left = search->len - at;
        size_t room = WINDOW_BYTES - count;
        size_t end = find_ascii_end(search->text, at, at + (left < room ? left : room));
        memcpy(window->copy + count, search->text + at, end - at);
        count += end - at;
        at = end;
        while (at < search->len && search->text[at] >= 0x80 && count + 2 <= WINDOW_BYTES) {
            count += fold_char(search, &at, window->copy + count);
        }
    }
    window->bytes = window->copy;
    window->count = count;
    return at;
}

/* Set the window to what starts at `at`; returns where the next one starts. */
static size_t open_window(const struct search *search, size_t at, struct window *window)
{
    window->phrase = SCAN_PHRASES;
    window->last = 0;
    size_t left = search->len - at;
    size_t end = at + (left < WINDOW_BYTES ? left : WINDOW_BYTES);
    if (find_ascii_end(search->text, at, end) < end) {
        return fold_window(search, at, window);
    }
    window->bytes = search->text + at;
    window->count = end - at;
    return end;
}

/* Where in the text byte `last` of the window that starts at `at` ends. */
static size_t find_end(const struct search *search, size_t at, size_t last)
{
    unsigned char bytes[2];
    for (size_t count = 0; count <= last;) {
        count += fold_char(search, &at, bytes);
    }
    return at;
}

static size_t phrase_of(const struct scan *scan, size_t state)
{
    bool is_hit = (state & SCAN_HIT) != 0;
    return is_hit ? scan->hit[(state >> SCAN_ROW_BITS) - SCAN_HIT_ROW] : SCAN_PHRASES;
}

/* Keep a hit if it is of an earlier phrase, or an earlier one of the same: lanes find out of order.
 */
static void note_hit(const struct scan *scan, struct window *window, size_t state, size_t at)
{
    size_t phrase = phrase_of(scan, state);
    if (phrase < window->phrase || (phrase == window->phrase && at < window->last)) {
        window->phrase = phrase;
        window->last = at;
    }
}

static size_t step(const struct scan *scan, size_t state, unsigned char ascii)
{
    return scan->next[state + scan->symbol[ascii]];
}

static size_t match_one(const struct scan *scan, struct window *window, size_t state, size_t from)
{
    for (size_t i = from; i < window->count; i++) {
        state = step(scan, state, window->bytes[i]);
        note_hit(scan, window, state, i);
    }
    return state;
}

/* Carry `state` into a lane that was run from the root and ended in `lane_end`. As soon as both
 * agree the rest of the lane is known. */
static size_t match_seam(const struct scan *scan, struct window *window, size_t state, size_t from,
                         size_t lane_end)
{
    size_t lane = SCAN_ROOT;
    size_t to = from + window->count / LANES;
    for (size_t i = from; i < to && state != lane; i++) {
        state = step(scan, state, window->bytes[i]);
        lane = step(scan, lane, window->bytes[i]);
        note_hit(scan, window, state, i);
    }
    return state == lane ? lane_end : state;
}

/* Four walks side by side: each waits for its table row, and the waits overlap. */
static size_t match_lanes(const struct scan *scan, struct window *window, size_t state)
{
    size_t n = window->count / LANES;
    const unsigned char *s = window->bytes;
    size_t a = state;
    size_t b = SCAN_ROOT;
    size_t c = SCAN_ROOT;
    size_t d = SCAN_ROOT;
    for (size_t i = 0; i < n; i++) {
        a = step(scan, a, s[i]);
        b = step(scan, b, s[n + i]);
        c = step(scan, c, s[2 * n + i]);
        d = step(scan, d, s[3 * n + i]);
        if (((a | b | c | d) & SCAN_HIT) != 0) {
            note_hit(scan, window, a, i);
            note_hit(scan, window, b, n + i);
            note_hit(scan, window, c, 2 * n + i);
            note_hit(scan, window, d, 3 * n + i);
        }
    }
    state = match_seam(scan, window, a, n, b);
    state = match_seam(scan, window, state, 2 * n, c);
    state = match_seam(scan, window, state, 3 * n, d);
    return match_one(scan, window, state, LANES * n);
}

static void match_text(struct search *search)
{
    const struct scan *scan = search->scan;
    struct window window;
    /* No phrase comes before the first of the list, so its first occurrence ends the search. */
    for (size_t at = 0; at < search->len && search->phrase != 0;) {
        size_t start = at;
        at = open_window(search, at, &window);
        search->state = window.count < MIN_LANES_BYTES ? match_one(scan, &window, search->state, 0)
                                                       : match_lanes(scan, &window, search->state);
        if (window.phrase < search->phrase) {
            search->phrase = window.phrase;
            search->end = find_end(search, start, window.last);
        }
    }
    size_t phrase = phrase_of(scan, step(scan, search->state, '.'));
    if (phrase < search->phrase) {
        search->phrase = phrase;
        search->end = search->len + 1;
    }
}

/* The start of the symbol that ends at `end`; an escape is one symbol. */
static size_t symbol_back(const unsigned char *text, size_t end, enum fold *ret)
{
    if (end >= 2 && text[end - 2] == '\\' && strchr("nrtNRT", text[end - 1]) != NULL &&
        text[end - 1] != '\0') {
        *ret = FOLD_BLANK;
        return end - 2;
    }
    uint32_t code = 0;
    size_t start = scan_decode_back(text, end, &code);
    *ret = code == UINT32_MAX ? FOLD_OTHER : scan_fold(code);
    return start;
}

/* The first byte of the hit, by walking its phrase backwards from its end. */
static size_t find_start(const struct search *search)
{
    size_t left = strlen(scan_phrase_list[search->phrase]);
    size_t at = search->end;
    if (at > search->len) {
        at = search->len;
        left--;
    }
    enum fold last = FOLD_OTHER;
    while (left > 0 && at > 0) {
        enum fold symbol = FOLD_OTHER;
        at = symbol_back(search->text, at, &symbol);
        if (symbol == FOLD_NOTHING || (symbol == FOLD_BLANK && last == FOLD_BLANK)) {
            continue;
        }
        last = symbol;
        left--;
    }
    return at;
}

struct excerpt {
    char *text;
    size_t len, cap;
};

/* Append the bytes [from, to) without control characters and with stray bytes replaced. */
static void put_clean(struct excerpt *excerpt, const unsigned char *text, size_t from, size_t to)
{
    while (from < to) {
        uint32_t code = 0;
        size_t n = scan_decode(text + from, to - from, &code);
        const char *bytes = n > 0 ? (const char *)text + from : "\xEF\xBF\xBD";
        size_t len = n > 0 ? n : 3;
        from += n > 0 ? n : 1;
        bool is_kept = code == '\n' || code == '\r' || code == '\t';
        bool is_control = n > 0 && (code < 0x20 || (code >= 0x7F && code <= 0x9F));
        if ((is_control && !is_kept) || excerpt->len + len >= excerpt->cap) {
            continue;
        }
        memcpy(excerpt->text + excerpt->len, bytes, len);
        excerpt->len += len;
    }
    excerpt->text[excerpt->len] = '\0';
}

/* Move `at` outward or inward to where a character starts, at most three bytes. */
static size_t char_start(const unsigned char *text, size_t len, size_t at)
{
    for (size_t back = 1; at < len && back <= 3 && back <= at; back++) {
        uint32_t code = 0;
        if (scan_decode(text + at - back, len - (at - back), &code) > back) {
            return at - back;
        }
    }
    return at;
}

static size_t char_end(const unsigned char *text, size_t len, size_t at)
{
    size_t start = char_start(text, len, at);
    uint32_t code = 0;
    return start == at ? at : start + scan_decode(text + start, len - start, &code);
}

static void cut_excerpt(const struct search *search, struct scan_finding *finding)
{
    const unsigned char *text = search->text;
    size_t start = finding->offset;
    size_t end = start + finding->length;
    size_t from = start > EXCERPT_SIDE_BYTES ? start - EXCERPT_SIDE_BYTES : 0;
    size_t to = search->len - end > EXCERPT_SIDE_BYTES ? end + EXCERPT_SIDE_BYTES : search->len;
    from = char_start(text, search->len, from);
    to = char_end(text, search->len, to);
    struct excerpt excerpt = {finding->excerpt, 0, sizeof finding->excerpt};
    if (finding->length <= EXCERPT_SPAN_BYTES) {
        put_clean(&excerpt, text, from, to);
        return;
    }
    size_t half = EXCERPT_SPAN_BYTES / 2;
    put_clean(&excerpt, text, from, char_start(text, search->len, start + half));
    put_clean(&excerpt, (const unsigned char *)"\xE2\x80\xA6", 0, 3);
    put_clean(&excerpt, text, char_end(text, search->len, end - half), to);
}

bool scan_text(const struct scan *scan, const char *text, size_t len, struct scan_finding *ret)
{
    struct search search = {
        .scan = scan,
        .text = (const unsigned char *)text,
        .len = len,
        .state = SCAN_ROOT,
        .phrase = SCAN_PHRASES,
    };
    match_text(&search);
    if (search.phrase == SCAN_PHRASES) {
        return false;
    }
    ret->marker = scan_phrase_list[search.phrase];
    ret->offset = find_start(&search);
    ret->length = (search.end < len ? search.end : len) - ret->offset;
    cut_excerpt(&search, ret);
    return true;
}
