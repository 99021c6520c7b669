/* state: what core keeps in memory, for core's own files only.
 *
 * Everything here is guarded by core->lock unless a member says otherwise. Functions named *_locked
 * expect the lock.
 */
#ifndef GH_CORE_STATE_H
#define GH_CORE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/map.h"
#include "core/call.h"
#include "core/card.h"
#include "core/core.h"
#include "core/execution_book.h"

/* ---- shared, immutable, counted: may be used without the lock while a reference is held ---- */

/* Configuration and the rules compiled from it. */
struct policy {
    atomic_int refs;
    struct config *config;    /* owned */
    struct gate_rules *rules; /* owned */
};
struct policy *policy_ref(struct policy *policy);
void policy_unref(struct policy *policy);

/* Where a session works and what guards it. */
struct place {
    atomic_int refs;
    struct policy *policy;    /* counted */
    struct gate_rules *rules; /* the policy's and the session's; owned */
    struct gitmeta_dirs git;  /* owned */
    char *working_dir;        /* canonical; owned */
    char *home;               /* or NULL; owned */
};
struct place *place_ref(struct place *place);
void place_unref(struct place *place);
void place_unrefp(struct place **place);

/* Where the repository keeps its state now: the place's own dirs, or, when its configuration has
 * changed since (a hooks folder may have moved), *fresh filled in and returned. Owned by *fresh.
 * NULL without memory: then nothing may be allowed. */
const struct gitmeta_dirs *place_git(const struct place *place, struct gitmeta_dirs *fresh);

/* ---- sessions ---- */

struct tool {
    char *name; /* owned */
    enum gate_action action;
    bool mutates_outside;
    bool needs_checkpoint;
};

struct grant {
    char id[GH_ID];
    struct gh_buf key; /* cache key, or for a ticket the digest */
    char *target;      /* JSON, for the list; owned */
    enum gate_action action;
    bool is_seed;
    bool is_ticket;        /* one shot */
    bool is_taken;         /* a ticket whose user is being made durable */
    int64_t created_ms;    /* wall clock */
    int64_t expires_at_ms; /* CLOCK_BOOTTIME; 0: never */
    uint64_t hits;
    char by[AUTH_NAME + 8]; /* who allowed it */
    char decision[GH_ID];   /* from which decision, or "" */
    struct grant *next;
};

/* One decision the session may still report about. */
struct recent {
    char id[GH_ID];
    char *response_id;                /* or NULL; owned */
    char *path;                       /* file of a write, or NULL; owned */
    unsigned char new_sha[GH_SHA256]; /* of the approved new text; valid when has_new */
    bool has_new;
    bool is_allowed;
    bool has_outcome;
};

struct response {
    char *id; /* owned */
    int n_calls;
    bool has_failed;
    struct response *next;
};

#define N_RECENT 128
#define MAX_TOOLS 512
#define MAX_GRANTS 4096
#define MAX_RESPONSES 64

struct opening {
    struct http_exchange *x;
    enum gate_mode mode; /* the one it asked for */
    struct idem *idem;   /* in progress, or NULL */
    struct opening *next;
};

struct session {
    char id[GH_ID];
    char owner[AUTH_NAME];
    char *agent, *title; /* owned */
    char *external;      /* map key "owner\nagent\nid", or NULL; owned */
    char *external_json; /* as sent, or NULL; owned */
    char *client_json;   /* as sent, or NULL; owned */
    char *deny_json;     /* the session's own deny_paths as a JSON array; owned */
    enum gate_mode mode;
    bool is_plan_by_approver;
    uint64_t mode_version;  /* moves with each change of the mode that was asked for */
    uint64_t taint_version; /* moves with each finding */
    bool is_active;
    bool is_lost;       /* loaded without its folder: it is ended as soon as all is loaded */
    bool is_end_stored; /* the end is durable */
    bool is_born;       /* durable and visible */
    struct opening
        *openings; /* requests for the same external id that came while it is being born */
    struct session *next_ended;   /* ended sessions, oldest first */
    int64_t created_ms, ended_ms; /* wall clock; ended -1 while active */
    int64_t ask_timeout_ms;
    struct place *place; /* counted */
    bool is_tainted;
    uint64_t epoch; /* moves when it ends: what was allowed before is not found after a reopening */
    struct taint taint;   /* valid while is_tainted */
    struct gh_map tools;  /* own registrations, by name */
    struct grant *grants; /* newest first */
    size_t n_grants;
    size_t n_pending;
    uint64_t revision;          /* moves with each change of its approvals */
    struct recent *recent;      /* N_RECENT of them, or NULL before the first; owned */
    size_t recent_at;           /* next place to write */
    struct response *responses; /* newest first */
};

