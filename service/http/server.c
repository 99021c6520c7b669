/* server: start and stop.
 *
 * What libmicrohttpd 0.9.75 answers by itself, before there is a request for us; always with a
 * close, an HTML text of its own and none of our headers (all tried by
 * tests/unit/http/test_head.c): 400  request line without a version or with a blank at its end;
 * header line without a colon; bad chunk size or bytes behind a chunk; Content-Length that is no
 * number (this one twice in a row: a client sees the first) 413  Content-Length or chunk size over
 * 64 bits 414  request line larger than the connection's memory (24 KiB) 431  head larger than
 * that; between about 22 and 24 KiB, where the head fits and our answer does not, the connection is
 * closed without one 505  HTTP/2.0 and later in the request line closed without an answer: a
 * request line without a blank (TLS on the plain port), head or body that is late
 *
 * A client that ends its sending half while its request is held may find the connection closed
 * instead of the reply: on a resume the library sometimes reads the end before it writes.
 *
 * What it takes and we cannot see: chunk extensions and trailers (ignored), a bare LF around
 * chunks, blanks behind a header value (kept), empty lines before a request line. It also takes,
 * and we refuse: several lengths or hosts, TE beside CL, other codings, folded lines (glued to the
 * name of the field), an empty field name (taken for the end of the head), NUL and control bytes,
 * bare LF, blanks around a name, absolute targets, HTTP/1.2 to 1.9.
 *
 * What the rest of this module is there for, because the library does not: a suspended connection
 * has no timeout and its client may leave unnoticed (watch.c); a timeout counts from the last byte,
 * not from the first (conn.c); at its connection limit it stops accepting (keep_room); stopping
 * with a suspended connection aborts (http_server_free); each resume walks all connections that are
 * suspended on that thread (http_cork, DEFAULT_THREADS); the memory of a connection is cleared, so
 * touched, before each next request on it (is_last in reply.c); cookies take three times their size
 * (http_exchange_begin).
 */
#include "http/inner.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"

/* More than there are processors: a resume walks all that its thread holds. */
#define DEFAULT_THREADS 4
#define DEFAULT_BODY_BYTES (4u << 20)
#define DEFAULT_REQUEST_MS 20000
#define DEFAULT_IDLE_MS 60000
#define MIN_CONNECTIONS 16

/* Raise the descriptor limit to what is allowed; the connections it leaves room for. An eighth
 * (at least 256) is for everything else: files, pipes of children, the store. */
static size_t size_limit(unsigned wanted)
{
    struct rlimit limit = {0};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return wanted > 0 ? wanted : 512;
    }
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {limit.rlim_max, limit.rlim_max};
        limit.rlim_cur = setrlimit(RLIMIT_NOFILE, &raised) == 0 ? limit.rlim_max : limit.rlim_cur;
    }
    size_t n = limit.rlim_cur > 1u << 20 ? 1u << 20 : (size_t)limit.rlim_cur;
    size_t reserve = n / 8 > 256 ? n / 8 : 256;
    n = n > reserve + MIN_CONNECTIONS ? n - reserve : MIN_CONNECTIONS;
    return wanted > 0 && wanted < n ? wanted : n;
}

static void set_defaults(struct http_options *options)
{
    options->tcp_host = NULL; /* borrowed for the start only */
    options->unix_path = NULL;
    if (options->n_threads == 0) {
        options->n_threads = DEFAULT_THREADS;
    }
    if (options->body_limit == 0) {
        options->body_limit = DEFAULT_BODY_BYTES;
    }
    if (options->request_timeout_ms <= 0) {
        options->request_timeout_ms = DEFAULT_REQUEST_MS;
    }
    if (options->idle_timeout_ms <= 0) {
        options->idle_timeout_ms = DEFAULT_IDLE_MS;
    }
}

/* Targets are decoded by us, once. */
static size_t leave_escaped(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls;
    (void)mhd;
    return strlen(text);
}

static bool start_daemon(struct http_listener *listener)
{
    const struct http_options *options = &listener->server->options;
    /* The library's own timeout is for readers that take nothing; requests have our deadlines. */
    int64_t longest = options->idle_timeout_ms > options->request_timeout_ms
                          ? options->idle_timeout_ms
                          : options->request_timeout_ms;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                     (listener->family == AF_INET6 ? MHD_USE_IPv6 : 0);
    /* A pool divides the limit among its threads without looking; ours counts over all. */
    unsigned limit = (unsigned)listener->server->limit + options->n_threads;
    listener->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, http_exchange_step, NULL, MHD_OPTION_LISTEN_SOCKET, listener->fd,
        MHD_OPTION_THREAD_POOL_SIZE, options->n_threads, MHD_OPTION_CONNECTION_LIMIT, limit,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_POOL_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(longest / 1000 + 1), MHD_OPTION_STRICT_FOR_CLIENT, 0,
        MHD_OPTION_NOTIFY_CONNECTION, http_conn_notify, listener, MHD_OPTION_NOTIFY_COMPLETED,
        http_exchange_end, NULL, MHD_OPTION_URI_LOG_CALLBACK, http_exchange_begin, NULL,
        MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_END);
    return listener->daemon != NULL;
}

