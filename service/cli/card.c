#include "cli/card.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/call.h"

#define DIGEST_SHOWN 12
#define DIGEST_MIN 8
#define MARK_COLUMNS 2

static const char digest_head[] = "sha256-";

static const char *hex_of(const char *digest)
{
    size_t head = sizeof digest_head - 1;
    return strncmp(digest, digest_head, head) == 0 ? digest + head : digest;
}

bool cli_digest_matches(const char *digest, const char *prefix)
{
    const char *have = hex_of(digest);
    const char *want = hex_of(prefix);
    size_t len = strlen(want);
    return len >= DIGEST_MIN && len <= strlen(have) && strncasecmp(have, want, len) == 0;
}

void cli_digest_short(const char *digest, char ret[16])
{
    snprintf(ret, 16, "%.*s", DIGEST_SHOWN, hex_of(digest));
}

/* The command's words, each quoted for a shell and neutralised. */
static void put_words(struct gh_buf *out, const struct json_t *target, const char *between)
{
    const struct json_t *args = gh_json_get(target, "args");
    text_shell_word(cli_str(target, "program", ""), out);
    for (size_t i = 0; i < gh_json_len(args); i++) {
        const char *word = gh_json_text(gh_json_at(args, i));
        gh_buf_puts(out, between);
        text_shell_word(word == NULL ? "" : word, out);
    }
}

static void put_one_line(struct gh_buf *out, const char *text)
{
    text_for_terminal(text, 0, out);
}

void cli_target(struct gh_buf *out, const struct json_t *target)
{
    gh_auto(gh_buf_fini) struct gh_buf words = GH_BUF_INIT;
    const char *text = NULL;
    if ((text = cli_str(target, "path", NULL)) != NULL) {
        put_one_line(out, text);
    } else if (cli_str(target, "program", NULL) != NULL) {
        put_words(&words, target, " ");
        put_one_line(out, gh_buf_str(&words));
    } else if ((text = cli_str(target, "shell", NULL)) != NULL) {
        gh_buf_puts(out, "sh -c ");
        text_shell_word(text, &words);
        put_one_line(out, gh_buf_str(&words));
    } else if ((text = cli_str(target, "from", NULL)) != NULL) {
        put_one_line(out, text);
        gh_buf_puts(out, " -> ");
        put_one_line(out, cli_str(target, "to", "?"));
    } else {
        put_one_line(out, cli_str(target, "description", "-"));
    }
}

/* "  $ rm -rf \": words broken between lines only, a continued line shown as one. */
static void put_command(struct cli_out *out, const struct json_t *target)
{
    const struct json_t *args = gh_json_get(target, "args");
    size_t used = 4;
    cli_out_puts(out, "  $ ");
    for (size_t i = 0; i <= gh_json_len(args); i++) {
        gh_auto(gh_buf_fini) struct gh_buf word = GH_BUF_INIT;
        const char *text =
            i == 0 ? cli_str(target, "program", "") : gh_json_text(gh_json_at(args, i - 1));
        text_shell_word(text == NULL ? "" : text, &word);
        size_t width = cli_out_columns(gh_buf_str(&word));
        if (i > 0 && used + 1 + width + MARK_COLUMNS > out->columns) {
            cli_out_puts(out, " \\\n      ");
            used = 6;
        } else if (i > 0) {
            cli_out_puts(out, " ");
            used++;
        }
        cli_out_wrap(out, "      ", used, gh_buf_str(&word));
        used = width > out->columns ? out->columns : used + width;
    }
    cli_out_puts(out, "\n");
}

static void put_target(struct cli_out *out, const struct json_t *part)
{
    const struct json_t *target = gh_json_get(part, "target");
    const char *shell = cli_str(target, "shell", NULL);
    const char *description = cli_str(target, "description", NULL);
    cli_out_puts(out, "\n  ");
    cli_out_style(out, CLI_BOLD);
    cli_out_text(out, cli_str(part, "action", "?"));
    cli_out_style(out, CLI_PLAIN);
    cli_out_puts(out, "\n");
    if (cli_str(target, "program", NULL) != NULL) {
        put_command(out, target);
    } else if (shell != NULL) {
        cli_out_puts(out, "  $ sh -c, all of it between the bars:\n");
        cli_out_block(out, "  | ", shell);
    } else if (description != NULL) {
        cli_out_block(out, "  | ", description);
    } else {
        gh_auto(gh_buf_fini) struct gh_buf line = GH_BUF_INIT;
        cli_target(&line, target);
        cli_out_puts(out, "    ");
        cli_out_wrap(out, "    ", 4, gh_buf_str(&line));
        cli_out_puts(out, "\n");
    }
    if (cli_str(target, "cwd", NULL) != NULL) {
        cli_out_field(out, "  in", cli_str(target, "cwd", NULL));
    }
}

