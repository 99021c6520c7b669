#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "cli/ask_body.h"
#include "cli/call.h"
#include "cli/commands.h"

#define HOLD_S 50           /* documented clients hold at most this long */
#define AWAY_MS 30000       /* a service that restarts gets this long to come back */
#define PAUSE_MS 1000       /* between polls that were not held, and between attempts */
#define SHORT_POLL_MS 250   /* an unsettled answer sooner than this was not held */
#define MAX_WAIT_S 10000000 /* 115 days; the service caps what it takes as a deadline */

static int run_ask(int argc, char **argv);
static int run_explain(int argc, char **argv);

const struct cli_command cli_cmd_ask = {
    .name = "ask",
    .summary = "ask the gate for one action and wait for the answer",
    .help = "gatehouse ask [OPTIONS] ACTION ...\n\n"
            "  gatehouse ask read src/a.c\n"
            "  gatehouse ask write src/a.c --new-file /tmp/a.c --narration \"fix the parser\"\n"
            "  gatehouse ask move old.c new.c\n"
            "  gatehouse ask execute -- cargo test --all\n"
            "  gatehouse ask execute --cwd sub --shell 'make && make check'\n"
            "  gatehouse ask --wait 60 network https://example.org/\n"
            "  gatehouse ask mcp_tool 'mcp__files__list: {\"dir\":\"/\"}'\n\n"
            "Actions: read, write, delete PATH; move FROM TO; execute -- PROGRAM ARGUMENTS;\n"
            "network, interact, mcp_tool, memory, persistent_memory, internal TEXT.\n"
            "Relative paths are below the session's folder.\n\n"
            "  --session ID      in this session; else one for --dir (default: this folder)\n"
            "  --dir PATH        the folder whose session is opened or found again\n"
            "  --agent NAME      what the session is called\n"
            "  --tool NAME       the tool's name; each action has a usual one\n"
            "  --wait SECS       at most so long; nobody answering is a denial (exit code 4)\n"
            "  --no-wait         do not wait; a question that stays open is exit code 4\n"
            "  --new-file FILE   (write) show the person the change from the file to this one\n"
            "  --narration TEXT  why; shown as unverified\n"
            "  --response-id R   the agent's response that this call belongs to\n"
            "  --plan            judge this call as in plan mode\n\n"
            "Ctrl-C cancels the question, which denies it.\n",
    .run = run_ask,
};

const struct cli_command cli_cmd_explain = {
    .name = "explain",
    .summary = "show what each tier of the gate says to an action",
    .help = "gatehouse explain [OPTIONS] ACTION ...\n\n"
            "  gatehouse explain read .env\n"
            "  gatehouse explain execute -- rm -rf build\n"
            "  gatehouse explain --plan write src/a.c\n\n"
            "Takes the words of `gatehouse ask`; nothing is asked, allowed or recorded.\n"
            "The exit code is 0 whatever the gate would say.\n",
    .run = run_explain,
};

static int parse_ask(struct cli *cli, int argc, char **argv, struct cli_ask *ask)
{
    const struct cli_opt opts[] = {{"--session", CLI_OPT_TEXT, &ask->session},
                                   {"--dir", CLI_OPT_TEXT, &ask->dir},
                                   {"--agent", CLI_OPT_TEXT, &ask->agent},
                                   {"--tool", CLI_OPT_TEXT, &ask->tool},
                                   {"--wait", CLI_OPT_SECS, &ask->wait_s},
                                   {"--no-wait", CLI_OPT_FLAG, &ask->no_wait},
                                   {"--narration", CLI_OPT_TEXT, &ask->narration},
                                   {"--response-id", CLI_OPT_TEXT, &ask->response_id},
                                   {"--new-file", CLI_OPT_TEXT, &ask->new_file},
                                   {"--cwd", CLI_OPT_TEXT, &ask->cwd},
                                   {"--shell", CLI_OPT_TEXT, &ask->shell},
                                   {"--plan", CLI_OPT_FLAG, &ask->plan},
                                   {NULL, CLI_OPT_END, NULL}};
    struct gh_err err = {0};
    *ask = (struct cli_ask){.wait_s = -1};
    int code = cli_begin(cli, argc, argv, &(struct cli_syntax){opts, 1, SIZE_MAX});
    if (code != CLI_GO_ON) {
        return code;
    }
    if (ask->wait_s > MAX_WAIT_S) {
        return cli_usage(cli, "--wait takes at most %d seconds.", MAX_WAIT_S);
    }
    if (cli_ask_check(ask, &cli->args, &err) != GH_OK) {
        return cli_usage(cli, "%s", err.detail);
    }
    return CLI_GO_ON;
}

