/* rules: the deny list, compiled once, and the other names the gate guards.
 *
 * Built-in entries are always there; the configuration's and the session's are merged in and can
 * remove nothing (behaviour.md 1.3, decisions.md "Configuration and start"). A compiled set is
 * immutable. Threads: any may match against one.
 */
#ifndef GH_GATE_RULES_H
#define GH_GATE_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct gate_rules;

struct gate_rules_input {
    const char *home;              /* the user's home folder, or NULL */
    const char *other_home;        /* a second home that is guarded like the first (the password
                                      database's, when $HOME is another), or NULL */
    const char *xdg_config_home;   /* $XDG_CONFIG_HOME or NULL; ignored unless absolute */
    const char *xdg_state_home;    /* $XDG_STATE_HOME or NULL */
    const char *git_config_global; /* $GIT_CONFIG_GLOBAL or NULL */
    const char *config_dir;        /* our configuration folder, absolute; always denied */
    const char *config_file;       /* a configuration file named by hand, or NULL; always denied */
    const char *state_dir;         /* our state folder, wherever it lies; always denied */
    const char *runtime_dir;       /* the folder of our socket, or NULL; always denied */
    const char *const *entries;    /* configured deny_paths, NULL-ended; may be NULL */
};

/* Compile. `base` (may be NULL) is an earlier set whose rules are all kept (a session adds to the
 * service's). Relative entries resolve against `working_dir`, which is NULL for the configuration:
 * there relative entries are refused. *ret is owned by caller (gate_rules_free).
 * Fails with GH_INVALID: "" and "..", a relative entry where none is allowed, an entry with "/" and
 * a glob character other than "**" forms; err->pointer is "/<index>". Fails with GH_NOMEM.
 * An entry that cannot match (bad glob) is kept, never matches, and is reported by gate_rules_each.
 */
GH_MUST_USE enum gh_code gate_rules_new(const struct gate_rules_input *input,
                                        struct gate_rules **ret, struct gh_err *err);
/* Session rules on top of `base` (borrowed until freed). Entries as above. */
GH_MUST_USE enum gh_code gate_rules_extend(const struct gate_rules *base, const char *working_dir,
                                           const char *const *entries, size_t n_entries,
                                           struct gate_rules **ret, struct gh_err *err);
void gate_rules_free(struct gate_rules *rules);

/* The entry (as written; borrowed) that denies the absolute, normalised `path`, or NULL. Every
 * component is tested against name patterns; built-in secrets fold case. `*.pem`/`*.key` that hold
 * public PEM content only, and those below package folders, are exempt for built-in patterns (the
 * file is read, bounded, for that). */
const char *gate_rules_denies(const struct gate_rules *rules, const char *path);

/* True for the global git configuration in every spelling and place (behaviour.md 1.5.5-6). */
bool gate_rules_is_global_git(const struct gate_rules *rules, const char *path);

/* The reason (static sentence) a file runs code later (behaviour.md 1.10), or NULL. */
const char *gate_rules_runs_later(const struct gate_rules *rules, const char *path);

/* True for agents' own settings and hook files below any directory or the home and for a project's
 * gatehouse file. ASCII case does not matter. */
bool gate_rules_is_gate_config(const struct gate_rules *rules, const char *path);

/* True for a folder that such files live in (".claude", ".github/copilot"): moving or deleting it
 * moves or deletes them. */
bool gate_rules_holds_gate_config(const struct gate_rules *rules, const char *path);

struct gate_rule_info {
    const char *entry;    /* as written */
    const char *resolved; /* absolute form, or the name pattern */
    const char *source;   /* "built-in", "configuration", "session" */
    const char *note; /* "", "matches nothing now", "never matches: bad pattern", "skipped: ..." */
};
/* Call `fn` for each entry, for `doctor`, /v1/config and logs. */
void gate_rules_each(const struct gate_rules *rules,
                     void (*fn)(const struct gate_rule_info *info, void *cookie), void *cookie);

/* One way in which a file is denied, for a confiner: a path, or a name. */
struct gate_denial {
    const char *path;  /* absolute, with what is below it; or NULL */
    const char *name;  /* glob over one component (braces may be in it), when path is NULL */
    const char *dir;   /* the name counts in this folder only; NULL: anywhere */
    bool is_folded;    /* ASCII letters of the name match in either case */
    bool is_key_files; /* public PEM content and package folders are exempt */
};
/* Call `fn` for each; what it gets is borrowed from the rules. */
void gate_rules_denials(const struct gate_rules *rules,
                        void (*fn)(const struct gate_denial *denial, void *cookie), void *cookie);

#endif
