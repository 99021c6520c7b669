/* room: a state folder of a test's own, removed at the end. */
#ifndef TEST_AUTH_ROOM_H
#define TEST_AUTH_ROOM_H

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/auto.h"
#include "base/fs.h"

struct room {
    char dir[64];
    char tokens[80];
};

static inline void room_enter(struct room *room)
{
    ck_assert(gh_id_init());
    snprintf(room->dir, sizeof room->dir, "/tmp/test_auth.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(room->dir));
    snprintf(room->tokens, sizeof room->tokens, "%s/tokens", room->dir);
}

static inline void room_empty(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    rmdir(path);
}

static inline void room_leave(struct room *room)
{
    char away[96];
    snprintf(away, sizeof away, "%s/away", room->dir);
    room_empty(room->tokens);
    room_empty(away);
    room_empty(room->dir);
}

/* The path of a file in the tokens folder; valid until the next call. */
static inline const char *room_path(const struct room *room, const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", room->tokens, name);
    return path;
}

static inline mode_t room_mode(const struct room *room, const char *name)
{
    struct stat st;
    ck_assert_int_eq(lstat(room_path(room, name), &st), 0);
    return st.st_mode & 07777;
}

static inline bool room_has(const struct room *room, const char *name)
{
    struct stat st;
    return lstat(room_path(room, name), &st) == 0;
}

static inline void room_put(const struct room *room, const char *name, const char *text,
                            mode_t mode)
{
    gh_autoclose int fd =
        open(room_path(room, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert(gh_fs_write_all(fd, text, strlen(text)));
    ck_assert_int_eq(fchmod(fd, mode), 0);
}

/* Add a token that never expires; its secret goes to `secret`. */
static inline void room_add(const struct room *room, const char *name, enum auth_role role,
                            char secret[AUTH_SECRET])
{
    struct gh_err err = {0};
    enum gh_code code = auth_tokens_add(room->dir, name, role, -1, false, secret, NULL, &err);
    ck_assert_msg(code == GH_OK, "%s", err.detail);
}

/* Ask `done` again and again for up to 5 s: the result decides, never the time. */
static inline bool room_wait(bool (*done)(void *cookie), void *cookie)
{
    for (int i = 0; i < 1000; i++) {
        if (done(cookie)) {
            return true;
        }
        struct timespec step = {.tv_nsec = 5000000};
        nanosleep(&step, NULL);
    }
    return done(cookie);
}

#endif
