/* auto: release on scope exit, by the compiler. There is no `goto` in this tree.
 *
 *   gh_autofree char *text = NULL;            freed
 *   gh_autoclose int fd = -1;                 closed if >= 0
 *   gh_auto(gh_buf_fini) struct gh_buf b = GH_BUF_INIT;
 *   *ret = gh_steal(&text);                   handed over
 */
#ifndef GH_BASE_AUTO_H
#define GH_BASE_AUTO_H

#include <stdlib.h>
#include <unistd.h>

#define gh_auto(fn) __attribute__((cleanup(fn)))
#define gh_autofree __attribute__((cleanup(gh_auto_free)))
#define gh_autoclose __attribute__((cleanup(gh_auto_close)))

/* Take the pointer out of *pp, leaving NULL. */
#define gh_steal(pp)                                                                               \
    (__extension__({                                                                               \
        __typeof__(*(pp)) gh_stolen = *(pp);                                                       \
        *(pp) = NULL;                                                                              \
        gh_stolen;                                                                                 \
    }))

/* Take the descriptor out of *fd, leaving -1. */
static inline int gh_steal_fd(int *fd)
{
    int stolen = *fd;
    *fd = -1;
    return stolen;
}

/* For gh_autofree. */
static inline void gh_auto_free(void *pp)
{
    free(*(void **)pp);
}

/* For gh_autoclose. */
static inline void gh_auto_close(const int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
}

#endif
