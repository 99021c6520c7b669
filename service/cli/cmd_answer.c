#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/call.h"
#include "cli/card.h"
#include "cli/commands.h"

#define FEEDBACK_MAX 2000 /* bytes; what the service takes */

static int run_approve(int argc, char **argv);
static int run_deny(int argc, char **argv);
static int run_extend(int argc, char **argv);
static int run_cancel(int argc, char **argv);

const struct cli_command cli_cmd_approve = {
    .name = "approve",
    .summary = "allow what `show` showed",
    .help = "gatehouse approve ID [--digest D] [--always]\n\n"
            "  gatehouse show k3v9x2ab\n"
            "  gatehouse approve k3v9x2ab --digest 1f3a90b2c4d5\n"
            "  gatehouse approve k3v9x2ab            on a terminal: shows it, then asks\n"
            "  gatehouse approve k3v9x2ab --always --digest 1f3a90b2c4d5\n\n"
            "The digest (at least 8 digits) says that you saw what you allow: if it is\n"
            "another action by now, nothing is allowed. --always allows exactly this target\n"
            "for the rest of the session.\n",
    .run = run_approve,
};

const struct cli_command cli_cmd_deny = {
    .name = "deny",
    .summary = "refuse what waits",
    .help = "gatehouse deny ID [--feedback TEXT]\n\n"
            "  gatehouse deny k3v9x2ab\n"
            "  gatehouse deny k3v9x2ab --feedback \"use the build folder instead\"\n\n"
            "The feedback is handed to the agent.\n",
    .run = run_deny,
};

const struct cli_command cli_cmd_extend = {
    .name = "extend",
    .summary = "give a question more time",
    .help = "gatehouse extend ID [--seconds N]\n\n"
            "  gatehouse extend k3v9x2ab                five more minutes\n"
            "  gatehouse extend k3v9x2ab --seconds 30m\n\n"
            "Never beyond the time the caller itself waits.\n",
    .run = run_extend,
};

const struct cli_command cli_cmd_cancel = {
    .name = "cancel",
    .summary = "withdraw a question that the agent's token asked",
    .help = "gatehouse cancel ID\n\n"
            "  gatehouse cancel k3v9x2ab\n\n"
            "For the side that asked; it is a denial. To refuse as a person: gatehouse deny\n",
    .run = run_cancel,
};

/* Open questions first; then all, so that the answer can say how it was settled. */
static int resolve(struct cli *cli, const char *word, char ret[64])
{
    static const char *const paths[] = {"/v1/approvals?state=pending", "/v1/approvals", NULL};
    return cli_resolve(cli, paths, "apr", word, ret);
}

int cli_approval_get(struct cli *cli, const char *word, struct cli_answer *answer)
{
    char id[64] = "";
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    int code = resolve(cli, word, id);
    if (code != CLI_GO_ON) {
        return code;
    }
    gh_buf_printf(&path, "/v1/approvals/%s", id);
    code = cli_get(cli, gh_buf_str(&path), answer);
    if (code == CLI_GO_ON && (cli_str(answer->json, "digest", NULL) == NULL ||
                              strcmp(cli_str(answer->json, "id", ""), id) != 0)) {
        cli_say("The service's answer is not that approval.");
        return CLI_FAILED;
    }
    return code;
}

/* Show the card and read "yes". Keys pressed before the card was there do not count. */
static int confirm(struct cli *cli, const struct json_t *approval)
{
    char line[16] = "";
    if (isatty(STDIN_FILENO) != 1 || !cli->out.is_tty) {
        return cli_usage(cli, "Without a terminal --digest is needed; see: gatehouse show %s",
                         cli_short_id(cli_str(approval, "id", "")));
    }
    cli_card(&cli->out, approval);
    bool is_shown = cli_out_flush(&cli->out);
    tcflush(STDIN_FILENO, TCIFLUSH); /* before the question: what is typed after it counts */
    cli_out_puts(&cli->out, "\nAllow exactly this? Type yes: ");
    if (!is_shown || !cli_out_flush(&cli->out)) {
        return CLI_FAILED;
    }
    if (fgets(line, sizeof line, stdin) == NULL || strcmp(line, "yes\n") != 0) {
        cli_say("Nothing was decided.");
        return CLI_FAILED;
    }
    return CLI_GO_ON;
}

/* What the person saw must be what waits. */
static int check_seen(struct cli *cli, const struct json_t *approval, const char *digest)
{
    if (digest == NULL) {
        return cli->args.json ? cli_usage(cli, "With --json, --digest is needed.")
                              : confirm(cli, approval);
    }
    if (strlen(digest) < 8) {
        return cli_usage(cli, "--digest needs at least 8 digits of what `gatehouse show` printed.");
    }
    if (!cli_digest_matches(cli_str(approval, "digest", ""), digest)) {
        cli_say("The digest is another one: what waits is not what you saw. Nothing was decided; "
                "look again: gatehouse show %s",
                cli_short_id(cli_str(approval, "id", "")));
        return CLI_FAILED;
    }
    return CLI_GO_ON;
}

