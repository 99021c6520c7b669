#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "run/inner.h"

/* From a spec of ours to a running child. */

struct pipes {
    int child[3]; /* ends for the command; [0] is -1 without input */
};

static void close_pipes(struct pipes *pipes)
{
    for (int i = 0; i < 3; i++) {
        if (pipes->child[i] >= 0) {
            close(pipes->child[i]);
        }
    }
}

/* Our end does not block, the command's does: the flag belongs to an end. */
static bool open_pipe(int *ours, int *theirs, bool is_input)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    *ours = ends[is_input ? 1 : 0];
    *theirs = ends[is_input ? 0 : 1];
    return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0;
}

static enum gh_code open_pipes(struct run_job *job, bool has_input, struct pipes *pipes,
                               struct gh_err *err)
{
    bool is_open = open_pipe(&job->fds[JOB_STDOUT], &pipes->child[1], false) &&
                   open_pipe(&job->fds[JOB_STDERR], &pipes->child[2], false) &&
                   (!has_input || open_pipe(&job->fds[JOB_INPUT], &pipes->child[0], true));
    return is_open
               ? GH_OK
               : gh_fail(err, GH_BUSY, "No pipe can be made for the command: %s.", strerror(errno));
}

static enum gh_code refuse(enum confine_code code, const struct confine_err *why,
                           struct gh_err *err)
{
    static const enum gh_code codes[] = {
        [CONFINE_E_SPEC] = GH_INVALID, [CONFINE_E_ENFORCE] = GH_FORBIDDEN,
        [CONFINE_E_FILES] = GH_BUSY,   [CONFINE_E_APPLY] = GH_FORBIDDEN,
        [CONFINE_E_EXEC] = GH_INVALID, [CONFINE_E_SYSTEM] = GH_BUSY,
        [CONFINE_E_TIMEOUT] = GH_BUSY,
    };
    return gh_fail(err, codes[code], "%s", why->detail);
}

static enum confine_opt_in opt_in(enum run_opt_in value)
{
    static const enum confine_opt_in values[] = {
        [RUN_NO] = CONFINE_NO, [RUN_YES] = CONFINE_YES, [RUN_CONTAINED] = CONFINE_CONTAINED};
    return values[value];
}

static void fill_spec(const struct run_spec *from, const struct run_job *job,
                      const struct pipes *pipes, const struct confine_name *names,
                      struct confine_spec *ret)
{
    static const enum confine_network networks[] = {[RUN_NET_OPEN] = CONFINE_NET_OPEN,
                                                    [RUN_NET_TCP] = CONFINE_NET_TCP,
                                                    [RUN_NET_LOOPBACK] = CONFINE_NET_LOOPBACK,
                                                    [RUN_NET_NONE] = CONFINE_NET_NONE};
    static const enum confine_namespaces namespaces[] = {[RUN_NS_AUTO] = CONFINE_NS_AUTO,
                                                         [RUN_NS_OFF] = CONFINE_NS_OFF,
                                                         [RUN_NS_REQUIRE] = CONFINE_NS_REQUIRE};
    confine_spec_init(ret);
    ret->argv = from->argv;
    ret->cwd = from->cwd;
    ret->env = from->env;
    ret->home = from->home;
    memcpy(ret->stdio, pipes->child, sizeof ret->stdio);
    ret->write_roots = from->write_roots;
    ret->read_roots = from->read_roots;
    ret->deny_paths = from->deny_paths;
    ret->deny_names = names;
    ret->n_deny_names = from->n_deny_names;
    ret->tmp_dir = job->tmp_dir;
    ret->cache_dir = from->cache_dir;
    ret->allow_unix_sockets = opt_in(from->unix_sockets);
    ret->allow_leaving_process_group = opt_in(from->leaving_group);
    ret->share_system_tmp = from->share_system_tmp;
    ret->protect_git = from->protect_git;
    ret->require_enforcement = from->require_enforcement;
    ret->network = networks[from->network];
    ret->tcp_ports = from->tcp_ports;
    ret->n_tcp_ports = from->n_tcp_ports;
    ret->namespaces = namespaces[from->namespaces];
}

static enum gh_code start(struct run_job *job, const struct run_spec *from,
                          const struct pipes *pipes, struct gh_err *err)
{
    struct confine_err why = {0};
    struct confine_spec spec;
    struct confine_plan *plan = NULL;
    gh_autofree struct confine_name *names = calloc(from->n_deny_names + 1, sizeof *names);
    if (names == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    for (size_t i = 0; i < from->n_deny_names; i++) {
        names[i] = (struct confine_name){from->deny_names[i].glob, from->deny_names[i].built_in};
    }
    fill_spec(from, job, pipes, names, &spec);
    enum confine_code code = confine_plan_new(job->run->engine, &spec, &plan, &why);
    if (code != CONFINE_OK) {
        return refuse(code, &why, err);
    }
    job->started_ms = gh_clock_boot_ms();
    code = confine_spawn(plan, &job->child, &why);
    confine_plan_free(plan);
    if (code != CONFINE_OK) {
        return refuse(code, &why, err);
    }
    run_fill_report(&job->child.report, &job->report);
    return GH_OK;
}

static void init_job(struct run_job *job, struct run *run, const struct run_spec *spec)
{
    job->run = run;
    for (int i = 0; i < JOB_N_FDS - 1; i++) {
        job->fds[i] = -1;
    }
    job->child.pidfd = job->child.line = -1;
    job->tail[0].cap = job->tail[1].cap = spec->tail_bytes;
    job->timeout_ms = spec->timeout_ms;
    job->is_input_last = !spec->is_interactive;
    job->on_data = spec->on_data;
    job->on_end = spec->on_end;
    job->cookie = spec->cookie;
    gh_buf_put(&job->input, spec->input != NULL ? spec->input : "", spec->input_len);
}

static enum gh_code prepare(struct run_job *job, const struct run_spec *spec, struct gh_err *err)
{
    struct confine_err why = {0};
    gh_auto(close_pipes) struct pipes pipes = {{-1, -1, -1}};
    if (job->input.failed) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    GH_TRY(open_pipes(job, spec->input_len > 0 || spec->is_interactive, &pipes, err));
    enum confine_code code = confine_tmp_new(&job->tmp_dir, &why);
    if (code != CONFINE_OK) {
        return refuse(code, &why, err);
    }
    return start(job, spec, &pipes, err);
}

enum gh_code run_spawn(struct run *run, const struct run_spec *spec, struct run_job **ret,
                       struct gh_err *err)
{
    pthread_mutex_lock(&run->lock);
    bool is_stopping = run->is_stopping;
    pthread_mutex_unlock(&run->lock);
    if (is_stopping) {
        return gh_fail(err, GH_STOPPING, "The service is shutting down.");
    }
    struct run_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    init_job(job, run, spec);
    enum gh_code code = prepare(job, spec, err);
    if (code != GH_OK) {
        run_job_free(job);
        return code;
    }
    *ret = job;
    return GH_OK;
}
