/* inner: what the files of this module share. Nobody outside includes it.
 *
 * Three threads: the writer owns `writer` and runs transactions; the keeper copies the write-ahead
 * log back, writes the anchor and does the hourly upkeep; the checker runs once over a large
 * database and ends. `lock` guards the fields below it; nothing that syncs is done under it.
 */
#ifndef GH_STORE_INNER_H
#define GH_STORE_INNER_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/anchor.h"
#include "store/chain.h"
#include "store/conn.h"
#include "store/store.h"
#include "store/txn.h"

#define STORE_DB_NAME "store.db"
#define STORE_WAL_NAME "store.db-wal"
#define STORE_LOCK_NAME "store.lock"
#define STORE_N_FILES 2
#define STORE_N_READERS 4

enum store_sql {
    STORE_SQL_BEGIN,
    STORE_SQL_COMMIT,
    STORE_SQL_ROLLBACK,
    STORE_SQL_SAVE,
    STORE_SQL_RELEASE,
    STORE_SQL_UNDO,
    STORE_SQL_PUT,
    STORE_SQL_INSERT,
    STORE_SQL_DELETE,
    STORE_SQL_AUDIT,
    STORE_SQL_PROBE,
    STORE_SQL_FIRST,
    STORE_SQL_KEPT,
    STORE_SQL_HASH,
    STORE_SQL_CUT,
    STORE_SQL_EXPIRE,
    STORE_N_SQL
};

/* Why the store cannot be written. */
struct store_fault {
    bool is_damaged; /* for good: a person must act */
    char reason[STORE_REASON];
};

/* The one connection that writes, and its compiled statements. */
struct store_writer {
    sqlite3 *db; /* NULL while the store could not be opened */
    sqlite3_stmt *stmts[STORE_N_SQL];
    struct gh_buf scratch;  /* a serialised row */
    struct store_head head; /* newest row of the batch in work */
    int n_wal_frames;       /* length of the write-ahead log after the last commit */
};

/* Which file a name led to when it was opened. */
struct store_file {
    dev_t dev;
    ino_t ino;
};

struct store_readers {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    sqlite3 *idle[STORE_N_READERS];
    size_t n_idle, n_open;
};

struct store {
    char *dir, *path; /* folder; its store.db */
    int dir_fd, lock_fd;
    int64_t retain_days;

    struct store_writer writer; /* the writer's, and store_open's before it starts */
    int anchor_fd;              /* the keeper's, likewise */
    sqlite3 *keeper_db;         /* the keeper's; NULL until the first checkpoint */
    struct store_readers readers;
    pthread_rwlock_t pruning; /* held for writing while rows are removed, so that no verify sees
                                 the start of the chain move */
    pthread_t writer_thread, keeper_thread, checker_thread;
    bool has_writer, has_keeper, has_checker;

    pthread_mutex_t lock;
    pthread_cond_t work;   /* the writer waits: transactions, end of a pause, stop */
    pthread_cond_t rest;   /* the writer is between batches; the checker is done */
    pthread_cond_t chores; /* the keeper waits: something is due, stop */
    struct store_txn *first, **last;
    bool is_writer_waiting;
    bool is_in_batch;
    bool is_paused; /* the keeper keeps the writer from starting a batch */
    bool is_stopping;
    bool is_anchor_due;
    bool is_checkpoint_due;
    bool was_up; /* the database was opened once; from then on only the same file will do */
    struct store_file files[STORE_N_FILES];
    sqlite3 *checker_db; /* to be interrupted on stop */
    char gateway[GH_ID];
    struct store_head head; /* newest durable row */
    struct store_health health;
};

/* ---- setup.c ---- */

/* From a folder to a writer that may append: create or open the database, check it, take up the
 * chain, prove that it can be written. Called by the writer, and by store_open before it runs.
 * Returns false with *fault set. */
bool store_setup(struct store *store, struct store_fault *fault);

/* Close the writer's connection. */
void store_writer_close(struct store_writer *writer);

/* Fill *fault from a SQLite code. Returns false, for `return store_refuse(...)`. */
bool store_refuse(struct store_fault *fault, int rc);

/* Fill *fault for content that cannot be trusted. Returns false. */
bool store_blame(struct store_fault *fault, const char *fmt, ...) GH_PRINTF(2, 3);

/* True when the first `n_files` names (the database, its log) still lead to the files that were
 * opened. Lock held. */
bool store_in_place(struct store *store, int n_files, struct store_fault *fault);

/* ---- writer.c ---- */

/* The writer thread; the cookie is the store. */
void *store_writer_run(void *cookie);

/* Run one statement of the writer. */
int store_writer_step(struct store_writer *writer, enum store_sql sql);

/* Append one row to the chain, within the open batch. */
int store_writer_append(struct store *store, struct store_cells *cells);

/* Commit a small change, to learn whether the disk takes it. */
int store_writer_probe(struct store_writer *writer);

/* Take note that the store cannot be written. */
void store_fail(struct store *store, const struct store_fault *fault);

/* Take note that it can. */
void store_recover(struct store *store);

/* ---- prune.c: steps of the writer ---- */

int store_step_prune(struct store *store, const struct store_step *step, struct store_txn *txn);
int store_step_expire(struct store *store, const struct store_step *step, struct store_txn *txn);

/* Remove idempotency keys written before `before_ms`. */
GH_MUST_USE enum gh_code store_expire(struct store *store, int64_t before_ms, struct gh_err *err);

/* ---- keeper.c ---- */

/* The thread of checkpoints, anchor and pruning; the cookie is the store. */
void *store_keeper_run(void *cookie);

/* The thread that checks the whole file once after the start; the cookie is the store. */
void *store_checker_run(void *cookie);

/* Write the anchor if rows came since. */
void store_keep_anchor(struct store *store, bool is_synced);

/* ---- read.c ---- */

/* A reader of the pool; waits for one. Given back with store_reader_put. Fails with GH_IO. */
GH_MUST_USE enum gh_code store_reader_get(struct store *store, sqlite3 **ret, struct gh_err *err);

/* Give back; after a failure (`rc`) it is closed instead. Damage that a reader meets stops the
 * writer too. */
void store_reader_put(struct store *store, sqlite3 *db, int rc);

/* Fill *err for a read that failed. */
enum gh_code store_read_failed(int rc, struct gh_err *err);

/* Milliseconds on the clock that store's timed waits use, and a wait until then. */
int64_t store_now_ms(void);
void store_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t at_ms);

#endif
