/* attempts: tries what a confined command must or must not be able to do, and says what the kernel
 * answered. Knows nothing of the confiner.
 *
 *   attempts < LINES              each line "OP ARG…" is answered by "RESULT<tab>LINE"
 *   attempts calls                every refused system call: "RESULT<tab>NAME"
 *   attempts block CALL ERRNO CMD…  run CMD under a filter that answers CALL with ERRNO
 *
 * RESULT is "ok", an errno's name, or a word of the operation.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <arpa/inet.h>
#include <unistd.h>

static const char *result(long got)
{
    return got >= 0 ? "ok" : strerrorname_np(errno);
}

static long close_ok(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
    return fd;
}

/* ---- operations on paths ---- */

static long op_read(char **a)
{
    char c;
    int fd = open(a[1], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    long got = fd < 0 ? -1 : read(fd, &c, 1);
    int e = errno;
    close_ok(fd);
    errno = e;
    return got;
}

static long op_write(char **a)
{
    int fd = open(a[1], O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    long got = fd < 0 ? -1 : write(fd, "x", 1);
    int e = errno;
    close_ok(fd);
    errno = e;
    return got;
}

static long op_create(char **a)
{
    return close_ok(open(a[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
}

static long op_mknod(char **a)
{
    return mknod(a[1], S_IFREG | 0644, 0);
}

static long op_chardev(char **a)
{
    return mknod(a[1], S_IFCHR | 0666, makedev(1, 11));
}

static long op_blockdev(char **a)
{
    return mknod(a[1], S_IFBLK | 0666, makedev(7, 0));
}

static long op_opath(char **a)
{
    char path[64];
    int fd = open(a[1], O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return close_ok(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

static long op_list(char **a)
{
    return close_ok(open(a[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static long op_unlink(char **a)
{
    return unlink(a[1]);
}

static long op_rmdir(char **a)
{
    return rmdir(a[1]);
}

static long op_mkdir(char **a)
{
    return mkdir(a[1], 0755);
}

static long op_rename(char **a)
{
    return rename(a[1], a[2]);
}

static long op_exchange(char **a)
{
    return renameat2(AT_FDCWD, a[1], AT_FDCWD, a[2], RENAME_EXCHANGE);
}

static long op_link(char **a)
{
    return link(a[1], a[2]);
}

static long op_link_fd(char **a)
{
    char path[64];
    int fd = open(a[1], O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, path, AT_FDCWD, a[2], AT_SYMLINK_FOLLOW);
}

static long op_link_empty(char **a)
{
    int fd = open(a[1], O_PATH | O_CLOEXEC);
    return fd < 0 ? -1 : linkat(fd, "", AT_FDCWD, a[2], AT_EMPTY_PATH);
}

static long op_symlink(char **a)
{
    return symlink(a[1], a[2]);
}

static long op_chmod(char **a)
{
    return chmod(a[1], 0777);
}

static long op_chown(char **a)
{
    return chown(a[1], geteuid(), (gid_t)-1);
}

static long op_utime(char **a)
{
    return utimensat(AT_FDCWD, a[1], NULL, 0);
}

static long op_xattr(char **a)
{
    return setxattr(a[1], "user.x", "1", 1, 0);
}

static long op_truncate(char **a)
{
    return truncate(a[1], 0);
}

static long op_exec(char **a)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl(a[1], a[1], (char *)NULL);
        _exit(errno);
    }
    int status;
    waitpid(pid, &status, 0);
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    return errno == 0 ? 0 : -1;
}

static long op_handle(char **a)
{
    struct {
        struct file_handle h;
        char room[128];
    } x = {.h = {.handle_bytes = 128}};
    int mount;
    return name_to_handle_at(AT_FDCWD, a[1], &x.h, &mount, 0);
}

static long op_chdir_up(char **a)
{
    char path[4096];
    long got = chdir(a[1]);
    snprintf(path, sizeof path, "%s", a[2]);
    return got < 0 ? got : close_ok(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

/* ---- processes, sockets, terminals ---- */

static long op_kill(char **a)
{
    return kill(atoi(a[1]), atoi(a[2]));
}

static long op_tgkill(char **a)
{
    return syscall(SYS_tgkill, atoi(a[1]), atoi(a[1]), SIGKILL);
}

static long op_pidfd(char **a)
{
    int fd = (int)syscall(SYS_pidfd_open, atoi(a[1]), 0);
    return fd < 0 ? -1 : syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

static long op_prlimit(char **a)
{
    struct rlimit limit = {1, 1};
    return prlimit(atoi(a[1]), RLIMIT_CORE, &limit, NULL);
}

static long op_renice(char **a)
{
    return setpriority(PRIO_PROCESS, (id_t)atoi(a[1]), 19);
}

static long op_own_child(char **a)
{
    (void)a;
    pid_t pid = fork();
    if (pid == 0) {
        pause();
    }
    long got = kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return got;
}

static long op_unix(char **a)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", a[1]);
    int type = a[2] != NULL && strcmp(a[2], "dgram") == 0 ? SOCK_DGRAM : SOCK_STREAM;
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof to);
}

static long op_abstract(char **a)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = strlen(a[1]);
    memcpy(to.sun_path + 1, a[1], n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, len);
}

static long op_tcp(char **a)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(a[1]))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof to);
}

static long op_tcp_self(char **a)
{
    (void)a;
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0 || fd < 0 || bind(server, (struct sockaddr *)&at, len) != 0 ||
        listen(server, 1) != 0 || getsockname(server, (struct sockaddr *)&at, &len) != 0) {
        return -1;
    }
    return connect(fd, (struct sockaddr *)&at, len);
}

/* socket FAMILY TYPE PROTOCOL */
static long op_socket(char **a)
{
    return close_ok(socket(atoi(a[1]), atoi(a[2]), atoi(a[3])));
}

static long op_pair(char **a)
{
    int pair[2];
    return socketpair(AF_UNIX, atoi(a[1]), 0, pair);
}

/* The first other family that opens, or none. */
static long op_families(char **a)
{
    (void)a;
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_PACKET};
    for (int family = 0; family < 128; family++) {
        bool expected =
            family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
        for (size_t i = 0; i < 5 && !expected; i++) {
            if (close_ok(socket(family, types[i], 0)) >= 0 || errno != EPERM) {
                errno = family == 0 ? EDOM : EXFULL;
                return -1;
            }
        }
    }
    return 0;
}

static long op_ioctl(char **a)
{
    char c = 'x';
    int fd = open(a[1], O_RDWR | O_NOCTTY | O_CLOEXEC);
    unsigned long request = strcmp(a[2], "sti") == 0 ? TIOCSTI : TIOCLINUX;
    return ioctl(fd < 0 ? 0 : fd, request, &c);
}

/* Descriptors above 2 that were inherited: "ok" when there are none. */
static long op_fds(char **a)
{
    (void)a;
    for (int fd = 3; fd < 4096; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            errno = EMFILE;
            return -1;
        }
    }
    return 0;
}

static long op_setsid(char **a)
{
    (void)a;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(setsid() < 0 ? errno : 0);
    }
    int status;
    waitpid(pid, &status, 0);
    errno = WEXITSTATUS(status);
    return errno == 0 ? 0 : -1;
}

static long op_setpgid(char **a)
{
    (void)a;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(setpgid(0, 0) < 0 ? errno : 0);
    }
    int status;
    waitpid(pid, &status, 0);
    errno = WEXITSTATUS(status);
    return errno == 0 ? 0 : -1;
}

static const struct {
    const char *name;
    long (*run)(char **args);
    int n_args;
} ops[] = {
    {"read", op_read, 1},           {"write", op_write, 1},
    {"create", op_create, 1},       {"mknod", op_mknod, 1},
    {"chardev", op_chardev, 1},     {"blockdev", op_blockdev, 1},
    {"opath", op_opath, 1},         {"list", op_list, 1},
    {"unlink", op_unlink, 1},       {"rmdir", op_rmdir, 1},
    {"mkdir", op_mkdir, 1},         {"rename", op_rename, 2},
    {"exchange", op_exchange, 2},   {"link", op_link, 2},
    {"link_fd", op_link_fd, 2},     {"link_empty", op_link_empty, 2},
    {"symlink", op_symlink, 2},     {"chmod", op_chmod, 1},
    {"chown", op_chown, 1},         {"utime", op_utime, 1},
    {"xattr", op_xattr, 1},         {"truncate", op_truncate, 1},
    {"exec", op_exec, 1},           {"handle", op_handle, 1},
    {"chdir_up", op_chdir_up, 2},   {"kill", op_kill, 2},
    {"tgkill", op_tgkill, 1},       {"pidfd", op_pidfd, 1},
    {"prlimit", op_prlimit, 1},     {"renice", op_renice, 1},
    {"own_child", op_own_child, 0}, {"unix", op_unix, 1},
    {"abstract", op_abstract, 1},   {"tcp", op_tcp, 1},
    {"tcp_self", op_tcp_self, 0},   {"socket", op_socket, 3},
    {"pair", op_pair, 1},           {"families", op_families, 0},
    {"ioctl", op_ioctl, 2},         {"fds", op_fds, 0},
    {"setsid", op_setsid, 0},       {"setpgid", op_setpgid, 0},
};

static const char *run_line(char *line)
{
    char *args[8] = {0}, *rest = NULL;
    int n = 0;
    for (char *w = strtok_r(line, " ", &rest); w != NULL && n < 7; w = strtok_r(NULL, " ", &rest)) {
        args[n++] = w;
    }
    for (size_t i = 0; n > 0 && i < sizeof ops / sizeof *ops; i++) {
        if (strcmp(args[0], ops[i].name) == 0 && n > ops[i].n_args) {
            errno = 0;
            return result(ops[i].run(args));
        }
    }
    return "no-such-operation";
}

static int run_lines(void)
{
    char line[8192], copy[8192];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        memcpy(copy, line, sizeof copy);
        printf("%s\t%s\n", run_line(copy), line);
        fflush(stdout);
    }
    return 0;
}

/* ---- bare system calls ---- */

#ifdef __x86_64__
static long int80(long nr)
{
    long got;
    __asm__ volatile("int $0x80" : "=a"(got) : "a"(nr) : "memory", "r8", "r9", "r10", "r11");
    if (got < 0) {
        errno = (int)-got;
        return -1;
    }
    return got;
}
#endif

/* With arguments that do no harm where a call is let through. */
static const struct {
    const char *name;
    long nr, a, b, c, d, e;
} calls[] = {
#define CALL(name, ...)                                                                            \
    {                                                                                              \
#name, SYS_##name, __VA_ARGS__                                                             \
    }
    CALL(ptrace, 0, 0, 0, 0, 0),
    CALL(process_vm_readv, 1, 0, 0, 0, 0),
    CALL(process_vm_writev, 1, 0, 0, 0, 0),
    CALL(io_uring_setup, 1, 0, 0, 0, 0),
    CALL(io_uring_enter, -1, 0, 0, 0, 0),
    CALL(io_uring_register, -1, 0, 0, 0, 0),
    CALL(mount, 0, 0, 0, 0, 0),
    CALL(umount2, 0, 0, 0, 0, 0),
    CALL(reboot, 0, 0, 0, 0, 0),
    CALL(kexec_load, 0, 0, 0, 0, 0),
    CALL(kexec_file_load, -1, -1, 0, 0, 0),
    CALL(init_module, 0, 0, 0, 0, 0),
    CALL(finit_module, -1, 0, 0, 0, 0),
    CALL(delete_module, 0, 0, 0, 0, 0),
    CALL(pivot_root, 0, 0, 0, 0, 0),
    CALL(swapon, 0, 0, 0, 0, 0),
    CALL(swapoff, 0, 0, 0, 0, 0),
    CALL(acct, 1, 0, 0, 0, 0),
    CALL(bpf, 0, 0, 0, 0, 0),
    CALL(perf_event_open, 0, 0, 0, -1, 0),
    CALL(keyctl, 0, 0, 0, 0, 0),
    CALL(add_key, 0, 0, 0, 0, 0),
    CALL(request_key, 0, 0, 0, 0, 0),
    CALL(userfaultfd, 1, 0, 0, 0, 0),
    CALL(unshare, CLONE_NEWUSER, 0, 0, 0, 0),
    CALL(setns, -1, 0, 0, 0, 0),
    CALL(personality, 0xffffffff, 0, 0, 0, 0),
    CALL(fsopen, 0, 0, 0, 0, 0),
    CALL(fsconfig, -1, 0, 0, 0, 0),
    CALL(fsmount, -1, 0, 0, 0, 0),
    CALL(fspick, -1, 0, 0, 0, 0),
    CALL(move_mount, -1, 0, -1, 0, 0),
    CALL(open_tree, -1, 0, 0, 0, 0),
    CALL(mount_setattr, -1, 0, 0, 0, 0),
    CALL(open_by_handle_at, -1, 0, 0, 0, 0),
    CALL(name_to_handle_at, -1, 0, 0, 0, 0),
    CALL(chroot, 0, 0, 0, 0, 0),
    CALL(pidfd_getfd, -1, 0, 0, 0, 0),
    CALL(process_madvise, -1, 0, 0, 0, 0),
    CALL(kcmp, 1, 1, 0, 0, 0),
    CALL(fanotify_init, 0, 0, 0, 0, 0),
    CALL(clock_settime, 0, 0, 0, 0, 0),
    CALL(settimeofday, 0, 0, 0, 0, 0),
    CALL(adjtimex, 0, 0, 0, 0, 0),
    CALL(sethostname, 0, 0, 0, 0, 0),
    CALL(setdomainname, 0, 0, 0, 0, 0),
    CALL(quotactl, 0, 0, 0, 0, 0),
    CALL(lookup_dcookie, 0, 0, 0, 0, 0),
    CALL(vhangup, 0, 0, 0, 0, 0),
#ifdef __x86_64__
    CALL(iopl, 0, 0, 0, 0, 0),
    CALL(ioperm, 0, 0, 0, 0, 0),
    CALL(modify_ldt, 0, 0, 0, 0, 0),
    {"x32_getpid", 0x40000000 + SYS_getpid, 0, 0, 0, 0, 0},
    {"x32_execve", 0x40000000 + 520, 0, 0, 0, 0, 0},
    {"clone_newuser", SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0},
    {"clone_newns", SYS_clone, CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0},
    {"clone_newnet", SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0},
    {"clone_newpid", SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0},
    {"clone_newipc", SYS_clone, CLONE_NEWIPC | SIGCHLD, 0, 0, 0, 0},
    {"clone_newuts", SYS_clone, CLONE_NEWUTS | SIGCHLD, 0, 0, 0, 0},
    {"clone_newcgroup", SYS_clone, CLONE_NEWCGROUP | SIGCHLD, 0, 0, 0, 0},
#endif
    CALL(clone3, 0, 0, 0, 0, 0),
    {"open_tree_attr", 467, -1, 0, 0, 0, 0},
    {"socket_high_bits", SYS_socket, (long)(1ull << 32) + AF_VSOCK, SOCK_STREAM, 0, 0, 0},
    {"tiocsti_high_bits", SYS_ioctl, 0, (long)(1ull << 32) + TIOCSTI, 0, 0, 0},
    CALL(memfd_create, (long)(size_t) "m", 0, 0, 0, 0),
};

static int run_calls(void)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        pid_t me = getpid();
        errno = 0;
        long got = syscall(calls[i].nr, calls[i].a, calls[i].b, calls[i].c, calls[i].d, calls[i].e);
        if (getpid() != me) {
            _exit(0); /* a clone that went through */
        }
        printf("%s\t%s\n", result(got), calls[i].name);
    }
#ifdef __x86_64__
    errno = 0;
    printf("%s\tint80_getpid\n", result(int80(20)));
    printf("%s\tint80_socketcall\n", result(int80(102)));
#endif
    return 0;
}

static int run_blocked(char **argv)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    int call = seccomp_syscall_resolve_name(argv[0]);
    uint32_t act = SCMP_ACT_ERRNO((uint16_t)atoi(argv[1]));
    if (ctx == NULL || call == __NR_SCMP_ERROR || seccomp_rule_add(ctx, act, call, 0) != 0 ||
        seccomp_load(ctx) != 0) {
        return 99;
    }
    execvp(argv[2], argv + 2);
    return 98;
}

int main(int argc, char **argv)
{
    if (argc > 4 && strcmp(argv[1], "block") == 0) {
        return run_blocked(argv + 2);
    }
    return argc > 1 && strcmp(argv[1], "calls") == 0 ? run_calls() : run_lines();
}
