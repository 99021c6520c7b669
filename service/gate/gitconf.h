/* gitconf: what git's configuration files say about hooks, without running git.
 *
 * Which conditions of includeIf hold, and what a later file overrides, is not worked out: every
 * value that git could take counts. Threads: any.
 */
#ifndef GH_GATE_GITCONF_H
#define GH_GATE_GITCONF_H

#include <stdbool.h>

#include "base/err.h"
#include "gate/seen.h"

enum { GITCONF_MAX_FILES = 256, GITCONF_MAX_HOOKS = 64 };

/* Gathers over several files. Zeroed, it is empty. */
struct gitconf {
    struct seen_names hooks;   /* each core.hooksPath, as written */
    struct seen_names files;   /* each file looked at, there or not, as it was named; absolute */
    struct seen_stamps stamps; /* of the files, before they were read */
    size_t bytes;              /* read so far */
    bool is_cut;               /* something could not be read, or a bound was reached */
};
void gitconf_fini(struct gitconf *conf);

/* Read `file` (absolute; need not exist) and what it includes, whatever the condition. `home`
 * expands "~/" in includes; may be NULL. Fails with GH_NOMEM. */
GH_MUST_USE enum gh_code gitconf_read(const char *file, const char *home, struct gitconf *ret,
                                      struct gh_err *err);

/* The same for the text of `file`. */
GH_MUST_USE enum gh_code gitconf_parse(const char *file, const char *text, const char *home,
                                       struct gitconf *ret, struct gh_err *err);

#endif
