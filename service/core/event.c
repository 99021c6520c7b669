#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/execution.h"
#include "core/state.h"

#define HEARTBEAT_MS 12000
#define MAX_STREAMS 1000
#define MAX_STREAMS_PER_TOKEN 64
#define STREAM_BUFFER ((size_t)1 << 20)
#define MAX_EVENTS_PER_POLL 500
#define MAX_KEPT_BYTES ((size_t)16 << 20)
#define MAX_REPLAY_BYTES ((size_t)512 << 10) /* well below a stream's buffer */

static bool may_see(const struct auth_token *who, const char *filter, const struct event *event)
{
    if (filter[0] != '\0' && strcmp(filter, event->session) != 0) {
        return false;
    }
    return who->role != AUTH_AGENT || strcmp(who->name, event->owner) == 0;
}

static void event_text(const struct core *core, const struct event *event, struct gh_buf *out)
{
    gh_buf_printf(out, "id: %s-%" PRIu64 "\nevent: %s\ndata: %s\n\n", core->run_id, event->seq,
                  event->type, event->data);
}

/* The oldest event still kept, or one past the newest when there is none. */
static uint64_t oldest_seq(const struct core *core)
{
    return core->event_seq - core->n_events + 1;
}

static void forget_event_locked(struct core *core)
{
    struct event *event = &core->events[oldest_seq(core) % N_EVENTS];
    core->event_bytes -= event->bytes;
    free(event->data);
    event->data = NULL;
    core->n_events--;
}

static const struct event *event_at(const struct core *core, uint64_t seq)
{
    return &core->events[seq % N_EVENTS];
}

/* "<run>-<seq>" of this run, not from the future and not forgotten. */
static bool parse_event_id(const struct core *core, const char *text, uint64_t *ret)
{
    size_t n = strlen(core->run_id);
    if (strncmp(text, core->run_id, n) != 0 || text[n] != '-' || text[n + 1] < '0' ||
        text[n + 1] > '9') {
        return false;
    }
    char *end = NULL;
    uint64_t seq = strtoull(text + n + 1, &end, 10);
    if (*end != '\0' || seq > core->event_seq || seq + 1 < oldest_seq(core)) {
        return false;
    }
    *ret = seq;
    return true;
}

void stream_close_locked(struct core *core, struct stream *stream)
{
    clock_clear_locked(core, &stream->due);
    if (stream->prev != NULL) {
        stream->prev->next = stream->next;
    } else {
        core->streams = stream->next;
    }
    if (stream->next != NULL) {
        stream->next->prev = stream->prev;
    }
    core->n_streams--;
    http_stream_close(stream->http);
    free(stream);
}

static bool send_text(struct stream *stream, const struct gh_buf *text)
{
    return !text->failed && http_stream_send(stream->http, text->data, text->len);
}

void stream_due_locked(struct core *core, struct stream *stream)
{
    if (!http_stream_send(stream->http, ":\n\n", 3)) {
        stream_close_locked(core, stream);
        return;
    }
    clock_set_locked(core, &stream->due, gh_clock_boot_ms() + HEARTBEAT_MS);
}

/* Streams first, then long polls; a stream that cannot take it is closed and comes back by id. */
static void fan_out_locked(struct core *core, const struct event *event)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    if (core->streams != NULL) {
        event_text(core, event, &text);
    }
    struct stream *next = NULL;
    for (struct stream *stream = core->streams; stream != NULL; stream = next) {
        next = stream->next;
        if (may_see(&stream->who, stream->session, event) && !send_text(stream, &text)) {
            core->numbers.n_events_dropped++;
            stream_close_locked(core, stream);
        }
    }
    struct wait *next_wait = NULL;
    for (struct wait *wait = core->event_waits; wait != NULL; wait = next_wait) {
        next_wait = wait->next;
        if (may_see(&wait->who, wait->session, event)) {
            events_reply_locked(core, wait);
        }
    }
}

void event_emit_locked(struct core *core, const char *type, const struct session *session,
                       const char *owner, struct gh_buf *data)
{
    char *taken = gh_buf_take(data);
    if (taken == NULL) {
        return; /* a hint is lost, the state is not: clients see it at their next snapshot */
    }
    size_t bytes = strlen(taken);
    while (core->n_events == N_EVENTS ||
           (core->n_events > 0 && core->event_bytes + bytes > MAX_KEPT_BYTES)) {
        forget_event_locked(core);
    }
    struct event *event = &core->events[++core->event_seq % N_EVENTS];
    core->n_events++;
    core->event_bytes += bytes;
    event->data = taken;
    event->bytes = bytes;
    event->seq = core->event_seq;
    snprintf(event->type, sizeof event->type, "%s", type);
    snprintf(event->session, sizeof event->session, "%s", session != NULL ? session->id : "");
    snprintf(event->owner, sizeof event->owner, "%s", owner);
    core->numbers.n_events++;
    fan_out_locked(core, event);
}

