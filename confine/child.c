/* Raw system calls only; see child.h. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "child_place.h"
#include "kernel.h"

#define BIT(n) (1ull << (n))

enum { SIGSET_BYTES = 8, LAST_SIGNAL = 64, LAST_CAP = 63, ROUNDS = 400 };

/* What a confined root keeps: to own, read and change its files and users, nothing of the system.
 */
static const uint64_t ROOT_KEEPS = BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) |
                                   BIT(CAP_FSETID) | BIT(CAP_KILL) | BIT(CAP_SETUID) |
                                   BIT(CAP_SETGID) | BIT(CAP_SETPCAP);

static __attribute__((noreturn)) void leave(int code)
{
    for (;;) {
        KERNEL_1(SYS_exit_group, code);
    }
}

/* `error` is positive. */
static __attribute__((noreturn)) void give_up(const struct child_job *job, int stage, int error,
                                              int step)
{
    struct child_failure failure = {.stage = stage, .error = error, .step = step};
    KERNEL_3(SYS_write, job->report, &failure, sizeof failure);
    leave(127);
}

static void must(const struct child_job *job, int stage, long done)
{
    if (done < 0) {
        give_up(job, stage, (int)-done, 0);
    }
}

/* ---- the command ---- */

static void wait_for_gate(const struct child_job *job)
{
    while (__atomic_load_n(&job->gate, __ATOMIC_ACQUIRE) == 0) {
        KERNEL_4(SYS_futex, &job->gate, FUTEX_WAIT, 0, 0);
    }
}

/* Through copies above 2, as the three may be any permutation of each other. */
static void set_stdio(const struct child_job *job)
{
    int copies[3];
    for (int i = 0; i < 3; i++) {
        copies[i] = (int)KERNEL_3(SYS_fcntl, job->stdio[i], F_DUPFD_CLOEXEC, 3);
        must(job, CHILD_STDIO, copies[i]);
    }
    for (int i = 0; i < 3; i++) {
        must(job, CHILD_STDIO, KERNEL_3(SYS_dup3, copies[i], i, 0));
    }
    must(job, CHILD_STDIO, KERNEL_3(SYS_close_range, 3, ~0u, 4 /* close on exec */));
}

static void reset_signals(void)
{
    struct {
        uintptr_t handler;
        unsigned long flags;
        uintptr_t restorer;
        uint64_t mask;
    } plain = {0};
    uint64_t none = 0;
    for (int sig = 1; sig <= LAST_SIGNAL; sig++) {
        KERNEL_4(SYS_rt_sigaction, sig, &plain, 0, SIGSET_BYTES);
    }
    KERNEL_4(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, SIGSET_BYTES);
}

