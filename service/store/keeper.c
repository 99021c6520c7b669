#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/inner.h"

#define ANCHOR_MS 200
#define HOUR_MS ((int64_t)3600 * 1000)
#define UPKEEP_AGAIN_MS ((int64_t)60 * 1000) /* after an upkeep that failed */
#define CHECKPOINT_AGAIN_MS 500              /* when a reader kept the log from being used anew */
#define IDEMPOTENCY_MS (24 * HOUR_MS)

void store_keep_anchor(struct store *store, bool is_synced)
{
    struct store_anchor anchor;
    pthread_mutex_lock(&store->lock);
    bool is_due = store->is_anchor_due || is_synced;
    bool is_trusted = store->was_up && !store->health.is_damaged;
    store->is_anchor_due = false;
    anchor.head = store->head;
    memcpy(anchor.gateway, store->gateway, sizeof anchor.gateway);
    pthread_mutex_unlock(&store->lock);
    struct gh_err err = {0};
    if (is_due && is_trusted &&
        store_anchor_write(store->dir_fd, &store->anchor_fd, &anchor, is_synced, &err) != GH_OK) {
        gh_log(GH_LOG_WARN, "audit_anchor_unwritten", "reason", err.detail, NULL);
    }
}

/* Copy the log back into the database as far as no reader needs it. Returns false when some of it
 * is left. Never with a file that was put in the database's place: that is not ours to write. */
static bool copy_back(struct store *store)
{
    struct store_fault moved = {0};
    pthread_mutex_lock(&store->lock);
    bool is_ours = store->was_up && !store->health.is_damaged && store_in_place(store, 1, &moved);
    pthread_mutex_unlock(&store->lock);
    if (!is_ours) {
        return false;
    }
    int n_frames = 0;
    int n_copied = 0;
    int rc = store->keeper_db != NULL
                 ? SQLITE_OK
                 : store_conn_open(store->path, STORE_USE_WRITE, &store->keeper_db);
    if (rc == SQLITE_OK) {
        rc = sqlite3_wal_checkpoint_v2(store->keeper_db, NULL, SQLITE_CHECKPOINT_PASSIVE, &n_frames,
                                       &n_copied);
    }
    if (rc == SQLITE_OK) {
        return n_copied >= n_frames;
    }
    store_conn_close(&store->keeper_db);
    struct store_fault fault = {0};
    store_refuse(&fault, rc);
    if (fault.is_damaged) {
        store_fail(store, &fault);
    }
    return false;
}

static void hold_writer(struct store *store)
{
    pthread_mutex_lock(&store->lock);
    store->is_paused = true;
    while (store->is_in_batch) {
        pthread_cond_wait(&store->rest, &store->lock);
    }
    pthread_mutex_unlock(&store->lock);
}

static void free_writer(struct store *store)
{
    pthread_mutex_lock(&store->lock);
    store->is_paused = false;
    pthread_cond_signal(&store->work);
    pthread_mutex_unlock(&store->lock);
}

/* Most of the log is copied while the writer goes on; the little that came meanwhile is copied
 * while it waits, so that its next commit starts the log anew at its beginning. Without the second
 * pass a busy writer would be ahead of every copy and the log would grow for ever. */
static bool checkpoint(struct store *store)
{
    copy_back(store);
    hold_writer(store);
    bool is_whole = copy_back(store);
    free_writer(store);
    return is_whole;
}

static bool do_upkeep(struct store *store)
{
    int64_t now_ms = gh_clock_wall_ms();
    struct gh_err err = {0};
    enum gh_code code = store_expire(store, now_ms - IDEMPOTENCY_MS, &err);
    if (code == GH_OK && store->retain_days > 0) {
        uint64_t n = 0;
        code = store_prune(store, now_ms - store->retain_days * 24 * HOUR_MS, &n, &err);
    }
    return code == GH_OK;
}

/* When what is to be done next. */
struct schedule {
    int64_t anchor_ms, checkpoint_ms, upkeep_ms;
};

struct duties {
    bool is_anchor, is_checkpoint, is_upkeep, is_end;
};

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct duties wait_for_duties(struct store *store, struct schedule *plan)
{
    struct duties now = {0};
    bool is_planned = false; /* the anchor's delay starts with the first row it lacks */
    pthread_mutex_lock(&store->lock);
    for (;;) {
        int64_t now_ms = store_now_ms();
        if (store->is_anchor_due && !is_planned) {
            plan->anchor_ms = now_ms + ANCHOR_MS;
            is_planned = true;
        }
        now.is_end = store->is_stopping;
        now.is_anchor = store->is_anchor_due && now_ms >= plan->anchor_ms;
        now.is_checkpoint = store->is_checkpoint_due && now_ms >= plan->checkpoint_ms;
        now.is_upkeep = now_ms >= plan->upkeep_ms;
        if (now.is_end || now.is_anchor || now.is_checkpoint || now.is_upkeep) {
            break;
        }
        int64_t until_ms = plan->upkeep_ms;
        until_ms = store->is_anchor_due ? earlier(until_ms, plan->anchor_ms) : until_ms;
        until_ms = store->is_checkpoint_due ? earlier(until_ms, plan->checkpoint_ms) : until_ms;
        store_wait_until(&store->chores, &store->lock, until_ms);
    }
    pthread_mutex_unlock(&store->lock);
    return now;
}

void *store_keeper_run(void *cookie)
{
    struct store *store = cookie;
    struct schedule plan = {.upkeep_ms = store_now_ms()};
    for (;;) {
        struct duties now = wait_for_duties(store, &plan);
        if (now.is_end) {
            return NULL;
        }
        if (now.is_anchor) {
            store_keep_anchor(store, false);
        }
        if (now.is_checkpoint) {
            bool is_whole = checkpoint(store);
            plan.checkpoint_ms = store_now_ms() + (is_whole ? 0 : CHECKPOINT_AGAIN_MS);
            pthread_mutex_lock(&store->lock);
            store->is_checkpoint_due = false; /* the next commit asks again if need be */
            pthread_mutex_unlock(&store->lock);
        }
        if (now.is_upkeep) {
            plan.upkeep_ms = store_now_ms() + (do_upkeep(store) ? HOUR_MS : UPKEEP_AGAIN_MS);
        }
    }
}

/* A database too large to be checked before the start is checked beside the first requests. */
void *store_checker_run(void *cookie)
{
    struct store *store = cookie;
    sqlite3 *db = NULL;
    int rc = store_conn_open(store->path, STORE_USE_READ, &db);
    pthread_mutex_lock(&store->lock);
    bool is_stopping = store->is_stopping;
    store->checker_db = db;
    pthread_mutex_unlock(&store->lock);
    bool is_good =
        rc != SQLITE_OK || is_stopping || store_conn_says(db, "PRAGMA quick_check(1)", "ok");
    rc = db != NULL ? sqlite3_errcode(db) : rc;
    pthread_mutex_lock(&store->lock);
    store->checker_db = NULL;
    pthread_cond_broadcast(&store->rest);
    pthread_mutex_unlock(&store->lock);
    bool is_verdict =
        rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE || store_conn_is_corrupt(rc);
    if (!is_good && is_verdict) {
        struct store_fault fault = {0};
        store_refuse(&fault, SQLITE_CORRUPT);
        store_fail(store, &fault);
    }
    store_conn_close(&db);
    return NULL;
}