void events_free(struct core *core)
{
    for (size_t i = 0; i < N_EVENTS; i++) {
        free(core->events[i].data);
    }
}

/* ---- the stream ---- */

/* What a client that knew `last` has missed, or one resync. */
static void replay(const struct core *core, const struct stream *stream, const char *last,
                   struct gh_buf *out)
{
    gh_buf_puts(out, "retry: 2000\n\n");
    uint64_t seen = 0;
    if (last == NULL) {
        gh_buf_printf(out, "id: %s-%" PRIu64 "\nevent: hello\ndata: {\"version\":\"%s\"}\n\n",
                      core->run_id, core->event_seq, core->options.version);
        return;
    }
    bool is_known = parse_event_id(core, last, &seen);
    size_t head = out->len;
    for (uint64_t seq = seen + 1; is_known && seq <= core->event_seq; seq++) {
        if (may_see(&stream->who, stream->session, event_at(core, seq))) {
            event_text(core, event_at(core, seq), out);
        }
        is_known = out->len <= MAX_REPLAY_BYTES;
    }
    if (!is_known) { /* unknown, forgotten, or too much to tell: take a snapshot */
        out->len = head;
        gh_buf_printf(out, "id: %s-%" PRIu64 "\nevent: resync\ndata: {}\n\n", core->run_id,
                      core->event_seq);
    }
}

static bool has_room_locked(const struct core *core, const struct auth_token *who)
{
    size_t n = 0;
    for (const struct stream *stream = core->streams; stream != NULL; stream = stream->next) {
        n += strcmp(stream->who.id, who->id) == 0;
    }
    return core->n_streams < MAX_STREAMS && n < MAX_STREAMS_PER_TOKEN;
}

static void link_stream_locked(struct core *core, struct stream *stream)
{
    stream->next = core->streams;
    if (core->streams != NULL) {
        core->streams->prev = stream;
    }
    core->streams = stream;
    core->n_streams++;
    clock_set_locked(core, &stream->due, gh_clock_boot_ms() + HEARTBEAT_MS);
}

static void open_stream_locked(struct core *core, struct http_exchange *x,
                               const struct auth_token *who, const char *filter)
{
    struct gh_err err;
    struct stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL || !has_room_locked(core, who)) {
        free(stream);
        gh_fail(&err, GH_TOO_MANY, "Too many event streams are open for this token.");
        http_problem(x, &err, NULL);
        return;
    }
    const char *last = http_header(x, "Last-Event-ID");
    if (last == NULL) {
        last = http_query(x, "after");
    }
    stream->who = *who;
    stream->due = (struct gh_due){.owner = stream, .kind = STREAM_DUE};
    snprintf(stream->session, sizeof stream->session, "%s", filter);
    gh_auto(gh_buf_fini) struct gh_buf first = GH_BUF_INIT;
    replay(core, stream, last, &first);
    if (http_stream_open(x, "text/event-stream", STREAM_BUFFER, &stream->http, &err) != GH_OK) {
        free(stream);
        return;
    }
    link_stream_locked(core, stream);
    if (!send_text(stream, &first)) {
        stream_close_locked(core, stream);
    }
}

/* ---- the long poll ---- */

static void poll_item(const struct core *core, const struct event *event, struct gh_jw *w)
{
    char id[64];
    snprintf(id, sizeof id, "%s-%" PRIu64, core->run_id, event->seq);
    gh_jw_obj(w, NULL);
    gh_jw_str(w, "id", id);
    gh_jw_str(w, "type", event->type);
    gh_jw_raw(w, "data", event->data);
    gh_jw_end(w);
}

/* Events after `wait->seen` as a page; returns how many. */
static size_t poll_body(const struct core *core, const struct wait *wait, bool needs_resync,
                        struct gh_buf *out)
{
    struct gh_jw w = {out, false};
    size_t n = 0;
    uint64_t seq = wait->seen;
    gh_jw_obj(&w, NULL);
    gh_jw_arr(&w, "items");
    if (needs_resync) {
        const struct event resync = {
            .seq = core->event_seq, .type = "resync", .data = (char *)"{}"};
        poll_item(core, &resync, &w);
        seq = core->event_seq;
        n++;
    }
    for (; seq < core->event_seq && n < MAX_EVENTS_PER_POLL; seq++) {
        if (may_see(&wait->who, wait->session, event_at(core, seq + 1))) {
            poll_item(core, event_at(core, seq + 1), &w);
            n++;
        }
    }
    gh_jw_arr_end(&w);
    char id[64];
    snprintf(id, sizeof id, "%s-%" PRIu64, core->run_id, seq);
    gh_jw_str(&w, "last_id", id);
    gh_jw_end(&w);
    return n;
}

