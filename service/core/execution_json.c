#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/execution.h"

const char *execution_state_name(enum execution_state state)
{
    static const char *const names[] = {
        [EXECUTION_ASKING] = "asking",     [EXECUTION_RUNNING] = "running",
        [EXECUTION_DENIED] = "denied",     [EXECUTION_EXITED] = "exited",
        [EXECUTION_SIGNALED] = "signaled", [EXECUTION_TIMED_OUT] = "timed_out",
        [EXECUTION_KILLED] = "killed",     [EXECUTION_FAILED] = "failed_to_start",
    };
    return names[state];
}

const char *execution_network_name(enum run_network network)
{
    static const char *const names[] = {[RUN_NET_OPEN] = "unrestricted",
                                        [RUN_NET_TCP] = "tcp_ports",
                                        [RUN_NET_LOOPBACK] = "loopback",
                                        [RUN_NET_NONE] = "none"};
    return names[network];
}

static const char *level_name(enum run_level level)
{
    static const char *const names[] = {
        [RUN_NONE] = "none", [RUN_PARTIAL] = "partial", [RUN_FULL] = "full"};
    return names[level];
}

static const char *method_name(enum run_deny_method method)
{
    static const char *const names[] = {
        [RUN_DENY_NONE] = "none", [RUN_DENY_MASKED] = "masked", [RUN_DENY_CARVED] = "carved"};
    return names[method];
}

/* ---- output as text ---- */

static size_t count_of(const char *text, size_t len, const char *what)
{
    size_t n = 0;
    for (const char *at = memmem(text, len, what, strlen(what)); at != NULL;
         at = memmem(at + 1, len - (size_t)(at + 1 - text), what, strlen(what))) {
        n++;
    }
    return n;
}

struct stream_names {
    const char *text, *dropped, *replaced;
};

static const struct stream_names stream_names[2] = {
    {"stdout", "stdout_dropped_bytes", "stdout_replaced"},
    {"stderr", "stderr_dropped_bytes", "stderr_replaced"},
};

/* Bytes that are no UTF-8 become U+FFFD, and that is said. A character that the cut went through is
 * dropped whole. */
static void output_json(const struct gh_buf *tail, uint64_t dropped,
                        const struct stream_names *names, bool with_output, struct gh_jw *w)
{
    static const char mark[] = "\xEF\xBF\xBD";
    const char *text = gh_buf_str(tail);
    size_t len = with_output ? tail->len : 0;
    size_t cut = 0;
    while (dropped > 0 && cut < len && cut < 3 && ((unsigned char)text[cut] & 0xC0) == 0x80) {
        cut++;
    }
    size_t at = w->buf->len;
    gh_jw_strn(w, names->text, text + cut, len - cut);
    size_t n_marks = w->buf->failed ? 0 : count_of(w->buf->data + at, w->buf->len - at, mark);
    gh_jw_int(w, names->dropped, (int64_t)(dropped + cut + (with_output ? 0 : tail->len)));
    gh_jw_bool(w, names->replaced, n_marks > count_of(text + cut, len - cut, mark));
}

static void outputs_json(struct execution *execution, bool with_output, struct gh_jw *w)
{
    for (int i = 0; i < 2; i++) {
        gh_auto(gh_buf_fini) struct gh_buf live = GH_BUF_INIT;
        uint64_t dropped = execution->dropped[i];
        if (execution->job != NULL) {
            dropped = run_tail(execution->job, (enum run_stream)i, &live);
        }
        output_json(execution->job != NULL ? &live : &execution->tail[i], dropped, &stream_names[i],
                    with_output, w);
    }
}

/* ---- the object ---- */

static void lost_json(const struct run_report *report, struct gh_jw *w)
{
    gh_jw_arr(w, "lost");
    for (size_t i = 0; i < report->n_lost; i++) {
        gh_jw_str(w, NULL, report->lost[i]);
    }
    gh_jw_arr_end(w);
}

static void report_json(const struct execution *execution, struct gh_jw *w)
{
    const struct run_report *report = &execution->report;
    bool is_known = execution->has_report;
    gh_jw_str(w, "enforcement", is_known ? level_name(report->enforcement) : NULL);
    lost_json(report, w);
    gh_jw_str(w, "deny_method", is_known ? method_name(report->deny_method) : NULL);
    gh_jw_str(w, "network", is_known ? execution_network_name(report->network) : NULL);
    gh_jw_arr(w, "quarantined");
    gh_jw_arr_end(w);
}

