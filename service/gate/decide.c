#include "gate/decide.h"

#include <stddef.h>

/* How autonomous mode treats an action, by action and form (behaviour 1.7): what is not listed
 * here, or comes with a form that does not fit, is refused. */
enum alone {
    ALONE_REFUSED = 0, /* needs a person */
    ALONE_BOUNDED,     /* inside the working directory only */
    ALONE_FREE,        /* allowed while nothing suspicious was read */
    ALONE_EXACT,       /* pre-approved commands only */
};

static const enum alone alone_rules[GATE_N_ACTIONS] = {
    [GATE_WRITE] = ALONE_BOUNDED, [GATE_DELETE] = ALONE_BOUNDED, [GATE_MOVE] = ALONE_BOUNDED,
    [GATE_NETWORK] = ALONE_FREE,  [GATE_EXECUTE] = ALONE_EXACT,
};

static bool is_sane(const struct gate_case *facts)
{
    return facts->action > GATE_ACTION_NONE && (unsigned)facts->action < GATE_N_ACTIONS &&
           facts->form > GATE_FORM_NONE && (unsigned)facts->form < GATE_N_FORMS &&
           (unsigned)facts->mode < GATE_N_MODES;
}

static bool is_plan(const struct gate_case *facts)
{
    return facts->mode == GATE_PLAN || facts->is_plan_call;
}

static bool is_change(const struct gate_case *facts)
{
    return facts->action == GATE_WRITE || facts->action == GATE_DELETE ||
           facts->action == GATE_MOVE;
}

static bool is_path_change(const struct gate_case *facts)
{
    return is_change(facts) && (facts->form == GATE_PATH || facts->form == GATE_MOVE_PATHS);
}

/* Memory has one constant target text: a key would bless every later rewrite. */
static bool may_cache(const struct gate_case *facts)
{
    if (facts->action == GATE_MEMORY) {
        return false;
    }
    return !(is_change(facts) && (facts->is_gate_config || facts->runs_later));
}

static void settle(struct gate_verdict *ret, enum gate_decision decision, enum gate_by by,
                   enum gate_reason reason)
{
    ret->decision = decision;
    ret->by = by;
    ret->reason = reason;
}

static void deny(struct gate_verdict *ret, enum gate_reason reason)
{
    settle(ret, GATE_DENY, GATE_BY_RULE, reason);
}

static void allow_granted(const struct gate_case *facts, struct gate_verdict *ret)
{
    settle(ret, GATE_ALLOW_ALWAYS, GATE_BY_GRANT,
           facts->is_seeded ? GATE_R_SEEDED : GATE_R_GRANTED);
}

static bool try_deny_list(const struct gate_case *facts, struct gate_verdict *ret)
{
    if (facts->is_denied) {
        deny(ret, GATE_R_DENY_PATH);
        return true;
    }
    if (!is_sane(facts)) {
        settle(ret, GATE_DENY, GATE_BY_SYSTEM, GATE_R_INTERNAL);
        return true;
    }
    return false;
}

static bool try_git_metadata(const struct gate_case *facts, struct gate_verdict *ret)
{
    if (facts->is_git_metadata && is_path_change(facts)) {
        deny(ret, GATE_R_GIT_METADATA);
        return true;
    }
    return false;
}

static bool try_auto_allow(const struct gate_case *facts, struct gate_verdict *ret)
{
    bool is_quiet = facts->action == GATE_READ || facts->action == GATE_INTERNAL;
    if (is_quiet && facts->is_known_tool && gate_form_fits(facts->action, facts->form)) {
        settle(ret, GATE_ALLOW, GATE_BY_RULE, GATE_R_AUTO);
        return true;
    }
    return false;
}

static bool try_plan_mode(const struct gate_case *facts, struct gate_verdict *ret)
{
    if (is_plan(facts)) {
        deny(ret, GATE_R_PLAN_MODE);
        return true;
    }
    return false;
}

/* Refused whatever the session has read, and so said first. */
static bool is_refused_alone(const struct gate_case *facts)
{
    enum alone rule = alone_rules[facts->action];
    if (rule == ALONE_REFUSED || !gate_form_fits(facts->action, facts->form)) {
        return true;
    }
    return rule == ALONE_FREE && !facts->is_known_tool;
}