void events_reply_locked(struct core *core, struct wait *wait)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    bool is_lost = wait->seen + 1 < oldest_seq(core);
    poll_body(core, wait, is_lost, &body);
    reply_json(wait_take_locked(core, wait), 200, &body);
}

static void poll_locked(struct core *core, struct http_exchange *x, const struct auth_token *who,
                        const char *filter, int64_t wait_ms)
{
    struct wait wait = {.x = x, .kind = WAIT_EVENTS, .who = *who, .seen = core->event_seq};
    snprintf(wait.session, sizeof wait.session, "%s", filter);
    const char *after = http_query(x, "after");
    bool needs_resync = after != NULL && !parse_event_id(core, after, &wait.seen);
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    size_t n = poll_body(core, &wait, needs_resync, &body);
    if (n == 0 && wait_ms > 0 && wait_hold_locked(core, &wait, wait_ms, &core->event_waits)) {
        return;
    }
    reply_json(x, 200, &body);
}

static bool wants_json(struct http_exchange *x)
{
    const char *accept = http_header(x, "Accept");
    return accept != NULL && strstr(accept, "application/json") != NULL &&
           strstr(accept, "text/event-stream") == NULL;
}

void core_events(struct core *core, struct http_exchange *x, const struct auth_token *who)
{
    struct gh_err err;
    int64_t wait_ms = 0;
    if (!query_wait_ms(x, &wait_ms, &err)) {
        http_problem(x, &err, NULL);
        return;
    }
    const char *filter = http_query(x, "session");
    if (filter == NULL) {
        filter = "";
    }
    pthread_mutex_lock(&core->lock);
    if (stream_token_is_dropped_locked(core, who->id)) {
        gh_fail(&err, GH_UNAUTHORIZED, "This token is no longer valid.");
        http_problem(x, &err, NULL);
    } else if (core->is_stopping) {
        gh_fail(&err, GH_STOPPING, "The service is shutting down.");
        http_problem(x, &err, NULL);
    } else if (wants_json(x)) {
        poll_locked(core, x, who, filter, wait_ms);
    } else if (http_method(x) == HTTP_HEAD) {
        const struct http_header type = {"Content-Type", "text/event-stream"};
        struct gh_buf none = GH_BUF_INIT;
        http_reply(x, 200, &none, &type, 1);
    } else {
        open_stream_locked(core, x, who, filter);
    }
    pthread_mutex_unlock(&core->lock);
}

bool stream_token_is_dropped_locked(const struct core *core, const char *token_id)
{
    size_t n = core->n_dropped < N_DROPPED ? core->n_dropped : N_DROPPED;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(core->dropped[i], token_id) == 0) {
            return true;
        }
    }
    return false;
}

bool core_token_is_dropped(struct core *core, const char *token_id)
{
    if (core->n_dropped == 0) {
        return false;
    }
    pthread_mutex_lock(&core->lock);
    bool is_dropped = stream_token_is_dropped_locked(core, token_id);
    pthread_mutex_unlock(&core->lock);
    return is_dropped;
}

void core_token_restored(struct core *core, const char *token_id)
{
    pthread_mutex_lock(&core->lock);
    for (size_t i = 0; i < N_DROPPED; i++) {
        if (strcmp(core->dropped[i], token_id) == 0) {
            core->dropped[i][0] = '\0';
        }
    }
    pthread_mutex_unlock(&core->lock);
}

void core_token_dropped(struct core *core, const char *token_id)
{
    pthread_mutex_lock(&core->lock);
    /* Kept, for a request may be on its way that was admitted before. */
    snprintf(core->dropped[core->n_dropped % N_DROPPED], GH_ID, "%s", token_id);
    core->n_dropped++;
    struct stream *next = NULL;
    for (struct stream *stream = core->streams; stream != NULL; stream = next) {
        next = stream->next;
        if (strcmp(stream->who.id, token_id) == 0) {
            stream_close_locked(core, stream);
        }
    }
    execution_streams_drop_locked(core, token_id);
    waits_drop_locked(core, token_id);
    pthread_mutex_unlock(&core->lock);
}
