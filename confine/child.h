/* child: what runs between clone and exec, and the keeper that stays.
 *
 * The keeper shares the memory of the process that spawns (a forked one costs half a millisecond
 * more), has a stack of its own and all signals blocked, calls nothing of the C library and, once
 * the command runs, touches its own stack only. In a PID namespace it is the init: when it ends,
 * the kernel ends everything. Without one it is the subreaper that walks and kills what is left. It
 * ends when the command does or when the other end of `line` is closed, and a process killed by
 * SIGKILL closes it. Nobody inside can reach its memory: Landlock's ptrace rule covers /proc/1/mem
 * too, so there are no namespaces without Landlock.
 */
#ifndef GH_CONFINE_CHILD_H
#define GH_CONFINE_CHILD_H

#include <linux/filter.h>

#include "place.h"

enum child_stage {
    CHILD_NONE,
    CHILD_MAPS,
    CHILD_ROOT, /* building the private root */
    CHILD_FORK,
    CHILD_STDIO,
    CHILD_CWD,
    CHILD_CAPS,
    CHILD_LANDLOCK,
    CHILD_SECCOMP,
    CHILD_EXEC,
    CHILD_PROBE, /* the probe's attempts were not refused */
};

/* What the keeper or the command says on the report pipe when it gives up. */
struct child_failure {
    int stage; /* enum child_stage */
    int error;
    int step; /* of the place */
};

/* What the keeper says on its line at the end. */
struct child_end {
    int status;
    int killed;
    int alone; /* no other process was left: the keeper's own end need not be waited for */
    uint64_t cpu_us, max_rss_kib;
};

struct child_job {
    bool namespaces;
    bool map_all;  /* root: mounts first, then a user namespace that maps every id but one */
    bool loopback; /* own network namespace: bring lo up */
    bool own_session;
    bool probe; /* try renames and reads in the working directory instead of exec */
    const struct place *place;
    const char *maps[3]; /* texts for setgroups ("": leave), gid_map, uid_map */
    int ruleset;         /* -1: no Landlock */
    int abi;
    struct sock_fprog filter;
    const char *const *programs; /* tried in turn */
    char *const *argv, *const *envp;
    const char *cwd;
    int stdio[3];
    int line, report;    /* the keeper's ends */
    void *inner_stack;   /* top of the command's stack until it execs */
    uint64_t dynamic[3]; /* Landlock rights: list, read, write on what the child mounts */
    uint64_t terminal;
    unsigned gate; /* futex: 1 once the ids are mapped */
    int umask;
};

/* The keeper's main, for clone(2); `arg` is a struct child_job. */
int child_main(void *arg);

/* A word for a stage. Static. */
const char *child_stage_name(int stage);

#endif
