#include "text/neutral.h"

#include <string.h>

#include "base/auto.h"
#include "text/glyph.h"

/* Longest escape, "\u{10ffff}", and the NUL. */
#define ESCAPE_BYTES 12

/* Write the visible form of a hidden character or a stray byte; returns its length. */
static size_t write_escape(const struct glyph *glyph, char out[ESCAPE_BYTES])
{
    static const char hex[] = "0123456789abcdef";
    static const char names[] = "\nn\rr\tt";
    for (size_t i = 0; glyph->kind == GLYPH_HIDDEN && i + 1 < sizeof names; i += 2) {
        if (glyph->code == (unsigned char)names[i]) {
            out[0] = '\\';
            out[1] = names[i + 1];
            return 2;
        }
    }
    if (glyph->kind == GLYPH_BAD || glyph->code < 0x80) {
        memcpy(out, "\\x", 2);
        out[2] = hex[glyph->code >> 4];
        out[3] = hex[glyph->code & 15];
        return 4;
    }
    size_t n = 0;
    memcpy(out, "\\u{", 3);
    n = 3;
    for (int shift = 20; shift >= 0; shift -= 4) {
        if (n > 3 || shift <= 4 || glyph->code >> shift != 0) {
            out[n++] = hex[(glyph->code >> shift) & 15];
        }
    }
    out[n++] = '}';
    return n;
}

size_t text_neutral(const char *text, size_t len, bool keep_lines, struct gh_buf *out)
{
    struct glyph_walk walk = GLYPH_WALK(text, len);
    struct glyph glyph;
    size_t shown = 0;
    while (walk.at < len) {
        size_t start = walk.at;
        gh_buf_put(out, text + start, glyph_skip_ascii(&walk));
        if (!glyph_next(&walk, &glyph)) {
            break;
        }
        bool is_line = keep_lines && (glyph.code == '\n' || glyph.code == '\t');
        if (glyph.kind == GLYPH_PLAIN || is_line) {
            gh_buf_put(out, glyph.bytes, glyph.len);
            continue;
        }
        char escape[ESCAPE_BYTES];
        gh_buf_put(out, escape, write_escape(&glyph, escape));
        shown++;
    }
    return shown;
}

/* Whether the word means itself to a shell and to an eye without quotes. */
static bool is_bare_word(const char *word, size_t len)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_@%+=:,./-";
    struct glyph_walk walk = GLYPH_WALK(word, len);
    struct glyph glyph;
    while (glyph_next(&walk, &glyph)) {
        if (glyph.kind != GLYPH_PLAIN) {
            return false;
        }
        if (glyph.code < 0x80 && strchr(safe, (int)glyph.code) == NULL) {
            return false;
        }
    }
    return len > 0;
}

size_t text_shell_word(const char *word, struct gh_buf *out)
{
    size_t len = strlen(word);
    if (is_bare_word(word, len)) {
        gh_buf_put(out, word, len);
        return 0;
    }
    size_t shown = 0;
    gh_buf_putc(out, '\'');
    for (const char *at = word;;) {
        size_t piece = strcspn(at, "'");
        shown += text_neutral(at, piece, true, out);
        if (at[piece] == '\0') {
            break;
        }
        gh_buf_puts(out, "'\\''");
        at += piece + 1;
    }
    gh_buf_putc(out, '\'');
    return shown;
}

bool text_is_invisible(const char *text, size_t len)
{
    struct glyph_walk walk = GLYPH_WALK(text, len);
    struct glyph glyph;
    while (glyph_next(&walk, &glyph)) {
        if (glyph.kind == GLYPH_BAD || !glyph_is_inkless(glyph.code)) {
            return false;
        }
    }
    return true;
}

/* Append one character for a terminal; returns its columns. */
static size_t put_for_terminal(const struct glyph *glyph, struct gh_buf *out)
{
    if (glyph->kind == GLYPH_PLAIN) {
        gh_buf_put(out, glyph->bytes, glyph->len);
        return (size_t)glyph_columns(glyph->code);
    }
    char escape[ESCAPE_BYTES];
    size_t len = write_escape(glyph, escape);
    gh_buf_put(out, escape, len);
    return len;
}

void text_for_terminal(const char *text, size_t columns, struct gh_buf *out)
{
    static const char dots[] = "...";
    if (columns == 0) {
        text_neutral(text, strlen(text), false, out);
        return;
    }
    size_t n_dots = columns < sizeof dots - 1 ? columns : sizeof dots - 1;
    struct glyph_walk walk = GLYPH_WALK(text, strlen(text));
    struct glyph glyph;
    size_t used = 0;
    size_t cut = out->len; /* the last place that leaves room for the dots */
    while (glyph_next(&walk, &glyph)) {
        if (!glyph.is_continuation && used + n_dots <= columns) {
            cut = out->len;
        }
        used += put_for_terminal(&glyph, out);
        if (used > columns && !out->failed) {
            out->len = cut;
            gh_buf_put(out, dots, n_dots);
            return;
        }
    }
}
