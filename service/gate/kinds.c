#include "gate/kinds.h"

#include <stddef.h>
#include <string.h>

static const char *const action_names[GATE_N_ACTIONS] = {
    [GATE_ACTION_NONE] = "none",  [GATE_READ] = "read",
    [GATE_WRITE] = "write",       [GATE_EXECUTE] = "execute",
    [GATE_DELETE] = "delete",     [GATE_MOVE] = "move",
    [GATE_INTERNAL] = "internal", [GATE_NETWORK] = "network",
    [GATE_INTERACT] = "interact", [GATE_MCP_TOOL] = "mcp_tool",
    [GATE_MEMORY] = "memory",     [GATE_PERSISTENT_MEMORY] = "persistent_memory",
};

static const char *const mode_names[GATE_N_MODES] = {
    [GATE_PLAN] = "plan",
    [GATE_ACT] = "act",
    [GATE_AUTONOMOUS] = "autonomous",
};

static const char *const decision_names[GATE_N_DECISIONS] = {
    [GATE_DENY] = "deny",
    [GATE_ASK] = "ask",
    [GATE_ALLOW] = "allow",
    [GATE_ALLOW_ALWAYS] = "allow_always",
};

static const char *const tier_names[GATE_N_TIERS] = {
    [GATE_TIER_DENY_LIST] = "deny_list",       [GATE_TIER_GIT_METADATA] = "git_metadata",
    [GATE_TIER_AUTO_ALLOW] = "auto_allow",     [GATE_TIER_PLAN_MODE] = "plan_mode",
    [GATE_TIER_AUTONOMOUS] = "autonomous",     [GATE_TIER_NETWORK_INTERACT] = "network_interact",
    [GATE_TIER_ALWAYS_ALLOW] = "always_allow", [GATE_TIER_ASK] = "ask",
};

static const char *const by_names[GATE_N_BY] = {
    [GATE_BY_SYSTEM] = "system", [GATE_BY_RULE] = "rule",       [GATE_BY_GRANT] = "grant",
    [GATE_BY_PERSON] = "person", [GATE_BY_TIMEOUT] = "timeout",
};

/* What the model reads. It should know what to do instead, so each refusal says so. */
struct reason {
    const char *code;
    const char *text; /* at most one %s, and only with takes_detail */
    bool takes_detail;
};

static const struct reason reasons[GATE_N_REASONS] = {
    [GATE_R_INTERNAL] = {"internal",
                         "Denied: the gate could not judge this call. Do not retry it unchanged; "
                         "tell the person.",
                         false},
    /* detail: the deny entry as written */
    [GATE_R_DENY_PATH] = {"deny_path",
                          "Denied: the target is under the deny entry \"%s\". This is a hard block "
                          "that nobody can approve here; go on without that file.",
                          true},
    [GATE_R_GIT_METADATA] = {"git_metadata",
                             "Denied: git's own files (.git, hooks, git configuration) are off "
                             "limits to direct changes. Use git commands instead.",
                             false},
    [GATE_R_GATE_CONFIGURATION] = {"gate_configuration",
                                   "Denied: this file configures an agent or its hooks, and only a "
                                   "person may change it. Leave it as it is and report what you "
                                   "wanted to change.",
                                   false},
    [GATE_R_PLAN_MODE] = {"plan_mode",
                          "Denied: plan mode is active, so no changes and no commands. Explore by "
                          "reading, write down the plan and wait for its approval.",
                          false},
    /* detail: the working directory */
    [GATE_R_AUTONOMOUS_BOUNDARY] = {"autonomous_boundary",
                                    "Denied: in autonomous mode changes are confined to the "
                                    "working directory %s. Choose a path inside it.",
                                    true},
    /* detail: the action's name */
    [GATE_R_AUTONOMOUS_REFUSED] = {"autonomous_refused",
                                   "Denied: \"%s\" by this tool needs a person, and in autonomous "
                                   "mode nobody is there to ask. Reach the goal another way.",
                                   true},
    [GATE_R_NOT_PREAPPROVED] =
        {"not_preapproved",
         "Denied: this exact command is not pre-approved and nobody is there "
         "to ask. A person can add it to permissions.allowed_commands.",
         false},
    /* detail: where the suspicious text came from */
    [GATE_R_TAINTED] = {"tainted",
                        "Denied: text read from %s in this session looks like an attempt to steer "
                        "you. The run pauses here until a person has reviewed it.",
                        true},
    [GATE_R_DENIED_BY_PERSON] =
        {"denied_by_person",
         "Denied: the person said no to this call. Do not retry it; ask what "
         "they would like instead.",
         false},
    [GATE_R_EXPIRED] =
        {"expired", "Denied: nobody answered in time. You may ask again when a person is there.",
         false},
    [GATE_R_TICKET] =
        {"ticket",
         "Denied for now: the approval is still waiting for a person. Go on with other "
         "work and repeat the identical call later.",
         false},
    [GATE_R_TICKET_USED] = {"ticket_used",
                            "Denied: the one-time approval for this call was already used. Ask "
                            "again if it is needed a second time.",
                            false},
    [GATE_R_CANCELLED] = {"cancelled", "Denied: the approval was cancelled before it was answered.",
                          false},
    [GATE_R_AGENT_GONE] = {"agent_gone",
                           "Denied: the caller went away before the approval was answered.", false},
    [GATE_R_RESTART] = {"restart",
                        "Denied: the service restarted while this was waiting. Ask again.", false},
    [GATE_R_MODE_CHANGED] =
        {"mode_changed",
         "Denied: the session's mode changed while this was waiting, and the new "
         "mode does not allow it.",
         false},
    /* detail: the file that changed */
    [GATE_R_OPERAND_CHANGED] =
        {"operand_changed",
         "Denied: %s changed after the person was shown the call. Ask again, "
         "so that they see what would happen now.",
         true},
    /* detail: why no snapshot could be made */
    [GATE_R_CHECKPOINT_FAILED] = {"checkpoint_failed",
                                  "Denied: the snapshot that must come first failed (%s). Nothing "
                                  "was changed; tell the person.",
                                  true},
    [GATE_R_CHECKPOINT_RUNNING] =
        {"checkpoint_running",
         "Denied for now: the snapshot that must come first is still being "
         "made. Ask again in a moment.",
         false},
    [GATE_R_TOO_MANY_PENDING] =
        {"too_many_pending",
         "Denied: too many calls are already waiting for a person. Wait for "
         "answers before you ask for more.",
         false},
    [GATE_R_TOO_MANY_CALLS] = {"too_many_calls",
                               "Denied: this response has more tool calls than are run. Send the "
                               "rest in your next response.",
                               false},
    [GATE_R_SKIPPED] = {"skipped",
                        "Denied: an earlier call of this response failed and its changes were "
                        "rolled back, so the rest is skipped. Look at the state again first.",
                        false},
    [GATE_R_AUDIT_UNAVAILABLE] =
        {"audit_unavailable",
         "Denied: decisions cannot be recorded at the moment, so nothing is "
         "allowed. Tell the person.",
         false},
    [GATE_R_AUTO] = {"auto", "Allowed by rule.", false},
    [GATE_R_SEEDED] = {"seeded", "Allowed: this exact command is in permissions.allowed_commands.",
                       false},
    [GATE_R_GRANTED] = {"granted", "Allowed: a person always allows exactly this.", false},
    [GATE_R_APPROVED] = {"approved", "Allowed: a person approved this call.", false},
    [GATE_R_ASKED] = {"asked", "Waiting for a person to answer.", false},
};

