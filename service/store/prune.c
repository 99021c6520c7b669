#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "store/inner.h"

#define STEP_ROWS 5000 /* removed in one transaction, so that nobody waits long behind it */

/* The rows one prune step removes. */
struct prefix {
    int64_t first, last;           /* empty when last < first */
    unsigned char hash[GH_SHA256]; /* of `last` */
};

/* Everything before the first row that is young enough: a clock that was set back for a while
 * makes rows stay longer, never a hole. */
static int find_prefix(struct store_writer *writer, int64_t before_ms, struct prefix *ret)
{
    sqlite3_stmt *first = writer->stmts[STORE_SQL_FIRST];
    int rc = sqlite3_step(first);
    ret->first = rc == SQLITE_ROW ? sqlite3_column_int64(first, 0) : 0;
    sqlite3_reset(first);
    ret->last = ret->first + STEP_ROWS - 1;
    if (ret->last > (int64_t)writer->head.seq) {
        ret->last = (int64_t)writer->head.seq;
    }
    if (rc != SQLITE_ROW || ret->first == 0) {
        ret->last = ret->first - 1;
        return rc == SQLITE_ROW ? SQLITE_OK : rc;
    }
    sqlite3_stmt *kept = writer->stmts[STORE_SQL_KEPT];
    sqlite3_bind_int64(kept, 1, ret->last);
    sqlite3_bind_int64(kept, 2, before_ms);
    rc = sqlite3_step(kept);
    if (rc == SQLITE_ROW) {
        ret->last = sqlite3_column_int64(kept, 0) - 1;
    }
    sqlite3_reset(kept);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int read_hash(struct store_writer *writer, struct prefix *prefix)
{
    sqlite3_stmt *stmt = writer->stmts[STORE_SQL_HASH];
    sqlite3_bind_int64(stmt, 1, prefix->last);
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == GH_SHA256) {
        memcpy(prefix->hash, sqlite3_column_blob(stmt, 0), GH_SHA256);
    } else {
        rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_CORRUPT : rc; /* a hole */
    }
    sqlite3_reset(stmt);
    return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int append_pruned(struct store *store, const struct prefix *prefix, int64_t before_ms)
{
    char hash[GH_HEX];
    char body[256];
    gh_id_hex(prefix->hash, hash);
    snprintf(body, sizeof body,
             "{\"through_seq\":%lld,\"through_hash\":\"%s\",\"rows\":%lld,\"before_ms\":%lld}",
             (long long)prefix->last, hash, (long long)(prefix->last - prefix->first + 1),
             (long long)before_ms);
    struct store_cells cells = {.at_ms = gh_clock_wall_ms()};
    for (int i = 0; i < STORE_N_TEXTS; i++) {
        cells.text[i] = i == 0                                                       ? "pruned"
                        : store_audit_texts[i] == offsetof(struct store_audit, by)   ? "system"
                        : store_audit_texts[i] == offsetof(struct store_audit, body) ? body
                                                                                     : "";
        cells.len[i] = strlen(cells.text[i]);
    }
    return store_writer_append(store, &cells);
}

int store_step_prune(struct store *store, const struct store_step *step, struct store_txn *txn)
{
    struct store_writer *writer = &store->writer;
    struct prefix prefix = {0};
    int rc = find_prefix(writer, step->at_ms, &prefix);
    if (rc != SQLITE_OK || prefix.last < prefix.first) {
        return rc;
    }
    rc = read_hash(writer, &prefix);
    if (rc == SQLITE_OK) {
        sqlite3_bind_int64(writer->stmts[STORE_SQL_CUT], 1, prefix.last);
        rc = store_writer_step(writer, STORE_SQL_CUT);
    }
    *txn->n_removed = (uint64_t)(prefix.last - prefix.first + 1);
    return rc == SQLITE_OK ? append_pruned(store, &prefix, step->at_ms) : rc;
}

int store_step_expire(struct store *store, const struct store_step *step, struct store_txn *txn)
{
    struct store_writer *writer = &store->writer;
    sqlite3_stmt *stmt = writer->stmts[STORE_SQL_EXPIRE];
    sqlite3_bind_int64(stmt, 1, step->at_ms);
    sqlite3_bind_int64(stmt, 2, STEP_ROWS);
    int rc = store_stmt_run(stmt);
    *txn->n_removed = (uint64_t)sqlite3_changes64(writer->db);
    return rc;
}

/* Run one kind of upkeep, a bounded step at a time, until nothing is left for it. */
static enum gh_code run_steps(struct store *store, enum store_op op, int64_t before_ms,
                              uint64_t *ret_n, struct gh_err *err)
{
    uint64_t n = STEP_ROWS;
    *ret_n = 0;
    while (n == STEP_ROWS) {
        n = 0;
        struct store_txn *txn = store_txn_new();
        if (txn == NULL) {
            return gh_fail(err, GH_NOMEM, "There is not enough memory.");
        }
        store_txn_upkeep(txn, op, before_ms, &n);
        GH_TRY(store_commit_wait(store, &txn, err));
        *ret_n += n;
    }
    return GH_OK;
}

enum gh_code store_expire(struct store *store, int64_t before_ms, struct gh_err *err)
{
    uint64_t n = 0;
    return run_steps(store, STORE_OP_EXPIRE, before_ms, &n, err);
}

enum gh_code store_prune(struct store *store, int64_t before_ms, uint64_t *ret_n,
                         struct gh_err *err)
{
    pthread_rwlock_wrlock(&store->pruning);
    enum gh_code code = run_steps(store, STORE_OP_PRUNE, before_ms, ret_n, err);
    pthread_rwlock_unlock(&store->pruning);
    return code;
}
