#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/execution.h"
#include "core/state.h"

#define MAX_ENDED 256

/* ---- memory ---- */

void session_free(struct session *session)
{
    if (session == NULL) {
        return;
    }
    tool_free_all(session);
    grants_free(session);
    outcome_forget(session);
    taint_fini(&session->taint);
    place_unref(session->place);
    free(session->agent);
    free(session->title);
    free(session->external);
    free(session->external_json);
    free(session->client_json);
    free(session->deny_json);
    free(session);
}

struct session *session_find_locked(struct core *core, const struct auth_token *who, const char *id)
{
    struct session *session = gh_map_find(&core->sessions, id);
    if (session == NULL || (who->role == AUTH_AGENT && strcmp(who->name, session->owner) != 0)) {
        return NULL;
    }
    return session;
}

void session_unname_locked(struct core *core, const struct session *session)
{
    if (session->external != NULL && gh_map_find(&core->externals, session->external) == session) {
        gh_map_remove(&core->externals, session->external);
    }
}

void session_retire_locked(struct core *core, struct session *session)
{
    outcome_forget(session);
    grants_free(session);
    session_unname_locked(core, session);
    if (core->ended_last != NULL) {
        core->ended_last->next_ended = session;
    } else {
        core->ended_first = session;
    }
    core->ended_last = session;
    if (++core->n_ended <= MAX_ENDED || core->ended_first->n_pending > 0) {
        return;
    }
    struct session *oldest = core->ended_first;
    core->ended_first = oldest->next_ended;
    core->n_ended--;
    gh_map_remove(&core->sessions, oldest->id);
    session_free(oldest);
}

/* ---- rendering ---- */

static void checkpointing_json(const struct session *session, struct gh_jw *w)
{
    gh_jw_obj(w, "checkpointing");
    gh_jw_bool(w, "enabled", false);
    gh_jw_str(w, "reason", "checkpointing disabled: this version takes no checkpoints");
    gh_jw_str(w, "git_dir", session->place->git.git_dir);
    gh_jw_end(w);
}

static void write_session(const struct core *core, const struct session *session,
                          bool has_deny_list, struct gh_buf *out)
{
    struct gh_jw w = {out, false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "id", session->id);
    gh_jw_str(&w, "agent", session->agent);
    gh_jw_str(&w, "title", session->title);
    gh_jw_str(&w, "working_dir", session->place->working_dir);
    gh_jw_str(&w, "owner", session->owner);
    gh_jw_str(&w, "mode", gate_mode_name(session->mode));
    gh_jw_str(&w, "state", session->is_active ? "active" : "ended");
    gh_jw_time(&w, "created_at", session->created_ms);
    gh_jw_time(&w, "ended_at", session->ended_ms);
    gh_jw_int(&w, "ask_timeout_s", session->ask_timeout_ms / 1000);
    gh_jw_bool(&w, "tainted", session->is_tainted);
    taint_json(&session->taint, &w, "taint");
    gh_jw_int(&w, "pending", (int64_t)session->n_pending);
    gh_jw_raw(&w, "deny_paths", has_deny_list ? session->deny_json : "[]");
    gh_jw_raw(&w, "external", session->external_json != NULL ? session->external_json : "null");
    gh_jw_raw(&w, "client", session->client_json != NULL ? session->client_json : "null");
    checkpointing_json(session, &w);
    execution_confinement_json(core, &w);
    gh_jw_end(&w);
}

void session_json_locked(const struct core *core, const struct session *session, struct gh_buf *out)
{
    write_session(core, session, true, out);
}

void session_doc_locked(struct store_txn *txn, const struct core *core,
                        const struct session *session)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf shown = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf tools = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    session_json_locked(core, session, &shown);
    tools_json(session, &tools);
    gh_jw_obj(&w, NULL);
    gh_jw_raw(&w, "session", gh_buf_str(&shown));
    gh_jw_raw(&w, "tools", gh_buf_str(&tools));
    gh_jw_str(&w, "owner", session->owner);
    gh_jw_str(&w, "external", session->external);
    gh_jw_bool(&w, "plan_by_approver", session->is_plan_by_approver);
    gh_jw_int(&w, "ask_timeout_ms", session->ask_timeout_ms);
    gh_jw_end(&w);
    const struct store_doc doc = {STORE_SESSION,
                                  session->id,
                                  session->id,
                                  session->external != NULL ? session->external : "",
                                  session->is_active ? "active" : "ended",
                                  session->created_ms,
                                  gh_buf_str(&body)};
    store_txn_put(txn, &doc);
}

