#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/assets.h"
#include "api/routes.h"
#include "auth/origin.h"
#include "base/log.h"

/* What a settings or answer needs at most; calls, texts and outcomes take the configured limit. */
#define SMALL_BODY_BYTES ((size_t)256 << 10)

static bool has_body(enum http_method method)
{
    return method == HTTP_POST || method == HTTP_PUT || method == HTTP_PATCH;
}

static bool is_page(struct http_exchange *x)
{
    bool is_read = http_method(x) == HTTP_GET || http_method(x) == HTTP_HEAD;
    return is_read && strcmp(http_path(x), "/") == 0;
}

static const struct api_asset *find_asset(struct http_exchange *x)
{
    bool is_read = http_method(x) == HTTP_GET || http_method(x) == HTTP_HEAD;
    if (!is_read || strncmp(http_path(x), "/v1/", 4) == 0) {
        return NULL;
    }
    for (size_t i = 0; i < api_n_assets; i++) {
        if (strcmp(api_assets[i].path, http_path(x)) == 0) {
            return &api_assets[i];
        }
    }
    return NULL;
}

/* Host, Origin, Fetch Metadata: on every listener and every route. */
static enum gh_code check_origin(struct api *api, struct http_exchange *x,
                                 struct api_request *request, struct gh_err *err)
{
    const char *cors = NULL;
    const struct api_edge *edge = atomic_load(&api->edge);
    const struct origin_input input = {
        .host = http_header(x, "Host"),
        .origin = http_header(x, "Origin"),
        .fetch_site = http_header(x, "Sec-Fetch-Site"),
        .fetch_mode = http_header(x, "Sec-Fetch-Mode"),
        .fetch_dest = http_header(x, "Sec-Fetch-Dest"),
        .is_page = is_page(x),
        .allowed_hosts = edge->allowed_hosts,
        .allowed_origins = edge->allowed_origins,
    };
    enum gh_code code = origin_check(&input, &cors, err);
    if (code == GH_OK && cors != NULL) {
        http_allow_origin(x, cors);
        request->is_preflight = http_method(x) == HTTP_OPTIONS &&
                                http_header(x, "Access-Control-Request-Method") != NULL;
    }
    if (code != GH_OK) {
        atomic_fetch_add(
            &api->refused[code == GH_HOST_REFUSED ? API_REFUSED_HOST : API_REFUSED_ORIGIN], 1);
    }
    return code;
}

static unsigned bit_of(enum auth_role role)
{
    static const unsigned bits[] = {
        [AUTH_NONE] = 0,
        [AUTH_AGENT] = API_AGENT,
        [AUTH_VIEWER] = API_VIEWER,
        [AUTH_APPROVER] = API_APPROVER,
        [AUTH_METRICS] = API_METRICS,
    };
    return bits[role];
}

static enum gh_code authenticate(struct api *api, struct http_exchange *x,
                                 struct api_request *request, struct gh_err *err)
{
    int retry_s = 0;
    enum gh_code code = auth_check(api->auth, http_header(x, "Authorization"), http_peer(x)->key,
                                   &request->who, &retry_s, err);
    if (code == GH_OK && core_token_is_dropped(api->core, request->who.id)) {
        /* It was given back since: this look is later than the one that dropped it. */
        code = auth_check(api->auth, http_header(x, "Authorization"), http_peer(x)->key,
                          &request->who, &retry_s, err);
        if (code == GH_OK) {
            core_token_restored(api->core, request->who.id);
        }
    }
    if (code == GH_UNAUTHORIZED && http_header(x, "Authorization") != NULL) {
        core_audit_refusal(api->core, x, err);
        gh_log(GH_LOG_WARN, "auth_failed", "peer", http_peer(x)->text, "trace", http_trace_id(x),
               NULL);
    }
    if (code == GH_TOO_MANY) {
        snprintf(request->refusal, sizeof request->refusal, "%d", retry_s > 0 ? retry_s : 1);
        http_refusal_header(x, "Retry-After", request->refusal);
        atomic_fetch_add(&api->refused[API_REFUSED_RATE], 1);
    }
    return code;
}

static enum gh_code check_media_type(struct api *api, struct http_exchange *x, struct gh_err *err)
{
    const char *type = http_header(x, "Content-Type");
    size_t n = strlen("application/json");
    bool is_json = type != NULL && strncasecmp(type, "application/json", n) == 0 &&
                   (type[n] == '\0' || type[n] == ';' || type[n] == ' ');
    if (!is_json) {
        atomic_fetch_add(&api->refused[API_REFUSED_TYPE], 1);
        return gh_fail(err, GH_MEDIA_TYPE, "Send the body as Content-Type: application/json.");
    }
    return GH_OK;
}

/* A body is asked for where one is read; an empty POST without a type is let through to the
 * handler, which then misses its fields. */
static bool needs_type(struct http_exchange *x)
{
    const char *length = http_header(x, "Content-Length");
    return has_body(http_method(x)) &&
           ((length != NULL && strcmp(length, "0") != 0) ||
            http_header(x, "Transfer-Encoding") != NULL || http_header(x, "Content-Type") != NULL);
}

