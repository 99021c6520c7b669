/* execution_spec: what a command may touch, collected for the confiner. Only for core's own files.
 * Threads: one at a time.
 */
#ifndef GH_CORE_EXECUTION_SPEC_H
#define GH_CORE_EXECUTION_SPEC_H

#include "core/execution.h"

/* A list of strings that ends with NULL. */
struct words {
    char **all; /* owned, and each of them */
    size_t n, room;
    bool failed; /* no memory */
};

struct execution_spec {
    struct run_spec run; /* points into what follows */
    struct place *place; /* counted */
    struct words argv, env, roots, denied, names;
    struct run_name *run_names; /* owned */
    uint16_t *ports;            /* owned */
    char *cache_dir;            /* owned, or NULL */
};

/* Fill in from the call, the place and what was judged of the call. All are borrowed until
 * execution_spec_fini. Fails with GH_NOMEM, GH_INVALID. */
GH_MUST_USE enum gh_code execution_spec_make(const struct execution *execution,
                                             const struct call *call, struct place *place,
                                             const struct judged_part *judged,
                                             struct execution_spec *ret, struct gh_err *err);
void execution_spec_fini(struct execution_spec *spec);

#endif
