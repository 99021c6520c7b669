#include <string.h>

#include "base/auto.h"
#include "core/state.h"

/* The reference's tools (behaviour 2.2): what they do, whether it leaves the session, whether a
 * snapshot comes first. */
static const struct {
    const char *name;
    enum gate_action action;
    bool mutates_outside;
    bool needs_checkpoint;
} built_in[] = {
    {"read_file", GATE_READ, false, false},
    {"grep", GATE_READ, false, false},
    {"glob", GATE_READ, false, false},
    {"git_read", GATE_READ, false, false},
    {"definition", GATE_READ, false, false},
    {"references", GATE_READ, false, false},
    {"list_resources", GATE_READ, false, false},
    {"read_resource", GATE_READ, false, false},
    {"list_prompts", GATE_READ, false, false},
    {"get_prompt", GATE_READ, false, false},
    {"memory_read", GATE_READ, false, false},
    {"set_tasks", GATE_INTERNAL, false, false},
    {"load_skill", GATE_INTERNAL, false, false},
    {"delegate", GATE_INTERNAL, false, false},
    {"write_file", GATE_WRITE, true, true},
    {"edit_file", GATE_WRITE, true, true},
    {"patch_file", GATE_WRITE, true, true},
    {"delete_file", GATE_DELETE, true, true},
    {"move_file", GATE_MOVE, true, true},
    {"generate_image", GATE_WRITE, true, true},
    {"run_command", GATE_EXECUTE, true, true},
    {"shell", GATE_EXECUTE, true, true},
    {"start_process", GATE_EXECUTE, true, true},
    {"send_process", GATE_INTERACT, false, false},
    {"stop_process", GATE_INTERACT, false, false},
    {"git_commit", GATE_EXECUTE, true, true},
    {"git_branch", GATE_EXECUTE, true, true},
    {"git_push", GATE_EXECUTE, true, true},
    {"create_pull_request", GATE_EXECUTE, true, true},
    {"web_fetch", GATE_NETWORK, true, false},
    {"web_search", GATE_NETWORK, true, false},
    {"generate_svg", GATE_NETWORK, true, false},
    {"memory_write", GATE_PERSISTENT_MEMORY, true, true},
    {"memory_forget", GATE_PERSISTENT_MEMORY, true, true},
    {"remember_preference", GATE_MEMORY, true, true},
};

#define N_BUILT_IN (sizeof built_in / sizeof built_in[0])

bool tool_name_ok(const char *name)
{
    size_t n = 0;
    for (; name[n] != '\0'; n++) {
        if (name[n] <= ' ' || name[n] >= 0x7F || n >= 128) {
            return false;
        }
    }
    return n > 0;
}

static bool find_built_in(const char *name, struct tool *ret)
{
    for (size_t i = 0; i < N_BUILT_IN; i++) {
        if (strcmp(built_in[i].name, name) == 0) {
            *ret = (struct tool){NULL, built_in[i].action, built_in[i].mutates_outside,
                                 built_in[i].needs_checkpoint};
            return true;
        }
    }
    if (strncmp(name, "mcp__", 5) == 0) {
        *ret = (struct tool){NULL, GATE_MCP_TOOL, true, true};
        return true;
    }
    return false;
}

bool tool_find(const struct session *session, const char *name, struct tool *ret)
{
    const struct tool *own = gh_map_find(&session->tools, name);
    if (own != NULL) {
        *ret = *own;
        return true;
    }
    return find_built_in(name, ret);
}

static void free_tool(struct tool *tool)
{
    free(tool->name);
    free(tool);
}

void tool_free_all(struct session *session)
{
    size_t at = 0;
    for (struct tool *tool = gh_map_next(&session->tools, &at); tool != NULL;
         tool = gh_map_next(&session->tools, &at)) {
        free_tool(tool);
    }
    gh_map_fini(&session->tools);
}

