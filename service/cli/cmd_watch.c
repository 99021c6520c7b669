#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/call.h"
#include "cli/card.h"
#include "cli/commands.h"
#include "cli/sse.h"

#define MAX_PAUSE_MS 10000

static int run_watch(int argc, char **argv);

const struct cli_command cli_cmd_watch = {
    .name = "watch",
    .summary = "follow what happens, one line an event",
    .help = "gatehouse watch [--session ID] [--count N] [--json]\n\n"
            "  gatehouse watch\n"
            "  gatehouse watch --json | jq -r 'select(.type==\"approval.created\").data.id'\n"
            "  gatehouse watch --count 1        wait for one event\n\n"
            "Comes back by itself when the service restarts, and misses nothing that the\n"
            "service still has. Ctrl-C ends it.\n",
    .run = run_watch,
};

struct watch {
    struct cli *cli;
    const char *path;
    struct cli_sse sse;
    int64_t n_left;   /* events to go; -1: no end */
    bool is_heard;    /* this connection brought something */
    bool is_finished; /* enough events, or nobody reads us any more */
};

/* Local time of day of the event, or of now. */
static void put_time(struct cli_out *out, const struct json_t *data)
{
    char text[16] = "";
    int64_t ms = gh_clock_parse(cli_str(data, "at", cli_str(data, "created_at", "")));
    time_t when = (time_t)((ms < 0 ? gh_clock_wall_ms() : ms) / 1000);
    struct tm local;
    if (localtime_r(&when, &local) != NULL) {
        strftime(text, sizeof text, "%H:%M:%S", &local);
    }
    cli_out_cell(out, text, 8);
}

/* The words an event may have, in the order people read them. */
static void put_summary(struct gh_buf *out, const struct json_t *data)
{
    static const char *const keys[] = {"state", "decision", "by",     "code",  "mode",
                                       "agent", "action",   "source", "marker"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *text = cli_str(data, keys[i], NULL);
        if (text != NULL && strncmp(text, "dec_", 4) != 0) {
            text_for_terminal(text, 40, out);
            gh_buf_putc(out, ' ');
        }
    }
    if (gh_json_len(gh_json_get(data, "target")) > 0) {
        cli_target(out, gh_json_get(data, "target"));
    }
}

/* Some events wrap their object: {"approval":{...}}. */
static const struct json_t *unwrap(const struct json_t *data)
{
    static const char *const names[] = {"approval", "decision", "session", "execution",
                                        "checkpoint"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct json_t *inner = gh_json_get(data, names[i]);
        if (gh_json_get(inner, "id") != NULL) {
            return inner;
        }
    }
    return data;
}

static void put_line(struct cli_out *out, const char *type, const struct json_t *data)
{
    gh_auto(gh_buf_fini) struct gh_buf what = GH_BUF_INIT;
    const struct json_t *object = unwrap(data);
    const char *id = cli_str(object, "id", cli_str(object, "session", ""));
    put_time(out, data);
    cli_out_cell(out, type, 18);
    cli_out_cell(out, cli_short_id(id), CLI_SHORT_ID);
    put_summary(&what, object);
    cli_out_last(out, gh_buf_str(&what), 37);
}

static void put_event(struct cli_out *out, const char *type, const char *id, const char *data)
{
    struct cli_out_cut rest = {{0}, 0};
    gh_auto(gh_buf_fini) struct gh_buf line = GH_BUF_INIT;
    struct gh_jw w = {.buf = &line, .comma = false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "id", id);
    gh_jw_str(&w, "type", type);
    gh_jw_raw(&w, "data", data);
    gh_jw_end(&w);
    cli_out_json(out, gh_buf_str(&line), line.len, &rest);
    cli_out_puts(out, "\n");
}

