#include "cli/out.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/fs.h"

#define LABEL_COLUMNS 10
#define PATH_COLUMNS 30
#define LABEL_INDENT "           " /* one more */

void cli_out_init(struct cli_out *out)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    struct winsize size;
    *out = (struct cli_out){.columns = 80, .is_tty = isatty(STDOUT_FILENO) == 1};
    if (out->is_tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) {
        out->columns = size.ws_col;
    }
    out->has_color = out->is_tty && (no_color == NULL || no_color[0] == '\0') && term != NULL &&
                     strcmp(term, "dumb") != 0;
}

void cli_out_fini(struct cli_out *out)
{
    gh_buf_fini(&out->buf);
}

bool cli_out_flush(struct cli_out *out)
{
    bool is_done =
        !out->buf.failed && gh_fs_write_all(STDOUT_FILENO, gh_buf_str(&out->buf), out->buf.len);
    gh_buf_fini(&out->buf);
    if (!is_done) {
        fputs("gatehouse: standard output cannot be written\n", stderr);
    }
    return is_done;
}

void cli_out_puts(struct cli_out *out, const char *text)
{
    gh_buf_puts(&out->buf, text);
}

void cli_out_printf(struct cli_out *out, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0) {
        out->buf.failed = true;
        return;
    }
    gh_buf_put(&out->buf, text, (size_t)n);
    free(text);
}

void cli_out_text(struct cli_out *out, const char *text)
{
    text_for_terminal(text == NULL ? "-" : text, 0, &out->buf);
}

/* Bytes of the next character and the columns it takes. An unreadable byte is one of each. */
static size_t next_char(const char *text, size_t left, size_t *ret_columns)
{
    wchar_t wide = L'\0';
    mbstate_t state = {0};
    size_t n = mbrtowc(&wide, text, left, &state);
    if (n == 0 || n > left) {
        *ret_columns = 1;
        return 1;
    }
    int width = wcwidth(wide);
    *ret_columns = width > 0 ? (size_t)width : 0;
    return n;
}

/* Switch this thread to UTF-8 characters; given back to leave_utf8. */
static locale_t enter_utf8(locale_t *ret_before)
{
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    *ret_before = uselocale(utf8);
    return utf8;
}

static void leave_utf8(locale_t utf8, locale_t before)
{
    uselocale(before);
    if (utf8 != (locale_t)0) {
        freelocale(utf8);
    }
}

size_t cli_out_columns(const char *text)
{
    locale_t before = (locale_t)0;
    locale_t utf8 = enter_utf8(&before);
    size_t columns = 0;
    for (size_t left = strlen(text), n = 0; left > 0; left -= n, text += n) {
        size_t width = 0;
        n = next_char(text, left, &width);
        columns += width;
    }
    leave_utf8(utf8, before);
    return columns;
}

/* Columns up to the next blank or line end, counted no further than `enough`. */
static size_t word_columns(const char *text, size_t left, size_t enough)
{
    size_t columns = 0;
    for (size_t n = 0; left > 0 && columns < enough; left -= n, text += n) {
        size_t width = 0;
        if (*text == ' ' || *text == '\n' || *text == '\t') {
            break;
        }
        n = next_char(text, left, &width);
        columns += width;
    }
    return columns;
}

/* True when the terminal's line must end before the character: it does not fit, or it starts a word
 * that fits only on a line of its own. Nothing is dropped at the break. */
static bool ends_line(const struct cli_out *out, size_t room, size_t used, const char *text,
                      size_t left, char before)
{
    size_t width = 0;
    if (!out->is_tty) {
        return false;
    }
    next_char(text, left, &width);
    if (used + width > out->columns) {
        return true;
    }
    if (before != ' ' || *text == ' ' || used + room <= out->columns) {
        return false;
    }
    size_t word = word_columns(text, left, room + 1);
    return word <= room && used + word > out->columns;
}

