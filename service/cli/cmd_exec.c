#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/id.h"
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/sse.h"

#define NOT_STARTED 126
#define KILLED (128 + SIGKILL)

static int run_exec(int argc, char **argv);

const struct cli_command cli_cmd_exec = {
    .name = "exec",
    .summary = "run a command confined, once the gate allows it",
    .help = "gatehouse exec [OPTIONS] -- COMMAND ...\n\n"
            "  gatehouse exec -- make check\n"
            "  gatehouse exec --network none --timeout 10m -- npm test\n"
            "  gatehouse exec --shell 'make && make check'\n\n"
            "The command can touch its session's folder and little else. Its output is shown\n"
            "as it comes: on a terminal made safe to look at, in a pipe as it is.\n\n"
            "  --session ID      in this session; else one for --dir (default: this folder)\n"
            "  --dir PATH        the folder whose session is opened or found again\n"
            "  --agent NAME      what the session is called\n"
            "  --cwd DIR         start in this folder of it\n"
            "  --shell TEXT      instead of a command: sh -c TEXT\n"
            "  --network WORD    at most this: none, loopback, tcp_ports, unrestricted\n"
            "  --timeout SECS    kill it after so long\n"
            "  --narration TEXT  why; shown as unverified\n\n"
            "The exit code is the command's, 128+N for signal N, 126 when it could not start,\n"
            "3 denied, 4 nobody answered. Ctrl-C kills the command; a second one leaves.\n",
    .run = run_exec,
};

struct exec {
    struct cli cli;
    const char *session, *dir, *agent, *cwd, *shell, *network, *narration;
    int64_t timeout_s;
    char id[64]; /* of the execution */
    struct cli_sse sse;
    struct gh_buf end; /* data of the event that ends the stream */
    bool is_tty[2];
    bool is_closed[2]; /* nobody reads us */
    int signal;        /* the first that came; 0: none */
};

/* ---- the request ---- */

static int parse_exec(struct exec *exec, int argc, char **argv)
{
    const struct cli_opt opts[] = {{"--session", CLI_OPT_TEXT, &exec->session},
                                   {"--dir", CLI_OPT_TEXT, &exec->dir},
                                   {"--agent", CLI_OPT_TEXT, &exec->agent},
                                   {"--cwd", CLI_OPT_TEXT, &exec->cwd},
                                   {"--shell", CLI_OPT_TEXT, &exec->shell},
                                   {"--network", CLI_OPT_TEXT, &exec->network},
                                   {"--timeout", CLI_OPT_SECS, &exec->timeout_s},
                                   {"--narration", CLI_OPT_TEXT, &exec->narration},
                                   {NULL, CLI_OPT_END, NULL}};
    exec->timeout_s = -1;
    int code = cli_begin(&exec->cli, argc, argv, &(struct cli_syntax){opts, 0, SIZE_MAX});
    if (code != CLI_GO_ON) {
        return code;
    }
    if ((exec->shell == NULL) == (exec->cli.args.n_rest == 0)) {
        return cli_usage(&exec->cli, "Give a command behind --, or --shell.");
    }
    if (exec->timeout_s == 0) {
        return cli_usage(&exec->cli, "--timeout must be at least 1.");
    }
    return CLI_GO_ON;
}

static void put_command(const struct exec *exec, struct gh_jw *w)
{
    if (exec->shell != NULL) {
        gh_jw_str(w, "shell", exec->shell);
        return;
    }
    gh_jw_str(w, "program", exec->cli.args.rest[0]);
    gh_jw_arr(w, "args");
    for (size_t i = 1; i < exec->cli.args.n_rest; i++) {
        gh_jw_str(w, NULL, exec->cli.args.rest[i]);
    }
    gh_jw_arr_end(w);
}

static void put_body(const struct exec *exec, struct gh_buf *out)
{
    struct gh_jw w = {out, false};
    gh_jw_obj(&w, NULL);
    put_command(exec, &w);
    gh_jw_str(&w, "cwd", exec->cwd);
    gh_jw_str(&w, "network", exec->network);
    gh_jw_str(&w, "narration", exec->narration);
    if (exec->timeout_s > 0) {
        gh_jw_int(&w, "timeout_s", exec->timeout_s);
    }
    gh_jw_end(&w);
}