/* ---- asks: a decision that waits for a person, and its approval ---- */

enum ask_state {
    ASK_PENDING = 0,
    ASK_ALLOWED,
    ASK_ALLOWED_ALWAYS,
    ASK_DENIED,
    ASK_EXPIRED,
    ASK_CANCELLED
};
enum ask_due {
    ASK_DUE_EXPIRE = 1,
    ASK_DUE_TICKET,
    ASK_DUE_BACK,
    ASK_DUE_RETRY,
    WAIT_DUE,
    STREAM_DUE,
    EXECUTION_DUE_BACK,
    EXECUTION_DUE_RETRY,
    EXECUTION_STREAM_DUE
};

/* What the caller was told, or will be. */
struct answer {
    enum gate_decision decision;
    enum gate_tier tier;
    enum gate_by by;
    enum gate_reason reason;
    char *text; /* reason for the model; owned */
};

/* How an approval leaves PENDING. */
struct settlement {
    enum ask_state state;
    struct answer answer;
    char settled_by[AUTH_NAME + 8]; /* "" when nobody did */
    char via[16];                   /* web, cli, ide, api, "" */
    char *feedback;                 /* or NULL; owned */
};

struct wait;

struct ask {
    char id[GH_ID];       /* apr_ */
    char decision[GH_ID]; /* dec_ */
    char session_id[GH_ID];
    char owner[AUTH_NAME];
    struct session *session;       /* borrowed; valid while pending */
    uint64_t epoch;                /* of the session when it was asked */
    struct place *place;           /* under which `judged` was gathered; counted */
    struct call *call;             /* owned; NULL after settling */
    struct judged judged;          /* facts at the time of asking; empty after settling */
    struct execution *execution;   /* starts when it is allowed, or NULL; borrowed */
    struct execution_input *input; /* is written when it is allowed, or NULL; owned */
    char *fixed;        /* members of the approval that never change, JSON without braces; owned */
    char *answer_final; /* the decision's object once it is answered; owned */
    char *texts;        /* {"parts":[{path,old,new}]} for editors; owned */
    char digest[8 + GH_HEX]; /* "sha256-" hex */
    bool may_remember;
    size_t bytes; /* what it keeps in memory, roughly */
    bool is_detached;
    bool wants_ticket;
    int64_t created_ms;    /* wall clock */
    int64_t expires_at_ms; /* CLOCK_BOOTTIME: the approval's end */
    int64_t ahead_ms;      /* wall clock less CLOCK_BOOTTIME when it was made or loaded */
    int64_t ticket_at_ms;  /* CLOCK_BOOTTIME: the decision's end with a ticket; 0: none */
    int64_t limit_at_ms;   /* CLOCK_BOOTTIME: extend never goes beyond */
    int64_t settled_ms;    /* wall clock; -1 while pending */

    enum ask_state state;
    struct settlement settlement; /* valid when not pending, or while settling */
    bool is_born;                 /* durable and visible */
    bool is_settling;             /* an outcome is on its way to the disk */
    bool is_unwanted; /* a system's cancel came while it was settling, or could not be recorded */
    enum gate_tier unwanted_tier;
    enum gate_reason unwanted_reason;
    int64_t back_at_ms; /* CLOCK_BOOTTIME: a caller that broke off is given up; 0: it did not */
    bool is_over;       /* its time is up; nothing may allow it any more */
    bool is_answered; /* the decision is settled (always when not pending; with a ticket earlier) */
    bool is_gone;     /* the caller broke off */
    struct answer answer; /* valid when is_answered */
    int64_t answered_ms;  /* wall clock */
    int n_holders;        /* the caller's held requests */
    uint64_t revision;
    struct gh_due due_expire, due_ticket, due_back, due_retry;
    struct wait *waits;        /* held requests on this approval */
    struct deferred *deferred; /* answers that came while settling */
    struct ask *prev, *next;   /* pending list (FIFO), or the list of settled ones */
};