void session_event_locked(struct core *core, const struct session *session, const char *type)
{
    struct gh_buf data = GH_BUF_INIT;
    write_session(core, session, false, &data); /* its deny list may be long, and events are kept */
    event_emit_locked(core, type, session, session->owner, &data);
}

/* ---- reading back ---- */

static const char *text_in(const struct json_t *obj, const char *key, const char *fallback)
{
    const char *text = gh_json_text(gh_json_get(obj, key));
    return text != NULL ? text : fallback;
}

static char *json_in(const struct json_t *obj, const char *key)
{
    const struct json_t *value = gh_json_get(obj, key);
    if (gh_json_len(value) == 0) {
        return NULL;
    }
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_json_canonical(value, &text);
    return gh_buf_take(&text);
}

static enum gh_code load_place(struct core *core, struct session *session,
                               const struct json_t *shown, struct gh_err *err)
{
    const struct json_t *deny = gh_json_get(shown, "deny_paths");
    size_t n = gh_json_len(deny);
    gh_autofree const char **entries = calloc(n + 1, sizeof *entries);
    if (entries == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for a session.");
    }
    for (size_t i = 0; i < n; i++) {
        entries[i] = gh_json_text(gh_json_at(deny, i));
    }
    return place_new(core, core->policy, text_in(shown, "working_dir", ""), entries, n,
                     &session->place, err);
}

static void load_state(struct session *session, const struct json_t *body,
                       const struct json_t *shown)
{
    session->mode = GATE_PLAN;
    (void)gate_mode_find(text_in(shown, "mode", "plan"), &session->mode);
    session->is_plan_by_approver = gh_json_true(gh_json_get(body, "plan_by_approver"));
    session->ask_timeout_ms = gh_json_number(gh_json_get(body, "ask_timeout_ms"), 300000);
    session->is_tainted = taint_read(gh_json_get(shown, "taint"), &session->taint);
    session->ended_ms = gh_clock_parse(text_in(shown, "ended_at", ""));
    tools_load(session, gh_json_get(body, "tools"));
}

/* The folder is gone or refused now: enough of a place to end the session properly. */
static enum gh_code lost_place(struct core *core, struct session *session,
                               const struct json_t *shown, struct gh_err *err)
{
    struct place *place = calloc(1, sizeof *place);
    if (place == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for a session.");
    }
    atomic_init(&place->refs, 1);
    place->policy = policy_ref(core->policy);
    place->working_dir = strdup(text_in(shown, "working_dir", "/"));
    session->place = place;
    session->is_lost = true;
    return place->working_dir != NULL
               ? gate_rules_extend(core->policy->rules, "/", NULL, 0, &place->rules, err)
               : gh_fail(err, GH_NOMEM, "There is not enough memory for a session.");
}

/* Build a session from its document; *ret is owned by caller. */
static enum gh_code session_read(struct core *core, const struct store_row *row,
                                 struct session **ret, struct gh_err *err)
{
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    GH_TRY(gh_json_parse(row->body, strlen(row->body), &body, err));
    const struct json_t *shown = gh_json_get(body, "session");
    struct session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for a session.");
    }
    snprintf(session->id, sizeof session->id, "%s", row->id);
    snprintf(session->owner, sizeof session->owner, "%s", text_in(body, "owner", ""));
    session->agent = strdup(text_in(shown, "agent", ""));
    session->title = strdup(text_in(shown, "title", ""));
    session->external = gh_json_text(gh_json_get(body, "external")) != NULL
                            ? strdup(text_in(body, "external", ""))
                            : NULL;
    session->external_json = json_in(shown, "external");
    session->client_json = json_in(shown, "client");
    session->deny_json = json_in(shown, "deny_paths");
    session->deny_json = session->deny_json != NULL ? session->deny_json : strdup("[]");
    session->created_ms = row->created_ms;
    session->is_active = strcmp(row->state, "active") == 0;
    session->is_born = true;
    load_state(session, body, shown);
    enum gh_code code = load_place(core, session, shown, err);
    if (code != GH_OK && code != GH_NOMEM) {
        code = lost_place(core, session, shown, err);
    }
    if (code == GH_OK &&
        (session->agent == NULL || session->title == NULL || session->deny_json == NULL)) {
        code = gh_fail(err, GH_NOMEM, "There is not enough memory for a session.");
    }
    if (code != GH_OK) {
        session_free(session);
        return code;
    }
    *ret = session;
    return GH_OK;
}

