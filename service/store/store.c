#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "store/inner.h"

#define LARGE_BYTES (16 << 20) /* from here on the pages are checked beside the first requests */

/* ---- the writer lock ---- */

/* Who holds the lock, as its file says; "" when it does not. */
static void read_owner(int fd, char out[32])
{
    char text[16] = {0};
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    long pid = n > 0 ? strtol(text, NULL, 10) : 0;
    out[0] = '\0';
    if (pid > 0) {
        snprintf(out, 32, " (process %ld)", pid);
    }
}

/* The lock lives as long as its descriptor: after a crash nothing has to be cleaned up. */
static enum gh_code lock_folder(struct store *store, struct gh_err *err)
{
    int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    store->lock_fd = openat(store->dir_fd, STORE_LOCK_NAME, O_RDWR | O_CREAT | flags, 0600);
    if (store->lock_fd >= 0) {
        (void)!fchmod(store->lock_fd, 0600); /* the umask had its say; no secret is in it */
    } else { /* a folder that was made read-only still opens, for reading */
        int saved = errno;
        store->lock_fd = openat(store->dir_fd, STORE_LOCK_NAME, O_RDONLY | flags);
        errno = saved;
    }
    if (store->lock_fd < 0) {
        return gh_fail(err, GH_IO, "store.lock in %.150s cannot be opened: %s.", store->dir,
                       strerror(errno));
    }
    if (flock(store->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        char owner[32];
        read_owner(store->lock_fd, owner);
        return gh_fail(err, GH_CONFLICT, "The folder %.150s is in use by another service%s.",
                       store->dir, owner);
    }
    char pid[16];
    int len = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
    if (ftruncate(store->lock_fd, 0) != 0 || pwrite(store->lock_fd, pid, (size_t)len, 0) != len) {
        gh_log(GH_LOG_WARN, "store_lock_unnamed", "reason", strerror(errno), NULL);
    }
    return GH_OK;
}

/* ---- open and close ---- */

static void init_waits(struct store *store)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&store->work, &attr);
    pthread_cond_init(&store->rest, &attr);
    pthread_cond_init(&store->chores, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&store->lock, NULL);
    pthread_rwlock_init(&store->pruning, NULL);
    pthread_mutex_init(&store->readers.lock, NULL);
    pthread_cond_init(&store->readers.freed, NULL);
}

static void destroy(struct store *store)
{
    for (size_t i = 0; i < store->readers.n_idle; i++) {
        store_conn_close(&store->readers.idle[i]);
    }
    store_conn_close(&store->keeper_db);
    store_writer_close(&store->writer); /* the last to close copies the log back */
    gh_buf_fini(&store->writer.scratch);
    pthread_cond_destroy(&store->readers.freed);
    pthread_mutex_destroy(&store->readers.lock);
    pthread_rwlock_destroy(&store->pruning);
    pthread_mutex_destroy(&store->lock);
    pthread_cond_destroy(&store->chores);
    pthread_cond_destroy(&store->rest);
    pthread_cond_destroy(&store->work);
    gh_auto_close(&store->anchor_fd);
    gh_auto_close(&store->lock_fd);
    gh_auto_close(&store->dir_fd);
    free(store->path);
    free(store->dir);
    free(store);
}

void store_close(struct store *store)
{
    if (store == NULL) {
        return;
    }
    pthread_mutex_lock(&store->lock);
    store->is_stopping = true;
    pthread_cond_broadcast(&store->chores);
    pthread_cond_broadcast(&store->work);
    while (store->checker_db != NULL) { /* again: a check that is yet to start misses it */
        sqlite3_interrupt(store->checker_db);
        store_wait_until(&store->rest, &store->lock, store_now_ms() + 20);
    }
    pthread_mutex_unlock(&store->lock);
    if (store->has_keeper) {
        pthread_join(store->keeper_thread, NULL);
    }
    if (store->has_checker) {
        pthread_join(store->checker_thread, NULL);
    }
    if (store->has_writer) {
        pthread_join(store->writer_thread, NULL);
        store_keep_anchor(store, true);
    }
    destroy(store);
}

static struct store *make(const struct store_options *options)
{
    struct store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return NULL;
    }
    init_waits(store);
    store->dir_fd = store->lock_fd = store->anchor_fd = -1;
    store->last = &store->first;
    store->retain_days = options->retain_days;
    store->dir = strdup(options->dir);
    if (store->dir == NULL || asprintf(&store->path, "%s/" STORE_DB_NAME, options->dir) < 0) {
        store->path = NULL;
        destroy(store);
        return NULL;
    }
    return store;
}

