#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/execution.h"
#include "core/work.h"

#define MAX_PENDING_PER_TOKEN 256
#define MAX_BYTES_PER_TOKEN ((size_t)64 << 20)
#define MAX_BYTES ((size_t)256 << 20)

/* ---- a person is needed: the approval is born ---- */

static void unborn_locked(struct work *work)
{
    struct core *core = work->core;
    core->n_pending--;
    work->ask->session->n_pending--;
    idem_end_locked(core, work->idem, NULL);
    reply_audit_failed(work->x);
    ask_free(work->ask);
    work->ask = NULL;
}

/* Held, or told to come back. */
void work_answer_locked(struct core *core, struct ask *ask, struct http_exchange *x,
                        const struct auth_token *who, int64_t wait_ms)
{
    const struct wait wait = {
        .x = x, .kind = WAIT_DECISION, .who = *who, .ask = ask, .is_holder = true};
    if (!ask->is_answered && wait_ms > 0 && wait_hold_locked(core, &wait, wait_ms, &ask->waits)) {
        return;
    }
    ask_reply_decision(ask, x);
}

static void ask_born(enum gh_code code, void *cookie)
{
    struct work *work = cookie;
    struct core *core = work->core;
    struct ask *ask = work->ask;
    pthread_mutex_lock(&core->lock);
    bool is_kept = code == GH_OK && gh_map_put(&core->by_approval, ask->id, ask) &&
                   gh_map_put(&core->by_decision, ask->decision, ask);
    if (!is_kept) {
        gh_map_remove(&core->by_approval, ask->id);
        unborn_locked(work);
    } else {
        ask->is_born = true;
        ask_link_pending_locked(core, ask);
        clock_set_locked(core, &ask->due_expire, ask->expires_at_ms);
        if (ask->ticket_at_ms > 0) {
            clock_set_locked(core, &ask->due_ticket, ask->ticket_at_ms);
        }
        idem_end_locked(core, work->idem, ask->decision);
        ask_event_locked(core, ask, "approval.created");
        ask_changed_locked(core, ask);
        struct execution *execution = work->execution;
        execution_asked_locked(work);
        ask_look_again_locked(core, ask);
        if (execution != NULL) {
            execution_answer_locked(execution, work->x, &work->who, execution->wait_ms);
        } else {
            work_answer_locked(core, ask, work->x, &work->who,
                               ask->call != NULL ? ask->call->wait_ms : 0);
        }
        work->ask = NULL;
    }
    pthread_mutex_unlock(&core->lock);
    work_free(work);
}