/* The action, or each of its parts: what exactly would happen. */
static void put_action(struct cli_out *out, const struct json_t *approval)
{
    const struct json_t *parts = gh_json_get(approval, "parts");
    int64_t n_hidden =
        gh_json_number(gh_json_get(gh_json_get(approval, "display"), "hidden_characters"), 0);
    if (gh_json_len(parts) <= 1) {
        put_target(out, approval);
    }
    for (size_t i = 0; gh_json_len(parts) > 1 && i < gh_json_len(parts); i++) {
        cli_out_printf(out, "\n  part %zu of %zu", i + 1, gh_json_len(parts));
        put_target(out, gh_json_at(parts, i));
    }
    if (n_hidden > 0) {
        cli_out_style(out, CLI_YELLOW);
        cli_out_printf(out, "  %lld hidden character%s shown as escapes\n", (long long)n_hidden,
                       n_hidden == 1 ? "" : "s");
        cli_out_style(out, CLI_PLAIN);
    }
    cli_out_puts(out, "\n");
}

static void put_number(struct cli_out *out, const struct json_t *line, const char *key)
{
    int64_t number = gh_json_number(gh_json_get(line, key), -1);
    if (number < 0) {
        cli_out_puts(out, "      ");
    } else {
        cli_out_printf(out, "%5lld ", (long long)number);
    }
}

static void put_diff_line(struct cli_out *out, const struct json_t *line)
{
    const char *kind = cli_str(line, "kind", " ");
    enum cli_style style = CLI_PLAIN;
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    if (kind[0] == '+' || kind[0] == '-') {
        style = kind[0] == '+' ? CLI_GREEN : CLI_RED;
    }
    put_number(out, line, "old");
    put_number(out, line, "new");
    cli_out_style(out, style);
    cli_out_printf(out, "%c", kind[0] == '+' || kind[0] == '-' ? kind[0] : ' ');
    text_for_terminal(cli_str(line, "text", ""), 0, &text);
    cli_out_wrap(out, "             ", 13, gh_buf_str(&text));
    cli_out_style(out, CLI_PLAIN);
    cli_out_puts(out, gh_json_true(gh_json_get(line, "cut")) ? " [line cut]\n" : "\n");
    if (gh_json_true(gh_json_get(line, "no_newline"))) {
        cli_out_puts(out, "            (no newline at the end)\n");
    }
}

static void put_hunks(struct cli_out *out, const struct json_t *hunks)
{
    for (size_t i = 0; i < gh_json_len(hunks); i++) {
        const struct json_t *hunk = gh_json_at(hunks, i);
        const struct json_t *lines = gh_json_get(hunk, "lines");
        cli_out_style(out, CLI_DIM);
        cli_out_puts(out, "  ");
        cli_out_text(out, cli_str(hunk, "header", "@@"));
        cli_out_style(out, CLI_PLAIN);
        cli_out_puts(out, "\n");
        for (size_t k = 0; k < gh_json_len(lines); k++) {
            put_diff_line(out, gh_json_at(lines, k));
        }
    }
}

static void put_preview(struct cli_out *out, const struct json_t *preview)
{
    const struct json_t *files = gh_json_get(preview, "files");
    const char *text = cli_str(preview, "text", "");
    for (size_t i = 0; i < gh_json_len(files); i++) {
        const struct json_t *file = gh_json_at(files, i);
        cli_out_field(out, "change", cli_str(file, "path", "-"));
        cli_out_printf(out, "           +%lld -%lld%s%s\n",
                       (long long)gh_json_number(gh_json_get(file, "added"), 0),
                       (long long)gh_json_number(gh_json_get(file, "removed"), 0),
                       gh_json_true(gh_json_get(file, "binary")) ? "  (binary)" : "",
                       gh_json_true(gh_json_get(file, "cut")) ||
                               gh_json_true(gh_json_get(file, "truncated"))
                           ? "  (cut: the change goes on)"
                           : "");
        put_hunks(out, gh_json_get(file, "hunks"));
    }
    if (text[0] != '\0') {
        cli_out_puts(out, "preview\n");
        cli_out_block(out, "  | ", text);
    }
}

