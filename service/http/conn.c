#include "http/inner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

struct http_conn *http_conn_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

/* Nobody who has not sent a whole request may take the last places: over the limits the connection
 * that is incomplete for longest goes first. */
static void keep_room(struct http_server *server, int newcomer)
{
    size_t n = atomic_load(&server->n_conns);
    size_t incomplete = atomic_load(&server->n_incomplete);
    if (n <= server->limit / 8 * 7 && incomplete <= server->limit / 4 * 3) {
        return;
    }
    if (!http_watch_make_room(server) && n > server->limit) {
        shutdown(newcomer, SHUT_RDWR);
    }
}

static void begin(const struct http_listener *listener, struct MHD_Connection *mhd, void **context)
{
    struct http_server *server = listener->server;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct http_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    conn->server = server;
    conn->listener = listener;
    conn->fd = info->connect_fd;
    conn->fresh = true;
    conn->due.owner = conn;
    *context = conn;
    atomic_fetch_add(&server->n_conns, 1);
    atomic_fetch_add(&server->n_incomplete, 1);
    keep_room(server, conn->fd);
    int64_t now = gh_clock_boot_ms();
    atomic_store(&conn->due_ms, now + server->options.request_timeout_ms);
    http_watch_due(conn, now);
}

static void end(struct http_conn *conn)
{
    struct http_server *server = conn->server;
    http_watch_forget(conn);
    if (atomic_load(&conn->phase) != CONN_BUSY) {
        atomic_fetch_sub(&server->n_incomplete, 1);
    }
    atomic_fetch_sub(&server->n_conns, 1);
    free(conn->peer);
    free(conn);
}

void http_conn_notify(void *cls, struct MHD_Connection *mhd, void **context,
                      enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        begin(cls, mhd, context);
    } else if (*context != NULL) {
        end(*context);
        *context = NULL;
    }
}

void http_conn_reading(struct http_conn *conn)
{
    /* On a fresh connection the time runs from its beginning, so that bytes dripped before the end
     * of the request line buy nothing. */
    if (!conn->fresh) {
        atomic_store(&conn->due_ms, gh_clock_boot_ms() + conn->server->options.request_timeout_ms);
    }
    atomic_store(&conn->phase, CONN_READING);
}

void http_conn_busy(struct http_conn *conn)
{
    atomic_store(&conn->phase, CONN_BUSY);
    atomic_fetch_sub(&conn->server->n_incomplete, 1);
}

void http_conn_waiting(struct http_conn *conn)
{
    struct http_server *server = conn->server;
    bool was_busy = atomic_load(&conn->phase) == CONN_BUSY;
    int64_t now = gh_clock_boot_ms();
    conn->fresh = false;
    atomic_store(&conn->due_ms, now + server->options.idle_timeout_ms);
    atomic_store(&conn->phase, CONN_WAITING);
    if (was_busy) {
        atomic_fetch_add(&server->n_incomplete, 1);
    }
    /* The watch thread takes busy connections out of its heap; it clears `queued` before it looks
     * at the phase again, so one of both sides always sees the other's change. */
    if (!atomic_load(&conn->queued)) {
        http_watch_due(conn, now);
    }
}

/* ---- who is at the other end ---- */

static void describe_unix(const struct http_conn *conn, struct http_peer *peer)
{
    struct ucred cred = {0};
    socklen_t len = sizeof(cred);
    peer->is_unix = true;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
        peer->uid = cred.uid;
        peer->pid = cred.pid;
    }
    snprintf(peer->text, sizeof(peer->text), "unix:pid=%d,uid=%u", (int)peer->pid,
             (unsigned)peer->uid);
    snprintf(peer->key, sizeof(peer->key), "unix:%u", (unsigned)peer->uid);
}

/* The address as it was at accept: getpeername fails once a client has reset its connection. */
static void describe_tcp(struct MHD_Connection *mhd, struct http_peer *peer)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (info == NULL || info->client_addr == NULL) {
        return;
    }
    bool v6 = info->client_addr->sa_family == AF_INET6;
    const struct sockaddr_in *in4 = (const void *)info->client_addr;
    const struct sockaddr_in6 *in6 = (const void *)info->client_addr;
    const void *from = v6 ? (const void *)&in6->sin6_addr : (const void *)&in4->sin_addr;
    peer->port = ntohs(v6 ? in6->sin6_port : in4->sin_port);
    inet_ntop(v6 ? AF_INET6 : AF_INET, from, peer->key, sizeof(peer->key));
    snprintf(peer->text, sizeof(peer->text), v6 ? "[%.45s]:%u" : "%.45s:%u", peer->key,
             (unsigned)peer->port);
}

const struct http_peer *http_peer(const struct http_exchange *x)
{
    static const struct http_peer unknown = {
        .uid = (uid_t)-1, .text = "unknown", .key = "unknown", .family = AF_UNSPEC};
    struct http_conn *conn = x->conn;
    if (conn->peer != NULL) {
        return conn->peer;
    }
    struct http_peer *peer = calloc(1, sizeof(*peer));
    if (peer == NULL) {
        return &unknown;
    }
    *peer = unknown;
    peer->family = conn->listener->family;
    if (peer->family == AF_UNIX) {
        describe_unix(conn, peer);
    } else {
        describe_tcp(x->mhd, peer);
    }
    conn->peer = peer;
    return peer;
}
