#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/execution.h"
#include "text/neutral.h"

/* From a request to a command that may run: the request becomes an Execute call that says all that
 * matters of how it will run, and goes through the gate like any other. */

#define MAX_TEXT ((size_t)1 << 26) /* the body limit is below this */
#define MAX_ENV 256
#define MAX_KEPT 256
#define MAX_KEPT_BYTES ((size_t)256 << 10) /* of one call */
#define KEPT_MS (15 * 60 * 1000)

/* ---- the request ---- */

struct request {
    struct json_t *json; /* owned */
    const char *shell, *program, *cwd, *input, *network, *tool, *decision;
    const struct json_t *args, *env;
    bool is_interactive, is_background, is_detached;
    int64_t timeout_ms, wait_ms;
};

static void free_request(struct request *request)
{
    gh_json_free(request->json);
}

struct env_check {
    enum gh_code code;
    struct gh_err *err;
};

static void check_variable(const char *key, const struct json_t *value, void *cookie)
{
    struct env_check *check = cookie;
    if (check->code == GH_OK &&
        (key[0] == '\0' || strchr(key, '=') != NULL || gh_json_text(value) == NULL)) {
        check->code = gh_fail_at(check->err, GH_INVALID, "/env",
                                 "A variable has a name without \"=\" and a text as value.");
    }
}

static enum gh_code parse_env(struct request *request, struct gh_err *err)
{
    struct env_check check = {GH_OK, err};
    GH_TRY(gh_json_obj(request->json, "", "env", GH_OPTIONAL, &request->env, err));
    if (gh_json_len(request->env) > MAX_ENV) {
        return gh_fail_at(err, GH_INVALID, "/env", "At most %d variables are taken.", MAX_ENV);
    }
    if (request->env != NULL) {
        gh_json_each(request->env, check_variable, &check);
    }
    return check.code;
}

static enum gh_code parse_network(struct request *request, struct gh_err *err)
{
    GH_TRY(gh_json_str(request->json, "", "network", GH_OPTIONAL, 32, &request->network, err));
    for (int i = RUN_NET_OPEN; i <= RUN_NET_NONE && request->network != NULL; i++) {
        if (strcmp(request->network, execution_network_name((enum run_network)i)) == 0) {
            return GH_OK;
        }
    }
    return request->network == NULL
               ? GH_OK
               : gh_fail_at(err, GH_INVALID, "/network",
                            "It must be unrestricted, tcp_ports, loopback or none.");
}

static enum gh_code parse_how(struct request *request, struct gh_err *err)
{
    const struct json_t *json = request->json;
    GH_TRY(gh_json_bool(json, "", "background", &request->is_background, err));
    GH_TRY(gh_json_bool(json, "", "detached", &request->is_detached, err));
    GH_TRY(gh_json_secs(json, "", "timeout_s", 1, 86400000, true, &request->timeout_ms, err));
    return gh_json_secs(json, "", "wait_s", 0, 120000, false, &request->wait_ms, err);
}

static enum gh_code parse_what(struct request *request, struct gh_err *err)
{
    const struct json_t *json = request->json;
    GH_TRY(gh_json_str(json, "", "shell", GH_OPTIONAL, MAX_TEXT, &request->shell, err));
    GH_TRY(gh_json_str(json, "", "program", GH_OPTIONAL, 4096, &request->program, err));
    GH_TRY(gh_json_arr(json, "", "args", GH_OPTIONAL, 4096, &request->args, err));
    GH_TRY(gh_json_str(json, "", "cwd", GH_OPTIONAL, 4096, &request->cwd, err));
    GH_TRY(gh_json_str(json, "", "stdin", GH_OPTIONAL, MAX_TEXT, &request->input, err));
    GH_TRY(gh_json_bool(json, "", "interactive", &request->is_interactive, err));
    GH_TRY(gh_json_str(json, "", "tool", GH_OPTIONAL, 10240, &request->tool, err));
    GH_TRY(parse_env(request, err));
    GH_TRY(parse_network(request, err));
    if ((request->shell == NULL) == (request->program == NULL)) {
        return gh_fail_at(err, GH_INVALID, "", "Give a program (with args), or a shell text.");
    }
    if (request->shell != NULL && request->args != NULL) {
        return gh_fail_at(err, GH_INVALID, "/args", "A shell text has no args.");
    }
    return GH_OK;
}

