/* folder: <state>/tokens on disk: private modes, a lock for changes, no links anywhere.
 *
 * Threads: a folder belongs to one thread at a time; several may be open on the same place.
 */
#ifndef GH_AUTH_FOLDER_H
#define GH_AUTH_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "auth/record.h"
#include "base/err.h"

struct folder {
    int fd;      /* the directory, or -1 */
    int lock_fd; /* held while changing, or -1 */
};

#define FOLDER_INIT ((struct folder){-1, -1})

struct records {
    struct record *all; /* heap, sorted by id */
    size_t n;
    size_t cap;
};

/* What to do about a record that cannot be taken. */
enum folder_mood {
    FOLDER_STRICT,  /* fail */
    FOLDER_SKIP,    /* log and leave out; fail with GH_BUSY when trying again may help */
    FOLDER_SKIP_ALL /* log and leave out, whatever it is */
};

/* Open, making the folder when it is not there. Fails with GH_IO. */
GH_MUST_USE enum gh_code folder_open(const char *state_dir, struct folder *ret, struct gh_err *err);
void folder_close(struct folder *folder); /* also for gh_auto */

/* Take the lock, waiting for seconds, not for ever; released by folder_close. Fails with GH_IO. */
GH_MUST_USE enum gh_code folder_lock(struct folder *folder, struct gh_err *err);

/* Open another folder's place once more and take the lock only if it is free. */
bool folder_try_lock(const struct folder *folder, struct folder *ret);

/* Read a small private file of ours in `dir_fd`, not through a link. `data` has `cap` bytes and is
 * NUL-ended. Fails with GH_NOT_FOUND, GH_BUSY (no descriptors or memory just now) or GH_IO. */
GH_MUST_USE enum gh_code folder_read_file(int dir_fd, const char *name, char *data, size_t cap,
                                          size_t *ret_len, struct gh_err *err);

/* Read the record of token `name`. Fails with GH_NOT_FOUND, GH_BUSY, GH_IO. */
GH_MUST_USE enum gh_code folder_read(const struct folder *folder, const char *name,
                                     struct record *ret, struct gh_err *err);

/* Read all records. *ret is owned by caller (records_fini). Fails with GH_IO, GH_BUSY, GH_NOMEM. */
GH_MUST_USE enum gh_code folder_read_all(const struct folder *folder, enum folder_mood mood,
                                         struct records *ret, struct gh_err *err);
void records_fini(struct records *records); /* also for gh_auto */

/* Write the record of its token, in one step. Fails with GH_IO or GH_NOMEM. */
GH_MUST_USE enum gh_code folder_write(const struct folder *folder, const struct record *record,
                                      struct gh_err *err);

/* Write NAME.token. Fails with GH_IO. */
GH_MUST_USE enum gh_code folder_write_secret(const struct folder *folder, const char *name,
                                             const char secret[AUTH_SECRET], struct gh_err *err);

/* Fails with GH_IO when NAME.token is there and not private, ours and a regular file. */
GH_MUST_USE enum gh_code folder_check_secret(const struct folder *folder, const char *name,
                                             struct gh_err *err);

/* Take NAME.token or NAME.json away; nothing happens when it is not there. Fails with GH_IO. */
GH_MUST_USE enum gh_code folder_remove(const struct folder *folder, const char *name,
                                       const char *suffix, struct gh_err *err);

#endif
