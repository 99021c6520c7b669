/* environ: the environment of a confined command, built and not inherited (behaviour 5.8). */
#ifndef GH_CONFINE_ENVIRON_H
#define GH_CONFINE_ENVIRON_H

#include "util.h"

struct environ_wish {
    const struct confine_spec *spec;
    const char *const *parent; /* this process's environment */
    const char *home;          /* NULL: what the parent says */
    const char *tmp;           /* TMPDIR, or NULL: removed */
};

/* "K=V" strings into *env. */
void environ_build(const struct environ_wish *wish, struct util_strs *env);

/* The value of `name` in a list of "K=V", or NULL. */
const char *environ_get(const char *const *env, const char *name);

#endif
