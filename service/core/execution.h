/* execution: commands that the service runs itself, confined (contract 8).
 *
 * An execution is asked for like any Execute call (work.h) and started once the allow is durable;
 * `execution_*_locked` are the places where decisions, approvals and held requests meet it. It
 * stays in core's list until it is old and over. Everything here is guarded by core->lock unless a
 * member says otherwise. Only for core's own files.
 */
#ifndef GH_CORE_EXECUTION_H
#define GH_CORE_EXECUTION_H

#include "core/work.h"
#include "run/run.h"

enum execution_state {
    EXECUTION_ASKING = 0,
    EXECUTION_RUNNING, /* allowed: starting, running, or its end is on its way to the disk */
    EXECUTION_DENIED,
    EXECUTION_EXITED,
    EXECUTION_SIGNALED,
    EXECUTION_TIMED_OUT,
    EXECUTION_KILLED,
    EXECUTION_FAILED, /* to start */
};

/* A client that follows the output. */
struct execution_stream {
    struct http_stream *http;
    struct auth_token who;
    bool is_holder;
    uint64_t seen[2]; /* bytes of each stream it was sent, or that were lost */
    uint64_t lost[2]; /* bytes it was too slow for, not told yet */
    char cut[2][4];   /* the beginning of a character whose end is still to come */
    size_t n_cut[2];
    struct gh_due due; /* heartbeat */
    struct execution *execution;
    struct execution_stream *next;
};

#define EXECUTION_CARRY 1024 /* bytes of the output before that are scanned once more */

struct execution {
    char id[GH_ID];       /* exe_ */
    char decision[GH_ID]; /* dec_ */
    char session_id[GH_ID];
    char owner[AUTH_NAME];
    char principal[AUTH_NAME + GH_ID + 4]; /* for the audit */
    struct core *core;
    enum execution_state state;
    bool is_final;           /* over, and durable */
    char *decision_json;     /* the decision's object; owned */
    struct call *call;       /* until it has started; owned */
    char digest[8 + GH_HEX]; /* of what a person allowed: compared before the start; or "" */
    bool is_background, is_detached, is_interactive;
    bool is_unwanted;   /* to be killed as soon as it can be */
    bool is_by_gate;    /* no person allowed it: the gate must still do so at the start */
    int64_t wait_ms;    /* of the request that made it */
    int64_t timeout_ms; /* of the request; 0: the configuration's */
    struct ask *ask;    /* while it is asked; borrowed */

    struct run_job *job; /* while it runs; borrowed by all but the thread that ends it */
    struct run_report report;
    struct run_result result;
    bool has_report;
    bool has_scanned;               /* a finding is enough; the thread of run only */
    bool is_found_told;             /* the session was tainted while it ran */
    struct scan_finding finding;    /* valid when has_scanned; the thread of run until the end */
    char carry[2][EXECUTION_CARRY]; /* the thread of run only */
    size_t n_carry[2];
    struct gh_buf tail[2]; /* once it is over */
    uint64_t dropped[2];
    const char *hint;               /* static, or NULL */
    char why[320];                  /* why it could not start, "" otherwise */
    int64_t created_ms, started_ms; /* wall clock; -1: not started */

    int n_holders;
    bool is_gone; /* the last holder broke off */
    struct gh_due due_back, due_retry;
    struct wait *waits;
    struct execution_stream *streams;
    atomic_int n_streams;          /* may be looked at without the lock */
    struct execution *prev, *next; /* in core's list, oldest first */
};

/* An allowed Execute decision that can be run once, by its id. */
struct kept {
    char decision[GH_ID];
    char session_id[GH_ID];
    char *decision_json;     /* owned */
    struct call *call;       /* NULL once used; owned */
    char digest[8 + GH_HEX]; /* of what a person allowed, or "" */
    bool is_by_gate;         /* as of the execution */
    int64_t until_ms;        /* CLOCK_BOOTTIME */
    struct kept *next;
};

/* Input for a running execution, while the gate judges it. */
struct execution_input {
    char execution[GH_ID];
    char *data; /* owned */
    size_t len;
    bool is_end;
};
void execution_input_free(struct execution_input *input);