static enum gh_code parse_request(struct http_exchange *x, struct request *request,
                                  struct gh_err *err)
{
    static const char *const names[] = {
        "program",     "args",        "shell",      "cwd",        "env",      "stdin",
        "interactive", "network",     "timeout_s",  "background", "detached", "tool",
        "narration",   "response_id", "deadline_s", "wait_s",     "decision", NULL};
    static const char *const by_decision[] = {"decision", "timeout_s", "background",
                                              "detached", "wait_s",    NULL};
    size_t len = 0;
    const char *data = http_body(x, &len);
    GH_TRY(gh_json_parse(data, len, &request->json, err));
    GH_TRY(gh_json_only(request->json, "", names, err));
    GH_TRY(gh_json_str(request->json, "", "decision", GH_OPTIONAL, GH_ID, &request->decision, err));
    GH_TRY(parse_how(request, err));
    if (request->decision == NULL) {
        return parse_what(request, err);
    }
    if (!gh_id_valid(request->decision, "dec")) {
        return gh_fail_at(err, GH_INVALID, "/decision", "That is no id of a decision.");
    }
    return gh_json_only(request->json, "", by_decision, err) == GH_OK
               ? GH_OK
               : gh_fail_at(err, GH_INVALID, "/decision",
                            "What that decision allowed is run as it is: nothing else is taken.");
}

/* ---- the call it becomes ---- */

static void raw_member(struct gh_jw *w, const char *key, const struct json_t *value)
{
    if (value != NULL) {
        gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
        gh_json_canonical(value, &text);
        gh_jw_raw(w, key, gh_buf_str(&text));
        w->buf->failed = w->buf->failed || text.failed;
    }
}

static void text_member(struct gh_jw *w, const char *key, const char *text)
{
    if (text != NULL) {
        gh_jw_str(w, key, text);
    }
}

static void preview_variable(const char *key, const struct json_t *value, void *cookie)
{
    gh_buf_printf(cookie, "environment: %s=%s\n", key, gh_json_text(value));
}

/* What a person has to see beside the command itself. */
static void preview_text(const struct request *request, struct gh_buf *out)
{
    if (request->env != NULL) {
        gh_json_each(request->env, preview_variable, out);
    }
    if (request->network != NULL) {
        gh_buf_printf(out, "network: at most %s\n", request->network);
    }
    if (request->is_interactive) {
        gh_buf_puts(out, "interactive: more input may be sent while it runs\n");
    }
    if (request->input != NULL && request->input[0] != '\0') {
        gh_buf_printf(out, "standard input (%zu bytes):\n%s", strlen(request->input),
                      request->input);
    }
}

static void target_json(const struct request *request, struct gh_jw *w)
{
    gh_jw_obj(w, "target");
    text_member(w, "shell", request->shell);
    text_member(w, "program", request->program);
    raw_member(w, "args", request->args);
    text_member(w, "cwd", request->cwd);
    gh_jw_end(w);
}

static void execution_member(const struct request *request, struct gh_jw *w)
{
    gh_jw_obj(w, "execution");
    raw_member(w, "env", request->env);
    gh_jw_bool(w, "interactive", request->is_interactive);
    text_member(w, "network", request->network);
    text_member(w, "stdin", request->input);
    gh_jw_end(w);
}

