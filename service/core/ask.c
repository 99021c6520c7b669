#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "core/execution.h"
#include "core/state.h"

#define MAX_SETTLED 2048
#define MAX_SETTLED_BYTES ((size_t)16 << 20)
#define COME_BACK_MS 10000
#define CLOCKS_APART_MS 1000

static const char *const state_names[] = {
    [ASK_PENDING] = "pending", [ASK_ALLOWED] = "allowed", [ASK_ALLOWED_ALWAYS] = "allowed_always",
    [ASK_DENIED] = "denied",   [ASK_EXPIRED] = "expired", [ASK_CANCELLED] = "cancelled",
};

const char *ask_state_name(enum ask_state state)
{
    return state_names[state];
}

void settlement_fini(struct settlement *how)
{
    answer_fini(&how->answer);
    free(how->feedback);
    how->feedback = NULL;
}

void ask_free(struct ask *ask)
{
    if (ask == NULL) {
        return;
    }
    gh_assert(ask->waits == NULL && ask->deferred == NULL);
    call_free(ask->call);
    execution_input_free(ask->input);
    place_unref(ask->place);
    judged_fini(&ask->judged);
    settlement_fini(&ask->settlement);
    answer_fini(&ask->answer);
    free(ask->fixed);
    free(ask->answer_final);
    free(ask->texts);
    free(ask);
}

/* Asks of other principals do not exist for an agent. */
struct ask *ask_find_locked(struct core *core, const struct auth_token *who, const char *id)
{
    struct ask *ask = gh_map_find(&core->by_approval, id);
    if (ask == NULL || (who->role == AUTH_AGENT && strcmp(who->name, ask->owner) != 0)) {
        return NULL;
    }
    return ask;
}

/* ---- lists ---- */

void ask_link_pending_locked(struct core *core, struct ask *ask)
{
    ask->prev = core->pending_last;
    ask->next = NULL;
    if (core->pending_last != NULL) {
        core->pending_last->next = ask;
    } else {
        core->pending_first = ask;
    }
    core->pending_last = ask;
}

static void unlink_pending_locked(struct core *core, struct ask *ask)
{
    if (ask->prev != NULL) {
        ask->prev->next = ask->next;
    } else {
        core->pending_first = ask->next;
    }
    if (ask->next != NULL) {
        ask->next->prev = ask->prev;
    } else {
        core->pending_last = ask->prev;
    }
    ask->prev = ask->next = NULL;
}

/* Older settled asks are answered from the store. */
static void forget_oldest_locked(struct core *core)
{
    while (core->n_settled > 1 &&
           (core->n_settled > MAX_SETTLED || core->settled_bytes > MAX_SETTLED_BYTES)) {
        struct ask *ask = core->settled_first;
        if (ask->waits != NULL || ask->deferred != NULL) {
            return;
        }
        core->settled_first = ask->next;
        core->n_settled--;
        core->settled_bytes -= ask->bytes;
        gh_map_remove(&core->by_approval, ask->id);
        gh_map_remove(&core->by_decision, ask->decision);
        ask_free(ask);
    }
}

void ask_to_settled_locked(struct core *core, struct ask *ask)
{
    unlink_pending_locked(core, ask);
    clock_clear_locked(core, &ask->due_expire);
    clock_clear_locked(core, &ask->due_ticket);
    clock_clear_locked(core, &ask->due_back);
    clock_clear_locked(core, &ask->due_retry);
    core->n_pending--;
    ask->session->n_pending--;
    ask->session = NULL;
    if (core->settled_last != NULL) {
        core->settled_last->next = ask;
    } else {
        core->settled_first = ask;
    }
    core->settled_last = ask;
    core->n_settled++;
    core->settled_bytes += ask->bytes;
    forget_oldest_locked(core);
}

/* ---- changes ---- */

void ask_event_locked(struct core *core, const struct ask *ask, const char *type)
{
    struct gh_buf data = GH_BUF_INIT;
    struct gh_jw w = {&data, false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "id", ask->id);
    gh_jw_str(&w, "decision", ask->decision);
    gh_jw_str(&w, "session", ask->session_id);
    gh_jw_str(&w, "state", ask_state_name(ask->state));
    if (ask->state == ASK_PENDING) {
        gh_jw_int(&w, "remaining_ms", ask->expires_at_ms - gh_clock_boot_ms());
    } else {
        gh_jw_str(&w, "by", gate_by_name(ask->settlement.answer.by));
        gh_jw_str(&w, "code", gate_reason_code(ask->settlement.answer.reason));
        gh_jw_str(&w, "settled_by",
                  ask->settlement.settled_by[0] != '\0' ? ask->settlement.settled_by : NULL);
        gh_jw_str(&w, "via", ask->settlement.via[0] != '\0' ? ask->settlement.via : NULL);
    }
    gh_jw_end(&w);
    const struct session *session = gh_map_find(&core->sessions, ask->session_id);
    event_emit_locked(core, type, session, ask->owner, &data);
}

