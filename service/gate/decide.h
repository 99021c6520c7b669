/* decide: the eight tiers as one pure, total function. Anything it does not know is denied.
 *
 * It does no I/O and cannot fail. What it needs to know of the world is gathered before, by
 * facts.h. Source: behaviour.md 1.4-1.8, decisions.md "Gate". Threads: any.
 */
#ifndef GH_GATE_DECIDE_H
#define GH_GATE_DECIDE_H

#include <stdbool.h>

#include "gate/kinds.h"

/* All that a decision depends on. Zeroed, it is denied. */
struct gate_case {
    enum gate_action action;
    enum gate_form form;
    enum gate_mode mode;  /* the session's */
    bool is_plan_call;    /* this call is judged as in plan mode */
    bool is_tainted;      /* the session read text that tries to steer it */
    bool is_known_tool;   /* registered; an unknown tool gets nothing by itself */
    bool is_denied;       /* under a deny entry, in any reading of the path */
    bool is_git_metadata; /* .git in any spelling, the real git dirs, hooks folder, global config */
    bool is_gate_config;  /* an agent's own settings or hook files, or ours */
    bool is_inside;  /* every end lies at or below the working directory, by its only name; what
                        is deleted or moved, below it */
    bool runs_later; /* a file that runs code later: never cached */
    bool is_cached;  /* an always-allow grant matches exactly */
    bool is_seeded;  /* ... and it came from allowed_commands */
    bool has_ticket; /* a one-shot grant matches exactly */
};

struct gate_verdict {
    enum gate_decision decision;
    enum gate_tier tier; /* the tier that decided */
    enum gate_by by;
    enum gate_reason reason;
    bool may_remember; /* "allow always" may be offered and stored */
    bool uses_ticket;  /* allowed by the one-shot grant */
};

/* One step of the walk, for `explain`. */
struct gate_step {
    enum gate_tier tier;
    bool is_matched;    /* this tier decided */
    const char *detail; /* static sentence */
};

/* The verdict. Total. */
struct gate_verdict gate_decide(const struct gate_case *facts);

/* The same, recording each tier up to the deciding one. Returns how many steps were written. */
int gate_explain(const struct gate_case *facts, struct gate_step steps[GATE_N_TIERS],
                 struct gate_verdict *ret);

/* The stricter of two verdicts (deny > ask once only > ask > allow, either kind); `a` when equal.
 * An ask that may not be remembered counts as stricter, so that folding keeps the smaller offer. */
const struct gate_verdict *gate_stricter(const struct gate_verdict *a,
                                         const struct gate_verdict *b);

#endif
