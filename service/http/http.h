/* http: one HTTP/1.1 server on loopback TCP and a unix socket. libmicrohttpd ends here.
 *
 * It knows nothing of routes, tokens or gatehouse: it hands each complete, bounded request to one
 * function and takes one reply from any thread, at once or later. Waiting is a suspended
 * connection, never a blocked thread. What the library accepts too kindly (two lengths, TE beside
 * CL, several Hosts, obsolete folding, ...) is refused here with a problem body and a close.
 *
 * Threads: handlers run on the library's threads and must not block for long; http_reply and the
 * stream functions may be called from any thread, with locks held (they never call back).
 */
#ifndef GH_HTTP_HTTP_H
#define GH_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct http_server;   /* listeners and their threads */
struct http_exchange; /* one request and the place for its reply */
struct http_stream;   /* a reply that goes on (server-sent events, exports) */

enum http_method {
    HTTP_OTHER = 0,
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS
};

struct http_peer {
    bool is_unix;  /* came by the unix socket */
    uid_t uid;     /* peer credentials on unix; (uid_t)-1 on TCP */
    pid_t pid;     /* peer pid on unix; 0 on TCP */
    char text[64]; /* "127.0.0.1:40312" or "unix:pid=123,uid=1000"; for audit and logs */
    char key[48];  /* address without the port, or "unix:UID": what a limiter counts by */
    uint16_t port; /* TCP source port, host order; 0 on unix */
    int family;    /* AF_INET, AF_INET6 or AF_UNIX */
};

struct http_header {
    const char *name;  /* borrowed for the call */
    const char *value; /* borrowed for the call; must not hold CR or LF */
};

/* Called once for each request whose head and body are complete. Must lead to exactly one
 * http_reply, http_problem or http_stream_open for `x`, now or later, on any thread. */
typedef void http_handler_fn(struct http_exchange *x, void *cookie);

/* Asked when the head is complete, before the body is read: return GH_OK to go on. A failure is
 * answered at once with http_problem's form and the body is not read. `x` has no body yet. */
typedef enum gh_code http_head_fn(struct http_exchange *x, void *cookie, size_t *ret_body_limit,
                                  struct gh_err *err);

/* The client closed its connection (or its sending half) while the exchange was held. Called at
 * most once, on a thread of the server, never with a lock of the server held. The exchange still
 * needs its reply. A reply on another thread at the same moment may overlap with the call: `x`, its
 * path, query, trace id and user stay valid until the call returns, its headers and peer do not,
 * and of two replies the second is dropped. */
typedef void http_gone_fn(struct http_exchange *x, void *cookie);

/* Told the bound TCP address (NULL without TCP) before the first request is taken. */
typedef void http_bound_fn(const char *address, void *cookie);

struct http_options {
    const char *tcp_host;       /* literal address: "127.0.0.1", "::1", ...; NULL: no TCP */
    uint16_t tcp_port;          /* 0 picks a free one */
    bool also_v6_loopback;      /* with 127.0.0.1: listen on [::1] too, same port, when possible */
    const char *unix_path;      /* NULL: no unix socket; made 0600, a dead one is replaced */
    http_head_fn *head;         /* may be NULL */
    http_handler_fn *handler;   /* never NULL */
    http_bound_fn *bound;       /* may be NULL */
    void *cookie;               /* for all of them; borrowed until http_server_free */
    size_t body_limit;          /* bytes, when `head` sets nothing else */
    unsigned n_threads;         /* threads per TCP listener; 0: 4 */
    unsigned max_connections;   /* per listener; 0: sized from RLIMIT_NOFILE */
    int64_t request_timeout_ms; /* head and body complete, counted from the first byte */
    int64_t idle_timeout_ms;    /* keep-alive connection without a request */
};

/* Bind, listen, start the threads. *ret is owned by caller (http_server_free).
 * Fails with GH_IO (address in use, not permitted; the text names it), GH_NOMEM. */
GH_MUST_USE enum gh_code http_server_start(const struct http_options *options,
                                           struct http_server **ret, struct gh_err *err);

/* "127.0.0.1:7717" (with the picked port), or NULL without TCP. Borrowed from `server`. */
const char *http_server_address(const struct http_server *server);

/* Stop accepting; connections and held exchanges stay. New requests on open connections are
 * answered 503 `stopping`. The caller then replies to everything that is held. */
void http_server_quiesce(struct http_server *server);

/* Number of exchanges that have been handed to the handler and have no reply yet. */
size_t http_server_held(const struct http_server *server);

/* True while something is held, or a thread of the server is inside `head` or `handler`. Once false
 * after http_server_quiesce it stays so: what they use can be taken apart. */
bool http_server_busy(const struct http_server *server);

/* End all streams, wait (at most `grace_ms`) until replies are written, stop, free. NULL is fine.
 * Every exchange must have its reply. */
void http_server_free(struct http_server *server, int64_t grace_ms);

/* ---- the request; everything is borrowed from `x` and valid until its reply ---- */

/* The method; HTTP_OTHER for one that is not listed (names are case-sensitive). */
enum http_method http_method(const struct http_exchange *x);