void ask_changed_locked(struct core *core, struct ask *ask)
{
    ask->revision++;
    core->revision++;
    struct session *session = gh_map_find(&core->sessions, ask->session_id);
    if (session != NULL) {
        session->revision++;
    }
    waits_wake_locked(core, &ask->waits);
    waits_wake_locked(core, &core->list_waits);
}

/* ---- time ---- */

static bool is_due(int64_t at_ms)
{
    return at_ms > 0 && at_ms <= gh_clock_boot_ms();
}

/* In order: its own end, what a person or the system wanted, the caller's limits, the gate. */
void ask_look_again_locked(struct core *core, struct ask *ask)
{
    if (ask->state != ASK_PENDING || ask->is_settling) {
        return; /* an answer is on its way; its end looks again */
    }
    if (ask->place != ask->session->place) {
        ask_regather_locked(core, ask); /* a reload came in between */
    }
    if (ask->is_settling) {
        return;
    }
    if (ask->is_over) {
        settle_timeout_locked(core, ask);
    } else if (ask->is_unwanted) {
        settle_system_locked(core, ask, ask->unwanted_tier, ask->unwanted_reason);
    } else if (!ask->session->is_active) {
        settle_system_locked(core, ask, GATE_TIER_ASK, GATE_R_CANCELLED);
    } else if (!ask->is_answered && is_due(ask->ticket_at_ms)) {
        settle_ticket_locked(core, ask);
    } else if (ask->is_gone && !ask->is_answered && ask->n_holders == 0 &&
               is_due(ask->back_at_ms)) {
        settle_system_locked(core, ask, GATE_TIER_ASK, GATE_R_AGENT_GONE);
    } else {
        judge_locked(ask->session, ask->call, &ask->judged, false);
        if (ask->judged.total.decision == GATE_DENY) {
            settle_system_locked(core, ask, ask->judged.total.tier, ask->judged.total.reason);
        }
    }
}

void ask_due_locked(struct core *core, struct ask *ask, enum ask_due kind)
{
    if (kind == ASK_DUE_EXPIRE && ask->state == ASK_PENDING) {
        ask->is_over = true;
    }
    ask_look_again_locked(core, ask);
}

void ask_regather_locked(struct core *core, struct ask *ask)
{
    struct gh_err err;
    struct judged judged;
    struct place *place = place_ref(ask->session->place);
    place_unref(ask->place);
    ask->place = place;
    if (judge_gather(place, ask->call, &judged, &err) == GH_OK) {
        judged_fini(&ask->judged);
        ask->judged = judged;
    } else {
        settle_system_locked(core, ask, GATE_TIER_DENY_LIST, GATE_R_DENY_PATH);
    }
}

/* A held caller broke off: it has a while to come back. */
void ask_hold_back_locked(struct core *core, struct ask *ask)
{
    if (ask->state != ASK_PENDING || ask->n_holders > 0 || ask->is_detached || ask->is_answered) {
        return;
    }
    ask->is_gone = true;
    ask->back_at_ms = gh_clock_boot_ms() + COME_BACK_MS;
    clock_set_locked(core, &ask->due_back, ask->back_at_ms);
    ask_changed_locked(core, ask);
    ask_event_locked(core, ask, "approval.updated");
}

/* Any request of the asker on its decision or approval: it is still there. */
void ask_touch_locked(struct core *core, struct ask *ask, const struct auth_token *who)
{
    if (ask->state != ASK_PENDING || strcmp(who->name, ask->owner) != 0) {
        return;
    }
    clock_clear_locked(core, &ask->due_back);
    ask->back_at_ms = 0;
    if (ask->is_gone && !ask->is_answered) {
        ask->is_gone = false;
        ask_changed_locked(core, ask);
        ask_event_locked(core, ask, "approval.updated");
    }
}

/* ---- what changed around it ---- */

/* Cancel what the gate would refuse now. */
void ask_sweep_locked(struct core *core, struct session *session)
{
    struct ask *next = NULL;
    for (struct ask *ask = core->pending_first; ask != NULL; ask = next) {
        next = ask->next;
        if (ask->session != session || ask->is_settling) {
            continue;
        }
        judge_locked(session, ask->call, &ask->judged, false);
        if (ask->judged.total.decision == GATE_DENY) {
            settle_system_locked(core, ask, ask->judged.total.tier, ask->judged.total.reason);
        }
    }
}

