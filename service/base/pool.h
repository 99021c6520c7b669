/* pool: a bounded pool of threads for work that may block (file reads, hashing, diffs).
 *
 * Jobs run in the order they were given, each on some thread. Threads: any may call.
 */
#ifndef GH_BASE_POOL_H
#define GH_BASE_POOL_H

#include <stddef.h>

#include "base/err.h"

struct gh_pool;

/* Runs once, on a thread of the pool. */
typedef void gh_job_fn(void *cookie);

/* Start `n_threads` threads; at most `max_queued` jobs wait. *ret is owned by caller
 * (gh_pool_free). Fails with GH_NOMEM. */
GH_MUST_USE enum gh_code gh_pool_new(size_t n_threads, size_t max_queued, struct gh_pool **ret,
                                     struct gh_err *err);

/* Queue a job. `cookie` is handed to `fn` unchanged. Fails with GH_BUSY (queue full or stopping) or
 * GH_NOMEM; then `fn` is not called. */
GH_MUST_USE enum gh_code gh_pool_run(struct gh_pool *pool, gh_job_fn *fn, void *cookie,
                                     struct gh_err *err);

/* Finish all queued jobs, end the threads, free. NULL is fine. */
void gh_pool_free(struct gh_pool *pool);

#endif
