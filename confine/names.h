/* names: denied name patterns over one component. */
#ifndef GH_CONFINE_NAMES_H
#define GH_CONFINE_NAMES_H

#include "util.h"

struct names_one {
    char *glob; /* without braces */
    bool built_in;
};

struct names {
    struct names_one *all;
    size_t n, room, n_tried;
};

/* Expand the braces of each pattern; an empty one, one with '/', or one with an open bracket is
 * dropped. To be freed with names_fini. */
void names_compile(struct names *names, const struct confine_name *wish, size_t n);
void names_fini(struct names *names);

/* Does the name match? *ret_built_in is set when only built-in patterns do. */
bool names_match(const struct names *names, const char *name, bool *ret_built_in);

/* One glob without braces, by bytes, the whole name. */
bool names_glob(const char *glob, const char *name);

/* Is this a folder of published packages, below which built-in patterns do not apply? */
bool names_is_package_folder(const char *name);

#endif
