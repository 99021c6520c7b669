#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "child.h"
#include "landlock.h"
#include "plan.h"

enum { STACK_BYTES = 64 << 10 };

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

struct lines {
    int parent, keeper, report_read, report_write, null;
};

static void close_lines(struct lines *lines)
{
    int *all = &lines->parent;
    for (size_t i = 0; i < sizeof *lines / sizeof *all; i++) {
        util_auto_close(&all[i]);
        all[i] = -1;
    }
}

static enum confine_code open_lines(struct lines *lines, struct confine_err *err)
{
    *lines = (struct lines){-1, -1, -1, -1, -1};
    int pair[2], report[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
        lines->parent = pair[0];
        lines->keeper = pair[1];
        if (pipe2(report, O_CLOEXEC) == 0) {
            lines->report_read = report[0];
            lines->report_write = report[1];
            lines->null = open("/dev/null", O_RDWR | O_CLOEXEC);
        }
    }
    if (lines->null >= 0) {
        return CONFINE_OK;
    }
    int e = errno;
    close_lines(lines);
    return util_fail(err, e == EMFILE || e == ENFILE ? CONFINE_E_FILES : CONFINE_E_SYSTEM, e,
                     "No descriptors could be had for a process.");
}

static void fill_job(struct child_job *job, struct confine_plan *plan, const struct lines *lines)
{
    int abi = plan->report.landlock_abi;
    uint64_t lists = abi > 0 ? LANDLOCK_READ_DIR : 0;
    *job = (struct child_job){
        .namespaces = plan->namespaces,
        .map_all = plan->namespaces && geteuid() == 0,
        .loopback = plan->network == CONFINE_NET_LOOPBACK,
        .own_session = plan->own_session,
        .probe = plan->probe,
        .place = &plan->place,
        .ruleset = plan->ruleset,
        .abi = abi,
        .filter = plan->filter,
        .programs = (const char *const *)plan->programs.all,
        .argv = plan->argv.all,
        .envp = plan->env.all,
        .cwd = plan->cwd,
        .line = lines->keeper,
        .report = lines->report_write,
        .dynamic = {lists, landlock_access(abi, TREES_READ, true),
                    landlock_access(abi, TREES_WRITE, true)},
        .terminal = landlock_access(abi, TREES_TERMINAL, true),
    };
    for (int i = 0; i < 3; i++) {
        job->stdio[i] = plan->stdio[i] >= 0 ? plan->stdio[i] : lines->null;
    }
}

/* One id for a user, all but one for root: a stub that belongs to that one is closed to root too.
 */
static void fill_maps(struct child_job *job, char texts[2][64])
{
    job->maps[0] = job->map_all ? "" : "deny";
    snprintf(texts[0], 64, job->map_all ? "0 0 4294967294" : "%u %u 1", getegid(), getegid());
    snprintf(texts[1], 64, job->map_all ? "0 0 4294967294" : "%u %u 1", geteuid(), geteuid());
    job->maps[1] = texts[0];
    job->maps[2] = texts[1];
}

/* Wait for the keeper's word: nothing means that the program runs. Whatever it uses of this
 * process's memory may be let go then. */
static bool read_failure(int fd, struct child_failure *failure)
{
    size_t got = 0;
    while (got < sizeof *failure) {
        ssize_t n = read(fd, (char *)failure + got, sizeof *failure - got);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        got += (size_t)n;
    }
    return got != 0;
}

static int clone_flags(const struct child_job *job)
{
    int flags = CLONE_VM | CLONE_PIDFD; /* no exit signal: the caller's own waits never see it */
    if (job->namespaces) {
        flags |= CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | (job->map_all ? 0 : CLONE_NEWUSER);
    }
    return flags | (job->loopback ? CLONE_NEWNET : 0);
}

/* Start the keeper and wait until the program runs or something failed. */
static void launch(struct child_job *job, struct confine_child *child, struct lines *lines,
                   struct child_failure *failure)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    char *stack = child->stack;
    job->inner_stack = stack + STACK_BYTES;
    long pid = kernel_clone((unsigned long)clone_flags(job), stack + 2 * STACK_BYTES, &child->pidfd,
                            child_main, job);
    child->pid = (pid_t)pid;
    util_auto_close(&lines->keeper);
    util_auto_close(&lines->report_write);
    lines->keeper = lines->report_write = -1;
    if (child->pid < 0) {
        *failure = (struct child_failure){.stage = CHILD_FORK, .error = (int)-pid};
        child->pidfd = -1;
    } else if (!read_failure(lines->report_read, failure)) {
        failure->stage = CHILD_NONE;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static enum confine_code explain_failure(const struct confine_plan *plan,
                                         const struct child_failure *f, struct confine_err *err)
{
    static const enum confine_code codes[] = {
        [CHILD_MAPS] = CONFINE_E_APPLY,     [CHILD_ROOT] = CONFINE_E_APPLY,
        [CHILD_FORK] = CONFINE_E_SYSTEM,    [CHILD_STDIO] = CONFINE_E_SYSTEM,
        [CHILD_CWD] = CONFINE_E_EXEC,       [CHILD_CAPS] = CONFINE_E_APPLY,
        [CHILD_LANDLOCK] = CONFINE_E_APPLY, [CHILD_SECCOMP] = CONFINE_E_APPLY,
        [CHILD_EXEC] = CONFINE_E_EXEC,      [CHILD_PROBE] = CONFINE_E_APPLY,
    };
    const char *where = "";
    if (f->stage == CHILD_ROOT && f->step >= 0 && (size_t)f->step < plan->place.n) {
        where = plan->place.all[f->step].to;
    } else if (f->stage == CHILD_EXEC) {
        where = plan->argv.all[0];
    }
    enum confine_code code =
        f->stage > 0 && f->stage <= CHILD_PROBE ? codes[f->stage] : CONFINE_E_SYSTEM;
    if (f->error == EMFILE || f->error == ENFILE) {
        code = CONFINE_E_FILES;
    }
    return util_fail(err, code, f->error, "Could not start: %s%s%s: %s.",
                     child_stage_name(f->stage), where[0] == '\0' ? "" : ", ", where,
                     strerror(f->error));
}

/* The keeper failed or never was: nothing of it may stay. */
static void abandon(struct confine_child *child)
{
    if (child->pid > 0) {
        syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0);
        siginfo_t info;
        while (waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | __WALL) != 0 &&
               errno == EINTR) {
        }
    }
    util_auto_close(&child->pidfd);
    munmap(child->stack, 2 * STACK_BYTES);
}

