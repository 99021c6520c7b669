#include "http/inner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/auto.h"

#define BACKLOG 4096 /* the kernel cuts it to net.core.somaxconn */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t address_len(const union address *a)
{
    return a->any.sa_family == AF_INET ? sizeof(a->v4) : sizeof(a->v6);
}

static bool parse_address(const char *host, uint16_t port, union address *a)
{
    memset(a, 0, sizeof(*a));
    if (inet_pton(AF_INET, host, &a->v4.sin_addr) == 1) {
        a->v4.sin_family = AF_INET;
        a->v4.sin_port = htons(port);
        return true;
    }
    if (inet_pton(AF_INET6, host, &a->v6.sin6_addr) == 1) {
        a->v6.sin6_family = AF_INET6;
        a->v6.sin6_port = htons(port);
        return true;
    }
    return false;
}

static void add(struct http_server *server, int fd, int family)
{
    struct http_listener *listener = &server->listeners[server->n_listeners++];
    listener->server = server;
    listener->fd = fd;
    listener->family = family;
}

/* Bind and listen. Returns the socket, or -1 with errno. */
static int open_tcp(const union address *a)
{
    int family = a->any.sa_family;
    gh_autoclose int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0) ||
        bind(fd, &a->any, address_len(a)) != 0 || listen(fd, BACKLOG) != 0) {
        return -1;
    }
    return gh_steal_fd(&fd);
}

/* The picked port, 0 on failure. */
static uint16_t port_of(int fd)
{
    union address a;
    socklen_t len = sizeof(a);
    if (getsockname(fd, &a.any, &len) != 0) {
        return 0;
    }
    return ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
}

static enum gh_code listen_tcp(struct http_server *server, const struct http_options *options,
                               struct gh_err *err)
{
    union address a;
    if (!parse_address(options->tcp_host, options->tcp_port, &a)) {
        return gh_fail(err, GH_IO, "%s is no literal IP address", options->tcp_host);
    }
    int fd = open_tcp(&a);
    if (fd < 0) {
        return gh_fail(err, GH_IO, "cannot listen on %s port %u: %s", options->tcp_host,
                       (unsigned)options->tcp_port, strerror(errno));
    }
    add(server, fd, a.any.sa_family);
    uint16_t port = port_of(fd);
    bool v6 = a.any.sa_family == AF_INET6;
    snprintf(server->address, sizeof(server->address), v6 ? "[%s]:%u" : "%s:%u", options->tcp_host,
             (unsigned)port);
    if (!options->also_v6_loopback || v6) {
        return GH_OK;
    }
    /* No IPv6 here, or somebody else has the port there: the address we tell is the v4 one. */
    int fd6 = parse_address("::1", port, &a) ? open_tcp(&a) : -1;
    if (fd6 >= 0) {
        add(server, fd6, AF_INET6);
    }
    return GH_OK;
}

/* Bind with mode 0600 from the first moment: the kernel makes the node with the socket's own mode
 * (less the umask), so no other user can connect before a chmod. */
static bool bind_private(int fd, const struct sockaddr_un *a)
{
    return fchmod(fd, S_IRUSR | S_IWUSR) == 0 &&
           bind(fd, (const struct sockaddr *)a, sizeof(*a)) == 0;
}

/* Remove the socket at `a` if nobody answers there. */
static enum gh_code clear_dead(const struct sockaddr_un *a, struct gh_err *err)
{
    struct stat st;
    if (lstat(a->sun_path, &st) != 0) {
        return errno == ENOENT
                   ? GH_OK
                   : gh_fail(err, GH_IO, "cannot look at %s: %s", a->sun_path, strerror(errno));
    }
    if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid()) {
        return gh_fail(err, GH_IO, "%s exists and is not a socket of this user", a->sun_path);
    }
    gh_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return gh_fail(err, GH_IO, "no socket: %s", strerror(errno));
    }
    /* Only a refused connection proves that nobody listens; a full backlog is a live service. */
    if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno != ECONNREFUSED) {
        return gh_fail(err, GH_IO, "a service listens on %s already", a->sun_path);
    }
    if (unlink(a->sun_path) != 0 && errno != ENOENT) {
        return gh_fail(err, GH_IO, "cannot remove the dead socket %s: %s", a->sun_path,
                       strerror(errno));
    }
    return GH_OK;
}

static enum gh_code listen_unix(struct http_server *server, const char *path, struct gh_err *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(a.sun_path)) {
        return gh_fail(err, GH_IO, "the socket path %s is longer than %zu bytes", path,
                       sizeof(a.sun_path) - 1);
    }
    memcpy(a.sun_path, path, strlen(path));
    GH_TRY(clear_dead(&a, err));
    gh_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;
    if (fd < 0 || !bind_private(fd, &a) || listen(fd, BACKLOG) != 0 || lstat(path, &st) != 0) {
        return gh_fail(err, GH_IO, "cannot listen on %s: %s", path, strerror(errno));
    }
    server->unix_path = strdup(path);
    if (server->unix_path == NULL) {
        unlink(path);
        return gh_fail(err, GH_NOMEM, "no memory");
    }
    server->unix_dev = st.st_dev;
    server->unix_ino = st.st_ino;
    add(server, gh_steal_fd(&fd), AF_UNIX);
    return GH_OK;
}

enum gh_code http_listen_open(struct http_server *server, const struct http_options *options,
                              struct gh_err *err)
{
    if (options->tcp_host != NULL) {
        GH_TRY(listen_tcp(server, options, err));
    }
    if (options->unix_path != NULL) {
        GH_TRY(listen_unix(server, options->unix_path, err));
    }
    return GH_OK;
}

void http_listen_unlink(struct http_server *server)
{
    struct stat st;
    if (server->unix_path != NULL && lstat(server->unix_path, &st) == 0 &&
        st.st_dev == server->unix_dev && st.st_ino == server->unix_ino) {
        unlink(server->unix_path);
    }
    free(server->unix_path);
    server->unix_path = NULL;
}
