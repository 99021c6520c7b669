#include "gate/facts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "text/neutral.h"

/* Said in place of an entry when a folder is too large, or closed, to be looked through. */
static const char cut_entry[] = "(the folder cannot be searched for denied files)";

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

void gate_facts_fini(struct gate_facts *facts)
{
    gate_path_fini(&facts->path);
    gate_path_fini(&facts->to);
    free(facts->cwd);
    free(facts->resolved);
    *facts = (struct gate_facts){0};
}

static bool is_change(enum gate_action action)
{
    return action == GATE_WRITE || action == GATE_DELETE || action == GATE_MOVE;
}

/* The texts that one end of a call is known by. */
struct spellings {
    const char *at[4]; /* kernel or lexical, leaf, spelled; NULL where there is none */
    const char *main;
    const char *leaf;
};

static struct spellings spell(const struct gate_path *path, bool is_lexical)
{
    bool is_other = is_lexical && path->lexical != NULL;
    const char *main = is_other ? path->lexical : path->kernel;
    const char *leaf = is_other ? path->lexical_leaf : path->leaf;
    return (struct spellings){{main, leaf, path->spelled, NULL}, main, leaf};
}

static void set_denied(struct gate_facts *facts, struct gate_case *one, const char *entry)
{
    if (entry != NULL) {
        one->is_denied = true;
        facts->deny_entry = facts->deny_entry != NULL ? facts->deny_entry : entry;
    }
}

static bool is_git(const struct gate_place *place, const char *path)
{
    return gitmeta_touches(place->git, path) || gate_rules_is_global_git(place->rules, path);
}

/* What a change of this name would be; `one` gathers over all names. */
static void judge_name(const struct gate_place *place, const char *name, struct gate_facts *facts,
                       struct gate_case *one)
{
    bool is_whole = one->action != GATE_WRITE; /* takes folders with all that is in them */
    set_denied(facts, one, gate_rules_denies(place->rules, name));
    if (!is_change(one->action)) {
        return;
    }
    one->is_git_metadata = one->is_git_metadata || is_git(place, name) ||
                           (is_whole && gitmeta_holds(place->git, name));
    one->is_gate_config =
        one->is_gate_config || (is_whole ? gate_rules_holds_gate_config(place->rules, name)
                                         : gate_rules_is_gate_config(place->rules, name));
    const char *later = gate_rules_runs_later(place->rules, name);
    if (later != NULL) {
        one->runs_later = true;
        facts->later = facts->later != NULL ? facts->later : later;
    }
}

/* True for an existing file with more than one hard link. */
static bool has_other_names(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1;
}

/* One end in one reading. */
static void judge_end(const struct gate_place *place, const struct gate_path *path, bool is_lexical,
                      struct gate_facts *facts, struct gate_case *one)
{
    struct spellings names = spell(path, is_lexical);
    for (size_t i = 0; i < sizeof names.at / sizeof *names.at; i++) {
        if (names.at[i] != NULL) {
            judge_name(place, names.at[i], facts, one);
        }
    }
    /* a link on the way whose own name is denied stays denied, wherever it points */
    for (const char *hop = gate_path_hop(path, NULL); hop != NULL; hop = gate_path_hop(path, hop)) {
        judge_name(place, hop, facts, one);
    }
    /* a change may replace the link itself instead of what it points to: both must be inside */
    bool is_inside = gate_path_within(names.main, place->working_dir);
    if (names.leaf != NULL && is_change(one->action)) {
        is_inside = is_inside && gate_path_within(names.leaf, place->working_dir);
    }
    if (one->action == GATE_WRITE && has_other_names(names.main)) {
        is_inside = false; /* what is written is reached by a name that may lie anywhere */
    }
    one->is_inside = one->is_inside && is_inside;
}

/* A folder that is moved or deleted takes what is in it along. `to` is NULL for a delete. */
static void judge_below(const struct gate_place *place, const char *dir, const char *to,
                        struct gate_facts *facts, struct gate_case *one)
{
    if (one->is_denied) {
        return;
    }
    gh_autofree char *found = NULL;
    bool is_cut = false;
    gate_rules_denies_moved(place->rules, dir, to, &found, &is_cut);
    if (found != NULL) {
        const char *entry = gate_rules_denies(place->rules, found);
        set_denied(facts, one, entry != NULL ? entry : cut_entry);
    } else if (is_cut) {
        set_denied(facts, one, cut_entry);
    }
}

