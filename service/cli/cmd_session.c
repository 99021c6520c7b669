#include <stdio.h>
#include <string.h>

#include "cli/call.h"
#include "cli/card.h"
#include "cli/commands.h"

static int run_sessions(int argc, char **argv);
static int run_mode(int argc, char **argv);
static int run_taint(int argc, char **argv);
static int run_grants(int argc, char **argv);

const struct cli_command cli_cmd_sessions = {
    .name = "sessions",
    .summary = "list the agents' sessions",
    .help = "gatehouse sessions [--state active|ended] [--json]\n\n"
            "  gatehouse sessions\n"
            "  gatehouse sessions --state active\n",
    .run = run_sessions,
};

const struct cli_command cli_cmd_mode = {
    .name = "mode",
    .summary = "change a session's mode",
    .help = "gatehouse mode SESSION act|plan|autonomous\n\n"
            "  gatehouse mode k3v9x2ab plan          look, do not touch\n"
            "  gatehouse mode k3v9x2ab act           ask before each change\n"
            "  gatehouse mode k3v9x2ab autonomous    no questions: allow by rule or deny\n",
    .run = run_mode,
};

const struct cli_command cli_cmd_taint = {
    .name = "taint",
    .summary = "clear a session's taint",
    .help = "gatehouse taint clear SESSION\n\n"
            "  gatehouse taint clear k3v9x2ab\n\n"
            "A session is tainted when it read a text with planted instructions; look at the\n"
            "text before you clear it.\n",
    .run = run_taint,
};

const struct cli_command cli_cmd_grants = {
    .name = "grants",
    .summary = "list or revoke what a session may always do",
    .help = "gatehouse grants [list|revoke] SESSION [GRANT]\n\n"
            "  gatehouse grants k3v9x2ab\n"
            "  gatehouse grants revoke k3v9x2ab 7h2mq0cd\n"
            "  gatehouse grants revoke k3v9x2ab             all of them\n",
    .run = run_grants,
};

/* Parse, connect as the approver and find the session operand `at` names. */
static int begin(struct cli *cli, int argc, char **argv, const struct cli_syntax *syntax,
                 size_t session_at, char ret_id[64])
{
    int code = cli_begin(cli, argc, argv, syntax);
    if (code == CLI_GO_ON) {
        code = cli_connect(cli, CLI_AS_APPROVER);
    }
    return code == CLI_GO_ON ? cli_resolve_session(cli, cli->args.rest[session_at], ret_id) : code;
}

/* Send a change and print `done`, or the service's JSON. */
static int change(struct cli *cli, const struct cli_request *request, const char *done)
{
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = cli_send(cli, request, &answer);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (cli->args.json) {
        return cli_print_json(cli, &answer);
    }
    cli_out_puts(&cli->out, done);
    return cli_finish(cli, CLI_DONE);
}

static void put_session(const struct json_t *item, void *cookie)
{
    struct cli_out *out = cookie;
    char n_pending[24];
    snprintf(n_pending, sizeof n_pending, "%lld",
             (long long)gh_json_number(gh_json_get(item, "pending"), 0));
    cli_out_cell(out, cli_short_id(cli_str(item, "id", "?")), CLI_SHORT_ID);
    cli_out_cell(out, cli_str(item, "state", "-"), 6);
    cli_out_cell(out, cli_str(item, "mode", "-"), 10);
    cli_out_cell(out, n_pending, 4);
    cli_out_cell(out, gh_json_true(gh_json_get(item, "tainted")) ? "!" : "", 1);
    cli_out_cell(out, cli_str(item, "agent", "-"), 14);
    cli_out_last(out, cli_str(item, "working_dir", "-"), 49);
}

static int print_sessions(struct cli *cli, const char *path)
{
    cli_out_style(&cli->out, CLI_BOLD);
    cli_out_puts(&cli->out, "ID       STATE  MODE       OPEN ! AGENT          FOLDER\n");
    cli_out_style(&cli->out, CLI_PLAIN);
    int code = cli_list(cli, path, put_session, &cli->out);
    return code == CLI_GO_ON ? cli_finish(cli, CLI_DONE) : code;
}

static int run_sessions(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    const char *state = NULL;
    const struct cli_opt opts[] = {{"--state", CLI_OPT_TEXT, &state}, {NULL, CLI_OPT_END, NULL}};
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){opts, 0, 0});
    if (code == CLI_GO_ON && state != NULL && strcmp(state, "active") != 0 &&
        strcmp(state, "ended") != 0) {
        return cli_usage(&cli, "--state takes active or ended.");
    }
    if (code == CLI_GO_ON) {
        code = cli_connect(&cli, CLI_AS_APPROVER);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    gh_buf_puts(&path, "/v1/sessions");
    cli_query(&path, "state", state);
    return cli.args.json ? cli_print_list(&cli, gh_buf_str(&path))
                         : print_sessions(&cli, gh_buf_str(&path));
}

