#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

struct change_work {
    struct core *core;
    struct http_exchange *x;
    char session[GH_ID];
    enum gate_mode mode_before;
    bool is_loosening;   /* takes effect only when it is durable */
    enum gate_mode mode; /* wanted */
    bool is_by_approver;
    struct gh_buf body;
};

static struct change_work *change_new(struct core *core, struct http_exchange *x,
                                      const struct session *session)
{
    struct change_work *work = calloc(1, sizeof *work);
    if (work != NULL) {
        *work = (struct change_work){
            .core = core, .x = x, .mode_before = session->mode, .mode = session->mode};
        memcpy(work->session, session->id, sizeof work->session);
    }
    return work;
}

/* ---- PATCH ---- */

struct patch {
    bool has_mode;
    enum gate_mode mode;
    const char *title;
};

static enum gh_code parse_patch(struct http_exchange *x, struct json_t **ret_json,
                                struct patch *ret, struct gh_err *err)
{
    static const char *const names[] = {"mode", "title", NULL};
    size_t len = 0;
    const char *data = http_body(x, &len);
    const char *mode = NULL;
    GH_TRY(gh_json_parse(data, len, ret_json, err));
    GH_TRY(gh_json_only(*ret_json, "", names, err));
    GH_TRY(gh_json_str(*ret_json, "", "mode", GH_OPTIONAL, 32, &mode, err));
    GH_TRY(gh_json_str(*ret_json, "", "title", GH_OPTIONAL, 1024, &ret->title, err));
    ret->has_mode = mode != NULL;
    if (mode != NULL && !gate_mode_find(mode, &ret->mode)) {
        return gh_fail_at(err, GH_INVALID, "/mode", "It must be act, plan or autonomous.");
    }
    return GH_OK;
}

/* An agent may only tighten: act to plan. */
static enum gh_code check_patch(const struct session *session, const struct patch *patch,
                                const struct auth_token *who, struct gh_err *err)
{
    if (!session->is_active) {
        return gh_fail(err, GH_CONFLICT, "The session has ended.");
    }
    bool is_same = !patch->has_mode || patch->mode == session->mode;
    bool is_tighter = patch->has_mode && patch->mode == GATE_PLAN;
    if (who->role == AUTH_AGENT && !is_same && !is_tighter) {
        return gh_fail_at(err, GH_FORBIDDEN, "/mode",
                          "An agent may only tighten the mode, to plan.");
    }
    return GH_OK;
}

/* The mode is in force: remember it for the place, cancel what it refuses. */
static void mode_in_force_locked(struct core *core, struct session *session, struct store_txn *txn,
                                 bool is_by_approver)
{
    bool is_plan_by_approver =
        session->mode == GATE_PLAN && (is_by_approver || session->is_plan_by_approver);
    struct trace *trace =
        trace_of_locked(core, session->owner, session->place->working_dir, is_plan_by_approver);
    session->is_plan_by_approver = is_plan_by_approver;
    if (trace != NULL && trace->is_plan != is_plan_by_approver) {
        trace->is_plan = is_plan_by_approver;
        if (txn != NULL) {
            trace_doc(txn, trace);
        }
    }
}

static void settle_by_mode_locked(struct core *core, struct session *session)
{
    session_event_locked(core, session, "session.updated");
    if (session->mode == GATE_AUTONOMOUS) {
        ask_cancel_all_locked(core, session, GATE_R_MODE_CHANGED);
    } else {
        ask_sweep_locked(core, session);
    }
}

static void patch_done(enum gh_code code, void *cookie)
{
    struct change_work *work = cookie;
    struct core *core = work->core;
    pthread_mutex_lock(&core->lock);
    struct session *session = gh_map_find(&core->sessions, work->session);
    if (code == GH_OK && session != NULL) {
        if (work->is_loosening && session->mode == work->mode_before) {
            session->mode = work->mode;
            mode_in_force_locked(core, session, NULL, work->is_by_approver);
            settle_by_mode_locked(core, session);
        }
        session_json_locked(core, session, &work->body);
    }
    pthread_mutex_unlock(&core->lock);
    if (code == GH_OK) {
        reply_json(work->x, 200, &work->body);
    } else {
        reply_audit_failed(work->x);
    }
    gh_buf_fini(&work->body);
    free(work);
}

/* Write the session as it will be with the wanted mode; put the present one back. */
static void write_with_mode_locked(struct core *core, struct session *session,
                                   const struct change_work *work, struct store_txn *txn)
{
    enum gate_mode now = session->mode;
    bool was_plan = session->is_plan_by_approver;
    const struct trace *known =
        trace_of_locked(core, session->owner, session->place->working_dir, false);
    session->mode = work->mode;
    session->is_plan_by_approver = work->mode == GATE_PLAN && (work->is_by_approver || was_plan);
    session_doc_locked(txn, core, session);
    if (known != NULL && known->is_plan && work->mode != GATE_PLAN) {
        struct trace as = *known;
        as.is_plan = false;
        trace_doc(txn, &as);
    }
    session->mode = now;
    session->is_plan_by_approver = was_plan;
}

