/* call: a tool call as parsed, and what the gate says of each of its parts.
 *
 * A call is constant once parsed. Judging it takes two steps: the facts (file system, no lock),
 * then the verdicts (core's lock, no I/O). Threads: one at a time.
 */
#ifndef GH_CORE_CALL_H
#define GH_CORE_CALL_H

#include "base/buf.h"
#include "base/id.h"
#include "base/json.h"
#include "gate/facts.h"

struct place;

/* ---- a tool call as parsed (call.c) ---- */

struct call_part {
    enum gate_action action;
    struct gate_target target; /* strings borrowed from call->body */
    const char **argv;         /* owned; target.args points here */
    const char *old_text;      /* diff as the request gave it, or NULL; borrowed */
    const char *new_text;      /* or NULL */
};

struct call {
    struct json_t *body; /* owned; every borrowed string lives in it */
    const char *tool;
    struct call_part *parts; /* owned; n_parts of them */
    size_t n_parts;
    const char *preview;              /* or NULL */
    const char *narration;            /* or NULL */
    const char *response_id;          /* or NULL */
    const struct json_t *arguments;   /* or NULL; borrowed */
    const struct json_t *execution;   /* how the service is to run it itself, or NULL; borrowed */
    char *env_json;                   /* canonical environment of an execution, or NULL; owned */
    bool is_interactive;              /* an execution whose input stays open */
    bool is_never_cached;             /* has input: no grant covers it, none is made of it */
    unsigned char new_sha[GH_SHA256]; /* of the new text of a single write; valid when has_new */
    bool has_new;
    bool is_plan_call;
    bool is_detached;
    bool wants_ticket;   /* on_deadline: ticket */
    int64_t deadline_ms; /* the caller's own limit from now; 0: none */
    int64_t wait_ms;
};

/* Parse the body of POST decisions. *ret is owned by caller (call_free).
 * Fails with GH_BAD_JSON, GH_UNKNOWN_FIELD, GH_INVALID, GH_NOMEM. */
GH_MUST_USE enum gh_code call_parse(const char *data, size_t len, struct call **ret,
                                    struct gh_err *err);
/* The same for a request that was made by the service: "execution" is known too. */
GH_MUST_USE enum gh_code call_parse_own(const char *data, size_t len, struct call **ret,
                                        struct gh_err *err);
void call_free(struct call *call);
void call_freep(struct call **call);

/* ---- judged (judge.c) ---- */

struct judged_part {
    struct gate_facts facts; /* owned content */
    struct gate_verdict verdict;
    struct gh_buf target; /* canonical target, JSON */
    struct gh_buf key;    /* cache key */
    char warning[32];     /* slug, or "" */
};

struct judged {
    struct judged_part *parts; /* owned; n of them */
    size_t n;
    struct gate_verdict total; /* the strictest */
    size_t decider;            /* the part that gave it */
    bool uses_ticket;          /* some part is allowed by a one-shot grant only */
};

struct session;

/* Gather the facts of every part (file system; no lock). Fails with GH_INVALID, GH_NOMEM. */
GH_MUST_USE enum gh_code judge_gather(const struct place *place, const struct call *call,
                                      struct judged *ret, struct gh_err *err);

/* Parts without facts, for a call that cannot be looked at any more: whatever is asked of them, the
 * gate denies. Fails with GH_NOMEM. */
GH_MUST_USE enum gh_code judge_blank(const struct call *call, struct judged *ret,
                                     struct gh_err *err);

/* Fill in modes, taint, tool and grants and decide every part. `has_ticket` per decide.h. */
void judge_locked(const struct session *session, const struct call *call, struct judged *judged,
                  bool has_ticket);
void judged_fini(struct judged *judged);

/* What a verdict says to the model, for the deciding part; static parts filled in. */
void judge_reason(const struct session *session, const struct judged *judged, char *out,
                  size_t size);

#endif