static int settle(struct cli *cli, const struct json_t *approval, const char *decision,
                  const char *feedback)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf what = GH_BUF_INIT;
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    struct gh_jw w = {.buf = &body, .comma = false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "decision", decision);
    if (feedback != NULL) {
        gh_jw_str(&w, "feedback", feedback);
    }
    gh_jw_end(&w);
    gh_buf_printf(&path, "/v1/approvals/%s/decision", cli_str(approval, "id", ""));
    int code = cli_send(cli,
                        &(struct cli_request){.method = "PUT",
                                              .path = gh_buf_str(&path),
                                              .body = gh_buf_str(&body),
                                              .if_match = cli_str(approval, "digest", "")},
                        &answer);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (cli->args.json) {
        return cli_print_json(cli, &answer);
    }
    cli_target(&what, gh_json_get(approval, "target"));
    cli_out_printf(&cli->out, "%s: ", strcmp(decision, "deny") == 0 ? "denied" : "allowed");
    cli_out_last(&cli->out, gh_buf_str(&what), 9);
    return cli_finish(cli, CLI_DONE);
}

static int run_approve(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    const char *digest = NULL;
    bool is_always = false;
    const struct cli_opt opts[] = {{"--digest", CLI_OPT_TEXT, &digest},
                                   {"--always", CLI_OPT_FLAG, &is_always},
                                   {NULL, CLI_OPT_END, NULL}};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){opts, 1, 1});
    if (code == CLI_GO_ON) {
        code = cli_connect(&cli, CLI_AS_APPROVER);
    }
    if (code == CLI_GO_ON) {
        code = cli_approval_get(&cli, cli.args.rest[0], &answer);
    }
    if (code == CLI_GO_ON) {
        code = check_seen(&cli, answer.json, digest);
    }
    return code == CLI_GO_ON ? settle(&cli, answer.json, is_always ? "allow_always" : "allow", NULL)
                             : code;
}

static int run_deny(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    const char *feedback = NULL;
    const struct cli_opt opts[] = {{"--feedback", CLI_OPT_TEXT, &feedback},
                                   {NULL, CLI_OPT_END, NULL}};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){opts, 1, 1});
    if (code == CLI_GO_ON && feedback != NULL && strlen(feedback) > FEEDBACK_MAX) {
        return cli_usage(&cli, "The feedback may have at most %d bytes.", FEEDBACK_MAX);
    }
    if (code == CLI_GO_ON) {
        code = cli_connect(&cli, CLI_AS_APPROVER);
    }
    if (code == CLI_GO_ON) {
        code = cli_approval_get(&cli, cli.args.rest[0], &answer);
    }
    return code == CLI_GO_ON ? settle(&cli, answer.json, "deny", feedback) : code;
}

static int run_extend(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    int64_t seconds = 300;
    char id[64] = "";
    char span[24];
    char body[48];
    const struct cli_opt opts[] = {{"--seconds", CLI_OPT_SECS, &seconds},
                                   {NULL, CLI_OPT_END, NULL}};
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){opts, 1, 1});
    if (code == CLI_GO_ON) {
        code = cli_connect(&cli, CLI_AS_APPROVER);
    }
    if (code == CLI_GO_ON) {
        code = resolve(&cli, cli.args.rest[0], id);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    snprintf(body, sizeof body, "{\"seconds\":%lld}", (long long)seconds);
    gh_buf_printf(&path, "/v1/approvals/%s/extend", id);
    const struct cli_request request = {.method = "POST", .path = gh_buf_str(&path), .body = body};
    code = cli_send(&cli, &request, &answer);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (cli.args.json) {
        return cli_print_json(&cli, &answer);
    }
    cli_out_span(gh_json_number(gh_json_get(answer.json, "remaining_ms"), 0), span);
    cli_out_printf(&cli.out, "%s left\n", span);
    return cli_finish(&cli, CLI_DONE);
}

static int run_cancel(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    char id[64] = "";
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){NULL, 1, 1});
    if (code == CLI_GO_ON) {
        code = cli_connect(&cli, CLI_AS_AGENT);
    }
    if (code == CLI_GO_ON) {
        code = resolve(&cli, cli.args.rest[0], id);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    gh_buf_printf(&path, "/v1/approvals/%s", id);
    const struct cli_request request = {.method = "DELETE", .path = gh_buf_str(&path)};
    code = cli_send(&cli, &request, &answer);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (cli.args.json) {
        return cli_print_json(&cli, &answer);
    }
    cli_out_puts(&cli.out, "cancelled\n");
    return cli_finish(&cli, CLI_DONE);
}
