#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "store/inner.h"

#define PAGE_ROWS 1000
#define MAX_POINTS 2

/* Where the chain has to begin: behind what the newest `pruned` row says was removed. */
struct origin {
    uint64_t row;           /* that row, 0 when there is none */
    bool is_known;          /* it says where, in words that can be read */
    struct store_head head; /* the last removed row; zeros for a log that begins with row 1 */
};

struct walk {
    char gateway[GH_ID];
    struct gh_buf scratch;
    struct origin origin;
    struct store_head prev;
    struct store_head points[MAX_POINTS]; /* rows that are known from elsewhere */
    int n_points;
    struct store_verify *ret;
    bool is_suspect; /* the first row does not fit its origin: either may be the wrong one */
    uint64_t suspect;
    char suspicion[sizeof((struct store_verify){0}.reason)];
};

/* Name the first bad row. Returns false, to end the walk. */
static bool blame(struct walk *walk, uint64_t seq, const char *fmt, ...) GH_PRINTF(3, 4);

static bool blame(struct walk *walk, uint64_t seq, const char *fmt, ...)
{
    struct store_verify *ret = walk->ret;
    va_list args;
    va_start(args, fmt);
    vsnprintf(ret->reason, sizeof ret->reason, fmt, args);
    va_end(args);
    ret->bad_seq = seq;
    ret->is_ok = false;
    return false;
}

/* ---- the beginning ---- */

static bool read_origin(const char *body, struct origin *ret)
{
    gh_auto(gh_json_freep) struct json_t *root = NULL;
    const char *hash = NULL;
    int64_t through = 0;
    if (gh_json_parse(body, strlen(body), &root, NULL) != GH_OK ||
        gh_json_int(root, "", "through_seq", GH_NEED, 1, INT64_MAX, &through, NULL) != GH_OK ||
        gh_json_str(root, "", "through_hash", GH_NEED, GH_HEX - 1, &hash, NULL) != GH_OK) {
        return false;
    }
    ret->head.seq = (uint64_t)through;
    return store_hash_parse(hash, ret->head.hash);
}