static enum gh_code make_call(const struct request *request, struct call **ret, struct gh_err *err)
{
    static const char *const as_they_are[] = {"narration", "response_id", "deadline_s", "detached"};
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf preview = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    preview_text(request, &preview);
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "tool", request->tool != NULL ? request->tool : "run_command");
    gh_jw_str(&w, "action", "execute");
    target_json(request, &w);
    execution_member(request, &w);
    text_member(&w, "preview", preview.len > 0 ? gh_buf_str(&preview) : NULL);
    for (size_t i = 0; i < sizeof as_they_are / sizeof *as_they_are; i++) {
        raw_member(&w, as_they_are[i], gh_json_get(request->json, as_they_are[i]));
    }
    gh_jw_end(&w);
    if (body.failed || preview.failed) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the call.");
    }
    GH_TRY(call_parse_own(gh_buf_str(&body), body.len, ret, err));
    (*ret)->wait_ms = request->wait_ms;
    return GH_OK;
}

static struct execution *make_execution(struct core *core, const char *session_id,
                                        const struct auth_token *who, const struct request *request)
{
    struct execution *execution = execution_new(core, session_id, who);
    if (execution != NULL) {
        execution->is_background = request->is_background;
        execution->is_detached = request->is_detached;
        execution->is_interactive = request->is_interactive;
        execution->timeout_ms = request->timeout_ms;
        execution->wait_ms = request->is_background ? 0 : request->wait_ms;
    }
    return execution;
}

/* ---- by an earlier decision ---- */

static void forget_kept_locked(struct core *core)
{
    struct kept *kept = core->executions.kept_first;
    core->executions.kept_first = kept->next;
    if (core->executions.kept_first == NULL) {
        core->executions.kept_last = NULL;
    }
    core->executions.n_kept--;
    call_free(kept->call);
    free(kept->decision_json);
    free(kept);
}

/* One part that executes a command, small enough to be held for a while. Takes *call then. `digest`
 * is of what a person allowed, "" for a ticket, NULL where the gate allowed by itself. */
static void keep_locked(struct core *core, const char *session_id, const char *decision,
                        const char *decision_json, struct call **call, const char *digest)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    const struct call_part *part = &(*call)->parts[0];
    if ((*call)->n_parts != 1 || part->action != GATE_EXECUTE ||
        part->target.form != GATE_COMMAND) {
        return;
    }
    gh_json_canonical((*call)->body, &text);
    struct kept *kept = text.failed || text.len > MAX_KEPT_BYTES ? NULL : calloc(1, sizeof *kept);
    if (kept == NULL) {
        return;
    }
    snprintf(kept->decision, sizeof kept->decision, "%s", decision);
    snprintf(kept->session_id, sizeof kept->session_id, "%s", session_id);
    kept->decision_json = strdup(decision_json);
    kept->call = gh_steal(call);
    kept->until_ms = gh_clock_boot_ms() + KEPT_MS;
    snprintf(kept->digest, sizeof kept->digest, "%s", digest != NULL ? digest : "");
    kept->is_by_gate = digest == NULL;
    if (core->executions.kept_last != NULL) {
        core->executions.kept_last->next = kept;
    } else {
        core->executions.kept_first = kept;
    }
    core->executions.kept_last = kept;
    if (++core->executions.n_kept > MAX_KEPT) {
        forget_kept_locked(core);
    }
}

static enum gh_code take_kept_locked(struct core *core, const char *session_id, const char *id,
                                     struct kept **ret, struct gh_err *err)
{
    int64_t now_ms = gh_clock_boot_ms();
    const struct kept *used = NULL;
    for (struct kept *at = core->executions.kept_first; at != NULL; at = at->next) {
        if (strcmp(at->decision, id) != 0 || strcmp(at->session_id, session_id) != 0) {
            continue;
        }
        used = at->call == NULL && now_ms < at->until_ms ? at : used;
        if (at->call != NULL && now_ms < at->until_ms && at->decision_json != NULL) {
            *ret = at;
            return GH_OK;
        }
    }
    if (used != NULL) {
        return gh_fail(err, GH_DECISION_USED, "What that decision allowed was run already.");
    }
    return gh_fail(err, GH_DECISION_NOT_ALLOWED,
                   "It is no Execute decision of this session that was allowed within 15 minutes.");
}

