/* out: what the terminal gets. Text of strangers passes the neutraliser here, and nowhere else.
 *
 * Output is collected and written once, so a half-drawn table never shows. A pipe gets the same
 * neutralised text as a terminal, without colours and without cut columns.
 */
#ifndef GH_CLI_OUT_H
#define GH_CLI_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "text/neutral.h"

enum cli_style { CLI_PLAIN = 0, CLI_BOLD, CLI_DIM, CLI_RED, CLI_GREEN, CLI_YELLOW, CLI_N_STYLES };

struct cli_out {
    struct gh_buf buf;
    size_t columns; /* width of the terminal; 80 for a pipe */
    bool is_tty;
    bool has_color;
};

/* Look at standard output, NO_COLOR and TERM. */
void cli_out_init(struct cli_out *out);
void cli_out_fini(struct cli_out *out);

/* Write what was collected to standard output and forget it. Returns false when it cannot be
 * written. */
bool cli_out_flush(struct cli_out *out);

/* Our own words, as they are. */
void cli_out_puts(struct cli_out *out, const char *text);
void cli_out_printf(struct cli_out *out, const char *fmt, ...) GH_PRINTF(2, 3);

/* A stranger's text on one line, neutralised, not cut. NULL is written as "-". */
void cli_out_text(struct cli_out *out, const char *text);

/* Text that is neutralised already, behind `used` columns of the present line. Every further line
 * of it, also one that only the terminal's width makes, starts with `indent`: no text can put words
 * where our own labels stand. */
void cli_out_wrap(struct cli_out *out, const char *indent, size_t used, const char *shown);

/* A stranger's text with its lines kept; every line gets `indent` in front, and the last one ends
 * with a newline. */
void cli_out_block(struct cli_out *out, const char *indent, const char *text);

/* A stranger's text, neutralised, cut and padded to `width` columns, then one blank. */
void cli_out_cell(struct cli_out *out, const char *text, size_t width);

/* The last cell of a row: cut to what is left behind `used` columns on a terminal, whole in a pipe;
 * then a newline. */
void cli_out_last(struct cli_out *out, const char *text, size_t used);

/* Switch the style on, CLI_PLAIN off; nothing without colours. */
void cli_out_style(struct cli_out *out, enum cli_style style);

/* "label    text": the label padded to 10 columns, the text on one line. Nothing when text is NULL
 * or "". */
void cli_out_field(struct cli_out *out, const char *label, const char *text);

/* JSON text with everything outside printable ASCII as \u escapes: the same value, and nothing a
 * terminal obeys. Pieces of one document may come one after the other; `rest` keeps a cut
 * character between them (zeroed before the first). LF stays. */
struct cli_out_cut {
    unsigned char bytes[4];
    size_t n;
};
void cli_out_json(struct cli_out *out, const char *json, size_t len, struct cli_out_cut *rest);

/* Any JSON value in our canonical form, escaped as above, and a newline. */
void cli_out_value(struct cli_out *out, const struct json_t *value);

/* Any JSON value as lines "a.b.c  value", for people. */
void cli_out_tree(struct cli_out *out, const struct json_t *value);

/* "4m47s", "2h03m", "12s", "3d04h"; "0s" for less. */
void cli_out_span(int64_t ms, char ret[24]);

/* Columns that `text` (UTF-8, neutralised) takes on a terminal. */
size_t cli_out_columns(const char *text);

#endif
