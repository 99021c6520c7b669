#include "auth/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"

#define ESTABLISHED 1

/* Which lines of a table are looked at. */
enum peer_lines { PEER_ALL = 0, PEER_MAPPED, PEER_NOT_MAPPED };

struct peer_search {
    unsigned local;  /* the port at the client's end */
    unsigned remote; /* the port at ours */
    unsigned uid;
    bool is_found;
    bool is_foreign; /* another user's socket has the same two ports */
};

static void close_file(FILE **file)
{
    if (*file != NULL) {
        fclose(*file);
    }
}

/* "::ffff:a.b.c.d" as /proc writes it: a socket of the IPv6 family that speaks IPv4. */
static bool is_mapped(const char *address)
{
    return strncmp(address, "0000000000000000FFFF0000", 24) == 0;
}

static void take_line(const char *line, enum peer_lines which, struct peer_search *search)
{
    char address[33];
    unsigned local = 0;
    unsigned remote = 0;
    unsigned state = 0;
    unsigned uid = 0;
    if (sscanf(line, " %*u: %32[0-9A-F]:%x %*[0-9A-F]:%x %x %*x:%*x %*x:%*x %*x %u", address,
               &local, &remote, &state, &uid) != 5) {
        return;
    }
    bool is_wanted = which == PEER_ALL || is_mapped(address) == (which == PEER_MAPPED);
    if (!is_wanted || state != ESTABLISHED || local != search->local || remote != search->remote) {
        return;
    }
    search->is_found = search->is_found || uid == search->uid;
    search->is_foreign = search->is_foreign || uid != search->uid;
}

static void search_file(const char *path, enum peer_lines which, struct peer_search *search)
{
    gh_auto(close_file) FILE *file = fopen(path, "re");
    gh_autofree char *line = NULL;
    size_t cap = 0;
    while (file != NULL && getline(&line, &cap, file) > 0) {
        take_line(line, which, search);
    }
}

/* Ports alone do not name a connection: ours to some other host may have the same two. So every
 * match must be ours, or another user could borrow one. */
bool origin_same_user(int family, unsigned short peer_port, unsigned short local_port, unsigned uid)
{
    struct peer_search search = {.local = peer_port, .remote = local_port, .uid = uid};
    if (family == AF_INET) {
        search_file("/proc/net/tcp", PEER_ALL, &search);
        search_file("/proc/net/tcp6", PEER_MAPPED, &search);
    } else if (family == AF_INET6) {
        search_file("/proc/net/tcp6", PEER_NOT_MAPPED, &search);
    }
    return search.is_found && !search.is_foreign;
}
