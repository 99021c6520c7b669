#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

void gh_buf_fini(struct gh_buf *buf)
{
    free(buf->data);
    *buf = GH_BUF_INIT;
}

/* Make room for `more` bytes and the NUL. */
static bool reserve(struct gh_buf *buf, size_t more)
{
    if (buf->failed) {
        return false;
    }
    if (more > SIZE_MAX / 4 - buf->len) {
        buf->failed = true;
        return false;
    }
    size_t need = buf->len + more + 1;
    if (need <= buf->cap) {
        return true;
    }
    size_t cap = buf->cap < 64 ? 64 : buf->cap;
    while (cap < need) {
        cap *= 2;
    }
    char *data = realloc(buf->data, cap);
    if (data == NULL) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->cap = cap;
    return true;
}

void gh_buf_room(struct gh_buf *buf, size_t more)
{
    (void)reserve(buf, more);
}

void gh_buf_put(struct gh_buf *buf, const void *data, size_t len)
{
    if (len == 0 || !reserve(buf, len)) {
        return;
    }
    memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void gh_buf_puts(struct gh_buf *buf, const char *text)
{
    gh_buf_put(buf, text, strlen(text));
}

void gh_buf_putc(struct gh_buf *buf, char c)
{
    gh_buf_put(buf, &c, 1);
}

void gh_buf_printf(struct gh_buf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        buf->failed = true;
    } else if (reserve(buf, (size_t)n)) {
        vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, again);
        buf->len += (size_t)n;
    }
    va_end(again);
}

const char *gh_buf_str(const struct gh_buf *buf)
{
    return buf->data != NULL ? buf->data : "";
}

char *gh_buf_take(struct gh_buf *buf)
{
    char *taken = NULL;
    if (reserve(buf, 0)) {
        buf->data[buf->len] = '\0';
        taken = buf->data;
        buf->data = NULL;
    }
    gh_buf_fini(buf);
    return taken;
}

/* Length of the valid UTF-8 sequence at `s` (at most `left` bytes), or 0. */
static size_t utf8_len(const unsigned char *s, size_t left)
{
    static const struct {
        unsigned char first_lo, first_hi, second_lo, second_hi;
        size_t len;
    } forms[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
        {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
        {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (s[0] < forms[i].first_lo || s[0] > forms[i].first_hi) {
            continue;
        }
        if (left < forms[i].len || s[1] < forms[i].second_lo || s[1] > forms[i].second_hi) {
            return 0;
        }
        for (size_t k = 2; k < forms[i].len; k++) {
            if ((s[k] & 0xC0) != 0x80) {
                return 0;
            }
        }
        return forms[i].len;
    }
    return 0;
}

static void put_escape(struct gh_buf *buf, unsigned char c)
{
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (size_t i = 0; i + 1 < sizeof shorts; i += 2) {
        if ((unsigned char)shorts[i] == c) {
            const char pair[2] = {'\\', shorts[i + 1]};
            gh_buf_put(buf, pair, 2);
            return;
        }
    }
    static const char hex[] = "0123456789abcdef";
    const char unit[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    gh_buf_put(buf, unit, 6);
}

void gh_buf_json(struct gh_buf *buf, const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    gh_buf_putc(buf, '"');
    size_t plain = 0; /* start of the run not yet copied */
    for (size_t i = 0; i < len;) {
        if (s[i] >= 0x20 && s[i] < 0x7F && s[i] != '"' && s[i] != '\\') {
            i++;
            continue;
        }
        size_t n = s[i] >= 0x80 ? utf8_len(s + i, len - i) : 0;
        if (n > 0) {
            i += n;
            continue;
        }
        gh_buf_put(buf, text + plain, i - plain);
        if (s[i] >= 0x80) {
            gh_buf_puts(buf, "\xEF\xBF\xBD");
        } else {
            put_escape(buf, s[i]);
        }
        plain = ++i;
    }
    gh_buf_put(buf, text + plain, len - plain);
    gh_buf_putc(buf, '"');
}

/* Comma and key before a value. */
static void begin(struct gh_jw *w, const char *key)
{
    if (w->comma) {
        gh_buf_putc(w->buf, ',');
    }
    w->comma = true;
    if (key != NULL) {
        gh_buf_json(w->buf, key, strlen(key));
        gh_buf_putc(w->buf, ':');
    }
}

static void open_with(struct gh_jw *w, const char *key, char c)
{
    begin(w, key);
    gh_buf_putc(w->buf, c);
    w->comma = false;
}

static void close_with(struct gh_jw *w, char c)
{
    gh_buf_putc(w->buf, c);
    w->comma = true;
}

void gh_jw_obj(struct gh_jw *w, const char *key)
{
    open_with(w, key, '{');
}

void gh_jw_end(struct gh_jw *w)
{
    close_with(w, '}');
}

void gh_jw_arr(struct gh_jw *w, const char *key)
{
    open_with(w, key, '[');
}

void gh_jw_arr_end(struct gh_jw *w)
{
    close_with(w, ']');
}

void gh_jw_strn(struct gh_jw *w, const char *key, const char *value, size_t len)
{
    begin(w, key);
    gh_buf_json(w->buf, value, len);
}

void gh_jw_str(struct gh_jw *w, const char *key, const char *value)
{
    if (value == NULL) {
        gh_jw_null(w, key);
        return;
    }
    gh_jw_strn(w, key, value, strlen(value));
}

void gh_jw_int(struct gh_jw *w, const char *key, int64_t value)
{
    begin(w, key);
    gh_buf_printf(w->buf, "%lld", (long long)value);
}

void gh_jw_raw(struct gh_jw *w, const char *key, const char *json)
{
    begin(w, key);
    gh_buf_puts(w->buf, json);
}

void gh_jw_bool(struct gh_jw *w, const char *key, bool value)
{
    gh_jw_raw(w, key, value ? "true" : "false");
}

void gh_jw_null(struct gh_jw *w, const char *key)
{
    gh_jw_raw(w, key, "null");
}

void gh_jw_time(struct gh_jw *w, const char *key, int64_t wall_ms)
{
    if (wall_ms < 0) {
        gh_jw_null(w, key);
        return;
    }
    char text[GH_CLOCK_TEXT];
    gh_clock_format(wall_ms, text);
    gh_jw_str(w, key, text);
}
