/* fuzz_gate_decide: whatever the facts are, more reasons against a call never make it easier. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gate/decide.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds) {
        abort();
    }
}

static int ease(const struct gate_verdict *verdict)
{
    static const int eases[GATE_N_DECISIONS] = {
        [GATE_DENY] = 0, [GATE_ASK] = 1, [GATE_ALLOW] = 2, [GATE_ALLOW_ALWAYS] = 2};
    demand((unsigned)verdict->decision < GATE_N_DECISIONS);
    return eases[verdict->decision];
}

/* Judge `harder`, which differs from what gave `before` by a reason against the call. */
static void check_harder(const struct gate_verdict *before, const struct gate_case *harder)
{
    struct gate_verdict after = gate_decide(harder);
    demand(ease(&after) <= ease(before));
    demand(!after.may_remember || before->may_remember || after.decision != before->decision);
}

static void check_monotone(const struct gate_case *c, const struct gate_verdict *v)
{
    struct gate_case against[] = {*c, *c, *c, *c, *c, *c};
    against[0].is_denied = true;
    against[1].is_git_metadata = true;
    against[2].is_gate_config = true;
    against[3].runs_later = true;
    against[4].is_tainted = true;
    against[5].is_plan_call = true;
    for (size_t i = 0; i < sizeof against / sizeof *against; i++) {
        check_harder(v, &against[i]);
    }
    struct gate_case without[] = {*c, *c, *c, *c};
    without[0].is_cached = false;
    without[1].has_ticket = false;
    without[2].is_inside = false;
    without[3].is_known_tool = false;
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        check_harder(v, &without[i]);
    }
}

static void check_bounds(const struct gate_case *c, const struct gate_verdict *v)
{
    bool is_quiet = c->action == GATE_READ || c->action == GATE_INTERNAL;
    demand(!c->is_denied || v->decision == GATE_DENY);
    if (c->mode == GATE_PLAN || c->is_plan_call) {
        demand(v->decision == GATE_DENY || (is_quiet && v->decision == GATE_ALLOW));
    }
    if (c->mode == GATE_AUTONOMOUS) {
        demand(v->decision != GATE_ASK && !v->uses_ticket);
    }
    if (v->decision != GATE_DENY) {
        demand(gate_form_fits(c->action, c->form));
        demand((unsigned)c->mode < GATE_N_MODES);
    }
    demand(!v->may_remember || v->decision == GATE_ASK);
    demand(!v->uses_ticket || c->has_ticket);
    demand(v->decision != GATE_ALLOW_ALWAYS || c->is_cached);
    demand((unsigned)v->reason < GATE_N_REASONS && (unsigned)v->tier < GATE_N_TIERS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int32_t kinds[3] = {0};
    if (size < 5) {
        return 0;
    }
    for (size_t i = 0; i < 3; i++) { /* mostly near the real values, sometimes far off */
        kinds[i] = data[i] < 250 ? data[i] % 14 : (int32_t)((uint32_t)data[i] << 24 | data[3]);
    }
    unsigned flags = data[3] | (unsigned)data[4] << 8;
    struct gate_case c = {
        .action = (enum gate_action)kinds[0],
        .form = (enum gate_form)kinds[1],
        .mode = (enum gate_mode)kinds[2],
        .is_plan_call = flags & 1,
        .is_tainted = flags >> 1 & 1,
        .is_known_tool = flags >> 2 & 1,
        .is_denied = flags >> 3 & 1,
        .is_git_metadata = flags >> 4 & 1,
        .is_gate_config = flags >> 5 & 1,
        .is_inside = flags >> 6 & 1,
        .runs_later = flags >> 7 & 1,
        .is_cached = flags >> 8 & 1,
        .is_seeded = flags >> 9 & 1,
        .has_ticket = flags >> 10 & 1,
    };
    struct gate_verdict v = gate_decide(&c);
    struct gate_verdict told;
    struct gate_step steps[GATE_N_TIERS];
    demand(gate_explain(&c, steps, &told) == (int)v.tier + 1);
    demand(told.decision == v.decision && told.reason == v.reason);
    check_bounds(&c, &v);
    check_monotone(&c, &v);
    return 0;
}