static bool try_autonomous(const struct gate_case *facts, struct gate_verdict *ret)
{
    if (facts->mode != GATE_AUTONOMOUS) {
        return false;
    }
    enum alone rule = alone_rules[facts->action];
    if (is_refused_alone(facts)) {
        deny(ret, GATE_R_AUTONOMOUS_REFUSED);
    } else if (rule == ALONE_BOUNDED && facts->is_gate_config) {
        deny(ret, GATE_R_GATE_CONFIGURATION);
    } else if (facts->is_tainted) {
        deny(ret, GATE_R_TAINTED);
    } else if (rule == ALONE_BOUNDED && !facts->is_inside) {
        deny(ret, GATE_R_AUTONOMOUS_BOUNDARY);
    } else if (rule == ALONE_EXACT && !facts->is_cached) {
        deny(ret, GATE_R_NOT_PREAPPROVED);
    } else if (rule == ALONE_EXACT) {
        allow_granted(facts, ret);
    } else {
        settle(ret, GATE_ALLOW, GATE_BY_RULE, GATE_R_AUTO);
    }
    return true;
}

static bool try_network_interact(const struct gate_case *facts, struct gate_verdict *ret)
{
    bool is_line = facts->action == GATE_NETWORK || facts->action == GATE_INTERACT;
    if (is_line && facts->is_known_tool && gate_form_fits(facts->action, facts->form)) {
        settle(ret, GATE_ALLOW, GATE_BY_RULE, GATE_R_AUTO);
        return true;
    }
    return false;
}

static bool try_always_allow(const struct gate_case *facts, struct gate_verdict *ret)
{
    if (facts->is_cached && may_cache(facts) && gate_form_fits(facts->action, facts->form)) {
        allow_granted(facts, ret);
        return true;
    }
    return false;
}

static bool try_ask(const struct gate_case *facts, struct gate_verdict *ret)
{
    if (!gate_form_fits(facts->action, facts->form)) {
        settle(ret, GATE_DENY, GATE_BY_SYSTEM, GATE_R_INTERNAL);
    } else if (facts->has_ticket) {
        settle(ret, GATE_ALLOW, GATE_BY_GRANT, GATE_R_APPROVED);
        ret->uses_ticket = true;
    } else {
        settle(ret, GATE_ASK, GATE_BY_SYSTEM, GATE_R_ASKED);
        ret->may_remember = may_cache(facts);
    }
    return true;
}

struct tier {
    bool (*try)(const struct gate_case *facts, struct gate_verdict *ret);
    const char *missed;
    const char *matched;
};

/* The order is the policy: the first tier that decides wins (behaviour 1.4). Plan mode stands
 * before the grants on purpose: an approval given earlier must not work while planning. */
static const struct tier tiers[GATE_N_TIERS] = {
    [GATE_TIER_DENY_LIST] = {try_deny_list, "No deny entry covers the target.",
                             "A deny entry covers the target, or the call has no meaning."},
    [GATE_TIER_GIT_METADATA] = {try_git_metadata, "The target is not a change to git's own files.",
                                "The call would change git's own files."},
    [GATE_TIER_AUTO_ALLOW] = {try_auto_allow, "Not a read or internal call by a registered tool.",
                              "A read or internal call by a registered tool."},
    [GATE_TIER_PLAN_MODE] = {try_plan_mode, "Plan mode is off.", "Plan mode is on."},
    [GATE_TIER_AUTONOMOUS] = {try_autonomous, "Autonomous mode is off.",
                              "Autonomous mode decides by itself and asks nobody."},
    [GATE_TIER_NETWORK_INTERACT] = {try_network_interact,
                                    "Not a network or interact call by a registered tool.",
                                    "A network or interact call by a registered tool."},
    [GATE_TIER_ALWAYS_ALLOW] = {try_always_allow, "No standing grant may be used for this target.",
                                "A standing grant covers exactly this target."},
    [GATE_TIER_ASK] = {try_ask, "", "A person decides, now or by a one-time grant."},
};

int gate_explain(const struct gate_case *facts, struct gate_step steps[GATE_N_TIERS],
                 struct gate_verdict *ret)
{
    *ret = (struct gate_verdict){0};
    int n = 0;
    for (bool is_matched = false; n < GATE_N_TIERS && !is_matched; n++) {
        is_matched = tiers[n].try(facts, ret);
        ret->tier = (enum gate_tier)n;
        if (steps != NULL) {
            steps[n] = (struct gate_step){(enum gate_tier)n, is_matched,
                                          is_matched ? tiers[n].matched : tiers[n].missed};
        }
    }
    return n;
}

struct gate_verdict gate_decide(const struct gate_case *facts)
{
    struct gate_verdict verdict;
    gate_explain(facts, NULL, &verdict);
    return verdict;
}

static int looseness(const struct gate_verdict *verdict)
{
    if (verdict->decision == GATE_DENY) {
        return 0;
    }
    if (verdict->decision == GATE_ASK) {
        return verdict->may_remember ? 2 : 1;
    }
    return 3;
}

const struct gate_verdict *gate_stricter(const struct gate_verdict *a, const struct gate_verdict *b)
{
    return looseness(b) < looseness(a) ? b : a;
}
