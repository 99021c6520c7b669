#include "gate/gitmeta.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "gate/gitmeta_impl.h"
#include "gate/path.h"

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

/* What git looks for in a folder to take it for a repository. */
enum { PART_HEAD = 1, PART_OBJECTS = 2, PART_REFS = 4, PART_CONFIG = 8, PART_COMMONDIR = 16 };

struct part {
    const char *name;
    unsigned bit;
    bool is_file;
};

static const struct part parts[] = {
    {"HEAD", PART_HEAD, true},     {"objects", PART_OBJECTS, false},    {"refs", PART_REFS, false},
    {"config", PART_CONFIG, true}, {"commondir", PART_COMMONDIR, true},
};
enum { N_PARTS = sizeof parts / sizeof *parts };

/* A link that leads nowhere counts: what it names may come. */
static bool is_there(const char *dir, size_t dir_len, const struct part *part)
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%.*s/%s", (int)dir_len, dir, part->name);
    if (n < 0 || (size_t)n >= sizeof path) {
        return false;
    }
    if (stat(path, &st) != 0) {
        return lstat(path, &st) == 0;
    }
    return S_ISDIR(st.st_mode) != part->is_file;
}

static unsigned parts_in(const char *dir, size_t len)
{
    unsigned found = 0;
    for (size_t i = 0; i < N_PARTS; i++) {
        found |= is_there(dir, len, &parts[i]) ? parts[i].bit : 0;
    }
    return found;
}

static bool is_complete(unsigned found)
{
    unsigned need = PART_OBJECTS | PART_REFS;
    return (found & PART_HEAD) != 0 && ((found & need) == need || (found & PART_COMMONDIR) != 0);
}

bool gitmeta_is_complete(const char *dir, size_t len)
{
    return is_complete(parts_in(dir, len));
}

static const struct part *find_part(const char *name, size_t len)
{
    for (size_t i = 0; i < N_PARTS; i++) {
        if (strlen(parts[i].name) == len && strncasecmp(parts[i].name, name, len) == 0) {
            return &parts[i];
        }
    }
    return NULL;
}

/* Is this state name in the folder dir[0..len) read by git, or would it be with what is there? Two
 * other parts are enough: an agent that brings them one by one is stopped before the last. */
static bool is_state(const char *dir, size_t len, const char *name, size_t name_len)
{
    unsigned found = parts_in(dir, len);
    const struct part *own = find_part(name, name_len);
    bool is_last = name[name_len] == '\0';
    if (is_complete(found)) {
        return true;
    }
    if (own != NULL && own->is_file && !is_last) {
        return false; /* a folder named "config" is nothing to git */
    }
    unsigned bit = own != NULL ? own->bit : 0;
    unsigned others = found & (PART_HEAD | PART_OBJECTS | PART_REFS | PART_CONFIG) & ~bit;
    return __builtin_popcount(others) >= 2 || is_complete(found | bit);
}

/* Looks only where the next name is one that git uses: what lies below other names is nothing to
 * git, and each look is a system call on the way of every write. */
static bool is_in_bare(const char *path)
{
    size_t len = strlen(path);
    for (size_t at = 0; at < len;) {
        size_t start = at + 1;
        size_t n = strcspn(path + start, "/");
        if (is_state_name(path + start, n) && is_state(path, at, path + start, n)) {
            return true;
        }
        at = start + n;
    }
    return false;
}

bool gitmeta_is_head(const char *path)
{
    const char *last = strrchr(path, '/');
    return strcmp(last != NULL ? last + 1 : path, "HEAD") == 0;
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
static bool is_in_hooks(const struct gitmeta_dirs *dirs, const char *hooks, const char *path)
{
    if (!is_within(path, hooks)) {
        return false;
    }
    if (dirs->top == NULL || !gate_path_within(dirs->top, hooks)) {
        return true;
    }
    const char *rest = path + strlen(hooks);
    rest += *rest == '/' ? 1 : 0;
    return is_hook_name(rest);
}

static bool is_named_like_hook(const char *path)
{
    const char *last = strrchr(path, '/');
    return last != NULL && is_hook_name(last + 1);
}

static bool is_hook(const struct gitmeta_dirs *dirs, const char *path)
{
    for (size_t i = 0; i < dirs->hooks.n; i++) {
        if (is_in_hooks(dirs, dirs->hooks.at[i], path)) {
            return true;
        }
    }
    return dirs->is_cut && is_named_like_hook(path);
}

static bool is_at_one(const struct seen_names *names, const char *path)
{
    for (size_t i = 0; i < names->n; i++) {
        if (is_within(path, names->at[i])) {
            return true;
        }
    }
    return false;
}

static bool holds_one(const struct seen_names *names, const char *path)
{
    for (size_t i = 0; i < names->n; i++) {
        if (is_within(names->at[i], path)) {
            return true;
        }
    }
    return false;
}

bool gitmeta_holds(const struct gitmeta_dirs *dirs, const char *path)
{
    return gitmeta_is_complete(path, strlen(path)) || holds_one(&dirs->hooks, path) ||
           holds_one(&dirs->files, path) ||
           (dirs->git_dir != NULL && is_within(dirs->git_dir, path)) ||
           (dirs->common != NULL && is_within(dirs->common, path));
}

bool gitmeta_touches(const struct gitmeta_dirs *dirs, const char *path)
{
    return gitmeta_is_git_name(path) || is_within(path, dirs->git_dir) ||
           is_within(path, dirs->common) || is_at_one(&dirs->files, path) || is_hook(dirs, path) ||
           is_in_bare(path);
}

/* The hooks of the repository that has its work tree in `dir`. */
static bool is_hook_of(const char *dir, const char *path, const char *home, bool is_whole)
{
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs found = {0};
    if (gitmeta_find(dir, home, &found, NULL) != GH_OK) {
        return true; /* what cannot be looked at cannot be cleared */
    }
    return is_hook(&found, path) || (is_whole && holds_one(&found.hooks, path));
}

bool gitmeta_is_nested_hook(const struct gitmeta_dirs *dirs, const char *path, const char *home,
                            bool is_whole)
{
    char at[PATH_MAX];
    struct stat st;
    if ((!is_whole && !is_named_like_hook(path)) || strlen(path) >= sizeof at) {
        return false;
    }
    strcpy(at, path);
    for (char *slash = strrchr(at, '/'); slash != NULL && slash != at; slash = strrchr(at, '/')) {
        char dot_git[PATH_MAX + 8];
        *slash = '\0';
        if (dirs->top != NULL && strcmp(at, dirs->top) == 0) {
            break; /* the session's own: already known, with all that lies above */
        }
        snprintf(dot_git, sizeof dot_git, "%s/.git", at);
        if (lstat(dot_git, &st) == 0 && is_hook_of(at, path, home, is_whole)) {
            return true;
        }
    }
    return false;
}
