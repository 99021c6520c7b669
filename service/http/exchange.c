#include "http/inner.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_BODY_BYTES ((size_t)1 << 20)

const char http_no_cookie[] = "";

void *http_exchange_begin(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    (void)cls;
    struct http_conn *conn = http_conn_of(mhd);
    size_t len = strlen(uri);
    size_t room = len > HTTP_MAX_TARGET ? 1 : http_target_room(uri, len);
    struct http_exchange *x = conn != NULL ? malloc(sizeof(*x) + room) : NULL;
    if (x == NULL) {
        return NULL; /* the first step then closes the connection */
    }
    memset(x, 0, sizeof(*x));
    atomic_store(&x->refs, 1);
    x->mhd = mhd;
    x->conn = conn;
    x->raw_target = uri;
    x->target_len = (uint16_t)(len > UINT16_MAX ? UINT16_MAX : len);
    x->refused = (uint8_t)http_target_parse(uri, x->text, &x->n_params);
    /* The library copies and splits the first Cookie field, which takes three times its size of the
     * connection's memory. Nothing here reads cookies, so it gets an empty one to find first. */
    MHD_set_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_COOKIE, http_no_cookie);
    http_conn_reading(conn);
    return x;
}

void http_exchange_unref(struct http_exchange *x)
{
    if (atomic_fetch_sub(&x->refs, 1) != 1) {
        return;
    }
    if (x->fini != NULL) {
        x->fini(x->user);
    }
    if (x->stream != NULL) {
        http_stream_unref(x->stream);
    }
    bool was_large = x->body.len >= LARGE_BODY_BYTES;
    gh_buf_fini(&x->body);
    free(x);
    if (was_large) {
        /* What was made of it is many times its size, and stays in this thread's arena. */
        malloc_trim(0);
    }
}

/* Give the library the reply that lies ready. */
static enum MHD_Result queue(struct http_exchange *x)
{
    if (x->response == NULL) {
        return MHD_NO;
    }
    if (x->needs_fixed) {
        /* Here, on the connection's own thread: many replies are made by one thread of the store.
         */
        http_reply_fixed(x->response, x->given);
    }
    enum MHD_Result done = MHD_queue_response(x->mhd, x->status, x->response);
    MHD_destroy_response(x->response);
    x->response = NULL;
    return done;
}

/* Give the reply if it is there, else let go of the thread until it is. */
static enum MHD_Result deliver(struct http_exchange *x)
{
    if (atomic_load(&x->state) == EX_READY) {
        return queue(x);
    }
    struct http_server *server = x->conn->server;
    struct MHD_Connection *mhd = x->mhd;
    int open = EX_OPEN;
    MHD_suspend_connection(mhd);
    if (!atomic_compare_exchange_strong(&x->state, &open, EX_HELD)) {
        http_reply_resume(server, mhd); /* the reply came in between */
    }
    return MHD_YES; /* `x` may be gone */
}

/* What the owner of the server says to the head. Counted before the look at `stopping`: whoever
 * stops sets that first and then waits for the count, so nothing is asked of what is being taken
 * apart. */
static enum gh_code ask_owner(struct http_exchange *x, struct gh_err *err)
{
    struct http_server *server = x->conn->server;
    const struct http_options *options = &server->options;
    enum gh_code code = GH_OK;
    atomic_fetch_add(&server->n_running, 1);
    if (atomic_load(&server->stopping)) {
        code = gh_fail(err, GH_STOPPING, "the service is shutting down");
    } else if (options->head != NULL) {
        code = options->head(x, options->cookie, &x->body_limit, err);
    }
    atomic_fetch_sub(&server->n_running, 1);
    return code;
}

/* Everything that can be refused before the body is read. */
static enum gh_code judge(struct http_exchange *x, const char *version, struct gh_err *err)
{
    struct http_server *server = x->conn->server;
    GH_TRY(http_head_check(x, version, err));
    /* Held requests must never take the places in which others are answered. */
    if (atomic_load(&server->n_held) > server->limit / 8 * 7) {
        return gh_fail(err, GH_BUSY, "too many requests are waiting for an answer");
    }
    x->body_limit = server->options.body_limit;
    GH_TRY(ask_owner(x, err));
    if (x->announced > x->body_limit) {
        return gh_fail(err, GH_TOO_LARGE, "the body may have %zu bytes", x->body_limit);
    }
    return GH_OK;
}

