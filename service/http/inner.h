/* inner: what the files of this module share. Nothing outside service/http includes it.
 *
 * Locks, in the order in which they may be taken: server->streams.lock, stream->lock; and
 * server->watch.lock and server->cork.lock, each alone. libmicrohttpd's own locks come last. No
 * callback of the layer above runs with one of them held.
 *
 * An exchange is made when its request line is read and lives until the library is done with the
 * request and no callback uses it. Its `state` decides the race between a reply on one thread and
 * the end of the handler on another: whoever comes second carries the reply to the library.
 */
#ifndef GH_HTTP_INNER_H
#define GH_HTTP_INNER_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/auto.h"
#include "base/heap.h"
#include "http/http.h"

#define HTTP_MAX_TARGET 8192   /* bytes of a request target */
#define HTTP_MAX_PARAMS 64     /* query parameters of a request */
#define HTTP_POOL_BYTES 24576  /* a connection's memory in the library; holds 16 KiB of cookies */
#define HTTP_HELD_LONG_MS 1000 /* see is_last */
#define HTTP_MAX_LISTENERS 3   /* TCP, TCP over v6, unix */
#define HTTP_MAX_LINGERING 256 /* connections that are being drained before their close */

struct http_server;

struct http_listener {
    struct http_server *server;
    struct MHD_Daemon *daemon;
    int fd;     /* listening socket; the library closes it unless we stopped listening before */
    int family; /* AF_INET, AF_INET6, AF_UNIX */
    bool quiet; /* stopped listening: the socket is ours to close */
};

enum conn_phase {
    CONN_WAITING = 0, /* no request line yet, or idle between requests */
    CONN_READING,     /* head or body not complete */
    CONN_BUSY         /* request complete: being handled, held, or its reply written */
};

/* One accepted socket. Freed when the library has closed it. */
struct http_conn {
    struct http_server *server;
    const struct http_listener *listener;
    struct http_peer *peer; /* made when first asked for */
    struct gh_due due;      /* next look at this connection; watch.lock */
    atomic_llong due_ms;    /* when it must have got further */
    atomic_int phase;       /* enum conn_phase */
    atomic_bool queued;     /* `due` is in the heap */
    bool fresh;             /* no request was completed on it yet */
    int fd;
};

enum exchange_state {
    EX_OPEN = 0, /* no reply yet; the library's thread has it */
    EX_HELD,     /* no reply yet; the connection is suspended */
    EX_READY     /* the reply lies in `response` */
};

enum exchange_stage {
    STAGE_HEAD = 0, /* head not judged yet */
    STAGE_BODY,     /* head accepted, body not complete */
    STAGE_OVER      /* handed to the handler, or refused */
};

struct http_exchange {
    struct MHD_Connection *mhd; /* valid until the library is done with the request */
    struct http_conn *conn;
    struct MHD_Response *response;
    struct http_stream *stream; /* holds one reference */
    struct http_exchange *next; /* in the cork; cork.lock */
    const char *origin;         /* told in Access-Control-Allow-Origin; NULL: nothing is */
    struct http_header refusal; /* set by the head function, for its refusal; name NULL: none */
    void *user;
    void (*fini)(void *user);
    int64_t watched_ms; /* when http_watch was called */
    http_gone_fn *gone;
    void *gone_cookie;
    struct gh_buf body;
    size_t body_limit;
    uint64_t announced;      /* Content-Length; 0 when none or chunked */
    const char *method_name; /* the library's memory */
    const char *raw_target;  /* the library's memory; only its address is used */
    atomic_int refs;
    atomic_int state; /* enum exchange_state */
    atomic_bool claimed;
    uint16_t status;
    uint16_t target_len; /* bytes of the target as sent */
    uint16_t n_params;
    uint8_t method;   /* enum http_method */
    uint8_t stage;    /* enum exchange_stage */
    uint8_t refused;  /* enum gh_code of the target, told when the head is judged */
    bool has_body;    /* the head announces one */
    bool overflow;    /* the body is larger than its limit; `announced` counts it */
    bool counted;     /* handed to the handler: counts as held until the reply */
    bool closing;     /* the connection is closed after this reply */
    uint8_t given;    /* fixed headers of the reply that the caller gave or that do not belong */
    bool needs_fixed; /* the others are added where the reply is sent, not where it was made */
    bool watched;     /* has a slot in the watch table; watch.lock */
    char trace[33];   /* "" until asked for */
    char text[];      /* decoded path, then name and value of each parameter, NUL-ended each */
};

struct watch_slot {
    struct http_exchange *x; /* NULL in a free slot */
    uint32_t gen;            /* tells a stale event from a fresh one on the same descriptor */
};

struct drain {
    int fd; /* -1 in a free slot */
    size_t taken;
    int64_t until_ms;
};

/* The watch thread: deadlines, clients that leave, connections drained before their close. */
struct http_watch {
    pthread_mutex_t lock;
    pthread_t thread;
    bool running;
    bool stop;
    int epoll_fd;
    int wake_fd;
    int64_t next_ms; /* when the thread looks again by itself; -1: never */
    struct gh_heap heap;
    struct watch_slot *slots; /* by descriptor */
    size_t n_slots;
    struct drain lingering[HTTP_MAX_LINGERING];
    size_t n_lingering;
};

/* Replies whose resume waits for http_uncork. */
struct http_corked {
    pthread_mutex_t lock;
    unsigned depth;
    struct http_exchange *first;
};