#define EXECUTION_MAX_RUNNING 32 /* of one token */

/* ---- life (execution.c) ---- */
GH_MUST_USE struct execution *execution_new(struct core *core, const char *session_id,
                                            const struct auth_token *who);
void execution_free(struct execution *execution); /* one that is in no list; NULL is fine */
void execution_link_locked(struct core *core, struct execution *execution);
struct execution *execution_find_locked(struct core *core, const struct auth_token *who,
                                        const char *id);
/* Allowed or refused executions of a principal that are not over and wait for nobody. */
size_t execution_count_locked(const struct core *core, const char *owner);
void execution_event_locked(struct core *core, const struct execution *execution, const char *type);
/* Make its end durable, then tell everybody. `state` is not final yet. */
void execution_end_locked(struct execution *execution, enum execution_state state);
/* Kill it, or keep it from starting. */
void execution_kill_locked(struct execution *execution);
void execution_kill_session_locked(struct core *core, const struct session *session);
void execution_due_locked(struct core *core, struct execution *execution, int kind);
void executions_free(struct core *core);

/* ---- rendering (execution_json.c) ---- */
const char *execution_state_name(enum execution_state state);
const char *execution_network_name(enum run_network network);
/* For a client that wants all, for a list (no output), for the record (no output, and the end that
 * it makes durable). */
enum execution_view { EXECUTION_WHOLE = 0, EXECUTION_ITEM, EXECUTION_RECORD };
void execution_json_locked(struct execution *execution, enum execution_view view,
                           struct gh_buf *out);
/* 200 when it is over, else 202 with its place. */
void execution_reply_locked(struct execution *execution, struct http_exchange *x);
/* Held up to `wait_ms`, or answered now. */
void execution_answer_locked(struct execution *execution, struct http_exchange *x,
                             const struct auth_token *who, int64_t wait_ms);
void execution_confinement_json(const struct core *core, struct gh_jw *w);

/* ---- holders ---- */
void execution_hold_locked(struct execution *execution);
void execution_let_go_locked(struct execution *execution);
/* The client broke off: when it was the last holder it has a while to come back. */
void execution_hold_back_locked(struct execution *execution);
void execution_touch_locked(struct execution *execution, const struct auth_token *who);

/* ---- where decisions meet it (execution_ask.c) ---- */

/* After the facts: a working directory outside the session's is refused. */
GH_MUST_USE enum gh_code execution_check(const struct work *work, struct gh_err *err);

/* A verdict without a person is about to be recorded: keep the call for what may run by it. */
void execution_take_call_locked(struct work *work, bool is_allowed);
/* The agent did it itself: that decision cannot be run any more. */
void execution_used_locked(struct core *core, const char *decision);
/* No decision of this session can be run any more. */
void execution_forget_session_locked(struct core *core, const char *session_id);

/* It is durable: start or refuse, and answer the request. */
void execution_decided_locked(struct work *work);

/* An approval is durable: the execution waits with it. */
void execution_asked_locked(struct work *work);

/* The approval is settled. */
void execution_settled_locked(struct core *core, struct ask *ask);

/* The same request again (Idempotency-Key); false: it is not known any more. */
bool execution_replay_locked(struct work *work, const char *decision);

/* ---- running (execution_run.c) ---- */

/* For the pool: looks at the file system, starts it. `cookie` is the execution. */
void execution_start(void *cookie);
void execution_start_soon_locked(struct execution *execution);

/* ---- output and input (execution_output.c) ---- */
void execution_output_locked(struct execution *execution, enum run_stream which, const char *data,
                             size_t len, uint64_t offset);
/* Say the end to who follows, and close. */
void execution_streams_end_locked(struct execution *execution);
void execution_stream_due_locked(struct core *core, struct execution_stream *stream);
void execution_streams_drop_locked(struct core *core, const char *token_id);
/* The gate allowed it. */
void execution_deliver_locked(struct core *core, const struct execution_input *input);

#endif
