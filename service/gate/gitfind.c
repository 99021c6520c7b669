/* gitfind: where a repository keeps its state, read from its files and git's configuration. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fs.h"
#include "gate/gitconf.h"
#include "gate/gitmeta.h"
#include "gate/gitmeta_impl.h"
#include "gate/path.h"

enum { MAX_POINTER_BYTES = 8192 };

void gitmeta_dirs_fini(struct gitmeta_dirs *dirs)
{
    free(dirs->top);
    free(dirs->git_dir);
    free(dirs->common);
    seen_names_fini(&dirs->hooks);
    seen_names_fini(&dirs->files);
    seen_stamps_fini(&dirs->stamps);
    *dirs = (struct gitmeta_dirs){0};
}

bool gitmeta_is_fresh(const struct gitmeta_dirs *dirs)
{
    return seen_stamps_are_fresh(&dirs->stamps);
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

/* Remember how dir/name is, before it is read. */
static enum gh_code stamp(struct gitmeta_dirs *dirs, const char *dir, const char *name,
                          struct gh_err *err)
{
    gh_autofree char *path = join(dir, name);
    return path != NULL && seen_stamps_add(&dirs->stamps, path) ? GH_OK : no_memory(err);
}

static bool is_git_dir(const char *dir)
{
    return gitmeta_is_complete(dir, strlen(dir));
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
    if (dot_git == NULL || !seen_stamps_add(&ret->stamps, dot_git)) {
        return no_memory(err);
    }
    gh_autofree char *real = realpath(dot_git, NULL);
    struct stat st;
    if (real == NULL || stat(real, &st) != 0) {
        return GH_OK;
    }
    if (!S_ISDIR(st.st_mode)) {
        return read_pointer(dir, real, "gitdir:", &ret->git_dir, err);
    }
    if (is_git_dir(real)) {
        ret->git_dir = gh_steal(&real);
        return GH_OK;
    }
    static const char *const parts[] = {"HEAD", "objects", "refs", "commondir"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) { /* it may become one */
        GH_TRY(stamp(ret, real, parts[i], err));
    }
    return GH_OK;
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
        if (is_git_dir(dir)) {
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
    GH_TRY(stamp(ret, ret->git_dir, "commondir", err));
    GH_TRY(read_pointer(ret->git_dir, "commondir", "", &ret->common, err));
    if (ret->common == NULL) {
        ret->common = strdup(ret->git_dir);
    }
    return ret->common != NULL ? GH_OK : no_memory(err);
}

/* Add a path in each of its spellings. `base` resolves relative ones; when it is NULL they, and
 * what cannot be resolved, mean nothing. */
static enum gh_code add_path(struct seen_names *names, const char *text, const char *base,
                             const char *home, struct gh_err *err)
{
    gh_auto(gate_path_fini) struct gate_path path = {0};
    bool is_free = text[0] == '/' || text[0] == '~';
    if (!is_free && base == NULL) {
        return GH_OK;
    }
    enum gh_code code = gate_path_resolve(text, base != NULL ? base : "/", home, &path, err);
    if (code != GH_OK) {
        return code == GH_INVALID ? GH_OK : code;
    }
    const char *const at[] = {path.kernel, path.lexical, path.spelled, path.leaf,
                              path.lexical_leaf};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        if (at[i] != NULL && !seen_names_add(names, at[i])) {
            return no_memory(err);
        }
    }
    return GH_OK;
}

static enum gh_code read_config(const char *base, const char *name, const char *home,
                                struct gitconf *conf, struct gh_err *err)
{
    if (base == NULL || *base != '/') {
        return GH_OK;
    }
    gh_autofree char *file = join(base, name);
    return file != NULL ? gitconf_read(file, home, conf, err) : no_memory(err);
}

/* All that git may read for this repository, and for any other of this user. */
static enum gh_code read_configs(const struct gitmeta_dirs *dirs, const char *home,
                                 struct gitconf *conf, struct gh_err *err)
{
    const char *global = getenv("GIT_CONFIG_GLOBAL");
    GH_TRY(read_config("/etc", "gitconfig", home, conf, err));
    GH_TRY(read_config(getenv("XDG_CONFIG_HOME"), "git/config", home, conf, err));
    GH_TRY(read_config(home, ".config/git/config", home, conf, err));
    GH_TRY(read_config(home, ".gitconfig", home, conf, err));
    GH_TRY(read_config(global, global, home, conf, err));
    GH_TRY(read_config(dirs->common, "config", home, conf, err));
    return read_config(dirs->git_dir, "config.worktree", home, conf, err);
}

/* Where the folders that the values name lie. A link on the way may lead elsewhere later, so they
 * are stamped as well. */
static enum gh_code take_hooks(const struct gitconf *conf, const char *home,
                               struct gitmeta_dirs *ret, struct gh_err *err)
{
    const char *base = ret->top != NULL ? ret->top : ret->git_dir;
    for (size_t i = 0; i < conf->hooks.n; i++) {
        const char *text = conf->hooks.at[i];
        bool is_elsewhere = *text == '%' || (*text == '~' && text[1] != '\0' && text[1] != '/');
        ret->is_cut = ret->is_cut || is_elsewhere; /* another home, or where git is installed */
        if (*text != '\0' && !is_elsewhere) {
            GH_TRY(add_path(&ret->hooks, text, base, home, err));
        }
    }
    for (size_t i = 0; i < ret->hooks.n; i++) {
        GH_TRY(stamp(ret, "", ret->hooks.at[i], err));
    }
    return GH_OK;
}

static enum gh_code take_config(struct gitconf *conf, const char *home, struct gitmeta_dirs *ret,
                                struct gh_err *err)
{
    GH_TRY(read_configs(ret, home, conf, err));
    ret->is_cut = conf->is_cut;
    for (size_t i = 0; i < conf->files.n; i++) {
        GH_TRY(add_path(&ret->files, conf->files.at[i], NULL, NULL, err));
    }
    for (size_t i = 0; i < conf->stamps.n; i++) {
        if (!seen_stamps_move(&ret->stamps, &conf->stamps.at[i])) {
            return no_memory(err);
        }
    }
    return take_hooks(conf, home, ret, err);
}

enum gh_code gitmeta_find(const char *working_dir, const char *home, struct gitmeta_dirs *ret,
                          struct gh_err *err)
{
    gh_auto(gitconf_fini) struct gitconf conf = {0};
    *ret = (struct gitmeta_dirs){0};
    enum gh_code code = find_repository(working_dir, ret, err);
    if (code == GH_OK) {
        code = take_config(&conf, home, ret, err);
    }
    if (code != GH_OK) {
        gitmeta_dirs_fini(ret);
    }
    return code;
}