static void patch_locked(struct core *core, struct session *session, const struct patch *patch,
                         struct http_exchange *x, const struct auth_token *who)
{
    struct change_work *work = change_new(core, x, session);
    struct store_txn *txn = store_txn_new();
    char *title = patch->title != NULL ? strdup(patch->title) : NULL;
    if (work == NULL || txn == NULL || (patch->title != NULL && title == NULL)) {
        free(work);
        free(title);
        store_txn_free(txn);
        reply_audit_failed(x);
        return;
    }
    struct meta meta;
    meta_of(x, who, &meta);
    if (title != NULL) {
        free(session->title);
        session->title = title;
    }
    work->mode = patch->has_mode ? patch->mode : session->mode;
    work->is_by_approver = who->role == AUTH_APPROVER;
    work->is_loosening = work->mode != session->mode && work->mode != GATE_PLAN;
    bool is_tightening = work->mode != session->mode && work->mode == GATE_PLAN;
    if (is_tightening || (work->mode == GATE_PLAN && work->is_by_approver && patch->has_mode)) {
        session->mode = GATE_PLAN;
        mode_in_force_locked(core, session, txn, work->is_by_approver);
    }
    if (patch->has_mode) {
        record_note(
            txn, &(struct note){"mode", session->id, session->id, gate_mode_name(work->mode), "{}"},
            &meta);
    }
    write_with_mode_locked(core, session, work, txn);
    store_commit(core->options.store, &txn, patch_done, work);
    if (is_tightening) {
        settle_by_mode_locked(core, session);
    } else if (!work->is_loosening) {
        session_event_locked(core, session, "session.updated");
    }
}

void core_session_patch(struct core *core, struct http_exchange *x, const struct auth_token *who,
                        const char *id)
{
    gh_auto(gh_json_freep) struct json_t *json = NULL;
    struct patch patch = {0};
    struct gh_err err;
    pthread_mutex_lock(&core->lock);
    struct session *session = session_find_locked(core, who, id);
    if (session == NULL) {
        reply_not_found(x);
    } else if (parse_patch(x, &json, &patch, &err) != GH_OK ||
               check_patch(session, &patch, who, &err) != GH_OK) {
        http_problem(x, &err, NULL);
    } else {
        patch_locked(core, session, &patch, x, who);
    }
    pthread_mutex_unlock(&core->lock);
}

/* ---- DELETE ---- */

static void end_done(enum gh_code code, void *cookie)
{
    struct change_work *work = cookie;
    if (code == GH_OK) {
        reply_json(work->x, 200, &work->body);
    } else {
        reply_audit_failed(work->x);
    }
    gh_buf_fini(&work->body);
    free(work);
}

/* Ending is closing: it takes effect at once, whatever the disk says. */
static void end_locked(struct core *core, struct session *session, struct http_exchange *x,
                       const struct auth_token *who)
{
    struct change_work *work = change_new(core, x, session);
    struct store_txn *txn = store_txn_new();
    if (work == NULL || txn == NULL) {
        free(work);
        store_txn_free(txn);
        reply_audit_failed(x);
        return;
    }
    struct meta meta;
    meta_of(x, who, &meta);
    session->is_active = false;
    session->ended_ms = gh_clock_wall_ms();
    ask_cancel_all_locked(core, session, GATE_R_CANCELLED);
    session_json_locked(core, session, &work->body);
    session_doc_locked(txn, core, session);
    record_note(txn, &(struct note){"session", session->id, session->id, "ended", "{}"}, &meta);
    session_event_locked(core, session, "session.ended");
    store_commit(core->options.store, &txn, end_done, work);
    session_retire_locked(core, session);
}

void core_session_end(struct core *core, struct http_exchange *x, const struct auth_token *who,
                      const char *id)
{
    pthread_mutex_lock(&core->lock);
    struct session *session = session_find_locked(core, who, id);
    if (session == NULL || !session->is_born) {
        reply_not_found(x);
    } else if (!session->is_active) {
        gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
        session_json_locked(core, session, &body);
        reply_json(x, 200, &body);
    } else {
        end_locked(core, session, x, who);
    }
    pthread_mutex_unlock(&core->lock);
}

/* ---- an ended session comes back by its external id ---- */

static void unlink_ended_locked(struct core *core, struct session *session)
{
    struct session *before = NULL;
    for (struct session *at = core->ended_first; at != NULL; before = at, at = at->next_ended) {
        if (at != session) {
            continue;
        }
        if (before != NULL) {
            before->next_ended = session->next_ended;
        } else {
            core->ended_first = session->next_ended;
        }
        if (core->ended_last == session) {
            core->ended_last = before;
        }
        core->n_ended--;
        break;
    }
    session->next_ended = NULL;
}

/* The rules may have changed since it ended, and so may what its owner left behind in the folder.
 * False: it stays ended, and a new session is opened instead. */
bool session_reopen_locked(struct core *core, struct session *session)
{
    struct gh_err err;
    if (session_rebase_locked(core, session, core->policy, &err) != GH_OK ||
        !session_inherit_locked(core, session)) {
        return false;
    }
    if (!gh_map_put(&core->externals, session->external, session)) {
        return false;
    }
    unlink_ended_locked(core, session);
    session->is_active = true;
    session->ended_ms = -1;
    grants_seed(session);
    return true;
}

void answer_reopened_locked(struct core *core, struct session *session, enum gate_mode mode,
                            struct http_exchange *x, const struct auth_token *who)
{
    struct change_work *work = change_new(core, x, session);
    struct store_txn *txn = store_txn_new();
    if (work == NULL || txn == NULL) {
        free(work);
        store_txn_free(txn);
        reply_audit_failed(x);
        return;
    }
    struct meta meta;
    meta_of(x, who, &meta);
    session->mode = session_stricter_mode(session->mode, mode);
    session_json_locked(core, session, &work->body);
    session_doc_locked(txn, core, session);
    record_note(txn, &(struct note){"session", session->id, session->id, "reopened", "{}"}, &meta);
    session_event_locked(core, session, "session.opened");
    store_commit(core->options.store, &txn, end_done, work);
}
