/* origin: is this request sent by a page that may? Host, Origin and Fetch Metadata, contract 2.
 *
 * Pure. Threads: any.
 */
#ifndef GH_AUTH_ORIGIN_H
#define GH_AUTH_ORIGIN_H

#include <stdbool.h>

#include "base/err.h"

struct origin_input {
    const char *host;                   /* Host header; NULL: missing */
    const char *origin;                 /* Origin, or NULL */
    const char *fetch_site;             /* Sec-Fetch-Site, or NULL */
    const char *fetch_mode;             /* Sec-Fetch-Mode, or NULL */
    const char *fetch_dest;             /* Sec-Fetch-Dest, or NULL */
    bool is_page;                       /* GET or HEAD of "/" */
    const char *const *allowed_hosts;   /* configured names, NULL-ended; may be NULL */
    const char *const *allowed_origins; /* exact origins, NULL-ended; may be NULL */
};

/* Fails with GH_HOST_REFUSED (names the setting, never echoes the host) or GH_ORIGIN_REFUSED.
 * *ret_cors is the origin to name in Access-Control-Allow-Origin, or NULL (borrowed). */
GH_MUST_USE enum gh_code origin_check(const struct origin_input *input, const char **ret_cors,
                                      struct gh_err *err);

/* True when the TCP connection from `family`/`port` (the client's side) to us belongs to a process
 * of user `uid`, by /proc/net/tcp and tcp6. */
bool origin_same_user(int family, unsigned short peer_port, unsigned short local_port,
                      unsigned uid);

/* True for an address text that is loopback: 127.0.0.0/8, ::1, "localhost". */
bool origin_is_loopback(const char *host);

#endif