void execution_used_locked(struct core *core, const char *decision)
{
    for (struct kept *at = core->executions.kept_first; at != NULL; at = at->next) {
        if (strcmp(at->decision, decision) == 0) {
            call_free(gh_steal(&at->call));
        }
    }
}

void execution_forget_session_locked(struct core *core, const char *session_id)
{
    for (struct kept *at = core->executions.kept_first; at != NULL; at = at->next) {
        if (strcmp(at->session_id, session_id) == 0) {
            call_free(gh_steal(&at->call));
            at->until_ms = 0;
        }
    }
}

/* ---- POST ---- */

static enum gh_code admit_locked(struct core *core, const struct auth_token *who,
                                 const char *session_id, struct gh_err *err)
{
    const struct session *session = session_find_locked(core, who, session_id);
    if (session == NULL) {
        return gh_fail(err, GH_NOT_FOUND, "There is no such session, or it is not yours.");
    }
    if (!session->is_active) {
        return gh_fail(err, GH_CONFLICT, "The session has ended.");
    }
    if (core->is_stopping) {
        return gh_fail(err, GH_STOPPING, "The service is shutting down.");
    }
    if (execution_count_locked(core, who->name) >= EXECUTION_MAX_RUNNING) {
        return gh_fail(err, GH_LIMIT, "%d commands of this token are running already.",
                       EXECUTION_MAX_RUNNING);
    }
    return GH_OK;
}

static void start_kept_locked(struct core *core, struct http_exchange *x,
                              const struct auth_token *who, const struct request *request,
                              struct execution *execution)
{
    struct kept *kept = NULL;
    struct gh_err err;
    enum gh_code code = admit_locked(core, who, execution->session_id, &err);
    if (code == GH_OK) {
        code = take_kept_locked(core, execution->session_id, request->decision, &kept, &err);
    }
    if (code != GH_OK) {
        http_problem(x, &err, NULL);
        execution_free(execution);
        return;
    }
    memcpy(execution->decision, kept->decision, sizeof execution->decision);
    execution->decision_json = gh_steal(&kept->decision_json);
    execution->call = gh_steal(&kept->call);
    execution->is_interactive = execution->call->is_interactive;
    memcpy(execution->digest, kept->digest, sizeof execution->digest);
    execution->is_by_gate = kept->is_by_gate;
    execution_link_locked(core, execution);
    execution_start_soon_locked(execution);
    execution_answer_locked(execution, x, who, execution->wait_ms);
}

static void fail(struct http_exchange *x, struct request *request, const struct gh_err *err)
{
    http_problem(x, err, NULL);
    free_request(request);
}

/* Through the gate: from here on it is a decision with something to do at its end. */
static void ask_gate(struct core *core, struct http_exchange *x, const struct auth_token *who,
                     struct request *request, struct execution **execution)
{
    struct gh_err err;
    struct work *work = calloc(1, sizeof *work);
    enum gh_code code = work != NULL ? make_call(request, &work->call, &err)
                                     : gh_fail(&err, GH_NOMEM, "There is not enough memory.");
    if (code == GH_OK) {
        pthread_mutex_lock(&core->lock);
        code = admit_locked(core, who, (*execution)->session_id, &err);
        pthread_mutex_unlock(&core->lock);
    }
    if (code != GH_OK) {
        if (work != NULL) {
            call_free(work->call);
        }
        free(work);
        execution_free(*execution);
        fail(x, request, &err);
        return;
    }
    work->core = core;
    work->x = x;
    work->who = *who;
    work->created_ms = gh_clock_wall_ms();
    memcpy(work->session_id, (*execution)->session_id, sizeof work->session_id);
    gh_id_new("dec", work->id);
    memcpy((*execution)->decision, work->id, sizeof work->id);
    work->execution = gh_steal(execution);
    free_request(request);
    work_begin(work);
}