/* A PUT that waits for the outcome of one that came before it. */
struct deferred {
    struct http_exchange *x;
    struct auth_token who;
    struct deferred *next;
};

/* ---- held requests ---- */

enum wait_kind { WAIT_DECISION = 0, WAIT_APPROVAL, WAIT_LIST, WAIT_EVENTS, WAIT_EXECUTION };

struct wait {
    char number[24]; /* map key, made of the exchange: finds it when its client leaves */
    struct http_exchange *x;
    enum wait_kind kind;
    struct auth_token who;
    struct ask *ask;             /* WAIT_DECISION, WAIT_APPROVAL */
    struct execution *execution; /* WAIT_EXECUTION */
    bool is_holder;              /* the asker itself */
    uint64_t seen;               /* revision or event the client knows */
    bool has_seen;               /* it sent If-None-Match */
    char session[GH_ID];         /* filter of WAIT_LIST and WAIT_EVENTS, or "" */
    struct gh_due due;
    struct wait *prev, *next; /* in ask->waits or core->list_waits or core->event_waits */
    struct wait **list;       /* the list it is in */
};

/* ---- events ---- */

#define N_EVENTS 8192
#define N_DROPPED 256

struct event {
    uint64_t seq;
    char type[32];
    char session[GH_ID];
    char owner[AUTH_NAME]; /* owner of the session: who may see it among agents */
    char *data;            /* JSON; owned */
    size_t bytes;          /* of data */
};

struct stream {
    struct http_stream *http;
    struct auth_token who;
    char session[GH_ID]; /* filter, or "" */
    struct gh_due due;   /* heartbeat */
    struct stream *prev, *next;
};

/* ---- idempotency ---- */

struct idem {
    char scope[GH_HEX]; /* map key */
    unsigned char body[GH_SHA256];
    char object[GH_ID]; /* what was created; "" while in progress */
    int64_t at_ms;      /* wall clock */
    struct idem *next;  /* oldest first */
};

/* What a principal left behind in a working directory (contract 3). */
struct trace {
    char key[GH_HEX]; /* map key: SHA-256 of owner and directory */
    bool is_plan;
    bool is_tainted;
    struct taint taint;
};

struct core {
    struct core_options options; /* strings owned */
    pthread_mutex_t lock;
    struct policy *policy; /* counted */
    char boot_id[GH_BOOT_ID];
    char run_id[17]; /* first part of event ids */
    bool is_stopping;

    struct gh_map sessions;                   /* by id; active, and ended ones not yet forgotten */
    struct gh_map externals;                  /* by session->external; active */
    struct session *ended_first, *ended_last; /* ended ones kept in memory for a while */
    size_t n_ended;
    struct gh_map by_approval, by_decision; /* asks */
    struct gh_map idems;                    /* by scope */
    struct idem *idem_first, **idem_last;
    struct gh_map traces; /* by key */
    struct gh_map waits;  /* by number */

    struct ask *pending_first, *pending_last; /* FIFO */
    struct ask *settled_first, *settled_last; /* oldest first */
    size_t n_pending, n_settled;
    size_t settled_bytes;           /* of the settled ones kept in memory */
    size_t n_agent_waits;           /* held requests of agents */
    size_t max_agent_waits;         /* half of the descriptors: people always have room */
    char dropped[N_DROPPED][GH_ID]; /* tokens that ceased to be valid, newest over oldest */
    atomic_size_t n_dropped;        /* how many ever */
    uint64_t revision;              /* moves with each change of any approval */
    struct wait *list_waits, *event_waits;

    struct event events[N_EVENTS];
    uint64_t event_seq; /* newest */
    size_t n_events;    /* kept */
    size_t event_bytes; /* of them all */
    struct stream *streams;
    size_t n_streams;

