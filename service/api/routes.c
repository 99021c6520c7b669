#include "api/routes.h"

#include <string.h>

/* Handlers that only unpack the path for core. */
#define CORE_0(name, call)                                                                         \
    static void name(struct api_request *r)                                                        \
    {                                                                                              \
        call(r->api->core, r->x, &r->who);                                                         \
    }
#define CORE_1(name, call)                                                                         \
    static void name(struct api_request *r)                                                        \
    {                                                                                              \
        call(r->api->core, r->x, &r->who, r->params[0]);                                           \
    }
#define CORE_2(name, call)                                                                         \
    static void name(struct api_request *r)                                                        \
    {                                                                                              \
        call(r->api->core, r->x, &r->who, r->params[0], r->params[1]);                             \
    }

CORE_0(session_open, core_session_open)
CORE_0(session_list, core_session_list)
CORE_1(session_get, core_session_get)
CORE_1(session_patch, core_session_patch)
CORE_1(session_end, core_session_end)
CORE_1(grant_list, core_grant_list)
CORE_2(grant_revoke, core_grant_revoke)
CORE_1(tool_list, core_tool_list)
CORE_2(tool_put, core_tool_put)
CORE_2(decision_get, core_decision_get)
CORE_2(outcome, core_outcome)
CORE_1(scan, core_scan)
CORE_1(taint_clear, core_taint_clear)
CORE_0(approval_list, core_approval_list)
CORE_1(approval_get, core_approval_get)
CORE_1(approval_diff, core_approval_diff)
CORE_1(approval_settle, core_approval_settle)
CORE_1(approval_extend, core_approval_extend)
CORE_1(approval_cancel, core_approval_cancel)
CORE_0(events, core_events)
CORE_1(execute, core_execute)
CORE_1(execution_list, core_execution_list)
CORE_1(execution_get, core_execution_get)
CORE_1(execution_output, core_execution_output)
CORE_1(execution_input, core_execution_input)
CORE_1(execution_kill, core_execution_kill)

static void grant_revoke_all(struct api_request *r)
{
    core_grant_revoke(r->api->core, r->x, &r->who, r->params[0], NULL);
}

/* People may ask what the gate would say; only agents may ask it for real. */
static void decide(struct api_request *r)
{
    const char *explain = http_query(r->x, "explain");
    bool is_explain = explain != NULL && strcmp(explain, "true") == 0;
    struct gh_err err;
    /* Taken for a real call, a misspelt "explain" would ask a person. */
    if (explain != NULL && !is_explain && strcmp(explain, "false") != 0) {
        gh_fail(&err, GH_INVALID, "explain is true or false.");
        http_problem(r->x, &err, NULL);
        return;
    }
    if (r->who.role != AUTH_AGENT && !is_explain) {
        gh_fail(&err, GH_FORBIDDEN,
                "Only an agent's token asks for decisions; others may use explain=true.");
        http_problem(r->x, &err, NULL);
        return;
    }
    core_decide(r->api->core, r->x, &r->who, r->params[0]);
}

#define S "/v1/sessions/{id}"

