#include "cli/ask_body.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fs.h"

#define MAX_FILE_BYTES (1U << 20) /* two of them, escaped, stay below the service's 4 MiB */

enum form { FORM_PATH, FORM_MOVE, FORM_COMMAND, FORM_TEXT };

struct kind {
    const char *action;
    const char *tool; /* the name used without --tool */
    enum form form;
};

static const struct kind kinds[] = {
    {"read", "read_file", FORM_PATH},
    {"write", "write_file", FORM_PATH},
    {"delete", "delete_file", FORM_PATH},
    {"move", "move_file", FORM_MOVE},
    {"execute", "run_command", FORM_COMMAND},
    {"network", "web_fetch", FORM_TEXT},
    {"interact", "send_process", FORM_TEXT},
    {"mcp_tool", "mcp__cli__call", FORM_TEXT},
    {"memory", "memory_write", FORM_TEXT},
    {"persistent_memory", "remember_preference", FORM_TEXT},
    {"internal", "set_tasks", FORM_TEXT},
};

static const struct kind *find_kind(const struct cli_args *args)
{
    for (size_t i = 0; args->n_front > 0 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].action, args->rest[0]) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

/* A program and its arguments stand behind "--", or the text in --shell; never both. */
static enum gh_code check_command(const struct cli_ask *ask, const struct cli_args *args,
                                  struct gh_err *err)
{
    if (ask->shell != NULL && args->n_rest != 1) {
        return gh_fail(err, GH_INVALID, "--shell TEXT is the whole command.");
    }
    if (ask->shell == NULL && args->n_rest < 2) {
        return gh_fail(err, GH_INVALID, "execute needs -- PROGRAM ARGUMENTS, or --shell TEXT.");
    }
    return GH_OK;
}

enum gh_code cli_ask_check(const struct cli_ask *ask, const struct cli_args *args,
                           struct gh_err *err)
{
    const struct kind *kind = find_kind(args);
    if (kind == NULL) {
        return gh_fail(err, GH_INVALID,
                       "The first word must be an action: read, write, delete, move, execute, "
                       "network, interact, mcp_tool, memory, persistent_memory or internal.");
    }
    bool is_command = kind->form == FORM_COMMAND;
    if (!is_command && (ask->shell != NULL || ask->cwd != NULL)) {
        return gh_fail(err, GH_INVALID, "--shell and --cwd go with execute only.");
    }
    if (ask->new_file != NULL && strcmp(kind->action, "write") != 0) {
        return gh_fail(err, GH_INVALID, "--new-file goes with write only.");
    }
    if (ask->session != NULL && ask->dir != NULL) {
        return gh_fail(err, GH_INVALID, "Give --session or --dir, not both.");
    }
    if (ask->no_wait && ask->wait_s >= 0) {
        return gh_fail(err, GH_INVALID, "Give --wait or --no-wait, not both.");
    }
    if (is_command) {
        return check_command(ask, args, err);
    }
    if (args->n_rest != (kind->form == FORM_MOVE ? 3U : 2U)) {
        return gh_fail(err, GH_INVALID,
                       kind->form == FORM_MOVE ? "move needs FROM and TO."
                                               : "%s needs exactly one word "
                                                 "behind it.",
                       kind->action);
    }
    return GH_OK;
}

static void write_command(const struct cli_ask *ask, const struct cli_args *args, struct gh_jw *w)
{
    if (ask->shell != NULL) {
        gh_jw_str(w, "shell", ask->shell);
    } else {
        gh_jw_str(w, "program", args->rest[1]);
        gh_jw_arr(w, "args");
        for (size_t i = 2; i < args->n_rest; i++) {
            gh_jw_str(w, NULL, args->rest[i]);
        }
        gh_jw_arr_end(w);
    }
    if (ask->cwd != NULL) {
        gh_jw_str(w, "cwd", ask->cwd);
    }
}

