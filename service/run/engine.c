#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "run/inner.h"

/* One thread for all commands. It takes the lock for what other threads touch, never while it calls
 * back or reads output. A job is freed by its owner after on_end, and on_end comes at the end of a
 * round, so an event of the same round never points to a job that is gone. */

#define MAX_EVENTS 64
#define RETRY_MS 100

/* ---- the end of a job ---- */

static void fill_result(const struct run_job *job, const struct confine_result *from,
                        struct run_result *ret)
{
    *ret = (struct run_result){.duration_ms = gh_clock_boot_ms() - job->started_ms,
                               .cpu_ms = (int64_t)(from->cpu_us / 1000),
                               .max_rss_kib = (int64_t)from->max_rss_kib};
    if (from->killed) {
        ret->end = job->is_timed_out ? RUN_TIMED_OUT : RUN_KILLED;
    } else if (WIFSIGNALED(from->status)) {
        ret->end = RUN_SIGNALED;
        ret->signal = WTERMSIG(from->status);
    } else {
        ret->end = RUN_EXITED;
        ret->exit_code = WEXITSTATUS(from->status);
    }
}

static void unlink_locked(struct run *run, struct run_job *job)
{
    if (job->prev != NULL) {
        job->prev->next = job->next;
    } else {
        run->jobs = job->next;
    }
    if (job->next != NULL) {
        job->next->prev = job->prev;
    }
    job->is_watched = false;
}

/* Everything it started is gone: read what is left in the pipes, reap, tell. */
static void finish(struct run *run, struct run_job *job)
{
    struct confine_result result = {.status = SIGKILL, .killed = true};
    struct confine_err err = {0};
    struct run_result told;
    run_job_drain(job, JOB_STDOUT, true);
    run_job_drain(job, JOB_STDERR, true);
    pthread_mutex_lock(&run->lock);
    if (confine_wait(&job->child, 1000, &result, &err) != CONFINE_OK) {
        gh_log(GH_LOG_WARN, "command_lost", "why", err.detail, NULL);
    }
    run_job_input_close_locked(job); /* no event of it may come once its owner has it */
    epoll_ctl(run->epoll_fd, EPOLL_CTL_DEL, job->child.pidfd, NULL);
    confine_child_fini(&job->child);
    fill_result(job, &result, &told);
    pthread_mutex_unlock(&run->lock);
    job->on_end(&told, job->cookie);
}

/* Out of the list first, so that nobody kills what is reaped; run_stop waits until its owner was
 * told. */
static void end_job(struct run *run, struct run_job *job)
{
    pthread_mutex_lock(&run->lock);
    unlink_locked(run, job);
    run->n_ending++;
    pthread_mutex_unlock(&run->lock);
    finish(run, job);
    pthread_mutex_lock(&run->lock);
    run->n_ending--;
    pthread_cond_broadcast(&run->none);
    pthread_mutex_unlock(&run->lock);
}

/* ---- the thread ---- */

static void handle(struct run *run, const struct run_handle *at, uint32_t events,
                   struct run_job **ended)
{
    struct run_job *job = at->job;
    uint64_t n = 0;
    if (job == NULL) {
        (void)!read(run->wake_fd, &n, sizeof n);
    } else if (at->kind == JOB_END && !job->has_ended) {
        job->has_ended = true;
        job->next_ended = *ended;
        *ended = job;
    } else if (at->kind == JOB_INPUT) {
        pthread_mutex_lock(&run->lock);
        run_job_input_ready_locked(job, (events & (EPOLLERR | EPOLLHUP)) != 0);
        pthread_mutex_unlock(&run->lock);
    } else if (at->kind != JOB_END) {
        run_job_drain(job, at->kind, false);
    }
}

/* Kill what is over its time. Returns how long nothing is due, in milliseconds; -1: for ever. */
static int keep_time_locked(struct run *run)
{
    int64_t now_ms = gh_clock_boot_ms();
    int64_t next_ms = -1;
    for (struct run_job *job = run->jobs; job != NULL; job = job->next) {
        int64_t left_ms = job->started_ms + job->timeout_ms - now_ms;
        if (job->is_killed || job->has_ended) {
            continue;
        }
        if (left_ms <= 0) {
            job->is_killed = job->is_timed_out = true;
            confine_kill(&job->child);
        } else if (next_ms < 0 || left_ms < next_ms) {
            next_ms = left_ms;
        }
    }
    return next_ms > 3600000 ? 3600000 : (int)next_ms;
}

