/* api: HTTP meets core. The table of routes, who may use them, and the small endpoints.
 *
 * Every request passes, in this order: Host, Origin and Fetch Metadata (auth/origin.h), the token
 * (auth/auth.h), the route's role, its media type and body limit; then its handler. Threads: the
 * HTTP server's; the struct is constant after api_init.
 */
#ifndef GH_API_API_H
#define GH_API_API_H

#include <stdatomic.h>

#include "auth/auth.h"
#include "base/pool.h"
#include "config/config.h"
#include "core/core.h"
#include "http/http.h"
#include "store/store.h"

#define API_MAX_ROUTES 64

/* Settings that a reload replaces whole. Old ones are kept until the end: a request may use them.
 */
struct api_edge {
    const char *const *allowed_hosts;   /* NULL-ended; owned */
    const char *const *allowed_origins; /* NULL-ended; owned */
    size_t body_limit;                  /* bytes */
    struct api_edge *older;
};

struct api {
    struct core *core;                      /* borrowed */
    struct auth *auth;                      /* borrowed */
    struct store *store;                    /* borrowed */
    struct gh_pool *pool;                   /* borrowed */
    const char *version;                    /* static */
    const char *state_dir;                  /* borrowed */
    const char *socket;                     /* borrowed; or NULL */
    char listen[80];                        /* "127.0.0.1:7717", "" without TCP */
    uint16_t port;                          /* of `listen` */
    _Atomic(struct api_edge *) edge;        /* the one in force; older ones stand behind it */
    int64_t started_ms;                     /* wall clock */
    atomic_ullong requests[API_MAX_ROUTES]; /* by row of the table */
    atomic_ullong refused[4];               /* host, origin, content type, rate */
    atomic_int n_exports;
    atomic_bool is_stopping; /* long answers end */
};

enum api_refused { API_REFUSED_HOST = 0, API_REFUSED_ORIGIN, API_REFUSED_TYPE, API_REFUSED_RATE };

/* For http_options.head and .handler; the cookie is the struct api. */
enum gh_code api_head(struct http_exchange *x, void *cookie, size_t *ret_body_limit,
                      struct gh_err *err);
void api_handle(struct http_exchange *x, void *cookie);

/* Put the settings of `config` in force. Fails with GH_NOMEM; then the old ones stay. */
GH_MUST_USE enum gh_code api_set_edge(struct api *api, const struct config *config,
                                      struct gh_err *err);

/* Free all of them; no request may be under way. */
void api_free_edges(struct api *api);

#endif
