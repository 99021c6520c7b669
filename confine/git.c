#include "git.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MOST_TEXT = 1 << 20, MOST_INDEX = 256 << 20 };

/* One-line file: its text less the prefix and the newline, relative to `base`; or NULL. */
static char *read_pointer(const char *path, const char *prefix, const char *base)
{
    size_t len = 0, n = strlen(prefix);
    confine_autofree char *text = util_slurp(path, MOST_TEXT, &len);
    if (text == NULL || strncmp(text, prefix, n) != 0) {
        return NULL;
    }
    text[n + strcspn(text + n, "\r\n")] = '\0';
    confine_autofree char *joined =
        text[n] == '/' ? util_dup(text + n) : util_format("%s/%s", base, text + n);
    return realpath(joined, NULL);
}

void git_find(struct git_place *git, const char *path)
{
    *git = (struct git_place){0};
    confine_autofree char *at = util_dup(path);
    for (;;) {
        confine_autofree char *dot = util_format("%s/.git", strcmp(at, "/") == 0 ? "" : at);
        struct stat st;
        if (lstat(dot, &st) == 0) {
            git->linked = S_ISREG(st.st_mode);
            git->dir = git->linked ? read_pointer(dot, "gitdir: ", at) : realpath(dot, NULL);
            git->top = git->dir == NULL ? NULL : util_dup(at);
            break;
        }
        char *cut = strrchr(at, '/');
        if (cut == NULL || at[1] == '\0') {
            break;
        }
        cut[cut == at] = '\0';
    }
    if (git->dir != NULL) {
        confine_autofree char *file = util_format("%s/commondir", git->dir);
        git->common = read_pointer(file, "", git->dir);
        if (git->common == NULL) {
            git->common = util_dup(git->dir);
        }
    }
}

void git_fini(struct git_place *git)
{
    free(git->top);
    free(git->dir);
    free(git->common);
}

/* ---- guards ---- */

static void guard(struct util_strs *guards, const char *folder, const char *name)
{
    confine_autofree char *path =
        name[0] == '/' ? util_dup(name) : util_format("%s/%s", folder, name);
    struct stat st;
    if (lstat(path, &st) != 0 || S_ISLNK(st.st_mode)) {
        return;
    }
    for (size_t i = 0; i < guards->n; i++) {
        if (strcmp(guards->all[i], path) == 0) {
            return;
        }
    }
    char *real = util_resolve_parent(path);
    util_strs_take(guards, real);
}

/* "path = X" below [include...] and "hooksPath = X": X must be as safe as the configuration. */
static void guard_named(struct util_strs *guards, const char *folder, char *line, bool in_include)
{
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        return;
    }
    *equals = '\0';
    char *key = line + strspn(line, " \t");
    key[strcspn(key, " \t")] = '\0';
    char *value = equals + 1 + strspn(equals + 1, " \t\"");
    value[strcspn(value, "\"\r\n;#")] = '\0';
    for (size_t n = strlen(value); n > 0 && isspace((unsigned char)value[n - 1]); n--) {
        value[n - 1] = '\0';
    }
    bool names_file = (in_include && strcasecmp(key, "path") == 0) ||
                      strcasecmp(key, "hookspath") == 0 || strcasecmp(key, "fsmonitor") == 0;
    if (names_file && value[0] != '\0' && value[0] != '~') {
        guard(guards, folder, value);
        if (strcasecmp(key, "hookspath") == 0 && value[0] != '/') {
            confine_autofree char *top = util_format("%s/..", folder);
            guard(guards, top, value); /* hooksPath is relative to the working tree */
        }
    }
}

static void guard_config(struct util_strs *guards, const char *folder)
{
    confine_autofree char *path = util_format("%s/config", folder);
    size_t len = 0;
    confine_autofree char *text = util_slurp(path, MOST_TEXT, &len);
    bool in_include = false;
    char *rest = NULL;
    for (char *line = text == NULL ? NULL : strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        const char *word = line + strspn(line, " \t");
        if (*word == '[') {
            in_include = strncasecmp(word, "[include", 8) == 0;
        } else {
            guard_named(guards, folder, line, in_include);
        }
    }
}

static void guard_git_dir(struct util_strs *guards, const char *folder)
{
    static const char *const names[] = {"config", "config.worktree", "hooks"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        guard(guards, folder, names[i]);
    }
    guard_config(guards, folder);
}