/* The named session, or the folder's. */
static int find_session(struct cli *cli, const struct cli_ask *ask, char ret_id[64], char **ret_dir)
{
    if (ask->session == NULL) {
        return cli_session_open(cli, ask->dir, ask->agent, ret_id, ret_dir);
    }
    int code = cli_resolve_session(cli, ask->session, ret_id);
    if (code != CLI_GO_ON) {
        return code;
    }
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    gh_buf_printf(&path, "/v1/sessions/%s", ret_id);
    code = cli_get(cli, gh_buf_str(&path), &answer);
    if (code != CLI_GO_ON) {
        return code;
    }
    *ret_dir = strdup(cli_str(answer.json, "working_dir", "/"));
    return *ret_dir == NULL ? CLI_FAILED : CLI_GO_ON;
}

/* Open the session and send the question. */
static int send_ask(struct cli *cli, const struct cli_ask *ask, const char *query,
                    char ret_session[64], struct cli_answer *answer)
{
    char key[GH_ID];
    struct gh_err err = {0};
    gh_autofree char *dir = NULL;
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    int code = find_session(cli, ask, ret_session, &dir);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (cli_ask_body(ask, &cli->args, dir, &body, &err) != GH_OK) {
        return cli_usage(cli, "%s", err.detail);
    }
    gh_id_new("key", key);
    gh_buf_printf(&path, "/v1/sessions/%s/decisions%s", ret_session, query);
    return cli_send(cli,
                    &(struct cli_request){.method = "POST",
                                          .path = gh_buf_str(&path),
                                          .body = gh_buf_str(&body),
                                          .idempotency_key = key},
                    answer);
}

static bool is_open(const struct cli_answer *answer)
{
    return strcmp(cli_str(answer->json, "decision", ""), "ask") == 0;
}

/* Withdraw the question: whoever stopped listening must not be answered with an allow later. */
static void cancel_ask(struct cli *cli, const char *approval)
{
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    struct gh_err err = {0};
    gh_buf_puts(&path, "/v1/approvals/");
    cli_segment(&path, approval);
    const struct cli_request request = {
        .method = "DELETE", .path = gh_buf_str(&path), .timeout_ms = 5000};
    if (cli_client_send(cli->client, &request, &answer, &err) != GH_OK || answer.status >= 300) {
        cli_say("The question could not be withdrawn; it stays until it expires.");
    }
}

struct waiting {
    struct cli *cli;
    const char *path;   /* of the decision */
    int64_t end_ms;     /* boot clock; INT64_MAX: no end of ours */
    int64_t lost_at_ms; /* boot clock when contact was lost; -1: it was not */
};

/* A restarting service keeps the question; it listens again in a moment, perhaps elsewhere. */
static int try_later(struct waiting *wait, const char *why)
{
    struct gh_err ignored = {0};
    int64_t now_ms = gh_clock_boot_ms();
    wait->lost_at_ms = wait->lost_at_ms < 0 ? now_ms : wait->lost_at_ms;
    if (now_ms - wait->lost_at_ms >= AWAY_MS) {
        cli_say("The service went away; nothing was allowed. %s", why);
        return CLI_NO_SERVICE;
    }
    if (cli_pause(wait->cli, PAUSE_MS)) {
        return CLI_INTERRUPTED;
    }
    if (cli_reach(wait->cli, CLI_AS_AGENT, &ignored) != GH_OK) {
        wait->cli->client = NULL;
    }
    return CLI_GO_ON;
}

static enum gh_code send_poll(const struct waiting *wait, int64_t hold_s, struct cli_answer *ret,
                              struct gh_err *err)
{
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_buf_printf(&path, "%s?wait_s=%lld", wait->path, (long long)hold_s);
    const struct cli_request request = {.method = "GET",
                                        .path = gh_buf_str(&path),
                                        .timeout_ms = (hold_s + 20) * 1000,
                                        .interrupt_fd = wait->cli->signal_fd};
    return cli_client_send(wait->cli->client, &request, ret, err);
}