static enum confine_code attempt(struct confine_plan *plan, struct confine_child *child,
                                 struct child_failure *failure, struct confine_err *err)
{
    confine_auto(close_lines) struct lines lines;
    CONFINE_TRY(open_lines(&lines, err));
    *child = (struct confine_child){.pid = -1, .pidfd = -1, .line = -1};
    child->stack = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (child->stack == MAP_FAILED) {
        return util_fail(err, CONFINE_E_SYSTEM, errno, "There is no memory for a process.");
    }
    struct child_job job;
    char texts[2][64];
    fill_job(&job, plan, &lines);
    fill_maps(&job, texts);
    launch(&job, child, &lines, failure);
    if (failure->stage != CHILD_NONE) {
        abandon(child);
        return explain_failure(plan, failure, err);
    }
    child->line = lines.parent;
    lines.parent = -1;
    child->report = plan->report;
    return CONFINE_OK;
}

static bool is_of_namespaces(const struct child_failure *failure)
{
    return failure->stage == CHILD_MAPS || failure->stage == CHILD_ROOT ||
           failure->stage == CHILD_FORK;
}

enum confine_code confine_spawn(struct confine_plan *plan, struct confine_child *child,
                                struct confine_err *err)
{
    /* Checked a second time: what was planned must still be what is asked. */
    if (plan->spawned || (plan->require && plan->ruleset < 0)) {
        return util_fail(err, CONFINE_E_ENFORCE, EACCES,
                         "The plan cannot be enforced, or was used.");
    }
    plan->spawned = true;
    struct child_failure failure = {0};
    enum confine_code code = attempt(plan, child, &failure, err);
    if (code != CONFINE_OK && plan->namespaces && plan->may_fall_back &&
        plan->network != CONFINE_NET_LOOPBACK && is_of_namespaces(&failure)) {
        CONFINE_TRY(plan_fall_back(plan, "namespaces: the private root could not be built", err));
        code = attempt(plan, child, &failure, err);
    }
    return code;
}

/* ---- the end ---- */

static void reap(struct confine_child *child)
{
    if (child->reaped) {
        return;
    }
    siginfo_t info;
    while (waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | __WALL) != 0 && errno == EINTR) {
    }
    munmap(child->stack, 2 * STACK_BYTES);
    child->reaped = true;
}

enum confine_code confine_wait(struct confine_child *child, int timeout_ms,
                               struct confine_result *ret, struct confine_err *err)
{
    if (child->over) {
        return util_fail(err, CONFINE_E_SYSTEM, ECHILD, "The command has been waited for.");
    }
    struct pollfd line = {.fd = child->line, .events = POLLIN};
    int ready;
    do {
        ready = poll(&line, 1, timeout_ms);
    } while (ready < 0 && errno == EINTR && timeout_ms < 0);
    if (ready == 0 || (ready < 0 && errno == EINTR)) {
        return util_fail(err, CONFINE_E_TIMEOUT, 0, "The command is still running.");
    }
    struct child_end end = {.status = SIGKILL, .killed = 1};
    struct child_end said;
    if (recv(child->line, &said, sizeof said, 0) == (ssize_t)sizeof said) {
        end = said;
    }
    if (end.alone == 0) {
        reap(child); /* its end is the end of the others */
    }
    child->over = true;
    *ret = (struct confine_result){.status = end.status,
                                   .killed = end.killed != 0,
                                   .cpu_us = end.cpu_us,
                                   .max_rss_kib = end.max_rss_kib};
    return CONFINE_OK;
}

void confine_kill(struct confine_child *child)
{
    if (child->over || child->pidfd < 0) {
        return;
    }
    if (child->report.namespaces) {
        syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0);
    } else {
        shutdown(child->line, SHUT_WR); /* the guard kills what it finds, then ends */
    }
}

int confine_signal(const struct confine_child *child, int sig)
{
    unsigned char byte = (unsigned char)sig;
    if (child->over || sig <= 0 || sig > 64) {
        errno = ESRCH;
        return -1;
    }
    return send(child->line, &byte, 1, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

void confine_child_fini(struct confine_child *child)
{
    if (child->pidfd < 0) {
        return;
    }
    confine_kill(child);
    reap(child);
    close(child->pidfd);
    close(child->line);
    child->pidfd = child->line = -1;
}
