/* store: what must outlive the process. SQLite ends here; nothing outside knows SQL.
 *
 * Two kinds of content: documents (sessions, approvals, idempotency keys: an id, a few indexed
 * fields and a JSON body the domain owns) and the audit log (append-only rows, hash-chained).
 * Writes are collected in a transaction object by any thread, queued, and made durable together by
 * one writer thread (group commit: a batch is all that was queued while the last one was synced).
 * The outcome is told by callback, after the disk has it. Reads use connections of their own and
 * see committed rows only.
 *
 * Fail closed: a store that cannot write (disk full, read-only, locked, damaged, replaced under
 * us) fails every transaction with GH_AUDIT, says so in store_health, keeps trying, and recovers by
 * itself. A damaged or missing database is never silently recreated: the file is left aside and
 * the store stays unwritable until a person resolves it.
 *
 * Threads: any. Callbacks run on the writer thread, outside the store's locks; they must not block.
 */
#ifndef GH_STORE_STORE_H
#define GH_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"

struct store;
struct store_txn;

enum store_kind {
    STORE_SESSION = 1,
    STORE_APPROVAL = 2,
    STORE_IDEMPOTENCY = 3,
    STORE_GRANT = 4,
    STORE_META = 5
};

struct store_doc {
    enum store_kind kind;
    const char *id;      /* primary key within the kind; at most 400 bytes */
    const char *session; /* session id, or "" */
    const char *ref;     /* a second key to find it by (an approval's decision id), or "" */
    const char *state;   /* the domain's word, or "" */
    int64_t created_ms;  /* wall clock */
    const char *body;    /* JSON */
};

struct store_audit {
    const char *kind; /* "decision", "approval", "session", "mode", "taint", "auth", "note", "scan",
                         "pruned", ... */
    int64_t at_ms;    /* wall clock */
    const char *session;   /* or "" */
    const char *ref;       /* id of what the row is about (dec_..., apr_..., ses_...), or "" */
    int part;              /* part of a decision, from 0 */
    const char *tool;      /* or "" */
    const char *action;    /* or "" */
    const char *decision;  /* allow, allow_always, deny, ask, or "" */
    const char *by;        /* rule, grant, person, timeout, system, or "" */
    const char *code;      /* or "" */
    const char *mode;      /* the session's mode when it was judged, or "" */
    const char *principal; /* token name and id, or "" */
    const char *peer;      /* http_peer.text, or "" */
    const char *agent;     /* User-Agent as sent, or "" */
    const char *trace_id;  /* or "" */
    const char *body;      /* JSON object with everything else, exact text; or "{}" */
};

/* The transaction's outcome: GH_OK when durable, GH_AUDIT when not (then nothing of it exists). */
typedef void store_done_fn(enum gh_code code, void *cookie);

struct store_options {
    const char *dir;     /* folder (exists, ours, 0700); copied */
    int64_t retain_days; /* audit rows older than this are pruned; 0: never */
};

struct store_health {
    bool is_writable;       /* the last commit or probe succeeded */
    bool is_damaged;        /* opened, but the content cannot be trusted; a person must act */
    char reason[256];       /* why not writable, "" when it is */
    int64_t last_commit_ms; /* wall clock of the newest commit, 0 before the first */
    uint64_t n_rows;        /* audit rows, pruned ones included */
    uint64_t n_errors;      /* failed commits since the start */
    uint64_t n_commits;     /* commits since the start */
};

/* Open or create the database in `options->dir`, take the writer lock (a second service on the
 * same folder is refused with GH_CONFLICT), check integrity, start the writer. A fresh database is
 * made only when the anchor file is absent too. An unusable database still opens: *ret is set,
 * store_health says what is wrong, writes fail. *ret is owned by caller (store_close).
 * Fails with GH_CONFLICT, GH_NOMEM, GH_IO (the folder). */
GH_MUST_USE enum gh_code store_open(const struct store_options *options, struct store **ret,
                                    struct gh_err *err);

/* Commit what is queued, stop, close. NULL is fine. */
void store_close(struct store *store);

/* A snapshot of the state. */
void store_health(struct store *store, struct store_health *ret);

/* ---- writing ---- */

/* A fresh, empty transaction, or NULL (no memory). Handed to store_commit or store_txn_free. */
GH_MUST_USE struct store_txn *store_txn_new(void);
void store_txn_free(struct store_txn *txn);

/* Add one step; all strings are copied. No memory marks the transaction failed: store_commit then
 * reports GH_AUDIT. */
void store_txn_put(struct store_txn *txn, const struct store_doc *doc); /* insert or replace */
void store_txn_insert(struct store_txn *txn,
                      const struct store_doc *doc); /* fails when it exists */
void store_txn_delete(struct store_txn *txn, enum store_kind kind, const char *id);
void store_txn_audit(struct store_txn *txn, const struct store_audit *row);