static int64_t min_ms(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When it ends: the session's timeout, the caller's own limit less a margin, or both with a ticket.
 */
static void set_times(struct ask *ask, const struct session *session, const struct config *config)
{
    int64_t now_ms = gh_clock_boot_ms();
    int64_t life_ms = min_ms(session->ask_timeout_ms, config->asks.max_timeout_s * 1000);
    int64_t caller_ms = ask->call->deadline_ms;
    int64_t margin_ms = caller_ms < 20000 ? caller_ms / 4 : 5000;
    ask->limit_at_ms = now_ms + (int64_t)24 * 3600 * 1000;
    if (caller_ms > 0 && ask->wants_ticket) {
        ask->ticket_at_ms = now_ms + caller_ms - margin_ms;
    } else if (caller_ms > 0) {
        ask->limit_at_ms = now_ms + caller_ms - margin_ms;
        life_ms = min_ms(life_ms, caller_ms - margin_ms);
    }
    ask->expires_at_ms = now_ms + life_ms;
    ask->ahead_ms = gh_clock_wall_ms() - now_ms;
}

/* What the approval would keep in memory: its card, the texts for editors, the parsed request. */
static size_t card_bytes(const struct work *work)
{
    size_t body = 0;
    (void)http_body(work->x, &body);
    return sizeof(struct ask) + work->card.fixed.len + work->card.texts.len + 2 * body;
}

/* Move what the approval needs out of the request's work. */
static struct ask *make_ask(struct work *work, struct session *session)
{
    struct ask *ask = calloc(1, sizeof *ask);
    if (ask == NULL) {
        return NULL;
    }
    gh_id_new("apr", ask->id);
    memcpy(ask->decision, work->id, sizeof ask->decision);
    memcpy(ask->session_id, session->id, sizeof ask->session_id);
    snprintf(ask->owner, sizeof ask->owner, "%s", work->who.name);
    memcpy(ask->digest, work->card.digest, sizeof ask->digest);
    ask->session = session;
    ask->place = place_ref(work->place);
    ask->may_remember = work->card.may_remember;
    ask->bytes = card_bytes(work);
    ask->epoch = session->epoch;
    ask->is_detached = work->call->is_detached;
    ask->wants_ticket = work->call->wants_ticket;
    ask->created_ms = work->created_ms;
    ask->settled_ms = -1;
    ask->revision = 1;
    ask->due_expire = (struct gh_due){.owner = ask, .kind = ASK_DUE_EXPIRE};
    ask->due_ticket = (struct gh_due){.owner = ask, .kind = ASK_DUE_TICKET};
    ask->due_back = (struct gh_due){.owner = ask, .kind = ASK_DUE_BACK};
    ask->due_retry = (struct gh_due){.owner = ask, .kind = ASK_DUE_RETRY};
    ask->fixed = gh_buf_take(&work->card.fixed);
    ask->texts = gh_buf_take(&work->card.texts);
    if (ask->fixed == NULL || ask->texts == NULL) {
        ask_free(ask);
        return NULL;
    }
    return ask;
}

/* The row and the answer of a decision that waits. */
static void record_asking(struct store_txn *txn, struct work *work, struct session *session)
{
    struct meta meta;
    meta_of(work->x, &work->who, &meta);
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf answer = GH_BUF_INIT;
    const struct answer_view view = {
        work->id,      work->session_id, NULL, &work->ask->judged, work->ask->call,
        work->ask->id, work->created_ms, -1};
    struct gh_jw w = {&body, false};
    answer_json(&view, &answer);
    gh_jw_obj(&w, NULL);
    gh_jw_raw(&w, "answer", gh_buf_str(&answer));
    gh_jw_str(&w, "digest", work->ask->digest);
    gh_jw_str(&w, "narration", work->ask->call->narration);
    gh_jw_end(&w);
    record_decision(txn, session, &view, gh_buf_str(&body), &meta);
}

static void open_ask_locked(struct work *work, struct session *session)
{
    struct core *core = work->core;
    struct store_txn *txn = store_txn_new();
    work->ask = make_ask(work, session);
    if (txn == NULL || work->ask == NULL) {
        store_txn_free(txn);
        ask_free(gh_steal(&work->ask));
        idem_end_locked(core, work->idem, NULL);
        reply_audit_failed(work->x);
        work_free(work);
        return;
    }
    struct ask *ask = work->ask;
    outcome_expect_locked(session, work->id, work->call, &work->judged, false);
    ask->call = gh_steal(&work->call);
    ask->judged = work->judged;
    work->judged = (struct judged){0};
    set_times(ask, session, session->place->policy->config);
    core->n_pending++;
    session->n_pending++;
    record_asking(txn, work, session);
    ask_doc_locked(txn, core, ask, NULL, NULL);
    if (work->idem != NULL) {
        idem_doc(txn, work->idem, work->id);
    }
    store_commit(core->options.store, &txn, ask_born, work);
}

static bool is_flooded(const struct work *work, const struct session *session)
{
    const struct core *core = work->core;
    const struct config *config = session->place->policy->config;
    const char *owner = work->who.name;
    size_t n_own = 0;
    size_t own_bytes = card_bytes(work);
    size_t all_bytes = own_bytes;
    size_t at = 0;
    for (const struct session *other = gh_map_next(&core->sessions, &at); other != NULL;
         other = gh_map_next(&core->sessions, &at)) {
        n_own += strcmp(other->owner, owner) == 0 ? other->n_pending : 0;
    }
    for (const struct ask *ask = core->pending_first; ask != NULL; ask = ask->next) {
        all_bytes += ask->bytes;
        own_bytes += strcmp(ask->owner, owner) == 0 ? ask->bytes : 0;
    }
    return (int64_t)session->n_pending >= config->asks.max_pending_per_session ||
           (int64_t)core->n_pending >= config->asks.max_pending || n_own >= MAX_PENDING_PER_TOKEN ||
           own_bytes > MAX_BYTES_PER_TOKEN || all_bytes > MAX_BYTES;
}

/* The card is made; judge once more, now with a ticket, and ask if it is still a question. */
static void ask_or_settle_locked(struct work *work, struct session *session)
{
    struct grant *ticket = ticket_find(session, work->card.digest);
    judge_locked(session, work->call, &work->judged, ticket != NULL);
    if (work->judged.uses_ticket && ticket != NULL && ticket->is_taken) {
        work_deny_locked(work, session, GATE_R_TICKET_USED);
        return;
    }
    if (work->judged.uses_ticket && ticket != NULL) {
        ticket->is_taken = true;
        memcpy(work->ticket, ticket->id, sizeof work->ticket);
    }
    if (work->judged.total.decision != GATE_ASK) {
        work_settle_locked(work, session);
    } else if (is_flooded(work, session)) {
        work_deny_locked(work, session, GATE_R_TOO_MANY_PENDING);
    } else {
        open_ask_locked(work, session);
    }
}

static bool view_session_locked(const struct session *session, const struct call *call,
                                struct card_session *ret)
{
    struct tool tool;
    *ret = (struct card_session){.is_known_tool = tool_find(session, call->tool, &tool)};
    memcpy(ret->id, session->id, sizeof ret->id);
    return !session->is_tainted || taint_copy(&ret->taint, &session->taint);
}

void work_card(void *cookie)
{
    struct work *work = cookie;
    struct core *core = work->core;
    struct gh_err err;
    struct card_session view = {0};
    pthread_mutex_lock(&core->lock);
    struct session *session = work_session_locked(work, &err);
    bool is_viewed = session != NULL && view_session_locked(session, work->call, &view);
    pthread_mutex_unlock(&core->lock);
    if (!is_viewed ||
        card_make(&view, work->place, work->call, &work->judged, &work->card, &err) != GH_OK) {
        if (session != NULL && !is_viewed) {
            gh_fail(&err, GH_NOMEM, "There is not enough memory.");
        }
        taint_fini(&view.taint);
        work_fail(work, &err);
        return;
    }
    taint_fini(&view.taint);
    pthread_mutex_lock(&core->lock);
    session = work_session_locked(work, &err);
    bool is_stale = session != NULL && work_is_stale_locked(work, session);
    if (session != NULL && !is_stale) {
        ask_or_settle_locked(work, session);
    }
    pthread_mutex_unlock(&core->lock);
    if (session == NULL) {
        work_fail(work, &err);
    } else if (is_stale) {
        work_judge(work);
    }
}