void cli_out_wrap(struct cli_out *out, const char *indent, size_t used, const char *shown)
{
    locale_t before = (locale_t)0;
    locale_t utf8 = enter_utf8(&before);
    size_t margin = strlen(indent);
    size_t room = out->columns > margin ? out->columns - margin : 1;
    char last = '\0';
    for (size_t left = strlen(shown), n = 0; left > 0; left -= n, shown += n) {
        size_t width = 0;
        n = next_char(shown, left, &width);
        if (*shown == '\n' || ends_line(out, room, used, shown, left, last)) {
            gh_buf_putc(&out->buf, '\n');
            gh_buf_puts(&out->buf, indent);
            used = margin;
        }
        if (*shown != '\n') {
            gh_buf_put(&out->buf, shown, n);
            used += *shown == '\t' ? 8 : width;
        }
        last = *shown;
    }
    leave_utf8(utf8, before);
}

void cli_out_block(struct cli_out *out, const char *indent, const char *text)
{
    gh_auto(gh_buf_fini) struct gh_buf shown = GH_BUF_INIT;
    text_neutral(text, strlen(text), true, &shown);
    out->buf.failed = out->buf.failed || shown.failed;
    if (shown.len > 0 && shown.data[shown.len - 1] == '\n') {
        shown.data[shown.len - 1] = '\0';
    }
    gh_buf_puts(&out->buf, indent);
    cli_out_wrap(out, indent, strlen(indent), gh_buf_str(&shown));
    gh_buf_putc(&out->buf, '\n');
}

void cli_out_cell(struct cli_out *out, const char *text, size_t width)
{
    gh_auto(gh_buf_fini) struct gh_buf shown = GH_BUF_INIT;
    text_for_terminal(text == NULL ? "-" : text, width, &shown);
    gh_buf_puts(&out->buf, gh_buf_str(&shown));
    for (size_t n = cli_out_columns(gh_buf_str(&shown)); n <= width; n++) {
        gh_buf_putc(&out->buf, ' ');
    }
}

void cli_out_last(struct cli_out *out, const char *text, size_t used)
{
    size_t width = 0;
    if (out->is_tty) {
        width = out->columns > used + 10 ? out->columns - used : 10;
    }
    text_for_terminal(text == NULL ? "-" : text, width, &out->buf);
    gh_buf_putc(&out->buf, '\n');
}

void cli_out_style(struct cli_out *out, enum cli_style style)
{
    static const char *const codes[CLI_N_STYLES] = {"\x1b[0m",  "\x1b[1m",  "\x1b[2m",
                                                    "\x1b[31m", "\x1b[32m", "\x1b[33;1m"};
    if (out->has_color) {
        gh_buf_puts(&out->buf, codes[style]);
    }
}

void cli_out_field(struct cli_out *out, const char *label, const char *text)
{
    if (text == NULL || text[0] == '\0') {
        return;
    }
    gh_auto(gh_buf_fini) struct gh_buf shown = GH_BUF_INIT;
    text_for_terminal(text, 0, &shown);
    cli_out_printf(out, "%-*s ", LABEL_COLUMNS, label);
    cli_out_wrap(out, LABEL_INDENT, LABEL_COLUMNS + 1, gh_buf_str(&shown));
    gh_buf_putc(&out->buf, '\n');
}

/* The code point of the bytes kept in `rest`, or U+FFFD. */
static uint32_t code_point(const struct cli_out_cut *rest)
{
    static const unsigned char masks[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t value = rest->bytes[0] & masks[rest->n];
    for (size_t i = 1; i < rest->n; i++) {
        value = value << 6 | (rest->bytes[i] & 0x3FU);
    }
    return value > 0x10FFFF ? 0xFFFD : value;
}

static void put_escape(struct gh_buf *out, uint32_t value)
{
    if (value >= 0x10000) {
        value -= 0x10000;
        gh_buf_printf(out, "\\u%04x\\u%04x", 0xD800U + (value >> 10), 0xDC00U + (value & 0x3FFU));
    } else {
        gh_buf_printf(out, "\\u%04x", (unsigned)value);
    }
}

/* Bytes of the character that `lead` starts; 0 when it starts none. */
static size_t sequence_length(unsigned char lead)
{
    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xC2 && lead <= 0xDF) {
        return 2;
    }
    if (lead >= 0xE0 && lead <= 0xEF) {
        return 3;
    }
    return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

/* A byte behind the first of a character; anything else ends it as U+FFFD. Returns true when taken.
 */
static bool take_tail(struct gh_buf *out, unsigned char byte, struct cli_out_cut *rest)
{
    if ((byte & 0xC0) != 0x80) {
        put_escape(out, 0xFFFD);
        rest->n = 0;
        return false;
    }
    rest->bytes[rest->n++] = byte;
    if (rest->n == sequence_length(rest->bytes[0])) {
        put_escape(out, code_point(rest));
        rest->n = 0;
    }
    return true;
}

void cli_out_json(struct cli_out *out, const char *json, size_t len, struct cli_out_cut *rest)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)json[i];
        if (rest->n > 0 && take_tail(&out->buf, byte, rest)) {
            continue;
        }
        if ((byte >= 0x20 && byte < 0x7F) || byte == '\n') {
            gh_buf_putc(&out->buf, (char)byte);
        } else if (byte == 0x7F) {
            put_escape(&out->buf, byte);
        } else if (sequence_length(byte) > 1) {
            rest->bytes[0] = byte;
            rest->n = 1;
        } else if (byte >= 0x80) {
            put_escape(&out->buf, 0xFFFD);
        } else if (byte != '\r') {
            /* Outside a string only blanks may stand here; inside one JSON forbids them. */
            gh_buf_putc(&out->buf, ' ');
        }
    }
}

