/* The private root, with raw system calls only; see child.h. Functions return 0 or -errno. */
#include "child_place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "kernel.h"

#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

/* The one id that a confined root's user namespace leaves out. */
enum { NOBODY_MAPPED = -2 };

struct room {
    const struct child_job *job;
    int old, root; /* "/" as it was, and the new root */
};

static const uint64_t STUB =
    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;

static int set_attr(int fd, uint64_t attr, unsigned flags)
{
    struct mount_attr how = {.attr_set = attr};
    return (int)KERNEL_5(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | flags, &how, sizeof how);
}

/* A place in the new root, its last component not followed; no link on the way. */
static int open_place(const struct room *room, const char *to)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS};
    return (int)KERNEL_4(SYS_openat2, room->root, to, &how, sizeof how);
}

/* Put the detached mount `tree` on `to`; takes `tree`. A place that is gone needs no mount. */
static int put(const struct room *room, int tree, const char *to, bool must_exist)
{
    int at = open_place(room, to);
    if (at < 0) {
        KERNEL_1(SYS_close, tree);
        return at == -ENOENT && !must_exist ? 0 : at;
    }
    int done = (int)KERNEL_5(SYS_move_mount, tree, "", at, "",
                             MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    KERNEL_1(SYS_close, at);
    KERNEL_1(SYS_close, tree);
    return done;
}

static int clone_tree(int dir, const char *path, unsigned flags)
{
    return (int)KERNEL_3(SYS_open_tree, dir, path,
                         OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | flags);
}

/* What was opened must be what the parent saw, whatever became of the path since. */
static int check_identity(int fd, const struct place_step *step)
{
    struct stat st;
    int got = (int)KERNEL_4(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH);
    if (got != 0) {
        return got;
    }
    return st.st_dev == step->dev && st.st_ino == step->ino ? 0 : -ESTALE;
}

static int bind_tree(const struct room *room, const struct place_step *step)
{
    int tree = clone_tree(room->old, step->from + 1, AT_RECURSIVE);
    if (tree < 0) {
        return tree;
    }
    int bad = check_identity(tree, step);
    if (bad == 0) {
        bad = set_attr(tree, step->attr, AT_RECURSIVE);
    }
    if (bad != 0) {
        KERNEL_1(SYS_close, tree);
        return bad;
    }
    return put(room, tree, step->to, true);
}

static int mask(const struct room *room, const char *stub, const char *to)
{
    int tree = clone_tree(room->root, stub, 0);
    return tree < 0 ? tree : put(room, tree, to, false);
}

/* Mount what lies at `path` in the new root onto itself or elsewhere, with attributes. */
static int bind_inner(const struct room *room, const char *path, const char *to, uint64_t attr)
{
    int at = open_place(room, path);
    if (at < 0) {
        return at == -ENOENT ? 0 : at;
    }
    int tree = clone_tree(at, "", AT_EMPTY_PATH | AT_RECURSIVE);
    KERNEL_1(SYS_close, at);
    if (tree < 0) {
        return tree;
    }
    int bad = set_attr(tree, attr, AT_RECURSIVE);
    if (bad != 0) {
        KERNEL_1(SYS_close, tree);
        return bad;
    }
    return put(room, tree, to, false);
}

static int own_nobody(const struct room *room, const char *path)
{
    if (!room->job->map_all) {
        return 0;
    }
    return (int)KERNEL_5(SYS_fchownat, room->root, path, NOBODY_MAPPED, NOBODY_MAPPED,
                         AT_SYMLINK_NOFOLLOW);
}

static int make_twin(const struct room *room, const struct place_step *step)
{
    int fd = (int)KERNEL_4(SYS_openat, room->root, step->from,
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
    if (fd < 0) {
        return fd;
    }
    struct timespec times[2] = {{step->mtime_ns / 1000000000, step->mtime_ns % 1000000000},
                                {step->mtime_ns / 1000000000, step->mtime_ns % 1000000000}};
    int bad = (int)KERNEL_2(SYS_ftruncate, fd, step->size);
    if (bad == 0) {
        bad = (int)KERNEL_4(SYS_utimensat, fd, 0, times, 0);
    }
    KERNEL_1(SYS_close, fd);
    if (bad == 0) {
        bad = own_nobody(room, step->from);
    }
    return bad != 0 ? bad : bind_inner(room, step->from, step->to, STUB);
}

static int make_text(const struct room *room, const struct place_step *step)
{
    int fd = (int)KERNEL_4(SYS_openat, room->root, step->from,
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        return fd;
    }
    size_t n = 0;
    while (step->text[n] != '\0') {
        n++;
    }
    long wrote = KERNEL_3(SYS_write, fd, step->text, n);
    KERNEL_1(SYS_close, fd);
    return wrote != (long)n ? -EIO : bind_inner(room, step->from, step->to, STUB);
}

/* Folders, files and links may stand already, in a tree that is bound there. */
static int make_entry(const struct room *room, const struct place_step *step)
{
    switch (step->kind) {
    case PLACE_FOLDER:
        KERNEL_3(SYS_mkdirat, room->root, step->to, 0755);
        break;
    case PLACE_FILE:
        KERNEL_4(SYS_mknodat, room->root, step->to, S_IFREG | 0444, 0);
        break;
    default:
        KERNEL_3(SYS_symlinkat, step->from, room->root, step->to);
        break;
    }
    return 0;
}

static int take_step(const struct room *room, const struct place_step *step)
{
    switch (step->kind) {
    case PLACE_BIND:
        return bind_tree(room, step);
    case PLACE_MASK:
        return mask(room, step->from, step->to);
    case PLACE_TWIN:
        return make_twin(room, step);
    case PLACE_TEXT:
        return make_text(room, step);
    case PLACE_GUARD:
        return bind_inner(room, step->to, step->to, step->attr);
    default:
        return make_entry(room, step);
    }
}

/* One stub: made, given to nobody, bound read-only onto itself so that its clones are. */
static int make_stub(const struct room *room, const char *path, unsigned mode)
{
    int bad = S_ISDIR(mode) ? (int)KERNEL_3(SYS_mkdirat, room->root, path, mode & 0777)
                            : (int)KERNEL_4(SYS_mknodat, room->root, path, mode, 0);
    if (bad == 0) {
        bad = own_nobody(room, path);
    }
    return bad != 0 ? bad : bind_inner(room, path, path, STUB);
}

static int make_stubs(const struct room *room)
{
    KERNEL_3(SYS_mkdirat, room->root, "proc", 0755);
    int bad = make_stub(room, PLACE_STUB_FILE, S_IFSOCK);
    bad = bad != 0 ? bad : make_stub(room, PLACE_STUB_OPEN, S_IFDIR | 0555);
    return bad != 0 ? bad : make_stub(room, PLACE_STUB_CLOSED, S_IFDIR);
}

static int allow(const struct room *room, const char *path, uint64_t access)
{
    int fd = open_place(room, path);
    if (fd < 0) {
        return fd;
    }
    struct landlock_path rule = {.access = access, .fd = fd};
    int bad =
        (int)KERNEL_4(SYS_landlock_add_rule, room->job->ruleset, LANDLOCK_PATH_BENEATH, &rule, 0);
    KERNEL_1(SYS_close, fd);
    return bad;
}

/* What is new in here: /proc over the workshop, terminals, shared memory, and rights on them. */
static int mount_own(const struct room *room)
{
    int bad = (int)KERNEL_1(SYS_fchdir, room->root);
    if (bad == 0) {
        bad = (int)KERNEL_5(SYS_mount, "proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, 0);
    }
    if (bad == 0) {
        bad = (int)KERNEL_5(SYS_mount, "devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
                            "newinstance,ptmxmode=0666,mode=0620");
    }
    if (bad == 0) {
        bad = (int)KERNEL_5(SYS_mount, "shm", "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV,
                            "mode=1777,size=1g");
    }
    const struct child_job *job = room->job;
    bad = bad != 0 ? bad : allow(room, ".", job->dynamic[0]);
    bad = bad != 0 ? bad : allow(room, "proc", job->dynamic[1]);
    bad = bad != 0 ? bad : allow(room, "dev/shm", job->dynamic[2]);
    return bad != 0 ? bad : allow(room, "dev/pts", job->terminal);
}

static int bring_lo_up(void)
{
    int fd = (int)KERNEL_3(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return fd;
    }
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int bad = (int)KERNEL_3(SYS_ioctl, fd, SIOCSIFFLAGS, &lo);
    KERNEL_1(SYS_close, fd);
    return bad;
}

static int enter(const struct room *room)
{
    int bad = set_attr(room->root, MOUNT_ATTR_RDONLY, 0);
    if (bad == 0) {
        bad = (int)KERNEL_2(SYS_pivot_root, ".", ".");
    }
    if (bad == 0) {
        bad = (int)KERNEL_2(SYS_umount2, ".", MNT_DETACH);
    }
    return bad != 0 ? bad : (int)KERNEL_1(SYS_chdir, "/");
}

static int build(struct room *room, int *step)
{
    const struct place *place = room->job->place;
    int bad = make_stubs(room);
    for (size_t i = 0; bad == 0 && i < place->n; i++) {
        *step = (int)i;
        bad = take_step(room, &place->all[i]);
    }
    if (bad == 0) {
        *step = -1;
        bad = mount_own(room);
    }
    return bad != 0 ? bad : enter(room);
}

int child_place_enter(const struct child_job *job, int *step)
{
    *step = -2;
    if (job->loopback) {
        int bad = bring_lo_up();
        if (bad != 0) {
            return bad;
        }
    }
    int bad = (int)KERNEL_5(SYS_mount, "none", "/", 0, MS_REC | MS_PRIVATE, 0);
    if (bad != 0) {
        return bad;
    }
    struct room room = {.job = job};
    room.old = (int)KERNEL_4(SYS_openat, AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    /* The new root is put on /proc, below which nothing is granted, so that it hides no source. */
    bad = (int)KERNEL_5(SYS_mount, "gatehouse", "/proc", "tmpfs", MS_NOSUID | MS_NODEV,
                        "mode=0755,size=256m");
    if (room.old < 0 || bad != 0) {
        return room.old < 0 ? room.old : bad;
    }
    room.root = (int)KERNEL_4(SYS_openat, AT_FDCWD, "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (room.root < 0) {
        return room.root;
    }
    return build(&room, step);
}

int child_place_close_proc(void)
{
    int fd = (int)KERNEL_4(SYS_openat, AT_FDCWD, "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) {
        return fd;
    }
    int bad = set_attr(fd, MOUNT_ATTR_RDONLY, 0);
    KERNEL_1(SYS_close, fd);
    return bad;
}
