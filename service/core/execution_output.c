#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/execution.h"

/* Live output as server-sent events, and input.
 *
 *   event: stdout|stderr   data: {"data":"…","lost_bytes":0}
 *   event: end             data: {"state":"exited","exit_code":0,"signal":null,"hint":null}
 */

#define HEARTBEAT_MS 12000
#define MAX_STREAMS 8                    /* of one execution */
#define MAX_BACKLOG ((size_t)4 << 20)    /* bytes that wait for a client before some are lost */
#define STREAM_BUFFER ((size_t)16 << 20) /* bytes at which it is given up */
#define MAX_INPUT_TEXT ((size_t)1 << 20)

/* ---- characters ---- */

/* Bytes of the character that starts with `c`; 1 for what starts none. */
static size_t length_of(unsigned char c)
{
    return c >= 0xF0 && c <= 0xF4 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 1;
}

/* Bytes at the end of `text` that begin a character without ending it. */
static size_t cut_at_end(const char *text, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = (unsigned char)text[len - back];
        if (c >= 0xF5 || c < 0x80) {
            return 0;
        }
        if (c >= 0xC2) {
            return length_of(c) > back ? back : 0;
        }
    }
    return 0;
}

/* ---- sending ---- */

static const char *const stream_names[2] = {"stdout", "stderr"};

static bool send_event(struct execution_stream *stream, int which, const char *data, size_t len)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    struct gh_jw w = {&text, false};
    gh_buf_printf(&text, "event: %s\ndata: ", stream_names[which]);
    gh_jw_obj(&w, NULL);
    gh_jw_strn(&w, "data", data, len);
    gh_jw_int(&w, "lost_bytes", (int64_t)stream->lost[which]);
    gh_jw_end(&w);
    gh_buf_puts(&text, "\n\n");
    stream->lost[which] = 0;
    return !text.failed && http_stream_send(stream->http, text.data, text.len);
}

/* Send raw output; the beginning of a character waits for its end. */
static bool feed(struct execution_stream *stream, int which, const char *data, size_t len,
                 bool is_last)
{
    gh_auto(gh_buf_fini) struct gh_buf whole = GH_BUF_INIT;
    if (http_stream_backlog(stream->http) > MAX_BACKLOG) {
        stream->lost[which] += stream->n_cut[which] + len;
        stream->n_cut[which] = 0;
        return true;
    }
    gh_buf_put(&whole, stream->cut[which], stream->n_cut[which]);
    gh_buf_put(&whole, data, len);
    if (whole.failed) {
        return false;
    }
    size_t cut = is_last ? 0 : cut_at_end(gh_buf_str(&whole), whole.len);
    if (cut > 0) {
        memcpy(stream->cut[which], whole.data + whole.len - cut, cut);
    }
    stream->n_cut[which] = cut;
    bool is_empty = whole.len == cut && stream->lost[which] == 0;
    return is_empty || send_event(stream, which, gh_buf_str(&whole), whole.len - cut);
}

static void close_locked(struct execution_stream *stream)
{
    struct execution *execution = stream->execution;
    struct execution_stream **at = &execution->streams;
    while (*at != stream) {
        at = &(*at)->next;
    }
    *at = stream->next;
    atomic_fetch_sub(&execution->n_streams, 1);
    clock_clear_locked(execution->core, &stream->due);
    if (stream->is_holder) {
        execution_let_go_locked(execution);
    }
    http_stream_close(stream->http);
    free(stream);
}

/* Nobody is there any more: as when a held request breaks off. */
static void broken_locked(struct execution_stream *stream)
{
    struct execution *execution = stream->execution;
    bool was_holder = stream->is_holder;
    close_locked(stream);
    if (was_holder) {
        execution_hold_back_locked(execution);
    }
}

void execution_output_locked(struct execution *execution, enum run_stream which, const char *data,
                             size_t len, uint64_t offset)
{
    struct execution_stream *next = NULL;
    for (struct execution_stream *at = execution->streams; at != NULL; at = next) {
        next = at->next;
        uint64_t seen = at->seen[which];
        if (offset + len <= seen) {
            continue; /* it was in the tail this client began with */
        }
        size_t skipped = seen > offset ? (size_t)(seen - offset) : 0;
        at->seen[which] = offset + len;
        if (!feed(at, which, data + skipped, len - skipped, false)) {
            broken_locked(at);
        }
    }
}

static void end_text(const struct execution *execution, struct gh_buf *out)
{
    struct gh_jw w = {out, false};
    gh_buf_puts(out, "event: end\ndata: ");
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "state", execution_state_name(execution->state));
    if (execution->state == EXECUTION_EXITED) {
        gh_jw_int(&w, "exit_code", execution->result.exit_code);
    } else {
        gh_jw_null(&w, "exit_code");
    }
    if (execution->state == EXECUTION_SIGNALED) {
        gh_jw_int(&w, "signal_number", execution->result.signal);
    } else {
        gh_jw_null(&w, "signal_number");
    }
    gh_jw_str(&w, "hint", execution->why[0] != '\0' ? execution->why : execution->hint);
    gh_jw_end(&w);
    gh_buf_puts(out, "\n\n");
}

