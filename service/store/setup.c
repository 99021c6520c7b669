#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/inner.h"

#define APPLICATION_ID 0x67617465 /* "gate" in the file's header */
#define N_TAIL 64                 /* rows whose hashes are checked at every start */
#define SMALL_BYTES (16 << 20)    /* up to here the whole file is checked before the start */
#define WAL_BYTES (8 << 20)       /* written ahead, so that a commit overwrites allocated blocks */
#define MOVE_AWAY "put a good copy back, or move store.db* and audit.anchor away to start a new log"

/* Raised by one row for each change of the schema; never edited afterwards. */
static const char *const migrations[] = {
    "CREATE TABLE meta(key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE doc(kind INTEGER NOT NULL, id TEXT NOT NULL, session TEXT NOT NULL,"
    " ref TEXT NOT NULL, state TEXT NOT NULL, created_ms INTEGER NOT NULL, body TEXT NOT NULL,"
    " UNIQUE(kind, id)) STRICT;"
    "CREATE INDEX doc_session ON doc(kind, session, id) WHERE session <> '';"
    "CREATE INDEX doc_state ON doc(kind, state, id) WHERE state <> '';"
    "CREATE INDEX doc_ref ON doc(kind, ref, id) WHERE ref <> '';"
    "CREATE INDEX doc_idempotency ON doc(created_ms) WHERE kind = 3;"
    /* Columns that filters look at come first: a row is walked past without reading its body. */
    "CREATE TABLE audit(seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, part INTEGER NOT NULL,"
    " kind TEXT NOT NULL, session TEXT NOT NULL, ref TEXT NOT NULL, tool TEXT NOT NULL,"
    " action TEXT NOT NULL, decision TEXT NOT NULL, \"by\" TEXT NOT NULL, code TEXT NOT NULL,"
    " mode TEXT NOT NULL, principal TEXT NOT NULL, peer TEXT NOT NULL, agent TEXT NOT NULL,"
    " trace_id TEXT NOT NULL, hash BLOB NOT NULL, body TEXT NOT NULL) STRICT;"
    "CREATE INDEX audit_ref ON audit(ref) WHERE ref <> '';"
    "CREATE INDEX audit_pruned ON audit(seq) WHERE kind = 'pruned';",
};
#define VERSION ((int64_t)(sizeof migrations / sizeof migrations[0]))

static const char *const statements[STORE_N_SQL] = {
    [STORE_SQL_BEGIN] = "BEGIN IMMEDIATE",
    [STORE_SQL_COMMIT] = "COMMIT",
    [STORE_SQL_ROLLBACK] = "ROLLBACK",
    [STORE_SQL_SAVE] = "SAVEPOINT one",
    [STORE_SQL_RELEASE] = "RELEASE one",
    [STORE_SQL_UNDO] = "ROLLBACK TO one",
    [STORE_SQL_PUT] =
        "INSERT INTO doc(kind, created_ms, id, session, ref, state, body)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT(kind, id) DO UPDATE SET"
        " created_ms = excluded.created_ms, session = excluded.session, ref = excluded.ref,"
        " state = excluded.state, body = excluded.body",
    [STORE_SQL_INSERT] = "INSERT INTO doc(kind, created_ms, id, session, ref, state, body)"
                         " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [STORE_SQL_DELETE] = "DELETE FROM doc WHERE kind = ?1 AND id = ?3",
    [STORE_SQL_AUDIT] = "INSERT INTO audit(" STORE_AUDIT_COLUMNS ")"
                        " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18)",
    [STORE_SQL_PROBE] = "INSERT INTO meta(key, value) VALUES('probe', hex(randomblob(8)))"
                        " ON CONFLICT(key) DO UPDATE SET value = excluded.value",
    [STORE_SQL_FIRST] = "SELECT min(seq) FROM audit",
    [STORE_SQL_KEPT] = "SELECT seq FROM audit WHERE seq <= ?1 AND at_ms >= ?2 ORDER BY seq LIMIT 1",
    [STORE_SQL_HASH] = "SELECT hash FROM audit WHERE seq = ?1",
    [STORE_SQL_CUT] = "DELETE FROM audit WHERE seq <= ?1",
    [STORE_SQL_EXPIRE] = "DELETE FROM doc WHERE rowid IN (SELECT rowid FROM doc WHERE kind = 3"
                         " AND created_ms < ?1 ORDER BY created_ms LIMIT ?2)",
};

