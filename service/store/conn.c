#include "store/conn.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"

/* A person's `path` as a URI: what SQLite would read as a query, a fragment or an escape is
 * escaped. */
static void put_uri(struct gh_buf *out, const char *path, const char *query)
{
    gh_buf_puts(out, "file:");
    for (const char *s = path; *s != '\0'; s++) {
        if (*s == '?' || *s == '#' || *s == '%') {
            gh_buf_printf(out, "%%%02x", (unsigned char)*s);
        } else {
            gh_buf_putc(out, *s);
        }
    }
    gh_buf_puts(out, query);
}

/* The file may have been prepared by somebody else: no trigger or view of theirs runs, no schema of
 * theirs is believed. */
static int harden(sqlite3 *db)
{
    static const struct {
        int option, value;
    } settings[] = {
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0}, {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_DQS_DML, 0},        {SQLITE_DBCONFIG_DQS_DDL, 0},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        int rc = sqlite3_db_config(db, settings[i].option, settings[i].value, NULL);
        if (rc != SQLITE_OK) {
            return rc;
        }
    }
    return SQLITE_OK;
}

static int configure(sqlite3 *db, enum store_use use)
{
    /* No automatic checkpoint: inside a commit it is the p99. No size limit: a log that is cut
     * back has to grow again, and then every sync also commits the new size. */
    static const char *const pragmas[] = {
        [STORE_USE_WRITE] = "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0;"
                            "PRAGMA journal_size_limit=-1; PRAGMA cache_size=-8000;"
                            "PRAGMA temp_store=MEMORY; PRAGMA cell_size_check=ON;",
        [STORE_USE_READ] = "PRAGMA query_only=ON; PRAGMA temp_store=MEMORY;"
                           "PRAGMA cell_size_check=ON;",
        [STORE_USE_FROZEN] = "PRAGMA query_only=ON; PRAGMA temp_store=MEMORY;"
                             "PRAGMA cell_size_check=ON;",
    };
    sqlite3_extended_result_codes(db, 1);
    sqlite3_busy_timeout(db, 2000);
    int rc = harden(db);
    return rc != SQLITE_OK ? rc : store_conn_exec(db, pragmas[use]);
}

int store_conn_open(const char *path, enum store_use use, sqlite3 **ret)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_URI;
    flags |= use == STORE_USE_WRITE ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    gh_auto(gh_buf_fini) struct gh_buf uri = GH_BUF_INIT;
    put_uri(&uri, path, use == STORE_USE_FROZEN ? "?immutable=1" : "");
    if (uri.failed) {
        return SQLITE_NOMEM;
    }
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(uri.data, &db, flags, NULL);
    if (rc == SQLITE_OK) {
        rc = configure(db, use);
    }
    if (rc != SQLITE_OK) {
        store_conn_close(&db);
    }
    *ret = db;
    return rc;
}

void store_conn_close(sqlite3 **db)
{
    sqlite3_close_v2(gh_steal(db));
}

void store_stmt_fini(sqlite3_stmt **stmt)
{
    sqlite3_finalize(gh_steal(stmt));
}

int store_conn_exec(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

int store_conn_int(sqlite3 *db, const char *sql, int64_t *ret)
{
    gh_auto(store_stmt_fini) sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK) {
        return rc;
    }
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        *ret = sqlite3_column_int64(stmt, 0);
    }
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

bool store_conn_says(sqlite3 *db, const char *sql, const char *text)
{
    gh_auto(store_stmt_fini) sqlite3_stmt *stmt = NULL;
    return sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
           sqlite3_step(stmt) == SQLITE_ROW && strcmp(store_stmt_str(stmt, 0), text) == 0;
}

int store_conn_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret)
{
    return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);
}

int store_stmt_run(sqlite3_stmt *stmt)
{
    int rc = sqlite3_step(stmt);
    int end = sqlite3_reset(stmt);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? end : rc;
}

void store_stmt_text(sqlite3_stmt *stmt, int at, const char *text, size_t len)
{
    sqlite3_bind_text64(stmt, at, text, len, SQLITE_STATIC, SQLITE_UTF8);
}

const char *store_stmt_str(sqlite3_stmt *stmt, int column)
{
    const unsigned char *text = sqlite3_column_text(stmt, column);
    return text != NULL ? (const char *)text : "";
}

bool store_conn_is_corrupt(int rc)
{
    int primary = rc & 0xff;
    return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB;
}

void store_conn_reason(int rc, char out[STORE_REASON])
{
    static const struct {
        int rc;
        const char *text;
    } reasons[] = {
        {SQLITE_FULL, "the disk is full; free some space"},
        {SQLITE_BUSY, "another program holds the database's lock; end it"},
        {SQLITE_LOCKED, "another program holds the database's lock; end it"},
        {SQLITE_READONLY, "the database is read-only; make store.db and its folder writable"},
        {SQLITE_PERM, "the database may not be opened; check its owner and mode"},
        {SQLITE_AUTH, "the database may not be opened; check its owner and mode"},
        {SQLITE_CANTOPEN, "the database cannot be opened; check the state folder's owner and mode,"
                          " the free space and the limit of open files"},
        {SQLITE_IOERR, "the disk failed or refused a write; check free space, quota and the"
                       " kernel's log"},
        {SQLITE_NOMEM, "there is not enough memory"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i].rc == (rc & 0xff)) {
            snprintf(out, STORE_REASON, "%s (%d)", reasons[i].text, rc);
            return;
        }
    }
    snprintf(out, STORE_REASON, "%s (%d)", sqlite3_errstr(rc), rc);
}
