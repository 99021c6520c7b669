/* routes: the table of the API. One row a method and path; nothing else decides who may do what.
 */
#ifndef GH_API_ROUTES_H
#define GH_API_ROUTES_H

#include "api/api.h"

/* Who may use a row: a set of these. */
enum api_who {
    API_ANYONE = 0, /* no token asked for */
    API_AGENT = 1 << 0,
    API_VIEWER = 1 << 1,
    API_APPROVER = 1 << 2,
    API_METRICS = 1 << 3,
    API_LARGE = 1 << 4 /* not a role: the route takes bodies up to the configured limit */
};
#define API_READERS (API_AGENT | API_VIEWER | API_APPROVER)
#define API_PEOPLE (API_VIEWER | API_APPROVER)

#define API_MAX_PARAMS 2
#define API_PARAM 160 /* bytes of a path segment with the NUL */

struct api_asset;

/* A request on its way to its handler. */
struct api_request {
    struct api *api;
    struct http_exchange *x;
    struct auth_token who;                  /* role AUTH_NONE on routes for anyone */
    char params[API_MAX_PARAMS][API_PARAM]; /* the {...} segments, in order */
    size_t route;                           /* row */
    bool is_preflight;                      /* of a page of a configured origin */
    const struct api_asset *asset;          /* a file of the page, or NULL */
    char refusal[64];                       /* Allow or Retry-After of a refusal */
};

typedef void api_handler_fn(struct api_request *request);

struct api_route {
    enum http_method method;
    const char *path;      /* "{id}" stands for one segment */
    unsigned who;          /* set of enum api_who */
    const char *operation; /* operationId in openapi.yaml */
    api_handler_fn *handler;
};

extern const struct api_route api_routes[];
extern const size_t api_n_routes;

/* The row for a method and path, with params filled in, or -1; *ret_methods is the set (1 << enum
 * http_method) of methods the path takes. HEAD finds GET. */
int api_route_find(enum http_method method, const char *path,
                   char params[API_MAX_PARAMS][API_PARAM], unsigned *ret_methods);

/* handlers that are not core's */
void api_page(struct api_request *request);
void api_healthz(struct api_request *request);
void api_readyz(struct api_request *request);
void api_metrics(struct api_request *request);
void api_status(struct api_request *request);
void api_config(struct api_request *request);
void api_openapi_yaml(struct api_request *request);
void api_openapi_json(struct api_request *request);
void api_tokens(struct api_request *request);
void api_login(struct api_request *request);
void api_login_code(struct api_request *request);
void api_audit(struct api_request *request);
void api_audit_export(struct api_request *request);
void api_audit_verify(struct api_request *request);

#endif