/* One setting-up, from look to end. */
struct attempt {
    struct store *store;
    struct store_writer *writer;
    struct store_fault *fault;
    struct store_anchor anchor;
    struct store_head head;
    char gateway[GH_ID];
    bool has_anchor;
    bool is_again;    /* the store was up before */
    off_t size_bytes; /* of store.db; 0 when there is none */
};

bool store_refuse(struct store_fault *fault, int rc)
{
    if (store_conn_is_corrupt(rc)) {
        return store_blame(fault, "the database is damaged (%d); " MOVE_AWAY, rc);
    }
    store_conn_reason(rc, fault->reason);
    return false;
}

bool store_blame(struct store_fault *fault, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(fault->reason, sizeof fault->reason, fmt, args);
    va_end(args);
    fault->is_damaged = true;
    return false;
}

/* A failure that may pass by itself. */
static bool wait_for(struct store_fault *fault, const char *what)
{
    snprintf(fault->reason, sizeof fault->reason, "%s: %s", what, strerror(errno));
    return false;
}

/* ---- files ---- */

static bool identify(const struct store *store, int n_files, struct store_file ret[])
{
    static const char *const names[STORE_N_FILES] = {STORE_DB_NAME, STORE_WAL_NAME};
    for (int i = 0; i < n_files; i++) {
        struct stat st;
        if (fstatat(store->dir_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) != 0) {
            return false;
        }
        ret[i] = (struct store_file){.dev = st.st_dev, .ino = st.st_ino};
    }
    return true;
}

bool store_in_place(struct store *store, int n_files, struct store_fault *fault)
{
    struct store_file now[STORE_N_FILES];
    bool is_same = identify(store, n_files, now);
    for (int i = 0; is_same && i < n_files; i++) {
        is_same = now[i].dev == store->files[i].dev && now[i].ino == store->files[i].ino;
    }
    if (!is_same) {
        snprintf(fault->reason, sizeof fault->reason,
                 "store.db or store.db-wal was removed or replaced while the service runs;"
                 " put it back or restart the service");
    }
    return is_same;
}

static bool look_at_anchor(struct attempt *a)
{
    struct gh_err err = {0};
    enum gh_code code = store_anchor_read(a->store->dir_fd, &a->anchor, &err);
    a->has_anchor = code == GH_OK;
    if (code != GH_OK && code != GH_NOT_FOUND) {
        return store_blame(a->fault, "%.160s; move it away to accept the log as it is", err.detail);
    }
    return true;
}

static bool look_at_database(struct attempt *a)
{
    struct stat st = {0};
    if (fstatat(a->store->dir_fd, STORE_DB_NAME, &st, AT_SYMLINK_NOFOLLOW) != 0 &&
        errno != ENOENT) {
        return wait_for(a->fault, "store.db cannot be looked at");
    }
    if (st.st_mode != 0 && !S_ISREG(st.st_mode)) {
        return store_blame(a->fault, "store.db is not a regular file; move it away");
    }
    if (st.st_mode != 0 && (st.st_mode & 077) != 0 &&
        fchmodat(a->store->dir_fd, STORE_DB_NAME, 0600, 0) != 0) {
        return wait_for(a->fault, "store.db is open to others and its mode cannot be changed");
    }
    a->size_bytes = st.st_size;
    return true;
}

/* SQLite gives the files beside it the mode of this one, so it is made here, before SQLite can
 * make it with the umask's. */
static bool make_file(struct attempt *a)
{
    int dir_fd = a->store->dir_fd;
    gh_autoclose int fd =
        openat(dir_fd, STORE_DB_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || fchmod(fd, 0600) != 0 || fsync(dir_fd) != 0) {
        return wait_for(a->fault, "store.db cannot be made");
    }
    return true;
}

/* A log that is missing is not a fresh start: somebody would lose what was decided. */
static bool look(struct attempt *a)
{
    if (!look_at_anchor(a) || !look_at_database(a)) {
        return false;
    }
    if (a->size_bytes > 0) {
        return true;
    }
    if (a->is_again || a->has_anchor) {
        return store_blame(a->fault,
                           "store.db is missing or empty but audit.anchor says that %llu"
                           " rows were written; put it back, or move audit.anchor away"
                           " to start a new log",
                           (unsigned long long)a->anchor.head.seq);
    }
    return make_file(a);
}

/* Write zeros behind the log's end: SQLite takes them for the rest of an older log, and a sync
 * need not commit a new file size each time. Not done where it would take a notable part of the
 * disk. */
