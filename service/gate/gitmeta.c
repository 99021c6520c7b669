#include "gate/gitmeta.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fs.h"
#include "gate/gitconf.h"
#include "gate/path.h"

enum { MAX_POINTER_BYTES = 8192 };

void gitmeta_dirs_fini(struct gitmeta_dirs *dirs)
{
    free(dirs->top);
    free(dirs->git_dir);
    free(dirs->common);
    free(dirs->hooks);
    *dirs = (struct gitmeta_dirs){0};
}

static enum gh_code no_memory(struct gh_err *err)
{
    return gh_fail(err, GH_NOMEM, "There is not enough memory to look for the repository.");
}

/* `dir`/`name` as a string, or `name` alone when absolute. Owned by caller; NULL: no memory. */
static char *join(const char *dir, const char *name)
{
    struct gh_buf path = GH_BUF_INIT;
    if (*name != '/') {
        gh_buf_puts(&path, strcmp(dir, "/") != 0 ? dir : "");
        gh_buf_putc(&path, '/');
    }
    gh_buf_puts(&path, name);
    return gh_buf_take(&path);
}

static bool is_there(const char *dir, size_t dir_len, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%.*s/%s", (int)dir_len, dir, name);
    return n > 0 && (size_t)n < sizeof path && lstat(path, &st) == 0;
}

/* A folder that git takes for a repository's own. */
static bool is_git_dir(const char *dir, size_t len)
{
    return is_there(dir, len, "HEAD") && is_there(dir, len, "refs") &&
           (is_there(dir, len, "objects") || is_there(dir, len, "commondir"));
}

/* The first line of a small pointer file behind `prefix`, resolved against `dir` to a canonical
 * path. *ret stays NULL when it says nothing usable. */
static enum gh_code read_pointer(const char *dir, const char *name, const char *prefix, char **ret,
                                 struct gh_err *err)
{
    gh_autofree char *file = join(dir, name);
    gh_autofree char *text = NULL;
    size_t len = 0;
    if (file == NULL) {
        return no_memory(err);
    }
    enum gh_code code = gh_fs_read(AT_FDCWD, file, MAX_POINTER_BYTES, &text, &len, NULL);
    if (code != GH_OK) {
        return code == GH_NOMEM ? no_memory(err) : GH_OK;
    }
    if (strncmp(text, prefix, strlen(prefix)) != 0) {
        return GH_OK;
    }
    char *target = text + strlen(prefix);
    target += strspn(target, " \t");
    target[strcspn(target, "\r\n")] = '\0';
    gh_auto(gate_path_fini) struct gate_path path = {0};
    code = *target != '\0' ? gate_path_resolve(target, dir, NULL, &path, err) : GH_INVALID;
    if (code != GH_OK) {
        return code == GH_INVALID ? GH_OK : code;
    }
    *ret = gh_steal(&path.kernel);
    return GH_OK;
}

/* Does `dir` have a repository? Fills git_dir when so. */
static enum gh_code look_in(const char *dir, struct gitmeta_dirs *ret, struct gh_err *err)
{
    gh_autofree char *dot_git = join(dir, ".git");
    if (dot_git == NULL) {
        return no_memory(err);
    }
    gh_autofree char *real = realpath(dot_git, NULL);
    struct stat st;
    if (real == NULL || stat(real, &st) != 0) {
        return GH_OK;
    }
    if (S_ISDIR(st.st_mode)) {
        ret->git_dir = is_git_dir(real, strlen(real)) ? gh_steal(&real) : NULL;
        return GH_OK;
    }
    return read_pointer(dir, real, "gitdir:", &ret->git_dir, err);
}

/* Go up from `working_dir` until a repository is found. */
static enum gh_code find_repository(const char *working_dir, struct gitmeta_dirs *ret,
                                    struct gh_err *err)
{
    gh_autofree char *dir = strdup(working_dir);
    if (dir == NULL) {
        return no_memory(err);
    }
    for (bool is_root = false; ret->git_dir == NULL && !is_root;) {
        GH_TRY(look_in(dir, ret, err));
        if (ret->git_dir != NULL) {
            ret->top = gh_steal(&dir);
            break;
        }
        if (is_git_dir(dir, strlen(dir))) {
            ret->git_dir = gh_steal(&dir);
            break;
        }
        char *slash = strrchr(dir, '/');
        is_root = strcmp(dir, "/") == 0 || slash == NULL;
        if (!is_root) {
            slash[slash == dir ? 1 : 0] = '\0';
        }
    }
    if (ret->git_dir == NULL) {
        return GH_OK;
    }
    GH_TRY(read_pointer(ret->git_dir, "commondir", "", &ret->common, err));
    if (ret->common == NULL) {
        ret->common = strdup(ret->git_dir);
    }
    return ret->common != NULL ? GH_OK : no_memory(err);
}

struct config_place {
    const char *base; /* NULL: skipped */
    const char *name;
};

