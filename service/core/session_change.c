#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/execution.h"
#include "core/state.h"

struct change_work {
    struct core *core;
    struct http_exchange *x;
    char session[GH_ID];
    uint64_t mode_version; /* of the session when this was asked */
    bool has_mode;
    bool is_told;        /* the event went out when it took effect */
    struct idem *idem;   /* in progress, or NULL */
    char *title;         /* or NULL; owned */
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
        *work = (struct change_work){.core = core, .x = x, .mode = session->mode};
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

/* The mode is in force. Only an approver's change binds, or releases, later sessions in the folder.
 */
static void mode_in_force_locked(struct core *core, struct session *session, bool is_by_approver)
{
    bool is_plan = session->mode == GATE_PLAN;
    session->is_plan_by_approver = is_plan && (is_by_approver || session->is_plan_by_approver);
    struct trace *trace =
        is_by_approver ? trace_of_locked(core, session->owner, session->place->working_dir, is_plan)
                       : NULL;
    if (trace != NULL) {
        trace->is_plan = is_plan;
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

/* What loosens is in force now, unless another change of the mode came meanwhile. */
static void apply_locked(struct change_work *work, struct session *session)
{
    if (work->title != NULL) {
        free(session->title);
        session->title = gh_steal(&work->title);
    }
    if (work->is_loosening && session->is_active && session->mode_version == work->mode_version) {
        session->mode = work->mode;
        mode_in_force_locked(work->core, session, work->is_by_approver);
        settle_by_mode_locked(work->core, session);
    } else if (!work->is_told) {
        session_event_locked(work->core, session, "session.updated");
    }
    session_json_locked(work->core, session, &work->body);
}

static void patch_done(enum gh_code code, void *cookie)
{
    struct change_work *work = cookie;
    struct core *core = work->core;
    pthread_mutex_lock(&core->lock);
    struct session *session = gh_map_find(&core->sessions, work->session);
    if (code == GH_OK && session != NULL) {
        apply_locked(work, session);
    }
    pthread_mutex_unlock(&core->lock);
    if (code != GH_OK) {
        reply_audit_failed(work->x);
    } else if (session == NULL) {
        reply_not_found(work->x);
    } else {
        reply_json(work->x, 200, &work->body);
    }
    gh_buf_fini(&work->body);
    free(work->title);
    free(work);
}

/* Write the session as it will be; put back what it is until that is durable. The folder's trace is
 * written even when it is the same: an earlier write of it may have failed. The mode a session has
 * already releases nothing. */
static void write_as_locked(struct core *core, struct session *session,
                            const struct change_work *work, struct store_txn *txn)
{
    enum gate_mode mode = session->mode;
    bool was_plan = session->is_plan_by_approver;
    char *title = session->title;
    session->mode = work->mode;
    session->is_plan_by_approver = work->mode == GATE_PLAN && (work->is_by_approver || was_plan);
    session->title = work->title != NULL ? work->title : title;
    session_doc_locked(txn, core, session);
    const struct trace *known =
        trace_of_locked(core, session->owner, session->place->working_dir, false);
    if (known != NULL && work->has_mode && work->is_by_approver) {
        struct trace as = *known;
        as.is_plan = !work->is_loosening && (known->is_plan || work->mode == GATE_PLAN);
        trace_doc(txn, &as);
    }
    session->mode = mode;
    session->is_plan_by_approver = was_plan;
    session->title = title;
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
    work->title = title;
    work->has_mode = patch->has_mode;
    work->mode = patch->has_mode ? patch->mode : session->mode;
    work->is_by_approver = who->role == AUTH_APPROVER;
    work->is_loosening = work->mode != session->mode && work->mode != GATE_PLAN;
    bool is_tightening = work->mode != session->mode && work->mode == GATE_PLAN;
    work->mode_version = patch->has_mode ? ++session->mode_version : session->mode_version;
    if (patch->has_mode && work->mode == GATE_PLAN) {
        session->mode = GATE_PLAN;
        mode_in_force_locked(core, session, work->is_by_approver);
    }
    if (patch->has_mode) {
        record_note(
            txn, &(struct note){"mode", session->id, session->id, gate_mode_name(work->mode), "{}"},
            &meta);
    }
    work->is_told = is_tightening && title == NULL;
    write_as_locked(core, session, work, txn);
    store_commit(core->options.store, &txn, patch_done, work);
    if (is_tightening) {
        settle_by_mode_locked(core, session);
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
    struct core *core = work->core;
    pthread_mutex_lock(&core->lock);
    struct session *session = gh_map_find(&core->sessions, work->session);
    if (session != NULL && code == GH_OK) {
        session->is_end_stored = !session->is_active;
    }
    idem_end_locked(core, work->idem, code == GH_OK ? work->session : NULL);
    pthread_mutex_unlock(&core->lock);
    if (work->x != NULL && code == GH_OK) {
        reply_json(work->x, 200, &work->body);
    } else if (work->x != NULL) {
        reply_audit_failed(work->x);
    }
    gh_buf_fini(&work->body);
    free(work);
}

/* In memory: closed at once, whatever the disk says. */
static void close_locked(struct core *core, struct session *session)
{
    session->is_active = false;
    session->ended_ms = gh_clock_wall_ms();
    session->is_end_stored = false;
    session->epoch++;
    ask_cancel_all_locked(core, session, GATE_R_CANCELLED);
    execution_kill_session_locked(core, session);
    session_event_locked(core, session, "session.ended");
    session_retire_locked(core, session);
}

/* Close it, or, when an earlier record of its end was lost, record it again. */
static bool end_locked(struct core *core, struct session *session, struct http_exchange *x,
                       const struct meta *meta)
{
    struct change_work *work = change_new(core, x, session);
    struct store_txn *txn = store_txn_new();
    if (work == NULL || txn == NULL) {
        free(work);
        store_txn_free(txn);
        return false;
    }
    if (session->is_active) {
        close_locked(core, session);
    }
    session_json_locked(core, session, &work->body);
    session_doc_locked(txn, core, session);
    record_note(txn, &(struct note){"session", session->id, session->id, "ended", "{}"}, meta);
    store_commit(core->options.store, &txn, end_done, work);
    return true;
}

void session_end_locked(struct core *core, struct session *session)
{
    (void)end_locked(core, session, NULL, NULL);
}

void core_session_end(struct core *core, struct http_exchange *x, const struct auth_token *who,
                      const char *id)
{
    struct meta meta;
    meta_of(x, who, &meta);
    pthread_mutex_lock(&core->lock);
    struct session *session = session_find_locked(core, who, id);
    if (session == NULL || !session->is_born) {
        reply_not_found(x);
    } else if (!session->is_active && session->is_end_stored) {
        gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
        session_json_locked(core, session, &body);
        reply_json(x, 200, &body);
    } else if (!end_locked(core, session, x, &meta)) {
        reply_audit_failed(x);
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
                            struct http_exchange *x, const struct auth_token *who,
                            struct idem *idem)
{
    struct change_work *work = change_new(core, x, session);
    struct store_txn *txn = store_txn_new();
    if (work == NULL || txn == NULL) {
        free(work);
        store_txn_free(txn);
        idem_end_locked(core, idem, NULL);
        reply_audit_failed(x);
        return;
    }
    work->idem = idem;
    if (idem != NULL) {
        idem_doc(txn, idem, session->id);
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