static void preallocate(const struct store *store)
{
    gh_autoclose int fd = openat(store->dir_fd, STORE_WAL_NAME, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    struct statvfs disk;
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || fstatvfs(fd, &disk) != 0 ||
        (unsigned long long)disk.f_bavail * disk.f_frsize < 64ULL * WAL_BYTES) {
        return;
    }
    static const char zeros[64 * 1024];
    for (off_t at = st.st_size; at < WAL_BYTES;) {
        off_t left = WAL_BYTES - at;
        size_t len = left < (off_t)sizeof zeros ? (size_t)left : sizeof zeros;
        ssize_t n = pwrite(fd, zeros, len, at);
        if (n <= 0) {
            return;
        }
        at += n;
    }
    if (fdatasync(fd) != 0) {
        return; /* the next commit tells */
    }
}

/* ---- schema ---- */

static int migrate(sqlite3 *db, int64_t from)
{
    gh_auto(gh_buf_fini) struct gh_buf sql = GH_BUF_INIT;
    char gateway[GH_ID];
    gh_id_new("gwy", gateway);
    gh_buf_puts(&sql, "BEGIN IMMEDIATE;");
    for (int64_t i = from; i < VERSION; i++) {
        gh_buf_puts(&sql, migrations[i]);
    }
    gh_buf_printf(&sql,
                  "INSERT OR IGNORE INTO meta(key, value) VALUES('gateway', 'gw_%s');"
                  "PRAGMA application_id=%d; PRAGMA user_version=%lld; COMMIT;",
                  gateway + 4, APPLICATION_ID, (long long)VERSION);
    if (sql.failed) {
        return SQLITE_NOMEM;
    }
    int rc = store_conn_exec(db, sql.data);
    if (rc != SQLITE_OK && sqlite3_get_autocommit(db) == 0) {
        store_conn_exec(db, "ROLLBACK");
    }
    return rc;
}

/* The numbers that say whose database it is. */
struct shape {
    int64_t n_objects, application, version, n_active;
};

static int read_shape(sqlite3 *db, struct shape *ret)
{
    static const struct {
        const char *sql;
        size_t at;
    } numbers[] = {
        {"SELECT count(*) FROM sqlite_schema", offsetof(struct shape, n_objects)},
        {"PRAGMA application_id", offsetof(struct shape, application)},
        {"PRAGMA user_version", offsetof(struct shape, version)},
        {"SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')",
         offsetof(struct shape, n_active)},
    };
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof numbers / sizeof numbers[0]; i++) {
        int64_t value = 0;
        rc = store_conn_int(db, numbers[i].sql, &value);
        memcpy((char *)ret + numbers[i].at, &value, sizeof value);
    }
    return rc;
}

static bool check_schema(struct attempt *a)
{
    sqlite3 *db = a->writer->db;
    struct shape shape = {0};
    int rc = read_shape(db, &shape);
    if (rc != SQLITE_OK) {
        return store_refuse(a->fault, rc);
    }
    bool is_fresh = shape.n_objects == 0 && !a->has_anchor;
    if (!is_fresh && shape.application != APPLICATION_ID) {
        return store_blame(a->fault, "store.db is not a database of this service; " MOVE_AWAY);
    }
    if (shape.version > VERSION) {
        return store_blame(a->fault, "store.db was written by a newer version; run that one");
    }
    if (shape.n_active > 0) {
        return store_blame(a->fault, "store.db holds triggers or views that this service did not"
                                     " make; " MOVE_AWAY);
    }
    if (!store_conn_says(db, "PRAGMA journal_mode=WAL", "wal")) {
        return store_refuse(a->fault, sqlite3_errcode(db) != SQLITE_OK
                                          ? sqlite3_extended_errcode(db)
                                          : SQLITE_READONLY);
    }
    rc = shape.version < VERSION ? migrate(db, shape.version) : SQLITE_OK;
    return rc == SQLITE_OK || store_refuse(a->fault, rc);
}

static bool prepare_all(struct attempt *a)
{
    for (int i = 0; i < STORE_N_SQL; i++) {
        int rc = store_conn_prepare(a->writer->db, statements[i], &a->writer->stmts[i]);
        if (rc == SQLITE_ERROR) {
            return store_blame(a->fault, "store.db lacks tables or columns; " MOVE_AWAY);
        }
        if (rc != SQLITE_OK) {
            return store_refuse(a->fault, rc);
        }
    }
    return true;
}

/* ---- content ---- */

static bool check_pages(struct attempt *a)
{
    if (a->is_again || a->size_bytes > SMALL_BYTES ||
        store_conn_says(a->writer->db, "PRAGMA quick_check(1)", "ok")) {
        return true;
    }
    int rc = sqlite3_errcode(a->writer->db);
    bool is_verdict = rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE;
    return store_refuse(a->fault, is_verdict ? SQLITE_CORRUPT : rc);
}

