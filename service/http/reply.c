#include "http/inner.h"

#include <string.h>
#include <strings.h>

#include "base/clock.h"

/* On every reply, unless the caller gives the same header. */
static const struct http_header fixed[] = {
    {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Frame-Options", "DENY"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
    {"Content-Type", "application/json"},
};

/* Where nobody knows better: limits that open when something ends. */
#define RETRY_AFTER_S "5"

#define N_FIXED (sizeof(fixed) / sizeof(*fixed))
#define FIXED_TYPE (1u << (N_FIXED - 1))

/* The bit of the fixed header called `name`, 0 for any other. */
static unsigned fixed_bit(const char *name)
{
    for (size_t i = 0; i < N_FIXED; i++) {
        if (strcasecmp(fixed[i].name, name) == 0) {
            return 1u << i;
        }
    }
    return 0;
}

/* Add the caller's headers. Returns the bits of the fixed ones that are not to be added. */
static unsigned add_given(struct MHD_Response *response, int status,
                          const struct http_header *headers, size_t n_headers)
{
    unsigned given = status == 204 || status == 304 ? FIXED_TYPE : 0;
    for (size_t i = 0; i < n_headers; i++) {
        given |= fixed_bit(headers[i].name);
        /* The library refuses CR and LF, so no value can start another header. */
        (void)MHD_add_response_header(response, headers[i].name, headers[i].value);
    }
    return given;
}

void http_reply_fixed(struct MHD_Response *response, unsigned given)
{
    for (size_t i = 0; i < N_FIXED; i++) {
        if ((given & 1u << i) == 0) {
            (void)MHD_add_response_header(response, fixed[i].name, fixed[i].value);
        }
    }
}

void http_reply_headers(struct MHD_Response *response, int status,
                        const struct http_header *headers, size_t n_headers)
{
    http_reply_fixed(response, add_given(response, status, headers, n_headers));
}

void http_reply_resume(struct http_server *server, struct MHD_Connection *mhd)
{
    atomic_fetch_add(&server->n_callers, 1);
    MHD_resume_connection(mhd);
    atomic_fetch_sub(&server->n_callers, 1);
}

void http_cork(struct http_server *server)
{
    pthread_mutex_lock(&server->cork.lock);
    server->cork.depth++;
    pthread_mutex_unlock(&server->cork.lock);
}

/* Keep the resume of `x` for the uncork; false when nothing is corked. */
static bool keep_corked(struct http_server *server, struct http_exchange *x)
{
    struct http_corked *cork = &server->cork;
    pthread_mutex_lock(&cork->lock);
    bool kept = cork->depth > 0;
    if (kept) {
        x->next = cork->first;
        cork->first = x;
    }
    pthread_mutex_unlock(&cork->lock);
    return kept;
}

static void resume_list(struct http_exchange *x)
{
    while (x != NULL) {
        struct http_exchange *next = x->next;
        MHD_resume_connection(x->mhd); /* from here on `x` may be gone */
        x = next;
    }
}

/* Let out what is corked, when `force` or by the last one that corked. */
static void uncork(struct http_server *server, bool force)
{
    struct http_corked *cork = &server->cork;
    struct http_exchange *list = NULL;
    atomic_fetch_add(&server->n_callers, 1);
    pthread_mutex_lock(&cork->lock);
    cork->depth = force ? 0 : cork->depth - 1;
    if (cork->depth == 0) {
        list = gh_steal(&cork->first);
    }
    pthread_mutex_unlock(&cork->lock);
    resume_list(list);
    atomic_fetch_sub(&server->n_callers, 1);
}

void http_uncork(struct http_server *server)
{
    uncork(server, false);
}

void http_reply_drain(struct http_server *server)
{
    uncork(server, true);
}

/* True when the connection ends with this reply. One that was held for long does: before the next
 * request on it the library would write over all of its memory, so that a poller held again costs
 * five times what it costs on a fresh connection. */
static bool is_last(const struct http_exchange *x)
{
    bool held_long = x->gone != NULL && x->stream == NULL &&
                     gh_clock_boot_ms() - x->watched_ms >= HTTP_HELD_LONG_MS;
    return x->closing || held_long || atomic_load(&x->conn->server->stopping);
}

/* No credentials: the token is a header that the page sets itself. */
static void add_cors(struct MHD_Response *response, const char *origin)
{
    (void)MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
    (void)MHD_add_response_header(response, "Access-Control-Expose-Headers",
                                  "Allow, ETag, Location, Retry-After");
    (void)MHD_add_response_header(response, "Vary", "Origin");
}

void http_reply_publish(struct http_exchange *x, int status, struct MHD_Response *response)
{
    struct http_server *server = x->conn->server;
    struct MHD_Connection *mhd = x->mhd;
    bool counted = x->counted;
    if (response != NULL && is_last(x)) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    if (response != NULL && x->origin != NULL) {
        add_cors(response, x->origin);
    }
    x->status = (uint16_t)status;
    x->response = response;
    if (x->stream == NULL) {
        http_watch_remove(x);
    }
    /* The callers' count keeps the server until we are out of here. */
    atomic_fetch_add(&server->n_callers, 1);
    atomic_fetch_add(&server->n_unwritten, 1);
    if (counted) {
        atomic_fetch_sub(&server->n_held, 1);
    }
    if (atomic_exchange(&x->state, EX_READY) == EX_HELD && !keep_corked(server, x)) {
        MHD_resume_connection(mhd); /* from here on `x` may be gone */
    }
    atomic_fetch_sub(&server->n_callers, 1);
}

static struct MHD_Response *make_response(struct gh_buf *body)
{
    if (body == NULL || body->len == 0) {
        return MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
    }
    size_t len = body->len;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, body->data, MHD_RESPMEM_MUST_FREE);
    if (response != NULL) {
        *body = GH_BUF_INIT; /* the library frees it */
    }
    return response;
}