static int run_mode(int argc, char **argv)
{
    static const char *const modes[] = {"act", "plan", "autonomous"};
    gh_auto(cli_fini) struct cli cli;
    char id[64] = "";
    char path[96];
    char body[48];
    size_t i = 0;
    int code = begin(&cli, argc, argv, &(struct cli_syntax){NULL, 2, 2}, 0, id);
    if (code != CLI_GO_ON) {
        return code;
    }
    while (i < 3 && strcmp(modes[i], cli.args.rest[1]) != 0) {
        i++;
    }
    if (i == 3) {
        return cli_usage(&cli, "The mode is act, plan or autonomous.");
    }
    snprintf(path, sizeof path, "/v1/sessions/%s", id);
    snprintf(body, sizeof body, "{\"mode\":\"%s\"}", modes[i]);
    const struct cli_request request = {.method = "PATCH", .path = path, .body = body};
    return change(&cli, &request, "The mode is changed.\n");
}

static int run_taint(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    char id[64] = "";
    char path[96];
    int code = begin(&cli, argc, argv, &(struct cli_syntax){NULL, 2, 2}, 1, id);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (strcmp(cli.args.rest[0], "clear") != 0) {
        return cli_usage(&cli, "The word behind taint is clear.");
    }
    snprintf(path, sizeof path, "/v1/sessions/%s/taint", id);
    const struct cli_request request = {.method = "DELETE", .path = path};
    return change(&cli, &request, "The taint is cleared.\n");
}

static const char *grant_kind(const struct json_t *grant)
{
    if (gh_json_true(gh_json_get(grant, "seed"))) {
        return "seed";
    }
    return gh_json_true(gh_json_get(grant, "once")) ? "once" : "always";
}

static void put_grant(const struct json_t *grant, void *cookie)
{
    struct cli_out *out = cookie;
    char hits[24];
    gh_auto(gh_buf_fini) struct gh_buf what = GH_BUF_INIT;
    snprintf(hits, sizeof hits, "%lld", (long long)gh_json_number(gh_json_get(grant, "hits"), 0));
    cli_out_cell(out, cli_short_id(cli_str(grant, "id", "?")), CLI_SHORT_ID);
    cli_out_cell(out, grant_kind(grant), 6);
    cli_out_cell(out, hits, 5);
    cli_out_cell(out, cli_str(grant, "action", "-"), 8);
    cli_target(&what, gh_json_get(grant, "target"));
    cli_out_last(out, gh_buf_str(&what), 31);
}

static int list_grants(struct cli *cli, const char *path)
{
    if (cli->args.json) {
        return cli_print_list(cli, path);
    }
    cli_out_style(&cli->out, CLI_BOLD);
    cli_out_puts(&cli->out, "ID       KIND   HITS  ACTION   WHAT\n");
    cli_out_style(&cli->out, CLI_PLAIN);
    int code = cli_list(cli, path, put_grant, &cli->out);
    return code == CLI_GO_ON ? cli_finish(cli, CLI_DONE) : code;
}

/* The ids to revoke, one behind the other, each with its NUL. */
static void collect_id(const struct json_t *grant, void *cookie)
{
    const char *id = cli_str(grant, "id", "");
    if (id[0] != '\0') {
        gh_buf_put(cookie, id, strlen(id) + 1);
    }
}

static int revoke_one(struct cli *cli, const char *path, const char *id)
{
    gh_auto(gh_buf_fini) struct gh_buf one = GH_BUF_INIT;
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    gh_buf_printf(&one, "%s/", path);
    cli_segment(&one, id);
    const struct cli_request request = {.method = "DELETE", .path = gh_buf_str(&one)};
    return cli_send(cli, &request, &answer);
}

/* Revoke the grant `word` means, or all of them. */
static int revoke_grants(struct cli *cli, const char *path, const char *word)
{
    const char *const paths[] = {path, NULL};
    char id[64] = "";
    size_t n = 0;
    gh_auto(gh_buf_fini) struct gh_buf ids = GH_BUF_INIT;
    int code = word != NULL ? cli_resolve(cli, paths, "grt", word, id)
                            : cli_list(cli, path, collect_id, &ids);
    if (code == CLI_GO_ON && word != NULL) {
        gh_buf_put(&ids, id, strlen(id) + 1);
    }
    for (size_t at = 0; code == CLI_GO_ON && at < ids.len; at += strlen(ids.data + at) + 1) {
        code = revoke_one(cli, path, ids.data + at);
        n += code == CLI_GO_ON ? 1 : 0;
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    cli_out_printf(&cli->out, cli->args.json ? "{\"revoked\":%zu}\n" : "%zu revoked.\n", n);
    return cli_finish(cli, CLI_DONE);
}

static int run_grants(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    char id[64] = "";
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){NULL, 1, 3});
    if (code != CLI_GO_ON) {
        return code;
    }
    bool is_revoke = strcmp(cli.args.rest[0], "revoke") == 0;
    size_t skip = is_revoke || strcmp(cli.args.rest[0], "list") == 0 ? 1 : 0;
    size_t n = cli.args.n_rest - skip;
    if (n == 0 || n > (is_revoke ? 2U : 1U)) {
        return cli_usage(&cli, "A session is needed, and for revoke at most one grant.");
    }
    code = cli_connect(&cli, CLI_AS_APPROVER);
    if (code == CLI_GO_ON) {
        code = cli_resolve_session(&cli, cli.args.rest[skip], id);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    gh_buf_printf(&path, "/v1/sessions/%s/grants", id);
    return is_revoke
               ? revoke_grants(&cli, gh_buf_str(&path), n == 2 ? cli.args.rest[skip + 1] : NULL)
               : list_grants(&cli, gh_buf_str(&path));
}