static void judge_paths(const struct gate_place *place, struct gate_facts *facts, bool is_lexical,
                        struct gate_case *one)
{
    bool is_move = one->form == GATE_MOVE_PATHS;
    one->is_inside = true;
    if (is_move) { /* the destination first: what runs later is named by it */
        judge_end(place, &facts->to, is_lexical, facts, one);
    }
    judge_end(place, &facts->path, is_lexical, facts, one);
    bool takes_folder = is_move || one->action == GATE_DELETE;
    struct spellings from = spell(&facts->path, is_lexical);
    if (takes_folder && from.leaf == NULL) { /* a link is moved or deleted alone */
        const char *to = is_move ? spell(&facts->to, is_lexical).main : NULL;
        judge_below(place, from.main, to, facts, one);
    }
}

/* Refuse what a person could not see. */
static enum gh_code check_visible(const char *text, const char *pointer, const char *what,
                                  struct gh_err *err)
{
    if (text == NULL || text_is_invisible(text, strlen(text))) {
        return gh_fail_at(err, GH_INVALID, pointer, "The %s is empty or invisible.", what);
    }
    return GH_OK;
}

static enum gh_code resolve_at(const char *text, const char *pointer, const char *base,
                               const char *home, struct gate_path *ret, struct gh_err *err)
{
    GH_TRY(check_visible(text, pointer, "path", err));
    enum gh_code code = gate_path_resolve(text, base, home, ret, err);
    if (code != GH_OK && err != NULL) {
        snprintf(err->pointer, sizeof err->pointer, "%s", pointer);
    }
    return code;
}

static enum gh_code gather_paths(const struct gate_place *place, const struct gate_target *target,
                                 struct gate_facts *ret, struct gh_err *err)
{
    bool is_move = target->form == GATE_MOVE_PATHS;
    GH_TRY(resolve_at(target->path, is_move ? "/from" : "/path", place->working_dir, place->home,
                      &ret->path, err));
    if (is_move) {
        GH_TRY(resolve_at(target->to, "/to", place->working_dir, place->home, &ret->to, err));
    }
    judge_paths(place, ret, false, &ret->kernel);
    if (ret->path.lexical != NULL || ret->to.lexical != NULL) {
        judge_paths(place, ret, true, &ret->lexical);
    } else {
        ret->lexical = ret->kernel;
    }
    return GH_OK;
}

/* True when the path, in any spelling, is denied. */
static bool is_denied(const struct gate_place *place, const struct gate_path *path)
{
    const char *const names[] = {path->kernel, path->lexical, path->spelled, path->leaf,
                                 path->lexical_leaf};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i] != NULL && gate_rules_denies(place->rules, names[i]) != NULL) {
            return true;
        }
    }
    for (const char *hop = gate_path_hop(path, NULL); hop != NULL; hop = gate_path_hop(path, hop)) {
        if (gate_rules_denies(place->rules, hop) != NULL) {
            return true;
        }
    }
    return false;
}

static enum gh_code gather_cwd(const struct gate_place *place, const struct gate_target *target,
                               struct gate_facts *ret, struct gh_err *err)
{
    const char *text = target->cwd != NULL ? target->cwd : place->working_dir;
    gh_auto(gate_path_fini) struct gate_path path = {0};
    GH_TRY(resolve_at(text, "/cwd", place->working_dir, place->home, &path, err));
    struct stat st;
    if (stat(path.kernel, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return gh_fail_at(err, GH_INVALID, "/cwd", "The cwd is not a folder that exists.");
    }
    if (is_denied(place, &path)) {
        return gh_fail_at(err, GH_INVALID, "/cwd", "The cwd is under a deny entry.");
    }
    ret->cwd = gh_steal(&path.kernel);
    return GH_OK;
}

/* The canonical path of an executable regular file, or NULL. Owned by caller. */
static char *find_executable(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || access(path, X_OK) != 0) {
        return NULL;
    }
    return realpath(path, NULL);
}

/* `name` below the folder dir[0..len), which is relative to `cwd` unless absolute. */
static char *find_in(const char *cwd, const char *dir, size_t len, const char *name)
{
    char path[PATH_MAX];
    bool is_absolute = len > 0 && dir[0] == '/';
    int n = snprintf(path, sizeof path, "%s%s%.*s/%s", is_absolute ? "" : cwd,
                     is_absolute ? "" : "/", (int)len, dir, name);
    return n > 0 && (size_t)n < sizeof path ? find_executable(path) : NULL;
}

/* As execvp would look for it. */
static char *find_program(const char *program, const char *cwd)
{
    if (strchr(program, '/') != NULL) {
        return program[0] == '/' ? find_executable(program) : find_in(cwd, "", 0, program);
    }
    const char *at = getenv("PATH");
    at = at != NULL && *at != '\0' ? at : default_path;
    char *found = NULL;
    for (bool is_last = false; found == NULL && !is_last;) {
        size_t len = strcspn(at, ":");
        found = find_in(cwd, at, len, program);
        is_last = at[len] == '\0';
        at += len + 1;
    }
    return found;
}

