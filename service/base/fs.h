/* fs: small file-system steps that are easy to get wrong: no-follow, close-on-exec, bounded,
 * atomic.
 *
 * Threads: any.
 */
#ifndef GH_BASE_FS_H
#define GH_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* Make `path` and its missing parents with mode 0700, open it as a directory. An existing directory
 * must belong to us; a mode wider than 0700 is refused. *ret_fd is owned by caller.
 * Fails with GH_IO. */
GH_MUST_USE enum gh_code gh_fs_private_dir(const char *path, int *ret_fd, struct gh_err *err);

/* Read the regular file `name` in `dir_fd` (AT_FDCWD for a path) without following a link at its
 * last component. *ret is NUL-terminated, owned by caller (free). Fails with GH_NOT_FOUND,
 * GH_TOO_LARGE (more than `max` bytes), GH_NOMEM or GH_IO. */
GH_MUST_USE enum gh_code gh_fs_read(int dir_fd, const char *name, size_t max, char **ret,
                                    size_t *ret_len, struct gh_err *err);

/* The same for an open file `fd` (borrowed), from its start; `name` is for messages. */
GH_MUST_USE enum gh_code gh_fs_read_fd(int fd, const char *name, size_t max, char **ret,
                                       size_t *ret_len, struct gh_err *err);

/* Replace `name` in `dir_fd` atomically: a temporary file (0600, O_EXCL, O_NOFOLLOW) is written,
 * synced and renamed over it, then the directory is synced. Fails with GH_IO. */
GH_MUST_USE enum gh_code gh_fs_replace(int dir_fd, const char *name, const void *data, size_t len,
                                       struct gh_err *err);

/* Write all of `data`; true on success. */
bool gh_fs_write_all(int fd, const void *data, size_t len);

/* The user's home folder from the password database (never from the environment), or NULL.
 * Owned by caller (free). */
char *gh_fs_home(void);

/* $`variable` when absolute, else home + "/" + `fallback`; then "/gatehouse". NULL when there is no
 * home. Owned by caller (free). */
char *gh_fs_xdg(const char *variable, const char *fallback);

#endif
