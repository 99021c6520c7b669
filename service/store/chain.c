#include "store/chain.h"

#include <string.h>

#include "store/conn.h"

const size_t store_audit_texts[STORE_N_TEXTS] = {
    offsetof(struct store_audit, kind),     offsetof(struct store_audit, session),
    offsetof(struct store_audit, ref),      offsetof(struct store_audit, tool),
    offsetof(struct store_audit, action),   offsetof(struct store_audit, decision),
    offsetof(struct store_audit, by),       offsetof(struct store_audit, code),
    offsetof(struct store_audit, mode),     offsetof(struct store_audit, principal),
    offsetof(struct store_audit, peer),     offsetof(struct store_audit, agent),
    offsetof(struct store_audit, trace_id), offsetof(struct store_audit, body),
};

bool store_cells_read(sqlite3_stmt *stmt, struct store_cells *ret)
{
    bool is_typed = true;
    for (int i = 0; i < STORE_AT_TEXTS; i++) {
        is_typed = is_typed && sqlite3_column_type(stmt, i) == SQLITE_INTEGER;
    }
    ret->seq = (uint64_t)sqlite3_column_int64(stmt, 0);
    ret->at_ms = sqlite3_column_int64(stmt, 1);
    ret->part = sqlite3_column_int64(stmt, 2);
    for (int i = 0; i < STORE_N_TEXTS; i++) {
        is_typed = is_typed && sqlite3_column_type(stmt, STORE_AT_TEXTS + i) == SQLITE_TEXT;
        ret->text[i] = store_stmt_str(stmt, STORE_AT_TEXTS + i);
        ret->len[i] = (size_t)sqlite3_column_bytes(stmt, STORE_AT_TEXTS + i);
    }
    return is_typed;
}

bool store_hash_read(sqlite3_stmt *stmt, unsigned char ret[GH_SHA256])
{
    const void *blob = sqlite3_column_blob(stmt, STORE_AT_HASH);
    if (blob == NULL || sqlite3_column_bytes(stmt, STORE_AT_HASH) != GH_SHA256 ||
        sqlite3_column_type(stmt, STORE_AT_HASH) != SQLITE_BLOB) {
        memset(ret, 0, GH_SHA256);
        return false;
    }
    memcpy(ret, blob, GH_SHA256);
    return true;
}

static void put_number(struct gh_buf *out, uint64_t value)
{
    unsigned char raw[8];
    for (int i = 0; i < 8; i++) {
        raw[i] = (unsigned char)(value >> (8 * i));
    }
    gh_buf_put(out, raw, sizeof raw);
}

static void put_text(struct gh_buf *out, const char *text, size_t len)
{
    put_number(out, len);
    gh_buf_put(out, text, len);
}

bool store_chain_hash(const char *gateway, const unsigned char prev[GH_SHA256],
                      const struct store_cells *cells, struct gh_buf *scratch,
                      unsigned char ret[GH_SHA256])
{
    static const char form[] = "gatehouse audit row 1";
    scratch->len = 0;
    put_text(scratch, form, sizeof form - 1);
    put_text(scratch, gateway, strlen(gateway));
    put_number(scratch, cells->seq);
    put_number(scratch, (uint64_t)cells->at_ms);
    put_number(scratch, (uint64_t)cells->part);
    for (int i = 0; i < STORE_N_TEXTS; i++) {
        put_text(scratch, cells->text[i], cells->len[i]);
    }
    if (scratch->failed) {
        return false;
    }
    gh_id_sha256_2(prev, GH_SHA256, scratch->data, scratch->len, ret);
    return true;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool store_hash_parse(const char *text, unsigned char ret[GH_SHA256])
{
    if (strlen(text) != GH_HEX - 1) {
        return false;
    }
    for (size_t i = 0; i < GH_SHA256; i++) {
        int high = digit(text[2 * i]);
        int low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        ret[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}
