/* core: sessions, decisions, approvals, grants, taint and events: what gatehouse is about.
 *
 * It takes parsed requests with the exchange to answer, judges them with the gate, makes every
 * outcome durable through the store and only then answers. One lock guards all state in memory;
 * file reads and hashing run on the pool, outside it; the store and HTTP call back without it.
 *
 * Lock order: core, then the exchange lock inside http. Functions that take `x` answer it exactly
 * once, now or later. `who` is the authenticated principal (copied where it must outlive the call).
 * Threads: any.
 */
#ifndef GH_CORE_CORE_H
#define GH_CORE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/auth.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/pool.h"
#include "config/config.h"
#include "gate/rules.h"
#include "http/http.h"
#include "scan/scan.h"
#include "store/store.h"

struct core;
struct json_t;

struct core_options {
    struct store *store;     /* borrowed until core_free */
    const struct scan *scan; /* borrowed until core_free */
    struct gh_pool *pool;    /* borrowed until core_free */
    const char *home;        /* user's home folder or NULL; copied */
    const char *other_home;  /* a second one to guard alike, or NULL; copied */
    const char *config_dir;  /* copied */
    const char *config_file; /* a file named by hand, or NULL; copied */
    const char *state_dir;   /* copied */
    const char *runtime_dir; /* copied; or NULL */
    const char *version;     /* static */
};

/* Build, load what must outlive a restart (contract 3), start the clock thread. `config` is taken.
 * *ret is owned by caller (core_free). Fails with GH_CONFIG, GH_INVALID, GH_NOMEM, GH_IO. */
GH_MUST_USE enum gh_code core_new(const struct core_options *options, struct config **config,
                                  struct core **ret, struct gh_err *err);

/* Replace configuration and deny list; all or nothing. Pending approvals that the new rules refuse
 * are cancelled. `config` is taken on success. Fails as core_new. */
GH_MUST_USE enum gh_code core_reload(struct core *core, struct config **config, struct gh_err *err);

/* Note for the numbers that a reload failed before it came to core_reload. */
void core_reload_failed(struct core *core);

/* Answer everything that waits (202 for approvals that are kept, deny for the rest), close streams,
 * take nothing new. */
void core_stop(struct core *core);

/* Free after core_stop, and after the HTTP server is gone. NULL is fine. */
void core_free(struct core *core);

/* Close streams of a token that is no longer valid, and answer 401 to what it holds. */
void core_token_dropped(struct core *core, const char *token_id);

/* True for a token that core_token_dropped was told of: a request admitted before that moment,
 * whose body came after it, is refused. */
bool core_token_is_dropped(struct core *core, const char *token_id);

/* A dropped token is valid again. */
void core_token_restored(struct core *core, const char *token_id);

/* ---- sessions (contract 3) and tools (4) ---- */
void core_session_open(struct core *core, struct http_exchange *x, const struct auth_token *who);
void core_session_list(struct core *core, struct http_exchange *x, const struct auth_token *who);
void core_session_get(struct core *core, struct http_exchange *x, const struct auth_token *who,
                      const char *id);
void core_session_patch(struct core *core, struct http_exchange *x, const struct auth_token *who,
                        const char *id);
void core_session_end(struct core *core, struct http_exchange *x, const struct auth_token *who,
                      const char *id);
void core_tool_put(struct core *core, struct http_exchange *x, const struct auth_token *who,
                   const char *id, const char *name);
void core_tool_list(struct core *core, struct http_exchange *x, const struct auth_token *who,
                    const char *id);
void core_grant_list(struct core *core, struct http_exchange *x, const struct auth_token *who,
                     const char *id);
/* `grant_id` NULL: all grants of the session. */
void core_grant_revoke(struct core *core, struct http_exchange *x, const struct auth_token *who,
                       const char *id, const char *grant_id);

/* ---- decisions (contract 5) ---- */
void core_decide(struct core *core, struct http_exchange *x, const struct auth_token *who,
                 const char *session_id);
void core_decision_get(struct core *core, struct http_exchange *x, const struct auth_token *who,
                       const char *session_id, const char *id);
void core_outcome(struct core *core, struct http_exchange *x, const struct auth_token *who,
                  const char *session_id, const char *id);

/* ---- executions (contract 8) ---- */
void core_execute(struct core *core, struct http_exchange *x, const struct auth_token *who,
                  const char *session_id);
void core_execution_list(struct core *core, struct http_exchange *x, const struct auth_token *who,
                         const char *session_id);
void core_execution_get(struct core *core, struct http_exchange *x, const struct auth_token *who,
                        const char *id);
void core_execution_output(struct core *core, struct http_exchange *x, const struct auth_token *who,
                           const char *id);
void core_execution_input(struct core *core, struct http_exchange *x, const struct auth_token *who,
                          const char *id);
void core_execution_kill(struct core *core, struct http_exchange *x, const struct auth_token *who,
                         const char *id);

/* What commands get, for GET /v1/status: members of an object. */
void core_confinement_json(struct core *core, struct gh_jw *w);

/* ---- approvals (contract 6) ---- */
void core_approval_list(struct core *core, struct http_exchange *x, const struct auth_token *who);
void core_approval_get(struct core *core, struct http_exchange *x, const struct auth_token *who,
                       const char *id);
void core_approval_diff(struct core *core, struct http_exchange *x, const struct auth_token *who,
                        const char *id);
void core_approval_settle(struct core *core, struct http_exchange *x, const struct auth_token *who,
                          const char *id);
void core_approval_extend(struct core *core, struct http_exchange *x, const struct auth_token *who,
                          const char *id);
void core_approval_cancel(struct core *core, struct http_exchange *x, const struct auth_token *who,
                          const char *id);

/* ---- injection scan and taint (contract 9) ---- */
void core_scan(struct core *core, struct http_exchange *x, const struct auth_token *who,
               const char *session_id);
void core_taint_clear(struct core *core, struct http_exchange *x, const struct auth_token *who,
                      const char *session_id);

/* ---- events (contract 10) ---- */
void core_events(struct core *core, struct http_exchange *x, const struct auth_token *who);

/* ---- numbers for /metrics and /v1/status ---- */
struct core_numbers {
    uint64_t decisions[4][5]; /* by enum gate_decision and enum gate_by */
    uint64_t
        approvals[6];  /* settled, by state: allowed, allowed_always, denied, expired, cancelled */
    size_t n_sessions; /* active */
    size_t n_pending;
    size_t n_tainted;
    size_t n_streams;
    size_t n_executions; /* running */
    uint64_t n_events;
    uint64_t n_events_dropped; /* streams closed because their client was too slow */
    int64_t oldest_pending_ms; /* age; 0 when nothing waits */
    int64_t reload_ms;         /* wall clock of the last reload, 0 before the first */
    bool is_reload_ok;
};
void core_numbers(struct core *core, struct core_numbers *ret);

/* Append the effective configuration (contract: GET /v1/config) with the compiled deny list. */
void core_config_json(struct core *core, struct gh_buf *out);

/* Write one audit row about a request that was refused (authentication, Host, Origin). Not waited
 * for. */
void core_audit_refusal(struct core *core, struct http_exchange *x, const struct gh_err *why);

/* Write one audit row "auth" (login codes, logins) for `who`; not waited for. */
void core_audit_auth(struct core *core, struct http_exchange *x, const struct auth_token *who,
                     const char *what);

#endif
