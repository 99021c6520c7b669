/* chain: the columns of the audit log as one table, and the hash over all of them.
 *
 * hash(n) = SHA-256(hash(n-1) || serialised row n); the predecessor of row 1 is 32 zero bytes. The
 * serialised row holds the gateway's id and every column, numbers as 8 bytes little-endian, texts
 * with their length in front, so no two different rows serialise alike.
 *
 * The chain has no key: whoever can write the file can recompute all hashes from any row on. What
 * shows that is the anchor beside the database, as far as it was copied elsewhere or left alone; a
 * rewrite of both is not covered.
 */
#ifndef GH_STORE_CHAIN_H
#define GH_STORE_CHAIN_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"
#include "store/store.h"

#define STORE_N_TEXTS 14 /* text columns of an audit row */

/* Column order of every SELECT and INSERT of audit rows: 3 numbers, the texts, the hash. */
#define STORE_AUDIT_COLUMNS                                                                        \
    "seq,at_ms,part,kind,session,ref,tool,action,decision,\"by\",code,mode,principal,peer,agent,"  \
    "trace_id,body,hash"
#define STORE_AT_TEXTS 3
#define STORE_AT_HASH 17

/* Where in struct store_audit the texts are, in column order. */
extern const size_t store_audit_texts[STORE_N_TEXTS];

/* A place in the chain: the newest row, or zeros before the first. */
struct store_head {
    uint64_t seq;
    unsigned char hash[GH_SHA256];
};

/* A row as numbers and counted texts, wherever they lie. Borrows everything. */
struct store_cells {
    uint64_t seq;
    int64_t at_ms, part;
    const char *text[STORE_N_TEXTS];
    size_t len[STORE_N_TEXTS];
};

/* The row a SELECT of STORE_AUDIT_COLUMNS stands on, borrowed until its next step. Returns false
 * when a column does not have its type; the cells are usable all the same. */
bool store_cells_read(sqlite3_stmt *stmt, struct store_cells *ret);

/* The hash column of that row into `ret`. Returns false when it is not a hash. */
bool store_hash_read(sqlite3_stmt *stmt, unsigned char ret[GH_SHA256]);

/* The hash of `cells` behind `prev`. `scratch` is reused space. Returns false on no memory. */
bool store_chain_hash(const char *gateway, const unsigned char prev[GH_SHA256],
                      const struct store_cells *cells, struct gh_buf *scratch,
                      unsigned char ret[GH_SHA256]);

/* A hash from lower-case hex. Returns false when `text` is not one. */
bool store_hash_parse(const char *text, unsigned char ret[GH_SHA256]);

#endif
