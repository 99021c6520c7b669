#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/execution.h"
#include "core/state.h"

/* An approval leaves PENDING once. The outcome is claimed under the lock (is_settling), made
 * durable, and only then visible: to the one who settled it, to the agent, to everybody. */

#define RETRY_MS 1000

struct settling {
    struct core *core;
    struct ask *ask;         /* stays in memory while it is settling */
    struct http_exchange *x; /* who settled it and waits for the outcome, or NULL */
    char *final;     /* the decision as it will read, or NULL when it is answered already; owned */
    bool is_refusal; /* `x` asked for something else: it is told what became of it */
    bool is_ticket;  /* only the decision is settled; the approval goes on */
};

/* ---- the record ---- */

static void record_settlement(struct store_txn *txn, const struct ask *ask,
                              const struct settlement *how, const struct meta *meta)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "decision", ask->decision);
    gh_jw_str(&w, "state", ask_state_name(how->state));
    gh_jw_str(&w, "settled_by", how->settled_by);
    gh_jw_str(&w, "via", how->via);
    gh_jw_str(&w, "feedback", how->feedback);
    gh_jw_str(&w, "digest", ask->digest);
    gh_jw_end(&w);
    const struct store_audit row = {
        .kind = "approval",
        .at_ms = gh_clock_wall_ms(),
        .session = ask->session_id,
        .ref = ask->id,
        .tool = ask->call->tool,
        .action = gate_action_name(ask->call->parts[0].action),
        .decision = gate_decision_name(how->answer.decision),
        .by = gate_by_name(how->answer.by),
        .code = gate_reason_code(how->answer.reason),
        .mode = gate_mode_name(ask->session->mode),
        .principal = meta != NULL && meta->principal != NULL ? meta->principal : "",
        .peer = meta != NULL && meta->peer != NULL ? meta->peer : "",
        .agent = meta != NULL && meta->agent != NULL ? meta->agent : "",
        .trace_id = meta != NULL && meta->trace_id != NULL ? meta->trace_id : "",
        .body = gh_buf_str(&body),
    };
    store_txn_audit(txn, &row);
}

/* The decision as it will read once it is settled; its audit rows. NULL without memory. */
static char *record_final(struct store_txn *txn, const struct ask *ask, const struct answer *answer,
                          const struct meta *meta)
{
    static const struct meta nobody;
    const struct answer_view view = {
        ask->decision,   ask->session_id,
        answer,          &ask->judged,
        ask->call,       ask->id,
        ask->created_ms, ask->settled_ms >= 0 ? ask->settled_ms : gh_clock_wall_ms()};
    struct gh_buf text = GH_BUF_INIT;
    answer_json(&view, &text);
    char *final = gh_buf_take(&text);
    if (final != NULL) {
        record_decision(txn, ask->session, &view, final, meta != NULL ? meta : &nobody);
    }
    return final;
}

/* ---- the outcome ---- */

static void free_settling(struct settling *work)
{
    free(work->final);
    free(work);
}

/* Those who answered while another answer was on its way are looked at again. */
static void run_deferred_locked(struct core *core, struct ask *ask)
{
    struct deferred *deferred = gh_steal(&ask->deferred);
    while (deferred != NULL) {
        struct deferred *next = deferred->next;
        settle_put_locked(core, ask, deferred->x, &deferred->who);
        free(deferred);
        deferred = next;
    }
}

/* A claim ends without an outcome: whatever came meanwhile has its turn. */
void settle_release_locked(struct core *core, struct ask *ask)
{
    ask->is_settling = false;
    ask_look_again_locked(core, ask);
    run_deferred_locked(core, ask);
}

/* Those who hold are denied now: no record, no allow. */
static void deny_holders_locked(struct core *core, struct ask *ask)
{
    struct wait *next = NULL;
    for (struct wait *wait = ask->waits; wait != NULL; wait = next) {
        next = wait->next;
        if (wait->kind == WAIT_DECISION) {
            reply_audit_failed(wait_take_locked(core, wait));
        }
    }
}

/* Not durable, so not settled. What the system wanted stays wanted and is tried again. */
static void failed_locked(struct settling *work)
{
    struct core *core = work->core;
    struct ask *ask = work->ask;
    bool is_person = work->x != NULL && !work->is_refusal;
    if (!work->is_ticket) {
        settlement_fini(&ask->settlement);
    }
    if (work->x != NULL) {
        reply_audit_failed(work->x);
    }
    if (!is_person) {
        deny_holders_locked(core, ask);
    }
    clock_set_locked(core, &ask->due_retry, gh_clock_boot_ms() + RETRY_MS);
    ask->is_settling = false;
    run_deferred_locked(core, ask);
}

