#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/routes.h"
#include "auth/origin.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

static enum gh_code parse_body(struct http_exchange *x, const char *const names[],
                               struct json_t **ret, struct gh_err *err)
{
    size_t len = 0;
    const char *data = http_body(x, &len);
    GH_TRY(gh_json_parse(data, len, ret, err));
    return gh_json_only(*ret, "", names, err);
}

static void problem_retry(struct http_exchange *x, const struct gh_err *err, int retry_s)
{
    char text[16];
    snprintf(text, sizeof text, "%d", retry_s > 0 ? retry_s : 1);
    const struct http_header header = {"Retry-After", text};
    http_problem_with(x, err, NULL, &header, err->code == GH_TOO_MANY ? 1 : 0);
}

static enum gh_code make_code(struct api_request *request, struct gh_buf *out, struct gh_err *err)
{
    static const char *const names[] = {"role", NULL};
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    const char *word = NULL;
    char code[40];
    int64_t expires_ms = 0;
    GH_TRY(parse_body(request->x, names, &body, err));
    GH_TRY(gh_json_str(body, "", "role", GH_NEED, 32, &word, err));
    enum auth_role role = auth_role_find(word);
    if (role != AUTH_VIEWER && role != AUTH_APPROVER) {
        return gh_fail_at(err, GH_INVALID, "/role", "It must be viewer or approver.");
    }
    GH_TRY(auth_code_new(request->api->auth, role, code, &expires_ms, err));
    struct gh_jw w = {out, false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "code", code);
    gh_jw_time(&w, "expires_at", expires_ms);
    gh_jw_end(&w);
    return GH_OK;
}

void api_login_code(struct api_request *request)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_err err;
    if (make_code(request, &body, &err) != GH_OK) {
        http_problem(request->x, &err, NULL);
        return;
    }
    core_audit_auth(request->api->core, request->x, &request->who, "login_code");
    http_reply(request->x, 201, &body, NULL, 0);
}

/* Over TCP a code is worth something only to the same user: another local user may see the port. */
static enum gh_code check_user(const struct api_request *request, struct gh_err *err)
{
    const struct http_peer *peer = http_peer(request->x);
    if (peer->is_unix ||
        origin_same_user(peer->family, peer->port, request->api->port, (unsigned)geteuid())) {
        return GH_OK;
    }
    return gh_fail(err, GH_FORBIDDEN, "Sign in from a program of the same user as the service.");
}

/* An exchange writes a token's file and syncs it: on the pool. */
struct login {
    struct api_request *request; /* lives as long as its exchange */
    char code[128];
};

static enum gh_code parse_login(struct http_exchange *x, char code[128], struct gh_err *err)
{
    static const char *const names[] = {"code", NULL};
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    const char *text = NULL;
    GH_TRY(parse_body(x, names, &body, err));
    GH_TRY(gh_json_str(body, "", "code", GH_NEED, 127, &text, err));
    snprintf(code, 128, "%s", text);
    return GH_OK;
}

static enum gh_code redeem(const struct login *login, struct gh_buf *out, struct auth_token *ret,
                           int *ret_retry_s, struct gh_err *err)
{
    struct api_request *request = login->request;
    char secret[AUTH_SECRET];
    GH_TRY(check_user(request, err));
    GH_TRY(auth_code_redeem(request->api->auth, login->code, http_peer(request->x)->key, secret,
                            ret, ret_retry_s, err));
    struct gh_jw w = {out, false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "token", secret);
    gh_jw_str(&w, "role", auth_role_name(ret->role));
    gh_jw_str(&w, "name", ret->name);
    gh_jw_time(&w, "expires_at", ret->expires_ms);
    gh_jw_end(&w);
    explicit_bzero(secret, sizeof secret);
    return GH_OK;
}

static void login_on_pool(void *cookie)
{
    struct login *login = cookie;
    struct api_request *request = login->request;
    struct http_exchange *x = request->x;
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct auth_token token;
    struct gh_err err;
    int retry_s = 0;
    enum gh_code code = redeem(login, &body, &token, &retry_s, &err);
    free(login);
    if (code == GH_OK) {
        core_audit_auth(request->api->core, x, &token, "login");
        http_reply(x, 200, &body, NULL, 0);
        return;
    }
    if (code == GH_UNAUTHORIZED || code == GH_FORBIDDEN) {
        core_audit_refusal(request->api->core, x, &err);
        gh_log(GH_LOG_WARN, "login_failed", "peer", http_peer(x)->text, NULL);
    }
    problem_retry(x, &err, retry_s);
}

void api_login(struct api_request *request)
{
    struct gh_err err;
    struct login *login = calloc(1, sizeof *login);
    enum gh_code code = login == NULL ? gh_fail(&err, GH_NOMEM, "There is not enough memory.")
                                      : parse_login(request->x, login->code, &err);
    if (code == GH_OK) {
        login->request = request;
        code = gh_pool_run(request->api->pool, login_on_pool, login, &err);
    }
    if (code != GH_OK) {
        free(login);
        http_problem(request->x, &err, NULL);
    }
}

static void token_json(const struct auth_token *token, void *cookie)
{
    struct gh_jw *w = cookie;
    gh_jw_obj(w, NULL);
    gh_jw_str(w, "id", token->id);
    gh_jw_str(w, "name", token->name);
    gh_jw_str(w, "role", auth_role_name(token->role));
    gh_jw_bool(w, "login", token->is_login);
    gh_jw_time(w, "created_at", token->created_ms);
    gh_jw_time(w, "expires_at", token->expires_ms);
    gh_jw_time(w, "revoked_at", token->revoked_ms);
    gh_jw_end(w);
}

void api_tokens(struct api_request *request)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    gh_jw_obj(&w, NULL);
    gh_jw_arr(&w, "items");
    auth_each(request->api->auth, token_json, &w);
    gh_jw_arr_end(&w);
    gh_jw_null(&w, "next_cursor");
    gh_jw_end(&w);
    http_reply(request->x, 200, &body, NULL, 0);
}
