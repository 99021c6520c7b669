#include "gate/facts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "gate/walk.h"
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

/* Who asks, and what gathers the answers over all names. */
struct judging {
    const struct gate_place *place;
    struct gate_facts *facts;
    struct gate_case *one;
};

static bool is_whole(const struct gate_case *one)
{
    return one->action == GATE_DELETE || one->action == GATE_MOVE;
}

static void set_later(const struct judging *j, const char *why)
{
    if (why != NULL) {
        j->one->runs_later = true;
        j->facts->later = j->facts->later != NULL ? j->facts->later : why;
    }
}

/* Does a change of this name reach what agents or later programs are steered by? */
static void judge_steering(const struct judging *j, const char *name)
{
    struct gate_case *one = j->one;
    /* not only writes: these take folders with all that is in them */
    one->is_gate_config =
        one->is_gate_config || (is_whole(one) ? gate_rules_holds_gate_config(j->place->rules, name)
                                              : gate_rules_is_gate_config(j->place->rules, name));
    set_later(j, gate_rules_runs_later(j->place->rules, name));
}

/* What a change of this name would be, by its name and place alone. */
static void judge_plain(const struct judging *j, const char *name)
{
    struct gate_case *one = j->one;
    set_denied(j->facts, one, gate_rules_denies(j->place->rules, name));
    if (is_change(one->action)) {
        one->is_git_metadata = one->is_git_metadata || is_git(j->place, name);
        judge_steering(j, name);
    }
}

/* The same for a name that the call gives, with what takes a look around it. */
static void judge_name(const struct judging *j, const char *name)
{
    struct gate_case *one = j->one;
    judge_plain(j, name);
    if (!is_change(one->action) || one->is_git_metadata) {
        return;
    }
    one->is_git_metadata =
        (is_whole(one) && gitmeta_holds(j->place->git, name)) ||
        (one->action != GATE_DELETE && gitmeta_is_head(name)) ||
        gitmeta_is_nested_hook(j->place->git, name, j->place->home, is_whole(one));
}

/* True for an existing file with more than one hard link. */
static bool has_other_names(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1;
}

/* Inside is below the working directory: what deletes or replaces the folder itself is not. */
static bool is_inside(const struct judging *j, const struct spellings *names)
{
    const char *dir = j->place->working_dir;
    bool is_in = gate_path_within(names->main, dir);
    /* a change may replace the link itself instead of what it points to: both must be inside */
    if (names->leaf != NULL && is_change(j->one->action)) {
        is_in = is_in && gate_path_within(names->leaf, dir);
    }
    if (is_whole(j->one)) {
        is_in = is_in && strcmp(names->leaf != NULL ? names->leaf : names->main, dir) != 0;
    }
    /* what is written is reached by a name that may lie anywhere */
    return is_in && !(j->one->action == GATE_WRITE && has_other_names(names->main));
}

/* One end in one reading. */
static void judge_end(const struct judging *j, const struct gate_path *path, bool is_lexical)
{
    struct spellings names = spell(path, is_lexical);
    for (size_t i = 0; i < sizeof names.at / sizeof *names.at; i++) {
        if (names.at[i] != NULL) {
            judge_name(j, names.at[i]);
        }
    }
    /* a link on the way whose own name is denied stays denied, wherever it points */
    for (const char *hop = gate_path_hop(path, NULL); hop != NULL; hop = gate_path_hop(path, hop)) {
        judge_name(j, hop);
    }
    j->one->is_inside = j->one->is_inside && is_inside(j, &names);
}

static bool see(const char *path, void *cookie)
{
    const struct judging *j = cookie;
    judge_plain(j, path);
    return !j->one->is_denied;
}

/* A folder that is moved or deleted takes what is in it along: each name is judged where it lies
 * and where it would lie. `to` and `into` are NULL for a delete. */
static void judge_below(struct judging *j, const char *dir, const char *to, const char *into)
{
    if (j->one->is_denied) {
        return;
    }
    const struct gate_walk walk = {
        .dir = dir, .roots = {dir, to, into}, .budget = j->place->budget, .see = see, .cookie = j};
    if (!gate_walk(&walk) && !j->one->is_git_metadata) { /* that is refused anyway */
        set_denied(j->facts, j->one, cut_entry);
    }
}

static bool see_by_link(const char *path, void *cookie)
{
    judge_steering(cookie, path);
    return true;
}

/* A link that is moved goes alone, but what it leads to can be reached by the new name from then
 * on. Only what that place makes of it matters: where it lies it stays as it was. */
static void judge_behind(struct judging *j, const char *dir, const char *to, const char *into)
{
    const struct gate_walk walk = {.dir = dir,
                                   .roots = {to, into},
                                   .budget = j->place->budget,
                                   .see = see_by_link,
                                   .cookie = j};
    if (!j->one->is_denied && !gate_walk(&walk)) {
        set_later(j, "It leads to a folder that cannot be searched wholly.");
    }
}

/* Where `from` lands when `to` is a folder that exists: some tools put it in there instead of in
 * its place. NULL when it is none. Owned by caller. */
static enum gh_code find_landing(const struct spellings *from, const struct spellings *to,
                                 char **ret, struct gh_err *err)
{
    struct stat st;
    const char *name = strrchr(from->leaf != NULL ? from->leaf : from->main, '/');
    if (name == NULL || name[1] == '\0' || stat(to->main, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return GH_OK;
    }
    if (asprintf(ret, "%s%s", strcmp(to->main, "/") != 0 ? to->main : "", name) < 0) {
        *ret = NULL;
        return gh_fail(err, GH_NOMEM, "There is not enough memory to judge the path.");
    }
    return GH_OK;
}

static enum gh_code judge_move(struct judging *j, bool is_lexical, struct gh_err *err)
{
    gh_autofree char *into = NULL;
    struct spellings from = spell(&j->facts->path, is_lexical);
    struct spellings to = spell(&j->facts->to, is_lexical);
    GH_TRY(find_landing(&from, &to, &into, err));
    /* the destination first: what runs later is named by it */
    judge_end(j, &j->facts->to, is_lexical);
    if (into != NULL) {
        judge_name(j, into);
    }
    judge_end(j, &j->facts->path, is_lexical);
    const char *place = to.leaf != NULL ? to.leaf : to.main;
    if (from.leaf == NULL) {
        judge_below(j, from.main, place, into);
    } else {
        judge_behind(j, from.main, place, into);
    }
    return GH_OK;
}

static enum gh_code judge_paths(const struct gate_place *place, struct gate_facts *facts,
                                bool is_lexical, struct gate_case *one, struct gh_err *err)
{
    struct judging j = {place, facts, one};
    one->is_inside = true;
    if (one->form == GATE_MOVE_PATHS) {
        return judge_move(&j, is_lexical, err);
    }
    judge_end(&j, &facts->path, is_lexical);
    struct spellings at = spell(&facts->path, is_lexical);
    if (one->action == GATE_DELETE && at.leaf == NULL) { /* a link is deleted alone */
        judge_below(&j, at.main, NULL, NULL);
    }
    return GH_OK;
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
    GH_TRY(judge_paths(place, ret, false, &ret->kernel, err));
    if (ret->path.lexical != NULL || ret->to.lexical != NULL) {
        return judge_paths(place, ret, true, &ret->lexical, err);
    }
    ret->lexical = ret->kernel;
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