void cli_out_value(struct cli_out *out, const struct json_t *value)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    struct cli_out_cut rest = {{0}, 0};
    gh_json_canonical(value, &text);
    out->buf.failed = out->buf.failed || text.failed;
    cli_out_json(out, gh_buf_str(&text), text.len, &rest);
    gh_buf_putc(&out->buf, '\n');
}

struct tree {
    struct cli_out *out;
    char path[120];
};

static void put_tree(struct tree *tree, const struct json_t *value);

static void put_member(const char *key, const struct json_t *value, void *cookie)
{
    const struct tree *above = cookie;
    struct tree below = {.out = above->out, .path = ""};
    int n = snprintf(below.path, sizeof below.path, "%s%s%s", above->path,
                     above->path[0] == '\0' ? "" : ".", key);
    if (n < 0 || (size_t)n >= sizeof below.path) {
        snprintf(below.path, sizeof below.path, "...");
    }
    put_tree(&below, value);
}

static void put_leaf(struct tree *tree, const struct json_t *value)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    const char *shown = gh_json_text(value);
    if (shown == NULL) {
        gh_json_canonical(value, &text);
        shown = gh_buf_str(&text);
    }
    if (strcmp(shown, "null") == 0) {
        return;
    }
    gh_auto(gh_buf_fini) struct gh_buf value_text = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    text_for_terminal(tree->path, 0, &path);
    text_for_terminal(shown, 0, &value_text);
    cli_out_printf(tree->out, "%-*s ", PATH_COLUMNS, gh_buf_str(&path));
    size_t used = cli_out_columns(gh_buf_str(&path));
    cli_out_wrap(tree->out, "  ", (used > PATH_COLUMNS ? used : PATH_COLUMNS) + 1,
                 gh_buf_str(&value_text));
    cli_out_puts(tree->out, "\n");
}

static void put_tree(struct tree *tree, const struct json_t *value)
{
    const struct json_t *first = gh_json_at(value, 0);
    if (first == NULL && gh_json_len(value) > 0) {
        gh_json_each(value, put_member, tree);
        return;
    }
    if (first == NULL || gh_json_len(first) == 0) {
        put_leaf(tree, value);
        return;
    }
    for (size_t i = 0; i < gh_json_len(value); i++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", i + 1);
        put_member(key, gh_json_at(value, i), tree);
    }
}

void cli_out_tree(struct cli_out *out, const struct json_t *value)
{
    struct tree tree = {.out = out, .path = ""};
    put_tree(&tree, value);
}

void cli_out_span(int64_t ms, char ret[24])
{
    long long s = ms > 0 ? ms / 1000 : 0;
    if (s >= 86400) {
        snprintf(ret, 24, "%lldd%02lldh", s / 86400, s / 3600 % 24);
    } else if (s >= 3600) {
        snprintf(ret, 24, "%lldh%02lldm", s / 3600, s / 60 % 60);
    } else if (s >= 60) {
        snprintf(ret, 24, "%lldm%02llds", s / 60, s % 60);
    } else {
        snprintf(ret, 24, "%llds", s);
    }
}