static void drop_bounding(uint64_t keep)
{
    KERNEL_5(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (unsigned cap = 0; cap <= LAST_CAP; cap++) {
        if ((keep & BIT(cap)) == 0 &&
            KERNEL_5(SYS_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0) == -EINVAL) {
            break; /* behind the kernel's last one */
        }
    }
}

static void drop_caps(const struct child_job *job)
{
    uint64_t keep = KERNEL_1(SYS_geteuid, 0) == 0 ? ROOT_KEEPS : 0;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    must(job, CHILD_CAPS, KERNEL_2(SYS_capget, &head, data));
    uint64_t now = data[0].permitted | (uint64_t)data[1].permitted << 32;
    if (now != 0 || keep != 0) {
        drop_bounding(keep);
    }
    keep &= now;
    for (int i = 0; i < 2; i++) {
        data[i].permitted = data[i].effective = (uint32_t)(keep >> (32 * i));
        data[i].inheritable = 0;
    }
    must(job, CHILD_CAPS, KERNEL_2(SYS_capset, &head, data));
}

/* In the working directory of a probe: "up/file" is masked, "up" is pinned. */
static __attribute__((noreturn)) void try_what_must_fail(const struct child_job *job)
{
    long read = KERNEL_4(SYS_openat, AT_FDCWD, "up/file", O_RDONLY | O_CLOEXEC, 0);
    long rename = KERNEL_4(SYS_renameat, AT_FDCWD, "up", AT_FDCWD, "away");
    if (read != -EACCES) {
        give_up(job, CHILD_PROBE, read < 0 ? (int)-read : 0, 0);
    }
    if (rename != -EBUSY) {
        give_up(job, CHILD_PROBE, rename < 0 ? (int)-rename : 0, 1);
    }
    leave(0);
}

static __attribute__((noreturn)) void start_program(const struct child_job *job)
{
    long why = -ENOENT;
    for (size_t i = 0; job->programs[i] != NULL; i++) {
        long got = KERNEL_3(SYS_execve, job->programs[i], job->argv, job->envp);
        if (got != -ENOENT && got != -ENOTDIR) {
            why = got;
        }
        if (got != -ENOENT && got != -ENOTDIR && got != -EACCES) {
            break;
        }
    }
    give_up(job, CHILD_EXEC, (int)-why, 0);
}

static int command_main(void *arg)
{
    const struct child_job *job = arg;
    if (job->map_all) {
        wait_for_gate(job);
    }
    must(job, CHILD_STDIO, KERNEL_5(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0));
    set_stdio(job);
    if (job->own_session) {
        KERNEL_1(SYS_setsid, 0); /* a group of its own too, and no terminal */
    }
    must(job, CHILD_CWD, KERNEL_1(SYS_chdir, job->cwd));
    KERNEL_1(SYS_umask, job->umask);
    reset_signals();
    must(job, CHILD_CAPS, KERNEL_5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    drop_caps(job);
    if (job->ruleset >= 0) {
        must(job, CHILD_LANDLOCK, KERNEL_2(SYS_landlock_restrict_self, job->ruleset, 0));
    }
    must(job, CHILD_SECCOMP, KERNEL_3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &job->filter));
    if (job->probe) {
        try_what_must_fail(job);
    }
    start_program(job);
}

/* ---- the keeper ---- */

struct keeper {
    bool namespaces, own_session;
    int line;
    long pid; /* of the command */
};

static void write_text(const struct child_job *job, const char *path, const char *text)
{
    size_t n = 0;
    while (text[n] != '\0') {
        n++;
    }
    long fd = KERNEL_4(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    must(job, CHILD_MAPS, fd);
    must(job, CHILD_MAPS, KERNEL_3(SYS_write, fd, text, n));
    KERNEL_1(SYS_close, fd);
}

/* "/proc/<pid>/<name>" without the C library. */
static void write_map(const struct child_job *job, long pid, const char *name, const char *text)
{
    char path[64] = "/proc/self/", digits[24];
    size_t n = 0, at = 6;
    for (; pid > 0; pid /= 10) {
        digits[n++] = (char)('0' + pid % 10);
    }
    if (n > 0) {
        while (n > 0) {
            path[at++] = digits[--n];
        }
        path[at++] = '/';
    } else {
        at = 11;
    }
    for (; *name != '\0'; name++) {
        path[at++] = *name;
    }
    path[at] = '\0';
    write_text(job, path, text);
}

/* Of the process `pid`, 0: this one. */
static void map_ids(const struct child_job *job, long pid)
{
    static const char *const names[] = {"setgroups", "gid_map", "uid_map"};
    for (size_t i = 0; i < 3; i++) {
        if (job->maps[i][0] != '\0') {
            write_map(job, pid, names[i], job->maps[i]);
        }
    }
}

static long start_command(struct child_job *job)
{
    int flags = CLONE_VM | SIGCHLD | (job->map_all ? CLONE_NEWUSER : 0);
    long pid = kernel_clone((unsigned long)flags, job->inner_stack, 0, command_main, job);
    must(job, CHILD_FORK, pid);
    if (job->map_all) {
        map_ids(job, pid);
    }
    if (job->namespaces) {
        must(job, CHILD_ROOT, child_place_close_proc());
    }
    __atomic_store_n(&job->gate, 1, __ATOMIC_RELEASE);
    KERNEL_3(SYS_futex, &job->gate, FUTEX_WAKE, 1);
    return pid;
}

struct ending {
    int status;
    bool killed, alone;
    struct rusage use;
};

static void tell(const struct keeper *k, const struct ending *ending)
{
    const struct rusage *use = &ending->use;
    struct child_end end = {
        .status = ending->status,
        .killed = ending->killed,
        .alone = ending->alone,
        .cpu_us = (uint64_t)(use->ru_utime.tv_sec + use->ru_stime.tv_sec) * 1000000 +
                  (uint64_t)(use->ru_utime.tv_usec + use->ru_stime.tv_usec),
        .max_rss_kib = (uint64_t)use->ru_maxrss,
    };
    KERNEL_4(SYS_sendto, k->line, &end, sizeof end, 0x4000 /* no SIGPIPE */);
}

/* SIGKILL to each child, read from the kernel's list; they are unreaped, so the numbers are ours.
 */
static void kill_children(void)
{
    char text[4096];
    long fd = KERNEL_4(SYS_openat, AT_FDCWD, "/proc/thread-self/children", O_RDONLY | O_CLOEXEC, 0);
    long got = fd < 0 ? 0 : KERNEL_3(SYS_read, fd, text, sizeof text);
    long pid = 0;
    for (long i = 0; i < got; i++) {
        if (text[i] >= '0' && text[i] <= '9') {
            pid = pid * 10 + (text[i] - '0');
        } else if (pid > 1) {
            KERNEL_2(SYS_kill, pid, SIGKILL);
            pid = 0;
        }
    }
    if (fd >= 0) {
        KERNEL_1(SYS_close, fd);
    }
}

/* 0: some are running; -ECHILD: there are none. */
static long reap_ended(void)
{
    long got;
    do {
        got = KERNEL_4(SYS_wait4, -1, 0, WNOHANG, 0);
    } while (got > 0);
    return got;
}

/* Without a PID namespace: the group while its leader is unreaped, then whatever falls to the
 * subreaper, round after round. */
static __attribute__((noreturn)) void finish(const struct keeper *k, bool killed)
{
    struct ending ending = {.killed = killed};
    if (k->own_session) {
        KERNEL_2(SYS_kill, -k->pid, SIGKILL);
    }
    if (killed) {
        KERNEL_2(SYS_kill, k->pid, SIGKILL);
    }
    KERNEL_4(SYS_wait4, k->pid, &ending.status, 0, &ending.use);
    for (int round = 0; round < ROUNDS; round++) {
        if (reap_ended() == -ECHILD) {
            ending.alone = true;
            break;
        }
        kill_children();
        struct timespec pause = {.tv_nsec = round < 50 ? 200000 : 5000000};
        KERNEL_2(SYS_nanosleep, &pause, 0);
    }
    tell(k, &ending);
    leave(0);
}

/* Reap; ends the keeper when the command is among them. */
static void reap(const struct keeper *k)
{
    for (;;) {
        siginfo_t info = {0};
        long got = KERNEL_5(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT, 0);
        if (got < 0 || info.si_pid == 0) {
            return;
        }
        struct ending ending = {0};
        if (info.si_pid == k->pid && !k->namespaces) {
            finish(k, false);
        }
        KERNEL_4(SYS_wait4, info.si_pid, &ending.status, 0, &ending.use);
        if (info.si_pid == k->pid) {
            ending.alone = reap_ended() == -ECHILD;
            tell(k, &ending);
            leave(0); /* the kernel kills the namespace */
        }
    }
}

/* A stop request is "stop" on the line or its end; any other message is a signal to pass on. */
static void obey(const struct keeper *k)
{
    unsigned char sig = 0;
    long got = KERNEL_4(SYS_recvfrom, k->line, &sig, 1, 0x40 /* do not wait */);
    if (got == -EAGAIN || got == -EINTR) {
        return;
    }
    if (got == 1 && sig != 0) {
        KERNEL_2(SYS_kill, k->own_session ? -k->pid : k->pid, sig);
        return;
    }
    if (k->namespaces) {
        leave(1);
    }
    finish(k, true);
}

static __attribute__((noreturn)) void keep(const struct keeper *k)
{
    uint64_t children = BIT(SIGCHLD - 1);
    int signals = (int)KERNEL_4(SYS_signalfd4, -1, &children, SIGSET_BYTES, 0x80000 /* cloexec */);
    for (;;) {
        reap(k);
        struct pollfd fds[2] = {{.fd = k->line, .events = POLLIN},
                                {.fd = signals, .events = POLLIN}};
        KERNEL_5(SYS_ppoll, fds, 2, 0, 0, SIGSET_BYTES);
        if (fds[0].revents != 0) {
            obey(k);
        }
        char drained[128];
        if (fds[1].revents != 0) {
            KERNEL_3(SYS_read, signals, drained, sizeof drained);
        }
    }
}

int child_main(void *arg)
{
    struct child_job *job = arg;
    job->umask = (int)KERNEL_1(SYS_umask, 0);
    if (job->namespaces) {
        if (!job->map_all) {
            map_ids(job, 0);
        }
        int step = 0, bad = child_place_enter(job, &step);
        if (bad != 0) {
            give_up(job, CHILD_ROOT, -bad, step);
        }
    } else {
        must(job, CHILD_FORK, KERNEL_5(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
    }
    struct keeper k = {
        .namespaces = job->namespaces, .own_session = job->own_session, .line = job->line};
    k.pid = start_command(job);
    /* From here on `job` may be gone. What was inherited goes too: a connection that the service
     * closes must not stay open here. */
    if (k.line > 0) {
        KERNEL_3(SYS_close_range, 0, k.line - 1, 0);
    }
    KERNEL_3(SYS_close_range, k.line + 1, ~0u, 0);
    keep(&k);
}

const char *child_stage_name(int stage)
{
    static const char *const names[] = {
        [CHILD_NONE] = "nothing",          [CHILD_MAPS] = "mapping ids",
        [CHILD_ROOT] = "the private root", [CHILD_FORK] = "the second process",
        [CHILD_STDIO] = "descriptors",     [CHILD_CWD] = "the working directory",
        [CHILD_CAPS] = "capabilities",     [CHILD_LANDLOCK] = "Landlock",
        [CHILD_SECCOMP] = "seccomp",       [CHILD_EXEC] = "starting the program",
        [CHILD_PROBE] = "the probe",
    };
    return stage >= 0 && stage <= CHILD_PROBE ? names[stage] : "?";
}