static bool load_gateway(struct attempt *a)
{
    gh_auto(store_stmt_fini) sqlite3_stmt *stmt = NULL;
    int rc =
        store_conn_prepare(a->writer->db, "SELECT value FROM meta WHERE key = 'gateway'", &stmt);
    rc = rc == SQLITE_OK ? sqlite3_step(stmt) : rc;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        return store_refuse(a->fault, rc);
    }
    snprintf(a->gateway, sizeof a->gateway, "%s", rc == SQLITE_ROW ? store_stmt_str(stmt, 0) : "");
    if (strncmp(a->gateway, "gw_", 3) != 0) {
        return store_blame(a->fault, "store.db has lost its gateway id; " MOVE_AWAY);
    }
    /* Told at once: a log that turns out to be broken below can still be read and verified. */
    pthread_mutex_lock(&a->store->lock);
    memcpy(a->store->gateway, a->gateway, sizeof a->gateway);
    pthread_mutex_unlock(&a->store->lock);
    return true;
}

/* One row of the tail behind *prev. The oldest is only taken up, unless it is the log's first. */
static bool follow(struct attempt *a, sqlite3_stmt *stmt, struct store_head *prev, bool is_first)
{
    struct store_cells cells;
    unsigned char stored[GH_SHA256];
    unsigned char hash[GH_SHA256];
    bool is_good = store_cells_read(stmt, &cells) && store_hash_read(stmt, stored);
    bool is_checked = !is_first || cells.seq == 1;
    if (is_checked && is_good) {
        if (!store_chain_hash(a->gateway, prev->hash, &cells, &a->writer->scratch, hash)) {
            return store_refuse(a->fault, SQLITE_NOMEM);
        }
        is_good = cells.seq == prev->seq + 1 && memcmp(hash, stored, sizeof hash) == 0;
    }
    if (!is_good) {
        return store_blame(a->fault,
                           "the audit log is broken at row %llu; put a good copy back, or"
                           " move store.db* and audit.anchor away",
                           (unsigned long long)cells.seq);
    }
    prev->seq = cells.seq;
    memcpy(prev->hash, stored, sizeof stored);
    return true;
}

/* The chain is taken up at the newest row; the rows before it are checked as far as costs nothing.
 */
static bool load_head(struct attempt *a)
{
    gh_auto(store_stmt_fini) sqlite3_stmt *stmt = NULL;
    int rc = store_conn_prepare(a->writer->db,
                                "SELECT " STORE_AUDIT_COLUMNS " FROM audit WHERE seq >"
                                " (SELECT max(seq) FROM audit) - ?1 ORDER BY seq",
                                &stmt);
    if (rc == SQLITE_OK) {
        sqlite3_bind_int(stmt, 1, N_TAIL);
        for (bool is_first = true; (rc = sqlite3_step(stmt)) == SQLITE_ROW; is_first = false) {
            if (!follow(a, stmt, &a->head, is_first)) {
                return false;
            }
        }
    }
    return rc == SQLITE_DONE || store_refuse(a->fault, rc);
}

/* The log must still hold what it is known to have held. */
static bool check_point(struct attempt *a, const struct store_head *point, const char *whose)
{
    if (point->seq == 0) {
        return true;
    }
    if (point->seq > a->head.seq) {
        return store_blame(a->fault,
                           "the audit log ends at row %llu, %s says %llu: it was cut or an"
                           " older copy was put back; restore the right one, or move"
                           " audit.anchor away to accept it",
                           (unsigned long long)a->head.seq, whose, (unsigned long long)point->seq);
    }
    sqlite3_stmt *stmt = a->writer->stmts[STORE_SQL_HASH];
    sqlite3_bind_int64(stmt, 1, (int64_t)point->seq);
    int rc = sqlite3_step(stmt);
    bool is_gone = rc == SQLITE_DONE; /* pruned since; verify tells whether rightly */
    bool is_same = rc == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == GH_SHA256 &&
                   memcmp(sqlite3_column_blob(stmt, 0), point->hash, GH_SHA256) == 0;
    sqlite3_reset(stmt);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        return store_refuse(a->fault, rc);
    }
    return is_gone || is_same ||
           store_blame(a->fault,
                       "row %llu of the audit log is not the one %s knows: the log was"
                       " rewritten or replaced; restore the right one, or move"
                       " audit.anchor away to accept it",
                       (unsigned long long)point->seq, whose);
}