static void put_warnings(struct cli_out *out, const struct json_t *approval)
{
    const struct json_t *warning = gh_json_get(approval, "warning");
    const struct json_t *taint = gh_json_get(approval, "taint");
    if (gh_json_len(warning) == 0 && gh_json_len(taint) == 0) {
        return;
    }
    cli_out_style(out, CLI_YELLOW);
    if (gh_json_len(warning) > 0) {
        cli_out_field(out, "WARNING", cli_str(warning, "text", cli_str(warning, "code", "-")));
    }
    if (gh_json_len(taint) > 0) {
        cli_out_field(out, "TAINTED", cli_str(taint, "marker", "the session read a planted text"));
        cli_out_field(out, "  from", cli_str(taint, "source", NULL));
        cli_out_field(out, "  excerpt", cli_str(taint, "excerpt", NULL));
    }
    cli_out_style(out, CLI_PLAIN);
}

static void put_state(struct cli_out *out, const struct json_t *approval)
{
    char span[24];
    const char *state = cli_str(approval, "state", "?");
    cli_out_text(out, cli_str(approval, "id", "?"));
    cli_out_puts(out, "  ");
    cli_out_text(out, state);
    if (strcmp(state, "pending") == 0) {
        cli_out_span(gh_json_number(gh_json_get(approval, "remaining_ms"), 0), span);
        cli_out_printf(out, ", %s left, caller ", span);
        cli_out_text(out, cli_str(approval, "caller", "?"));
    } else {
        cli_out_puts(out, " by ");
        cli_out_text(out, cli_str(approval, "settled_by", "nobody"));
        cli_out_puts(out, " at ");
        cli_out_text(out, cli_str(approval, "settled_at", "-"));
    }
    cli_out_puts(out, "\n");
}

static void put_answers(struct cli_out *out, const struct json_t *approval)
{
    char digest[16];
    const char *id = cli_short_id(cli_str(approval, "id", ""));
    const struct json_t *offered = gh_json_get(approval, "offered");
    bool has_always = false;
    for (size_t i = 0; i < gh_json_len(offered); i++) {
        const char *word = gh_json_text(gh_json_at(offered, i));
        has_always = has_always || (word != NULL && strcmp(word, "allow_always") == 0);
    }
    cli_digest_short(cli_str(approval, "digest", ""), digest);
    cli_out_field(out, "digest", digest);
    if (strcmp(cli_str(approval, "state", ""), "pending") != 0) {
        cli_out_field(out, "feedback", cli_str(approval, "feedback", NULL));
        return;
    }
    cli_out_puts(out, "\n  gatehouse approve ");
    cli_out_text(out, id);
    cli_out_puts(out, has_always ? " [--always] --digest " : " --digest ");
    cli_out_text(out, digest);
    cli_out_puts(out, "\n  gatehouse deny ");
    cli_out_text(out, id);
    cli_out_puts(out, " --feedback \"why, for the agent\"\n");
}

void cli_card(struct cli_out *out, const struct json_t *approval)
{
    const char *narration = cli_str(approval, "narration", "");
    put_state(out, approval);
    put_action(out, approval);
    put_warnings(out, approval);
    cli_out_field(out, "why", cli_str(approval, "why", NULL));
    cli_out_field(out, "tool", cli_str(approval, "tool", NULL));
    cli_out_field(out, "agent", cli_str(approval, "agent", NULL));
    cli_out_field(out, "title", cli_str(approval, "title", NULL));
    cli_out_field(out, "session", cli_str(approval, "session", NULL));
    put_preview(out, gh_json_get(approval, "preview"));
    if (narration[0] != '\0') {
        cli_out_puts(out, "the agent says (unverified)\n");
        cli_out_block(out, "  | ", narration);
    }
    put_answers(out, approval);
}
