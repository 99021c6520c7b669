#include <string.h>

#include "cli/call.h"
#include "cli/card.h"
#include "cli/commands.h"

static int run_pending(int argc, char **argv);
static int run_show(int argc, char **argv);

const struct cli_command cli_cmd_pending = {
    .name = "pending",
    .summary = "list what waits for your answer",
    .help = "gatehouse pending [--session ID] [--json]\n\n"
            "  gatehouse pending\n"
            "  gatehouse pending --json | jq '.items[].id'\n\n"
            "A \"!\" marks a warning or a tainted session. Long actions are cut here on a\n"
            "terminal; `gatehouse show ID` has all of it.\n",
    .run = run_pending,
};

const struct cli_command cli_cmd_show = {
    .name = "show",
    .summary = "show one question whole, with the digest to approve it",
    .help = "gatehouse show ID [--json]\n\n"
            "  gatehouse show k3v9x2ab      any 6 characters of the id's tail that are unique\n"
            "  gatehouse show apr_0f...ab   the whole id\n",
    .run = run_show,
};

struct table {
    struct cli_out *out;
    size_t n; /* rows so far */
};

static void put_row(const struct json_t *item, void *cookie)
{
    struct table *table = cookie;
    struct cli_out *out = table->out;
    char span[24];
    gh_auto(gh_buf_fini) struct gh_buf what = GH_BUF_INIT;
    bool is_marked = gh_json_len(gh_json_get(item, "warning")) > 0 ||
                     gh_json_len(gh_json_get(item, "taint")) > 0;
    size_t n_parts = gh_json_len(gh_json_get(item, "parts"));
    if (table->n++ == 0) {
        cli_out_style(out, CLI_BOLD);
        cli_out_puts(out, "ID       LEFT   AGENT          ACTION   ! WHAT\n");
        cli_out_style(out, CLI_PLAIN);
    }
    cli_out_span(gh_json_number(gh_json_get(item, "remaining_ms"), 0), span);
    cli_out_cell(out, cli_short_id(cli_str(item, "id", "?")), CLI_SHORT_ID);
    cli_out_cell(out, span, 6);
    cli_out_cell(out, cli_str(item, "agent", "-"), 14);
    cli_out_cell(out, cli_str(item, "action", "-"), 8);
    cli_out_cell(out, is_marked ? "!" : "", 1);
    if (n_parts > 1) {
        gh_buf_printf(&what, "[%zu parts] ", n_parts);
    }
    cli_target(&what, gh_json_get(n_parts > 1 ? gh_json_at(gh_json_get(item, "parts"), 0) : item,
                                  "target"));
    cli_out_last(out, gh_buf_str(&what), 42);
}

static int print_pending(struct cli *cli, const char *path)
{
    struct table table = {.out = &cli->out};
    int code = cli_list(cli, path, put_row, &table);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (table.n == 0) {
        cli_out_puts(&cli->out, "Nothing waits for an answer.\n");
    } else {
        cli_out_printf(&cli->out, "%zu waiting; look at one before you answer: gatehouse show ID\n",
                       table.n);
    }
    return cli_finish(cli, CLI_DONE);
}

static int run_pending(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    const char *session = NULL;
    char id[64] = "";
    const struct cli_opt opts[] = {{"--session", CLI_OPT_TEXT, &session},
                                   {NULL, CLI_OPT_END, NULL}};
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){opts, 0, 0});
    if (code == CLI_GO_ON) {
        code = cli_connect(&cli, CLI_AS_APPROVER);
    }
    if (code == CLI_GO_ON && session != NULL) {
        code = cli_resolve_session(&cli, session, id);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    gh_buf_puts(&path, "/v1/approvals?state=pending");
    cli_query(&path, "session", session != NULL ? id : NULL);
    return cli.args.json ? cli_print_list(&cli, gh_buf_str(&path))
                         : print_pending(&cli, gh_buf_str(&path));
}

static int run_show(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){NULL, 1, 1});
    if (code == CLI_GO_ON) {
        code = cli_connect(&cli, CLI_AS_APPROVER);
    }
    if (code == CLI_GO_ON) {
        code = cli_approval_get(&cli, cli.args.rest[0], &answer);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    if (cli.args.json) {
        return cli_print_json(&cli, &answer);
    }
    cli_card(&cli.out, answer.json);
    return cli_finish(&cli, CLI_DONE);
}