static bool take_event(const char *type, const char *id, const char *data, void *cookie)
{
    struct watch *watch = cookie;
    struct gh_err ignored = {0};
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    if (strcmp(type, "hello") == 0) {
        return true; /* the stream's greeting; only its id matters */
    }
    if (gh_json_parse(data, strlen(data), &body, &ignored) != GH_OK) {
        cli_say("An event could not be read and is left out.");
        return true;
    }
    if (watch->cli->args.json) {
        gh_auto(gh_buf_fini) struct gh_buf one_line = GH_BUF_INIT;
        gh_json_canonical(body, &one_line);
        put_event(&watch->cli->out, type, id, gh_buf_str(&one_line));
    } else {
        put_line(&watch->cli->out, type, body);
    }
    watch->n_left -= watch->n_left > 0 ? 1 : 0;
    watch->is_finished = !cli_out_flush(&watch->cli->out) || watch->n_left == 0;
    return !watch->is_finished;
}

static bool take_bytes(const char *data, size_t len, void *cookie)
{
    struct watch *watch = cookie;
    watch->is_heard = true;
    return cli_sse_feed(&watch->sse, data, len, take_event, watch);
}

/* One connection, until it ends. CLI_GO_ON to connect again, or the exit code. */
static int follow(struct watch *watch)
{
    struct gh_err err = {0};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    const struct cli_request request = {
        .method = "GET",
        .path = watch->path,
        .accept = "text/event-stream",
        .last_event_id = watch->sse.id[0] != '\0' ? watch->sse.id : NULL,
        .timeout_ms = -1,
        .interrupt_fd = watch->cli->signal_fd,
        .on_data = take_bytes,
        .cookie = watch,
    };
    watch->is_heard = false;
    cli_sse_reset(&watch->sse);
    enum gh_code code = cli_client_send(watch->cli->client, &request, &answer, &err);
    if (watch->is_finished) {
        return CLI_DONE;
    }
    if (answer.failure == CLI_F_INTERRUPTED) {
        return CLI_DONE;
    }
    if (code == GH_OK && answer.status >= 400 && answer.status < 500 && answer.status != 429) {
        return cli_complain(watch->cli, &answer, &err);
    }
    return answer.failure == CLI_F_LOCAL ? cli_complain(watch->cli, &answer, &err) : CLI_GO_ON;
}

/* Follow, and come back as long as nobody ends us. */
static int follow_on(struct watch *watch)
{
    struct gh_err err = {0};
    int pause_ms = 250;
    bool is_told = false;
    for (;;) {
        int code = watch->cli->client != NULL ? follow(watch) : CLI_GO_ON;
        if (code != CLI_GO_ON) {
            return code;
        }
        if (watch->is_heard) {
            pause_ms = 250;
            is_told = false;
        }
        if (!is_told && pause_ms > 250) {
            cli_say("The service is away; waiting for it.");
            is_told = true;
        }
        if (cli_pause(watch->cli, pause_ms)) {
            return CLI_DONE;
        }
        pause_ms = pause_ms * 2 < MAX_PAUSE_MS ? pause_ms * 2 : MAX_PAUSE_MS;
        watch->is_heard = false;
        if (cli_reach(watch->cli, CLI_AS_APPROVER, &err) != GH_OK) {
            watch->cli->client = NULL;
        }
    }
}

/* A first request that has an end, so that a service that is not there is said, not waited for. */
static int check_service(struct cli *cli)
{
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    return cli_get(cli, "/v1/status", &answer);
}

static int run_watch(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    const char *session = NULL;
    char id[64] = "";
    struct watch watch = {.cli = &cli, .n_left = -1};
    const struct cli_opt opts[] = {{"--session", CLI_OPT_TEXT, &session},
                                   {"--count", CLI_OPT_COUNT, &watch.n_left},
                                   {NULL, CLI_OPT_END, NULL}};
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){opts, 0, 0});
    if (code == CLI_GO_ON && watch.n_left == 0) {
        return cli_usage(&cli, "--count must be at least 1.");
    }
    if (code == CLI_GO_ON) {
        code = cli_connect(&cli, CLI_AS_APPROVER);
    }
    if (code == CLI_GO_ON) {
        code = check_service(&cli);
    }
    if (code == CLI_GO_ON && session != NULL) {
        code = cli_resolve_session(&cli, session, id);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    gh_buf_puts(&path, "/v1/events");
    cli_query(&path, "session", session != NULL ? id : NULL);
    watch.path = gh_buf_str(&path);
    cli_catch_signals(&cli);
    code = follow_on(&watch);
    cli_sse_fini(&watch.sse);
    return code;
}
