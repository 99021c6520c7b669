#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

/* An approval as a document: {"approval": what clients see, "keep": what a restart needs}. */

static void keep_json(const struct core *core, const struct ask *ask, struct gh_jw *w)
{
    gh_auto(gh_buf_fini) struct gh_buf request = GH_BUF_INIT;
    gh_json_canonical(ask->call->body, &request);
    gh_jw_obj(w, "keep");
    gh_jw_str(w, "boot_id", core->boot_id);
    gh_jw_str(w, "owner", ask->owner);
    gh_jw_raw(w, "request", gh_buf_str(&request));
    gh_buf_printf(w->buf, ",\"fixed\":{%s}", ask->fixed);
    gh_jw_bool(w, "may_remember", ask->may_remember);
    gh_jw_int(w, "expires_at_ms", ask->expires_at_ms);
    gh_jw_int(w, "ticket_at_ms", ask->ticket_at_ms);
    gh_jw_int(w, "limit_at_ms", ask->limit_at_ms);
    gh_jw_end(w);
}

void ask_doc_locked(struct store_txn *txn, const struct core *core, const struct ask *ask,
                    const struct settlement *as, const char *final)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf approval = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    ask_json_locked(core, ask, as, &approval);
    gh_jw_obj(&w, NULL);
    gh_jw_raw(&w, "approval", gh_buf_str(&approval));
    gh_jw_raw(&w, "final",
              final != NULL               ? final
              : ask->answer_final != NULL ? ask->answer_final
                                          : "null");
    gh_jw_raw(&w, "texts", ask->texts);
    if (as == NULL) {
        keep_json(core, ask, &w);
    }
    gh_jw_end(&w);
    const struct store_doc doc = {STORE_APPROVAL,
                                  ask->id,
                                  ask->session_id,
                                  ask->decision,
                                  ask_state_name(as != NULL ? as->state : ASK_PENDING),
                                  ask->created_ms,
                                  gh_buf_str(&body)};
    store_txn_put(txn, &doc);
}

/* {"a":1} as the members between the braces. */
static char *members_of(const struct json_t *obj)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_json_canonical(obj, &text);
    if (text.failed || text.len < 2) {
        return NULL;
    }
    return strndup(text.data + 1, text.len - 2);
}

static char *text_of(const struct json_t *obj)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_json_canonical(obj, &text);
    return gh_buf_take(&text);
}

static const char *string_in(const struct json_t *obj, const char *key)
{
    const char *text = gh_json_text(gh_json_get(obj, key));
    return text != NULL ? text : "";
}

static enum gh_code load_keep(struct ask *ask, const struct json_t *keep, struct gh_err *err)
{
    const struct json_t *fixed = gh_json_get(keep, "fixed");
    gh_auto(gh_buf_fini) struct gh_buf request = GH_BUF_INIT;
    gh_json_canonical(gh_json_get(keep, "request"), &request);
    GH_TRY(call_parse_own(gh_buf_str(&request), request.len, &ask->call, err));
    ask->fixed = members_of(fixed);
    ask->may_remember = gh_json_true(gh_json_get(keep, "may_remember"));
    ask->is_detached = ask->call->is_detached;
    ask->wants_ticket = ask->call->wants_ticket;
    ask->expires_at_ms = gh_json_number(gh_json_get(keep, "expires_at_ms"), 0);
    ask->ahead_ms = gh_clock_wall_ms() - gh_clock_boot_ms();
    ask->ticket_at_ms = gh_json_number(gh_json_get(keep, "ticket_at_ms"), 0);
    ask->limit_at_ms = gh_json_number(gh_json_get(keep, "limit_at_ms"), 0);
    snprintf(ask->owner, sizeof ask->owner, "%s", string_in(keep, "owner"));
    snprintf(ask->digest, sizeof ask->digest, "%s", string_in(fixed, "digest"));
    if (ask->fixed == NULL || ask->texts == NULL) {
        return gh_fail(err, GH_INTERNAL, "A stored approval cannot be read.");
    }
    return GH_OK;
}

