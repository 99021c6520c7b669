#include "core/execution.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"

/* Life of an execution: made with the request, linked once its decision is durable, over when its
 * end is. */

#define COME_BACK_MS 10000
#define RETRY_MS 1000
#define MAX_OVER 512
#define MAX_OVER_BYTES ((size_t)32 << 20)

struct execution *execution_new(struct core *core, const char *session_id,
                                const struct auth_token *who)
{
    struct execution *execution = calloc(1, sizeof *execution);
    if (execution == NULL) {
        return NULL;
    }
    struct meta meta;
    meta_of(NULL, who, &meta);
    gh_id_new("exe", execution->id);
    execution->core = core;
    snprintf(execution->session_id, sizeof execution->session_id, "%s", session_id);
    snprintf(execution->owner, sizeof execution->owner, "%s", who->name);
    snprintf(execution->principal, sizeof execution->principal, "%s", meta.principal_text);
    execution->created_ms = gh_clock_wall_ms();
    execution->started_ms = -1;
    execution->due_back = (struct gh_due){.owner = execution, .kind = EXECUTION_DUE_BACK};
    execution->due_retry = (struct gh_due){.owner = execution, .kind = EXECUTION_DUE_RETRY};
    atomic_init(&execution->n_streams, 0);
    return execution;
}

void execution_free(struct execution *execution)
{
    if (execution == NULL) {
        return;
    }
    gh_assert(execution->job == NULL && execution->waits == NULL && execution->streams == NULL);
    call_free(execution->call);
    free(execution->decision_json);
    gh_buf_fini(&execution->tail[0]);
    gh_buf_fini(&execution->tail[1]);
    free(execution);
}

void execution_input_free(struct execution_input *input)
{
    if (input != NULL) {
        free(input->data);
        free(input);
    }
}

/* ---- the list ---- */

void execution_link_locked(struct core *core, struct execution *execution)
{
    execution->prev = core->executions.last;
    if (core->executions.last != NULL) {
        core->executions.last->next = execution;
    } else {
        core->executions.first = execution;
    }
    core->executions.last = execution;
}

static void unlink_locked(struct core *core, struct execution *execution)
{
    if (execution->prev != NULL) {
        execution->prev->next = execution->next;
    } else {
        core->executions.first = execution->next;
    }
    if (execution->next != NULL) {
        execution->next->prev = execution->prev;
    } else {
        core->executions.last = execution->prev;
    }
}

struct execution *execution_find_locked(struct core *core, const struct auth_token *who,
                                        const char *id)
{
    for (struct execution *at = core->executions.last; at != NULL; at = at->prev) {
        if (strcmp(at->id, id) == 0) {
            bool is_theirs = who->role == AUTH_AGENT && strcmp(who->name, at->owner) != 0;
            return is_theirs ? NULL : at;
        }
    }
    return NULL;
}

size_t execution_count_locked(const struct core *core, const char *owner)
{
    size_t n = 0;
    for (const struct execution *at = core->executions.first; at != NULL; at = at->next) {
        n += !at->is_final && at->ask == NULL && (owner == NULL || strcmp(at->owner, owner) == 0);
    }
    return n;
}

static size_t bytes_of(const struct execution *execution)
{
    return execution->tail[0].len + execution->tail[1].len;
}

/* The audit keeps what is forgotten here, but for the output. */
static void forget_oldest_locked(struct core *core, const struct execution *newest)
{
    struct execution *next = NULL;
    for (struct execution *at = core->executions.first; at != NULL; at = next) {
        next = at->next;
        if (core->executions.n_over <= MAX_OVER && core->executions.bytes <= MAX_OVER_BYTES) {
            return;
        }
        if (at->is_final && at != newest && at->waits == NULL && at->streams == NULL) {
            core->executions.n_over--;
            core->executions.bytes -= bytes_of(at);
            unlink_locked(core, at);
            execution_free(at);
        }
    }
}

void executions_free(struct core *core)
{
    while (core->executions.first != NULL) {
        struct execution *execution = core->executions.first;
        unlink_locked(core, execution);
        execution_free(execution);
    }
    while (core->executions.kept_first != NULL) {
        struct kept *next = core->executions.kept_first->next;
        call_free(core->executions.kept_first->call);
        free(core->executions.kept_first->decision_json);
        free(core->executions.kept_first);
        core->executions.kept_first = next;
    }
}

/* ---- the end ---- */

void execution_event_locked(struct core *core, const struct execution *execution, const char *type)
{
    struct gh_buf data = GH_BUF_INIT;
    struct gh_jw w = {&data, false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "id", execution->id);
    gh_jw_str(&w, "session", execution->session_id);
    gh_jw_str(&w, "decision", execution->decision);
    gh_jw_str(&w, "state", execution_state_name(execution->state));
    if (execution->state == EXECUTION_EXITED) {
        gh_jw_int(&w, "exit_code", execution->result.exit_code);
    }
    gh_jw_end(&w);
    event_emit_locked(core, type, gh_map_find(&core->sessions, execution->session_id),
                      execution->owner, &data);
}

