/* table: system and toolchain paths that are granted, each with its reason. */
#ifndef GH_CONFINE_TABLE_H
#define GH_CONFINE_TABLE_H

#include "trees.h"

/* The rows of the system, which an engine opens once. Fails with E_FILES. */
enum confine_code table_system(struct trees *trees, struct confine_err *err);

/* Add the others. `home` may be NULL; where it lies below `cwd`, links in it are not followed, as a
 * command could have planted them. `own_dev`: the private root has a /dev and /proc of its own, so
 * the host's are left out. Fails with E_FILES. */
enum confine_code table_grant(struct trees *trees, const char *home, const char *cwd, bool own_dev,
                              struct confine_err *err);

/* Always denied: credential files below home that exist, and the system's secrets. */
void table_deny(struct trees *trees, const char *home);

#endif
