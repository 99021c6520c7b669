/* neutral: hostile text made safe to look at. One function for page, CLI, webhook and audit.
 *
 * Control bytes, bidirectional controls, invisible and format characters, line and paragraph
 * separators, private-use, unassigned and invalid bytes are written as visible escapes and counted;
 * letters of every script stay as they are. libunistring ends here. Pure; threads: any.
 */
#ifndef GH_TEXT_NEUTRAL_H
#define GH_TEXT_NEUTRAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Append `text` neutralised: ESC becomes "\x1b", U+202E "\u{202e}", an invalid byte "\xff", a
 * backslash stays a backslash. LF stays LF when `keep_lines` (else "\n" as two characters); TAB
 * stays TAB when `keep_lines`. ZWJ/ZWNJ between letters that need them, and emoji sequences, are
 * ordinary text; anywhere else they are shown. Returns the number of characters made visible. */
size_t text_neutral(const char *text, size_t len, bool keep_lines, struct gh_buf *out);

/* Append one command word, shell-quoted when it is empty or has anything a POSIX shell would not
 * take literally, then neutralised (keep_lines: a second command behind a newline is seen on its
 * own line). Returns the number of characters made visible. */
size_t text_shell_word(const char *word, struct gh_buf *out);

/* True when the text is empty or has nothing a person could see (blanks, controls, format and
 * invisible characters only). */
bool text_is_invisible(const char *text, size_t len);

/* Append `text` for a terminal line: neutralised without lines, cut to `columns` display columns
 * with "..." at the end when it is longer (columns 0: not cut). */
void text_for_terminal(const char *text, size_t columns, struct gh_buf *out);

#endif