void execution_streams_end_locked(struct execution *execution)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    end_text(execution, &text);
    while (execution->streams != NULL) {
        struct execution_stream *stream = execution->streams;
        bool is_sent =
            feed(stream, RUN_STDOUT, "", 0, true) && feed(stream, RUN_STDERR, "", 0, true);
        if (is_sent && !text.failed) {
            (void)!http_stream_send(stream->http, text.data, text.len);
        }
        close_locked(stream);
    }
}

void execution_stream_due_locked(struct core *core, struct execution_stream *stream)
{
    if (!http_stream_send(stream->http, ":\n\n", 3)) {
        broken_locked(stream);
        return;
    }
    clock_set_locked(core, &stream->due, gh_clock_boot_ms() + HEARTBEAT_MS);
}

static struct execution_stream *find_stream_locked(struct core *core, const char *token_id,
                                                   const struct http_stream *http)
{
    for (struct execution *at = core->executions.first; at != NULL; at = at->next) {
        for (struct execution_stream *stream = at->streams; stream != NULL; stream = stream->next) {
            if (stream->http == http ||
                (token_id != NULL && strcmp(stream->who.id, token_id) == 0)) {
                return stream;
            }
        }
    }
    return NULL;
}

void execution_streams_drop_locked(struct core *core, const char *token_id)
{
    struct execution_stream *stream = NULL;
    while ((stream = find_stream_locked(core, token_id, NULL)) != NULL) {
        broken_locked(stream);
    }
}

/* ---- opening ---- */

static void gone(struct http_stream *http, void *cookie)
{
    struct core *core = cookie;
    pthread_mutex_lock(&core->lock);
    struct execution_stream *stream = find_stream_locked(core, NULL, http);
    if (stream != NULL) {
        broken_locked(stream);
    }
    pthread_mutex_unlock(&core->lock);
}

/* What is kept of the output so far; what came before it is told as lost. */
static bool replay_locked(struct execution *execution, struct execution_stream *stream)
{
    bool is_sent = true;
    for (int i = 0; i < 2 && is_sent; i++) {
        gh_auto(gh_buf_fini) struct gh_buf live = GH_BUF_INIT;
        uint64_t dropped = execution->dropped[i];
        if (execution->job != NULL) {
            dropped = run_tail(execution->job, (enum run_stream)i, &live);
        }
        const struct gh_buf *tail = execution->job != NULL ? &live : &execution->tail[i];
        stream->lost[i] = dropped;
        stream->seen[i] = dropped + tail->len;
        is_sent = !tail->failed && feed(stream, i, gh_buf_str(tail), tail->len, false);
    }
    return is_sent;
}

static void open_locked(struct execution *execution, struct http_exchange *x,
                        const struct auth_token *who)
{
    struct core *core = execution->core;
    struct gh_err err;
    struct execution_stream *stream =
        atomic_load(&execution->n_streams) < MAX_STREAMS ? calloc(1, sizeof *stream) : NULL;
    if (stream == NULL) {
        gh_fail(&err, GH_TOO_MANY, "Too many clients follow this output.");
        http_problem(x, &err, NULL);
        return;
    }
    stream->who = *who;
    stream->execution = execution;
    stream->is_holder = strcmp(who->name, execution->owner) == 0;
    stream->due = (struct gh_due){.owner = stream, .kind = EXECUTION_STREAM_DUE};
    if (http_stream_open(x, "text/event-stream", STREAM_BUFFER, &stream->http, &err) != GH_OK) {
        free(stream);
        return;
    }
    stream->next = execution->streams;
    execution->streams = stream;
    atomic_fetch_add(&execution->n_streams, 1);
    if (stream->is_holder) {
        execution_touch_locked(execution, who);
        execution_hold_locked(execution);
    }
    if (!replay_locked(execution, stream) || !http_stream_on_gone(stream->http, gone, core)) {
        broken_locked(stream);
    } else if (execution->is_final) {
        execution_streams_end_locked(execution);
    } else {
        clock_set_locked(core, &stream->due, gh_clock_boot_ms() + HEARTBEAT_MS);
    }
}

void core_execution_output(struct core *core, struct http_exchange *x, const struct auth_token *who,
                           const char *id)
{
    struct gh_err err;
    pthread_mutex_lock(&core->lock);
    struct execution *execution = execution_find_locked(core, who, id);
    if (execution == NULL) {
        reply_not_found(x);
    } else if (core->is_stopping) {
        gh_fail(&err, GH_STOPPING, "The service is shutting down.");
        http_problem(x, &err, NULL);
    } else if (stream_token_is_dropped_locked(core, who->id)) {
        gh_fail(&err, GH_UNAUTHORIZED, "This token is no longer valid.");
        http_problem(x, &err, NULL);
    } else if (http_method(x) == HTTP_HEAD) {
        const struct http_header type = {"Content-Type", "text/event-stream"};
        struct gh_buf none = GH_BUF_INIT;
        http_reply(x, 200, &none, &type, 1);
    } else {
        open_locked(execution, x, who);
    }
    pthread_mutex_unlock(&core->lock);
}

/* ---- input ---- */