/* core.hooksPath, the last one that git would read. */
static enum gh_code find_hooks(const char *home, struct gitmeta_dirs *ret, struct gh_err *err)
{
    const struct config_place places[] = {
        {"/etc", "gitconfig"},   {home, ".config/git/config"},      {home, ".gitconfig"},
        {ret->common, "config"}, {ret->git_dir, "config.worktree"},
    };
    gh_autofree char *value = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (places[i].base == NULL) {
            continue;
        }
        gh_autofree char *file = join(places[i].base, places[i].name);
        GH_TRY(file == NULL ? no_memory(err) : gitconf_hooks_path(file, home, &value, err));
    }
    if (value == NULL || *value == '\0') {
        return GH_OK;
    }
    gh_auto(gate_path_fini) struct gate_path path = {0};
    const char *base = ret->top != NULL ? ret->top : ret->git_dir;
    enum gh_code code = gate_path_resolve(value, base, home, &path, err);
    if (code != GH_OK) {
        return code == GH_INVALID ? GH_OK : code;
    }
    ret->hooks = gh_steal(&path.kernel);
    return GH_OK;
}

static enum gh_code find_all(const char *working_dir, const char *home, struct gitmeta_dirs *ret,
                             struct gh_err *err)
{
    GH_TRY(find_repository(working_dir, ret, err));
    return ret->git_dir != NULL ? find_hooks(home, ret, err) : GH_OK;
}

enum gh_code gitmeta_find(const char *working_dir, const char *home, struct gitmeta_dirs *ret,
                          struct gh_err *err)
{
    *ret = (struct gitmeta_dirs){0};
    enum gh_code code = find_all(working_dir, home, ret, err);
    if (code != GH_OK) {
        gitmeta_dirs_fini(ret);
    }
    return code;
}

/* Names that git reads or writes in a repository's own folder. */
static bool is_state_name(const char *name, size_t len)
{
    static const char *const names[] = {
        "HEAD",         "config",    "config.worktree", "hooks",       "objects",   "refs",
        "info",         "logs",      "packed-refs",     "description", "index",     "shallow",
        "commondir",    "gitdir",    "worktrees",       "modules",     "branches",  "remotes",
        "FETCH_HEAD",   "ORIG_HEAD", "MERGE_HEAD",      "reftable",    "sequencer", "rebase-merge",
        "rebase-apply", "lfs",       "annex",           "config.lock", "HEAD.lock",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (((names[i][0] ^ name[0]) & ~0x20) == 0 && strlen(names[i]) == len &&
            strncasecmp(names[i], name, len) == 0) {
            return true;
        }
    }
    return false;
}

/* Looks only where the next name is one that git uses: what lies below other names is nothing to
 * git, and each look is a system call on the way of every write. */
static bool is_in_bare(const char *path)
{
    size_t len = strlen(path);
    for (size_t at = 0; at < len;) {
        size_t start = at + 1;
        size_t n = strcspn(path + start, "/");
        if (is_state_name(path + start, n) && is_git_dir(path, at)) {
            return true;
        }
        at = start + n;
    }
    return false;
}

/* Case is folded, as for ".git" itself. */
static bool is_within(const char *path, const char *dir)
{
    size_t len = dir != NULL ? strlen(dir) : 0;
    return len > 0 && strncasecmp(path, dir, len) == 0 &&
           (path[len] == '\0' || path[len] == '/' || dir[len - 1] == '/');
}

static bool is_hook_name(const char *name)
{
    static const char *const names[] = {
        "applypatch-msg",     "pre-applypatch",
        "post-applypatch",    "pre-commit",
        "prepare-commit-msg", "commit-msg",
        "post-commit",        "pre-rebase",
        "post-checkout",      "post-merge",
        "pre-merge-commit",   "pre-push",
        "pre-receive",        "update",
        "proc-receive",       "post-receive",
        "post-update",        "reference-transaction",
        "push-to-checkout",   "pre-auto-gc",
        "post-rewrite",       "sendemail-validate",
        "fsmonitor-watchman", "post-index-change",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcasecmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* A hooks folder that holds the whole work tree (core.hooksPath=.) guards the hooks' names only. */
static bool is_hook(const struct gitmeta_dirs *dirs, const char *path)
{
    if (!is_within(path, dirs->hooks)) {
        return false;
    }
    if (dirs->top == NULL || !gate_path_within(dirs->top, dirs->hooks)) {
        return true;
    }
    const char *rest = path + strlen(dirs->hooks);
    rest += *rest == '/' ? 1 : 0;
    return is_hook_name(rest);
}

bool gitmeta_holds(const struct gitmeta_dirs *dirs, const char *path)
{
    if (is_git_dir(path, strlen(path))) {
        return true;
    }
    if (dirs->top == NULL || strcasecmp(path, dirs->top) == 0 || !is_within(path, dirs->top)) {
        return false;
    }
    return (dirs->git_dir != NULL && is_within(dirs->git_dir, path)) ||
           (dirs->common != NULL && is_within(dirs->common, path)) ||
           (dirs->hooks != NULL && is_within(dirs->hooks, path));
}

bool gitmeta_touches(const struct gitmeta_dirs *dirs, const char *path)
{
    return gitmeta_is_git_name(path) || is_within(path, dirs->git_dir) ||
           is_within(path, dirs->common) || is_hook(dirs, path) || is_in_bare(path);
}