enum gh_code session_load(struct core *core, const struct store_row *row)
{
    struct gh_err err;
    struct session *session = NULL;
    GH_TRY(session_read(core, row, &session, &err));
    grants_seed(session);
    if (!gh_map_put(&core->sessions, session->id, session) ||
        (session->external != NULL && !gh_map_put(&core->externals, session->external, session))) {
        gh_map_remove(&core->sessions, session->id);
        session_free(session);
        return GH_NOMEM;
    }
    return GH_OK;
}

/* An ended session that is only in the store: bring it back into memory, still ended. */
void session_recall(struct core *core, const char *external)
{
    struct store_row row = {0};
    struct gh_err err;
    struct session *session = NULL;
    if (store_get_by_ref(core->options.store, STORE_SESSION, external, &row, &err) != GH_OK) {
        return;
    }
    pthread_mutex_lock(&core->lock);
    bool is_wanted =
        strcmp(row.state, "ended") == 0 && gh_map_find(&core->sessions, row.id) == NULL;
    if (is_wanted && session_read(core, &row, &session, &err) == GH_OK) {
        if (gh_map_put(&core->sessions, session->id, session)) {
            session_retire_locked(core, session);
        } else {
            session_free(session);
        }
    }
    pthread_mutex_unlock(&core->lock);
    store_row_fini(&row);
}

/* ---- get ---- */

struct get_work {
    struct core *core;
    struct http_exchange *x;
    struct auth_token who;
    char id[GH_ID];
};

static void read_stored(void *cookie)
{
    struct get_work *work = cookie;
    struct store_row row = {0};
    struct gh_err err;
    gh_auto(gh_json_freep) struct json_t *json = NULL;
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    enum gh_code code = store_get(work->core->options.store, STORE_SESSION, work->id, &row, &err);
    bool is_read = code == GH_OK && gh_json_parse(row.body, strlen(row.body), &json, &err) == GH_OK;
    bool is_ours = is_read && (work->who.role != AUTH_AGENT ||
                               strcmp(text_in(json, "owner", ""), work->who.name) == 0);
    if (is_ours) {
        gh_json_canonical(gh_json_get(json, "session"), &body);
        reply_json(work->x, 200, &body);
    } else if (code == GH_OK || code == GH_NOT_FOUND) {
        reply_not_found(work->x);
    } else {
        http_problem(work->x, &err, NULL);
    }
    store_row_fini(&row);
    free(work);
}

static void get_stored(struct core *core, struct http_exchange *x, const struct auth_token *who,
                       const char *id)
{
    struct gh_err err;
    struct get_work *work = gh_id_valid(id, "ses") ? calloc(1, sizeof *work) : NULL;
    if (work == NULL) {
        reply_not_found(x);
        return;
    }
    *work = (struct get_work){.core = core, .x = x, .who = *who};
    snprintf(work->id, sizeof work->id, "%s", id);
    if (gh_pool_run(core->options.pool, read_stored, work, &err) != GH_OK) {
        free(work);
        http_problem(x, &err, NULL);
    }
}

void core_session_get(struct core *core, struct http_exchange *x, const struct auth_token *who,
                      const char *id)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    pthread_mutex_lock(&core->lock);
    bool is_known = gh_map_find(&core->sessions, id) != NULL;
    const struct session *session = session_find_locked(core, who, id);
    if (session != NULL && session->is_born) {
        session_json_locked(core, session, &body);
    }
    pthread_mutex_unlock(&core->lock);
    if (body.len > 0) {
        reply_json(x, 200, &body);
    } else if (is_known) {
        reply_not_found(x);
    } else {
        get_stored(core, x, who, id);
    }
}