    struct execution_book executions;
    bool is_closed; /* nothing is recorded any more */

    struct gh_heap heap;
    pthread_t clock;
    bool has_clock;
    int clock_fd;        /* timerfd, CLOCK_BOOTTIME */
    int64_t clock_at_ms; /* when it is set to fire; 0: not set */
    struct core_numbers numbers;
};

/* ---- request metadata for the audit; borrowed from the exchange ---- */

struct meta {
    const char *principal; /* may be NULL */
    const char *peer;
    const char *agent;
    const char *trace_id;
    char principal_text[AUTH_NAME + GH_ID + 4];
};
void meta_of(struct http_exchange *x, const struct auth_token *who, struct meta *ret);

/* ---- shared by core's files ---- */

/* core.c: make sure the clock thread wakes for the heap's first node. */
void clock_set_locked(struct core *core, struct gh_due *due, int64_t at_ms);
void clock_clear_locked(struct core *core, struct gh_due *due);

/* session.c */
struct session *session_find_locked(struct core *core, const struct auth_token *who,
                                    const char *id);
void session_json_locked(const struct core *core, const struct session *session,
                         struct gh_buf *out);
void session_doc_locked(struct store_txn *txn, const struct core *core,
                        const struct session *session);
void session_event_locked(struct core *core, const struct session *session, const char *type);
GH_MUST_USE enum gh_code session_load(struct core *core, const struct store_row *row);
void session_free(struct session *session);
GH_MUST_USE enum gh_code place_new(struct core *core, struct policy *policy,
                                   const char *working_dir, const char *const *entries,
                                   size_t n_entries, struct place **ret, struct gh_err *err);

/* Take it out of the external ids, if it is the one its id names. */
void session_unname_locked(struct core *core, const struct session *session);

/* An ended session: drop what only an active one needs; the oldest beyond a bound are forgotten. */
void session_retire_locked(struct core *core, struct session *session);

/* Bring an ended session of this external id back from the store into memory, still ended. Reads
 * the disk; without the lock. */
void session_recall(struct core *core, const char *external);

/* Opening a session again can add to its deny list, never take away; *ret_grew when it did. False
 * with *err. Reads files. */
bool session_add_rules_locked(struct core *core, struct session *session,
                              const char *const *entries, size_t n_entries, bool *ret_grew,
                              struct gh_err *err);

/* End a session that may not go on (its folder is refused now). */
void session_end_locked(struct core *core, struct session *session);

/* Make an ended session active again, without grants; false without memory. */
bool session_reopen_locked(struct core *core, struct session *session);

/* Take over what the principal left behind in this folder (contract 3); false without memory. */
bool session_inherit_locked(struct core *core, struct session *session);

/* New rules for a session; on failure it keeps the old ones. Fails as place_new. */
GH_MUST_USE enum gh_code session_rebase_locked(struct core *core, struct session *session,
                                               struct policy *policy, struct gh_err *err);

/* Record the reopening and answer with the session, in the stricter of both modes. */
void answer_reopened_locked(struct core *core, struct session *session, enum gate_mode mode,
                            struct http_exchange *x, const struct auth_token *who,
                            struct idem *idem);

/* Plan before act before autonomous. */
enum gate_mode session_stricter_mode(enum gate_mode a, enum gate_mode b);

/* tool.c: the registration of `name`; false when it is unknown. */
bool tool_find(const struct session *session, const char *name, struct tool *ret);
bool tool_name_ok(const char *name);
void tool_free_all(struct session *session);
void tools_json(const struct session *session, struct gh_buf *out);
void tools_load(struct session *session, const struct json_t *arr);

/* grant.c */
struct grant *grant_find(const struct session *session, const struct gh_buf *key);
struct grant *ticket_find(const struct session *session, const char *digest);
void grant_add_locked(struct session *session, const struct judged_part *part,
                      enum gate_action action, const char *by, const char *decision);
void ticket_add_locked(struct session *session, const struct ask *ask, const char *by);
void grant_remove(struct session *session, struct grant *grant);
void grants_seed(struct session *session);
void grants_free(struct session *session);

