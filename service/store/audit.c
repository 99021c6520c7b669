#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "store/inner.h"

#define PAGE_ROWS 1000
#define PAGE_BYTES ((size_t)1 << 20)
#define WINDOW_ROWS 20000 /* looked at in one read transaction when few of them match */

/* Filters that are one exact text. */
static const struct {
    size_t at; /* in struct store_audit_filter */
    const char *sql;
} exact[] = {
    {offsetof(struct store_audit_filter, session), " AND session = ?"},
    {offsetof(struct store_audit_filter, action), " AND action = ?"},
    {offsetof(struct store_audit_filter, decision), " AND decision = ?"},
    {offsetof(struct store_audit_filter, by), " AND \"by\" = ?"},
    {offsetof(struct store_audit_filter, tool), " AND tool = ?"},
    {offsetof(struct store_audit_filter, ref), " AND ref <> '' AND ref = ?"},
    {offsetof(struct store_audit_filter, kind), " AND kind = ?"},
    {offsetof(struct store_audit_filter, text), " AND instr(body, ?) > 0"},
};
#define N_EXACT (sizeof exact / sizeof exact[0])

/* A row copied out of the database; its texts follow, each with its NUL. */
struct packed {
    uint64_t seq;
    int64_t at_ms;
    int part;
    size_t size; /* with texts and padding */
    size_t len[STORE_N_TEXTS];
    unsigned char hash[GH_SHA256];
};

/* One list, page after page. Rows are copied and the read transaction is over before the caller
 * sees them: a slow reader of an export holds neither the log nor a connection. */
struct listing {
    struct store *store;
    const struct store_audit_filter *filter;
    struct gh_buf sql;
    struct gh_buf page;
    char gateway[GH_ID];
    int64_t low, high; /* what is left to look at, both inclusive */
    size_t left;       /* rows still wanted */
};

static const char *filter_text(const struct store_audit_filter *filter, size_t i)
{
    const char *text = NULL;
    memcpy(&text, (const char *)filter + exact[i].at, sizeof text);
    return text;
}

static void put_sql(struct listing *list)
{
    gh_buf_puts(&list->sql, "SELECT " STORE_AUDIT_COLUMNS " FROM audit WHERE seq BETWEEN ? AND ?");
    for (size_t i = 0; i < N_EXACT; i++) {
        if (filter_text(list->filter, i) != NULL) {
            gh_buf_puts(&list->sql, exact[i].sql);
        }
    }
    gh_buf_puts(&list->sql, list->filter->since_ms != 0 ? " AND at_ms >= ?" : "");
    gh_buf_puts(&list->sql, list->filter->until_ms != 0 ? " AND at_ms < ?" : "");
    gh_buf_puts(&list->sql, list->filter->newest_first ? " ORDER BY seq DESC" : " ORDER BY seq");
}

static void bind(const struct listing *list, sqlite3_stmt *stmt, int64_t low, int64_t high)
{
    int at = 0;
    sqlite3_bind_int64(stmt, ++at, low);
    sqlite3_bind_int64(stmt, ++at, high);
    for (size_t i = 0; i < N_EXACT; i++) {
        const char *text = filter_text(list->filter, i);
        if (text != NULL) {
            store_stmt_text(stmt, ++at, text, strlen(text));
        }
    }
    if (list->filter->since_ms != 0) {
        sqlite3_bind_int64(stmt, ++at, list->filter->since_ms);
    }
    if (list->filter->until_ms != 0) {
        sqlite3_bind_int64(stmt, ++at, list->filter->until_ms);
    }
}