struct http_streams {
    pthread_mutex_t lock;
    struct http_stream *first;
    bool ended; /* no new streams */
};

struct http_server {
    struct http_options options; /* strings inside are not kept */
    struct http_listener listeners[HTTP_MAX_LISTENERS];
    size_t n_listeners;
    char address[80];
    char *unix_path;
    uint64_t unix_dev; /* what we bound, so that only this is unlinked */
    uint64_t unix_ino;
    size_t limit; /* connections, over all listeners */
    atomic_size_t n_conns;
    atomic_size_t n_incomplete; /* connections whose request is not complete */
    atomic_size_t n_held;       /* exchanges with the handler, without a reply */
    atomic_size_t n_running;    /* threads inside `head` or `handler` */
    atomic_size_t n_unwritten;  /* replies the library has not finished */
    atomic_size_t n_callers;    /* threads inside a resume */
    atomic_bool stopping;
    struct http_watch watch;
    struct http_streams streams;
    struct http_corked cork;
};

/* ---- listen.c ---- */

/* Open the listening sockets of `options` into server->listeners. */
GH_MUST_USE enum gh_code http_listen_open(struct http_server *server,
                                          const struct http_options *options, struct gh_err *err);

/* Unlink the unix socket if it is still the one that was bound. */
void http_listen_unlink(struct http_server *server);

/* ---- conn.c ---- */

/* Callback of the library: a connection began or ends. `cls` is the listener. */
void http_conn_notify(void *cls, struct MHD_Connection *mhd, void **context,
                      enum MHD_ConnectionNotificationCode what);

/* The connection record of `mhd`. */
struct http_conn *http_conn_of(struct MHD_Connection *mhd);

void http_conn_reading(struct http_conn *conn); /* a request line was read */
void http_conn_busy(struct http_conn *conn);    /* the request is complete */
void http_conn_waiting(struct http_conn *conn); /* the request is done with */

/* ---- watch.c ---- */

/* Start the thread. Fails with GH_IO or GH_NOMEM; http_watch_fini is due all the same. */
GH_MUST_USE enum gh_code http_watch_start(struct http_server *server, struct gh_err *err);
void http_watch_stop(struct http_server *server); /* ends the thread */
void http_watch_fini(struct http_server *server); /* frees; after the daemons are gone */

/* Look at `conn`, whose due_ms is set, in time. */
void http_watch_due(struct http_conn *conn, int64_t now);
void http_watch_forget(struct http_conn *conn);

/* Shut down the connection that is incomplete for longest. False when there is none. */
bool http_watch_make_room(struct http_server *server);

/* Tell when the client of `x` leaves; nothing when a reply is there and it is no stream. */
void http_watch_add(struct http_exchange *x);
void http_watch_remove(struct http_exchange *x);

/* Read away what the client still sends, for a short time, before its socket closes: a close with
 * unread bytes resets the connection and may eat the reply. `fd` is duplicated. */
void http_watch_linger(struct http_server *server, int fd);

/* ---- target.c: pure ---- */

/* Decode the request target `raw` into `out` (at least http_target_room bytes): the path, then name
 * and value of each query parameter. Fails with GH_BAD_REQUEST or GH_URI_TOO_LONG. */
GH_MUST_USE enum gh_code http_target_parse(const char *raw, char *out, uint16_t *ret_n_params);

/* Bytes that http_target_parse may write for `raw`. */
size_t http_target_room(const char *raw, size_t len);

/* Write the trace id of a valid `traceparent`; false when it is none. */
bool http_target_trace(const char *traceparent, char out[33]);

/* ---- head.c ---- */

/* The value of the Cookie field that is put before the client's fields. */
extern const char http_no_cookie[];

/* Judge the header fields: what two parsers could read differently is refused. Sets has_body,
 * announced, closing. Fails with GH_BAD_REQUEST, GH_URI_TOO_LONG, GH_EXPECTATION. */
GH_MUST_USE enum gh_code http_head_check(struct http_exchange *x, const char *version,
                                         struct gh_err *err);

/* The enum of a method's name. */
enum http_method http_head_method(const char *name);

/* ---- exchange.c: callbacks of the library ---- */

void *http_exchange_begin(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_exchange_step(void *cls, struct MHD_Connection *mhd, const char *url,
                                   const char *method, const char *version, const char *data,
                                   size_t *len, void **context);
void http_exchange_end(void *cls, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode why);
void http_exchange_unref(struct http_exchange *x);

/* ---- reply.c ---- */

/* Hand `response` (taken; NULL closes the connection) to the library, on its thread or by a resume.
 */
void http_reply_publish(struct http_exchange *x, int status, struct MHD_Response *response);

/* Add the fixed headers whose bits are not in `given`. */
void http_reply_fixed(struct MHD_Response *response, unsigned given);

/* Add the headers that every reply carries, and the caller's. */
void http_reply_headers(struct MHD_Response *response, int status,
                        const struct http_header *headers, size_t n_headers);

/* Resume all that is corked, whatever the depth. */
void http_reply_drain(struct http_server *server);

/* Resume; the server is not freed meanwhile. */
void http_reply_resume(struct http_server *server, struct MHD_Connection *mhd);

/* ---- stream.c ---- */

void http_stream_left(struct http_stream *stream);     /* the client is gone */
void http_stream_finished(struct http_stream *stream); /* the library is done with it */
void http_stream_unref(struct http_stream *stream);
void http_stream_end_all(struct http_server *server);

#endif
