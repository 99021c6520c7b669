#include "gate/glob.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"

/* Code points end at 0x10ffff; a byte that is not UTF-8 becomes this plus itself. */
#define RAW_BYTE 0x110000U

struct text {
    const char *at;
    const char *end;
};

static size_t sequence_len(unsigned char lead)
{
    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xc2 && lead < 0xe0) {
        return 2;
    }
    if (lead >= 0xe0 && lead < 0xf0) {
        return 3;
    }
    return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

/* Take one character; there is at least one byte. */
static uint32_t take(struct text *text)
{
    static const unsigned char lead_bits[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned char lead = (unsigned char)*text->at;
    size_t n = sequence_len(lead);
    uint32_t c = n > 0 ? lead & lead_bits[n] : 0;
    bool is_whole = n > 0 && n <= (size_t)(text->end - text->at);
    for (size_t i = 1; is_whole && i < n; i++) {
        unsigned char byte = (unsigned char)text->at[i];
        is_whole = (byte & 0xc0) == 0x80;
        c = c << 6 | (byte & 0x3f);
    }
    text->at += is_whole ? n : 1;
    return is_whole ? c : RAW_BYTE + lead;
}

static uint32_t fold(uint32_t c, bool is_folded)
{
    return is_folded && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

/* One member of a class, or an ordinary character of a pattern: escapes removed. */
static uint32_t take_literal(struct text *pattern)
{
    if (*pattern->at == '\\' && pattern->at + 1 < pattern->end) {
        pattern->at++;
    }
    return take(pattern);
}

/* `pattern` stands behind the "["; afterwards behind the "]". */
static bool match_class(struct text *pattern, uint32_t c, bool is_folded)
{
    bool is_negated = *pattern->at == '!' || *pattern->at == '^';
    bool is_hit = false;
    pattern->at += is_negated ? 1 : 0;
    for (bool is_first = true; pattern->at < pattern->end; is_first = false) {
        if (*pattern->at == ']' && !is_first) {
            pattern->at++;
            break;
        }
        uint32_t low = take_literal(pattern);
        uint32_t high = low;
        if (pattern->end - pattern->at > 1 && pattern->at[0] == '-' && pattern->at[1] != ']') {
            pattern->at++;
            high = take_literal(pattern);
        }
        is_hit = is_hit || (c >= low && c <= high);
        if (is_folded && c < 0x80) {
            uint32_t other = c ^ 0x20;
            bool is_letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
            is_hit = is_hit || (is_letter && other >= low && other <= high);
        }
    }
    return is_hit != is_negated;
}

/* Match one character against one element (not a star) of the pattern. */
static bool match_one(struct text *pattern, uint32_t c, bool is_folded)
{
    switch (*pattern->at) {
    case '?':
        pattern->at++;
        return true;
    case '[':
        pattern->at++;
        return match_class(pattern, c, is_folded);
    default:
        return fold(take_literal(pattern), is_folded) == fold(c, is_folded);
    }
}

bool gate_glob_match(const char *pattern, const char *name, size_t len, bool is_folded)
{
    struct text p = {pattern, pattern + strlen(pattern)};
    struct text n = {name, name + len};
    const char *star = NULL; /* where to take up again: behind the last star ... */
    struct text retry = n;   /* ... with the star one character longer */
    while (n.at < n.end) {
        if (p.at < p.end && *p.at == '*') {
            star = ++p.at;
            retry = n;
            continue;
        }
        if (p.at < p.end && match_one(&p, take(&n), is_folded)) {
            continue;
        }
        if (star == NULL) {
            return false;
        }
        take(&retry);
        n = retry;
        p.at = star;
    }
    p.at += strspn(p.at, "*");
    return p.at == p.end;
}

/* The end of the class that starts at the "[" (its "]"), or NULL. */
static const char *class_end(const char *at)
{
    at++;
    at += *at == '!' || *at == '^' ? 1 : 0;
    for (bool is_first = true; *at != '\0'; at++, is_first = false) {
        if (*at == ']' && !is_first) {
            return at;
        }
        if (*at == '\\' && at[1] != '\0') {
            at++;
        }
    }
    return NULL;
}

/* The first character at or after `at` that is in `set`, outside classes and escapes; the end when
 * there is none, NULL when the pattern is broken before it. */
static const char *find_plain(const char *at, const char *set)
{
    for (; *at != '\0' && strchr(set, *at) == NULL; at++) {
        if (*at == '[') {
            at = class_end(at);
            if (at == NULL) {
                return NULL;
            }
        } else if (*at == '\\') {
            at++;
            if (*at == '\0') {
                return NULL;
            }
        }
    }
    return at;
}

bool gate_glob_is_valid(const char *pattern)
{
    int depth = 0;
    const char *at = find_plain(pattern, "{}");
    while (at != NULL && *at != '\0') {
        if (*at == '{') {
            depth++;
        } else if (depth > 0) {
            depth--;
        }
        at = find_plain(at + 1, "{}");
    }
    return at != NULL && depth == 0;
}

/* The end of the alternative that starts at `at`: its "," or "}" of the same depth. */
static const char *alternative_end(const char *at)
{
    for (int depth = 0; at != NULL && *at != '\0'; at++) {
        at = find_plain(at, "{},");
        if (at == NULL || *at == '\0' || (depth == 0 && *at != '{')) {
            return at;
        }
        depth += *at == '{' ? 1 : *at == '}' ? -1 : 0;
    }
    return at;
}

struct expansion {
    bool (*fn)(const char *pattern, void *cookie);
    void *cookie;
    int n;
};

/* Depth is bounded by the number of open braces, and the patterns made by the counter. */
static bool expand(struct expansion *x, const char *pattern)
{
    if (x->n >= GATE_GLOB_MAX_ALTERNATIVES) {
        return false;
    }
    const char *open = find_plain(pattern, "{");
    if (open == NULL || *open == '\0') {
        x->n++;
        return x->fn(pattern, x->cookie);
    }
    const char *close = open;
    do {
        close = alternative_end(close + 1);
    } while (close != NULL && *close == ',');
    if (close == NULL || *close == '\0') {
        return false;
    }
    const char *end = open;
    do {
        const char *start = end + 1;
        end = alternative_end(start);
        gh_auto(gh_buf_fini) struct gh_buf one = GH_BUF_INIT;
        gh_buf_put(&one, pattern, (size_t)(open - pattern));
        gh_buf_put(&one, start, (size_t)(end - start));
        gh_buf_puts(&one, close + 1);
        if (one.failed || !expand(x, gh_buf_str(&one))) {
            return false;
        }
    } while (end < close);
    return true;
}

bool gate_glob_expand(const char *pattern, bool (*fn)(const char *pattern, void *cookie),
                      void *cookie)
{
    struct expansion x = {fn, cookie, 0};
    return expand(&x, pattern);
}