static void pack(struct gh_buf *out, sqlite3_stmt *stmt)
{
    static const char padding[8];
    struct store_cells cells;
    store_cells_read(stmt, &cells);
    struct packed row = {.seq = cells.seq, .at_ms = cells.at_ms, .part = (int)cells.part};
    store_hash_read(stmt, row.hash);
    size_t size = sizeof row;
    for (int i = 0; i < STORE_N_TEXTS; i++) {
        row.len[i] = strlen(cells.text[i]); /* a NUL that somebody put in ends the text */
        size += row.len[i] + 1;
    }
    row.size = (size + 7) & ~(size_t)7;
    gh_buf_put(out, &row, sizeof row);
    for (int i = 0; i < STORE_N_TEXTS; i++) {
        gh_buf_put(out, cells.text[i], row.len[i] + 1);
    }
    gh_buf_put(out, padding, row.size - size);
}

/* The page's rows out of [low, high]. *seen is the last row looked at when the page filled up
 * before the end of them. */
static int read_page(struct listing *list, sqlite3_stmt *stmt, int64_t *seen)
{
    size_t max = list->left < PAGE_ROWS ? list->left : PAGE_ROWS;
    int rc = SQLITE_OK;
    for (size_t n = 0; n < max && list->page.len < PAGE_BYTES; n++) {
        rc = sqlite3_step(stmt);
        if (rc != SQLITE_ROW) {
            return rc == SQLITE_DONE ? SQLITE_OK : rc;
        }
        pack(&list->page, stmt);
        if (list->page.failed) {
            return SQLITE_NOMEM;
        }
        *seen = sqlite3_column_int64(stmt, 0);
    }
    return SQLITE_ROW;
}

/* Read the next page and move on behind it. */
static int next_page(struct listing *list, sqlite3 *db)
{
    bool is_down = list->filter->newest_first;
    /* An id leads to its rows by the index; anything else is looked for row by row. */
    int64_t span = list->filter->ref != NULL ? list->high - list->low : WINDOW_ROWS - 1;
    int64_t low = is_down && list->high - list->low > span ? list->high - span : list->low;
    int64_t high = !is_down && list->high - list->low > span ? list->low + span : list->high;
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, list->sql.data, -1, &stmt, NULL);
    int64_t seen = is_down ? low : high;
    if (rc == SQLITE_OK) {
        bind(list, stmt, low, high);
        list->page.len = 0;
        int64_t last = 0;
        rc = read_page(list, stmt, &last);
        seen = rc == SQLITE_ROW ? last : seen;
        rc = rc == SQLITE_ROW ? SQLITE_OK : rc;
    }
    store_stmt_fini(&stmt);
    list->high = is_down ? seen - 1 : list->high;
    list->low = is_down ? list->low : seen + 1;
    return rc;
}

/* Returns false when the caller has enough. */
static bool deliver(struct listing *list, store_audit_fn *fn, void *cookie)
{
    for (size_t at = 0; at < list->page.len;) {
        const struct packed *packed = (const void *)(list->page.data + at);
        const char *text = (const char *)(packed + 1);
        struct store_audit_row row = {.seq = packed->seq, .gateway = list->gateway};
        row.row.at_ms = packed->at_ms;
        row.row.part = packed->part;
        for (int i = 0; i < STORE_N_TEXTS; i++) {
            memcpy((char *)&row.row + store_audit_texts[i], &text, sizeof text);
            text += packed->len[i] + 1;
        }
        gh_id_hex(packed->hash, row.hash);
        at += packed->size;
        list->left--;
        if (!fn(&row, cookie)) {
            return false;
        }
    }
    return true;
}

/* Rows that come while the list is given out are not part of it. */
static int find_bounds(struct listing *list, sqlite3 *db)
{
    const struct store_audit_filter *filter = list->filter;
    int rc = store_conn_int(db, "SELECT seq FROM audit ORDER BY seq LIMIT 1", &list->low);
    if (rc == SQLITE_OK) {
        rc = store_conn_int(db, "SELECT seq FROM audit ORDER BY seq DESC LIMIT 1", &list->high);
    }
    int64_t after = filter->after > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)filter->after;
    if (after != 0 && filter->newest_first && after <= list->high) {
        list->high = after - 1;
    }
    if (after != 0 && !filter->newest_first && after >= list->low) {
        list->low = after + 1;
    }
    return rc;
}

