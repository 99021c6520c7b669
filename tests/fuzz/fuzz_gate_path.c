/* fuzz_gate_path: a path and a deny list, separated by a NUL; entries by line feeds.
 *
 * Whatever the texts are, a resolved path is absolute, normalised and stays what it is when it is
 * resolved again; and the compiled list agrees with a plain one on entries that are simple.
 */
#include <ftw.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "gate/gitmeta.h"
#include "gate/path.h"
#include "gate/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_ENTRIES = 16 };

static char root[PATH_MAX];

static void demand(bool holds)
{
    if (!holds) {
        abort();
    }
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void remove_tree(void)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void link_at(const char *target, const char *name)
{
    char path[PATH_MAX];
    demand(snprintf(path, sizeof path, "%.*s/%s", PATH_MAX / 2, root, name) > 0);
    demand(symlink(target, path) == 0);
}

/* A small tree with every kind of link, made once. */
static void make_tree(void)
{
    char path[] = "/tmp/gate-fuzz-XXXXXX";
    char sub[PATH_MAX];
    demand(mkdtemp(path) != NULL && realpath(path, root) != NULL);
    atexit(remove_tree);
    demand(snprintf(sub, sizeof sub, "%.*s/a", PATH_MAX / 2, root) > 0 && mkdir(sub, 0700) == 0);
    demand(snprintf(sub, sizeof sub, "%.*s/a/b", PATH_MAX / 2, root) > 0 && mkdir(sub, 0700) == 0);
    link_at("a/b", "l");
    link_at("..", "a/up");
    link_at("loop", "loop");
    link_at("nowhere/../x", "dang");
    link_at(root, "abs");
    link_at("/proc/self/cwd", "magic");
}

static void check_normal(const char *path)
{
    demand(path[0] == '/' && strlen(path) < PATH_MAX);
    demand(strstr(path, "//") == NULL);
    for (const char *at = path; at != NULL; at = strchr(at + 1, '/')) {
        size_t len = strcspn(at + 1, "/");
        demand(!(len == 1 && at[1] == '.') && !(len == 2 && at[1] == '.' && at[2] == '.'));
        demand(len > 0 || path[1] == '\0');
    }
}

static void check_path(const struct gate_path *path)
{
    const char *const all[] = {path->kernel, path->lexical, path->spelled, path->leaf,
                               path->lexical_leaf};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i] != NULL) {
            check_normal(all[i]);
            gitmeta_is_git_name(all[i]);
        }
    }
    for (const char *hop = gate_path_hop(path, NULL); hop != NULL; hop = gate_path_hop(path, hop)) {
        check_normal(hop);
    }
    gh_auto(gate_path_fini) struct gate_path again;
    demand(gate_path_resolve(path->kernel, root, NULL, &again, NULL) == GH_OK);
    demand(strcmp(again.kernel, path->kernel) == 0 && again.lexical == NULL);
}

/* A slow matcher for names with stars only. */
static bool naive_star(const char *pattern, const char *name, size_t len)
{
    if (*pattern == '\0') {
        return len == 0;
    }
    if (*pattern == '*') {
        return naive_star(pattern + 1, name, len) ||
               (len > 0 && naive_star(pattern, name + 1, len - 1));
    }
    return len > 0 && *pattern == *name && naive_star(pattern + 1, name + 1, len - 1);
}

/* True when an entry is a name of letters, digits, dots and at most three stars. */
static bool is_simple(const char *entry)
{
    size_t n_stars = 0;
    for (const char *at = entry; *at != '\0'; at++) {
        n_stars += *at == '*' ? 1 : 0;
    }
    return n_stars <= 3 && strspn(entry, "abcdefghijklmnopqrstuvwxyz0123456789.*") == strlen(entry);
}

static bool naive_denies(char *const *entries, size_t n, const char *path)
{
    for (size_t i = 0; i < n; i++) {
        for (const char *at = strchr(path, '/'); at != NULL; at = strchr(at + 1, '/')) {
            size_t len = strcspn(at + 1, "/");
            if (len > 0 && naive_star(entries[i], at + 1, len)) {
                return true;
            }
        }
    }
    return false;
}

static void check_rules(char *const *entries, size_t n, const struct gate_path *path)
{
    struct gate_rules *rules = NULL;
    const char *const *list = (const char *const *)entries;
    if (gate_rules_extend(NULL, root, list, n, &rules, NULL) != GH_OK) {
        demand(rules == NULL);
        return;
    }
    bool all_simple = true;
    for (size_t i = 0; i < n; i++) {
        all_simple = all_simple && is_simple(entries[i]);
    }
    bool is_denied = gate_rules_denies(rules, path->kernel) != NULL;
    if (all_simple) {
        demand(is_denied == naive_denies(entries, n, path->kernel));
    }
    gate_rules_runs_later(rules, path->kernel);
    gate_rules_is_gate_config(rules, path->kernel);
    gate_rules_holds_gate_config(rules, path->kernel);
    gate_rules_free(rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (root[0] == '\0') {
        make_tree();
    }
    if (size > 8192) {
        return 0;
    }
    gh_autofree char *text = malloc(size + 2);
    demand(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = text[size + 1] = '\0';
    char *entries[MAX_ENTRIES];
    size_t n = 0;
    char *list = text + strlen(text) < text + size ? text + strlen(text) + 1 : text + size;
    for (char *save = NULL, *one = strtok_r(list, "\n", &save); one != NULL && n < MAX_ENTRIES;
         one = strtok_r(NULL, "\n", &save)) {
        entries[n++] = one;
    }
    gh_auto(gate_path_fini) struct gate_path path;
    if (gate_path_resolve(text, root, "/home/u", &path, NULL) == GH_OK) {
        check_path(&path);
        check_rules(entries, n, &path);
    } else {
        demand(path.kernel == NULL);
    }
    return 0;
}
