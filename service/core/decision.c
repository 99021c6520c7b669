#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/execution.h"
#include "core/work.h"

/* One tool call, from the request to the verdict:
 *   core_decide  parse, find the session, idempotency        (HTTP thread)
 *   work_judge   facts from the file system, tiers           (HTTP thread; moves on the pool)
 *   settle_now   a verdict without a person: record, answer  (answered by the store's thread)
 *   work_card    digest, preview and diff for a person       (pool)
 *   ask_born     the approval is durable: visible, held      (store's thread)
 */

#define MAX_CALLS_PER_RESPONSE 20

bool answer_make(struct answer *ret, const struct gate_verdict *verdict, const char *text)
{
    *ret = (struct answer){verdict->decision, verdict->tier, verdict->by, verdict->reason,
                           strdup(text)};
    return ret->text != NULL;
}

void answer_fini(struct answer *answer)
{
    free(answer->text);
    answer->text = NULL;
}

void work_free(struct work *work)
{
    call_free(work->call);
    place_unref(work->place);
    judged_fini(&work->judged);
    answer_fini(&work->answer);
    gh_buf_fini(&work->body);
    gh_buf_fini(&work->event);
    card_fini(&work->card);
    execution_free(work->execution);
    execution_input_free(work->input);
    free(work);
}

/* End without a decision. */
static void fail_locked(struct work *work, const struct gh_err *err)
{
    idem_end_locked(work->core, work->idem, NULL);
    http_problem(work->x, err, NULL);
}

void work_fail(struct work *work, const struct gh_err *err)
{
    pthread_mutex_lock(&work->core->lock);
    fail_locked(work, err);
    pthread_mutex_unlock(&work->core->lock);
    work_free(work);
}

static struct answer_view view_of(const struct work *work, const struct answer *answer)
{
    return (struct answer_view){work->id,         work->session_id,
                                answer,           &work->judged,
                                work->call,       work->ask != NULL ? work->ask->id : NULL,
                                work->created_ms, answer != NULL ? gh_clock_wall_ms() : -1};
}

void decision_event_json(const struct answer_view *view, struct gh_buf *out)
{
    struct gh_jw w = {out, false};
    gh_buf_room(out, 400);
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "id", view->id);
    gh_jw_str(&w, "session", view->session);
    gh_jw_str(&w, "tool", view->call->tool);
    gh_jw_str(&w, "action", gate_action_name(view->call->parts[view->judged->decider].action));
    gh_jw_str(&w, "decision", gate_decision_name(view->answer->decision));
    gh_jw_str(&w, "tier", gate_tier_name(view->answer->tier));
    gh_jw_str(&w, "by", gate_by_name(view->answer->by));
    gh_jw_str(&w, "code", gate_reason_code(view->answer->reason));
    gh_jw_str(&w, "approval", view->approval);
    gh_jw_end(&w);
}

void decision_event_locked(struct core *core, const struct answer_view *view, const char *owner)
{
    struct gh_buf data = GH_BUF_INIT;
    decision_event_json(view, &data);
    event_emit_locked(core, "decision.settled", gh_map_find(&core->sessions, view->session), owner,
                      &data);
}

/* ---- a verdict without a person ---- */

static void end_ticket_locked(struct work *work, bool is_used)
{
    struct session *session = gh_map_find(&work->core->sessions, work->session_id);
    if (work->ticket[0] == '\0' || session == NULL) {
        return;
    }
    for (struct grant *grant = session->grants; grant != NULL; grant = grant->next) {
        if (strcmp(grant->id, work->ticket) == 0) {
            if (is_used) {
                grant_remove(session, grant);
            } else {
                grant->is_taken = false;
            }
            return;
        }
    }
}

static void answer_done(enum gh_code code, void *cookie)
{
    struct work *work = cookie;
    struct core *core = work->core;
    pthread_mutex_lock(&core->lock);
    end_ticket_locked(work, code == GH_OK);
    idem_end_locked(core, work->idem, code == GH_OK ? work->id : NULL);
    if (code == GH_OK) {
        core->numbers.decisions[work->answer.decision][work->answer.by]++;
        event_emit_locked(core, "decision.settled", gh_map_find(&core->sessions, work->session_id),
                          work->who.name, &work->event);
    }
    bool is_execution = code == GH_OK && work->execution != NULL;
    if (is_execution) {
        execution_decided_locked(work);
    } else if (code == GH_OK && work->input != NULL && work->answer.decision != GATE_DENY) {
        execution_deliver_locked(core, work->input);
    }
    pthread_mutex_unlock(&core->lock);
    if (code == GH_OK && !is_execution) {
        reply_json(work->x, 200, &work->body);
    } else if (code != GH_OK) {
        reply_audit_failed(work->x);
    }
    work_free(work);
}

