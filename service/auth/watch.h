/* watch: the thread that sees tokens change and expire.
 *
 * It sleeps until the folder changes, the next token expires, the wall clock is set or it is told
 * to stop; nothing is looked at in between. Owned by struct auth.
 */
#ifndef GH_AUTH_WATCH_H
#define GH_AUTH_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct watch;

/* What the watcher asks of its owner, on the watcher's thread. */
struct watch_calls {
    /* Read the folder again. False: it could not be read just now, ask again soon. `is_last`: do
     * what can be done. */
    bool (*reload)(void *cookie, bool is_last);
    /* The folder is not where it was. */
    void (*lost)(void *cookie);
    /* See what has become invalid; returns the wall time at which the next token expires, or -1. */
    int64_t (*look)(void *cookie);
    void *cookie;
};

/* Watch the folder at `path`; nothing is called before watch_run. *ret is owned by caller
 * (watch_free). Fails with GH_IO or GH_NOMEM. */
GH_MUST_USE enum gh_code watch_new(const char *path, const struct watch_calls *calls,
                                   struct watch **ret, struct gh_err *err);

/* Start the thread. Fails with GH_NOMEM. */
GH_MUST_USE enum gh_code watch_run(struct watch *watch, struct gh_err *err);

/* Stop the thread, wait for it, free. NULL is fine. Not from the thread itself. */
void watch_free(struct watch *watch);

#endif
