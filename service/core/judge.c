#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"
#include "gate/walk.h"

static void part_fini(struct judged_part *part)
{
    gate_facts_fini(&part->facts);
    gh_buf_fini(&part->target);
    gh_buf_fini(&part->key);
}

void judged_fini(struct judged *judged)
{
    for (size_t i = 0; i < judged->n; i++) {
        part_fini(&judged->parts[i]);
    }
    free(judged->parts);
    *judged = (struct judged){0};
}

/* Name the field of the request, not of the target object. */
static enum gh_code place_error(enum gh_code code, const struct call *call, size_t i,
                                struct gh_err *err)
{
    char pointer[160];
    if (call->n_parts == 1) {
        snprintf(pointer, sizeof pointer, "/target%.140s", err->pointer);
    } else {
        snprintf(pointer, sizeof pointer, "/parts/%zu/target%.120s", i, err->pointer);
    }
    snprintf(err->pointer, sizeof err->pointer, "%s", pointer);
    return code;
}

static enum gh_code gather_part(const struct gate_place *where, const struct call *call, size_t i,
                                struct judged_part *ret, struct gh_err *err)
{
    const struct call_part *part = &call->parts[i];
    enum gh_code code = gate_facts_gather(where, part->action, &part->target, &ret->facts, err);
    if (code != GH_OK) {
        return place_error(code, call, i, err);
    }
    gate_facts_target_json(&ret->facts, &part->target, &ret->target);
    gate_facts_key(&ret->facts, part->action, &part->target, call->tool,
                   call->env_json != NULL ? call->env_json : "", &ret->key);
    if (ret->target.failed || ret->key.failed) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the call.");
    }
    if (ret->facts.kernel.is_gate_config) {
        snprintf(ret->warning, sizeof ret->warning, "gate_configuration");
    } else if (ret->facts.kernel.runs_later) {
        snprintf(ret->warning, sizeof ret->warning, "runs_code_later");
    } else if (call->is_interactive) {
        snprintf(ret->warning, sizeof ret->warning, "interactive");
    }
    return GH_OK;
}

/* Only changes can touch git's own files. */
static bool changes_files(const struct call *call)
{
    for (size_t i = 0; i < call->n_parts; i++) {
        enum gate_action action = call->parts[i].action;
        if (action == GATE_WRITE || action == GATE_DELETE || action == GATE_MOVE) {
            return true;
        }
    }
    return false;
}

enum gh_code judge_gather(const struct place *place, const struct call *call, struct judged *ret,
                          struct gh_err *err)
{
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs fresh = {0};
    const struct gitmeta_dirs *git = changes_files(call) ? place_git(place, &fresh) : &place->git;
    size_t budget = GATE_WALK_ENTRIES; /* one for all parts of the call */
    const struct gate_place where = {place->rules, git, place->working_dir, place->home, &budget};
    struct judged judged = {.parts = calloc(call->n_parts, sizeof(struct judged_part))};
    if (judged.parts == NULL || git == NULL) {
        free(judged.parts);
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the call.");
    }
    for (; judged.n < call->n_parts; judged.n++) {
        enum gh_code code = gather_part(&where, call, judged.n, &judged.parts[judged.n], err);
        if (code != GH_OK) {
            judged_fini(&judged);
            return code;
        }
    }
    *ret = judged;
    return GH_OK;
}

enum gh_code judge_blank(const struct call *call, struct judged *ret, struct gh_err *err)
{
    struct judged judged = {.parts = calloc(call->n_parts, sizeof(struct judged_part))};
    const struct json_t *parts = gh_json_get(call->body, "parts");
    if (judged.parts == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the call.");
    }
    for (; judged.n < call->n_parts; judged.n++) {
        const struct json_t *from = parts != NULL ? gh_json_at(parts, judged.n) : call->body;
        gh_json_canonical(gh_json_get(from, "target"), &judged.parts[judged.n].target);
    }
    *ret = judged;
    return GH_OK;
}

static void fill_case(const struct session *session, const struct call *call, bool is_known,
                      bool has_ticket, const struct grant *grant, struct gate_case *facts)
{
    facts->mode = session->is_active ? session->mode : GATE_PLAN;
    facts->is_plan_call = call->is_plan_call;
    facts->is_tainted = session->is_tainted;
    facts->is_known_tool = is_known;
    facts->is_cached = grant != NULL;
    facts->is_seeded = grant != NULL && grant->is_seed;
    facts->has_ticket = has_ticket;
}

void judge_locked(const struct session *session, const struct call *call, struct judged *judged,
                  bool has_ticket)
{
    struct tool tool;
    bool is_known = tool_find(session, call->tool, &tool);
    for (size_t i = 0; i < judged->n; i++) {
        struct judged_part *part = &judged->parts[i];
        const struct grant *grant = call->is_never_cached ? NULL : grant_find(session, &part->key);
        fill_case(session, call, is_known, has_ticket, grant, &part->facts.kernel);
        fill_case(session, call, is_known, has_ticket, grant, &part->facts.lexical);
        struct gate_verdict kernel = gate_decide(&part->facts.kernel);
        struct gate_verdict lexical = gate_decide(&part->facts.lexical);
        part->verdict = *gate_stricter(&kernel, &lexical);
        part->verdict.may_remember =
            kernel.may_remember && lexical.may_remember && !call->is_never_cached;
        judged->uses_ticket = (i > 0 && judged->uses_ticket) || part->verdict.uses_ticket;
        if (i == 0 || gate_stricter(&judged->total, &part->verdict) == &part->verdict) {
            judged->total = part->verdict;
            judged->decider = i;
        }
    }
    /* An allow that rests on a one-shot grant is told, recorded and used up as that. */
    for (size_t i = 0; judged->uses_ticket && i < judged->n; i++) {
        if (judged->total.decision >= GATE_ALLOW && judged->parts[i].verdict.uses_ticket) {
            judged->total = judged->parts[i].verdict;
            judged->decider = i;
        }
    }
    judged->uses_ticket = judged->uses_ticket && judged->total.uses_ticket;
}

/* What %s in the reason's text stands for. */
static const char *detail_of(const struct session *session, const struct judged *judged)
{
    const struct judged_part *part = &judged->parts[judged->decider];
    switch (judged->total.reason) {
    case GATE_R_DENY_PATH:
        return part->facts.deny_entry != NULL ? part->facts.deny_entry : "a built-in entry";
    case GATE_R_TAINTED:
        return session->is_tainted ? session->taint.source : "";
    case GATE_R_AUTONOMOUS_BOUNDARY:
        return session->place->working_dir;
    case GATE_R_AUTONOMOUS_REFUSED:
        return gate_action_name(part->facts.kernel.action);
    case GATE_R_OPERAND_CHANGED:
        return "a file or link that the call names";
    default:
        return "";
    }
}

void judge_reason(const struct session *session, const struct judged *judged, char *out,
                  size_t size)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gate_reason_put(judged->total.reason, detail_of(session, judged), &text);
    snprintf(out, size, "%s", gh_buf_str(&text));
}
