#include <string.h>

#include "base/auto.h"
#include "store/inner.h"

enum gh_code store_read_failed(int rc, struct gh_err *err)
{
    char reason[STORE_REASON];
    store_conn_reason(rc, reason);
    return gh_fail(err, GH_IO, "The store cannot be read: %s.", reason);
}

/* Another file in the database's place is not read as if it were ours. */
static bool is_ours(struct store *store, struct store_fault *fault)
{
    pthread_mutex_lock(&store->lock);
    bool is_same = !store->was_up || store_in_place(store, 1, fault);
    pthread_mutex_unlock(&store->lock);
    return is_same;
}

static enum gh_code open_reader(struct store *store, sqlite3 **ret, struct gh_err *err)
{
    struct store_fault fault = {0};
    if (!is_ours(store, &fault)) {
        return gh_fail(err, GH_IO, "The store cannot be read: %s.", fault.reason);
    }
    int rc = store_conn_open(store->path, STORE_USE_READ, ret);
    return rc == SQLITE_OK ? GH_OK : store_read_failed(rc, err);
}

enum gh_code store_reader_get(struct store *store, sqlite3 **ret, struct gh_err *err)
{
    struct store_readers *readers = &store->readers;
    pthread_mutex_lock(&readers->lock);
    while (readers->n_idle == 0 && readers->n_open == STORE_N_READERS) {
        pthread_cond_wait(&readers->freed, &readers->lock);
    }
    bool is_new = readers->n_idle == 0;
    if (is_new) {
        readers->n_open++;
    } else {
        *ret = readers->idle[--readers->n_idle];
    }
    pthread_mutex_unlock(&readers->lock);
    if (!is_new) {
        return GH_OK;
    }
    enum gh_code code = open_reader(store, ret, err);
    if (code != GH_OK) {
        store_reader_put(store, NULL, SQLITE_ERROR);
    }
    return code;
}

void store_reader_put(struct store *store, sqlite3 *db, int rc)
{
    struct store_readers *readers = &store->readers;
    bool is_kept = db != NULL && rc == SQLITE_OK;
    struct store_fault fault = {0};
    if (store_conn_is_corrupt(rc)) {
        store_refuse(&fault, rc);
        store_fail(store, &fault);
    }
    if (!is_kept) {
        store_conn_close(&db);
    }
    pthread_mutex_lock(&readers->lock);
    if (is_kept) {
        readers->idle[readers->n_idle++] = db;
    } else {
        readers->n_open--;
    }
    pthread_cond_signal(&readers->freed);
    pthread_mutex_unlock(&readers->lock);
}
