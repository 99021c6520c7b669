#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/inner.h"

#define MAX_BATCH 4096
#define PROBE_MS 1000          /* how often an unwritable store is tried */
#define BUSY_MS 2000           /* how long a batch waits for another program's lock ... */
#define BUSY_AGAIN_MS 200      /* ... and while it is known to be held */
#define CHECKPOINT_FRAMES 1000 /* about 4 MiB */

int64_t store_now_ms(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void store_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t at_ms)
{
    struct timespec at = {.tv_sec = at_ms / 1000, .tv_nsec = at_ms % 1000 * 1000000};
    pthread_cond_timedwait(cond, lock, &at);
}

/* ---- steps ---- */

int store_writer_step(struct store_writer *writer, enum store_sql sql)
{
    return store_stmt_run(writer->stmts[sql]);
}

int store_writer_append(struct store *store, struct store_cells *cells)
{
    struct store_writer *writer = &store->writer;
    unsigned char hash[GH_SHA256];
    cells->seq = writer->head.seq + 1;
    if (!store_chain_hash(store->gateway, writer->head.hash, cells, &writer->scratch, hash)) {
        gh_buf_fini(&writer->scratch); /* or it stays failed */
        return SQLITE_NOMEM;
    }
    sqlite3_stmt *stmt = writer->stmts[STORE_SQL_AUDIT];
    sqlite3_bind_int64(stmt, 1, (int64_t)cells->seq);
    sqlite3_bind_int64(stmt, 2, cells->at_ms);
    sqlite3_bind_int64(stmt, 3, cells->part);
    for (int i = 0; i < STORE_N_TEXTS; i++) {
        store_stmt_text(stmt, STORE_AT_TEXTS + 1 + i, cells->text[i], cells->len[i]);
    }
    sqlite3_bind_blob(stmt, STORE_AT_HASH + 1, hash, GH_SHA256, SQLITE_STATIC);
    int rc = store_stmt_run(stmt);
    if (rc == SQLITE_OK) {
        writer->head.seq = cells->seq;
        memcpy(writer->head.hash, hash, sizeof hash);
    }
    return rc;
}

static int step_audit(struct store *store, const struct store_step *step, struct store_txn *txn)
{
    (void)txn;
    struct store_cells cells = {.at_ms = step->at_ms, .part = step->part};
    store_step_texts(step, STORE_N_TEXTS, cells.text);
    for (int i = 0; i < STORE_N_TEXTS; i++) {
        cells.len[i] = step->len[i];
    }
    return store_writer_append(store, &cells);
}

static int step_doc(struct store *store, const struct store_step *step, enum store_sql sql)
{
    sqlite3_stmt *stmt = store->writer.stmts[sql];
    const char *texts[STORE_N_DOC_TEXTS];
    store_step_texts(step, STORE_N_DOC_TEXTS, texts);
    sqlite3_bind_int(stmt, 1, step->doc_kind);
    sqlite3_bind_int64(stmt, 2, step->at_ms);
    for (int i = 0; i < STORE_N_DOC_TEXTS; i++) {
        store_stmt_text(stmt, 3 + i, texts[i], step->len[i]);
    }
    return store_stmt_run(stmt);
}

static int step_put(struct store *store, const struct store_step *step, struct store_txn *txn)
{
    (void)txn;
    return step_doc(store, step, STORE_SQL_PUT);
}

static int step_insert(struct store *store, const struct store_step *step, struct store_txn *txn)
{
    (void)txn;
    return step_doc(store, step, STORE_SQL_INSERT);
}

static int step_delete(struct store *store, const struct store_step *step, struct store_txn *txn)
{
    (void)txn;
    sqlite3_stmt *stmt = store->writer.stmts[STORE_SQL_DELETE];
    sqlite3_bind_int(stmt, 1, step->doc_kind);
    store_stmt_text(stmt, 3, step->text, step->len[0]);
    return store_stmt_run(stmt);
}

static int (*const steps[STORE_N_OPS])(struct store *store, const struct store_step *step,
                                       struct store_txn *txn) = {
    [STORE_OP_PUT] = step_put,           [STORE_OP_INSERT] = step_insert,
    [STORE_OP_DELETE] = step_delete,     [STORE_OP_AUDIT] = step_audit,
    [STORE_OP_PRUNE] = store_step_prune, [STORE_OP_EXPIRE] = store_step_expire,
};

/* ---- transactions ---- */

/* Take one transaction back out of the batch; the others stay. */
static int undo(struct store *store, struct store_txn *txn, const struct store_head *before,
                bool is_saved)
{
    txn->outcome = GH_AUDIT;
    store->writer.head = *before;
    if (!is_saved) {
        return SQLITE_OK; /* the insert was its only step, and undid itself */
    }
    int rc = store_writer_step(&store->writer, STORE_SQL_UNDO);
    return rc == SQLITE_OK ? store_writer_step(&store->writer, STORE_SQL_RELEASE) : rc;
}

