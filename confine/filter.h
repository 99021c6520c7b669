/* filter: the seccomp program, one for the three filters of behaviour 5.7 and our additions. */
#ifndef GH_CONFINE_FILTER_H
#define GH_CONFINE_FILTER_H

#include <linux/filter.h>

#include "spec.h"

/* What a filter depends on; FILTER_N of them together are the key of a compiled one. */
enum {
    FILTER_UNIX = 1,   /* AF_UNIX sockets and datagram pairs may be made */
    FILTER_LEAVE = 2,  /* setsid and setpgid are open */
    FILTER_PTRACE = 4, /* ptrace is open: Landlock keeps it to the own domain */
    FILTER_NO_IP = 8,  /* no IP and no netlink sockets */
    FILTER_TCP = 16,   /* of IP sockets only streams */
    FILTER_PLAIN = 32, /* no PID namespace: limits and priorities of others could be set */
    FILTER_N = 64,
};

/* Compile (program->filter is to be freed). Takes about half a millisecond. Fails with
 * E_SYSTEM. */
enum confine_code filter_build(unsigned wish, struct sock_fprog *ret, struct confine_err *err);

/* Does the kernel take a filter, and does it deny? Asked in a child. */
bool filter_works(const struct sock_fprog *program);

#endif