/* Queue; takes `txn`. `done` (may be NULL) is called exactly once, on the writer thread (or at once
 * on the caller's when the store is closing). Transactions become durable, and audit rows get their
 * numbers, in the order of the calls. Each transaction is all or nothing by itself: one that fails
 * (a duplicate insert) does not take the others of its batch with it. */
void store_commit(struct store *store, struct store_txn **txn, store_done_fn *done, void *cookie);

/* The same, waiting for the outcome. For start-up and tests, never on an HTTP thread. */
GH_MUST_USE enum gh_code store_commit_wait(struct store *store, struct store_txn **txn,
                                           struct gh_err *err);

/* ---- reading (blocks on the disk; every function fails with GH_IO when it cannot be read) ---- */

/* A document read back: strings owned by it, freed with store_row_fini. */
struct store_row {
    char *id, *session, *ref, *state, *body;
    int64_t created_ms;
};
void store_row_fini(struct store_row *row);

/* One document by id. Fails with GH_NOT_FOUND. */
GH_MUST_USE enum gh_code store_get(struct store *store, enum store_kind kind, const char *id,
                                   struct store_row *ret, struct gh_err *err);

/* One document by its second key. Fails with GH_NOT_FOUND. */
GH_MUST_USE enum gh_code store_get_by_ref(struct store *store, enum store_kind kind,
                                          const char *ref, struct store_row *ret,
                                          struct gh_err *err);

struct store_filter {
    const char *session;       /* exact, or NULL */
    const char *const *states; /* NULL-ended list, any of; or NULL */
    bool newest_first;         /* by id, which sorts by creation */
    const char *after;         /* id of the last row of the page before, or NULL */
    size_t limit;              /* rows at most */
};

/* Call `fn` for each row of a page; `row` is borrowed for the call. */
typedef void store_row_fn(const struct store_row *row, void *cookie);
GH_MUST_USE enum gh_code store_list(struct store *store, enum store_kind kind,
                                    const struct store_filter *filter, store_row_fn *fn,
                                    void *cookie, struct gh_err *err);

struct store_audit_filter {
    const char *session, *action, *decision, *by, *tool, *ref, *kind; /* exact, or NULL */
    const char *text; /* substring of the body, or NULL */
    int64_t since_ms; /* wall clock, inclusive; 0: no bound */
    int64_t until_ms; /* wall clock, exclusive; 0: no bound */
    bool newest_first;
    uint64_t after; /* seq of the last row of the page before; 0: from the start */
    size_t limit;   /* rows at most; 0: no limit (export) */
};

struct store_audit_row {
    uint64_t seq;           /* from 1, without gaps */
    const char *gateway;    /* id of this store, "gw_..." */
    struct store_audit row; /* as written; borrowed for the call */
    char hash[GH_HEX];      /* chain hash */
};

/* Return false to stop. */
typedef bool store_audit_fn(const struct store_audit_row *row, void *cookie);
GH_MUST_USE enum gh_code store_audit_list(struct store *store,
                                          const struct store_audit_filter *filter,
                                          store_audit_fn *fn, void *cookie, struct gh_err *err);

/* Append one audit row as a JSON object on one line (no newline): seq, gateway, at, kind, session,
 * ref, part, tool, action, decision, by, code, mode, principal, peer, agent, trace_id, body (as an
 * object), hash. The form of lists and of the NDJSON export. */
void store_audit_json(const struct store_audit_row *row, struct gh_buf *out);

struct store_verify {
    bool is_ok;
    uint64_t n_checked; /* rows walked */
    uint64_t first_seq; /* first row present (behind a pruned prefix) */
    uint64_t last_seq;
    uint64_t bad_seq; /* first bad row; 0 when none */
    char reason[200]; /* what is wrong with it, "" when nothing */
    char last_hash[GH_HEX];
};

/* Walk the whole chain and compare with the anchor. GH_OK with ret->is_ok = false for a broken
 * chain; fails with GH_IO when it cannot be read at all. The chain has no key: somebody who may
 * write the folder can rewrite rows and anchor together, and that is not found (but by a copy of
 * an older last_hash). */
GH_MUST_USE enum gh_code store_verify(struct store *store, struct store_verify *ret,
                                      struct gh_err *err);

/* The same for a folder no service runs on (read-only; used by the CLI). Fails with GH_NOT_FOUND
 * too: there is neither a database nor an anchor. */
GH_MUST_USE enum gh_code store_verify_dir(const char *dir, struct store_verify *ret,
                                          struct gh_err *err);

/* Remove audit rows older than `before_ms`, as far as no younger one lies before them, behind a
 * chained `pruned` row ({"through_seq","through_hash","rows","before_ms"}). A long prefix goes in
 * steps, each a prefix behind a row of its own, so that commits are not held up. Blocks; waits for
 * a verification to end. Fails with GH_AUDIT or GH_NOMEM; what the steps before removed stays so.
 */
GH_MUST_USE enum gh_code store_prune(struct store *store, int64_t before_ms, uint64_t *ret_n,
                                     struct gh_err *err);

#endif