static int send_exec(struct exec *exec, struct cli_answer *answer)
{
    struct cli *cli = &exec->cli;
    char session[64] = "";
    char key[GH_ID];
    gh_autofree char *dir = NULL;
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    int code = exec->session != NULL ? cli_resolve_session(cli, exec->session, session)
                                     : cli_session_open(cli, exec->dir, exec->agent, session, &dir);
    if (code != CLI_GO_ON) {
        return code;
    }
    put_body(exec, &body);
    gh_id_new("key", key);
    gh_buf_printf(&path, "/v1/sessions/%s/executions", session);
    return cli_send(cli,
                    &(struct cli_request){.method = "POST",
                                          .path = gh_buf_str(&path),
                                          .body = gh_buf_str(&body),
                                          .idempotency_key = key},
                    answer);
}

/* ---- the output ---- */

/* What a program wrote may hold anything: only a pipe gets it as it is. */
static void write_output(struct exec *exec, int which, const char *text)
{
    gh_auto(gh_buf_fini) struct gh_buf safe = GH_BUF_INIT;
    size_t len = strlen(text);
    if (exec->is_tty[which]) {
        text_neutral(text, len, true, &safe);
        text = gh_buf_str(&safe);
        len = safe.len;
    }
    if (!exec->is_closed[which] && !gh_fs_write_all(which + 1, text, len)) {
        exec->is_closed[which] = true;
    }
}

/* Our JSON reader takes no NUL in texts, and programs write some. */
static void replace_nul(const char *data, struct gh_buf *out)
{
    for (const char *at = data; *at != '\0'; at++) {
        bool is_nul = strncmp(at, "\\u0000", 6) == 0;
        gh_buf_put(out, is_nul ? "\\ufffd" : at, is_nul ? 6 : *at == '\\' ? 2 : 1);
        at += is_nul ? 5 : *at == '\\' ? 1 : 0;
    }
}

static bool take_event(const char *type, const char *id, const char *data, void *cookie)
{
    struct exec *exec = cookie;
    struct gh_err ignored = {0};
    gh_auto(gh_json_freep) struct json_t *json = NULL;
    (void)id;
    if (strcmp(type, "end") == 0) {
        gh_buf_fini(&exec->end);
        gh_buf_puts(&exec->end, data);
        return false;
    }
    gh_auto(gh_buf_fini) struct gh_buf clean = GH_BUF_INIT;
    replace_nul(data, &clean);
    if (exec->cli.args.json ||
        gh_json_parse(gh_buf_str(&clean), clean.len, &json, &ignored) != GH_OK) {
        return true;
    }
    int which = strcmp(type, "stderr") == 0;
    int64_t lost = gh_json_number(gh_json_get(json, "lost_bytes"), 0);
    if (lost > 0) {
        cli_say("%lld bytes of %s are missing here.", (long long)lost, type);
    }
    write_output(exec, which, cli_str(json, "data", ""));
    return !exec->is_closed[which];
}

static bool take_bytes(const char *data, size_t len, void *cookie)
{
    struct exec *exec = cookie;
    return cli_sse_feed(&exec->sse, data, len, take_event, exec);
}

static void send_kill(struct exec *exec)
{
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    struct gh_err err = {0};
    gh_buf_printf(&path, "/v1/executions/%s", exec->id);
    const struct cli_request request = {
        .method = "DELETE", .path = gh_buf_str(&path), .timeout_ms = 5000};
    if (cli_client_send(exec->cli.client, &request, &answer, &err) != GH_OK ||
        answer.status >= 300) {
        cli_say("The command could not be killed; the service does it in 10 s.");
    }
}

