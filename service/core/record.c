#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

void meta_of(struct http_exchange *x, const struct auth_token *who, struct meta *ret)
{
    *ret = (struct meta){0};
    if (who != NULL) {
        snprintf(ret->principal_text, sizeof ret->principal_text, "%s (%s)", who->name, who->id);
    }
    ret->principal = ret->principal_text;
    if (x != NULL) {
        ret->peer = http_peer(x)->text;
        ret->agent = http_header(x, "User-Agent");
        ret->trace_id = http_trace_id(x);
    }
}

static const struct {
    const char *slug;
    const char *text;
} warnings[] = {
    {"gate_configuration",
     "This file steers a coding agent or its gate. Changing it can switch the gate off."},
    {"runs_code_later", "This file runs code later: at a login, with a shell, or as a service."},
    {"interactive",
     "More input can be sent to the command while it runs: what it will do is not all shown here."},
    {"hard_link",
     "The file has other names (hard links): the change reaches them too, and what it holds "
     "now is not shown."},
    {"two_readings",
     "The path leads through links: programs may reach another place by it than the one shown."},
    {"old_not_shown",
     "What the file holds now could not be read (too large, or no plain file); only the new "
     "text is shown."},
    {"old_differs", "The agent's idea of the present content is not what the file holds. What is "
                    "shown is the file."},
};

void warning_json(const char *slug, struct gh_jw *w, const char *key)
{
    for (size_t i = 0; i < sizeof warnings / sizeof warnings[0]; i++) {
        if (strcmp(warnings[i].slug, slug) == 0) {
            gh_jw_obj(w, key);
            gh_jw_str(w, "code", slug);
            gh_jw_str(w, "text", warnings[i].text);
            gh_jw_end(w);
            return;
        }
    }
    gh_jw_null(w, key);
}

/* The parts alone: what the gate says of each; once settled, what became of the whole. */
static void parts_json(const struct answer_view *view, struct gh_jw *w)
{
    gh_jw_arr(w, "parts");
    for (size_t i = 0; i < view->judged->n; i++) {
        const struct judged_part *part = &view->judged->parts[i];
        bool is_own = view->answer == NULL || view->judged->n > 1;
        gh_jw_obj(w, NULL);
        gh_jw_str(w, "action", gate_action_name(view->call->parts[i].action));
        gh_jw_raw(w, "target", gh_buf_str(&part->target));
        gh_jw_str(w, "decision",
                  gate_decision_name(is_own ? part->verdict.decision : view->answer->decision));
        gh_jw_str(w, "tier", gate_tier_name(is_own ? part->verdict.tier : view->answer->tier));
        gh_jw_str(w, "code",
                  gate_reason_code(is_own ? part->verdict.reason : view->answer->reason));
        gh_jw_end(w);
    }
    gh_jw_arr_end(w);
}

static void verdict_json(const struct answer *answer, struct gh_jw *w)
{
    if (answer == NULL) {
        gh_jw_str(w, "decision", "ask");
        gh_jw_str(w, "tier", gate_tier_name(GATE_TIER_ASK));
        gh_jw_null(w, "by");
        gh_jw_str(w, "reason", gate_reason_text(GATE_R_ASKED));
        gh_jw_null(w, "code");
        return;
    }
    gh_jw_str(w, "decision", gate_decision_name(answer->decision));
    gh_jw_str(w, "tier", gate_tier_name(answer->tier));
    gh_jw_str(w, "by", gate_by_name(answer->by));
    gh_jw_str(w, "reason", answer->text);
    gh_jw_str(w, "code", gate_reason_code(answer->reason));
}

void answer_json(const struct answer_view *view, struct gh_buf *out)
{
    const struct judged_part *decider = &view->judged->parts[view->judged->decider];
    struct gh_jw w = {out, false};
    gh_buf_room(out, 900); /* what most answers take */
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "id", view->id);
    gh_jw_str(&w, "session", view->session);
    verdict_json(view->answer, &w);
    gh_jw_raw(&w, "target", gh_buf_str(&decider->target));
    parts_json(view, &w);
    warning_json(decider->warning, &w, "warning");
    gh_jw_null(&w, "checkpoint"); /* their place is between the allow and this answer */
    gh_jw_str(&w, "approval", view->approval);
    gh_jw_time(&w, "created_at", view->created_ms);
    gh_jw_time(&w, "settled_at", view->settled_ms);
    gh_jw_end(&w);
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

