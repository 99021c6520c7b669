#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

/* Extend and cancel: what may happen to an approval beside its answer. */

static bool check_pending(const struct ask *ask, struct http_exchange *x)
{
    struct gh_err err;
    if (ask->state == ASK_EXPIRED || ask->is_over) {
        gh_fail(&err, GH_EXPIRED, "Nobody answered in time; it is over.");
    } else if (ask->state != ASK_PENDING || ask->is_settling) {
        gh_fail(&err, GH_SETTLED, "It is already settled.");
    } else {
        return true;
    }
    http_problem(x, &err, NULL);
    return false;
}

/* ---- extend ---- */

struct extend_work {
    struct core *core;
    struct http_exchange *x;
    struct ask *ask;  /* claimed while the new end is made durable */
    int64_t until_ms; /* CLOCK_BOOTTIME: the new end */
};

static void extend_done(enum gh_code code, void *cookie)
{
    struct extend_work *work = cookie;
    struct core *core = work->core;
    struct ask *ask = work->ask;
    pthread_mutex_lock(&core->lock);
    if (code != GH_OK) {
        reply_audit_failed(work->x);
    } else {
        ask->expires_at_ms = work->until_ms;
        ask->is_over = false;
        ask_changed_locked(core, ask);
        ask_event_locked(core, ask, "approval.updated");
        approval_reply_locked(core, ask, work->x);
    }
    clock_set_locked(core, &ask->due_expire, ask->expires_at_ms);
    settle_release_locked(core, ask);
    pthread_mutex_unlock(&core->lock);
    free(work);
}

static void extend_locked(struct core *core, struct ask *ask, int64_t more_ms,
                          struct http_exchange *x, const struct meta *meta)
{
    struct gh_err err;
    struct extend_work *work = calloc(1, sizeof *work);
    struct store_txn *txn = store_txn_new();
    int64_t until_ms = ask->expires_at_ms + more_ms;
    until_ms = until_ms < ask->limit_at_ms ? until_ms : ask->limit_at_ms;
    if (work == NULL || txn == NULL || until_ms <= ask->expires_at_ms) {
        free(work);
        store_txn_free(txn);
        gh_fail(&err, GH_CONFLICT, "It cannot be extended beyond the caller's own deadline.");
        http_problem(x, &err, NULL);
        return;
    }
    *work = (struct extend_work){core, x, ask, until_ms};
    int64_t present_ms = ask->expires_at_ms;
    ask->is_settling = true;
    ask->expires_at_ms = until_ms; /* for the document; in force only once that is durable */
    record_note(txn, &(struct note){"note", ask->session_id, ask->id, "extended", "{}"}, meta);
    ask_doc_locked(txn, core, ask, NULL, NULL);
    ask->expires_at_ms = present_ms;
    store_commit(core->options.store, &txn, extend_done, work);
}

static enum gh_code parse_extend(struct http_exchange *x, int64_t *ret_ms, struct gh_err *err)
{
    static const char *const names[] = {"seconds", NULL};
    size_t len = 0;
    const char *data = http_body(x, &len);
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    GH_TRY(gh_json_parse(data, len, &body, err));
    GH_TRY(gh_json_only(body, "", names, err));
    *ret_ms = 0;
    GH_TRY(gh_json_secs(body, "", "seconds", 1000, 86400000, false, ret_ms, err));
    return *ret_ms > 0 ? GH_OK
                       : gh_fail_at(err, GH_INVALID, "/seconds", "The field must be present.");
}

void core_approval_extend(struct core *core, struct http_exchange *x, const struct auth_token *who,
                          const char *id)
{
    struct gh_err err;
    struct meta meta;
    int64_t more_ms = 0;
    meta_of(x, who, &meta);
    pthread_mutex_lock(&core->lock);
    struct ask *ask = ask_find_locked(core, who, id);
    if (ask == NULL) {
        reply_not_found(x);
    } else if (parse_extend(x, &more_ms, &err) != GH_OK) {
        http_problem(x, &err, NULL);
    } else if (check_pending(ask, x)) {
        extend_locked(core, ask, more_ms, x, &meta);
    }
    pthread_mutex_unlock(&core->lock);
}

/* ---- cancel, by the one who asked ---- */

void core_approval_cancel(struct core *core, struct http_exchange *x, const struct auth_token *who,
                          const char *id)
{
    struct meta meta;
    struct settlement how = {.state = ASK_CANCELLED};
    const struct gate_verdict verdict = {.decision = GATE_DENY,
                                         .tier = GATE_TIER_ASK,
                                         .by = GATE_BY_SYSTEM,
                                         .reason = GATE_R_CANCELLED};
    meta_of(x, who, &meta);
    pthread_mutex_lock(&core->lock);
    struct ask *ask = ask_find_locked(core, who, id);
    if (ask == NULL) {
        reply_not_found(x);
    } else if (ask->state == ASK_CANCELLED) {
        approval_reply_locked(core, ask, x);
    } else if (check_pending(ask, x)) {
        if (answer_make(&how.answer, &verdict, gate_reason_text(GATE_R_CANCELLED))) {
            settle_start_locked(core, ask, &how, x, &meta);
        } else {
            reply_audit_failed(x);
        }
    }
    pthread_mutex_unlock(&core->lock);
}
