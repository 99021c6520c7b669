/* facts: from a target as a client sent it to what the gate needs to know about it.
 *
 * Threads: any. Reads the file system, changes nothing, runs nothing.
 */
#ifndef GH_GATE_FACTS_H
#define GH_GATE_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "gate/decide.h"
#include "gate/gitmeta.h"
#include "gate/path.h"
#include "gate/rules.h"

/* One target, as sent; all strings borrowed. */
struct gate_target {
    enum gate_form form;
    const char *path;        /* GATE_PATH; GATE_MOVE_PATHS: from */
    const char *to;          /* GATE_MOVE_PATHS */
    const char *program;     /* GATE_COMMAND */
    const char *const *args; /* GATE_COMMAND; n_args of them */
    size_t n_args;
    const char *cwd; /* GATE_COMMAND; NULL: the working directory */
    bool is_shell;   /* GATE_COMMAND sent as {"shell": text}: program "sh", args "-c", text */
    const char *description; /* GATE_DESCRIPTION */
};

/* What it is judged against; all borrowed. */
struct gate_place {
    const struct gate_rules *rules; /* the session's compiled set */
    const struct gitmeta_dirs *git; /* the session's repository */
    const char *working_dir;        /* canonical */
    const char *home;               /* or NULL */
    size_t *budget; /* entries that the walks of this call may still look at, counted down; NULL:
                       GATE_WALK_ENTRIES for each walk */
};

struct gate_facts {
    struct gate_case kernel;  /* action, form and path facts of the kernel's reading; the caller
                                 fills mode, taint, tool and grants */
    struct gate_case lexical; /* the same for the lexical reading; equal when there is none */
    struct gate_path path;    /* GATE_PATH, GATE_MOVE_PATHS: from */
    struct gate_path to;      /* GATE_MOVE_PATHS */
    char *cwd;                /* GATE_COMMAND: canonical; owned */
    char *resolved; /* GATE_COMMAND: the file that would run, canonical, or NULL when none is
                       found; owned */
    const char *deny_entry; /* the entry that denies, or NULL; borrowed from the rules */
    const char *later;      /* why it runs code later, or NULL; static */
};

/* Free what the facts own, not the facts. Zeroed ones are fine. */
void gate_facts_fini(struct gate_facts *facts);

/* Gather. Fails with GH_INVALID: an empty, invisible or over-long path, program or description, a
 * form that does not fit the action, a cwd that does not exist or is denied (err->pointer relative
 * to the target object), with GH_NOMEM. On failure nothing is owned. */
GH_MUST_USE enum gh_code gate_facts_gather(const struct gate_place *place, enum gate_action action,
                                           const struct gate_target *target, struct gate_facts *ret,
                                           struct gh_err *err);

/* The path that a person must see: for a delete and for both ends of a move the link's own place
 * when the last component is a link, since that is what goes or is replaced; else the file that is
 * reached. Kernel's reading. `is_to`: the end that a move leads to. Borrowed; NULL when there is no
 * such path. */
const char *gate_facts_shown(const struct gate_facts *facts, bool is_to);

/* Append a JSON object of all readings that differ from what is shown, {} when none does: "kernel",
 * "leaf", "lexical", "lexical_leaf", and the same with "to_" before it for a move's other end. */
void gate_facts_readings_json(const struct gate_facts *facts, struct gh_buf *out);

/* Append the canonical target as a JSON object with sorted keys: {"path":P} | {"args":[..],"cwd":D,
 * "program":P} | {"from":A,"to":B} | {"description":S}. Paths are those of gate_facts_shown. */
void gate_facts_target_json(const struct gate_facts *facts, const struct gate_target *target,
                            struct gh_buf *out);

/* Append the always-allow cache key (behaviour.md 1.9, contract 5): action and the path in all
 * readings; program, args, cwd and `env_json` (canonical JSON of the request's env, "" when none);
 * action and description (for persistent_memory with the tool's name before it); from and to.
 * Unambiguous: two different targets never share one. */
void gate_facts_key(const struct gate_facts *facts, enum gate_action action,
                    const struct gate_target *target, const char *tool, const char *env_json,
                    struct gh_buf *out);

#endif