/* Store what "always" covers, and answer identical asks of the session with it. */
static void remember_locked(struct core *core, struct ask *ask, struct session *session)
{
    for (size_t i = 0; i < ask->judged.n; i++) {
        grant_add_locked(session, &ask->judged.parts[i], ask->call->parts[i].action,
                         ask->settlement.settled_by, ask->decision);
    }
    struct ask *next = NULL;
    for (struct ask *other = core->pending_first; other != NULL; other = next) {
        next = other->next;
        if (other->session != session || other->state != ASK_PENDING || other->is_settling ||
            other->is_over) {
            continue;
        }
        judge_locked(session, other->call, &other->judged, false);
        if (other->judged.total.decision == GATE_ALLOW_ALWAYS) {
            approval_grant_locked(core, other);
        }
    }
}

static void take_answer(struct ask *ask, struct answer *answer, char **final)
{
    ask->answer = *answer;
    ask->answer.text = answer->text != NULL ? strdup(answer->text) : NULL;
    ask->answer_final = gh_steal(final);
    ask->is_answered = true;
    ask->answered_ms = gh_clock_wall_ms();
}

static void decided_event_locked(struct core *core, struct ask *ask)
{
    const struct answer_view view = {ask->decision,   ask->session_id, &ask->answer,
                                     &ask->judged,    ask->call,       ask->id,
                                     ask->created_ms, ask->answered_ms};
    decision_event_locked(core, &view, ask->owner);
}

/* Durable: make it visible, in the order record, state, people, agent. */
static void settled_locked(struct settling *work)
{
    struct core *core = work->core;
    struct ask *ask = work->ask;
    struct session *session = ask->session;
    bool is_same = session->is_active && session->epoch == ask->epoch;
    bool is_late = ask->is_answered; /* with a ticket: the caller has its answer */
    ask->state = ask->settlement.state;
    core->numbers.approvals[ask->state]++;
    if (!ask->is_answered) {
        take_answer(ask, &ask->settlement.answer, &work->final);
        core->numbers.decisions[ask->answer.decision][ask->answer.by]++;
    }
    ask->is_settling = false;
    ask_event_locked(core, ask, "approval.settled");
    if (!is_late) {
        decided_event_locked(core, ask);
    }
    /* Of a session that ended meanwhile nothing is left behind that a reopening could find. */
    if (is_same && ask->settlement.answer.decision == GATE_ALLOW_ALWAYS) {
        remember_locked(core, ask, session);
    } else if (is_same && is_late && ask->settlement.answer.decision == GATE_ALLOW) {
        ticket_add_locked(session, ask, ask->settlement.settled_by);
    }
    ask_to_settled_locked(core, ask);
    ask_changed_locked(core, ask);
    if (work->x != NULL && work->is_refusal) {
        approval_reply_settled_locked(core, ask, work->x);
    } else if (work->x != NULL) {
        approval_reply_locked(core, ask, work->x);
    }
    run_deferred_locked(core, ask);
    execution_settled_locked(core, ask);
    call_free(gh_steal(&ask->call));
    judged_fini(&ask->judged);
    place_unrefp(&ask->place);
}

/* The caller's own limit came first: its decision is denied, the approval goes on. */
static void ticketed_locked(struct settling *work)
{
    struct core *core = work->core;
    struct ask *ask = work->ask;
    const struct gate_verdict verdict = {.decision = GATE_DENY,
                                         .tier = GATE_TIER_ASK,
                                         .by = GATE_BY_TIMEOUT,
                                         .reason = GATE_R_TICKET};
    struct answer answer;
    if (answer_make(&answer, &verdict, gate_reason_text(GATE_R_TICKET))) {
        take_answer(ask, &answer, &work->final);
        answer_fini(&answer);
    }
    core->numbers.decisions[GATE_DENY][GATE_BY_TIMEOUT]++;
    decided_event_locked(core, ask);
    ask_event_locked(core, ask, "approval.updated");
    ask_changed_locked(core, ask);
    settle_release_locked(core, ask);
}

static void done(enum gh_code code, void *cookie)
{
    struct settling *work = cookie;
    struct core *core = work->core;
    pthread_mutex_lock(&core->lock);
    if (code != GH_OK) {
        failed_locked(work);
    } else if (work->is_ticket) {
        ticketed_locked(work);
    } else {
        settled_locked(work);
    }
    pthread_mutex_unlock(&core->lock);
    free_settling(work);
}

/* ---- the ways to settle ---- */