static enum gh_code gather_command(const struct gate_place *place, const struct gate_target *target,
                                   struct gate_facts *ret, struct gh_err *err)
{
    GH_TRY(check_visible(target->program, "/program", "program", err));
    if (target->is_shell) {
        const char *text = target->n_args > 1 ? target->args[1] : NULL;
        GH_TRY(check_visible(text, "/shell", "command", err));
    }
    if (strlen(target->program) >= PATH_MAX) {
        return gh_fail_at(err, GH_INVALID, "/program", "The program's name is too long.");
    }
    GH_TRY(gather_cwd(place, target, ret, err));
    ret->resolved = find_program(target->program, ret->cwd);
    ret->lexical = ret->kernel;
    return GH_OK;
}

static enum gh_code gather(const struct gate_place *place, const struct gate_target *target,
                           struct gate_facts *ret, struct gh_err *err)
{
    switch (target->form) {
    case GATE_PATH:
    case GATE_MOVE_PATHS:
        return gather_paths(place, target, ret, err);
    case GATE_COMMAND:
        return gather_command(place, target, ret, err);
    case GATE_DESCRIPTION:
        return check_visible(target->description, "/description", "description", err);
    default:
        return gh_fail_at(err, GH_INVALID, "", "The target has no form that is known.");
    }
}

enum gh_code gate_facts_gather(const struct gate_place *place, enum gate_action action,
                               const struct gate_target *target, struct gate_facts *ret,
                               struct gh_err *err)
{
    *ret = (struct gate_facts){0};
    if (!gate_form_fits(action, target->form)) {
        return gh_fail_at(err, GH_INVALID, "", "A target of this form makes no sense for \"%s\".",
                          gate_action_name(action));
    }
    ret->kernel = (struct gate_case){.action = action, .form = target->form};
    ret->lexical = ret->kernel;
    enum gh_code code = gather(place, target, ret, err);
    if (code != GH_OK) {
        gate_facts_fini(ret);
    }
    return code;
}

static void put_command(const struct gate_facts *facts, const struct gate_target *target,
                        struct gh_jw *w)
{
    gh_jw_arr(w, "args");
    for (size_t i = 0; i < target->n_args; i++) {
        gh_jw_str(w, NULL, target->args[i]);
    }
    gh_jw_arr_end(w);
    gh_jw_str(w, "cwd", facts->cwd);
    gh_jw_str(w, "program", target->program);
}

void gate_facts_target_json(const struct gate_facts *facts, const struct gate_target *target,
                            struct gh_buf *out)
{
    struct gh_jw w = {out, false};
    gh_jw_obj(&w, NULL);
    switch (target->form) {
    case GATE_PATH:
        gh_jw_str(&w, "path", facts->path.kernel);
        break;
    case GATE_MOVE_PATHS:
        gh_jw_str(&w, "from", facts->path.kernel);
        gh_jw_str(&w, "to", facts->to.kernel);
        break;
    case GATE_COMMAND:
        put_command(facts, target, &w);
        break;
    default:
        gh_jw_str(&w, "description", target->description);
        break;
    }
    gh_jw_end(&w);
}

/* Length before text: no content can be taken for a border. */
static void put_part(struct gh_buf *out, const char *text)
{
    text = text != NULL ? text : "";
    gh_buf_printf(out, "%zu:", strlen(text));
    gh_buf_puts(out, text);
    gh_buf_putc(out, ',');
}

/* Both readings: a grant for one pair says nothing about another that shares the kernel's. */
static void put_path(struct gh_buf *out, const struct gate_path *path)
{
    put_part(out, path->kernel);
    put_part(out, path->lexical);
}

void gate_facts_key(const struct gate_facts *facts, enum gate_action action,
                    const struct gate_target *target, const char *tool, const char *env_json,
                    struct gh_buf *out)
{
    put_part(out, gate_action_name(action));
    switch (target->form) {
    case GATE_PATH:
        put_path(out, &facts->path);
        break;
    case GATE_MOVE_PATHS:
        put_path(out, &facts->path);
        put_path(out, &facts->to);
        break;
    case GATE_COMMAND:
        put_part(out, target->program);
        put_part(out, facts->cwd);
        put_part(out, env_json);
        for (size_t i = 0; i < target->n_args; i++) {
            put_part(out, target->args[i]);
        }
        break;
    default:
        put_part(out, action == GATE_PERSISTENT_MEMORY ? tool : "");
        put_part(out, target->description);
        break;
    }
}
