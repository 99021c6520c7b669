#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "core/execution_spec.h"

/* ---- while it runs: called by the thread of run ---- */

/* Output is scanned as it comes, with the end of what came before: a phrase may lie across. */
static void scan_output(struct execution *execution, enum run_stream stream, const char *data,
                        size_t len)
{
    struct core *core = execution->core;
    size_t n = execution->n_carry[stream];
    if (execution->has_scanned) {
        return;
    }
    memcpy(core->executions.scan_chunk, execution->carry[stream], n);
    memcpy(core->executions.scan_chunk + n, data, len);
    execution->has_scanned =
        scan_text(core->options.scan, core->executions.scan_chunk, n + len, &execution->finding);
    size_t keep = n + len < EXECUTION_CARRY ? n + len : EXECUTION_CARRY;
    memcpy(execution->carry[stream], core->executions.scan_chunk + n + len - keep, keep);
    execution->n_carry[stream] = keep;
}

/* At once: what a command prints is read while it runs. */
static void tell_finding_locked(struct execution *execution)
{
    struct core *core = execution->core;
    struct session *session = gh_map_find(&core->sessions, execution->session_id);
    struct store_txn *txn = session != NULL && !core->is_closed ? store_txn_new() : NULL;
    if (txn != NULL) {
        const struct meta meta = {.principal = execution->principal};
        taint_found_locked(core, session, execution->id, &execution->finding, &meta, txn);
        execution->is_found_told = true;
        store_commit(core->options.store, &txn, NULL, NULL); /* the end writes it once more */
    }
}

static void on_data(enum run_stream stream, const char *data, size_t len, uint64_t offset,
                    void *cookie)
{
    struct execution *execution = cookie;
    bool had_finding = execution->has_scanned;
    scan_output(execution, stream, data, len);
    if (execution->has_scanned && !had_finding) {
        pthread_mutex_lock(&execution->core->lock);
        tell_finding_locked(execution);
        pthread_mutex_unlock(&execution->core->lock);
    }
    if (atomic_load(&execution->n_streams) > 0) {
        pthread_mutex_lock(&execution->core->lock);
        execution_output_locked(execution, stream, data, len, offset);
        pthread_mutex_unlock(&execution->core->lock);
    }
}

static bool tail_has(const struct gh_buf *tail, const char *text)
{
    return tail->len > 0 && memmem(tail->data, tail->len, text, strlen(text)) != NULL;
}

/* What a person would look for first. */
static const char *hint_of(const struct execution *execution)
{
    const struct run_result *result = &execution->result;
    if (result->end == RUN_TIMED_OUT) {
        return "It was killed at its timeout; what it wrote until then is here. Ask with a larger "
               "timeout_s if it needs longer.";
    }
    if (result->end == RUN_EXITED && result->exit_code == 0) {
        return NULL;
    }
    if (tail_has(&execution->tail[RUN_STDERR], ".git/config")) {
        return "Inside, .git/config and the hooks are read-only (sandbox.protect_git).";
    }
    if (execution->report.network != RUN_NET_OPEN) {
        return "The network was restricted, loopback included unless \"network\" says loopback.";
    }
    return NULL;
}

/* Removing its temporary folder may take a while. */
static void free_job(void *cookie)
{
    run_job_free(cookie);
}

static void on_end(const struct run_result *result, void *cookie)
{
    static const enum execution_state states[] = {[RUN_EXITED] = EXECUTION_EXITED,
                                                  [RUN_SIGNALED] = EXECUTION_SIGNALED,
                                                  [RUN_TIMED_OUT] = EXECUTION_TIMED_OUT,
                                                  [RUN_KILLED] = EXECUTION_KILLED};
    struct execution *execution = cookie;
    struct core *core = execution->core;
    struct gh_err err;
    pthread_mutex_lock(&core->lock);
    struct run_job *job = gh_steal(&execution->job);
    bool is_closed = core->is_closed;
    for (int i = 0; i < 2; i++) {
        execution->dropped[i] = run_tail(job, (enum run_stream)i, &execution->tail[i]);
    }
    execution->result = *result;
    execution->hint = hint_of(execution);
    execution_end_locked(execution, states[result->end]);
    pthread_mutex_unlock(&core->lock);
    if (is_closed || gh_pool_run(core->options.pool, free_job, job, &err) != GH_OK) {
        run_job_free(job);
    }
}

/* ---- the start: on the pool ---- */

static void failed_locked(struct execution *execution, const struct gh_err *err)
{
    snprintf(execution->why, sizeof execution->why, "%s", err->detail);
    execution_end_locked(execution, EXECUTION_FAILED);
}

