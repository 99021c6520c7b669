#include "store/anchor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fs.h"
#include "base/json.h"

#define ANCHOR_BYTES                                                                               \
    256 /* within one sector, so an update is whole or absent after a power cut                    \
         */

static enum gh_code parse(const char *data, size_t len, struct store_anchor *ret,
                          struct gh_err *err)
{
    gh_auto(gh_json_freep) struct json_t *root = NULL;
    GH_TRY(gh_json_parse(data, len, &root, err));
    const char *gateway = NULL;
    const char *hash = NULL;
    int64_t count = 0;
    int64_t version = 0;
    GH_TRY(gh_json_int(root, "", "version", GH_NEED, 1, 1, &version, err));
    GH_TRY(gh_json_int(root, "", "count", GH_NEED, 0, INT64_MAX, &count, err));
    GH_TRY(gh_json_str(root, "", "gateway", GH_NEED, GH_ID - 1, &gateway, err));
    GH_TRY(gh_json_str(root, "", "hash", GH_NEED, GH_HEX - 1, &hash, err));
    ret->head.seq = (uint64_t)count;
    snprintf(ret->gateway, sizeof ret->gateway, "%s", gateway);
    if (!store_hash_parse(hash, ret->head.hash)) {
        return gh_fail(err, GH_IO, "its hash is not one");
    }
    return GH_OK;
}

enum gh_code store_anchor_read(int dir_fd, struct store_anchor *ret, struct gh_err *err)
{
    gh_autofree char *data = NULL;
    size_t len = 0;
    GH_TRY(gh_fs_read(dir_fd, STORE_ANCHOR_NAME, 4096, &data, &len, err));
    struct gh_err why = {0};
    if (parse(data, len, ret, &why) != GH_OK) {
        return gh_fail(err, GH_IO, "audit.anchor cannot be understood: %s", why.detail);
    }
    return GH_OK;
}

/* True when `fd` is still what the name leads to. */
static bool is_in_place(int dir_fd, int fd)
{
    struct stat ours;
    struct stat named;
    return fstat(fd, &ours) == 0 &&
           fstatat(dir_fd, STORE_ANCHOR_NAME, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

static int open_anchor(int dir_fd)
{
    return openat(dir_fd, STORE_ANCHOR_NAME, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
}

/* The file appears with its content or not at all: an empty one, left by a kill in between, could
 * not be told from one that somebody emptied. */
static bool reopen(int dir_fd, int *fd, const char text[ANCHOR_BYTES])
{
    struct gh_err ignored;
    if (*fd >= 0 && is_in_place(dir_fd, *fd)) {
        return true;
    }
    gh_auto_close(fd);
    *fd = open_anchor(dir_fd);
    if (*fd < 0 && errno == ENOENT &&
        gh_fs_replace(dir_fd, STORE_ANCHOR_NAME, text, ANCHOR_BYTES, &ignored) == GH_OK) {
        *fd = open_anchor(dir_fd);
    }
    return *fd >= 0 && fchmod(*fd, 0600) == 0;
}

enum gh_code store_anchor_write(int dir_fd, int *fd, const struct store_anchor *anchor,
                                bool is_synced, struct gh_err *err)
{
    char hash[GH_HEX];
    gh_id_hex(anchor->head.hash, hash);
    char text[ANCHOR_BYTES];
    memset(text, ' ', sizeof text);
    int len = snprintf(text, sizeof text,
                       "{\"version\":1,\"gateway\":\"%s\",\"count\":%llu,\"hash\":\"%s\"}",
                       anchor->gateway, (unsigned long long)anchor->head.seq, hash);
    text[len] = ' ';
    text[sizeof text - 1] = '\n';
    if (!reopen(dir_fd, fd, text) || pwrite(*fd, text, sizeof text, 0) != (ssize_t)sizeof text) {
        return gh_fail(err, GH_IO, "audit.anchor cannot be written: %s.", strerror(errno));
    }
    if (is_synced && (fsync(*fd) != 0 || fsync(dir_fd) != 0)) {
        return gh_fail(err, GH_IO, "audit.anchor cannot be synced: %s.", strerror(errno));
    }
    return GH_OK;
}