static void *run_thread(void *cookie)
{
    struct run *run = cookie;
    for (;;) {
        struct epoll_event events[MAX_EVENTS];
        struct run_job *ended = NULL;
        pthread_mutex_lock(&run->lock);
        bool is_over = run->is_over && run->jobs == NULL;
        int wait_ms = keep_time_locked(run);
        pthread_mutex_unlock(&run->lock);
        if (is_over) {
            return NULL;
        }
        int n = epoll_wait(run->epoll_fd, events, MAX_EVENTS, wait_ms);
        for (int i = 0; i < n; i++) {
            handle(run, events[i].data.ptr, events[i].events, &ended);
        }
        while (ended != NULL) {
            struct run_job *job = ended;
            ended = job->next_ended;
            end_job(run, job);
        }
    }
}

void run_wake(struct run *run)
{
    const uint64_t one = 1;
    (void)!write(run->wake_fd, &one, sizeof one);
}

/* ---- start and stop ---- */

static enum gh_code start_thread(struct run *run, struct gh_err *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &run->wake};
    run->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    run->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (run->epoll_fd < 0 || run->wake_fd < 0 ||
        epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, run->wake_fd, &event) != 0) {
        return gh_fail(err, GH_IO, "Commands cannot be watched: %s.", strerror(errno));
    }
    if (pthread_create(&run->thread, NULL, run_thread, run) != 0) {
        return gh_fail(err, GH_NOMEM, "The thread that watches commands cannot be started.");
    }
    pthread_setname_np(run->thread, "gh-run");
    run->has_thread = true;
    return GH_OK;
}

enum gh_code run_new(struct run **ret, struct gh_err *err)
{
    struct confine_err why = {0};
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    run->epoll_fd = run->wake_fd = -1;
    pthread_mutex_init(&run->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&run->none, &attr);
    pthread_condattr_destroy(&attr);
    run->chunk = malloc(RUN_MAX_CHUNK);
    enum gh_code code = GH_OK;
    if (run->chunk == NULL) {
        code = gh_fail(err, GH_NOMEM, "There is not enough memory.");
    } else if (confine_new(&run->engine, &why) != CONFINE_OK) {
        code = gh_fail(err, GH_IO, "Commands cannot be confined: %s", why.detail);
    } else {
        run_fill_abilities(confine_kernel(run->engine), &run->abilities);
        code = start_thread(run, err);
    }
    if (code != GH_OK) {
        run_free(run);
        return code;
    }
    *ret = run;
    return GH_OK;
}

const struct run_abilities *run_abilities(const struct run *run)
{
    return &run->abilities;
}

static void kill_all_locked(struct run *run)
{
    run->is_stopping = true;
    for (struct run_job *job = run->jobs; job != NULL; job = job->next) {
        job->is_killed = true;
        confine_kill(&job->child);
    }
}

void run_stop(struct run *run, int64_t grace_ms)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += grace_ms / 1000;
    end.tv_nsec += (grace_ms % 1000) * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&run->lock);
    kill_all_locked(run);
    while ((run->jobs != NULL || run->n_ending > 0) &&
           pthread_cond_timedwait(&run->none, &run->lock, &end) == 0) {
    }
    pthread_mutex_unlock(&run->lock);
}

void run_free(struct run *run)
{
    if (run == NULL) {
        return;
    }
    if (run->has_thread) {
        pthread_mutex_lock(&run->lock);
        kill_all_locked(run);
        run->is_over = true;
        pthread_mutex_unlock(&run->lock);
        run_wake(run);
        pthread_join(run->thread, NULL);
    }
    confine_free(run->engine);
    if (run->epoll_fd >= 0) {
        close(run->epoll_fd);
    }
    if (run->wake_fd >= 0) {
        close(run->wake_fd);
    }
    pthread_cond_destroy(&run->none);
    pthread_mutex_destroy(&run->lock);
    free(run->chunk);
    free(run);
}