/* What was allowed is what runs: the gate is asked again with the files as they are now. */
static enum gh_code look_again(struct execution *execution, struct place *place,
                               struct judged *judged, struct gh_err *err)
{
    GH_TRY(judge_gather(place, execution->call, judged, err));
    if (execution->digest[0] == '\0') {
        return GH_OK;
    }
    struct card_session view = {0};
    struct card card;
    memcpy(view.id, execution->session_id, sizeof view.id);
    GH_TRY(card_make(&view, place, execution->call, judged, &card, err));
    bool is_same = strcmp(card.digest, execution->digest) == 0;
    card_fini(&card);
    return is_same
               ? GH_OK
               : gh_fail(err, GH_CONFLICT,
                         "A file that the command names is not what it was when it was allowed.");
}

static enum gh_code may_start_locked(struct execution *execution, struct judged *judged,
                                     struct gh_err *err)
{
    struct core *core = execution->core;
    const struct session *session = gh_map_find(&core->sessions, execution->session_id);
    if (session == NULL || !session->is_active || execution->is_unwanted || core->is_stopping) {
        return gh_fail(err, GH_CONFLICT, "It was cancelled before it started.");
    }
    judge_locked(session, execution->call, judged, false);
    if (judged->total.decision == GATE_DENY) {
        return gh_fail(err, GH_CONFLICT, "The gate refuses it now (%s).",
                       gate_reason_code(judged->total.reason));
    }
    if (execution->is_by_gate && judged->total.decision == GATE_ASK) {
        return gh_fail(err, GH_CONFLICT, "What allowed it is not in force any more.");
    }
    if (!gate_path_within(judged->parts[0].facts.cwd, session->place->working_dir)) {
        return gh_fail(err, GH_INVALID,
                       "A command runs in the session's working directory or below it.");
    }
    return GH_OK;
}

static enum gh_code spawn(struct execution *execution, struct place *place,
                          const struct judged *judged, struct run_job **ret, struct gh_err *err)
{
    gh_auto(execution_spec_fini) struct execution_spec spec = {0};
    GH_TRY(execution_spec_make(execution, execution->call, place, &judged->parts[0], &spec, err));
    spec.run.on_data = on_data;
    spec.run.on_end = on_end;
    spec.run.cookie = execution;
    return run_spawn(execution->core->executions.run, &spec.run, ret, err);
}

static void started_locked(struct execution *execution, struct run_job *job)
{
    const struct core *core = execution->core;
    const struct session *session = gh_map_find(&core->sessions, execution->session_id);
    execution->job = job;
    execution->report = *run_job_report(job);
    execution->has_report = true;
    execution->started_ms = gh_clock_wall_ms();
    call_free(gh_steal(&execution->call));
    if (execution->is_unwanted || session == NULL || !session->is_active) {
        run_kill(job);
    }
    execution_event_locked(execution->core, execution, "execution.started");
}

static struct place *place_of(struct execution *execution)
{
    struct core *core = execution->core;
    pthread_mutex_lock(&core->lock);
    const struct session *session = gh_map_find(&core->sessions, execution->session_id);
    struct place *place = session != NULL ? place_ref(session->place) : NULL;
    pthread_mutex_unlock(&core->lock);
    return place;
}

static enum gh_code prepare(struct execution *execution, struct run_job **ret, struct gh_err *err)
{
    struct core *core = execution->core;
    gh_auto(judged_fini) struct judged judged = {0};
    gh_auto(place_unrefp) struct place *place = place_of(execution);
    if (place == NULL) {
        return gh_fail(err, GH_CONFLICT, "The session is gone.");
    }
    GH_TRY(look_again(execution, place, &judged, err));
    pthread_mutex_lock(&core->lock);
    enum gh_code code = may_start_locked(execution, &judged, err);
    pthread_mutex_unlock(&core->lock);
    GH_TRY(code);
    return spawn(execution, place, &judged, ret, err);
}

void execution_start(void *cookie)
{
    struct execution *execution = cookie;
    struct core *core = execution->core;
    struct run_job *job = NULL;
    struct gh_err err;
    enum gh_code code = prepare(execution, &job, &err);
    pthread_mutex_lock(&core->lock);
    if (code == GH_OK) {
        started_locked(execution, job);
    } else {
        failed_locked(execution, &err);
    }
    pthread_mutex_unlock(&core->lock);
    if (code == GH_OK) {
        run_watch(job); /* the execution may be gone from here on */
    }
}

void execution_start_soon_locked(struct execution *execution)
{
    struct gh_err err;
    execution->state = EXECUTION_RUNNING;
    if (execution_count_locked(execution->core, execution->owner) > EXECUTION_MAX_RUNNING) {
        gh_fail(&err, GH_LIMIT, "%d commands of this token are running already.",
                EXECUTION_MAX_RUNNING);
        failed_locked(execution, &err);
        return;
    }
    if (gh_pool_run(execution->core->options.pool, execution_start, execution, &err) != GH_OK) {
        failed_locked(execution, &err);
    }
}
