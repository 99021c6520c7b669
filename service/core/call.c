#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

#define MAX_TEXT ((size_t)1 << 26) /* the body limit is below this */
#define MAX_PATH_BYTES 4096
#define MAX_ARGS 4096

/* Read {"old","new"} of `obj`. */
static enum gh_code parse_diff(const struct json_t *obj, const char *at, struct call_part *part,
                               struct gh_err *err)
{
    static const char *const names[] = {"old", "new", NULL};
    const struct json_t *diff = NULL;
    GH_TRY(gh_json_obj(obj, at, "diff", GH_OPTIONAL, &diff, err));
    if (diff == NULL) {
        return GH_OK;
    }
    char diff_at[64];
    snprintf(diff_at, sizeof diff_at, "%s/diff", at);
    GH_TRY(gh_json_only(diff, diff_at, names, err));
    GH_TRY(gh_json_str(diff, diff_at, "old", GH_OPTIONAL, MAX_TEXT, &part->old_text, err));
    return gh_json_str(diff, diff_at, "new", GH_OPTIONAL, MAX_TEXT, &part->new_text, err);
}

/* Collect the argument vector; part->argv owns it. */
static enum gh_code parse_args(const struct json_t *target, const char *at, struct call_part *part,
                               struct gh_err *err)
{
    const struct json_t *args = NULL;
    GH_TRY(gh_json_arr(target, at, "args", GH_OPTIONAL, MAX_ARGS, &args, err));
    size_t n = gh_json_len(args);
    part->argv = calloc(n + 1, sizeof *part->argv);
    if (part->argv == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the call.");
    }
    for (size_t i = 0; i < n; i++) {
        part->argv[i] = gh_json_text(gh_json_at(args, i));
        if (part->argv[i] == NULL) {
            return gh_fail_at(err, GH_INVALID, at, "Every argument must be a string.");
        }
    }
    part->target.args = part->argv;
    part->target.n_args = n;
    return GH_OK;
}

static enum gh_code parse_program(const struct json_t *target, const char *at,
                                  struct call_part *part, struct gh_err *err)
{
    static const char *const names[] = {"program", "args", "cwd", NULL};
    part->target.form = GATE_COMMAND;
    GH_TRY(gh_json_only(target, at, names, err));
    GH_TRY(gh_json_str(target, at, "program", GH_NEED, MAX_PATH_BYTES, &part->target.program, err));
    GH_TRY(gh_json_str(target, at, "cwd", GH_OPTIONAL, MAX_PATH_BYTES, &part->target.cwd, err));
    return parse_args(target, at, part, err);
}

/* {"shell": text} is sh -c text, and nothing else. */
static enum gh_code parse_shell(const struct json_t *target, const char *at, struct call_part *part,
                                struct gh_err *err)
{
    static const char *const names[] = {"shell", "cwd", NULL};
    const char *text = NULL;
    part->target.form = GATE_COMMAND;
    GH_TRY(gh_json_only(target, at, names, err));
    GH_TRY(gh_json_str(target, at, "shell", GH_NEED, MAX_TEXT, &text, err));
    GH_TRY(gh_json_str(target, at, "cwd", GH_OPTIONAL, MAX_PATH_BYTES, &part->target.cwd, err));
    part->argv = calloc(3, sizeof *part->argv);
    if (part->argv == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the call.");
    }
    part->argv[0] = "-c";
    part->argv[1] = text;
    part->target.program = "sh";
    part->target.args = part->argv;
    part->target.n_args = 2;
    part->target.is_shell = true;
    return GH_OK;
}

static enum gh_code parse_path(const struct json_t *target, const char *at, struct call_part *part,
                               struct gh_err *err)
{
    static const char *const names[] = {"path", NULL};
    part->target.form = GATE_PATH;
    GH_TRY(gh_json_only(target, at, names, err));
    return gh_json_str(target, at, "path", GH_NEED, MAX_TEXT, &part->target.path, err);
}

static enum gh_code parse_move(const struct json_t *target, const char *at, struct call_part *part,
                               struct gh_err *err)
{
    static const char *const names[] = {"from", "to", NULL};
    part->target.form = GATE_MOVE_PATHS;
    GH_TRY(gh_json_only(target, at, names, err));
    GH_TRY(gh_json_str(target, at, "from", GH_NEED, MAX_TEXT, &part->target.path, err));
    return gh_json_str(target, at, "to", GH_NEED, MAX_TEXT, &part->target.to, err);
}

static enum gh_code parse_description(const struct json_t *target, const char *at,
                                      struct call_part *part, struct gh_err *err)
{
    static const char *const names[] = {"description", NULL};
    part->target.form = GATE_DESCRIPTION;
    GH_TRY(gh_json_only(target, at, names, err));
    return gh_json_str(target, at, "description", GH_NEED, MAX_TEXT, &part->target.description,
                       err);
}