/* Record, then answer. Takes `work`. */
static void settle_now_locked(struct work *work, struct session *session,
                              const struct gate_verdict *verdict, const char *text)
{
    struct core *core = work->core;
    struct meta meta;
    struct store_txn *txn = store_txn_new();
    meta_of(work->x, &work->who, &meta);
    if (txn == NULL || !answer_make(&work->answer, verdict, text)) {
        store_txn_free(txn);
        end_ticket_locked(work, false);
        idem_end_locked(core, work->idem, NULL);
        reply_audit_failed(work->x);
        work_free(work);
        return;
    }
    const struct answer_view view = view_of(work, &work->answer);
    answer_json(&view, &work->body);
    record_decision(txn, session, &view, gh_buf_str(&work->body), &meta);
    if (work->idem != NULL) {
        idem_doc(txn, work->idem, work->id);
    }
    outcome_expect_locked(session, work->id, work->call, &work->judged,
                          verdict->decision != GATE_DENY);
    decision_event_json(&view, &work->event);
    execution_take_call_locked(work, verdict->decision != GATE_DENY);
    /* Freed here, where it was made: the store's thread has enough to do. */
    call_free(gh_steal(&work->call));
    judged_fini(&work->judged);
    store_commit(core->options.store, &txn, answer_done, work);
}

/* A denial that no tier made: limits, skipped calls, used tickets. */
void work_deny_locked(struct work *work, struct session *session, enum gate_reason reason)
{
    const struct gate_verdict verdict = {
        .decision = GATE_DENY, .tier = GATE_TIER_ASK, .by = GATE_BY_SYSTEM, .reason = reason};
    settle_now_locked(work, session, &verdict, gate_reason_text(reason));
}

static void count_hits_locked(struct session *session, const struct judged *judged)
{
    for (size_t i = 0; i < judged->n; i++) {
        struct grant *grant = judged->parts[i].verdict.decision == GATE_ALLOW_ALWAYS
                                  ? grant_find(session, &judged->parts[i].key)
                                  : NULL;
        if (grant != NULL) {
            grant->hits++;
        }
    }
}

void work_settle_locked(struct work *work, struct session *session)
{
    char text[1024];
    judge_reason(session, &work->judged, text, sizeof text);
    count_hits_locked(session, &work->judged);
    settle_now_locked(work, session, &work->judged.total, text);
}

struct session *work_session_locked(struct work *work, struct gh_err *err)
{
    struct session *session = session_find_locked(work->core, &work->who, work->session_id);
    if (session == NULL) {
        gh_fail(err, GH_NOT_FOUND, "There is no such session, or it is not yours.");
        return NULL;
    }
    if (!session->is_active) {
        gh_fail(err, GH_CONFLICT, "The session has ended.");
        return NULL;
    }
    return session;
}

/* ---- judging ---- */

static void explain_json(const struct work *work, struct gh_buf *out)
{
    struct gate_step steps[GATE_N_TIERS];
    struct gate_verdict verdict;
    const struct judged_part *part = &work->judged.parts[work->judged.decider];
    struct gate_verdict lexical = gate_decide(&part->facts.lexical);
    struct gate_verdict kernel = gate_decide(&part->facts.kernel);
    bool is_lexical = gate_stricter(&kernel, &lexical) == &lexical;
    int n = gate_explain(is_lexical ? &part->facts.lexical : &part->facts.kernel, steps, &verdict);
    struct gh_jw w = {out, false};
    gh_jw_obj(&w, NULL);
    gh_jw_arr(&w, "tiers");
    for (int i = 0; i < n; i++) {
        gh_jw_obj(&w, NULL);
        gh_jw_str(&w, "tier", gate_tier_name(steps[i].tier));
        gh_jw_bool(&w, "matched", steps[i].is_matched);
        gh_jw_str(&w, "detail", steps[i].detail);
        gh_jw_end(&w);
    }
    gh_jw_arr_end(&w);
    gh_jw_str(&w, "would", gate_decision_name(work->judged.total.decision));
    gh_jw_str(&w, "code", gate_reason_code(work->judged.total.reason));
    gh_jw_raw(&w, "target", gh_buf_str(&part->target));
    gh_jw_str(&w, "deny_entry", part->facts.deny_entry);
    gh_jw_end(&w);
}

