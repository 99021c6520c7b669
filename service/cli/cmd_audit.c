#include <stdio.h>
#include <string.h>

#include "cli/call.h"
#include "cli/card.h"
#include "cli/commands.h"
#include "store/store.h"

static int run_audit(int argc, char **argv);

const struct cli_command cli_cmd_audit = {
    .name = "audit",
    .summary = "read, check or export the record of decisions",
    .help = "gatehouse audit [list] [FILTERS]\n"
            "gatehouse audit verify\n"
            "gatehouse audit export > audit.ndjson\n\n"
            "  gatehouse audit --decision deny --since 2025-01-01T00:00:00Z\n"
            "  gatehouse audit --session k3v9x2ab --action execute --limit 20\n"
            "  gatehouse audit verify && echo unbroken\n\n"
            "Filters: --session, --action, --decision, --by, --tool, --text, --limit,\n"
            "--cursor, --since and --until (RFC 3339). `verify` works without a running\n"
            "service too.\n",
    .run = run_audit,
};

struct filters {
    const char *session, *action, *decision, *by, *tool, *since, *until, *text, *cursor;
    int64_t limit;
};

static int build_path(struct cli *cli, const char *route, const struct filters *filters,
                      struct gh_buf *path)
{
    char session[64] = "";
    char limit[24];
    if (filters->session != NULL) {
        int code = cli_resolve_session(cli, filters->session, session);
        if (code != CLI_GO_ON) {
            return code;
        }
    }
    snprintf(limit, sizeof limit, "%lld", (long long)filters->limit);
    gh_buf_puts(path, route);
    cli_query(path, "session", filters->session != NULL ? session : NULL);
    cli_query(path, "action", filters->action);
    cli_query(path, "decision", filters->decision);
    cli_query(path, "by", filters->by);
    cli_query(path, "tool", filters->tool);
    cli_query(path, "since", filters->since);
    cli_query(path, "until", filters->until);
    cli_query(path, "text", filters->text);
    cli_query(path, "limit", filters->limit >= 0 ? limit : NULL);
    cli_query(path, "cursor", filters->cursor);
    return CLI_GO_ON;
}

static void put_row(struct cli_out *out, const struct json_t *row)
{
    char when[20];
    gh_auto(gh_buf_fini) struct gh_buf what = GH_BUF_INIT;
    const struct json_t *body = gh_json_get(row, "body");
    const struct json_t *target = gh_json_get(body, "target");
    if (target == NULL) {
        target = gh_json_get(gh_json_get(body, "answer"), "target");
    }
    snprintf(when, sizeof when, "%.19s", cli_str(row, "at", "-"));
    cli_out_cell(out, when, 19);
    const char *decision = cli_str(row, "decision", "");
    cli_out_cell(out, decision[0] != '\0' ? decision : cli_str(row, "kind", "-"), 8);
    cli_out_cell(out, cli_str(row, "by", ""), 7);
    cli_out_cell(out, cli_str(row, "action", ""), 8);
    if (gh_json_len(target) > 0) {
        cli_target(&what, target);
    } else {
        text_for_terminal(cli_str(row, "code", ""), 0, &what);
        gh_buf_putc(&what, ' ');
        text_for_terminal(cli_str(row, "ref", ""), 0, &what);
    }
    cli_out_last(out, gh_buf_str(&what), 46);
}