static const char *pick(const char *const names[], unsigned n, unsigned i)
{
    return i < n ? names[i] : "unknown";
}

const char *gate_action_name(enum gate_action action)
{
    return pick(action_names, GATE_N_ACTIONS, (unsigned)action);
}

const char *gate_mode_name(enum gate_mode mode)
{
    return pick(mode_names, GATE_N_MODES, (unsigned)mode);
}

const char *gate_decision_name(enum gate_decision decision)
{
    return pick(decision_names, GATE_N_DECISIONS, (unsigned)decision);
}

const char *gate_tier_name(enum gate_tier tier)
{
    return pick(tier_names, GATE_N_TIERS, (unsigned)tier);
}

const char *gate_by_name(enum gate_by by)
{
    return pick(by_names, GATE_N_BY, (unsigned)by);
}

static const struct reason *find_reason(enum gate_reason reason)
{
    return &reasons[(unsigned)reason < GATE_N_REASONS ? reason : GATE_R_INTERNAL];
}

const char *gate_reason_code(enum gate_reason reason)
{
    return find_reason(reason)->code;
}

const char *gate_reason_text(enum gate_reason reason)
{
    return find_reason(reason)->text;
}

bool gate_reason_takes_detail(enum gate_reason reason)
{
    return find_reason(reason)->takes_detail;
}

void gate_reason_put(enum gate_reason reason, const char *detail, struct gh_buf *out)
{
    const char *text = gate_reason_text(reason);
    const char *hole = strstr(text, "%s");
    if (hole == NULL) {
        gh_buf_puts(out, text);
        return;
    }
    gh_buf_put(out, text, (size_t)(hole - text));
    gh_buf_puts(out, detail != NULL ? detail : "(not named)");
    gh_buf_puts(out, hole + 2);
}

enum gate_action gate_action_find(const char *name)
{
    for (unsigned i = GATE_ACTION_NONE + 1; name != NULL && i < GATE_N_ACTIONS; i++) {
        if (strcmp(action_names[i], name) == 0) {
            return (enum gate_action)i;
        }
    }
    return GATE_ACTION_NONE;
}

bool gate_mode_find(const char *name, enum gate_mode *ret)
{
    for (unsigned i = 0; name != NULL && i < GATE_N_MODES; i++) {
        if (strcmp(mode_names[i], name) == 0) {
            *ret = (enum gate_mode)i;
            return true;
        }
    }
    return false;
}

#define FORM(form) (1U << (form))

static const unsigned fitting_forms[GATE_N_ACTIONS] = {
    [GATE_READ] = FORM(GATE_PATH) | FORM(GATE_DESCRIPTION),
    [GATE_WRITE] = FORM(GATE_PATH),
    [GATE_EXECUTE] = FORM(GATE_COMMAND),
    [GATE_DELETE] = FORM(GATE_PATH),
    [GATE_MOVE] = FORM(GATE_MOVE_PATHS),
    [GATE_INTERNAL] = FORM(GATE_DESCRIPTION) | FORM(GATE_PATH),
    [GATE_NETWORK] = FORM(GATE_DESCRIPTION),
    [GATE_INTERACT] = FORM(GATE_DESCRIPTION),
    [GATE_MCP_TOOL] = FORM(GATE_DESCRIPTION),
    [GATE_MEMORY] = FORM(GATE_DESCRIPTION),
    [GATE_PERSISTENT_MEMORY] = FORM(GATE_DESCRIPTION),
};

bool gate_form_fits(enum gate_action action, enum gate_form form)
{
    if ((unsigned)action >= GATE_N_ACTIONS || (unsigned)form >= GATE_N_FORMS) {
        return false;
    }
    return (fitting_forms[action] & FORM(form)) != 0;
}