/* The first signal kills the command; its end is still waited for. */
static void take_signal(struct exec *exec)
{
    struct signalfd_siginfo info;
    exec->signal = SIGINT;
    if (read(exec->cli.signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        exec->signal = (int)info.ssi_signo;
    }
    send_kill(exec);
}

/* Until the end of the command. CLI_GO_ON, or the exit code. */
static int follow(struct exec *exec)
{
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_buf_printf(&path, "/v1/executions/%s/output", exec->id);
    const struct cli_request request = {.method = "GET",
                                        .path = gh_buf_str(&path),
                                        .accept = "text/event-stream",
                                        .timeout_ms = -1,
                                        .interrupt_fd = exec->cli.signal_fd,
                                        .on_data = take_bytes,
                                        .cookie = exec};
    for (;;) {
        gh_auto(cli_answer_fini) struct cli_answer answer = {0};
        struct gh_err err = {0};
        cli_sse_reset(&exec->sse);
        enum gh_code code = cli_client_send(exec->cli.client, &request, &answer, &err);
        if (exec->end.len > 0) {
            return CLI_GO_ON;
        }
        if (answer.failure == CLI_F_INTERRUPTED && exec->signal != 0) {
            return 128 + exec->signal;
        }
        if (answer.failure == CLI_F_INTERRUPTED) {
            take_signal(exec);
            continue;
        }
        if (exec->is_closed[0] || exec->is_closed[1]) {
            send_kill(exec);
            return 128 + SIGPIPE;
        }
        if (code == GH_OK && answer.status >= 300) {
            return cli_complain(&exec->cli, &answer, &err);
        }
        cli_say("The service went away, and the command with it.");
        return CLI_NO_SERVICE;
    }
}

/* ---- the end ---- */

static int exit_of_denied(const struct json_t *decision)
{
    bool is_late = strcmp(cli_str(decision, "by", ""), "timeout") == 0;
    cli_say("%s", cli_str(decision, "reason", "Denied."));
    return is_late ? CLI_TIMED_OUT : CLI_DENIED;
}

static int exit_of(const struct exec *exec, const struct json_t *end)
{
    const char *state = cli_str(end, "state", "");
    const char *hint = cli_str(end, "hint", NULL);
    if (hint != NULL && strcmp(state, "exited") != 0) {
        cli_say("%s", hint);
    }
    if (strcmp(state, "exited") == 0) {
        return (int)gh_json_number(gh_json_get(end, "exit_code"), CLI_FAILED);
    }
    if (strcmp(state, "signaled") == 0) {
        return 128 + (int)gh_json_number(gh_json_get(end, "signal_number"), SIGKILL);
    }
    if (strcmp(state, "failed_to_start") == 0) {
        return NOT_STARTED;
    }
    return exec->signal != 0 ? 128 + exec->signal : KILLED;
}

/* The whole object: for --json, and for what became of the question. */
static int report(struct exec *exec)
{
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    gh_auto(gh_json_freep) struct json_t *end = NULL;
    struct gh_err err = {0};
    if (gh_json_parse(gh_buf_str(&exec->end), exec->end.len, &end, &err) != GH_OK) {
        cli_say("The service's answer cannot be read.");
        return CLI_FAILED;
    }
    bool is_denied = strcmp(cli_str(end, "state", ""), "denied") == 0;
    if (!is_denied && !exec->cli.args.json) {
        return exit_of(exec, end);
    }
    gh_buf_printf(&path, "/v1/executions/%s", exec->id);
    int code = cli_get(&exec->cli, gh_buf_str(&path), &answer);
    if (code != CLI_GO_ON) {
        return code;
    }
    int printed = exec->cli.args.json ? cli_print_json(&exec->cli, &answer) : CLI_DONE;
    code = !is_denied          ? exit_of(exec, end)
           : exec->signal != 0 ? 128 + exec->signal
                               : exit_of_denied(gh_json_get(answer.json, "decision"));
    return printed == CLI_DONE ? code : printed;
}

static int run_and_follow(struct exec *exec)
{
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = send_exec(exec, &answer);
    if (code != CLI_GO_ON) {
        return code;
    }
    const struct json_t *decision = gh_json_get(answer.json, "decision");
    snprintf(exec->id, sizeof exec->id, "%s", cli_str(answer.json, "id", ""));
    if (strcmp(cli_str(answer.json, "state", ""), "asking") == 0 && !exec->cli.args.json) {
        fprintf(stderr, "Waiting for a person (gatehouse show %.*s) ...\n", CLI_SHORT_ID,
                cli_short_id(cli_str(decision, "approval", "-")));
    }
    code = follow(exec);
    return code == CLI_GO_ON ? report(exec) : code;
}

static int run_exec(int argc, char **argv)
{
    struct exec exec = {.is_tty = {isatty(STDOUT_FILENO) != 0, isatty(STDERR_FILENO) != 0}};
    int code = parse_exec(&exec, argc, argv);
    if (code == CLI_GO_ON) {
        code = cli_connect(&exec.cli, CLI_AS_AGENT);
    }
    if (code == CLI_GO_ON) {
        signal(SIGPIPE, SIG_IGN);
        cli_catch_signals(&exec.cli);
        code = run_and_follow(&exec);
    }
    cli_sse_fini(&exec.sse);
    gh_buf_fini(&exec.end);
    cli_fini(&exec.cli);
    return code;
}