/* Withheld from the model: what leaves the session in plan mode; what autonomous always refuses. */
static bool is_visible(const struct session *session, const struct tool *tool, const char *name)
{
    if (session->mode == GATE_PLAN) {
        return !tool->mutates_outside;
    }
    if (session->mode == GATE_AUTONOMOUS) {
        static const char *const refused[] = {"shell", "git_commit", "start_process"};
        for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
            if (strcmp(refused[i], name) == 0) {
                return false;
            }
        }
        return tool->action != GATE_MCP_TOOL && tool->action != GATE_MEMORY &&
               tool->action != GATE_PERSISTENT_MEMORY && tool->action != GATE_INTERACT;
    }
    return true;
}

static void tool_json(const struct session *session, const struct tool *tool, const char *name,
                      struct gh_jw *w)
{
    gh_jw_obj(w, NULL);
    gh_jw_str(w, "name", name);
    gh_jw_str(w, "action", gate_action_name(tool->action));
    gh_jw_bool(w, "mutates_outside_session", tool->mutates_outside);
    gh_jw_bool(w, "needs_checkpoint", tool->needs_checkpoint);
    gh_jw_bool(w, "visible", is_visible(session, tool, name));
    gh_jw_end(w);
}

static void own_tools_json(const struct session *session, struct gh_jw *w)
{
    size_t at = 0;
    for (const struct tool *tool = gh_map_next(&session->tools, &at); tool != NULL;
         tool = gh_map_next(&session->tools, &at)) {
        tool_json(session, tool, tool->name, w);
    }
}

void tools_json(const struct session *session, struct gh_buf *out)
{
    struct gh_jw w = {out, false};
    gh_jw_arr(&w, NULL);
    own_tools_json(session, &w);
    gh_jw_arr_end(&w);
}

static bool put_tool(struct session *session, const char *name, const struct tool *made)
{
    struct tool *tool = malloc(sizeof *tool);
    if (tool == NULL) {
        return false;
    }
    *tool = *made;
    tool->name = strdup(name);
    if (tool->name == NULL || !gh_map_put(&session->tools, tool->name, tool)) {
        free_tool(tool);
        return false;
    }
    return true;
}

void tools_load(struct session *session, const struct json_t *arr)
{
    for (size_t i = 0; i < gh_json_len(arr); i++) {
        const struct json_t *obj = gh_json_at(arr, i);
        const char *name = gh_json_text(gh_json_get(obj, "name"));
        const char *action = gh_json_text(gh_json_get(obj, "action"));
        if (name == NULL || action == NULL || gate_action_find(action) == GATE_ACTION_NONE) {
            continue;
        }
        /* A tool that cannot be restored stays unknown: the closed default. */
        (void)put_tool(session, name,
                       &(struct tool){NULL, gate_action_find(action),
                                      gh_json_true(gh_json_get(obj, "mutates_outside_session")),
                                      gh_json_true(gh_json_get(obj, "needs_checkpoint"))});
    }
}

static enum gh_code parse_tool(struct http_exchange *x, struct tool *ret, struct gh_err *err)
{
    static const char *const names[] = {"action", "mutates_outside_session", "needs_checkpoint",
                                        NULL};
    size_t len = 0;
    const char *data = http_body(x, &len);
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    GH_TRY(gh_json_parse(data, len, &body, err));
    GH_TRY(gh_json_only(body, "", names, err));
    const char *action = NULL;
    GH_TRY(gh_json_str(body, "", "action", GH_NEED, 64, &action, err));
    *ret = (struct tool){NULL, gate_action_find(action), true, true};
    if (ret->action == GATE_ACTION_NONE) {
        return gh_fail_at(err, GH_INVALID, "/action", "The action is none of the eleven kinds.");
    }
    GH_TRY(gh_json_bool(body, "", "mutates_outside_session", &ret->mutates_outside, err));
    ret->needs_checkpoint = ret->mutates_outside;
    return gh_json_bool(body, "", "needs_checkpoint", &ret->needs_checkpoint, err);
}