static int find_origin(struct walk *walk, sqlite3 *db)
{
    gh_auto(store_stmt_fini) sqlite3_stmt *stmt = NULL;
    int rc = store_conn_prepare(db,
                                "SELECT seq, body FROM audit WHERE kind = 'pruned'"
                                " ORDER BY seq DESC LIMIT 1",
                                &stmt);
    rc = rc == SQLITE_OK ? sqlite3_step(stmt) : rc;
    walk->origin.is_known = true;
    if (rc == SQLITE_ROW) {
        walk->origin.row = (uint64_t)sqlite3_column_int64(stmt, 0);
        walk->origin.is_known = read_origin(store_stmt_str(stmt, 1), &walk->origin);
    }
    walk->prev = walk->origin.head;
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- rows ---- */

/* Hold a flaw of the first row back: what is wrong may be the row that says where to begin. */
static void suspect(struct walk *walk, uint64_t seq, const char *why)
{
    walk->is_suspect = true;
    walk->suspect = seq;
    snprintf(walk->suspicion, sizeof walk->suspicion, "%s", why);
}

/* True when what broke the chain is, or was, the row that says where the log begins. */
static bool is_origin(const struct walk *walk, const struct store_cells *cells)
{
    bool is_gap = cells->seq != walk->prev.seq + 1;
    const char *body = cells->text[STORE_N_TEXTS - 1];
    return is_gap ? walk->origin.row == 0 && (int64_t)walk->prev.seq > 0
                  : cells->seq == walk->origin.row || strstr(body, "through_seq") != NULL;
}

static bool check_first(struct walk *walk, const struct store_cells *cells, bool is_hash_good)
{
    uint64_t expected = walk->origin.head.seq + 1;
    walk->ret->first_seq = cells->seq;
    if (cells->seq != expected) {
        bool is_back = cells->seq >= 1 && cells->seq < expected;
        suspect(walk, is_back ? cells->seq : expected,
                "rows are missing (or came back) at the beginning of the log, and no pruned row"
                " accounts for it");
    } else if (!is_hash_good) {
        suspect(walk, cells->seq, "the row was changed: its content does not yield its hash");
    }
    return true;
}

static bool check_next(struct walk *walk, const struct store_cells *cells, bool is_hash_good)
{
    bool is_gap = cells->seq != walk->prev.seq + 1;
    if (!is_gap && is_hash_good) {
        return true;
    }
    if (walk->is_suspect && !is_origin(walk, cells)) {
        return blame(walk, walk->suspect, "%s", walk->suspicion);
    }
    return is_gap ? blame(walk, walk->prev.seq + 1, "the row is missing")
                  : blame(walk, cells->seq,
                          "the row was changed: its content does not yield its hash");
}

static bool check_points(struct walk *walk, const struct store_head *row)
{
    for (int i = 0; i < walk->n_points; i++) {
        const struct store_head *point = &walk->points[i];
        if (point->seq == row->seq && memcmp(point->hash, row->hash, GH_SHA256) != 0) {
            return blame(walk, row->seq,
                         "the row is not the one that audit.anchor knows: the log was rewritten");
        }
    }
    return true;
}

/* Returns false when the walk is over. */
static bool check_row(struct walk *walk, sqlite3_stmt *stmt)
{
    struct store_cells cells;
    struct store_head row;
    unsigned char hash[GH_SHA256];
    bool is_typed = store_cells_read(stmt, &cells);
    is_typed = store_hash_read(stmt, row.hash) && is_typed;
    row.seq = cells.seq;
    if (!store_chain_hash(walk->gateway, walk->prev.hash, &cells, &walk->scratch, hash)) {
        return blame(walk, cells.seq, "there was not enough memory to check this row");
    }
    bool is_hash_good = is_typed && memcmp(hash, row.hash, sizeof hash) == 0;
    bool is_first = walk->ret->n_checked == 0;
    walk->ret->last_seq = cells.seq;
    walk->ret->n_checked++;
    if (!(is_first ? check_first : check_next)(walk, &cells, is_hash_good) ||
        (!walk->is_suspect && !check_points(walk, &row))) {
        return false;
    }
    walk->prev = row;
    return true;
}

/* *is_end is set when there are no more rows or the walk is over. */
static int check_page(struct walk *walk, sqlite3_stmt *stmt, bool *is_end)
{
    int64_t after = walk->ret->n_checked > 0 ? (int64_t)walk->prev.seq : INT64_MIN;
    sqlite3_bind_int64(stmt, 1, after);
    sqlite3_bind_int(stmt, 2, PAGE_ROWS);
    int n = 0;
    int rc = SQLITE_OK;
    while (!*is_end && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        *is_end = !check_row(walk, stmt);
        n++;
    }
    sqlite3_reset(stmt);
    *is_end = *is_end || n < PAGE_ROWS;
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int check_rows(struct walk *walk, sqlite3 *db)
{
    gh_auto(store_stmt_fini) sqlite3_stmt *stmt = NULL;
    int rc = store_conn_prepare(db,
                                "SELECT " STORE_AUDIT_COLUMNS " FROM audit WHERE seq > ?1"
                                " ORDER BY seq LIMIT ?2",
                                &stmt);
    bool is_end = false;
    while (rc == SQLITE_OK && !is_end) {
        rc = check_page(walk, stmt, &is_end);
    }
    return rc;
}

/* ---- the end ---- */

static void check_end(struct walk *walk)
{
    struct store_verify *ret = walk->ret;
    if (ret->reason[0] != '\0') {
        return;
    }
    if (walk->is_suspect) {
        blame(walk, walk->suspect, "%s", walk->suspicion);
        return;
    }
    for (int i = 0; i < walk->n_points; i++) {
        if (walk->points[i].seq > walk->prev.seq) {
            blame(walk, walk->prev.seq + 1,
                  "the end of the log was cut: %llu rows were written, it ends at row %llu",
                  (unsigned long long)walk->points[i].seq, (unsigned long long)walk->prev.seq);
            return;
        }
    }
    ret->is_ok = true;
}

/* Take the anchor as a known row. It is read before the rows are, so it never lies behind. */
static void take_anchor(struct walk *walk, int dir_fd)
{
    struct store_anchor anchor;
    struct gh_err err = {0};
    enum gh_code code = store_anchor_read(dir_fd, &anchor, &err);
    if (code == GH_NOT_FOUND) {
        blame(walk, 0, "audit.anchor is missing: a cut end would go unseen");
    } else if (code != GH_OK) {
        blame(walk, 0, "%.190s", err.detail);
    } else if (strcmp(anchor.gateway, walk->gateway) != 0) {
        blame(walk, 0, "audit.anchor belongs to another log");
    } else {
        walk->points[walk->n_points++] = anchor.head;
    }
}

/* *ret_rc is SQLite's verdict on the file. */
static enum gh_code run(struct walk *walk, sqlite3 *db, int *ret_rc, struct gh_err *err)
{
    struct store_verify *ret = walk->ret;
    char doubt[sizeof ret->reason];
    memcpy(doubt, ret->reason, sizeof doubt);
    ret->reason[0] = '\0';
    int rc = find_origin(walk, db);
    rc = rc == SQLITE_OK ? check_rows(walk, db) : rc;
    *ret_rc = rc;
    if (store_conn_is_corrupt(rc) && ret->n_checked > 0) {
        blame(walk, walk->prev.seq + 1, "the database is damaged here and cannot be read on");
    } else if (rc != SQLITE_OK) {
        return store_read_failed(rc, err);
    }
    check_end(walk);
    if (ret->is_ok && doubt[0] != '\0') { /* a bad row says more than a bad anchor */
        blame(walk, 0, "%s", doubt);
    }
    gh_id_hex(walk->prev.hash, ret->last_hash);
    return GH_OK;
}

/* ---- entry ---- */

enum gh_code store_verify(struct store *store, struct store_verify *ret, struct gh_err *err)
{
    *ret = (struct store_verify){0};
    struct walk walk = {.ret = ret};
    pthread_rwlock_rdlock(&store->pruning);
    pthread_mutex_lock(&store->lock);
    memcpy(walk.gateway, store->gateway, sizeof walk.gateway);
    walk.points[walk.n_points++] = store->head;
    pthread_mutex_unlock(&store->lock);
    take_anchor(&walk, store->dir_fd);
    sqlite3 *db = NULL;
    enum gh_code code = store_reader_get(store, &db, err);
    if (code == GH_OK) {
        int rc = SQLITE_OK;
        code = run(&walk, db, &rc, err);
        store_reader_put(store, db, rc);
    }
    pthread_rwlock_unlock(&store->pruning);
    gh_buf_fini(&walk.scratch);
    return code;
}

static int open_dir(const char *path, int dir_fd, sqlite3 **ret)
{
    struct stat st;
    bool has_log = fstatat(dir_fd, STORE_WAL_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0;
    return store_conn_open(path, has_log ? STORE_USE_READ : STORE_USE_FROZEN, ret);
}

static int read_gateway(sqlite3 *db, char ret[GH_ID])
{
    gh_auto(store_stmt_fini) sqlite3_stmt *stmt = NULL;
    int rc = store_conn_prepare(db, "SELECT value FROM meta WHERE key = 'gateway'", &stmt);
    rc = rc == SQLITE_OK ? sqlite3_step(stmt) : rc;
    if (rc == SQLITE_ROW) {
        snprintf(ret, GH_ID, "%s", store_stmt_str(stmt, 0));
    }
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* For gh_auto. */
static void end_walk(struct walk *walk)
{
    gh_buf_fini(&walk->scratch);
}

static bool is_absent(int dir_fd, const char *name)
{
    return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

enum gh_code store_verify_dir(const char *dir, struct store_verify *ret, struct gh_err *err)
{
    *ret = (struct store_verify){0};
    gh_autoclose int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    gh_autofree char *path = NULL;
    if (dir_fd < 0) {
        return gh_fail(err, GH_IO, "The folder %.200s cannot be opened: %s.", dir, strerror(errno));
    }
    if (is_absent(dir_fd, STORE_DB_NAME) && is_absent(dir_fd, STORE_ANCHOR_NAME)) {
        return gh_fail(err, GH_NOT_FOUND, "There is no record in %.200s yet.", dir);
    }
    if (asprintf(&path, "%s/" STORE_DB_NAME, dir) < 0) {
        path = NULL;
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    gh_auto(end_walk) struct walk walk = {.ret = ret};
    gh_auto(store_conn_close) sqlite3 *db = NULL;
    int rc = open_dir(path, dir_fd, &db);
    rc = rc == SQLITE_OK ? read_gateway(db, walk.gateway) : rc;
    if (rc != SQLITE_OK) {
        return store_read_failed(rc, err);
    }
    take_anchor(&walk, dir_fd);
    /* One snapshot: a service that does run may prune meanwhile. */
    rc = store_conn_exec(db, "BEGIN");
    return rc == SQLITE_OK ? run(&walk, db, &rc, err) : store_read_failed(rc, err);
}