void ask_cancel_all_locked(struct core *core, struct session *session, enum gate_reason reason)
{
    struct ask *next = NULL;
    for (struct ask *ask = core->pending_first; ask != NULL; ask = next) {
        next = ask->next;
        if (ask->session == session) {
            settle_system_locked(core, ask, GATE_TIER_ASK, reason);
        }
    }
}

/* ---- rendering ---- */

static const char *caller_of(const struct ask *ask, bool is_settled)
{
    if (ask->is_gone || (ask->is_answered && ask->state == ASK_PENDING)) {
        return "gone";
    }
    return ask->n_holders > 0 && !is_settled ? "waiting" : "polling";
}

static void settlement_json(const struct ask *ask, const struct settlement *as, struct gh_jw *w)
{
    bool is_settled = as != NULL;
    gh_jw_time(w, "settled_at", is_settled ? ask->settled_ms : -1);
    gh_jw_str(w, "settled_by", is_settled && as->settled_by[0] != '\0' ? as->settled_by : NULL);
    gh_jw_str(w, "via", is_settled && as->via[0] != '\0' ? as->via : NULL);
    gh_jw_str(w, "by", is_settled ? gate_by_name(as->answer.by) : NULL);
    gh_jw_str(w, "code", is_settled ? gate_reason_code(as->answer.reason) : NULL);
    gh_jw_str(w, "reason", is_settled ? as->answer.text : NULL);
    gh_jw_str(w, "feedback", is_settled ? as->feedback : NULL);
}

/* Two clocks read one after the other differ by a millisecond now and then: what is shown must not
 * change without a cause. A wall clock that was set is one. */
static int64_t wall_end(const struct ask *ask)
{
    int64_t ahead_ms = gh_clock_wall_ms() - gh_clock_boot_ms();
    bool is_set = llabs((long long)(ahead_ms - ask->ahead_ms)) > CLOCKS_APART_MS;
    return ask->expires_at_ms + (is_set ? ahead_ms : ask->ahead_ms);
}

void ask_json_locked(const struct core *core, const struct ask *ask, const struct settlement *as,
                     struct gh_buf *out)
{
    const struct session *session = gh_map_find(&core->sessions, ask->session_id);
    struct gh_jw w = {out, false};
    int64_t left_ms = as != NULL ? 0 : ask->expires_at_ms - gh_clock_boot_ms();
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "id", ask->id);
    gh_jw_str(&w, "decision", ask->decision);
    gh_jw_str(&w, "session", ask->session_id);
    gh_jw_str(&w, "agent", session != NULL ? session->agent : "");
    gh_jw_str(&w, "title", session != NULL ? session->title : NULL);
    gh_jw_str(&w, "working_dir", session != NULL ? session->place->working_dir : NULL);
    gh_jw_str(&w, "asked_by", ask->owner);
    gh_jw_str(&w, "state", ask_state_name(as != NULL ? as->state : ASK_PENDING));
    gh_jw_str(&w, "caller", caller_of(ask, as != NULL));
    gh_buf_printf(out, ",%s", ask->fixed);
    gh_jw_time(&w, "created_at", ask->created_ms);
    gh_jw_time(&w, "expires_at", wall_end(ask));
    gh_jw_int(&w, "remaining_ms", left_ms > 0 ? left_ms : 0);
    gh_jw_bool(&w, "extendable", as == NULL && ask->expires_at_ms < ask->limit_at_ms);
    settlement_json(ask, as, &w);
    gh_jw_end(&w);
}

void ask_decision_json(const struct ask *ask, struct gh_buf *out)
{
    if (ask->answer_final != NULL) {
        gh_buf_puts(out, ask->answer_final);
        return;
    }
    const struct answer_view view = {ask->decision, ask->session_id, NULL, &ask->judged, ask->call,
                                     ask->id,       ask->created_ms, -1};
    answer_json(&view, out);
}

/* 200 with the verdict, or 202 while it waits. */
void ask_reply_decision(const struct ask *ask, struct http_exchange *x)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    ask_decision_json(ask, &body);
    if (ask->is_answered) {
        reply_json(x, 200, &body);
        return;
    }
    char location[GH_ID + 32];
    snprintf(location, sizeof location, "/v1/approvals/%s", ask->id);
    const struct http_header headers[] = {{"Location", location}, {"Retry-After", "1"}};
    http_reply(x, 202, &body, headers, 2);
}