/* Reply; `x` was claimed. */
static void reply(struct http_exchange *x, int status, struct gh_buf *body,
                  const struct http_header *headers, size_t n_headers)
{
    static const char no_memory[] = "{\"type\":\"urn:gatehouse:problem:out_of_memory\","
                                    "\"title\":\"There is not enough memory\",\"status\":503,"
                                    "\"detail\":\"\",\"code\":\"out_of_memory\"}";
    static const struct http_header problem[] = {{"Content-Type", "application/problem+json"}};
    struct MHD_Response *response = NULL;
    if (body != NULL && body->failed) {
        response = MHD_create_response_from_buffer(sizeof(no_memory) - 1, (void *)no_memory,
                                                   MHD_RESPMEM_PERSISTENT);
        status = 503;
        headers = problem;
        n_headers = 1;
    } else {
        response = make_response(body);
    }
    if (response != NULL) {
        x->given = (uint8_t)add_given(response, status, headers, n_headers);
        x->needs_fixed = true;
    }
    if (body != NULL) {
        gh_buf_fini(body);
    }
    http_reply_publish(x, status, response);
}

void http_reply(struct http_exchange *x, int status, struct gh_buf *body,
                const struct http_header *headers, size_t n_headers)
{
    if (atomic_exchange(&x->claimed, true)) {
        if (body != NULL) {
            gh_buf_fini(body);
        }
        return;
    }
    reply(x, status, body, headers, n_headers);
}

static void write_problem(const struct http_exchange *x, const struct gh_err *err,
                          const char *extra, struct gh_buf *out)
{
    const char *slug = gh_code_slug(err->code);
    struct gh_jw w = {out, false};
    gh_jw_obj(&w, NULL);
    gh_buf_printf(out, "\"type\":\"urn:gatehouse:problem:%s\"", slug);
    w.comma = true;
    gh_jw_str(&w, "title", gh_code_title(err->code));
    gh_jw_int(&w, "status", gh_code_status(err->code));
    gh_jw_str(&w, "detail", err->detail);
    gh_jw_str(&w, "code", slug);
    gh_jw_str(&w, "trace_id", http_trace_id(x));
    if (err->pointer[0] != '\0') {
        gh_jw_arr(&w, "errors");
        gh_jw_obj(&w, NULL);
        gh_jw_str(&w, "pointer", err->pointer);
        gh_jw_str(&w, "detail", err->detail);
        gh_jw_end(&w);
        gh_jw_arr_end(&w);
    }
    if (extra != NULL && extra[0] != '\0') {
        gh_buf_putc(out, ',');
        gh_buf_puts(out, extra);
    }
    gh_jw_end(&w);
}

static bool has_header(const struct http_header *headers, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(headers[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

void http_problem_with(struct http_exchange *x, const struct gh_err *err, const char *extra,
                       const struct http_header *headers, size_t n_headers)
{
    struct http_header all[16] = {{"Content-Type", "application/problem+json"}};
    size_t n = 1;
    int status = gh_code_status(err->code);
    if (atomic_exchange(&x->claimed, true)) {
        return;
    }
    if (status == 401) {
        all[n++] = (struct http_header){"WWW-Authenticate", "Bearer"};
    }
    if (status == 429 && !has_header(headers, n_headers, "Retry-After")) {
        all[n++] = (struct http_header){"Retry-After", RETRY_AFTER_S};
    }
    gh_assert(n_headers <= sizeof(all) / sizeof(*all) - n);
    for (size_t i = 0; i < n_headers; i++) {
        all[n++] = headers[i];
    }
    struct gh_buf body = GH_BUF_INIT;
    write_problem(x, err, extra, &body);
    reply(x, status, &body, all, n);
}

void http_problem(struct http_exchange *x, const struct gh_err *err, const char *extra)
{
    http_problem_with(x, err, extra, NULL, 0);
}
