#include "store/txn.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#define MAX_ID 400
#define MAX_TEXT                                                                                   \
    ((size_t)64 << 20) /* far above any request; SQLite's own limit would fail a batch */

struct store_txn *store_txn_new(void)
{
    struct store_txn *txn = malloc(sizeof *txn);
    if (txn == NULL) {
        return NULL;
    }
    memset(txn, 0, offsetof(struct store_txn, own));
    txn->data = txn->own;
    txn->cap = sizeof txn->own;
    return txn;
}

void store_txn_free(struct store_txn *txn)
{
    if (txn != NULL && txn->data != txn->own) {
        free(txn->data);
    }
    free(txn);
}

/* Room for `more` bytes, or false. */
static bool reserve(struct store_txn *txn, size_t more)
{
    if (txn->cap - txn->len >= more) {
        return true;
    }
    size_t cap = txn->len + more > 2 * txn->cap ? txn->len + more : 2 * txn->cap;
    bool is_own = txn->data == txn->own;
    unsigned char *data = realloc(is_own ? NULL : txn->data, cap);
    if (data == NULL) {
        return false;
    }
    if (is_own) {
        memcpy(data, txn->own, txn->len);
    }
    txn->data = data;
    txn->cap = cap;
    return true;
}

/* Append `head` with its texts. A NULL text marks a caller's mistake like no memory does: the
 * transaction fails, nothing is half written. */
static void add(struct store_txn *txn, struct store_step head, const char *const texts[], size_t n)
{
    size_t size = sizeof head;
    for (size_t i = 0; i < n; i++) {
        size_t len = texts[i] != NULL ? strlen(texts[i]) : MAX_TEXT + 1;
        if (len > MAX_TEXT) {
            txn->failed = true;
            return;
        }
        head.len[i] = (uint32_t)len;
        size += len + 1;
    }
    head.size = (size + 7) & ~(size_t)7;
    if (txn->failed || !reserve(txn, head.size)) {
        txn->failed = true;
        return;
    }
    unsigned char *at = txn->data + txn->len;
    memcpy(at, &head, sizeof head);
    at += offsetof(struct store_step, text);
    for (size_t i = 0; i < n; i++) {
        memcpy(at, texts[i], head.len[i] + (size_t)1);
        at += head.len[i] + (size_t)1;
    }
    txn->len += head.size;
    txn->n_steps++;
}

static void add_doc(struct store_txn *txn, enum store_op op, const struct store_doc *doc)
{
    const char *const texts[STORE_N_DOC_TEXTS] = {
        [STORE_DOC_ID] = doc->id,     [STORE_DOC_SESSION] = doc->session,
        [STORE_DOC_REF] = doc->ref,   [STORE_DOC_STATE] = doc->state,
        [STORE_DOC_BODY] = doc->body,
    };
    if (doc->id == NULL || strlen(doc->id) > MAX_ID) {
        txn->failed = true;
        return;
    }
    add(txn, (struct store_step){.op = op, .doc_kind = (int)doc->kind, .at_ms = doc->created_ms},
        texts, STORE_N_DOC_TEXTS);
}

void store_txn_put(struct store_txn *txn, const struct store_doc *doc)
{
    add_doc(txn, STORE_OP_PUT, doc);
}

void store_txn_insert(struct store_txn *txn, const struct store_doc *doc)
{
    add_doc(txn, STORE_OP_INSERT, doc);
    txn->may_conflict = true;
}

void store_txn_delete(struct store_txn *txn, enum store_kind kind, const char *id)
{
    add(txn, (struct store_step){.op = STORE_OP_DELETE, .doc_kind = (int)kind}, &id, 1);
}

void store_txn_audit(struct store_txn *txn, const struct store_audit *row)
{
    const char *texts[STORE_N_TEXTS];
    for (int i = 0; i < STORE_N_TEXTS; i++) {
        memcpy(&texts[i], (const char *)row + store_audit_texts[i], sizeof texts[i]);
    }
    add(txn, (struct store_step){.op = STORE_OP_AUDIT, .part = row->part, .at_ms = row->at_ms},
        texts, STORE_N_TEXTS);
}

void store_txn_upkeep(struct store_txn *txn, enum store_op op, int64_t before_ms,
                      uint64_t *n_removed)
{
    txn->n_removed = n_removed;
    add(txn, (struct store_step){.op = op, .at_ms = before_ms}, NULL, 0);
}

const struct store_step *store_txn_next(const struct store_txn *txn, size_t *at)
{
    if (*at >= txn->len) {
        return NULL;
    }
    const struct store_step *step = (const struct store_step *)(const void *)(txn->data + *at);
    *at += step->size;
    return step;
}

void store_step_texts(const struct store_step *step, size_t n, const char *ret[])
{
    const char *at = step->text;
    for (size_t i = 0; i < n; i++) {
        ret[i] = at;
        at += step->len[i] + (size_t)1;
    }
}
