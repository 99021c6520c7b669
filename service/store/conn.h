/* conn: one SQLite connection, opened and hardened the way the store needs it.
 *
 * Return values named `rc` are SQLite's result codes. A connection belongs to one thread at a time.
 */
#ifndef GH_STORE_CONN_H
#define GH_STORE_CONN_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_REASON 256 /* bytes of a sentence for a person, with the NUL */

enum store_use {
    STORE_USE_WRITE,  /* read and write, commits are synced */
    STORE_USE_READ,   /* reads a database somebody may be writing */
    STORE_USE_FROZEN, /* reads a database nobody writes; makes no file beside it */
};

/* Open `path`, which must exist and not be a link. *ret is owned by caller (store_conn_close); NULL
 * unless SQLITE_OK is returned. */
int store_conn_open(const char *path, enum store_use use, sqlite3 **ret);

/* Close and set to NULL; a NULL connection is fine. */
void store_conn_close(sqlite3 **db);

/* For gh_auto. */
void store_stmt_fini(sqlite3_stmt **stmt);

/* Run statements that return nothing of interest. */
int store_conn_exec(sqlite3 *db, const char *sql);

/* The integer a one-row statement yields; *ret is untouched when there is no row. */
int store_conn_int(sqlite3 *db, const char *sql, int64_t *ret);

/* True when the one-row statement yields exactly `text`. */
bool store_conn_says(sqlite3 *db, const char *sql, const char *text);

/* Compile a statement that is kept. *ret is owned by caller (store_stmt_fini). */
int store_conn_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret);

/* One step and a reset; SQLITE_OK instead of SQLITE_DONE and SQLITE_ROW. */
int store_stmt_run(sqlite3_stmt *stmt);

/* Bind text the statement may use in place until its next step. */
void store_stmt_text(sqlite3_stmt *stmt, int at, const char *text, size_t len);

/* The text of a column: never NULL; borrowed until the next step. */
const char *store_stmt_str(sqlite3_stmt *stmt, int column);

/* Why `rc` stops the store, in words that say what a person can do. */
void store_conn_reason(int rc, char out[STORE_REASON]);

/* True when `rc` means that the content cannot be trusted. */
bool store_conn_is_corrupt(int rc);

#endif