/* The library's threads take no signals. */
static enum gh_code start_daemons(struct http_server *server, struct gh_err *err)
{
    sigset_t all;
    sigset_t before;
    bool started = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < server->n_listeners && started; i++) {
        started = start_daemon(&server->listeners[i]);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started ? GH_OK : gh_fail(err, GH_IO, "the HTTP server does not start");
}

static void stop_daemons(struct http_server *server)
{
    for (size_t i = 0; i < server->n_listeners; i++) {
        struct http_listener *listener = &server->listeners[i];
        if (listener->daemon != NULL) {
            MHD_stop_daemon(listener->daemon);
        }
        if (listener->quiet || listener->daemon == NULL) {
            gh_auto_close(&listener->fd);
        }
    }
}

static void free_server(struct http_server *server)
{
    http_watch_stop(server);
    stop_daemons(server);
    http_listen_unlink(server);
    http_watch_fini(server);
    pthread_mutex_destroy(&server->streams.lock);
    pthread_mutex_destroy(&server->cork.lock);
    free(server);
}

static enum gh_code start(struct http_server *server, const struct http_options *options,
                          struct gh_err *err)
{
    GH_TRY(http_listen_open(server, options, err));
    if (options->bound != NULL) {
        options->bound(http_server_address(server), options->cookie);
    }
    GH_TRY(http_watch_start(server, err));
    return start_daemons(server, err);
}

enum gh_code http_server_start(const struct http_options *options, struct http_server **ret,
                               struct gh_err *err)
{
    struct http_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return gh_fail(err, GH_NOMEM, "no memory");
    }
    server->options = *options;
    set_defaults(&server->options);
    server->limit = size_limit(options->max_connections);
    server->watch.epoll_fd = -1;
    server->watch.wake_fd = -1;
    server->watch.next_ms = -1;
    pthread_mutex_init(&server->watch.lock, NULL);
    pthread_mutex_init(&server->streams.lock, NULL);
    pthread_mutex_init(&server->cork.lock, NULL);
    enum gh_code code = start(server, options, err);
    if (code != GH_OK) {
        free_server(server);
        return code;
    }
    *ret = server;
    return GH_OK;
}

const char *http_server_address(const struct http_server *server)
{
    return server->address[0] != '\0' ? server->address : NULL;
}

void http_server_quiesce(struct http_server *server)
{
    if (atomic_exchange(&server->stopping, true)) {
        return;
    }
    for (size_t i = 0; i < server->n_listeners; i++) {
        struct http_listener *listener = &server->listeners[i];
        listener->quiet = MHD_quiesce_daemon(listener->daemon) >= 0;
        /* The socket may only be closed after the daemon; until then nobody shall hang in its
         * backlog. */
        shutdown(listener->fd, SHUT_RDWR);
    }
    http_listen_unlink(server);
}

size_t http_server_held(const struct http_server *server)
{
    return atomic_load(&server->n_held);
}

bool http_server_busy(const struct http_server *server)
{
    return atomic_load(&server->n_held) > 0 || atomic_load(&server->n_running) > 0;
}

static bool is_quiet(const struct http_server *server)
{
    return !http_server_busy(server) && atomic_load(&server->n_unwritten) == 0 &&
           atomic_load(&server->n_callers) == 0;
}

static void nap(void)
{
    const struct timespec ms = {0, 1000000};
    nanosleep(&ms, NULL);
}

void http_server_free(struct http_server *server, int64_t grace_ms)
{
    if (server == NULL) {
        return;
    }
    http_server_quiesce(server);
    http_stream_end_all(server);
    http_reply_drain(server);
    int64_t end = gh_clock_boot_ms() + grace_ms;
    while (!is_quiet(server) && gh_clock_boot_ms() < end) {
        nap();
    }
    if (atomic_load(&server->n_held) > 0) {
        /* The library would abort. A broken promise of the caller costs memory at the end of the
         * process, nothing else. */
        gh_log(GH_LOG_ERROR, "http.unanswered", NULL);
        return;
    }
    while (atomic_load(&server->n_callers) > 0) {
        nap();
    }
    free_server(server);
}