/* Returns a SQLite code when the whole batch has to fail. */
static int run_txn(struct store *store, struct store_txn *txn)
{
    struct store_writer *writer = &store->writer;
    struct store_head before = writer->head;
    if (txn->failed) {
        txn->outcome = GH_AUDIT;
        return SQLITE_OK;
    }
    /* Only an insert can fail alone; a decision's row pays for no savepoint. */
    bool is_saved = txn->may_conflict && txn->n_steps > 1;
    int rc = is_saved ? store_writer_step(writer, STORE_SQL_SAVE) : SQLITE_OK;
    enum store_op op = STORE_OP_PUT;
    size_t at = 0;
    for (const struct store_step *step = store_txn_next(txn, &at); rc == SQLITE_OK && step != NULL;
         step = store_txn_next(txn, &at)) {
        op = step->op;
        rc = steps[op](store, step, txn);
    }
    if ((rc & 0xff) == SQLITE_CONSTRAINT && op == STORE_OP_INSERT) {
        return undo(store, txn, &before, is_saved);
    }
    return rc == SQLITE_OK && is_saved ? store_writer_step(writer, STORE_SQL_RELEASE) : rc;
}

static int run_all(struct store *store, struct store_txn *batch)
{
    int rc = store_writer_step(&store->writer, STORE_SQL_BEGIN);
    for (struct store_txn *txn = batch; rc == SQLITE_OK && txn != NULL; txn = txn->next) {
        rc = run_txn(store, txn);
    }
    return rc == SQLITE_OK ? store_writer_step(&store->writer, STORE_SQL_COMMIT) : rc;
}

int store_writer_probe(struct store_writer *writer)
{
    static const enum store_sql sqls[] = {STORE_SQL_BEGIN, STORE_SQL_PROBE, STORE_SQL_COMMIT};
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof sqls / sizeof sqls[0]; i++) {
        rc = store_writer_step(writer, sqls[i]);
    }
    if (rc != SQLITE_OK && sqlite3_get_autocommit(writer->db) == 0) {
        store_writer_step(writer, STORE_SQL_ROLLBACK);
    }
    return rc;
}

/* ---- health ---- */

void store_fail(struct store *store, const struct store_fault *fault)
{
    pthread_mutex_lock(&store->lock);
    struct store_health *health = &store->health;
    bool is_news = health->is_writable || strcmp(health->reason, fault->reason) != 0;
    health->is_writable = false;
    if (!health->is_damaged) {
        health->is_damaged = fault->is_damaged;
        memcpy(health->reason, fault->reason, sizeof health->reason);
    }
    pthread_mutex_unlock(&store->lock);
    if (is_news) {
        gh_log(GH_LOG_ERROR, fault->is_damaged ? "store_damaged" : "store_unwritable", "reason",
               fault->reason, NULL);
    }
}

void store_recover(struct store *store)
{
    pthread_mutex_lock(&store->lock);
    bool is_news = !store->health.is_writable && !store->health.is_damaged;
    if (is_news) {
        store->health.is_writable = true;
        store->health.reason[0] = '\0';
    }
    pthread_mutex_unlock(&store->lock);
    if (is_news) {
        gh_log(GH_LOG_INFO, "store_writable", "folder", store->dir, NULL);
    }
}

/* What a failed batch or probe says about the store, and what is to be done to the connection. */
static void fail_with(struct store *store, int rc)
{
    struct store_writer *writer = &store->writer;
    struct store_fault fault = {0};
    int primary = rc & 0xff;
    if (primary == SQLITE_CONSTRAINT) {
        store_blame(&fault, "another program wrote rows into the audit log; put a good copy back,"
                            " or move store.db* and audit.anchor away");
    } else {
        store_refuse(&fault, rc);
    }
    if (sqlite3_get_autocommit(writer->db) == 0) {
        store_writer_step(writer, STORE_SQL_ROLLBACK);
    }
    /* A full disk and a lock pass and leave the connection as it was; anything else may not. */
    if (primary != SQLITE_FULL && primary != SQLITE_BUSY) {
        store_writer_close(writer);
    }
    store_fail(store, &fault);
    if (primary == SQLITE_FULL) {
        pthread_mutex_lock(&store->lock);
        store->is_checkpoint_due = true; /* the log's space can be used anew */
        pthread_cond_signal(&store->chores);
        pthread_mutex_unlock(&store->lock);
    }
}