static int list_rows(struct cli *cli, const struct filters *filters)
{
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = cli_connect(cli, CLI_AS_APPROVER);
    if (code == CLI_GO_ON) {
        code = build_path(cli, "/v1/audit", filters, &path);
    }
    if (code == CLI_GO_ON) {
        code = cli_get(cli, gh_buf_str(&path), &answer);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    if (cli->args.json) {
        return cli_print_json(cli, &answer);
    }
    const struct json_t *items = gh_json_get(answer.json, "items");
    cli_out_style(&cli->out, CLI_BOLD);
    cli_out_puts(&cli->out, "TIME (UTC)          VERDICT  BY      ACTION   WHAT\n");
    cli_out_style(&cli->out, CLI_PLAIN);
    for (size_t i = 0; i < gh_json_len(items); i++) {
        put_row(&cli->out, gh_json_at(items, i));
    }
    if (cli_str(answer.json, "next_cursor", NULL) != NULL) {
        cli_out_puts(&cli->out, "more: --cursor ");
        cli_out_text(&cli->out, cli_str(answer.json, "next_cursor", ""));
        cli_out_puts(&cli->out, "\n");
    }
    return cli_finish(cli, CLI_DONE);
}

struct export
{
    struct cli *cli;
    struct cli_out_cut rest;
    bool is_broken; /* standard output refused */
};

static bool take_export(const char *data, size_t len, void *cookie)
{
    struct export *export = cookie;
    cli_out_json(&export->cli->out, data, len, &export->rest);
    export->is_broken = !cli_out_flush(&export->cli->out);
    return !export->is_broken;
}

static int export_rows(struct cli *cli, const struct filters *filters)
{
    struct export export = {.cli = cli};
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = cli_connect(cli, CLI_AS_APPROVER);
    if (code == CLI_GO_ON) {
        code = build_path(cli, "/v1/audit/export", filters, &path);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    const struct cli_request request = {.method = "GET",
                                        .path = gh_buf_str(&path),
                                        .accept = "application/x-ndjson, application/json",
                                        .timeout_ms = -1,
                                        .on_data = take_export,
                                        .cookie = &export};
    code = cli_send(cli, &request, &answer);
    if (code != CLI_GO_ON) {
        return code;
    }
    return export.is_broken ? CLI_FAILED : CLI_DONE;
}

static int report(struct cli *cli, const struct json_t *body)
{
    bool is_ok = gh_json_true(gh_json_get(body, "ok"));
    if (cli->args.json) {
        cli_out_value(&cli->out, body);
        return cli_finish(cli, is_ok ? CLI_DONE : CLI_FAILED);
    }
    cli_out_style(&cli->out, is_ok ? CLI_GREEN : CLI_RED);
    cli_out_puts(&cli->out, is_ok ? "The record is unbroken.\n" : "The record is BROKEN.\n");
    cli_out_style(&cli->out, CLI_PLAIN);
    cli_out_tree(&cli->out, body);
    return cli_finish(cli, is_ok ? CLI_DONE : CLI_FAILED);
}

/* The check of a folder no service runs on, in the words of GET /v1/audit/verify. */
static int verify_folder(struct cli *cli)
{
    struct gh_err err = {0};
    struct store_verify found = {0};
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    struct gh_jw w = {.buf = &text, .comma = false};
    if (store_verify_dir(cli->state_dir, &found, &err) != GH_OK) {
        cli_say("%s", err.detail);
        return CLI_FAILED;
    }
    gh_jw_obj(&w, NULL);
    gh_jw_bool(&w, "ok", found.is_ok);
    gh_jw_int(&w, "checked", (int64_t)found.n_checked);
    gh_jw_int(&w, "first_seq", (int64_t)found.first_seq);
    gh_jw_int(&w, "last_seq", (int64_t)found.last_seq);
    if (found.bad_seq > 0) {
        gh_jw_int(&w, "bad_seq", (int64_t)found.bad_seq);
    } else {
        gh_jw_null(&w, "bad_seq");
    }
    gh_jw_str(&w, "reason", found.reason[0] != '\0' ? found.reason : NULL);
    gh_jw_str(&w, "last_hash", found.last_hash);
    gh_jw_end(&w);
    if (gh_json_parse(gh_buf_str(&text), text.len, &body, &err) != GH_OK) {
        cli_say("%s", err.detail);
        return CLI_FAILED;
    }
    return report(cli, body);
}

static int verify_rows(struct cli *cli)
{
    struct gh_err err = {0};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    enum gh_code code = cli_reach(cli, CLI_AS_APPROVER, &err);
    if (code == GH_NOT_FOUND) {
        return verify_folder(cli);
    }
    if (code != GH_OK) {
        cli_say("%s", err.detail);
        return CLI_FAILED;
    }
    /* A long record takes long to walk. */
    const struct cli_request request = {
        .method = "GET", .path = "/v1/audit/verify", .timeout_ms = 600000};
    int exit_code = cli_send(cli, &request, &answer);
    return exit_code == CLI_GO_ON ? report(cli, answer.json) : exit_code;
}

static int run_audit(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    struct filters f = {.limit = -1};
    const struct cli_opt opts[] = {{"--session", CLI_OPT_TEXT, &f.session},
                                   {"--action", CLI_OPT_TEXT, &f.action},
                                   {"--decision", CLI_OPT_TEXT, &f.decision},
                                   {"--by", CLI_OPT_TEXT, &f.by},
                                   {"--tool", CLI_OPT_TEXT, &f.tool},
                                   {"--since", CLI_OPT_TEXT, &f.since},
                                   {"--until", CLI_OPT_TEXT, &f.until},
                                   {"--text", CLI_OPT_TEXT, &f.text},
                                   {"--limit", CLI_OPT_COUNT, &f.limit},
                                   {"--cursor", CLI_OPT_TEXT, &f.cursor},
                                   {NULL, CLI_OPT_END, NULL}};
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){opts, 0, 1});
    if (code != CLI_GO_ON) {
        return code;
    }
    const char *what = cli.args.n_rest == 1 ? cli.args.rest[0] : "list";
    if (strcmp(what, "list") == 0) {
        return list_rows(&cli, &f);
    }
    if (strcmp(what, "export") == 0) {
        return export_rows(&cli, &f);
    }
    return strcmp(what, "verify") == 0
               ? verify_rows(&cli)
               : cli_usage(&cli, "The word behind audit is list, verify or export.");
}