/* event.c */
void event_emit_locked(struct core *core, const char *type, const struct session *session,
                       const char *owner, struct gh_buf *data);
void stream_due_locked(struct core *core, struct stream *stream);
bool stream_token_is_dropped_locked(const struct core *core, const char *token_id);
void stream_close_locked(struct core *core, struct stream *stream);
void events_reply_locked(struct core *core, struct wait *wait);
void events_free(struct core *core);

/* wait.c */
bool wait_hold_locked(struct core *core, const struct wait *what, int64_t wait_ms,
                      struct wait **list);
struct http_exchange *wait_take_locked(struct core *core, struct wait *wait);
void wait_due_locked(struct core *core, struct wait *wait);
void waits_wake_locked(struct core *core, struct wait **list);
/* Answer 401 to whatever a token holds that is no longer valid. */
void waits_drop_locked(struct core *core, const char *token_id);
GH_MUST_USE enum gh_code query_limit(struct http_exchange *x, int64_t *ret, struct gh_err *err);
bool query_wait_ms(struct http_exchange *x, int64_t *ret_ms, struct gh_err *err);

/* ask.c, ask_store.c, settle.c, approval*.c */
struct ask *ask_find_locked(struct core *core, const struct auth_token *who, const char *id);
void ask_free(struct ask *ask);
void ask_changed_locked(struct core *core, struct ask *ask);
void ask_json_locked(const struct core *core, const struct ask *ask, const struct settlement *as,
                     struct gh_buf *out);
void ask_decision_json(const struct ask *ask, struct gh_buf *out);
void ask_doc_locked(struct store_txn *txn, const struct core *core, const struct ask *ask,
                    const struct settlement *as, const char *final);
void ask_link_pending_locked(struct core *core, struct ask *ask);
void ask_to_settled_locked(struct core *core, struct ask *ask);
void ask_event_locked(struct core *core, const struct ask *ask, const char *type);
void ask_due_locked(struct core *core, struct ask *ask, enum ask_due kind);
void ask_hold_back_locked(struct core *core, struct ask *ask);
void ask_touch_locked(struct core *core, struct ask *ask, const struct auth_token *who);
const char *ask_state_name(enum ask_state state);
/* What became due, or was wanted, while it could not be settled; then the gate's present view. */
void ask_look_again_locked(struct core *core, struct ask *ask);

/* Gather the facts again under the session's present rules; what cannot be gathered is cancelled.
 */
void ask_regather_locked(struct core *core, struct ask *ask);
void ask_sweep_locked(struct core *core, struct session *session);
void ask_cancel_all_locked(struct core *core, struct session *session, enum gate_reason reason);
GH_MUST_USE enum gh_code ask_load(struct core *core, const struct store_row *row);
void settle_start_locked(struct core *core, struct ask *ask, struct settlement *how,
                         struct http_exchange *x, const struct meta *meta);
/* Cancel what the gate refuses now; `x`, which wanted to allow it, is told so once it is durable.
 */
void settle_refuse_locked(struct core *core, struct ask *ask, const struct gate_verdict *verdict,
                          struct http_exchange *x, const struct meta *meta);
void settle_release_locked(struct core *core, struct ask *ask);
void settle_put_locked(struct core *core, struct ask *ask, struct http_exchange *x,
                       const struct auth_token *who);

/* approval.c: the body of a PUT, also where the approval is no longer in memory. */
struct put_body {
    enum gate_decision decision;
    const char *feedback; /* or NULL; borrowed from the body */
};
GH_MUST_USE enum gh_code put_parse(struct http_exchange *x, struct json_t **ret,
                                   struct put_body *body, struct gh_err *err);
GH_MUST_USE enum gh_code put_check_match(struct http_exchange *x, const char *digest,
                                         struct gh_err *err);
void put_note_late(struct core *core, const char *session, const char *id,
                   const struct put_body *body, const struct meta *meta);
void archived_approval(struct core *core, struct http_exchange *x, const struct auth_token *who,
                       const char *id);
void settle_system_locked(struct core *core, struct ask *ask, enum gate_tier tier,
                          enum gate_reason reason);
