/* txn: a transaction as one block of packed steps.
 *
 * A decision's audit row is one allocation: the steps lie behind the transaction's own fields, and
 * only a transaction that outgrows that space gets a second block. Steps are written by the thread
 * that builds the transaction and read by the writer; the store's queue hands it over.
 */
#ifndef GH_STORE_TXN_H
#define GH_STORE_TXN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/chain.h"
#include "store/store.h"

enum store_op {
    STORE_OP_PUT,
    STORE_OP_INSERT,
    STORE_OP_DELETE,
    STORE_OP_AUDIT,
    STORE_OP_PRUNE,  /* audit rows older than at_ms, behind a `pruned` row */
    STORE_OP_EXPIRE, /* idempotency keys older than at_ms */
    STORE_N_OPS
};

enum {
    STORE_DOC_ID,
    STORE_DOC_SESSION,
    STORE_DOC_REF,
    STORE_DOC_STATE,
    STORE_DOC_BODY,
    STORE_N_DOC_TEXTS
};

/* One step; the texts follow, each with its NUL. */
struct store_step {
    int64_t at_ms;
    size_t size; /* bytes, texts included; keeps the next step aligned */
    enum store_op op;
    int doc_kind;
    int part;
    uint32_t len[STORE_N_TEXTS];
    char text[];
};

struct store_txn {
    struct store_txn *next; /* the queue's */
    store_done_fn *done;
    void *cookie;
    enum gh_code outcome;
    uint64_t *n_removed; /* counts the rows upkeep removed; NULL, or a waiting caller's */
    unsigned n_steps;
    bool failed;         /* could not be built; never run */
    bool may_conflict;   /* holds an insert: has to be undone alone when that fails */
    unsigned char *data; /* `own`, or a heap block */
    size_t len, cap;     /* bytes of data */
    _Alignas(8) unsigned char own[1536];
};

/* Add a step without texts, for the store's own upkeep. The caller of store_commit_wait gets the
 * number of rows in *n_removed. */
void store_txn_upkeep(struct store_txn *txn, enum store_op op, int64_t before_ms,
                      uint64_t *n_removed);

/* Step over the steps: start with *at = 0; NULL at the end. Borrowed. */
const struct store_step *store_txn_next(const struct store_txn *txn, size_t *at);

/* The texts of a step, as many as its kind has. */
void store_step_texts(const struct store_step *step, size_t n, const char *ret[]);

#endif