static enum MHD_Result take_head(struct http_exchange *x, const char *method, const char *version)
{
    struct gh_err err = {0};
    x->method_name = method;
    x->method = (uint8_t)http_head_method(method);
    x->stage = STAGE_BODY;
    enum gh_code code = judge(x, version, &err);
    if (code == GH_OK) {
        return MHD_YES;
    }
    if (err.code == GH_OK) {
        gh_fail(&err, code, "%s", gh_code_title(code));
    }
    x->stage = STAGE_OVER;
    x->closing = x->closing || code == GH_STOPPING || code == GH_BUSY;
    http_problem_with(x, &err, NULL, &x->refusal, x->refusal.name != NULL ? 1 : 0);
    return x->has_body ? queue(x) : MHD_YES; /* without a body the next step comes at once */
}

/* Collect; what is over the limit is counted and thrown away, for the library takes no reply in the
 * middle of a body. */
static enum MHD_Result take_body(struct http_exchange *x, const char *data, size_t *len)
{
    size_t n = *len;
    *len = 0;
    if (!x->overflow && n <= x->body_limit - x->body.len) {
        gh_buf_put(&x->body, data, n);
        return MHD_YES;
    }
    if (!x->overflow) {
        x->overflow = true;
        x->announced = x->body.len;
        gh_buf_fini(&x->body);
    }
    x->announced += n;
    return x->announced / 4 <= x->body_limit ? MHD_YES : MHD_NO;
}

/* The request is complete. */
static void hand_over(struct http_exchange *x)
{
    struct http_server *server = x->conn->server;
    struct gh_err err = {0};
    x->stage = STAGE_OVER;
    x->closing = false;
    http_conn_busy(x->conn);
    if (x->overflow) {
        gh_fail(&err, GH_TOO_LARGE, "the body may have %zu bytes", x->body_limit);
    } else if (x->body.failed) {
        gh_fail(&err, GH_NOMEM, "no memory for the body");
    }
    /* Counted before the last look at `stopping`, as in ask_owner; the thread by itself, for it may
     * still be inside the handler when another one has replied. */
    x->counted = true;
    atomic_fetch_add(&server->n_held, 1);
    atomic_fetch_add(&server->n_running, 1);
    if (err.code == GH_OK && atomic_load(&server->stopping)) {
        x->closing = true;
        gh_fail(&err, GH_STOPPING, "the service is shutting down");
    }
    if (err.code != GH_OK) {
        http_problem(x, &err, NULL);
    } else {
        server->options.handler(x, server->options.cookie);
    }
    atomic_fetch_sub(&server->n_running, 1);
}

enum MHD_Result http_exchange_step(void *cls, struct MHD_Connection *mhd, const char *url,
                                   const char *method, const char *version, const char *data,
                                   size_t *len, void **context)
{
    struct http_exchange *x = *context;
    (void)cls;
    (void)mhd;
    (void)url;
    if (x == NULL) {
        return MHD_NO;
    }
    if (x->stage == STAGE_HEAD) {
        return take_head(x, method, version);
    }
    if (x->stage == STAGE_BODY && *len > 0) {
        return take_body(x, data, len);
    }
    if (x->stage == STAGE_BODY) {
        hand_over(x);
    }
    return deliver(x);
}

void http_exchange_end(void *cls, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode why)
{
    struct http_exchange *x = *context;
    (void)cls;
    (void)mhd;
    *context = NULL;
    if (x == NULL) {
        return;
    }
    struct http_conn *conn = x->conn;
    http_watch_remove(x);
    if (x->stream != NULL) {
        http_stream_finished(x->stream);
    }
    if (x->response != NULL) {
        MHD_destroy_response(x->response);
        x->response = NULL;
    }
    if (x->closing && x->has_body && why == MHD_REQUEST_TERMINATED_COMPLETED_OK) {
        http_watch_linger(conn->server, conn->fd);
    }
    if (atomic_load(&x->state) == EX_READY) {
        atomic_fetch_sub(&conn->server->n_unwritten, 1);
    }
    http_conn_waiting(conn);
    http_exchange_unref(x);
}