typedef enum gh_code parse_form_fn(const struct json_t *target, const char *at,
                                   struct call_part *part, struct gh_err *err);

/* The form is told by the member that only it has. */
static const struct {
    const char *key;
    parse_form_fn *parse;
} forms[] = {
    {"path", parse_path}, {"program", parse_program},         {"shell", parse_shell},
    {"from", parse_move}, {"description", parse_description},
};

static enum gh_code parse_target(const struct json_t *obj, const char *at, struct call_part *part,
                                 struct gh_err *err)
{
    const struct json_t *target = NULL;
    GH_TRY(gh_json_obj(obj, at, "target", GH_NEED, &target, err));
    char target_at[64];
    snprintf(target_at, sizeof target_at, "%s/target", at);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (gh_json_get(target, forms[i].key) != NULL) {
            return forms[i].parse(target, target_at, part, err);
        }
    }
    return gh_fail_at(
        err, GH_INVALID, target_at,
        "The target must have exactly one form: path, program, shell, from and to, or "
        "description.");
}

static enum gh_code parse_action(const struct json_t *obj, const char *at, struct call_part *part,
                                 struct gh_err *err)
{
    const char *action = NULL;
    GH_TRY(gh_json_str(obj, at, "action", GH_NEED, 64, &action, err));
    part->action = gate_action_find(action);
    if (part->action == GATE_ACTION_NONE) {
        char pointer[80];
        snprintf(pointer, sizeof pointer, "%s/action", at);
        return gh_fail_at(err, GH_INVALID, pointer, "The action is none of the eleven kinds.");
    }
    return GH_OK;
}

static enum gh_code parse_part(const struct json_t *obj, const char *at, struct call_part *part,
                               struct gh_err *err)
{
    GH_TRY(parse_action(obj, at, part, err));
    GH_TRY(parse_target(obj, at, part, err));
    return parse_diff(obj, at, part, err);
}

static enum gh_code parse_parts(struct call *call, const struct json_t *parts, struct gh_err *err)
{
    static const char *const names[] = {"action", "target", "diff", NULL};
    size_t n = gh_json_len(parts);
    if (n < 2) {
        return gh_fail_at(err, GH_INVALID, "/parts", "There must be 2 to 256 parts.");
    }
    for (size_t i = 0; i < n; i++) {
        char at[32];
        snprintf(at, sizeof at, "/parts/%zu", i);
        GH_TRY(gh_json_only(gh_json_at(parts, i), at, names, err));
        GH_TRY(parse_part(gh_json_at(parts, i), at, &call->parts[i], err));
    }
    return GH_OK;
}

/* Either action and target (and diff), or parts. */
static enum gh_code parse_what(struct call *call, struct gh_err *err)
{
    const struct json_t *parts = NULL;
    GH_TRY(gh_json_arr(call->body, "", "parts", GH_OPTIONAL, 256, &parts, err));
    call->n_parts = parts == NULL ? 1 : gh_json_len(parts);
    call->parts = calloc(call->n_parts + 1, sizeof *call->parts);
    if (call->parts == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the call.");
    }
    if (parts == NULL) {
        return parse_part(call->body, "", &call->parts[0], err);
    }
    static const char *const excluded[] = {"action", "target", "diff"};
    for (size_t i = 0; i < sizeof excluded / sizeof excluded[0]; i++) {
        if (gh_json_get(call->body, excluded[i]) != NULL) {
            return gh_fail_at(err, GH_INVALID, "/parts",
                              "A call has either parts or an action and a target, not both.");
        }
    }
    return parse_parts(call, parts, err);
}

static enum gh_code parse_words(struct call *call, struct gh_err *err)
{
    const char *mode = NULL;
    const char *on_deadline = NULL;
    GH_TRY(gh_json_str(call->body, "", "mode", GH_OPTIONAL, 32, &mode, err));
    if (mode != NULL && strcmp(mode, "plan") != 0) {
        return gh_fail_at(err, GH_INVALID, "/mode",
                          "A call may only be judged as in \"plan\" mode.");
    }
    call->is_plan_call = mode != NULL;
    GH_TRY(gh_json_str(call->body, "", "on_deadline", GH_OPTIONAL, 32, &on_deadline, err));
    if (on_deadline != NULL && strcmp(on_deadline, "ticket") != 0 &&
        strcmp(on_deadline, "expire") != 0) {
        return gh_fail_at(err, GH_INVALID, "/on_deadline", "It must be \"expire\" or \"ticket\".");
    }
    call->wants_ticket = on_deadline != NULL && strcmp(on_deadline, "ticket") == 0;
    if (call->wants_ticket && call->deadline_ms == 0) {
        return gh_fail_at(err, GH_INVALID, "/deadline_s",
                          "A ticket needs the caller's deadline_s.");
    }
    return GH_OK;
}

