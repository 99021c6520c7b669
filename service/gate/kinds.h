/* kinds: the words of the gate, as enums with names. Every zero value is the closed one.
 *
 * Source of the words: the API contract, sections 3 to 6. Pure; threads: any.
 */
#ifndef GH_GATE_KINDS_H
#define GH_GATE_KINDS_H

#include <stdbool.h>

#include "base/buf.h"

enum gate_action {
    GATE_ACTION_NONE = 0, /* not an action: denied */
    GATE_READ,
    GATE_WRITE,
    GATE_EXECUTE,
    GATE_DELETE,
    GATE_MOVE,
    GATE_INTERNAL,
    GATE_NETWORK,
    GATE_INTERACT,
    GATE_MCP_TOOL,
    GATE_MEMORY,
    GATE_PERSISTENT_MEMORY,
    GATE_N_ACTIONS
};

enum gate_form {
    GATE_FORM_NONE = 0, /* not a target: denied */
    GATE_PATH,
    GATE_COMMAND,
    GATE_MOVE_PATHS,
    GATE_DESCRIPTION,
    GATE_N_FORMS
};

enum gate_mode { GATE_PLAN = 0, GATE_ACT, GATE_AUTONOMOUS, GATE_N_MODES };

enum gate_decision { GATE_DENY = 0, GATE_ASK, GATE_ALLOW, GATE_ALLOW_ALWAYS, GATE_N_DECISIONS };

enum gate_tier {
    GATE_TIER_DENY_LIST = 0,
    GATE_TIER_GIT_METADATA,
    GATE_TIER_AUTO_ALLOW,
    GATE_TIER_PLAN_MODE,
    GATE_TIER_AUTONOMOUS,
    GATE_TIER_NETWORK_INTERACT,
    GATE_TIER_ALWAYS_ALLOW,
    GATE_TIER_ASK,
    GATE_N_TIERS
};

enum gate_by {
    GATE_BY_SYSTEM = 0,
    GATE_BY_RULE,
    GATE_BY_GRANT,
    GATE_BY_PERSON,
    GATE_BY_TIMEOUT,
    GATE_N_BY
};

enum gate_reason {
    GATE_R_INTERNAL = 0,
    GATE_R_DENY_PATH,
    GATE_R_GIT_METADATA,
    GATE_R_GATE_CONFIGURATION,
    GATE_R_PLAN_MODE,
    GATE_R_AUTONOMOUS_BOUNDARY,
    GATE_R_AUTONOMOUS_REFUSED,
    GATE_R_NOT_PREAPPROVED,
    GATE_R_TAINTED,
    GATE_R_DENIED_BY_PERSON,
    GATE_R_EXPIRED,
    GATE_R_TICKET,
    GATE_R_TICKET_USED,
    GATE_R_CANCELLED,
    GATE_R_AGENT_GONE,
    GATE_R_RESTART,
    GATE_R_MODE_CHANGED,
    GATE_R_OPERAND_CHANGED,
    GATE_R_CHECKPOINT_FAILED,
    GATE_R_CHECKPOINT_RUNNING,
    GATE_R_TOO_MANY_PENDING,
    GATE_R_TOO_MANY_CALLS,
    GATE_R_SKIPPED,
    GATE_R_AUDIT_UNAVAILABLE,
    GATE_R_AUTO, /* the rest are reasons of an allow */
    GATE_R_SEEDED,
    GATE_R_GRANTED,
    GATE_R_APPROVED,
    GATE_R_ASKED, /* waiting; not yet a verdict */
    GATE_N_REASONS
};

/* Names as the API spells them. Static. */
const char *gate_action_name(enum gate_action action);
const char *gate_mode_name(enum gate_mode mode);
const char *gate_decision_name(enum gate_decision decision);
const char *gate_tier_name(enum gate_tier tier);
const char *gate_by_name(enum gate_by by);
const char *gate_reason_code(enum gate_reason reason);

/* The sentence for the model. Static; holds one %s exactly when gate_reason_takes_detail. Details:
 * deny_path the entry, autonomous_boundary the working directory, autonomous_refused the action's
 * name, tainted the source, operand_changed the file, checkpoint_failed why; the rest take none. */
const char *gate_reason_text(enum gate_reason reason);
bool gate_reason_takes_detail(enum gate_reason reason);

/* Append the sentence with `detail` (may be NULL) in its place. */
void gate_reason_put(enum gate_reason reason, const char *detail, struct gh_buf *out);

/* The enum of a name, or the zero value when it is none (for gate_mode_find: false). */
enum gate_action gate_action_find(const char *name);
bool gate_mode_find(const char *name, enum gate_mode *ret);

/* True when an action makes sense with a target form (contract 5; 422 otherwise). */
bool gate_form_fits(enum gate_action action, enum gate_form form);

#endif
