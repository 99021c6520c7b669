#include "landlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "report.h"
#include "util.h"

enum { NEWEST = 7, MOST_DEPTH = 128 };

static const uint64_t FILE_ONLY = LANDLOCK_EXECUTE | LANDLOCK_WRITE_FILE | LANDLOCK_READ_FILE |
                                  LANDLOCK_TRUNCATE | LANDLOCK_IOCTL_DEV;

int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_ASK_VERSION);
    return abi < 0 ? 0 : abi > NEWEST ? NEWEST : (int)abi;
}

uint64_t landlock_all(int abi)
{
    static const uint64_t by_abi[NEWEST + 1] = {0,      0x1fff, 0x3fff, 0x7fff,
                                                0x7fff, 0xffff, 0xffff, 0xffff};
    return by_abi[abi];
}

uint64_t landlock_access(int abi, enum trees_right right, bool folder)
{
    static const uint64_t rights[] = {
        [TREES_READ] = LANDLOCK_EXECUTE | LANDLOCK_READ_FILE | LANDLOCK_READ_DIR,
        [TREES_WRITE] = ~(LANDLOCK_MAKE_CHAR | LANDLOCK_MAKE_BLOCK),
        [TREES_DEVICE] = LANDLOCK_READ_FILE | LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE,
        [TREES_TERMINAL] = LANDLOCK_READ_FILE | LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE |
                           LANDLOCK_IOCTL_DEV | LANDLOCK_READ_DIR,
    };
    return rights[right] & landlock_all(abi) & (folder ? ~0ull : FILE_ONLY);
}

/* Rights of a folder that was enumerated: list and create only. Removing or renaming a denied
 * entry would expose it to the next command, as denials are by path. */
static uint64_t list_access(int abi, enum trees_right right)
{
    uint64_t create = LANDLOCK_MAKE_DIR | LANDLOCK_MAKE_REG | LANDLOCK_MAKE_SYM |
                      LANDLOCK_MAKE_FIFO | LANDLOCK_MAKE_SOCK;
    return (LANDLOCK_READ_DIR | (right == TREES_WRITE ? create : 0)) & landlock_all(abi);
}

struct carving {
    const struct trees *trees;
    int ruleset, abi;
    enum trees_right right;
    struct confine_err *err;
};

static enum confine_code add_rule(const struct carving *c, int fd, uint64_t access)
{
    struct landlock_path rule = {.access = access, .fd = fd};
    if (syscall(SYS_landlock_add_rule, c->ruleset, LANDLOCK_PATH_BENEATH, &rule, 0) != 0) {
        return util_fail(c->err, CONFINE_E_ENFORCE, errno, "Landlock refused a rule.");
    }
    return CONFINE_OK;
}

static enum confine_code out_of_files(const struct carving *c)
{
    return util_fail(c->err, CONFINE_E_FILES, EMFILE, "No descriptors are left for the grants.");
}

static bool is_exhausted(int e)
{
    return e == EMFILE || e == ENFILE;
}

static enum confine_code carve(const struct carving *c, int fd, const char *path, int depth);

/* One entry of an enumerated folder. A link is never granted: its target may be anything. */
static enum confine_code carve_entry(const struct carving *c, int dir, const char *path,
                                     const char *name, int depth)
{
    confine_autofree char *child = util_format("%s/%s", strcmp(path, "/") == 0 ? "" : path, name);
    if (trees_covered(c->trees, child)) {
        return CONFINE_OK;
    }
    confine_autoclose int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return is_exhausted(errno) ? out_of_files(c) : CONFINE_OK;
    }
    struct stat st;
    if (fstat(fd, &st) != 0 || S_ISLNK(st.st_mode)) {
        return CONFINE_OK;
    }
    if (S_ISDIR(st.st_mode)) {
        return carve(c, fd, child, depth + 1);
    }
    return add_rule(c, fd, landlock_access(c->abi, c->right, false));
}

