#include "base/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct job {
    gh_job_fn *fn;
    void *cookie;
    struct job *next;
};

struct gh_pool {
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t wake;
    struct job *first;
    struct job **last;
    size_t n_queued;
    size_t max_queued;
    bool is_stopping;
    size_t n_threads;
    pthread_t threads[];
};

/* Wait for a job; NULL when the pool stops and nothing is left. */
static struct job *take(struct gh_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->first == NULL && !pool->is_stopping) {
        pthread_cond_wait(&pool->wake, &pool->lock);
    }
    struct job *job = pool->first;
    if (job != NULL) {
        pool->first = job->next;
        if (pool->first == NULL) {
            pool->last = &pool->first;
        }
        pool->n_queued--;
    }
    pthread_mutex_unlock(&pool->lock);
    return job;
}

static void *run(void *cookie)
{
    struct gh_pool *pool = cookie;
    for (struct job *job = take(pool); job != NULL; job = take(pool)) {
        job->fn(job->cookie);
        free(job);
    }
    return NULL;
}

enum gh_code gh_pool_new(size_t n_threads, size_t max_queued, struct gh_pool **ret,
                         struct gh_err *err)
{
    struct gh_pool *pool = calloc(1, sizeof *pool + n_threads * sizeof pool->threads[0]);
    if (pool == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for worker threads.");
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->last = &pool->first;
    pool->max_queued = max_queued;
    for (; pool->n_threads < n_threads; pool->n_threads++) {
        if (pthread_create(&pool->threads[pool->n_threads], NULL, run, pool) != 0) {
            gh_pool_free(pool);
            return gh_fail(err, GH_NOMEM, "A worker thread cannot be started.");
        }
        pthread_setname_np(pool->threads[pool->n_threads], "gh-work");
    }
    *ret = pool;
    return GH_OK;
}

enum gh_code gh_pool_run(struct gh_pool *pool, gh_job_fn *fn, void *cookie, struct gh_err *err)
{
    struct job *job = malloc(sizeof *job);
    if (job == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    *job = (struct job){fn, cookie, NULL};
    pthread_mutex_lock(&pool->lock);
    bool has_room = !pool->is_stopping && pool->n_queued < pool->max_queued;
    if (has_room) {
        *pool->last = job;
        pool->last = &job->next;
        pool->n_queued++;
        pthread_cond_signal(&pool->wake);
    }
    pthread_mutex_unlock(&pool->lock);
    if (!has_room) {
        free(job);
        return gh_fail(err, GH_BUSY, "Too much work is queued; try again.");
    }
    return GH_OK;
}

void gh_pool_free(struct gh_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->is_stopping = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->n_threads; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->wake);
    free(pool);
}
