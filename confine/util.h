/* util: memory, lists of strings, paths. Out of memory aborts. */
#ifndef GH_CONFINE_UTIL_H
#define GH_CONFINE_UTIL_H

#include <stdlib.h>
#include <unistd.h>

#include "spec.h"

#define confine_auto(fn) __attribute__((cleanup(fn)))
#define confine_autofree confine_auto(util_auto_free)
#define confine_autoclose confine_auto(util_auto_close)

/* Hand a failure up unchanged. */
#define CONFINE_TRY(call)                                                                          \
    do {                                                                                           \
        enum confine_code confine_try_code = (call);                                               \
        if (confine_try_code != CONFINE_OK) {                                                      \
            return confine_try_code;                                                               \
        }                                                                                          \
    } while (0)

/* For confine_autofree. */
static inline void util_auto_free(void *pp)
{
    free(*(void **)pp);
}

/* For confine_autoclose. */
static inline void util_auto_close(const int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
}

/* Owns its strings; `all` is NULL-terminated once something was added. */
struct util_strs {
    char **all;
    size_t n, room;
};

/* Fill *err (may be NULL) and return `code`. */
enum confine_code util_fail(struct confine_err *err, enum confine_code code, int sys_errno,
                            const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Zeroed memory. */
void *util_alloc(size_t n, size_t size);

/* Make room for one more element of `size` bytes in *all, which holds n of *room. */
void util_grow(void *all, size_t n, size_t *room, size_t size);

/* Copies that are never NULL. */
char *util_dup(const char *text);

/* As sprintf, into memory of its own. */
char *util_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Add a string, taking it over. */
void util_strs_take(struct util_strs *list, char *text);
void util_strs_fini(struct util_strs *list);

/* Is `path` equal to `root` or below it, by whole components? */
bool util_below(const char *path, const char *root);

/* `path` with its folder resolved and its last component as it is (malloc); components that do not
 * exist are kept as text. NULL: not absolute. */
char *util_resolve_parent(const char *path);

/* As above, the last component resolved too. */
char *util_resolve(const char *path);

/* The whole file of at most `most` bytes, NUL-terminated (malloc), or NULL. No link is followed in
 * the last component. */
char *util_slurp(const char *path, size_t most, size_t *ret_len);

#endif