/* Grant the folder `fd` less what is denied below it. What cannot be listed grants nothing. */
static enum confine_code carve(const struct carving *c, int fd, const char *path, int depth)
{
    if (!trees_denies_below(c->trees, path)) {
        return add_rule(c, fd, landlock_access(c->abi, c->right, true));
    }
    int list = depth > MOST_DEPTH ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (list < 0) {
        return is_exhausted(errno) ? out_of_files(c) : CONFINE_OK;
    }
    DIR *dir = fdopendir(list);
    if (dir == NULL) {
        close(list);
        return util_fail(c->err, CONFINE_E_SYSTEM, errno, "A folder could not be listed.");
    }
    enum confine_code code = add_rule(c, fd, list_access(c->abi, c->right));
    const struct dirent *entry;
    while (code == CONFINE_OK && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            code = carve_entry(c, list, path, entry->d_name, depth);
        }
    }
    closedir(dir);
    return code;
}

static enum confine_code add_tree(struct carving *c, const struct trees_one *tree, bool carved)
{
    c->right = tree->right;
    if (carved && tree->folder) {
        return carve(c, tree->fd, tree->path, 0);
    }
    return add_rule(c, tree->fd, landlock_access(c->abi, tree->right, tree->folder));
}

static enum confine_code add_ports(int ruleset, const struct landlock_wish *wish,
                                   struct confine_err *err)
{
    for (size_t i = 0; i <= wish->n_ports; i++) {
        struct landlock_port rule = {
            .access = LANDLOCK_TCP_BIND | LANDLOCK_TCP_CONNECT,
            .port = i < wish->n_ports ? wish->ports[i] : 53, /* names are looked up over TCP */
        };
        if (i == wish->n_ports) {
            rule.access = LANDLOCK_TCP_CONNECT;
        }
        if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_PORT, &rule, 0) != 0) {
            return util_fail(err, CONFINE_E_ENFORCE, errno, "Landlock refused a port rule.");
        }
    }
    return CONFINE_OK;
}

enum confine_code landlock_build(const struct trees *trees, const struct landlock_wish *wish,
                                 int *ret, struct confine_err *err)
{
    struct landlock_rules rules = {.fs = landlock_all(wish->abi)};
    size_t size = wish->abi >= 6 ? sizeof rules : wish->abi >= 4 ? 16 : 8;
    if (wish->abi >= 6) {
        rules.scoped = 3; /* abstract sockets, signals */
    }
    if (wish->tcp_only) {
        rules.net = LANDLOCK_TCP_BIND | LANDLOCK_TCP_CONNECT;
    }
    confine_autoclose int ruleset =
        (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0); /* close-on-exec by itself */
    if (ruleset < 0) {
        return util_fail(err, is_exhausted(errno) ? CONFINE_E_FILES : CONFINE_E_ENFORCE, errno,
                         "No Landlock ruleset could be made.");
    }
    struct carving c = {.trees = trees, .ruleset = ruleset, .abi = wish->abi, .err = err};
    for (size_t i = 0; i < trees->n; i++) {
        CONFINE_TRY(add_tree(&c, &trees->all[i], wish->carve));
    }
    if (wish->tcp_only) {
        CONFINE_TRY(add_ports(ruleset, wish, err));
    }
    *ret = ruleset;
    ruleset = -1;
    return CONFINE_OK;
}

void landlock_lost(int abi, struct confine_report *report)
{
    static const struct {
        int since;
        const char *what;
    } rows[] = {
        {1, "landlock: no file rules at all"},
        {2, "landlock: renames and links between folders are refused, not judged"},
        {3, "landlock: truncate"},
        {4, "landlock: TCP ports"},
        {5, "landlock: ioctl on devices"},
        {6, "landlock: signals and abstract sockets to processes outside"},
        {7, "landlock: audit flags"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (abi < rows[i].since) {
            report_lose(report, rows[i].what);
        }
    }
}
