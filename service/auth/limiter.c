#include "auth/limiter.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/map.h"

#define COST_MS 1000 /* one failure; a bucket fills by 1 a millisecond */
#define FULL_MS (LIMITER_BURST * COST_MS)

struct peer {
    char key[64];
    int64_t level_ms; /* what is left in the bucket at `at_ms` */
    int64_t at_ms;
    bool is_told; /* that it is over the limit */
    struct peer *newer;
    struct peer *older;
};

struct limiter {
    pthread_mutex_t lock;
    struct gh_map by_key;
    struct peer *newest;
    struct peer *oldest;
    size_t n;
    struct peer peers[LIMITER_PEERS];
};

enum gh_code limiter_new(struct limiter **ret, struct gh_err *err)
{
    struct limiter *limiter = calloc(1, sizeof *limiter);
    if (limiter == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    pthread_mutex_init(&limiter->lock, NULL);
    *ret = limiter;
    return GH_OK;
}

void limiter_free(struct limiter *limiter)
{
    if (limiter != NULL) {
        gh_map_fini(&limiter->by_key);
        pthread_mutex_destroy(&limiter->lock);
        free(limiter);
    }
}

static void take_out(struct limiter *limiter, struct peer *peer)
{
    *(peer->newer != NULL ? &peer->newer->older : &limiter->newest) = peer->older;
    *(peer->older != NULL ? &peer->older->newer : &limiter->oldest) = peer->newer;
}

static void put_first(struct limiter *limiter, struct peer *peer)
{
    peer->newer = NULL;
    peer->older = limiter->newest;
    *(limiter->newest != NULL ? &limiter->newest->newer : &limiter->oldest) = peer;
    limiter->newest = peer;
}

/* The peer's entry, in front of the list; a new one takes the place of the oldest. */
static struct peer *find_peer(struct limiter *limiter, const char *key, int64_t now_ms)
{
    struct peer *peer = gh_map_find(&limiter->by_key, key);
    if (peer != NULL) {
        take_out(limiter, peer);
        put_first(limiter, peer);
        return peer;
    }
    if (limiter->n < LIMITER_PEERS) {
        peer = &limiter->peers[limiter->n++];
    } else {
        peer = limiter->oldest;
        gh_map_remove(&limiter->by_key, peer->key);
        take_out(limiter, peer);
    }
    snprintf(peer->key, sizeof peer->key, "%s", key);
    peer->level_ms = FULL_MS;
    peer->at_ms = now_ms;
    peer->is_told = false;
    put_first(limiter, peer);
    /* Without memory the entry is not found again and counts for nothing; it ages out of the list.
     */
    (void)gh_map_put(&limiter->by_key, peer->key, peer);
    return peer;
}

static enum limiter_answer count(struct peer *peer, int64_t now_ms, int *ret_retry_s)
{
    peer->level_ms += now_ms > peer->at_ms ? now_ms - peer->at_ms : 0;
    peer->at_ms = now_ms;
    bool is_full = peer->level_ms >= FULL_MS;
    if (is_full) {
        peer->level_ms = FULL_MS;
        peer->is_told = false;
    }
    if (peer->level_ms < COST_MS) {
        bool is_told = peer->is_told;
        peer->is_told = true;
        *ret_retry_s = (int)((COST_MS - peer->level_ms + 999) / 1000);
        return is_told ? LIMITER_OVER : LIMITER_REACHED;
    }
    peer->level_ms -= COST_MS;
    return is_full ? LIMITER_FIRST : LIMITER_COUNTED;
}

enum limiter_answer limiter_fail(struct limiter *limiter, const char *peer, int64_t now_ms,
                                 int *ret_retry_s)
{
    char key[64];
    snprintf(key, sizeof key, "%s", peer != NULL ? peer : "");
    pthread_mutex_lock(&limiter->lock);
    enum limiter_answer answer = count(find_peer(limiter, key, now_ms), now_ms, ret_retry_s);
    pthread_mutex_unlock(&limiter->lock);
    return answer;
}