void core_execute(struct core *core, struct http_exchange *x, const struct auth_token *who,
                  const char *session_id)
{
    struct gh_err err;
    struct request request = {0};
    if (parse_request(x, &request, &err) != GH_OK) {
        fail(x, &request, &err);
        return;
    }
    struct execution *execution = make_execution(core, session_id, who, &request);
    if (execution == NULL) {
        gh_fail(&err, GH_NOMEM, "There is not enough memory.");
        fail(x, &request, &err);
        return;
    }
    if (request.decision == NULL) {
        ask_gate(core, x, who, &request, &execution);
        return;
    }
    pthread_mutex_lock(&core->lock);
    start_kept_locked(core, x, who, &request, execution);
    pthread_mutex_unlock(&core->lock);
    free_request(&request);
}

/* ---- where decisions meet it ---- */

enum gh_code execution_check(const struct work *work, struct gh_err *err)
{
    const char *cwd = work->execution != NULL ? work->judged.parts[0].facts.cwd : NULL;
    if (cwd == NULL || gate_path_within(cwd, work->place->working_dir)) {
        return GH_OK;
    }
    return gh_fail_at(err, GH_INVALID, "/cwd",
                      "A command runs in the session's working directory or below it.");
}

void execution_take_call_locked(struct work *work, bool is_allowed)
{
    if (!is_allowed) {
        return;
    }
    bool is_by_gate = work->judged.total.decision != GATE_ASK; /* else by a person's ticket */
    if (work->execution != NULL) {
        work->execution->call = gh_steal(&work->call);
        work->execution->is_by_gate = is_by_gate;
    } else {
        keep_locked(work->core, work->session_id, work->id, gh_buf_str(&work->body), &work->call,
                    is_by_gate ? NULL : "");
    }
}

void execution_decided_locked(struct work *work)
{
    struct execution *execution = gh_steal(&work->execution);
    execution->decision_json = gh_buf_take(&work->body);
    execution_link_locked(work->core, execution);
    if (work->answer.decision == GATE_DENY) {
        execution_end_locked(execution, EXECUTION_DENIED);
    } else {
        execution_start_soon_locked(execution);
    }
    execution_answer_locked(execution, work->x, &work->who, execution->wait_ms);
}

void execution_asked_locked(struct work *work)
{
    struct ask *ask = work->ask;
    ask->input = gh_steal(&work->input);
    if (work->execution == NULL) {
        return;
    }
    ask->execution = gh_steal(&work->execution);
    ask->execution->ask = ask;
    execution_link_locked(work->core, ask->execution);
}

static void settle_execution_locked(struct core *core, struct ask *ask, bool is_allowed)
{
    struct execution *execution = gh_steal(&ask->execution);
    ask->n_holders -= execution->n_holders;
    execution->ask = NULL;
    execution->decision_json = strdup(ask->answer_final);
    if (!is_allowed) {
        execution_end_locked(execution, EXECUTION_DENIED);
        return;
    }
    execution->call = gh_steal(&ask->call);
    memcpy(execution->digest, ask->digest, sizeof execution->digest);
    execution_start_soon_locked(execution);
    if (execution->is_gone) {
        clock_clear_locked(core, &execution->due_back);
        execution_hold_back_locked(execution);
    }
}

void execution_settled_locked(struct core *core, struct ask *ask)
{
    bool is_allowed =
        ask->answer.decision == GATE_ALLOW || ask->answer.decision == GATE_ALLOW_ALWAYS;
    if (ask->execution != NULL) {
        settle_execution_locked(core, ask, is_allowed);
    } else if (is_allowed && ask->input != NULL) {
        execution_deliver_locked(core, ask->input);
    } else if (is_allowed && ask->call != NULL && ask->answer_final != NULL) {
        keep_locked(core, ask->session_id, ask->decision, ask->answer_final, &ask->call,
                    ask->digest);
    }
}

bool execution_replay_locked(struct work *work, const char *decision)
{
    for (struct execution *at = work->core->executions.last; at != NULL; at = at->prev) {
        if (strcmp(at->decision, decision) == 0) {
            execution_touch_locked(at, &work->who);
            execution_answer_locked(at, work->x, &work->who, work->execution->wait_ms);
            return true;
        }
    }
    return false;
}