/* Fill the page; the first time, find out what there is. */
static enum gh_code fetch(struct listing *list, bool is_start, struct gh_err *err)
{
    sqlite3 *db = NULL;
    GH_TRY(store_reader_get(list->store, &db, err));
    int rc = is_start ? find_bounds(list, db) : SQLITE_OK;
    list->page.len = 0;
    if (rc == SQLITE_OK && list->low <= list->high) {
        rc = next_page(list, db);
    }
    store_reader_put(list->store, db, rc);
    return rc == SQLITE_OK ? GH_OK : store_read_failed(rc, err);
}

static enum gh_code run_list(struct listing *list, store_audit_fn *fn, void *cookie,
                             struct gh_err *err)
{
    GH_TRY(fetch(list, true, err));
    while (deliver(list, fn, cookie) && list->left > 0 && list->low <= list->high) {
        GH_TRY(fetch(list, false, err));
    }
    return GH_OK;
}

enum gh_code store_audit_list(struct store *store, const struct store_audit_filter *filter,
                              store_audit_fn *fn, void *cookie, struct gh_err *err)
{
    struct listing list = {
        .store = store, .filter = filter, .left = filter->limit != 0 ? filter->limit : SIZE_MAX};
    pthread_mutex_lock(&store->lock);
    memcpy(list.gateway, store->gateway, sizeof list.gateway);
    pthread_mutex_unlock(&store->lock);
    put_sql(&list);
    enum gh_code code = list.sql.failed ? gh_fail(err, GH_NOMEM, "There is not enough memory.")
                                        : run_list(&list, fn, cookie, err);
    gh_buf_fini(&list.sql);
    gh_buf_fini(&list.page);
    return code;
}

/* The writers of bodies write objects on one line; a body that was tampered with may be anything,
 * and must not forge a line or a member of ours. */
static bool is_plain_object(const char *body, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)body[i] < 0x20) {
            return false;
        }
    }
    gh_auto(gh_json_freep) struct json_t *value = NULL;
    return len >= 2 && body[0] == '{' && gh_json_parse(body, len, &value, NULL) == GH_OK;
}

void store_audit_json(const struct store_audit_row *row, struct gh_buf *out)
{
    static const struct {
        const char *key;
        size_t at;
    } texts[] = {
        {"tool", offsetof(struct store_audit, tool)},
        {"action", offsetof(struct store_audit, action)},
        {"decision", offsetof(struct store_audit, decision)},
        {"by", offsetof(struct store_audit, by)},
        {"code", offsetof(struct store_audit, code)},
        {"mode", offsetof(struct store_audit, mode)},
        {"principal", offsetof(struct store_audit, principal)},
        {"peer", offsetof(struct store_audit, peer)},
        {"agent", offsetof(struct store_audit, agent)},
        {"trace_id", offsetof(struct store_audit, trace_id)},
    };
    struct gh_jw w = {.buf = out};
    gh_jw_obj(&w, NULL);
    gh_jw_int(&w, "seq", (int64_t)row->seq);
    gh_jw_str(&w, "gateway", row->gateway);
    gh_jw_time(&w, "at", row->row.at_ms);
    gh_jw_str(&w, "kind", row->row.kind);
    gh_jw_str(&w, "session", row->row.session);
    gh_jw_str(&w, "ref", row->row.ref);
    gh_jw_int(&w, "part", row->row.part);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *text = NULL;
        memcpy(&text, (const char *)&row->row + texts[i].at, sizeof text);
        gh_jw_str(&w, texts[i].key, text);
    }
    if (is_plain_object(row->row.body, strlen(row->row.body))) {
        gh_jw_raw(&w, "body", row->row.body);
    } else {
        gh_jw_str(&w, "body", row->row.body);
    }
    gh_jw_str(&w, "hash", row->hash);
    gh_jw_end(&w);
}