static void over_locked(struct execution *execution)
{
    struct core *core = execution->core;
    execution->is_final = true;
    clock_clear_locked(core, &execution->due_back);
    clock_clear_locked(core, &execution->due_retry);
    core->executions.n_over++;
    core->executions.bytes += bytes_of(execution);
    if (execution->state != EXECUTION_DENIED) {
        execution_event_locked(core, execution, "execution.finished");
    }
    execution_streams_end_locked(execution);
    waits_wake_locked(core, &execution->waits);
    forget_oldest_locked(core, execution);
}

/* Not on record: nobody is told that it went well; the record is tried again. */
static void record_failed_locked(struct execution *execution)
{
    struct wait *next = NULL;
    for (struct wait *wait = execution->waits; wait != NULL; wait = next) {
        next = wait->next;
        reply_audit_failed(wait_take_locked(execution->core, wait));
    }
    clock_set_locked(execution->core, &execution->due_retry, gh_clock_boot_ms() + RETRY_MS);
}

static void recorded(enum gh_code code, void *cookie)
{
    struct execution *execution = cookie;
    struct core *core = execution->core;
    pthread_mutex_lock(&core->lock);
    if (code == GH_OK) {
        over_locked(execution);
    } else if (!core->is_closed) {
        record_failed_locked(execution);
    }
    pthread_mutex_unlock(&core->lock);
}

static void record_locked(struct execution *execution)
{
    struct core *core = execution->core;
    struct store_txn *txn = core->is_closed ? NULL : store_txn_new();
    if (txn == NULL) {
        if (!core->is_closed) {
            record_failed_locked(execution);
        }
        return;
    }
    const struct meta meta = {.principal = execution->principal};
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    execution_json_locked(execution, EXECUTION_RECORD, &body);
    record_note(txn,
                &(struct note){"execution", execution->session_id, execution->id,
                               execution_state_name(execution->state), gh_buf_str(&body)},
                &meta);
    struct session *session = gh_map_find(&core->sessions, execution->session_id);
    bool is_open = session != NULL && (session->is_tainted || !execution->is_found_told);
    if (execution->has_scanned && is_open) { /* not again when a person has cleared it */
        taint_found_locked(core, session, execution->id, &execution->finding, &meta, txn);
    }
    store_commit(core->options.store, &txn, recorded, execution);
}

void execution_end_locked(struct execution *execution, enum execution_state state)
{
    execution->state = state;
    call_free(gh_steal(&execution->call));
    if (state == EXECUTION_DENIED) {
        over_locked(execution); /* the decision is on record, and nothing ran */
    } else {
        record_locked(execution);
    }
}

void execution_kill_locked(struct execution *execution)
{
    if (execution->is_final) {
        return;
    }
    execution->is_unwanted = true;
    if (execution->ask != NULL) {
        settle_system_locked(execution->core, execution->ask, GATE_TIER_ASK, GATE_R_CANCELLED);
    } else if (execution->job != NULL) {
        run_kill(execution->job);
    }
}

void execution_kill_session_locked(struct core *core, const struct session *session)
{
    execution_forget_session_locked(core, session->id);
    for (struct execution *at = core->executions.first; at != NULL; at = at->next) {
        if (strcmp(at->session_id, session->id) != 0) {
            continue;
        }
        if (at->ask != NULL) {
            at->is_unwanted = true; /* its question is cancelled, or is being answered just now */
        } else {
            execution_kill_locked(at);
        }
    }
}

void execution_due_locked(struct core *core, struct execution *execution, int kind)
{
    (void)core;
    if (kind == EXECUTION_DUE_RETRY) {
        record_locked(execution);
    } else if (execution->n_holders == 0) {
        execution_kill_locked(execution);
    }
}

/* ---- holders ---- */

void execution_hold_locked(struct execution *execution)
{
    execution->n_holders++;
    if (execution->ask != NULL) {
        execution->ask->n_holders++;
    }
}

void execution_let_go_locked(struct execution *execution)
{
    execution->n_holders--;
    if (execution->ask != NULL) {
        execution->ask->n_holders--;
    }
}

void execution_hold_back_locked(struct execution *execution)
{
    struct core *core = execution->core;
    if (execution->is_final || execution->n_holders > 0 || execution->is_detached) {
        return;
    }
    execution->is_gone = true;
    if (execution->ask != NULL) {
        ask_hold_back_locked(core, execution->ask);
    } else {
        clock_set_locked(core, &execution->due_back, gh_clock_boot_ms() + COME_BACK_MS);
    }
}

void execution_touch_locked(struct execution *execution, const struct auth_token *who)
{
    if (strcmp(who->name, execution->owner) != 0) {
        return;
    }
    execution->is_gone = false;
    clock_clear_locked(execution->core, &execution->due_back);
    if (execution->ask != NULL) {
        ask_touch_locked(execution->core, execution->ask, who);
    }
}

/* ---- requests about one ---- */

/* An older one: the audit has everything but its output. */
struct lookup {
    struct core *core;
    struct http_exchange *x;
    struct auth_token who;
    char id[GH_ID];
    struct gh_buf body;
    char session[GH_ID];
};