static bool check_anchor(struct attempt *a)
{
    if (a->is_again && !check_point(a, &a->store->head, "the running service")) {
        return false;
    }
    if (a->has_anchor && strcmp(a->anchor.gateway, a->gateway) != 0) {
        return store_blame(a->fault,
                           "audit.anchor belongs to another log (%s, not %s); put the"
                           " files of one log back together",
                           a->anchor.gateway, a->gateway);
    }
    return !a->has_anchor || check_point(a, &a->anchor.head, "audit.anchor");
}

/* A log with rows but no anchor: a person took it away (told to, above), or somebody who wants a
 * cut to go unseen. It is accepted, and the log says so itself. */
static void note_renewal(struct attempt *a)
{
    gh_log(GH_LOG_WARN, "audit_anchor_renewed", "folder", a->store->dir, NULL);
    struct store_txn *txn = store_txn_new();
    if (txn == NULL) {
        return;
    }
    char body[96];
    snprintf(body, sizeof body, "{\"event\":\"anchor_renewed\",\"rows\":%llu}",
             (unsigned long long)a->head.seq);
    store_txn_audit(txn, &(struct store_audit){
                             .kind = "anchor",
                             .at_ms = gh_clock_wall_ms(),
                             .session = "",
                             .ref = "",
                             .tool = "",
                             .action = "",
                             .decision = "",
                             .by = "system",
                             .code = "",
                             .mode = "",
                             .principal = "",
                             .peer = "",
                             .agent = "",
                             .trace_id = "",
                             .body = body,
                         });
    store_commit(a->store, &txn, NULL, NULL);
}

/* ---- all of it ---- */

static bool open_database(struct attempt *a)
{
    int rc = store_conn_open(a->store->path, STORE_USE_WRITE, &a->writer->db);
    if (rc != SQLITE_OK) {
        return store_refuse(a->fault, rc);
    }
    return check_schema(a) && prepare_all(a) && check_pages(a) && load_gateway(a) && load_head(a) &&
           check_anchor(a);
}

static int remember_frames(void *cookie, sqlite3 *db, const char *name, int n_frames)
{
    (void)db;
    (void)name;
    ((struct store_writer *)cookie)->n_wal_frames = n_frames;
    return SQLITE_OK;
}

/* The anchor comes before the first row, so that "no anchor" always means that one was removed. */
static bool finish(struct attempt *a)
{
    struct store *store = a->store;
    sqlite3_wal_hook(a->writer->db, remember_frames, a->writer);
    int rc = store_writer_probe(a->writer);
    if (rc != SQLITE_OK) {
        return store_refuse(a->fault, rc);
    }
    preallocate(store);
    struct gh_err err = {0};
    struct store_anchor anchor = {.head = a->head};
    memcpy(anchor.gateway, a->gateway, sizeof anchor.gateway);
    if (!a->has_anchor && !a->is_again &&
        store_anchor_write(store->dir_fd, &store->anchor_fd, &anchor, true, &err) != GH_OK) {
        snprintf(a->fault->reason, sizeof a->fault->reason, "%.200s", err.detail);
        return false;
    }
    struct store_file files[STORE_N_FILES];
    if (!identify(store, STORE_N_FILES, files)) {
        return wait_for(a->fault, "store.db vanished");
    }
    pthread_mutex_lock(&store->lock);
    memcpy(store->files, files, sizeof files);
    store->head = a->head;
    store->health.n_rows = a->head.seq;
    store->was_up = true;
    pthread_mutex_unlock(&store->lock);
    if (!a->has_anchor && !a->is_again && a->head.seq > 0) {
        note_renewal(a);
    }
    return true;
}

bool store_setup(struct store *store, struct store_fault *fault)
{
    struct attempt a = {
        .store = store, .writer = &store->writer, .fault = fault, .is_again = store->was_up};
    if (a.is_again) {
        pthread_mutex_lock(&store->lock);
        /* The log beside it may have gone with the last connection. */
        bool is_in_place = store_in_place(store, 1, fault);
        pthread_mutex_unlock(&store->lock);
        if (!is_in_place) {
            return false;
        }
    }
    if (look(&a) && open_database(&a) && finish(&a)) {
        return true;
    }
    store_writer_close(a.writer);
    return false;
}

void store_writer_close(struct store_writer *writer)
{
    for (int i = 0; i < STORE_N_SQL; i++) {
        store_stmt_fini(&writer->stmts[i]);
    }
    store_conn_close(&writer->db);
}