/* One held poll; *ret is replaced by its answer. CLI_GO_ON also when another attempt may help. */
static int poll_once(struct waiting *wait, struct cli_answer *ret)
{
    struct gh_err err = {0};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int64_t begun_ms = gh_clock_boot_ms();
    int64_t left_s = (wait->end_ms - begun_ms) / 1000 + 1;
    if (wait->cli->client == NULL) {
        return try_later(wait, "");
    }
    enum gh_code code = send_poll(wait, left_s < HOLD_S ? left_s : HOLD_S, &answer, &err);
    if (code == GH_OK && answer.status >= 200 && answer.status < 300) {
        cli_answer_fini(ret);
        *ret = answer;
        answer = (struct cli_answer){0};
        wait->lost_at_ms = -1;
        bool was_held = gh_clock_boot_ms() - begun_ms >= SHORT_POLL_MS;
        return is_open(ret) && !was_held && cli_pause(wait->cli, PAUSE_MS) ? CLI_INTERRUPTED
                                                                           : CLI_GO_ON;
    }
    if (answer.failure == CLI_F_NO_SERVICE || answer.failure == CLI_F_LOST ||
        answer.status == 503) {
        return try_later(wait, err.detail);
    }
    return cli_complain(wait->cli, &answer, &err);
}

/* Poll until settled. CLI_GO_ON with *answer settled, or the exit code. */
static int wait_settled(struct cli *cli, const struct cli_ask *ask, const char *session,
                        struct cli_answer *answer)
{
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_autofree char *approval = strdup(cli_str(answer->json, "approval", ""));
    int64_t now_ms = gh_clock_boot_ms();
    struct waiting wait = {.cli = cli, .lost_at_ms = -1, .end_ms = INT64_MAX};
    if (ask->wait_s >= 0) {
        wait.end_ms = now_ms + ask->wait_s * 1000;
    }
    gh_buf_printf(&path, "/v1/sessions/%s/decisions/", session);
    cli_segment(&path, cli_str(answer->json, "id", ""));
    wait.path = gh_buf_str(&path);
    int code = CLI_GO_ON;
    while (code == CLI_GO_ON && is_open(answer) && gh_clock_boot_ms() < wait.end_ms) {
        code = poll_once(&wait, answer);
    }
    if ((code == CLI_INTERRUPTED || (code == CLI_GO_ON && is_open(answer))) && approval != NULL &&
        approval[0] != '\0' && cli->client != NULL) {
        cancel_ask(cli, approval);
    }
    return code;
}

static int exit_of(const struct json_t *decision)
{
    const char *verdict = cli_str(decision, "decision", "");
    const char *code = cli_str(decision, "code", "");
    if (strcmp(verdict, "allow") == 0 || strcmp(verdict, "allow_always") == 0) {
        return CLI_DONE;
    }
    bool is_late = strcmp(verdict, "ask") == 0 ||
                   strcmp(cli_str(decision, "by", ""), "timeout") == 0 ||
                   strcmp(code, "expired") == 0 || strcmp(code, "ticket") == 0;
    return is_late ? CLI_TIMED_OUT : CLI_DENIED;
}

/* The reason is a sentence for a model that starts with the verdict; people have read that. */
static const char *reason_of(const struct json_t *decision)
{
    static const char verdict[] = "Denied: ";
    const char *reason = cli_str(decision, "reason", "no reason was given");
    size_t len = sizeof verdict - 1;
    return strncmp(reason, verdict, len) == 0 ? reason + len : reason;
}

static void print_verdict(struct cli *cli, const struct json_t *decision, int code)
{
    static const struct {
        enum cli_style style;
        const char *word;
    } words[] = {[CLI_DONE] = {CLI_GREEN, "allowed"},
                 [CLI_DENIED] = {CLI_RED, "denied"},
                 [CLI_TIMED_OUT] = {CLI_RED, "timed out, so denied"}};
    struct cli_out *out = &cli->out;
    gh_auto(gh_buf_fini) struct gh_buf rest = GH_BUF_INIT;
    cli_out_style(out, words[code].style);
    cli_out_puts(out, words[code].word);
    cli_out_style(out, CLI_PLAIN);
    if (code != CLI_DONE) {
        gh_buf_puts(&rest, ": ");
        text_for_terminal(reason_of(decision), 0, &rest);
    }
    gh_buf_puts(&rest, " (by ");
    text_for_terminal(cli_str(decision, "by", "nobody"), 0, &rest);
    gh_buf_puts(&rest, ", ");
    text_for_terminal(cli_str(decision, "code", "no code"), 0, &rest);
    gh_buf_puts(&rest, ", tier ");
    text_for_terminal(cli_str(decision, "tier", "-"), 0, &rest);
    gh_buf_puts(&rest, ")");
    cli_out_wrap(out, "  ", strlen(words[code].word), gh_buf_str(&rest));
    out->buf.failed = out->buf.failed || rest.failed;
    cli_out_puts(out, "\n");
    cli_out_field(out, "warning", cli_str(gh_json_get(decision, "warning"), "text", NULL));
    cli_out_field(out, "checkpoint", cli_str(gh_json_get(decision, "checkpoint"), "ref", NULL));
}

