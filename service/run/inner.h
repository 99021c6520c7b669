/* inner: what engine.c, job.c and spawn.c share. Only for this folder. */
#ifndef GH_RUN_INNER_H
#define GH_RUN_INNER_H

#include <pthread.h>

#include "run/run.h"
#include "run/tail.h"
#include "spec.h"

enum job_fd { JOB_STDOUT = 0, JOB_STDERR, JOB_INPUT, JOB_END, JOB_N_FDS };

/* What an epoll event points to. */
struct run_handle {
    struct run_job *job; /* NULL: the wake descriptor */
    enum job_fd kind;
};

struct run {
    struct confine *engine; /* owned */
    struct run_abilities abilities;
    pthread_mutex_t lock; /* guards what follows, and the jobs' members that say so */
    pthread_cond_t none;  /* a job has ended */
    pthread_t thread;
    bool has_thread;
    int epoll_fd;
    int wake_fd; /* eventfd: deadlines or `is_over` have changed */
    struct run_handle wake;
    bool is_stopping;
    bool is_over;         /* the thread ends once nothing is watched */
    struct run_job *jobs; /* watched */
    size_t n_ending;      /* not watched any more, their owners not told yet */
    char *chunk;          /* RUN_MAX_CHUNK bytes, for the thread only; owned */
};

struct run_job {
    struct run *run;
    struct confine_child child; /* lock */
    struct run_report report;
    struct run_handle handles[JOB_N_FDS];
    int fds[JOB_N_FDS - 1];       /* our ends of the pipes; -1: closed; the thread's, input: lock */
    struct run_tail_ring tail[2]; /* lock */
    struct gh_buf input;          /* waits for the command; lock */
    size_t input_at;              /* bytes of it that are written; lock */
    bool is_input_last;           /* close when it is written; lock */
    bool is_watched, is_killed, is_timed_out; /* lock */
    bool has_ended;                           /* the thread's */
    int64_t started_ms, timeout_ms;           /* CLOCK_BOOTTIME */
    char *tmp_dir;                            /* owned, removed with the job */
    run_data_fn *on_data;
    run_end_fn *on_end;
    void *cookie;
    struct run_job *prev, *next; /* watched ones; lock */
    struct run_job *next_ended;  /* of this round; the thread's */
};

/* job.c: read until it is empty, or for a while unless `is_last`; closes at the end. */
void run_job_drain(struct run_job *job, enum job_fd kind, bool is_last);

/* job.c: the command's input has room, or nobody reads it any more. */
void run_job_input_ready_locked(struct run_job *job, bool is_gone);
void run_job_input_close_locked(struct run_job *job);

/* engine.c: have the thread look again. */
void run_wake(struct run *run);

/* abilities.c */
void run_fill_abilities(const struct confine_kernel *kernel, struct run_abilities *ret);
void run_fill_report(const struct confine_report *report, struct run_report *ret);

#endif