struct input_request {
    struct json_t *json; /* owned */
    const char *data;
    bool is_end;
};

static enum gh_code parse_input(struct http_exchange *x, struct input_request *ret,
                                struct gh_err *err)
{
    static const char *const names[] = {"data",       "eof",    "narration", "response_id",
                                        "deadline_s", "wait_s", NULL};
    size_t len = 0;
    const char *data = http_body(x, &len);
    ret->data = "";
    GH_TRY(gh_json_parse(data, len, &ret->json, err));
    GH_TRY(gh_json_only(ret->json, "", names, err));
    GH_TRY(gh_json_str(ret->json, "", "data", GH_OPTIONAL, MAX_INPUT_TEXT, &ret->data, err));
    GH_TRY(gh_json_bool(ret->json, "", "eof", &ret->is_end, err));
    if (ret->data[0] == '\0' && !ret->is_end) {
        return gh_fail_at(err, GH_INVALID, "/data", "There is nothing to send.");
    }
    return GH_OK;
}

/* The call that the gate judges: what goes to which command. */
static enum gh_code make_input_call(const char *id, const struct input_request *request,
                                    struct call **ret, struct gh_err *err)
{
    static const char *const as_they_are[] = {"narration", "response_id", "deadline_s", "wait_s"};
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf what = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    gh_buf_printf(&what, "input for %s: %s%s", id, request->data,
                  request->is_end ? "(end of input)" : "");
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "tool", "send_process");
    gh_jw_str(&w, "action", "interact");
    gh_jw_obj(&w, "target");
    gh_jw_str(&w, "description", gh_buf_str(&what));
    gh_jw_end(&w);
    for (size_t i = 0; i < sizeof as_they_are / sizeof *as_they_are; i++) {
        const struct json_t *value = gh_json_get(request->json, as_they_are[i]);
        gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
        if (value != NULL) {
            gh_json_canonical(value, &text);
            gh_jw_raw(&w, as_they_are[i], gh_buf_str(&text));
        }
    }
    gh_jw_end(&w);
    if (body.failed || what.failed) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the call.");
    }
    return call_parse_own(gh_buf_str(&body), body.len, ret, err);
}

static enum gh_code check_input_locked(struct core *core, const struct auth_token *who,
                                       const char *id, char session_id[GH_ID], struct gh_err *err)
{
    const struct execution *execution = execution_find_locked(core, who, id);
    if (execution == NULL) {
        return gh_fail(err, GH_NOT_FOUND, "There is no such execution, or it is not yours.");
    }
    if (!execution->is_interactive) {
        return gh_fail(err, GH_CONFLICT, "It was not asked for as interactive.");
    }
    if (execution->job == NULL) {
        return gh_fail(err, GH_CONFLICT, "It is not running.");
    }
    snprintf(session_id, GH_ID, "%s", execution->session_id);
    return GH_OK;
}

static struct execution_input *make_input(const char *id, const struct input_request *request)
{
    struct execution_input *input = calloc(1, sizeof *input);
    if (input == NULL) {
        return NULL;
    }
    snprintf(input->execution, sizeof input->execution, "%s", id);
    input->data = strdup(request->data);
    input->len = strlen(request->data);
    input->is_end = request->is_end;
    if (input->data == NULL) {
        execution_input_free(input);
        return NULL;
    }
    return input;
}

static enum gh_code make_input_work(struct core *core, struct http_exchange *x,
                                    const struct auth_token *who, const char *id, struct work *work,
                                    struct gh_err *err)
{
    struct input_request request = {0};
    *work = (struct work){.core = core, .x = x, .who = *who, .created_ms = gh_clock_wall_ms()};
    gh_id_new("dec", work->id);
    enum gh_code code = parse_input(x, &request, err);
    if (code == GH_OK) {
        pthread_mutex_lock(&core->lock);
        code = check_input_locked(core, who, id, work->session_id, err);
        pthread_mutex_unlock(&core->lock);
    }
    if (code == GH_OK) {
        code = make_input_call(id, &request, &work->call, err);
    }
    if (code == GH_OK) {
        work->input = make_input(id, &request);
        code = work->input != NULL ? GH_OK : gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    gh_json_free(request.json);
    return code;
}

void core_execution_input(struct core *core, struct http_exchange *x, const struct auth_token *who,
                          const char *id)
{
    struct gh_err err;
    struct work *work = calloc(1, sizeof *work);
    if (work == NULL) {
        gh_fail(&err, GH_NOMEM, "There is not enough memory.");
        http_problem(x, &err, NULL);
        return;
    }
    if (make_input_work(core, x, who, id, work, &err) != GH_OK) {
        http_problem(x, &err, NULL);
        work_free(work);
        return;
    }
    work_begin(work);
}

/* What it is too full or too late for is lost; its output shows that. */
void execution_deliver_locked(struct core *core, const struct execution_input *input)
{
    for (struct execution *at = core->executions.last; at != NULL; at = at->prev) {
        if (strcmp(at->id, input->execution) == 0 && at->job != NULL) {
            (void)!run_input(at->job, input->data, input->len, input->is_end);
            return;
        }
    }
}