/* The method as sent. */
const char *http_method_name(const struct http_exchange *x);

/* The path as sent, percent-decoded once, without the query. A path with an encoded or literal NUL,
 * a backslash, "//", "/./", "/../", a control byte, or invalid UTF-8 never reaches the handler
 * (400). */
const char *http_path(const struct http_exchange *x);

/* The first value of query parameter `name` (decoded), or NULL. */
const char *http_query(const struct http_exchange *x, const char *name);

/* Call `fn` for each query parameter. */
void http_query_each(const struct http_exchange *x,
                     void (*fn)(const char *name, const char *value, void *cookie), void *cookie);

/* The value of a header, or NULL. Names compare case-insensitively. */
const char *http_header(const struct http_exchange *x, const char *name);

/* The whole body (NUL-terminated behind its end), "" when there is none. */
const char *http_body(const struct http_exchange *x, size_t *ret_len);

/* Free the body: for an exchange that is held and has been parsed. */
void http_body_drop(struct http_exchange *x);

/* Who is at the other end; made when first asked for. Never NULL. */
const struct http_peer *http_peer(const struct http_exchange *x);

/* The W3C trace id: taken from a valid `traceparent`, else fresh; 32 hex digits. */
const char *http_trace_id(const struct http_exchange *x);

/* In the head function only: a page of `origin` may read the reply, and its browser is told so.
 * Borrowed until the reply. */
void http_allow_origin(struct http_exchange *x, const char *origin);

/* In the head function only: one header for the refusal that it returns (Allow, Retry-After).
 * Borrowed until it has returned. */
void http_refusal_header(struct http_exchange *x, const char *name, const char *value);

/* A slot for the layer above (authenticated principal, per-request state). `fini` (may be NULL)
 * runs when the exchange is freed. */
void http_set_user(struct http_exchange *x, void *user, void (*fini)(void *user));
void *http_user(const struct http_exchange *x);

/* ---- the reply ---- */

/* Answer once. `body` is taken (emptied); `headers` (may be NULL) are copied. Content-Length, Date,
 * `Traceparent`-independent security headers and Cache-Control: no-store are added; HEAD sends no
 * body; 304 and 204 have none. A Content-Type header is the caller's, default application/json. Any
 * thread. `x` is gone afterwards unless the caller is still inside the handler. */
void http_reply(struct http_exchange *x, int status, struct gh_buf *body,
                const struct http_header *headers, size_t n_headers);

/* Answer with an application/problem+json body for `err` (type, title, status, detail, code,
 * trace_id, errors[] when err->pointer is set). `extra` (may be NULL) is finished JSON members to
 * add, for example "\"decision\":\"deny\"". 401 carries WWW-Authenticate: Bearer, 429 a
 * Retry-After. */
void http_problem(struct http_exchange *x, const struct gh_err *err, const char *extra);

/* As http_problem, with more headers (for example Retry-After, Allow). */
void http_problem_with(struct http_exchange *x, const struct gh_err *err, const char *extra,
                       const struct http_header *headers, size_t n_headers);

/* Around many replies to held exchanges: from http_cork to http_uncork they are prepared, then the
 * library is told of all at once, which spares it a walk over its waiting connections for each.
 * Every reply of the server waits meanwhile, so never block in between. May nest and overlap; any
 * thread. */
void http_cork(struct http_server *server);
void http_uncork(struct http_server *server);

/* Watch for the client's departure while the reply is not there yet. Call once, before the reply,
 * on the thread that has the exchange; `gone` may be called before this returns. A reply more than
 * a second later closes the connection: a held request is cheap on a fresh one only. */
void http_watch(struct http_exchange *x, http_gone_fn *gone, void *cookie);

/* Answer with a body that goes on: status 200, `content_type`, chunked. *ret is owned by caller
 * until http_stream_close. Fails with GH_NOMEM (then a problem was sent). Any thread. */
GH_MUST_USE enum gh_code http_stream_open(struct http_exchange *x, const char *content_type,
                                          size_t max_buffered, struct http_stream **ret,
                                          struct gh_err *err);

/* Queue bytes (copied). Returns false when the client is gone or more than `max_buffered` bytes
 * wait (a slow consumer): the caller then closes. Any thread. */
GH_MUST_USE bool http_stream_send(struct http_stream *stream, const void *data, size_t len);

/* Bytes queued and not yet handed to the kernel. */
size_t http_stream_backlog(const struct http_stream *stream);

/* Call `fn` once when the client is gone or the stream is over, on a thread of the server, with no
 * lock of the server held. `fn` may close the stream. A close on another thread at the same moment
 * may overlap with the call; the stream itself stays valid until `fn` returns. False when the
 * client is gone already: then `fn` is not called. */
GH_MUST_USE bool http_stream_on_gone(struct http_stream *stream,
                                     void (*fn)(struct http_stream *stream, void *cookie),
                                     void *cookie);

/* End the stream after what is queued; the handle is gone. */
void http_stream_close(struct http_stream *stream);

#endif