static void load_final(struct ask *ask, const struct json_t *final)
{
    if (gh_json_len(final) == 0) {
        return;
    }
    ask->answer_final = text_of(final);
    ask->is_answered = ask->answer_final != NULL;
}

/* Tie the loaded ask to its session and timers; it is pending again. */
static enum gh_code revive(struct core *core, struct ask *ask, struct session *session,
                           struct gh_err *err)
{
    ask->is_unwanted = judge_gather(session->place, ask->call, &ask->judged, err) != GH_OK;
    if (ask->is_unwanted) { /* it cannot be looked at any more; it still has to end properly */
        ask->unwanted_tier = GATE_TIER_ASK;
        ask->unwanted_reason = GATE_R_RESTART;
        GH_TRY(judge_blank(ask->call, &ask->judged, err));
    }
    judge_locked(session, ask->call, &ask->judged, false);
    ask->session = session;
    ask->place = place_ref(session->place);
    ask->epoch = session->epoch;
    ask->bytes = sizeof *ask + strlen(ask->fixed) + 2 * strlen(ask->texts);
    ask->is_born = true;
    ask->settled_ms = -1;
    ask->due_expire = (struct gh_due){.owner = ask, .kind = ASK_DUE_EXPIRE};
    ask->due_ticket = (struct gh_due){.owner = ask, .kind = ASK_DUE_TICKET};
    ask->due_back = (struct gh_due){.owner = ask, .kind = ASK_DUE_BACK};
    ask->due_retry = (struct gh_due){.owner = ask, .kind = ASK_DUE_RETRY};
    if (!gh_map_put(&core->by_approval, ask->id, ask)) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for an approval.");
    }
    if (!gh_map_put(&core->by_decision, ask->decision, ask)) {
        gh_map_remove(&core->by_approval, ask->id);
        return gh_fail(err, GH_NOMEM, "There is not enough memory for an approval.");
    }
    ask_link_pending_locked(core, ask);
    core->n_pending++;
    session->n_pending++;
    core->revision++;
    return GH_OK;
}

/* Kept only on the same boot with time left; judged again; everything else is cancelled. */
static void judge_again(struct core *core, struct ask *ask, bool is_same_boot)
{
    int64_t now_ms = gh_clock_boot_ms();
    if (!is_same_boot || ask->is_unwanted || ask->expires_at_ms <= now_ms) {
        settle_system_locked(core, ask, GATE_TIER_ASK, GATE_R_RESTART);
        return;
    }
    if (ask->judged.total.decision == GATE_DENY) {
        settle_system_locked(core, ask, ask->judged.total.tier, ask->judged.total.reason);
        return;
    }
    clock_set_locked(core, &ask->due_expire, ask->expires_at_ms);
    if (ask->ticket_at_ms > 0 && !ask->is_answered) {
        clock_set_locked(core, &ask->due_ticket, ask->ticket_at_ms);
    }
}

enum gh_code ask_load(struct core *core, const struct store_row *row)
{
    struct gh_err err;
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    struct session *session = gh_map_find(&core->sessions, row->session);
    GH_TRY(gh_json_parse(row->body, strlen(row->body), &body, &err));
    struct ask *ask = calloc(1, sizeof *ask);
    if (session == NULL || ask == NULL) {
        free(ask);
        return session == NULL ? GH_OK : GH_NOMEM;
    }
    snprintf(ask->id, sizeof ask->id, "%s", row->id);
    snprintf(ask->decision, sizeof ask->decision, "%s", row->ref);
    snprintf(ask->session_id, sizeof ask->session_id, "%s", row->session);
    ask->created_ms = row->created_ms;
    const struct json_t *keep = gh_json_get(body, "keep");
    load_final(ask, gh_json_get(body, "final"));
    ask->texts = text_of(gh_json_get(body, "texts"));
    enum gh_code code = load_keep(ask, keep, &err);
    if (code == GH_OK) {
        code = revive(core, ask, session, &err);
    }
    if (code != GH_OK) {
        ask_free(ask);
        return code;
    }
    judge_again(core, ask, strcmp(string_in(keep, "boot_id"), core->boot_id) == 0);
    return GH_OK;
}