static void write_target(const struct kind *kind, const struct cli_ask *ask,
                         const struct cli_args *args, struct gh_jw *w)
{
    gh_jw_obj(w, "target");
    switch (kind->form) {
    case FORM_PATH:
        gh_jw_str(w, "path", args->rest[1]);
        break;
    case FORM_MOVE:
        gh_jw_str(w, "from", args->rest[1]);
        gh_jw_str(w, "to", args->rest[2]);
        break;
    case FORM_COMMAND:
        write_command(ask, args, w);
        break;
    case FORM_TEXT:
        gh_jw_str(w, "description", args->rest[1]);
        break;
    }
    gh_jw_end(w);
}

/* The JSON writer puts U+FFFD for bytes that are not UTF-8, silently; a person must not approve
 * such a picture of a file, so it is refused instead. */
static enum gh_code check_text(const char *name, const char *text, size_t len, struct gh_err *err)
{
    static const char mark[] = "\xEF\xBF\xBD";
    gh_auto(gh_buf_fini) struct gh_buf json = GH_BUF_INIT;
    gh_buf_json(&json, text, len);
    if (json.failed) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    if (memchr(text, '\0', len) != NULL ||
        (memmem(json.data, json.len, mark, 3) != NULL && memmem(text, len, mark, 3) == NULL)) {
        return gh_fail(err, GH_INVALID, "%s is not UTF-8 text; ask without --new-file.", name);
    }
    return GH_OK;
}

static enum gh_code read_text(const char *path, bool may_be_missing, char **ret, size_t *ret_len,
                              struct gh_err *err)
{
    enum gh_code code = gh_fs_read(AT_FDCWD, path, MAX_FILE_BYTES, ret, ret_len, err);
    if (code == GH_NOT_FOUND && may_be_missing) {
        *ret = strdup("");
        *ret_len = 0;
        return *ret == NULL ? gh_fail(err, GH_NOMEM, "There is not enough memory.") : GH_OK;
    }
    GH_TRY(code);
    return check_text(path, *ret, *ret_len, err);
}

static enum gh_code write_diff(const char *new_file, const char *target, const char *working_dir,
                               struct gh_jw *w, struct gh_err *err)
{
    gh_autofree char *old = NULL;
    gh_autofree char *new = NULL;
    gh_autofree char *path = NULL;
    size_t old_len = 0;
    size_t new_len = 0;
    int n = target[0] == '/' ? asprintf(&path, "%s", target)
                             : asprintf(&path, "%s/%s", working_dir, target);
    if (n < 0) {
        path = NULL;
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    GH_TRY(read_text(new_file, false, &new, &new_len, err));
    GH_TRY(read_text(path, true, &old, &old_len, err));
    gh_jw_obj(w, "diff");
    gh_jw_strn(w, "old", old, old_len);
    gh_jw_strn(w, "new", new, new_len);
    gh_jw_end(w);
    return GH_OK;
}

static const char *tool_of(const struct kind *kind, const struct cli_ask *ask)
{
    if (ask->tool != NULL) {
        return ask->tool;
    }
    return ask->shell != NULL ? "shell" : kind->tool;
}

enum gh_code cli_ask_body(const struct cli_ask *ask, const struct cli_args *args,
                          const char *working_dir, struct gh_buf *out, struct gh_err *err)
{
    const struct kind *kind = find_kind(args);
    struct gh_jw w = {.buf = out, .comma = false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "tool", tool_of(kind, ask));
    gh_jw_str(&w, "action", kind->action);
    write_target(kind, ask, args, &w);
    if (ask->new_file != NULL) {
        GH_TRY(write_diff(ask->new_file, args->rest[1], working_dir, &w, err));
    }
    if (ask->narration != NULL) {
        gh_jw_str(&w, "narration", ask->narration);
    }
    if (ask->response_id != NULL) {
        gh_jw_str(&w, "response_id", ask->response_id);
    }
    if (ask->plan) {
        gh_jw_str(&w, "mode", "plan");
    }
    if (ask->wait_s > 0) {
        gh_jw_int(&w, "deadline_s", ask->wait_s);
    }
    /* Held by later polls, not here: an interrupt then always knows what to cancel. */
    gh_jw_int(&w, "wait_s", 0);
    gh_jw_end(&w);
    return out->failed ? gh_fail(err, GH_NOMEM, "There is not enough memory.") : GH_OK;
}