/* Counting calls of one model response; true when this one is refused for it. */
static bool refuse_by_response_locked(struct work *work, struct session *session)
{
    if (work->call->response_id == NULL || work->is_counted) {
        return false;
    }
    work->is_counted = true;
    struct response *response = outcome_response_locked(session, work->call->response_id);
    if (response == NULL) {
        return false;
    }
    response->n_calls++;
    if (response->has_failed) {
        work_deny_locked(work, session, GATE_R_SKIPPED);
        return true;
    }
    if (response->n_calls > MAX_CALLS_PER_RESPONSE) {
        work_deny_locked(work, session, GATE_R_TOO_MANY_CALLS);
        return true;
    }
    return false;
}

static bool is_explain(struct http_exchange *x)
{
    const char *text = http_query(x, "explain");
    return text != NULL && strcmp(text, "true") == 0;
}

/* Returns true when `work` goes on to the pool; otherwise it is answered and gone. */
static bool judge_or_settle_locked(struct work *work, struct session *session)
{
    judge_locked(session, work->call, &work->judged, false);
    if (is_explain(work->x)) {
        explain_json(work, &work->body);
        reply_json(work->x, 200, &work->body);
        work_free(work);
        return false;
    }
    if (refuse_by_response_locked(work, session)) {
        return false;
    }
    if (work->judged.total.decision != GATE_ASK) {
        work_settle_locked(work, session);
        return false;
    }
    return true;
}

/* Facts are worth what the rules they were gathered under are: after a reload they are gathered
 * again. */
bool work_is_stale_locked(struct work *work, const struct session *session)
{
    if (session->place == work->place) {
        return false;
    }
    place_unref(work->place);
    work->place = place_ref(session->place);
    judged_fini(&work->judged);
    card_fini(&work->card);
    return true;
}

void work_judge(void *cookie)
{
    struct work *work = cookie;
    struct core *core = work->core;
    struct gh_err err;
    if (judge_gather(work->place, work->call, &work->judged, &err) != GH_OK ||
        execution_check(work, &err) != GH_OK) {
        work_fail(work, &err);
        return;
    }
    pthread_mutex_lock(&core->lock);
    struct session *session = work_session_locked(work, &err);
    bool is_stale = session != NULL && work_is_stale_locked(work, session);
    bool is_asking = session != NULL && !is_stale && judge_or_settle_locked(work, session);
    pthread_mutex_unlock(&core->lock);
    gh_job_fn *next = is_stale ? work_judge : work_card;
    if (session == NULL ||
        ((is_stale || is_asking) && gh_pool_run(core->options.pool, next, work, &err) != GH_OK)) {
        work_fail(work, &err);
    }
}

/* ---- the request ---- */

/* An action that contradicts the registration is a mistake of the caller. A tool that writes may
 * bring parts that delete and move: a patch does. */
static enum gh_code check_tool(const struct session *session, const struct call *call,
                               struct gh_err *err)
{
    struct tool tool;
    if (!tool_find(session, call->tool, &tool)) {
        return GH_OK;
    }
    for (size_t i = 0; i < call->n_parts; i++) {
        enum gate_action action = call->parts[i].action;
        bool is_patch = call->n_parts > 1 && tool.action == GATE_WRITE &&
                        (action == GATE_DELETE || action == GATE_MOVE);
        if (action != tool.action && !is_patch) {
            return gh_fail_at(err, GH_INVALID, "/action",
                              "The tool is registered with the action \"%s\".",
                              gate_action_name(tool.action));
        }
    }
    return GH_OK;
}

