/* gitconf: one value out of git configuration files, without running git.
 *
 * Threads: any.
 */
#ifndef GH_GATE_GITCONF_H
#define GH_GATE_GITCONF_H

#include "base/err.h"

/* Set *value (owned by caller, freed before it is replaced) to the last core.hooksPath of `file`
 * and of the files it includes without a condition; untouched when there is none or the file cannot
 * be read. `home` expands "~/" in includes. Fails with GH_NOMEM. */
GH_MUST_USE enum gh_code gitconf_hooks_path(const char *file, const char *home, char **value,
                                            struct gh_err *err);

#endif
