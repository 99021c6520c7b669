#include "trees.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

void trees_fini(struct trees *trees)
{
    for (size_t i = 0; i < trees->n; i++) {
        free(trees->all[i].path);
        util_auto_close(&trees->all[i].fd);
    }
    for (size_t i = 0; i < trees->n_denied; i++) {
        free(trees->denied[i].path);
    }
    for (size_t i = 0; i < trees->n_links; i++) {
        free(trees->links[i].path);
        free(trees->links[i].target);
    }
    free(trees->all);
    free(trees->denied);
    free(trees->links);
    *trees = (struct trees){0};
}

static void add_link(struct trees *trees, const char *path, const char *target)
{
    for (size_t i = 0; i < trees->n_links; i++) {
        if (strcmp(trees->links[i].path, path) == 0) {
            return;
        }
    }
    util_grow(&trees->links, trees->n_links, &trees->room_links, sizeof *trees->links);
    trees->links[trees->n_links++] = (struct trees_link){util_dup(path), util_dup(target)};
}

/* The stronger right wins where one path is granted twice. */
static bool merge(struct trees *trees, const char *path, const struct trees_wish *wish)
{
    for (size_t i = 0; i < trees->n; i++) {
        struct trees_one *one = &trees->all[i];
        if (strcmp(one->path, path) == 0) {
            if (wish->right == TREES_WRITE) {
                one->right = TREES_WRITE;
                one->reason = wish->reason;
            }
            one->scanned |= wish->scanned;
            return true;
        }
    }
    return false;
}

/* A component that became a link after realpath opens nothing. */
static int open_linkless(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

enum confine_code trees_grant(struct trees *trees, const char *path, const struct trees_wish *wish,
                              struct confine_err *err)
{
    confine_autofree char *real = realpath(path, NULL);
    if (real == NULL) {
        return CONFINE_OK;
    }
    if (strcmp(real, path) != 0) {
        if (wish->nofollow) {
            return CONFINE_OK;
        }
        add_link(trees, path, real);
    }
    if (merge(trees, real, wish)) {
        return CONFINE_OK;
    }
    int fd = open_linkless(real);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || S_ISLNK(st.st_mode)) {
        int e = errno;
        util_auto_close(&fd);
        if (e == EMFILE || e == ENFILE) {
            return util_fail(err, CONFINE_E_FILES, EMFILE, "No descriptors are left to open %s.",
                             real);
        }
        return CONFINE_OK;
    }
    util_grow(&trees->all, trees->n, &trees->room, sizeof *trees->all);
    trees->all[trees->n++] = (struct trees_one){.path = util_dup(real),
                                                .reason = wish->reason,
                                                .right = wish->right,
                                                .folder = S_ISDIR(st.st_mode),
                                                .scanned = wish->scanned,
                                                .fd = fd};
    return CONFINE_OK;
}

/* The type of what is there, 0: nothing. */
static mode_t deny_one(struct trees *trees, const char *path, const char *why)
{
    struct trees_denied one = {.path = util_dup(path), .why = why};
    struct stat st;
    if (lstat(path, &st) == 0) {
        one.exists = true;
        one.mode = st.st_mode;
        one.dev = st.st_dev;
        one.ino = st.st_ino;
        one.links = st.st_nlink;
        one.size = st.st_size;
        one.mtime_ns = st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
    }
    util_grow(&trees->denied, trees->n_denied, &trees->room_denied, sizeof *trees->denied);
    trees->denied[trees->n_denied++] = one;
    return one.mode;
}

void trees_deny_found(struct trees *trees, const char *path, const char *why)
{
    if (S_ISLNK(deny_one(trees, path, why))) {
        trees_deny(trees, path, why);
    }
}

enum confine_code trees_copy(struct trees *trees, const struct trees *from, struct confine_err *err)
{
    for (size_t i = 0; i < from->n; i++) {
        struct trees_one one = from->all[i];
        one.fd = fcntl(one.fd, F_DUPFD_CLOEXEC, 3);
        if (one.fd < 0) {
            return util_fail(err, CONFINE_E_FILES, errno,
                             "No descriptors are left for the grants.");
        }
        one.path = util_dup(one.path);
        util_grow(&trees->all, trees->n, &trees->room, sizeof *trees->all);
        trees->all[trees->n++] = one;
    }
    for (size_t i = 0; i < from->n_links; i++) {
        add_link(trees, from->links[i].path, from->links[i].target);
    }
    return CONFINE_OK;
}

void trees_deny(struct trees *trees, const char *path, const char *why)
{
    confine_autofree char *given = util_resolve_parent(path);
    confine_autofree char *target = util_resolve(path);
    if (given == NULL || target == NULL) {
        return;
    }
    deny_one(trees, given, why);
    if (strcmp(given, target) != 0) {
        deny_one(trees, target, why);
    }
}

/* By components, so that all that lies below an entry follows it at once: '/' sorts first. */
static int compare_paths(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    int x = *a == '/' ? 1 : (unsigned char)*a + (*a != '\0');
    int y = *b == '/' ? 1 : (unsigned char)*b + (*b != '\0');
    return x - y;
}

static int compare_denied(const void *a, const void *b)
{
    const struct trees_denied *x = a, *y = b;
    return compare_paths(x->path, y->path);
}

/* Entries below another denied one add nothing. */
static void drop_nested(struct trees *trees)
{
    size_t kept = 0;
    for (size_t i = 0; i < trees->n_denied; i++) {
        struct trees_denied *one = &trees->denied[i];
        if (kept > 0 && util_below(one->path, trees->denied[kept - 1].path)) {
            free(one->path);
            continue;
        }
        trees->denied[kept++] = *one;
    }
    trees->n_denied = kept;
}

void trees_seal(struct trees *trees)
{
    if (trees->n_denied > 0) {
        qsort(trees->denied, trees->n_denied, sizeof *trees->denied, compare_denied);
        drop_nested(trees);
    }
    size_t kept = 0;
    for (size_t i = 0; i < trees->n; i++) {
        struct trees_one *one = &trees->all[i];
        if (trees_covered(trees, one->path)) {
            free(one->path);
            close(one->fd);
            continue;
        }
        trees->all[kept++] = *one;
    }
    trees->n = kept;
}

/* The index of the first denied entry that sorts at or behind `path`. */
static size_t find(const struct trees *trees, const char *path)
{
    size_t low = 0, high = trees->n_denied;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare_paths(trees->denied[middle].path, path) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool trees_covered(const struct trees *trees, const char *path)
{
    size_t at = find(trees, path);
    if (at < trees->n_denied && strcmp(trees->denied[at].path, path) == 0) {
        return true;
    }
    return at > 0 && util_below(path, trees->denied[at - 1].path);
}

bool trees_denies_below(const struct trees *trees, const char *path)
{
    size_t at = find(trees, path);
    if (at < trees->n_denied && strcmp(trees->denied[at].path, path) == 0) {
        at++;
    }
    return at < trees->n_denied && util_below(trees->denied[at].path, path);
}

const struct trees_one *trees_of(const struct trees *trees, const char *path)
{
    const struct trees_one *best = NULL;
    for (size_t i = 0; i < trees->n; i++) {
        const struct trees_one *one = &trees->all[i];
        if (util_below(path, one->path) &&
            (best == NULL || strlen(one->path) > strlen(best->path))) {
            best = one;
        }
    }
    return best;
}