/* For gh_auto. */
static void close_store(struct store **store)
{
    store_close(*store);
}

static bool is_large(const struct store *store)
{
    struct stat st;
    return fstatat(store->dir_fd, STORE_DB_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_size > LARGE_BYTES;
}

static enum gh_code start_threads(struct store *store, struct gh_err *err)
{
    bool is_checked = !store->was_up || !is_large(store);
    store->has_writer = pthread_create(&store->writer_thread, NULL, store_writer_run, store) == 0;
    store->has_keeper = store->has_writer &&
                        pthread_create(&store->keeper_thread, NULL, store_keeper_run, store) == 0;
    store->has_checker =
        store->has_keeper && !is_checked &&
        pthread_create(&store->checker_thread, NULL, store_checker_run, store) == 0;
    if (!store->has_keeper || (!is_checked && !store->has_checker)) {
        return gh_fail(err, GH_NOMEM, "The store's threads cannot be started.");
    }
    return GH_OK;
}

enum gh_code store_open(const struct store_options *options, struct store **ret, struct gh_err *err)
{
    gh_auto(close_store) struct store *store = make(options);
    if (store == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory to open the store.");
    }
    store->dir_fd = open(options->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (store->dir_fd < 0) {
        return gh_fail(err, GH_IO, "The folder %.200s cannot be opened: %s.", options->dir,
                       strerror(errno));
    }
    GH_TRY(lock_folder(store, err));
    struct store_fault fault = {0};
    store->health.is_writable = store_setup(store, &fault);
    if (!store->health.is_writable) {
        store_fail(store, &fault);
    }
    GH_TRY(start_threads(store, err));
    *ret = gh_steal(&store);
    return GH_OK;
}

/* ---- health ---- */

void store_health(struct store *store, struct store_health *ret)
{
    pthread_mutex_lock(&store->lock);
    *ret = store->health;
    struct store_fault fault = {0};
    /* Asked here as well as at each commit, so that it is seen without traffic. */
    bool is_moved = ret->is_writable && !store_in_place(store, STORE_N_FILES, &fault);
    pthread_mutex_unlock(&store->lock);
    if (is_moved) {
        ret->is_writable = false;
        memcpy(ret->reason, fault.reason, sizeof ret->reason);
    }
}

/* ---- commit ---- */

void store_commit(struct store *store, struct store_txn **txn, store_done_fn *done, void *cookie)
{
    struct store_txn *taken = gh_steal(txn);
    taken->done = done;
    taken->cookie = cookie;
    pthread_mutex_lock(&store->lock);
    bool is_taken = !store->is_stopping;
    bool is_wake = is_taken && store->is_writer_waiting && store->first == NULL;
    if (is_taken) {
        *store->last = taken;
        store->last = &taken->next;
    }
    pthread_mutex_unlock(&store->lock);
    if (is_wake) {
        pthread_cond_signal(&store->work);
    }
    if (!is_taken) {
        store_txn_free(taken);
        if (done != NULL) {
            done(GH_AUDIT, cookie);
        }
    }
}

/* One caller waiting for one transaction. */
struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool is_told;
    enum gh_code code;
};

static void tell(enum gh_code code, void *cookie)
{
    struct waiter *waiter = cookie;
    pthread_mutex_lock(&waiter->lock);
    waiter->code = code;
    waiter->is_told = true;
    pthread_cond_signal(&waiter->told);
    pthread_mutex_unlock(&waiter->lock);
}

enum gh_code store_commit_wait(struct store *store, struct store_txn **txn, struct gh_err *err)
{
    struct waiter waiter = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, GH_OK};
    store_commit(store, txn, tell, &waiter);
    pthread_mutex_lock(&waiter.lock);
    while (!waiter.is_told) {
        pthread_cond_wait(&waiter.told, &waiter.lock);
    }
    pthread_mutex_unlock(&waiter.lock);
    pthread_cond_destroy(&waiter.told);
    pthread_mutex_destroy(&waiter.lock);
    if (waiter.code == GH_OK) {
        return GH_OK;
    }
    struct store_health health;
    store_health(store, &health);
    return gh_fail(err, waiter.code, "Nothing was stored: %s",
                   health.reason[0] != '\0' ? health.reason : "the transaction was refused");
}
