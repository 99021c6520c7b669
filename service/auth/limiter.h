/* limiter: how many wrong guesses a peer may make. 20 at once, then one a second.
 *
 * Only failures come here: what is right is never slowed, so nobody can lock somebody else out.
 * Threads: any.
 */
#ifndef GH_AUTH_LIMITER_H
#define GH_AUTH_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define LIMITER_BURST 20
#define LIMITER_PEERS 1024 /* remembered at once; the one not heard of longest goes first */

struct limiter;

enum limiter_answer {
    LIMITER_FIRST = 0, /* counted; the first of a burst */
    LIMITER_COUNTED,
    LIMITER_REACHED, /* too many, and this is the first time it is said */
    LIMITER_OVER     /* too many */
};

/* *ret is owned by caller (limiter_free). Fails with GH_NOMEM. */
GH_MUST_USE enum gh_code limiter_new(struct limiter **ret, struct gh_err *err);
void limiter_free(struct limiter *limiter);

/* Count a failure of `peer` at `now_ms` (boot clock). *ret_retry_s is set (at least 1) when it is
 * one too many. */
enum limiter_answer limiter_fail(struct limiter *limiter, const char *peer, int64_t now_ms,
                                 int *ret_retry_s);

#endif