/* Claim and record. `how` is taken. */
static void begin_locked(struct settling *from, struct settlement *how, const struct meta *meta)
{
    struct core *core = from->core;
    struct ask *ask = from->ask;
    struct settling *work = malloc(sizeof *work);
    struct store_txn *txn = store_txn_new();
    ask->settlement = *how;
    ask->settled_ms = gh_clock_wall_ms(); /* one instant for memory, record and document */
    *how = (struct settlement){0};
    ask->is_settling = true;
    if (txn != NULL && !ask->is_answered) {
        from->final = record_final(txn, ask, &ask->settlement.answer, meta);
    }
    if (work == NULL || txn == NULL || (!ask->is_answered && from->final == NULL)) {
        store_txn_free(txn);
        free(work);
        failed_locked(from);
        free(from->final);
        return;
    }
    *work = *from;
    record_settlement(txn, ask, &ask->settlement, meta);
    ask_doc_locked(txn, core, ask, &ask->settlement, work->final);
    store_commit(core->options.store, &txn, done, work);
}

void settle_start_locked(struct core *core, struct ask *ask, struct settlement *how,
                         struct http_exchange *x, const struct meta *meta)
{
    begin_locked(&(struct settling){.core = core, .ask = ask, .x = x}, how, meta);
}

/* The cancel of a system; false without memory. */
static bool make_cancel(const struct ask *ask, enum gate_tier tier, enum gate_reason reason,
                        struct settlement *ret)
{
    const struct gate_verdict verdict = {
        .decision = GATE_DENY, .tier = tier, .by = GATE_BY_SYSTEM, .reason = reason};
    char text[1024];
    struct judged as = ask->judged;
    as.total = verdict;
    judge_reason(ask->session, &as, text, sizeof text);
    *ret = (struct settlement){.state = ASK_CANCELLED};
    return answer_make(&ret->answer, &verdict, text);
}

void settle_system_locked(struct core *core, struct ask *ask, enum gate_tier tier,
                          enum gate_reason reason)
{
    struct settlement how;
    if (!ask->is_unwanted) {
        ask->is_unwanted = true; /* the first reason is the one that counts */
        ask->unwanted_tier = tier;
        ask->unwanted_reason = reason;
    }
    if (ask->is_settling) {
        return; /* looked at again when that ends */
    }
    if (make_cancel(ask, ask->unwanted_tier, ask->unwanted_reason, &how)) {
        settle_start_locked(core, ask, &how, NULL, NULL);
    } else {
        clock_set_locked(core, &ask->due_retry, gh_clock_boot_ms() + RETRY_MS);
    }
}

void settle_refuse_locked(struct core *core, struct ask *ask, const struct gate_verdict *verdict,
                          struct http_exchange *x, const struct meta *meta)
{
    struct settlement how;
    if (make_cancel(ask, verdict->tier, verdict->reason, &how)) {
        begin_locked(&(struct settling){.core = core, .ask = ask, .x = x, .is_refusal = true}, &how,
                     meta);
    } else {
        reply_audit_failed(x);
        settle_release_locked(core, ask);
    }
}

void settle_timeout_locked(struct core *core, struct ask *ask)
{
    struct settlement how = {.state = ASK_EXPIRED};
    const struct gate_verdict verdict = {.decision = GATE_DENY,
                                         .tier = GATE_TIER_ASK,
                                         .by = GATE_BY_TIMEOUT,
                                         .reason = GATE_R_EXPIRED};
    ask->is_over = true;
    if (answer_make(&how.answer, &verdict, gate_reason_text(GATE_R_EXPIRED))) {
        settle_start_locked(core, ask, &how, NULL, NULL);
    } else {
        clock_set_locked(core, &ask->due_retry, gh_clock_boot_ms() + RETRY_MS);
    }
}

void settle_ticket_locked(struct core *core, struct ask *ask)
{
    const struct gate_verdict verdict = {.decision = GATE_DENY,
                                         .tier = GATE_TIER_ASK,
                                         .by = GATE_BY_TIMEOUT,
                                         .reason = GATE_R_TICKET};
    struct answer answer = {0};
    struct settling *work = calloc(1, sizeof *work);
    struct store_txn *txn = store_txn_new();
    if (work == NULL || txn == NULL ||
        !answer_make(&answer, &verdict, gate_reason_text(GATE_R_TICKET))) {
        store_txn_free(txn);
        free(work);
        clock_set_locked(core, &ask->due_retry, gh_clock_boot_ms() + RETRY_MS);
        return;
    }
    *work = (struct settling){.core = core, .ask = ask, .is_ticket = true};
    ask->is_settling = true;
    work->final = record_final(txn, ask, &answer, NULL);
    answer_fini(&answer);
    if (work->final == NULL) {
        store_txn_free(txn);
        failed_locked(work);
        free_settling(work);
        return;
    }
    ask_doc_locked(txn, core, ask, NULL, work->final);
    store_commit(core->options.store, &txn, done, work);
}