/* The set of methods a path takes, as Allow. */
static void say_allowed(struct http_exchange *x, struct api_request *request, unsigned methods)
{
    static const char *const names[] = {
        [HTTP_GET] = "GET, HEAD", [HTTP_POST] = "POST",     [HTTP_PUT] = "PUT",
        [HTTP_PATCH] = "PATCH",   [HTTP_DELETE] = "DELETE",
    };
    size_t len = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i] != NULL && (methods & (1U << i)) != 0) {
            len += (size_t)snprintf(request->refusal + len, sizeof request->refusal - len, "%s%s",
                                    len > 0 ? ", " : "", names[i]);
        }
    }
    http_refusal_header(x, "Allow", request->refusal);
}

static enum gh_code refuse_path(struct http_exchange *x, struct api_request *request,
                                unsigned methods, struct gh_err *err)
{
    if (methods == 0) {
        return gh_fail(err, GH_NOT_FOUND, "There is no such path.");
    }
    say_allowed(x, request, methods);
    return gh_fail(err, GH_METHOD, "This path does not take that method.");
}

/* Host and Origin, then the token, and only then whether there is such a path: a stranger learns
 * nothing of what exists. */
static enum gh_code admit(struct api *api, struct http_exchange *x, struct api_request *request,
                          struct gh_err *err)
{
    unsigned methods = 0;
    GH_TRY(check_origin(api, x, request, err));
    if (request->is_preflight) {
        return GH_OK; /* browsers send no token with it, and it does nothing */
    }
    request->asset = find_asset(x);
    int row = request->asset == NULL
                  ? api_route_find(http_method(x), http_path(x), request->params, &methods)
                  : -1;
    unsigned who = row >= 0 ? api_routes[row].who : API_READERS;
    if (request->asset != NULL) {
        return GH_OK;
    }
    if (who != API_ANYONE) {
        GH_TRY(authenticate(api, x, request, err));
    }
    if (row < 0) {
        return refuse_path(x, request, methods, err);
    }
    if (who != API_ANYONE && (who & bit_of(request->who.role)) == 0) {
        return gh_fail(err, GH_FORBIDDEN, "A token of role \"%s\" may not do that.",
                       auth_role_name(request->who.role));
    }
    request->route = (size_t)row;
    return needs_type(x) ? check_media_type(api, x, err) : GH_OK;
}

enum gh_code api_head(struct http_exchange *x, void *cookie, size_t *ret_body_limit,
                      struct gh_err *err)
{
    struct api *api = cookie;
    struct api_request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the request.");
    }
    request->api = api;
    request->x = x;
    http_set_user(x, request, free);
    enum gh_code code = admit(api, x, request, err);
    *ret_body_limit = request->asset == NULL && (api_routes[request->route].who & API_LARGE) != 0
                          ? atomic_load(&api->edge)->body_limit
                          : SMALL_BODY_BYTES;
    return code;
}

static void serve_asset(struct http_exchange *x, const struct api_asset *asset)
{
    static const char policy[] =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; "
        "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'";
    const struct http_header headers[] = {
        {"Content-Type", asset->type},
        {"ETag", asset->etag},
        {"Cache-Control", "no-cache"},
        {"Content-Security-Policy", policy},
        {"Permissions-Policy", "camera=(), microphone=(), geolocation=(), clipboard-read=()"},
    };
    struct gh_buf body = GH_BUF_INIT;
    const char *seen = http_header(x, "If-None-Match");
    if (seen != NULL && strcmp(seen, asset->etag) == 0) {
        http_reply(x, 304, &body, headers, sizeof headers / sizeof headers[0]);
        return;
    }
    gh_buf_put(&body, asset->data, asset->size);
    http_reply(x, 200, &body, headers, sizeof headers / sizeof headers[0]);
}

static void serve_preflight(struct http_exchange *x)
{
    static const struct http_header headers[] = {
        {"Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE"},
        {"Access-Control-Allow-Headers",
         "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, "
         "Traceparent"},
        {"Access-Control-Max-Age", "600"},
    };
    struct gh_buf none = GH_BUF_INIT;
    http_reply(x, 204, &none, headers, sizeof headers / sizeof headers[0]);
}

void api_handle(struct http_exchange *x, void *cookie)
{
    struct api *api = cookie;
    struct api_request *request = http_user(x);
    struct gh_err err;
    (void)http_trace_id(x);
    if (request->who.role != AUTH_NONE && core_token_is_dropped(api->core, request->who.id)) {
        gh_fail(&err, GH_UNAUTHORIZED, "This token is no longer valid.");
        http_problem(x, &err, NULL);
        return;
    }
    if (request->is_preflight) {
        serve_preflight(x);
        return;
    }
    if (request->asset != NULL) {
        serve_asset(x, request->asset);
        return;
    }
    atomic_fetch_add_explicit(&api->requests[request->route], 1, memory_order_relaxed);
    api_routes[request->route].handler(request);
}