static int report(struct cli *cli, const struct cli_ask *ask, const struct cli_answer *answer)
{
    int code = exit_of(answer->json);
    if (cli->args.json) {
        int printed = cli_print_json(cli, answer);
        return printed == CLI_DONE ? code : printed;
    }
    if (is_open(answer)) {
        const char *approval = cli_str(answer->json, "approval", "");
        cli_out_printf(&cli->out, "%s",
                       ask->no_wait ? "open: a person has not answered yet ("
                                    : "timed out, so denied: nobody answered (");
        cli_out_text(&cli->out, approval);
        cli_out_puts(&cli->out, ")\n");
        if (ask->no_wait) {
            cli_out_puts(&cli->out, "look at it with: gatehouse show ");
            cli_out_text(&cli->out, cli_short_id(approval));
            cli_out_puts(&cli->out, "\n");
        }
    } else {
        print_verdict(cli, answer->json, code);
    }
    return cli_finish(cli, code);
}

static int run_ask(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    struct cli_ask ask;
    char session[64] = "";
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = parse_ask(&cli, argc, argv, &ask);
    if (code == CLI_GO_ON) {
        code = cli_connect(&cli, CLI_AS_AGENT);
    }
    if (code == CLI_GO_ON) {
        cli_catch_signals(&cli);
        code = send_ask(&cli, &ask, "", session, &answer);
    }
    if (code == CLI_GO_ON && is_open(&answer) && !ask.no_wait) {
        if (!cli.args.json) {
            fprintf(stderr, "Waiting for a person (gatehouse show %.*s) ...\n", CLI_SHORT_ID,
                    cli_short_id(cli_str(answer.json, "approval", "-")));
        }
        code = wait_settled(&cli, &ask, session, &answer);
    }
    if (code == CLI_INTERRUPTED) {
        cli_say("Interrupted; the question was withdrawn.");
    }
    return code == CLI_GO_ON ? report(&cli, &ask, &answer) : code;
}

static void print_tiers(struct cli_out *out, const struct json_t *body)
{
    const struct json_t *tiers = gh_json_get(body, "tiers");
    cli_out_style(out, CLI_BOLD);
    cli_out_puts(out, "TIER             MATCHES DETAIL\n");
    cli_out_style(out, CLI_PLAIN);
    for (size_t i = 0; i < gh_json_len(tiers); i++) {
        const struct json_t *tier = gh_json_at(tiers, i);
        cli_out_cell(out, cli_str(tier, "tier", "-"), 16);
        cli_out_cell(out, gh_json_true(gh_json_get(tier, "matched")) ? "yes" : "no", 7);
        cli_out_last(out, cli_str(tier, "detail", ""), 25);
    }
    cli_out_puts(out, "\nThe gate would say: ");
    cli_out_text(out, cli_str(body, "would", "-"));
    cli_out_puts(out, "\n");
}

static int run_explain(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    struct cli_ask ask;
    char session[64] = "";
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = parse_ask(&cli, argc, argv, &ask);
    if (code == CLI_GO_ON) {
        /* A named session may belong to another token: the approver may look at all of them. */
        code = cli_connect(&cli, ask.session != NULL ? CLI_AS_APPROVER : CLI_AS_AGENT);
    }
    if (code == CLI_GO_ON) {
        code = send_ask(&cli, &ask, "?explain=true", session, &answer);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    if (cli.args.json) {
        return cli_print_json(&cli, &answer);
    }
    print_tiers(&cli.out, answer.json);
    return cli_finish(&cli, CLI_DONE);
}
