#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"

/* mkdir -p with mode 0700 for what is missing. */
static bool make_parents(const char *path)
{
    gh_autofree char *copy = strdup(path);
    if (copy == NULL) {
        return false;
    }
    for (char *slash = strchr(copy + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(copy, 0700) != 0 && errno != EEXIST) {
            return false;
        }
        *slash = '/';
    }
    return mkdir(copy, 0700) == 0 || errno == EEXIST;
}

enum gh_code gh_fs_private_dir(const char *path, int *ret_fd, struct gh_err *err)
{
    if (!make_parents(path)) {
        return gh_fail(err, GH_IO, "The folder %s cannot be made: %s.", path, strerror(errno));
    }
    gh_autoclose int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        return gh_fail(err, GH_IO, "The folder %s cannot be opened: %s.", path, strerror(errno));
    }
    if (st.st_uid != geteuid()) {
        return gh_fail(err, GH_IO, "The folder %s belongs to another user.", path);
    }
    if ((st.st_mode & 077) != 0) {
        return gh_fail(err, GH_IO, "The folder %s is open to others (mode %03o); run: chmod 700 %s",
                       path, (unsigned)st.st_mode & 0777U, path);
    }
    *ret_fd = gh_steal_fd(&fd);
    return GH_OK;
}

enum gh_code gh_fs_read_fd(int fd, const char *name, size_t max, char **ret, size_t *ret_len,
                           struct gh_err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return gh_fail(err, GH_IO, "%s cannot be read: %s.", name, strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        return gh_fail(err, GH_IO, "%s is not a regular file.", name);
    }
    if ((size_t)st.st_size > max) {
        return gh_fail(err, GH_TOO_LARGE, "%s is larger than %zu bytes.", name, max);
    }
    size_t cap = (size_t)st.st_size + 1;
    gh_autofree char *data = malloc(cap + 1);
    if (data == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory to read %s.", name);
    }
    size_t len = 0;
    while (len < cap) {
        ssize_t n = pread(fd, data + len, cap - len, (off_t)len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return gh_fail(err, GH_IO, "%s cannot be read: %s.", name, strerror(errno));
        }
        if (n == 0) {
            break;
        }
        len += (size_t)n;
    }
    if (len == cap) {
        return gh_fail(err, GH_IO, "%s grew while it was read.", name);
    }
    data[len] = '\0';
    *ret = gh_steal(&data);
    *ret_len = len;
    return GH_OK;
}

enum gh_code gh_fs_read(int dir_fd, const char *name, size_t max, char **ret, size_t *ret_len,
                        struct gh_err *err)
{
    gh_autoclose int fd =
        openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return gh_fail(err, errno == ENOENT ? GH_NOT_FOUND : GH_IO, "%s cannot be opened: %s.",
                       name, strerror(errno));
    }
    return gh_fs_read_fd(fd, name, max, ret, ret_len, err);
}

bool gh_fs_write_all(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

enum gh_code gh_fs_replace(int dir_fd, const char *name, const void *data, size_t len,
                           struct gh_err *err)
{
    char temp[GH_ID + 8] = ".";
    gh_id_new("tmp", temp + 1);
    gh_autoclose int fd =
        openat(dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return gh_fail(err, GH_IO, "%s cannot be written: %s.", name, strerror(errno));
    }
    if (!gh_fs_write_all(fd, data, len) || fsync(fd) != 0 ||
        renameat(dir_fd, temp, dir_fd, name) != 0) {
        int saved = errno;
        unlinkat(dir_fd, temp, 0);
        return gh_fail(err, GH_IO, "%s cannot be written: %s.", name, strerror(saved));
    }
    if (dir_fd != AT_FDCWD && fsync(dir_fd) != 0) {
        return gh_fail(err, GH_IO, "The folder of %s cannot be synced: %s.", name, strerror(errno));
    }
    return GH_OK;
}

char *gh_fs_home(void)
{
    char space[4096];
    struct passwd entry;
    struct passwd *found = NULL;
    if (getpwuid_r(geteuid(), &entry, space, sizeof space, &found) != 0 || found == NULL ||
        found->pw_dir == NULL || found->pw_dir[0] != '/') {
        return NULL;
    }
    return strdup(found->pw_dir);
}

char *gh_fs_xdg(const char *variable, const char *fallback)
{
    const char *base = getenv(variable);
    char *path = NULL;
    if (base != NULL && base[0] == '/') {
        return asprintf(&path, "%s/gatehouse", base) < 0 ? NULL : path;
    }
    gh_autofree char *home = gh_fs_home();
    if (home == NULL || asprintf(&path, "%s/%s/gatehouse", home, fallback) < 0) {
        return NULL;
    }
    return path;
}