/* True when a batch may be tried: the connection is up and the files are where they were. */
static bool get_ready(struct store *store)
{
    struct store_fault fault = {0};
    pthread_mutex_lock(&store->lock);
    bool is_damaged = store->health.is_damaged;
    bool was_writable = store->health.is_writable;
    bool is_open = store->writer.db != NULL;
    bool is_in_place = !is_open || is_damaged || store_in_place(store, STORE_N_FILES, &fault);
    pthread_mutex_unlock(&store->lock);
    if (is_damaged) {
        return false;
    }
    if (!is_in_place || (!is_open && !store_setup(store, &fault))) {
        store_fail(store, &fault);
        return false;
    }
    sqlite3_busy_timeout(store->writer.db, was_writable ? BUSY_MS : BUSY_AGAIN_MS);
    return true;
}

/* ---- batches ---- */

static void take_note(struct store *store)
{
    const struct store_writer *writer = &store->writer;
    int64_t now_ms = gh_clock_wall_ms();
    pthread_mutex_lock(&store->lock);
    bool is_wake = writer->head.seq != store->head.seq && !store->is_anchor_due;
    store->is_anchor_due = store->is_anchor_due || is_wake;
    store->head = writer->head;
    store->health.n_rows = writer->head.seq;
    store->health.last_commit_ms = now_ms;
    store->health.n_commits++;
    if (writer->n_wal_frames >= CHECKPOINT_FRAMES && !store->is_checkpoint_due) {
        store->is_checkpoint_due = true;
        is_wake = true;
    }
    bool is_recovered = !store->health.is_writable;
    pthread_mutex_unlock(&store->lock);
    if (is_wake) {
        pthread_cond_signal(&store->chores);
    }
    if (is_recovered) {
        store_recover(store);
    }
}

static void commit_batch(struct store *store, struct store_txn *batch)
{
    bool is_ready = get_ready(store);
    store->writer.head = store->head; /* only this thread writes it */
    int rc = is_ready ? run_all(store, batch) : SQLITE_OK;
    if (is_ready && rc == SQLITE_OK) {
        take_note(store);
        return;
    }
    if (is_ready) {
        fail_with(store, rc);
    }
    for (struct store_txn *txn = batch; txn != NULL; txn = txn->next) {
        txn->outcome = GH_AUDIT;
    }
    pthread_mutex_lock(&store->lock);
    store->health.n_errors++;
    pthread_mutex_unlock(&store->lock);
}

static void answer(struct store_txn *batch)
{
    while (batch != NULL) {
        struct store_txn *next = batch->next;
        if (batch->done != NULL) {
            batch->done(batch->outcome, batch->cookie);
        }
        store_txn_free(batch);
        batch = next;
    }
}

static void try_again(struct store *store)
{
    if (!get_ready(store)) {
        return;
    }
    int rc = store_writer_probe(&store->writer);
    if (rc != SQLITE_OK) {
        fail_with(store, rc);
    } else {
        store_recover(store);
    }
}

/* Cut the queue behind MAX_BATCH and take its head. Lock held. */
static struct store_txn *take(struct store *store)
{
    struct store_txn *batch = store->first;
    struct store_txn *last = batch;
    for (int i = 1; i < MAX_BATCH && last->next != NULL; i++) {
        last = last->next;
    }
    store->first = last->next;
    if (store->first == NULL) {
        store->last = &store->first;
    }
    last->next = NULL;
    return batch;
}

enum duty { DUTY_BATCH, DUTY_PROBE, DUTY_END };

/* Wait for something to do. */
static enum duty next_duty(struct store *store, int64_t probe_at_ms, struct store_txn **ret)
{
    enum duty duty = DUTY_END;
    pthread_mutex_lock(&store->lock);
    store->is_in_batch = false;
    if (store->is_paused) {
        pthread_cond_broadcast(&store->rest);
    }
    for (;;) {
        bool is_sick = !store->health.is_writable && !store->health.is_damaged;
        if (!store->is_paused && store->first != NULL) {
            *ret = take(store);
            duty = DUTY_BATCH;
            break;
        }
        if (!store->is_paused && store->is_stopping) {
            break;
        }
        if (!store->is_paused && is_sick && store_now_ms() >= probe_at_ms) {
            duty = DUTY_PROBE;
            break;
        }
        store->is_writer_waiting = true;
        if (is_sick && !store->is_paused) {
            store_wait_until(&store->work, &store->lock, probe_at_ms);
        } else {
            pthread_cond_wait(&store->work, &store->lock);
        }
        store->is_writer_waiting = false;
    }
    store->is_in_batch = duty != DUTY_END;
    pthread_mutex_unlock(&store->lock);
    return duty;
}

void *store_writer_run(void *cookie)
{
    struct store *store = cookie;
    int64_t probe_at_ms = store_now_ms() + PROBE_MS;
    for (;;) {
        struct store_txn *batch = NULL;
        enum duty duty = next_duty(store, probe_at_ms, &batch);
        if (duty == DUTY_END) {
            return NULL;
        }
        if (duty == DUTY_BATCH) {
            commit_batch(store, batch);
            answer(batch);
        } else {
            try_again(store);
        }
        probe_at_ms = store_now_ms() + PROBE_MS;
    }
}
