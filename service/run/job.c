#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/inner.h"

/* ---- output ---- */

#define CHUNKS_A_TURN 4            /* a chatty command leaves time for the others */
#define CHUNKS_AT_THE_END (1 << 6) /* a pipe holds less; whoever still writes is not ours */

static void close_end(struct run_job *job, enum job_fd kind)
{
    if (job->fds[kind] >= 0) {
        /* Taken out by hand: a keeper that is just being made holds a copy for a moment, and an
         * event of it would point to a job that is gone. */
        epoll_ctl(job->run->epoll_fd, EPOLL_CTL_DEL, job->fds[kind], NULL);
        close(job->fds[kind]);
        job->fds[kind] = -1;
    }
}

void run_job_drain(struct run_job *job, enum job_fd kind, bool is_last)
{
    struct run *run = job->run;
    for (int i = 0; job->fds[kind] >= 0 && i < (is_last ? CHUNKS_AT_THE_END : CHUNKS_A_TURN); i++) {
        ssize_t n = read(job->fds[kind], run->chunk, RUN_MAX_CHUNK);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n <= 0) {
            close_end(job, kind);
            return;
        }
        pthread_mutex_lock(&run->lock);
        uint64_t offset = job->tail[kind].total;
        run_ring_put(&job->tail[kind], run->chunk, (size_t)n);
        pthread_mutex_unlock(&run->lock);
        if (job->on_data != NULL) {
            job->on_data(kind == JOB_STDOUT ? RUN_STDOUT : RUN_STDERR, run->chunk, (size_t)n,
                         offset, job->cookie);
        }
    }
    if (is_last) {
        close_end(job, kind);
    }
}

uint64_t run_tail(struct run_job *job, enum run_stream stream, struct gh_buf *out)
{
    pthread_mutex_lock(&job->run->lock);
    uint64_t dropped = run_ring_get(&job->tail[stream], out);
    pthread_mutex_unlock(&job->run->lock);
    return dropped;
}

/* ---- input ---- */

static void close_input_locked(struct run_job *job)
{
    close_end(job, JOB_INPUT);
    gh_buf_fini(&job->input);
    job->input_at = 0;
}

/* Be told when there is room, only while something waits. */
static void arm_input_locked(struct run_job *job, bool is_waiting)
{
    struct epoll_event event = {.events = is_waiting ? EPOLLOUT : 0,
                                .data.ptr = &job->handles[JOB_INPUT]};
    if (job->is_watched && job->fds[JOB_INPUT] >= 0) {
        epoll_ctl(job->run->epoll_fd, EPOLL_CTL_MOD, job->fds[JOB_INPUT], &event);
    }
}

/* Write what waits; close when that was the last or nobody reads. */
static void feed_locked(struct run_job *job)
{
    while (job->fds[JOB_INPUT] >= 0 && job->input_at < job->input.len) {
        ssize_t n = write(job->fds[JOB_INPUT], job->input.data + job->input_at,
                          job->input.len - job->input_at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            arm_input_locked(job, true);
            return;
        }
        if (n < 0) {
            close_input_locked(job); /* nobody reads it */
            return;
        }
        job->input_at += (size_t)n;
    }
    gh_buf_fini(&job->input);
    job->input_at = 0;
    if (job->is_input_last) {
        close_input_locked(job);
    } else {
        arm_input_locked(job, false);
    }
}

void run_job_input_ready_locked(struct run_job *job, bool is_gone)
{
    if (is_gone) {
        close_input_locked(job);
    } else {
        feed_locked(job);
    }
}

void run_job_input_close_locked(struct run_job *job)
{
    close_input_locked(job);
}

bool run_input(struct run_job *job, const char *data, size_t len, bool is_end)
{
    struct run *run = job->run;
    pthread_mutex_lock(&run->lock);
    size_t waiting = job->input.len - job->input_at;
    bool is_taken =
        job->fds[JOB_INPUT] >= 0 && !job->is_input_last && waiting + len <= RUN_MAX_INPUT;
    if (is_taken) {
        gh_buf_put(&job->input, data, len);
        job->is_input_last = is_end;
        is_taken = !job->input.failed;
        feed_locked(job);
    }
    pthread_mutex_unlock(&run->lock);
    return is_taken;
}

/* ---- life ---- */

static void add(struct run *run, int fd, struct run_handle *handle, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = handle};
    if (fd >= 0) {
        /* A command that nobody watches would never end for its owner: fail loudly. */
        gh_assert(epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
    }
}

void run_watch(struct run_job *job)
{
    struct run *run = job->run;
    pthread_mutex_lock(&run->lock);
    job->next = run->jobs;
    if (run->jobs != NULL) {
        run->jobs->prev = job;
    }
    run->jobs = job;
    job->is_watched = true;
    for (int i = 0; i < JOB_N_FDS; i++) {
        job->handles[i] = (struct run_handle){job, (enum job_fd)i};
    }
    add(run, job->fds[JOB_STDOUT], &job->handles[JOB_STDOUT], EPOLLIN);
    add(run, job->fds[JOB_STDERR], &job->handles[JOB_STDERR], EPOLLIN);
    add(run, job->fds[JOB_INPUT], &job->handles[JOB_INPUT], 0);
    add(run, job->child.pidfd, &job->handles[JOB_END], EPOLLIN);
    feed_locked(job);
    if (run->is_stopping) {
        job->is_killed = true;
        confine_kill(&job->child);
    }
    pthread_mutex_unlock(&run->lock);
    run_wake(run);
}

void run_kill(struct run_job *job)
{
    pthread_mutex_lock(&job->run->lock);
    job->is_killed = true;
    confine_kill(&job->child);
    pthread_mutex_unlock(&job->run->lock);
}

const struct run_report *run_job_report(const struct run_job *job)
{
    return &job->report;
}

void run_job_free(struct run_job *job)
{
    for (int i = 0; i < JOB_N_FDS - 1; i++) {
        close_end(job, (enum job_fd)i);
    }
    gh_buf_fini(&job->input);
    run_ring_fini(&job->tail[0]);
    run_ring_fini(&job->tail[1]);
    if (job->tmp_dir != NULL) {
        confine_tmp_remove(job->tmp_dir);
        free(job->tmp_dir);
    }
    free(job);
}