static void replay_locked(struct core *core, struct work *work)
{
    char id[GH_ID];
    memcpy(id, work->idem->object, sizeof id);
    if (work->execution != NULL && execution_replay_locked(work, id)) {
        return;
    }
    int64_t wait_ms = work->call->wait_ms;
    struct ask *ask = gh_map_find(&core->by_decision, id);
    if (ask != NULL) {
        ask_touch_locked(core, ask, &work->who);
        work_answer_locked(core, ask, work->x, &work->who, wait_ms);
        return;
    }
    decision_from_store(core, work->x, &work->who, work->session_id, id);
}

/* Everything that needs the session before the file system is looked at. True: go on. */
static bool admit_locked(struct work *work)
{
    struct core *core = work->core;
    struct gh_err err;
    unsigned char body[GH_SHA256];
    const struct session *session = work_session_locked(work, &err);
    if (session == NULL || check_tool(session, work->call, &err) != GH_OK) {
        http_problem(work->x, &err, NULL);
        return false;
    }
    if (!is_explain(work->x) && http_header(work->x, "Idempotency-Key") != NULL) {
        idem_body(work->x, body);
        enum idem_result result = idem_begin_locked(core, work->x, &work->who, body, &work->idem);
        if (result == IDEM_REPLAY) {
            replay_locked(core, work);
        }
        if (result == IDEM_REPLAY || result == IDEM_ANSWERED) {
            return false;
        }
    }
    work->place = place_ref(session->place);
    return true;
}

/* Moving or deleting a folder walks it for denied files: not on an HTTP thread. */
static bool is_heavy(const struct call *call)
{
    for (size_t i = 0; i < call->n_parts; i++) {
        if (call->parts[i].target.form == GATE_MOVE_PATHS || call->parts[i].action == GATE_DELETE) {
            return true;
        }
    }
    return call->n_parts > 8;
}

void core_decide(struct core *core, struct http_exchange *x, const struct auth_token *who,
                 const char *session_id)
{
    struct gh_err err;
    size_t len = 0;
    const char *data = http_body(x, &len);
    struct work *work = calloc(1, sizeof *work);
    if (work == NULL) {
        gh_fail(&err, GH_NOMEM, "There is not enough memory.");
        http_problem(x, &err, NULL);
        return;
    }
    *work = (struct work){.core = core, .x = x, .who = *who, .created_ms = gh_clock_wall_ms()};
    snprintf(work->session_id, sizeof work->session_id, "%s", session_id);
    gh_id_new("dec", work->id);
    if (call_parse(data, len, &work->call, &err) != GH_OK) {
        http_problem(x, &err, NULL);
        work_free(work);
        return;
    }
    work_begin(work);
}

void work_begin(struct work *work)
{
    struct core *core = work->core;
    struct gh_err err;
    pthread_mutex_lock(&core->lock);
    bool is_admitted = admit_locked(work);
    pthread_mutex_unlock(&core->lock);
    if (!is_admitted) {
        work_free(work);
    } else if (!is_heavy(work->call)) {
        work_judge(work);
    } else if (gh_pool_run(core->options.pool, work_judge, work, &err) != GH_OK) {
        work_fail(work, &err);
    }
}

/* ---- looking at it later ---- */

void core_decision_get(struct core *core, struct http_exchange *x, const struct auth_token *who,
                       const char *session_id, const char *id)
{
    struct gh_err err;
    int64_t wait_ms = 0;
    if (!query_wait_ms(x, &wait_ms, &err)) {
        http_problem(x, &err, NULL);
        return;
    }
    pthread_mutex_lock(&core->lock);
    struct ask *ask = gh_map_find(&core->by_decision, id);
    bool is_ours = ask != NULL && strcmp(ask->session_id, session_id) == 0 &&
                   (who->role != AUTH_AGENT || strcmp(who->name, ask->owner) == 0);
    if (is_ours) {
        bool is_holder = strcmp(who->name, ask->owner) == 0;
        const struct wait wait = {
            .x = x, .kind = WAIT_DECISION, .who = *who, .ask = ask, .is_holder = is_holder};
        ask_touch_locked(core, ask, who);
        if (ask->is_answered || wait_ms == 0 ||
            !wait_hold_locked(core, &wait, wait_ms, &ask->waits)) {
            ask_reply_decision(ask, x);
        }
    }
    pthread_mutex_unlock(&core->lock);
    if (!is_ours) {
        decision_from_store(core, x, who, session_id, id);
    }
}
