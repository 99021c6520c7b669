#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "store/inner.h"

#define COLUMNS "id, session, ref, state, body, created_ms"
#define MAX_STATES 16

void store_row_fini(struct store_row *row)
{
    free(row->id);
    free(row->session);
    free(row->ref);
    free(row->state);
    free(row->body);
    *row = (struct store_row){0};
}

/* The row a SELECT of COLUMNS stands on; borrowed until its next step. */
static struct store_row borrow_row(sqlite3_stmt *stmt)
{
    return (struct store_row){
        .id = (char *)store_stmt_str(stmt, 0),
        .session = (char *)store_stmt_str(stmt, 1),
        .ref = (char *)store_stmt_str(stmt, 2),
        .state = (char *)store_stmt_str(stmt, 3),
        .body = (char *)store_stmt_str(stmt, 4),
        .created_ms = sqlite3_column_int64(stmt, 5),
    };
}

static enum gh_code copy_row(const struct store_row *row, struct store_row *ret, struct gh_err *err)
{
    struct store_row copy = {
        .id = strdup(row->id),
        .session = strdup(row->session),
        .ref = strdup(row->ref),
        .state = strdup(row->state),
        .body = strdup(row->body),
        .created_ms = row->created_ms,
    };
    if (copy.id == NULL || copy.session == NULL || copy.ref == NULL || copy.state == NULL ||
        copy.body == NULL) {
        store_row_fini(&copy);
        return gh_fail(err, GH_NOMEM, "There is not enough memory for a stored row.");
    }
    *ret = copy;
    return GH_OK;
}

/* Run a lookup whose first parameter is the kind and whose second is a text. */
static int find(sqlite3_stmt *stmt, enum store_kind kind, const char *key)
{
    sqlite3_bind_int(stmt, 1, (int)kind);
    store_stmt_text(stmt, 2, key, strlen(key));
    return sqlite3_step(stmt);
}

static enum gh_code get_one(struct store *store, const char *sql, enum store_kind kind,
                            const char *key, struct store_row *ret, struct gh_err *err)
{
    sqlite3 *db = NULL;
    GH_TRY(store_reader_get(store, &db, err));
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    rc = rc == SQLITE_OK ? find(stmt, kind, key) : rc;
    enum gh_code code = GH_OK;
    if (rc == SQLITE_ROW) {
        struct store_row row = borrow_row(stmt);
        code = copy_row(&row, ret, err);
    } else if (rc == SQLITE_DONE) {
        code = gh_fail(err, GH_NOT_FOUND, "There is no such thing in the store.");
    } else {
        code = store_read_failed(rc, err);
    }
    store_stmt_fini(&stmt);
    store_reader_put(store, db, rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc);
    return code;
}

enum gh_code store_get(struct store *store, enum store_kind kind, const char *id,
                       struct store_row *ret, struct gh_err *err)
{
    return get_one(store, "SELECT " COLUMNS " FROM doc WHERE kind = ?1 AND id = ?2", kind, id, ret,
                   err);
}

enum gh_code store_get_by_ref(struct store *store, enum store_kind kind, const char *ref,
                              struct store_row *ret, struct gh_err *err)
{
    return get_one(store,
                   "SELECT " COLUMNS " FROM doc WHERE kind = ?1 AND ref = ?2 AND ref <> ''"
                   " ORDER BY id DESC LIMIT 1",
                   kind, ref, ret, err);
}

/* Parameters 1 to 4 are kind, session, after and limit; the states follow. */
enum { AT_KIND = 1, AT_SESSION, AT_AFTER, AT_LIMIT, AT_STATES };

static void put_select(struct gh_buf *sql, const struct store_filter *filter, const char *state,
                       int at)
{
    gh_buf_puts(sql, "SELECT " COLUMNS " FROM doc WHERE kind = ?1");
    if (filter->session != NULL) {
        gh_buf_puts(sql, " AND session = ?2");
    }
    if (filter->after != NULL) {
        gh_buf_puts(sql, filter->newest_first ? " AND id < ?3" : " AND id > ?3");
    }
    if (state != NULL) {
        gh_buf_printf(sql, " AND state = ?%d", at);
    }
    /* The words that let the index over the non-empty ones be used. */
    if (state != NULL && state[0] != '\0') {
        gh_buf_puts(sql, " AND state <> ''");
    } else if (filter->session != NULL && filter->session[0] != '\0') {
        gh_buf_puts(sql, " AND session <> ''");
    }
}

/* One SELECT for each state, merged in order: each walks its own index and none is sorted. */
static size_t put_list(struct gh_buf *sql, const struct store_filter *filter)
{
    size_t n = 0;
    if (filter->states == NULL) {
        put_select(sql, filter, NULL, 0);
    } else {
        for (; n <= MAX_STATES && filter->states[n] != NULL; n++) {
            gh_buf_puts(sql, n > 0 ? " UNION ALL " : "");
            put_select(sql, filter, filter->states[n], AT_STATES + (int)n);
        }
    }
    gh_buf_printf(sql, " ORDER BY id %s LIMIT ?4", filter->newest_first ? "DESC" : "ASC");
    return n;
}

static void bind_optional(sqlite3_stmt *stmt, int at, const char *text)
{
    if (text != NULL) {
        store_stmt_text(stmt, at, text, strlen(text));
    }
}

static int walk(sqlite3_stmt *stmt, store_row_fn *fn, void *cookie)
{
    int rc = SQLITE_OK;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct store_row row = borrow_row(stmt);
        fn(&row, cookie);
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

enum gh_code store_list(struct store *store, enum store_kind kind,
                        const struct store_filter *filter, store_row_fn *fn, void *cookie,
                        struct gh_err *err)
{
    gh_auto(gh_buf_fini) struct gh_buf sql = GH_BUF_INIT;
    size_t n_states = put_list(&sql, filter);
    if (filter->states != NULL && n_states == 0) {
        return GH_OK;
    }
    if (n_states > MAX_STATES) {
        return gh_fail(err, GH_INVALID, "At most %d states can be asked for.", MAX_STATES);
    }
    if (sql.failed) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for a list.");
    }
    sqlite3 *db = NULL;
    GH_TRY(store_reader_get(store, &db, err));
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql.data, -1, &stmt, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_bind_int(stmt, AT_KIND, (int)kind);
        bind_optional(stmt, AT_SESSION, filter->session);
        bind_optional(stmt, AT_AFTER, filter->after);
        sqlite3_bind_int64(stmt, AT_LIMIT, (int64_t)filter->limit);
        for (size_t i = 0; i < n_states; i++) {
            bind_optional(stmt, AT_STATES + (int)i, filter->states[i]);
        }
        rc = walk(stmt, fn, cookie);
    }
    store_stmt_fini(&stmt);
    store_reader_put(store, db, rc);
    return rc == SQLITE_OK ? GH_OK : store_read_failed(rc, err);
}
