/* gitmeta_impl: only for gitmeta.c and gitfind.c. */
#ifndef GH_GATE_GITMETA_IMPL_H
#define GH_GATE_GITMETA_IMPL_H

#include <stdbool.h>
#include <stddef.h>

/* True for a folder (the first `len` bytes of `dir`) that git takes for a repository's own. */
bool gitmeta_is_complete(const char *dir, size_t len);

#endif
