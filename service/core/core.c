#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "core/execution.h"
#include "core/state.h"

#define STOP_GRACE_MS 3000 /* for commands to end */

/* ---- the clock thread: one timer, set to what is due first; nothing is scanned ---- */

static void set_timer_locked(struct core *core)
{
    const struct gh_due *first = gh_heap_first(&core->heap);
    int64_t at_ms = first != NULL ? first->at_ms : 0;
    if (at_ms == core->clock_at_ms) {
        return;
    }
    core->clock_at_ms = at_ms;
    int64_t due_ms = first == NULL ? 0 : at_ms > 0 ? at_ms : 1;
    const struct itimerspec spec = {.it_value = {due_ms / 1000, (due_ms % 1000) * 1000000}};
    timerfd_settime(core->clock_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

void clock_set_locked(struct core *core, struct gh_due *due, int64_t at_ms)
{
    /* Without memory for the heap the thing never falls due by itself: fail loudly, and closed. */
    gh_assert(gh_heap_set(&core->heap, due, at_ms));
    set_timer_locked(core);
}

void clock_clear_locked(struct core *core, struct gh_due *due)
{
    gh_heap_remove(&core->heap, due);
}

static void fire_locked(struct core *core, struct gh_due *due)
{
    gh_heap_remove(&core->heap, due);
    switch (due->kind) {
    case WAIT_DUE:
        wait_due_locked(core, due->owner);
        break;
    case STREAM_DUE:
        stream_due_locked(core, due->owner);
        break;
    case EXECUTION_DUE_BACK:
    case EXECUTION_DUE_RETRY:
        execution_due_locked(core, due->owner, due->kind);
        break;
    case EXECUTION_STREAM_DUE:
        execution_stream_due_locked(core, due->owner);
        break;
    default:
        ask_due_locked(core, due->owner, (enum ask_due)due->kind);
        break;
    }
}

static void *run_clock(void *cookie)
{
    struct core *core = cookie;
    uint64_t ticks = 0;
    for (;;) {
        ssize_t n = read(core->clock_fd, &ticks, sizeof ticks);
        if (n < 0 && errno != EINTR && errno != ECANCELED) {
            return NULL;
        }
        pthread_mutex_lock(&core->lock);
        bool is_stopping = core->is_stopping;
        int64_t now_ms = gh_clock_boot_ms();
        for (struct gh_due *due = gh_heap_first(&core->heap);
             !is_stopping && due != NULL && due->at_ms <= now_ms;
             due = gh_heap_first(&core->heap)) {
            fire_locked(core, due);
        }
        core->clock_at_ms = 0;
        set_timer_locked(core);
        pthread_mutex_unlock(&core->lock);
        if (is_stopping) {
            return NULL;
        }
    }
}

/* ---- start ---- */

/* An entry that does nothing is told: whoever wrote it believes that it does. */
static void warn_of_entry(const struct gate_rule_info *info, void *cookie)
{
    (void)cookie;
    if (info->note[0] != '\0' && strcmp(info->source, "built-in") != 0) {
        gh_log(GH_LOG_WARN, "deny_entry", "entry", info->entry, "note", info->note, NULL);
    }
}

static enum gh_code make_policy(const struct core *core, struct config *config, struct policy **ret,
                                struct gh_err *err)
{
    struct policy *policy = calloc(1, sizeof *policy);
    if (policy == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    const struct gate_rules_input input = {
        .home = core->options.home,
        .other_home = core->options.other_home,
        .config_file = core->options.config_file,
        .xdg_config_home = getenv("XDG_CONFIG_HOME"),
        .xdg_state_home = getenv("XDG_STATE_HOME"),
        .git_config_global = getenv("GIT_CONFIG_GLOBAL"),
        .config_dir = core->options.config_dir,
        .state_dir = core->options.state_dir,
        .runtime_dir = core->options.runtime_dir,
        .entries = (const char *const *)config->permissions.deny_paths,
    };
    atomic_init(&policy->refs, 1);
    enum gh_code code = gate_rules_new(&input, &policy->rules, err);
    if (code != GH_OK) {
        free(policy);
        return code;
    }
    gate_rules_each(policy->rules, warn_of_entry, NULL);
    policy->config = config;
    *ret = policy;
    return GH_OK;
}

struct loading {
    struct core *core;
    size_t n_failed;
};

static void load_failed(struct loading *loading, const char *what, const struct store_row *row)
{
    loading->n_failed++;
    gh_log(GH_LOG_WARN, "load_failed", "what", what, "id", row->id, NULL);
}

static void load_session(const struct store_row *row, void *cookie)
{
    struct loading *loading = cookie;
    if (session_load(loading->core, row) != GH_OK) {
        load_failed(loading, "session", row);
    }
}

static void load_trace(const struct store_row *row, void *cookie)
{
    struct loading *loading = cookie;
    if (trace_load(loading->core, row) != GH_OK) {
        load_failed(loading, "place", row);
    }
}

static void load_idem(const struct store_row *row, void *cookie)
{
    struct loading *loading = cookie;
    if (idem_load(loading->core, row) != GH_OK) {
        load_failed(loading, "idempotency key", row);
    }
}

static void cancel_done(enum gh_code code, void *cookie)
{
    (void)cookie;
    if (code != GH_OK) {
        gh_log(GH_LOG_ERROR, "cancel_failed", "code", gh_code_slug(code), NULL);
    }
}

/* An approval that cannot even be read: both it and its decision end, on record. */
static void cancel_row(struct store_txn *txn, const struct store_row *row)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf answer = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    struct gh_jw a = {&answer, false};
    gh_jw_obj(&w, NULL);
    gh_jw_obj(&w, "approval");
    gh_jw_str(&w, "id", row->id);
    gh_jw_str(&w, "decision", row->ref);
    gh_jw_str(&w, "session", row->session);
    gh_jw_str(&w, "state", "cancelled");
    gh_jw_str(&w, "by", "system");
    gh_jw_str(&w, "code", gate_reason_code(GATE_R_RESTART));
    gh_jw_time(&w, "settled_at", gh_clock_wall_ms());
    gh_jw_end(&w);
    gh_jw_end(&w);
    gh_jw_obj(&a, NULL);
    gh_jw_str(&a, "id", row->ref);
    gh_jw_str(&a, "session", row->session);
    gh_jw_str(&a, "decision", "deny");
    gh_jw_str(&a, "by", "system");
    gh_jw_str(&a, "code", gate_reason_code(GATE_R_RESTART));
    gh_jw_str(&a, "approval", row->id);
    gh_jw_end(&a);
    const struct store_doc doc = {STORE_APPROVAL, row->id,         row->session,     row->ref,
                                  "cancelled",    row->created_ms, gh_buf_str(&body)};
    store_txn_put(txn, &doc);
    const struct store_audit audit = {.kind = "decision",
                                      .at_ms = gh_clock_wall_ms(),
                                      .session = row->session,
                                      .ref = row->ref,
                                      .tool = "",
                                      .action = "",
                                      .decision = "deny",
                                      .by = "system",
                                      .code = gate_reason_code(GATE_R_RESTART),
                                      .mode = "",
                                      .principal = "",
                                      .peer = "",
                                      .agent = "",
                                      .trace_id = "",
                                      .body = gh_buf_str(&answer)};
    store_txn_audit(txn, &audit);
    record_note(txn, &(struct note){"approval", row->session, row->id, "restart", "{}"}, NULL);
}

/* What cannot come back is cancelled: a pending approval that nothing can answer is a lie. */
static void load_ask(const struct store_row *row, void *cookie)
{
    struct loading *loading = cookie;
    if (ask_load(loading->core, row) == GH_OK &&
        gh_map_find(&loading->core->by_approval, row->id) != NULL) {
        return;
    }
    load_failed(loading, "approval", row);
    struct store_txn *txn = store_txn_new();
    if (txn == NULL) {
        return;
    }
    cancel_row(txn, row);
    /* Never waited for: the store's thread may be waiting for our lock. */
    store_commit(loading->core->options.store, &txn, cancel_done, NULL);
}

static enum gh_code load_kind(struct core *core, enum store_kind kind, const char *state,
                              store_row_fn *fn, struct gh_err *err)
{
    struct loading loading = {core, 0};
    const char *states[] = {state, NULL};
    const struct store_filter filter = {.states = state != NULL ? states : NULL, .limit = 1000000};
    return store_list(core->options.store, kind, &filter, fn, &loading, err);
}

/* Sessions without their folder, or whose folder the rules refuse now. Ending one may forget
 * another, so each time the search begins anew. */
static void end_lost_locked(struct core *core)
{
    size_t at = 0;
    for (struct session *session = gh_map_next(&core->sessions, &at); session != NULL;
         session = gh_map_next(&core->sessions, &at)) {
        if (session->is_active && session->is_lost) {
            gh_log(GH_LOG_WARN, "session_ended", "session", session->id, "why",
                   "its folder is gone or refused", NULL);
            session_end_locked(core, session);
            at = 0;
        }
    }
}

static enum gh_code load_all(struct core *core, struct gh_err *err)
{
    GH_TRY(load_kind(core, STORE_META, NULL, load_trace, err));
    GH_TRY(load_kind(core, STORE_SESSION, "active", load_session, err));
    GH_TRY(load_kind(core, STORE_IDEMPOTENCY, NULL, load_idem, err));
    GH_TRY(load_kind(core, STORE_APPROVAL, "pending", load_ask, err));
    end_lost_locked(core);
    return GH_OK;
}

/* A store that cannot be read leaves an empty memory: every write fails, so everything is denied.
 */
static void load_or_log(struct core *core)
{
    struct gh_err err;
    pthread_mutex_lock(&core->lock);
    if (load_all(core, &err) != GH_OK) {
        gh_log(GH_LOG_ERROR, "load_failed", "why", err.detail, NULL);
    }
    pthread_mutex_unlock(&core->lock);
}

static char *copy_or_null(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

static void init_core(struct core *core, const struct core_options *options)
{
    unsigned char raw[8];
    core->options = *options;
    core->options.home = copy_or_null(options->home);
    core->options.other_home = copy_or_null(options->other_home);
    core->options.config_dir = copy_or_null(options->config_dir);
    core->options.config_file = copy_or_null(options->config_file);
    core->options.state_dir = copy_or_null(options->state_dir);
    core->options.runtime_dir = copy_or_null(options->runtime_dir);
    /* Recursive: a store that is closing reports an outcome on the caller's own thread. */
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&core->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    core->idem_last = &core->idem_first;
    core->revision = 1;
    core->numbers.is_reload_ok = true;
    gh_clock_boot_id(core->boot_id);
    gh_id_random(raw, sizeof raw);
    for (size_t i = 0; i < sizeof raw; i++) {
        snprintf(core->run_id + 2 * i, 3, "%02x", raw[i]);
    }
    struct rlimit files = {.rlim_cur = 1024, .rlim_max = 1024};
    getrlimit(RLIMIT_NOFILE, &files);
    core->max_agent_waits = files.rlim_max > 256 ? (size_t)files.rlim_max / 2 : 64;
    core->executions.scan_chunk = malloc(EXECUTION_CARRY + RUN_MAX_CHUNK);
    core->clock_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
}

enum gh_code core_new(const struct core_options *options, struct config **config, struct core **ret,
                      struct gh_err *err)
{
    struct core *core = calloc(1, sizeof *core);
    if (core == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    init_core(core, options);
    enum gh_code code = core->clock_fd < 0 || core->executions.scan_chunk == NULL
                            ? gh_fail(err, GH_IO, "A timer cannot be made: %s.", strerror(errno))
                            : make_policy(core, *config, &core->policy, err);
    if (code == GH_OK) {
        code = run_new(&core->executions.run, err);
    }
    if (code != GH_OK) {
        core_free(core);
        return code;
    }
    *config = NULL;
    load_or_log(core);
    if (pthread_create(&core->clock, NULL, run_clock, core) != 0) {
        core_free(core);
        return gh_fail(err, GH_NOMEM, "The clock thread cannot be started.");
    }
    pthread_setname_np(core->clock, "gh-clock");
    core->has_clock = true;
    *ret = core;
    return GH_OK;
}

/* ---- reload ---- */

/* On failure it keeps the old rules, which are never looser than asked. */
enum gh_code session_rebase_locked(struct core *core, struct session *session,
                                   struct policy *policy, struct gh_err *err)
{
    gh_auto(gh_json_freep) struct json_t *deny = NULL;
    GH_TRY(gh_json_parse(session->deny_json, strlen(session->deny_json), &deny, err));
    size_t n = gh_json_len(deny);
    gh_autofree const char **entries = calloc(n + 1, sizeof *entries);
    if (entries == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    for (size_t i = 0; i < n; i++) {
        entries[i] = gh_json_text(gh_json_at(deny, i));
    }
    struct place *place = NULL;
    enum gh_code code =
        place_new(core, policy, session->place->working_dir, entries, n, &place, err);
    if (code != GH_OK) {
        return code;
    }
    place_unref(session->place);
    session->place = place;
    return GH_OK;
}

static void reseed_locked(struct session *session)
{
    struct grant *next = NULL;
    for (struct grant *grant = session->grants; grant != NULL; grant = next) {
        next = grant->next;
        if (grant->is_seed) {
            grant_remove(session, grant);
        }
    }
    grants_seed(session);
}

/* Pending approvals are looked at with the new rules. */
static void apply_policy_locked(struct core *core, struct policy *policy)
{
    size_t at = 0;
    for (struct session *session = gh_map_next(&core->sessions, &at); session != NULL;
         session = gh_map_next(&core->sessions, &at)) {
        struct gh_err err;
        if (session->is_active && session_rebase_locked(core, session, policy, &err) != GH_OK) {
            gh_log(GH_LOG_WARN, "session_refused", "session", session->id, "why", err.detail, NULL);
            session->is_lost = true;
        } else if (session->is_active) {
            reseed_locked(session);
        }
    }
    end_lost_locked(core);
    struct ask *next = NULL;
    for (struct ask *ask = core->pending_first; ask != NULL; ask = next) {
        next = ask->next;
        ask_look_again_locked(core, ask); /* under the new rules */
    }
}

enum gh_code core_reload(struct core *core, struct config **config, struct gh_err *err)
{
    struct policy *policy = NULL;
    enum gh_code code = make_policy(core, *config, &policy, err);
    pthread_mutex_lock(&core->lock);
    core->numbers.reload_ms = gh_clock_wall_ms();
    core->numbers.is_reload_ok = code == GH_OK;
    if (code == GH_OK) {
        *config = NULL;
        policy_unref(core->policy);
        core->policy = policy;
        apply_policy_locked(core, policy);
    }
    pthread_mutex_unlock(&core->lock);
    return code;
}

void core_reload_failed(struct core *core)
{
    pthread_mutex_lock(&core->lock);
    core->numbers.reload_ms = gh_clock_wall_ms();
    core->numbers.is_reload_ok = false;
    pthread_mutex_unlock(&core->lock);
}

/* ---- stop ---- */

static void answer_all_locked(struct core *core)
{
    size_t at = 0;
    for (struct wait *wait = gh_map_next(&core->waits, &at); wait != NULL;
         wait = gh_map_next(&core->waits, &at)) {
        wait_due_locked(core, wait);
        at = 0; /* the map has changed */
    }
    while (core->streams != NULL) {
        stream_close_locked(core, core->streams);
    }
    for (struct execution *one = core->executions.first; one != NULL; one = one->next) {
        execution_streams_end_locked(one);
    }
}

void core_stop(struct core *core)
{
    pthread_mutex_lock(&core->lock);
    core->is_stopping = true;
    pthread_mutex_unlock(&core->lock);
    run_stop(core->executions.run, STOP_GRACE_MS);
    pthread_mutex_lock(&core->lock);
    core->is_closed = true;
    answer_all_locked(core);
    const struct itimerspec now = {.it_value = {0, 1}};
    timerfd_settime(core->clock_fd, 0, &now, NULL);
    pthread_mutex_unlock(&core->lock);
    if (core->has_clock) {
        pthread_join(core->clock, NULL);
        core->has_clock = false;
    }
}

static void free_asks(struct ask *first)
{
    while (first != NULL) {
        struct ask *next = first->next;
        ask_free(first);
        first = next;
    }
}

void core_free(struct core *core)
{
    if (core == NULL) {
        return;
    }
    if (core->has_clock) {
        core_stop(core);
    }
    core->is_closed = true;
    run_free(core->executions.run);
    executions_free(core);
    free_asks(core->pending_first);
    free_asks(core->settled_first);
    size_t at = 0;
    for (struct session *session = gh_map_next(&core->sessions, &at); session != NULL;
         session = gh_map_next(&core->sessions, &at)) {
        session_free(session);
    }
    gh_map_fini(&core->sessions);
    gh_map_fini(&core->externals);
    gh_map_fini(&core->by_approval);
    gh_map_fini(&core->by_decision);
    gh_map_fini(&core->waits);
    idems_free(core);
    traces_free(core);
    events_free(core);
    gh_heap_fini(&core->heap);
    policy_unref(core->policy);
    if (core->clock_fd >= 0) {
        close(core->clock_fd);
    }
    pthread_mutex_destroy(&core->lock);
    free(core->executions.scan_chunk);
    free((void *)core->options.home);
    free((void *)core->options.other_home);
    free((void *)core->options.config_dir);
    free((void *)core->options.config_file);
    free((void *)core->options.state_dir);
    free((void *)core->options.runtime_dir);
    free(core);
}

/* ---- numbers ---- */

void core_numbers(struct core *core, struct core_numbers *ret)
{
    pthread_mutex_lock(&core->lock);
    *ret = core->numbers;
    ret->n_pending = core->n_pending;
    ret->n_streams = core->n_streams;
    ret->n_executions = execution_count_locked(core, NULL);
    ret->oldest_pending_ms =
        core->pending_first != NULL ? gh_clock_wall_ms() - core->pending_first->created_ms : 0;
    size_t at = 0;
    for (const struct session *session = gh_map_next(&core->sessions, &at); session != NULL;
         session = gh_map_next(&core->sessions, &at)) {
        ret->n_sessions += session->is_active;
        ret->n_tainted += session->is_active && session->is_tainted;
    }
    pthread_mutex_unlock(&core->lock);
}

static void rule_json(const struct gate_rule_info *info, void *cookie)
{
    struct gh_jw *w = cookie;
    gh_jw_obj(w, NULL);
    gh_jw_str(w, "entry", info->entry);
    gh_jw_str(w, "resolved", info->resolved);
    gh_jw_str(w, "source", info->source);
    gh_jw_str(w, "note", info->note);
    gh_jw_end(w);
}

void core_config_json(struct core *core, struct gh_buf *out)
{
    pthread_mutex_lock(&core->lock);
    struct policy *policy = policy_ref(core->policy);
    pthread_mutex_unlock(&core->lock);
    gh_auto(gh_buf_fini) struct gh_buf config = GH_BUF_INIT;
    config_json(policy->config, &config);
    struct gh_jw w = {out, false};
    gh_jw_obj(&w, NULL);
    gh_jw_raw(&w, "config", gh_buf_str(&config));
    gh_jw_arr(&w, "deny_list");
    gate_rules_each(policy->rules, rule_json, &w);
    gh_jw_arr_end(&w);
    gh_jw_end(&w);
    policy_unref(policy);
}