void settle_timeout_locked(struct core *core, struct ask *ask);
void settle_ticket_locked(struct core *core, struct ask *ask);
void settlement_fini(struct settlement *how);
void ask_reply_decision(const struct ask *ask, struct http_exchange *x);
/* 304 with the entity tag of `revision`. */
void approval_not_modified(const struct core *core, struct http_exchange *x, uint64_t revision);

/* 409 or 410 with what became of it. */
void approval_reply_settled_locked(struct core *core, const struct ask *ask,
                                   struct http_exchange *x);

/* Allow by a grant that covers it now: looked at again on the pool first. */
void approval_grant_locked(struct core *core, struct ask *ask);
void approval_reply_locked(struct core *core, const struct ask *ask, struct http_exchange *x);
void approvals_reply_locked(struct core *core, struct wait *wait);

/* record.c: audit rows and answers */
struct answer_view {
    const char *id, *session;
    const struct answer *answer; /* NULL while it waits for a person */
    const struct judged *judged;
    const struct call *call;
    const char *approval; /* or NULL */
    int64_t created_ms;   /* wall clock */
    int64_t settled_ms;   /* wall clock; -1 while it waits */
};
void answer_json(const struct answer_view *view, struct gh_buf *out);
void record_decision(struct store_txn *txn, const struct session *session,
                     const struct answer_view *view, const char *body, const struct meta *meta);
/* One row about something else than a decision. */
struct note {
    const char *kind, *session, *ref, *code; /* as in struct store_audit */
    const char *body;                        /* JSON object */
};
void record_note(struct store_txn *txn, const struct note *note, const struct meta *meta);
void warning_json(const char *slug, struct gh_jw *w, const char *key);
void reply_json(struct http_exchange *x, int status, struct gh_buf *body);
void reply_audit_failed(struct http_exchange *x);
void reply_not_found(struct http_exchange *x);

/* decision.c */
void decision_event_locked(struct core *core, const struct answer_view *view, const char *owner);
void decision_event_json(const struct answer_view *view, struct gh_buf *out);
bool answer_make(struct answer *ret, const struct gate_verdict *verdict, const char *text);
void answer_fini(struct answer *answer);
void decision_from_store(struct core *core, struct http_exchange *x, const struct auth_token *who,
                         const char *session_id, const char *id);

/* outcome.c */
void outcome_expect_locked(struct session *session, const char *id, const struct call *call,
                           const struct judged *judged, bool is_allowed);
void outcome_forget(struct session *session);
struct response *outcome_response_locked(struct session *session, const char *id);

/* idem.c */
enum idem_result { IDEM_NONE = 0, IDEM_NEW, IDEM_REPLAY, IDEM_ANSWERED };
enum idem_result idem_begin_locked(struct core *core, struct http_exchange *x,
                                   const struct auth_token *who,
                                   const unsigned char body[GH_SHA256], struct idem **ret);
void idem_body(struct http_exchange *x, unsigned char ret[GH_SHA256]);
void idem_doc(struct store_txn *txn, const struct idem *idem, const char *object);
void idem_end_locked(struct core *core, struct idem *idem, const char *object);
GH_MUST_USE enum gh_code idem_load(struct core *core, const struct store_row *row);
void idems_free(struct core *core);

/* taint.c */
void taint_fini(struct taint *taint);
bool taint_copy(struct taint *to, const struct taint *from);
void taint_json(const struct taint *taint, struct gh_jw *w, const char *key);
bool taint_read(const struct json_t *obj, struct taint *ret);
void finding_json(const char *source, const struct scan_finding *finding, struct gh_jw *w,
                  const char *key);
void taint_found_locked(struct core *core, struct session *session, const char *source,
                        const struct scan_finding *finding, const struct meta *meta,
                        struct store_txn *txn);
struct trace *trace_of_locked(struct core *core, const char *owner, const char *dir, bool make);
void trace_doc(struct store_txn *txn, const struct trace *trace);
GH_MUST_USE enum gh_code trace_load(struct core *core, const struct store_row *row);
void traces_free(struct core *core);

#endif