static void guard_modules(struct util_strs *guards, const char *common)
{
    confine_autofree char *path = util_format("%s/modules", common);
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            confine_autofree char *module = util_format("%s/%s", path, entry->d_name);
            guard_git_dir(guards, module);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

void git_guards(const struct git_place *git, const char *cwd, struct util_strs *guards)
{
    static const char *const settings[] = {
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/hooks",
        ".claude/agents",
        ".claude/skills",
        ".mcp.json",
        ".codex/config.toml",
        ".codex/hooks.json",
        ".gemini/settings.json",
        ".gemini/policies",
        ".qwen/settings.json",
        ".github/hooks",
        ".github/copilot",
        ".cursor/hooks.json",
        ".cursor/mcp.json",
        ".clinerules/hooks",
        "crush.json",
        ".crush.json",
        "opencode.json",
        "opencode.jsonc",
        ".opencode",
        ".agents/plugins",
        ".vscode/settings.json",
        ".amp/settings.json",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        guard(guards, cwd, settings[i]);
    }
    if (git->top == NULL) {
        return;
    }
    guard_git_dir(guards, git->common);
    guard_modules(guards, git->common);
    if (git->linked) {
        guard_git_dir(guards, git->dir);
        guard(guards, git->dir, "commondir");
        guard(guards, git->dir, "gitdir");
        guard(guards, git->top, ".git");
    }
}

/* ---- the index ---- */

/* Walks the entries of an index of version 2 to 4; anything odd ends the walk. */
struct index_walk {
    const unsigned char *at, *end;
    uint32_t version, left;
    char path[4096];
};

static uint32_t be32(const unsigned char *p)
{
    uint32_t n;
    memcpy(&n, p, sizeof n);
    return ntohl(n);
}

/* Version 4: drop n bytes of the last path, add the text. */
static bool unpack(struct index_walk *w, const unsigned char *p)
{
    size_t cut = *p & 127u, old = strlen(w->path);
    while ((*p & 128u) != 0 && p + 1 < w->end) {
        cut = ((cut + 1) << 7) | (*++p & 127u);
    }
    p++;
    const unsigned char *zero = p < w->end ? memchr(p, 0, (size_t)(w->end - p)) : NULL;
    if (zero == NULL || cut > old || old - cut + (size_t)(zero - p) >= sizeof w->path) {
        return false;
    }
    memcpy(w->path + (old - cut), p, (size_t)(zero - p) + 1);
    w->at = zero + 1;
    return true;
}

static bool next_entry(struct index_walk *w)
{
    enum { FIXED = 62 };
    if (w->left == 0 || w->end - w->at <= FIXED) {
        return false;
    }
    w->left--;
    const unsigned char *start = w->at, *p = start + FIXED;
    if ((start[60] & 0x40) != 0) {
        p += 2;
    }
    if (w->version == 4) {
        return unpack(w, p);
    }
    const unsigned char *zero = memchr(p, 0, (size_t)(w->end - p));
    if (zero == NULL || (size_t)(zero - p) >= sizeof w->path) {
        return false;
    }
    memcpy(w->path, p, (size_t)(zero - p) + 1);
    w->at = start + (((size_t)(zero - start) + 8) & ~(size_t)7);
    return w->at <= w->end;
}

static void mark(struct trees *trees, const size_t *inside, size_t n, size_t skip, const char *path)
{
    for (size_t i = 0; i < n; i++) {
        struct trees_denied *one = &trees->denied[inside[i]];
        if (one->path[skip] == path[0] && util_below(path, one->path + skip)) {
            one->tracked = true;
        }
    }
}

void git_mark_tracked(const struct git_place *git, struct trees *trees)
{
    if (git->top == NULL || !trees_denies_below(trees, git->top)) {
        return;
    }
    confine_autofree size_t *inside = util_alloc(trees->n_denied, sizeof *inside);
    size_t n = 0, len = 0, skip = strlen(git->top) + (git->top[1] != '\0');
    for (size_t i = 0; i < trees->n_denied; i++) {
        if (trees->denied[i].exists && util_below(trees->denied[i].path, git->top)) {
            inside[n++] = i;
        }
    }
    confine_autofree char *file = util_format("%s/index", git->dir);
    confine_autofree char *text = n == 0 ? NULL : util_slurp(file, MOST_INDEX, &len);
    if (text == NULL || len < 12 || memcmp(text, "DIRC", 4) != 0) {
        return;
    }
    const unsigned char *bytes = (const unsigned char *)text;
    struct index_walk w = {
        .at = bytes + 12, .end = bytes + len, .version = be32(bytes + 4), .left = be32(bytes + 8)};
    while (w.version >= 2 && w.version <= 4 && next_entry(&w)) {
        mark(trees, inside, n, skip, w.path);
    }
}
