#include "http/inner.h"

#include <string.h>

size_t http_target_room(const char *raw, size_t len)
{
    size_t n_params = 1;
    for (size_t i = 0; i < len; i++) {
        n_params += raw[i] == '&';
    }
    /* Each separator becomes a NUL in its place; a parameter without '=' needs one more. */
    return len + n_params + 3;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decode raw[0..len) once, end it with a NUL. Returns the bytes written with the NUL, 0 when it has
 * a bad escape or a NUL. */
static size_t decode(const char *raw, size_t len, bool plus_is_blank, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = raw[i];
        if (c == '%') {
            int high = len - i > 2 ? hex_digit(raw[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(raw[i + 2]) : -1;
            if (low < 0) {
                return 0;
            }
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        if (c == '\0') {
            return 0;
        }
        out[n++] = c;
    }
    out[n++] = '\0';
    return n;
}

/* Length of the well-formed UTF-8 sequence at `s` (ended by a NUL), 0 when there is none. */
static size_t sequence(const unsigned char *s)
{
    static const struct {
        unsigned char first, last, low, high, more; /* lead bytes, bounds of the second byte */
    } forms[] = {
        {0x01, 0x7f, 0, 0, 0},       {0xc2, 0xdf, 0x80, 0xbf, 1}, {0xe0, 0xe0, 0xa0, 0xbf, 2},
        {0xe1, 0xec, 0x80, 0xbf, 2}, {0xed, 0xed, 0x80, 0x9f, 2}, {0xee, 0xef, 0x80, 0xbf, 2},
        {0xf0, 0xf0, 0x90, 0xbf, 3}, {0xf1, 0xf3, 0x80, 0xbf, 3}, {0xf4, 0xf4, 0x80, 0x8f, 3},
    };
    size_t i = 0;
    while (i < sizeof(forms) / sizeof(*forms) && (*s < forms[i].first || *s > forms[i].last)) {
        i++;
    }
    if (i == sizeof(forms) / sizeof(*forms)) {
        return 0;
    }
    if (forms[i].more > 0 && (s[1] < forms[i].low || s[1] > forms[i].high)) {
        return 0;
    }
    for (size_t k = 2; k <= forms[i].more; k++) {
        if ((s[k] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return forms[i].more + 1u;
}

static bool is_utf8(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    while (*s != '\0') {
        size_t n = sequence(s);
        if (n == 0) {
            return false;
        }
        s += n;
    }
    return true;
}

/* A path that means one thing to every reader: no empty, "." or ".." segment, no backslash, no
 * control byte. */
static bool is_plain_path(const char *path)
{
    for (const char *s = path; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 0x20 || c == 0x7f || c == '\\') {
            return false;
        }
        if (c != '/') {
            continue;
        }
        size_t n = strcspn(s + 1, "/");
        if ((n == 0 && s[1] == '/') || (n == 1 && s[1] == '.') ||
            (n == 2 && s[1] == '.' && s[2] == '.')) {
            return false;
        }
    }
    return true;
}

/* Raw bytes a target may not hold whatever they would decode to. */
static bool has_odd_byte(const char *raw)
{
    for (const char *s = raw; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c <= 0x20 || c == 0x7f || c == '#' || c == '\\') {
            return true;
        }
    }
    return false;
}

/* Decode one "name=value" to `out`; bytes written, 0 when it is refused. */
static size_t parse_param(const char *raw, size_t len, char *out)
{
    const char *eq = memchr(raw, '=', len);
    size_t name_len = eq != NULL ? (size_t)(eq - raw) : len;
    size_t n = decode(raw, name_len, true, out);
    if (n == 0 || !is_utf8(out)) {
        return 0;
    }
    size_t value_at = eq != NULL ? name_len + 1 : len;
    size_t m = decode(raw + value_at, len - value_at, true, out + n);
    return m == 0 || !is_utf8(out + n) ? 0 : n + m;
}

static enum gh_code parse_query(const char *query, char *out, uint16_t *ret_n)
{
    uint16_t count = 0;
    for (const char *at = query; *at != '\0';) {
        size_t len = strcspn(at, "&");
        size_t n = len > 0 ? parse_param(at, len, out) : 0;
        if (len > 0 && (n == 0 || ++count > HTTP_MAX_PARAMS)) {
            return GH_BAD_REQUEST;
        }
        out += n;
        at += len + (at[len] == '&');
    }
    *ret_n = count;
    return GH_OK;
}

enum gh_code http_target_parse(const char *raw, char *out, uint16_t *ret_n_params)
{
    *ret_n_params = 0;
    out[0] = '\0';
    if (strlen(raw) > HTTP_MAX_TARGET) {
        return GH_URI_TOO_LONG;
    }
    if (raw[0] != '/' || has_odd_byte(raw)) {
        return GH_BAD_REQUEST;
    }
    size_t path_len = strcspn(raw, "?");
    size_t n = decode(raw, path_len, false, out);
    if (n == 0 || !is_utf8(out) || !is_plain_path(out)) {
        out[0] = '\0';
        return GH_BAD_REQUEST;
    }
    return raw[path_len] == '?' ? parse_query(raw + path_len + 1, out + n, ret_n_params) : GH_OK;
}

/* `len` lower-case hex digits at `s`, not all zero. */
static bool is_id(const char *s, size_t len)
{
    bool zero = true;
    for (size_t i = 0; i < len; i++) {
        if (hex_digit(s[i]) < 0 || (s[i] >= 'A' && s[i] <= 'F')) {
            return false;
        }
        zero = zero && s[i] == '0';
    }
    return !zero;
}

bool http_target_trace(const char *traceparent, char out[33])
{
    static const size_t whole = 55; /* 00-<32>-<16>-<2> */
    const char *s = traceparent;
    if (strlen(s) != whole || strncmp(s, "00-", 3) != 0 || s[35] != '-' || s[52] != '-' ||
        !is_id(s + 3, 32) || !is_id(s + 36, 16) || hex_digit(s[53]) < 0 || hex_digit(s[54]) < 0) {
        return false;
    }
    memcpy(out, s + 3, 32);
    out[32] = '\0';
    return true;
}