const struct api_route api_routes[] = {
    {HTTP_GET, "/healthz", API_ANYONE, "getHealth", api_healthz},
    {HTTP_POST, "/v1/login", API_ANYONE, "login", api_login},
    {HTTP_POST, "/v1/login/codes", API_APPROVER, "createLoginCode", api_login_code},
    {HTTP_GET, "/v1/tokens", API_PEOPLE, "listTokens", api_tokens},

    {HTTP_POST, "/v1/sessions", API_AGENT | API_LARGE, "openSession", session_open},
    {HTTP_GET, "/v1/sessions", API_READERS, "listSessions", session_list},
    {HTTP_GET, S, API_READERS, "getSession", session_get},
    {HTTP_PATCH, S, API_AGENT | API_APPROVER, "changeSession", session_patch},
    {HTTP_DELETE, S, API_AGENT | API_APPROVER, "endSession", session_end},
    {HTTP_GET, S "/grants", API_READERS, "listGrants", grant_list},
    {HTTP_DELETE, S "/grants", API_AGENT | API_APPROVER, "revokeAllGrants", grant_revoke_all},
    {HTTP_DELETE, S "/grants/{grant}", API_AGENT | API_APPROVER, "revokeGrant", grant_revoke},
    {HTTP_GET, S "/tools", API_READERS, "listTools", tool_list},
    {HTTP_PUT, S "/tools/{name}", API_AGENT, "registerTool", tool_put},

    {HTTP_POST, S "/decisions", API_READERS | API_LARGE, "decide", decide},
    {HTTP_GET, S "/decisions/{decision}", API_READERS, "getDecision", decision_get},
    {HTTP_POST, S "/decisions/{decision}/outcome", API_AGENT | API_LARGE, "reportOutcome", outcome},

    {HTTP_POST, S "/executions", API_AGENT, "execute", execute},
    {HTTP_GET, S "/executions", API_READERS, "listExecutions", execution_list},
    {HTTP_GET, "/v1/executions/{id}", API_READERS, "getExecution", execution_get},
    {HTTP_DELETE, "/v1/executions/{id}", API_AGENT | API_APPROVER, "killExecution", execution_kill},
    {HTTP_GET, "/v1/executions/{id}/output", API_READERS, "followOutput", execution_output},
    {HTTP_POST, "/v1/executions/{id}/stdin", API_AGENT, "sendInput", execution_input},

    {HTTP_GET, "/v1/approvals", API_READERS, "listApprovals", approval_list},
    {HTTP_GET, "/v1/approvals/{id}", API_READERS, "getApproval", approval_get},
    {HTTP_GET, "/v1/approvals/{id}/diff", API_READERS, "getApprovalDiff", approval_diff},
    {HTTP_PUT, "/v1/approvals/{id}/decision", API_APPROVER, "settleApproval", approval_settle},
    {HTTP_POST, "/v1/approvals/{id}/extend", API_APPROVER, "extendApproval", approval_extend},
    {HTTP_DELETE, "/v1/approvals/{id}", API_AGENT, "cancelApproval", approval_cancel},

    {HTTP_POST, S "/scan", API_AGENT | API_LARGE, "scan", scan},
    {HTTP_DELETE, S "/taint", API_APPROVER, "clearTaint", taint_clear},

    {HTTP_GET, "/v1/events", API_READERS, "streamEvents", events},
    {HTTP_GET, "/v1/audit", API_PEOPLE, "listAudit", api_audit},
    {HTTP_GET, "/v1/audit/export", API_PEOPLE, "exportAudit", api_audit_export},
    {HTTP_GET, "/v1/audit/verify", API_PEOPLE, "verifyAudit", api_audit_verify},

    {HTTP_GET, "/readyz", API_READERS, "getReadiness", api_readyz},
    {HTTP_GET, "/metrics", API_METRICS | API_PEOPLE, "getMetrics", api_metrics},
    {HTTP_GET, "/v1/status", API_READERS, "getStatus", api_status},
    {HTTP_GET, "/v1/config", API_PEOPLE, "getConfig", api_config},
    {HTTP_GET, "/openapi.yaml", API_READERS, "getOpenapiYaml", api_openapi_yaml},
    {HTTP_GET, "/openapi.json", API_READERS, "getOpenapiJson", api_openapi_json},
};

const size_t api_n_routes = sizeof api_routes / sizeof api_routes[0];
_Static_assert(sizeof api_routes / sizeof api_routes[0] <= API_MAX_ROUTES, "raise API_MAX_ROUTES");

/* One segment of `path` against one of the pattern; false when they differ. */
static bool match_segment(const char *pattern, size_t p_len, const char *path, size_t len,
                          char params[API_MAX_PARAMS][API_PARAM], size_t *n)
{
    if (p_len == 0 || pattern[0] != '{') {
        return p_len == len && strncmp(pattern, path, len) == 0;
    }
    if (len == 0 || len >= API_PARAM || *n >= API_MAX_PARAMS) {
        return false;
    }
    memcpy(params[*n], path, len);
    params[*n][len] = '\0';
    (*n)++;
    return true;
}

static bool match_path(const char *pattern, const char *path,
                       char params[API_MAX_PARAMS][API_PARAM])
{
    size_t n = 0;
    for (;;) {
        size_t p_len = (size_t)(strchrnul(pattern, '/') - pattern);
        size_t len = (size_t)(strchrnul(path, '/') - path);
        if (!match_segment(pattern, p_len, path, len, params, &n)) {
            return false;
        }
        pattern += p_len;
        path += len;
        if (*pattern == '\0' || *path == '\0') {
            return *pattern == *path;
        }
        pattern++;
        path++;
    }
}

int api_route_find(enum http_method method, const char *path,
                   char params[API_MAX_PARAMS][API_PARAM], unsigned *ret_methods)
{
    char found[API_MAX_PARAMS][API_PARAM];
    int row = -1;
    enum http_method wanted = method == HTTP_HEAD ? HTTP_GET : method;
    *ret_methods = 0;
    for (size_t i = 0; i < api_n_routes; i++) {
        if (!match_path(api_routes[i].path, path, found)) {
            continue;
        }
        *ret_methods |= 1U << api_routes[i].method;
        if (api_routes[i].method == wanted) {
            row = (int)i;
            memcpy(params, found, sizeof found);
        }
    }
    return row;
}