static bool take_row(const struct store_audit_row *row, void *cookie)
{
    struct lookup *look = cookie;
    gh_buf_puts(&look->body, row->row.body);
    snprintf(look->session, sizeof look->session, "%s", row->row.session);
    return false;
}

static void look_up(void *cookie)
{
    struct lookup *look = cookie;
    const struct store_audit_filter filter = {
        .ref = look->id, .kind = "execution", .newest_first = true, .limit = 1};
    struct gh_err err;
    enum gh_code code = store_audit_list(look->core->options.store, &filter, take_row, look, &err);
    pthread_mutex_lock(&look->core->lock);
    bool is_theirs = look->who.role != AUTH_AGENT ||
                     session_find_locked(look->core, &look->who, look->session) != NULL;
    pthread_mutex_unlock(&look->core->lock);
    if (code != GH_OK) {
        http_problem(look->x, &err, NULL);
    } else if (look->body.len == 0 || !is_theirs) {
        reply_not_found(look->x);
    } else {
        reply_json(look->x, 200, &look->body);
    }
    gh_buf_fini(&look->body);
    free(look);
}

static void from_store(struct core *core, struct http_exchange *x, const struct auth_token *who,
                       const char *id)
{
    struct gh_err err;
    struct lookup *look = gh_id_valid(id, "exe") ? calloc(1, sizeof *look) : NULL;
    if (look == NULL) {
        reply_not_found(x);
        return;
    }
    *look = (struct lookup){.core = core, .x = x, .who = *who};
    snprintf(look->id, sizeof look->id, "%s", id);
    if (gh_pool_run(core->options.pool, look_up, look, &err) != GH_OK) {
        free(look);
        http_problem(x, &err, NULL);
    }
}

void core_execution_get(struct core *core, struct http_exchange *x, const struct auth_token *who,
                        const char *id)
{
    struct gh_err err;
    int64_t wait_ms = 0;
    if (!query_wait_ms(x, &wait_ms, &err)) {
        http_problem(x, &err, NULL);
        return;
    }
    pthread_mutex_lock(&core->lock);
    struct execution *execution = execution_find_locked(core, who, id);
    if (execution != NULL) {
        execution_touch_locked(execution, who);
        execution_answer_locked(execution, x, who, wait_ms);
    }
    pthread_mutex_unlock(&core->lock);
    if (execution == NULL) {
        from_store(core, x, who, id);
    }
}

void core_execution_kill(struct core *core, struct http_exchange *x, const struct auth_token *who,
                         const char *id)
{
    pthread_mutex_lock(&core->lock);
    struct execution *execution = execution_find_locked(core, who, id);
    if (execution != NULL) {
        execution_kill_locked(execution);
        execution_reply_locked(execution, x);
    }
    pthread_mutex_unlock(&core->lock);
    if (execution == NULL) {
        from_store(core, x, who, id);
    }
}

/* Newest first; the cursor is the last id of the page before. */
static void list_json_locked(struct core *core, const char *session_id, const char *cursor,
                             int64_t limit, struct gh_buf *out)
{
    struct gh_jw w = {out, false};
    const char *last = NULL;
    bool is_cut = false;
    int64_t n = 0;
    gh_jw_obj(&w, NULL);
    gh_jw_arr(&w, "items");
    for (struct execution *at = core->executions.last; at != NULL && !is_cut; at = at->prev) {
        if (strcmp(at->session_id, session_id) != 0 ||
            (cursor != NULL && strcmp(at->id, cursor) >= 0)) {
            continue;
        }
        is_cut = n++ >= limit;
        if (!is_cut) {
            gh_auto(gh_buf_fini) struct gh_buf item = GH_BUF_INIT;
            execution_json_locked(at, EXECUTION_ITEM, &item);
            gh_jw_raw(&w, NULL, gh_buf_str(&item));
            last = at->id;
        }
    }
    gh_jw_arr_end(&w);
    gh_jw_str(&w, "next_cursor", is_cut ? last : NULL);
    gh_jw_end(&w);
}

void core_execution_list(struct core *core, struct http_exchange *x, const struct auth_token *who,
                         const char *session_id)
{
    struct gh_err err;
    int64_t limit = 100;
    const char *cursor = http_query(x, "cursor");
    if (query_limit(x, &limit, &err) != GH_OK) {
        http_problem(x, &err, NULL);
        return;
    }
    if (cursor != NULL && !gh_id_valid(cursor, "exe")) {
        gh_fail(&err, GH_BAD_CURSOR, "The cursor is not one this list gave out.");
        http_problem(x, &err, NULL);
        return;
    }
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    pthread_mutex_lock(&core->lock);
    bool is_theirs = session_find_locked(core, who, session_id) != NULL;
    if (is_theirs) {
        list_json_locked(core, session_id, cursor, limit, &body);
    }
    pthread_mutex_unlock(&core->lock);
    if (is_theirs) {
        reply_json(x, 200, &body);
    } else {
        reply_not_found(x);
    }
}