/* A known name may only be tightened: a boolean from false to true. */
static enum gh_code check_change(const struct session *session, const char *name,
                                 const struct tool *wanted, struct gh_err *err)
{
    struct tool known;
    if (!tool_find(session, name, &known)) {
        if (session->tools.n_used >= MAX_TOOLS) {
            return gh_fail(err, GH_LIMIT, "A session registers at most %d tools.", MAX_TOOLS);
        }
        return GH_OK;
    }
    if (known.action != wanted->action || (known.mutates_outside && !wanted->mutates_outside) ||
        (known.needs_checkpoint && !wanted->needs_checkpoint)) {
        return gh_fail(err, GH_CONFLICT,
                       "The tool is already registered; its registration can only be tightened.");
    }
    return GH_OK;
}

struct tool_work {
    struct http_exchange *x;
    bool is_new;
    struct gh_buf body;
};

static void tool_put_done(enum gh_code code, void *cookie)
{
    struct tool_work *work = cookie;
    if (code != GH_OK) {
        reply_audit_failed(work->x);
    } else {
        reply_json(work->x, work->is_new ? 201 : 200, &work->body);
    }
    gh_buf_fini(&work->body);
    free(work);
}

/* Replace or add `name`, and write the session. */
static void put_and_commit(struct core *core, struct session *session, const char *name,
                           const struct tool *wanted, struct http_exchange *x)
{
    struct tool_work *work = calloc(1, sizeof *work);
    struct store_txn *txn = store_txn_new();
    struct tool *known = gh_map_find(&session->tools, name);
    struct tool before;
    bool is_new = !tool_find(session, name, &before);
    if (known != NULL) {
        known->mutates_outside = wanted->mutates_outside;
        known->needs_checkpoint = wanted->needs_checkpoint;
    }
    if (work == NULL || txn == NULL || (known == NULL && !put_tool(session, name, wanted))) {
        struct gh_err err;
        gh_fail(&err, GH_NOMEM, "There is not enough memory for the tool.");
        http_problem(x, &err, NULL);
        free(work);
        store_txn_free(txn);
        return;
    }
    *work = (struct tool_work){x, is_new, GH_BUF_INIT};
    struct gh_jw w = {&work->body, false};
    tool_json(session, wanted, name, &w);
    session_doc_locked(txn, core, session);
    store_commit(core->options.store, &txn, tool_put_done, work);
}

void core_tool_put(struct core *core, struct http_exchange *x, const struct auth_token *who,
                   const char *id, const char *name)
{
    struct tool wanted;
    struct gh_err err;
    enum gh_code code = tool_name_ok(name) ? parse_tool(x, &wanted, &err)
                                           : gh_fail(&err, GH_INVALID, "That is not a tool name.");
    if (code != GH_OK) {
        http_problem(x, &err, NULL);
        return;
    }
    pthread_mutex_lock(&core->lock);
    struct session *session = session_find_locked(core, who, id);
    if (session == NULL) {
        reply_not_found(x);
    } else if (!session->is_active) {
        gh_fail(&err, GH_CONFLICT, "The session has ended.");
        http_problem(x, &err, NULL);
    } else if (check_change(session, name, &wanted, &err) != GH_OK) {
        http_problem(x, &err, NULL);
    } else {
        put_and_commit(core, session, name, &wanted, x);
    }
    pthread_mutex_unlock(&core->lock);
}

void core_tool_list(struct core *core, struct http_exchange *x, const struct auth_token *who,
                    const char *id)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    pthread_mutex_lock(&core->lock);
    const struct session *session = session_find_locked(core, who, id);
    if (session != NULL) {
        gh_jw_obj(&w, NULL);
        gh_jw_arr(&w, "items");
        for (size_t i = 0; i < N_BUILT_IN; i++) {
            struct tool tool;
            if (gh_map_find(&session->tools, built_in[i].name) == NULL &&
                find_built_in(built_in[i].name, &tool)) {
                tool_json(session, &tool, built_in[i].name, &w);
            }
        }
        tool_json(session, &(struct tool){NULL, GATE_MCP_TOOL, true, true}, "mcp__*", &w);
        own_tools_json(session, &w);
        gh_jw_arr_end(&w);
        gh_jw_null(&w, "next_cursor");
        gh_jw_end(&w);
    }
    pthread_mutex_unlock(&core->lock);
    if (session == NULL) {
        reply_not_found(x);
        return;
    }
    reply_json(x, 200, &body);
}