void record_decision(struct store_txn *txn, const struct session *session,
                     const struct answer_view *view, const char *body, const struct meta *meta)
{
    const struct answer *answer = view->answer;
    for (size_t i = 0; i < view->judged->n; i++) {
        const struct judged_part *part = &view->judged->parts[i];
        gh_auto(gh_buf_fini) struct gh_buf own = GH_BUF_INIT;
        if (i > 0) {
            gh_buf_printf(&own, "{\"target\":%s,\"alone\":\"%s\"}", gh_buf_str(&part->target),
                          gate_decision_name(part->verdict.decision));
        }
        const struct store_audit row = {
            .kind = "decision",
            .at_ms = gh_clock_wall_ms(),
            .session = view->session,
            .ref = view->id,
            .part = (int)i,
            .tool = view->call->tool,
            .action = gate_action_name(view->call->parts[i].action),
            .decision = gate_decision_name(answer != NULL ? answer->decision : GATE_ASK),
            .by = answer != NULL ? gate_by_name(answer->by) : "",
            .code = answer != NULL ? gate_reason_code(answer->reason) : "asked",
            .mode = session != NULL
                        ? gate_mode_name(view->call->is_plan_call ? GATE_PLAN : session->mode)
                        : "",
            .principal = or_empty(meta->principal),
            .peer = or_empty(meta->peer),
            .agent = or_empty(meta->agent),
            .trace_id = or_empty(meta->trace_id),
            .body = i == 0 ? body : gh_buf_str(&own),
        };
        store_txn_audit(txn, &row);
    }
}

void record_note(struct store_txn *txn, const struct note *note, const struct meta *meta)
{
    static const struct meta nobody;
    const struct meta *from = meta != NULL ? meta : &nobody;
    const struct store_audit row = {
        .kind = note->kind,
        .at_ms = gh_clock_wall_ms(),
        .session = note->session,
        .ref = note->ref,
        .tool = "",
        .action = "",
        .decision = "",
        .by = "",
        .code = note->code,
        .mode = "",
        .principal = or_empty(from->principal),
        .peer = or_empty(from->peer),
        .agent = or_empty(from->agent),
        .trace_id = or_empty(from->trace_id),
        .body = note->body,
    };
    store_txn_audit(txn, &row);
}

static void not_waited_for(enum gh_code code, void *cookie)
{
    (void)code;
    (void)cookie;
}

static void note_now(struct core *core, const char *kind, const char *code, const struct meta *meta,
                     const char *body)
{
    struct store_txn *txn = store_txn_new();
    if (txn != NULL) {
        record_note(txn, &(struct note){kind, "", "", code, body}, meta);
        store_commit(core->options.store, &txn, not_waited_for, NULL);
    }
}

void core_audit_refusal(struct core *core, struct http_exchange *x, const struct gh_err *why)
{
    struct meta meta;
    meta_of(x, NULL, &meta);
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "method", http_method_name(x));
    gh_jw_str(&w, "path", http_path(x));
    gh_jw_end(&w);
    note_now(core, "auth", gh_code_slug(why->code), &meta, gh_buf_str(&body));
}

void core_audit_auth(struct core *core, struct http_exchange *x, const struct auth_token *who,
                     const char *what)
{
    struct meta meta;
    meta_of(x, who, &meta);
    note_now(core, "auth", what, &meta, "{}");
}

void reply_json(struct http_exchange *x, int status, struct gh_buf *body)
{
    if (body->failed) {
        struct gh_err err;
        gh_fail(&err, GH_NOMEM, "There is not enough memory for the answer.");
        http_problem(x, &err, NULL);
        return;
    }
    http_reply(x, status, body, NULL, 0);
}

void reply_audit_failed(struct http_exchange *x)
{
    struct gh_err err;
    gh_fail(&err, GH_AUDIT,
            "The record of this decision cannot be written, so the answer is deny. "
            "Run: gatehouse doctor");
    http_problem(
        x, &err,
        "\"decision\":\"deny\",\"reason\":\"The gate cannot record decisions just now and denies "
        "everything. A person has to look at the service; do not retry in a loop.\"");
}

void reply_not_found(struct http_exchange *x)
{
    struct gh_err err;
    gh_fail(&err, GH_NOT_FOUND, "There is no such thing, or it is not yours.");
    http_problem(x, &err, NULL);
}