static void end_json(const struct execution *execution, enum execution_state state, bool is_over,
                     struct gh_jw *w)
{
    const struct run_result *result = &execution->result;
    const char *signal_name = NULL;
    char abbrev[32] = "";
    if (state == EXECUTION_SIGNALED) {
        const char *name = sigabbrev_np(result->signal);
        if (name != NULL) {
            snprintf(abbrev, sizeof abbrev, "SIG%s", name);
        } else {
            snprintf(abbrev, sizeof abbrev, "signal %d", result->signal);
        }
        signal_name = abbrev;
    }
    if (state == EXECUTION_EXITED) {
        gh_jw_int(w, "exit_code", result->exit_code);
    } else {
        gh_jw_null(w, "exit_code");
    }
    gh_jw_str(w, "signal", signal_name);
    gh_jw_str(w, "hint", execution->why[0] != '\0' ? execution->why : execution->hint);
    gh_jw_time(w, "created_at", execution->created_ms);
    gh_jw_time(w, "started_at", execution->started_ms);
    if (!is_over || execution->started_ms < 0) {
        gh_jw_null(w, "duration_ms");
        gh_jw_null(w, "resources");
        return;
    }
    gh_jw_int(w, "duration_ms", result->duration_ms);
    gh_jw_obj(w, "resources");
    gh_jw_int(w, "cpu_ms", result->cpu_ms);
    gh_jw_int(w, "max_rss_kib", result->max_rss_kib);
    gh_jw_end(w);
}

void execution_json_locked(struct execution *execution, enum execution_view view,
                           struct gh_buf *out)
{
    struct gh_jw w = {out, false};
    gh_auto(gh_buf_fini) struct gh_buf asked = GH_BUF_INIT;
    const char *decision = execution->decision_json;
    if (decision == NULL && execution->ask != NULL) {
        ask_decision_json(execution->ask, &asked);
        decision = gh_buf_str(&asked);
    }
    /* Nobody else sees an end before it is durable. */
    bool is_over = execution->is_final || view == EXECUTION_RECORD;
    enum execution_state state =
        is_over || execution->state == EXECUTION_ASKING ? execution->state : EXECUTION_RUNNING;
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "id", execution->id);
    gh_jw_str(&w, "session", execution->session_id);
    gh_jw_raw(&w, "decision", decision != NULL ? decision : "null");
    gh_jw_str(&w, "state", execution_state_name(state));
    outputs_json(execution, view == EXECUTION_WHOLE, &w);
    report_json(execution, &w);
    gh_jw_bool(&w, "interactive", execution->is_interactive);
    gh_jw_bool(&w, "background", execution->is_background);
    gh_jw_bool(&w, "detached", execution->is_detached);
    end_json(execution, state, is_over, &w);
    gh_jw_end(&w);
}

void execution_reply_locked(struct execution *execution, struct http_exchange *x)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    execution_json_locked(execution, EXECUTION_WHOLE, &body);
    if (execution->is_final || body.failed) {
        reply_json(x, 200, &body);
        return;
    }
    char location[GH_ID + 32];
    snprintf(location, sizeof location, "/v1/executions/%s", execution->id);
    const struct http_header headers[] = {{"Location", location}, {"Retry-After", "1"}};
    http_reply(x, 202, &body, headers, 2);
}

void execution_answer_locked(struct execution *execution, struct http_exchange *x,
                             const struct auth_token *who, int64_t wait_ms)
{
    const struct wait wait = {.x = x,
                              .kind = WAIT_EXECUTION,
                              .who = *who,
                              .execution = execution,
                              .is_holder = strcmp(who->name, execution->owner) == 0};
    if (execution->is_final || wait_ms <= 0 ||
        !wait_hold_locked(execution->core, &wait, wait_ms, &execution->waits)) {
        execution_reply_locked(execution, x);
    }
}

/* ---- what commands get here ---- */

void execution_confinement_json(const struct core *core, struct gh_jw *w)
{
    const struct run_abilities *can = run_abilities(core->executions.run);
    gh_jw_obj(w, "confinement");
    gh_jw_str(w, "enforcement", level_name(can->enforcement));
    if (can->landlock_abi > 0) {
        gh_jw_int(w, "landlock_abi", can->landlock_abi);
    } else {
        gh_jw_null(w, "landlock_abi");
    }
    gh_jw_bool(w, "seccomp", can->seccomp);
    gh_jw_str(w, "deny_method", method_name(can->deny_method));
    gh_jw_str(w, "reason", can->why[0] != '\0' ? can->why : NULL);
    gh_jw_end(w);
}

void core_confinement_json(struct core *core, struct gh_jw *w)
{
    const struct run_abilities *can = run_abilities(core->executions.run);
    gh_jw_int(w, "landlock_abi", can->landlock_abi);
    gh_jw_bool(w, "seccomp", can->seccomp);
    gh_jw_bool(w, "user_namespaces", can->namespaces);
    gh_jw_bool(w, "executions", can->enforcement != RUN_NONE);
}
