/* work: one decision on its way, shared by decision.c and ask_open.c only.
 *
 * The work owns itself: each function that settles takes it and frees it. Threads: one at a time.
 */
#ifndef GH_CORE_WORK_H
#define GH_CORE_WORK_H

#include "core/state.h"

struct work {
    struct core *core;
    struct http_exchange *x;
    struct auth_token who;
    char session_id[GH_ID];
    char id[GH_ID]; /* dec_ */
    struct call *call;
    struct place *place; /* counted */
    struct judged judged;
    struct idem *idem; /* in progress, or NULL */
    struct answer answer;
    struct gh_buf body;  /* the answer as it will be sent */
    struct gh_buf event; /* data of "decision.settled", made before the commit */
    struct card card;
    struct ask *ask;               /* being born */
    struct execution *execution;   /* to be started when it is allowed; owned, or NULL */
    struct execution_input *input; /* to be written when it is allowed; owned, or NULL */
    bool is_counted;               /* among the calls of its response */
    int64_t created_ms;
    char ticket[GH_ID]; /* the one-shot grant that is being used, or "" */
};

/* Free what it still owns. */
void work_free(struct work *work);

/* End without a decision; frees `work`. */
void work_fail(struct work *work, const struct gh_err *err);

/* The session, while it is active and the asker's; NULL with *err. */
struct session *work_session_locked(struct work *work, struct gh_err *err);

/* A parsed call: find its session, then judge. Takes the work. */
void work_begin(struct work *work);

/* Gather the facts and judge; for any thread that may read files. Takes the work. */
void work_judge(void *cookie);

/* True when the session's rules have changed since the facts were gathered: what was gathered is
 * dropped, and work_judge has to run again. */
bool work_is_stale_locked(struct work *work, const struct session *session);

/* Record, then answer. Each takes `work`. */
void work_settle_locked(struct work *work, struct session *session);
void work_deny_locked(struct work *work, struct session *session, enum gate_reason reason);

/* The card of a call that a person has to see, then the approval. For the pool; takes the work. */
void work_card(void *cookie);

/* Answer a decision that has an approval: held up to `wait_ms`, or 202, or settled. */
void work_answer_locked(struct core *core, struct ask *ask, struct http_exchange *x,
                        const struct auth_token *who, int64_t wait_ms);

#endif