static enum gh_code parse_rest(struct call *call, struct gh_err *err)
{
    const struct json_t *body = call->body;
    GH_TRY(gh_json_str(body, "", "tool", GH_NEED, 10240, &call->tool, err));
    if (!tool_name_ok(call->tool)) {
        return gh_fail_at(err, GH_INVALID, "/tool",
                          "A tool name is 1 to 128 visible ASCII characters without blanks.");
    }
    call->arguments = gh_json_get(body, "arguments");
    GH_TRY(gh_json_str(body, "", "preview", GH_OPTIONAL, MAX_TEXT, &call->preview, err));
    GH_TRY(gh_json_str(body, "", "narration", GH_OPTIONAL, 65536, &call->narration, err));
    GH_TRY(gh_json_str(body, "", "response_id", GH_OPTIONAL, 256, &call->response_id, err));
    GH_TRY(gh_json_secs(body, "", "deadline_s", 1000, 86400000, true, &call->deadline_ms, err));
    GH_TRY(gh_json_secs(body, "", "wait_s", 0, 120000, false, &call->wait_ms, err));
    GH_TRY(gh_json_bool(body, "", "detached", &call->is_detached, err));
    return parse_words(call, err);
}

/* An execution's environment and network are part of what a grant covers; input never is. */
static enum gh_code parse_execution(struct call *call, struct gh_err *err)
{
    const struct json_t *env = NULL;
    const char *input = NULL;
    const char *network = NULL;
    call->execution = gh_json_get(call->body, "execution");
    if (call->execution == NULL) {
        return GH_OK;
    }
    GH_TRY(gh_json_obj(call->execution, "", "env", GH_OPTIONAL, &env, err));
    GH_TRY(gh_json_str(call->execution, "", "stdin", GH_OPTIONAL, MAX_TEXT, &input, err));
    GH_TRY(gh_json_str(call->execution, "", "network", GH_OPTIONAL, MAX_TEXT, &network, err));
    GH_TRY(gh_json_bool(call->execution, "", "interactive", &call->is_interactive, err));
    call->is_never_cached = call->is_interactive || (input != NULL && input[0] != '\0');
    if (gh_json_len(env) > 0 || network != NULL) {
        struct gh_buf text = GH_BUF_INIT;
        gh_buf_printf(&text, "%s%s\n", network != NULL ? "network " : "",
                      network != NULL ? network : "");
        if (gh_json_len(env) > 0) {
            gh_json_canonical(env, &text);
        }
        call->env_json = gh_buf_take(&text);
        if (call->env_json == NULL) {
            return gh_fail(err, GH_NOMEM, "There is not enough memory for the call.");
        }
    }
    return GH_OK;
}

static enum gh_code parse_call(const char *data, size_t len, const char *const known[],
                               struct call **ret, struct gh_err *err)
{
    gh_auto(call_freep) struct call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the call.");
    }
    GH_TRY(gh_json_parse(data, len, &call->body, err));
    GH_TRY(gh_json_only(call->body, "", known, err));
    GH_TRY(parse_rest(call, err));
    GH_TRY(parse_what(call, err));
    GH_TRY(parse_execution(call, err));
    const struct call_part *first = &call->parts[0];
    call->has_new = call->n_parts == 1 && first->action == GATE_WRITE && first->new_text != NULL;
    if (call->has_new) {
        gh_id_sha256(first->new_text, strlen(first->new_text), call->new_sha);
    }
    *ret = gh_steal(&call);
    return GH_OK;
}

/* What a request may have; what only the service adds stands first. */
static const char *const call_names[] = {"execution",   "tool",     "action",      "target",
                                         "arguments",   "preview",  "diff",        "narration",
                                         "mode",        "parts",    "response_id", "deadline_s",
                                         "on_deadline", "detached", "wait_s",      NULL};

enum gh_code call_parse(const char *data, size_t len, struct call **ret, struct gh_err *err)
{
    return parse_call(data, len, call_names + 1, ret, err);
}

enum gh_code call_parse_own(const char *data, size_t len, struct call **ret, struct gh_err *err)
{
    return parse_call(data, len, call_names, ret, err);
}

void call_free(struct call *call)
{
    if (call == NULL) {
        return;
    }
    for (size_t i = 0; call->parts != NULL && i < call->n_parts; i++) {
        free(call->parts[i].argv);
    }
    free(call->parts);
    free(call->env_json);
    gh_json_free(call->body);
    free(call);
}

void call_freep(struct call **call)
{
    call_free(*call);
    *call = NULL;
}
