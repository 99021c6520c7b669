/* bench_gate: what judging a path costs, against the plain way of doing it.
 *
 * The plain way is realpath(3), then 40 strncmp prefixes and 40 fnmatch patterns. Both are run in
 * turns in the same minute, over the same paths and with as many deny entries; printed are the
 * medians and their ratio. Nothing is judged: the figures depend on the machine.
 */
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gate/facts.h"

enum { N_ROUNDS = 201, N_CALLS = 200, N_ENTRIES = 40 };

static char root[PATH_MAX];
static char prefixes[N_ENTRIES][64];
static char patterns[N_ENTRIES][32];

struct setup {
    struct gate_rules *rules;
    struct gitmeta_dirs git;
    struct gate_place place;
    char path[PATH_MAX];
    enum gate_action action;
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void make_entries(void)
{
    for (int i = 0; i < N_ENTRIES; i++) {
        snprintf(prefixes[i], sizeof prefixes[i], "/srv/private/area-%d/files", i);
        snprintf(patterns[i], sizeof patterns[i], "*.secret%d", i);
    }
}

/* root/a/b/c/d/e/f/file.c, eight components with the ones above it. */
static void make_tree(void)
{
    char path[] = "/tmp/gate-bench-XXXXXX";
    if (mkdtemp(path) == NULL || realpath(path, root) == NULL) {
        die("mkdtemp");
    }
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%.*s", PATH_MAX / 2, root);
    for (int name = 'a'; name <= 'e'; name++) {
        size_t len = strlen(dir);
        snprintf(dir + len, sizeof dir - len, "/%c", (char)name);
        if (mkdir(dir, 0700) != 0) {
            die("mkdir");
        }
    }
    size_t len = strlen(dir);
    snprintf(dir + len, sizeof dir - len, "/file.c");
    FILE *file = fopen(dir, "w");
    if (file == NULL || fclose(file) != 0) {
        die("fopen");
    }
}

static void remove_tree(void)
{
    static const char *const names[] = {
        "a/b/c/d/e/file.c", "a/b/c/d/e", "a/b/c/d", "a/b/c", "a/b", "a", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%.*s/%s", PATH_MAX / 2, root, names[i]);
        remove(path);
    }
}

static int naive(const char *path)
{
    char real[PATH_MAX];
    if (realpath(path, real) == NULL) {
        return -1;
    }
    int hits = 0;
    const char *slash = strrchr(real, '/');
    for (int i = 0; i < N_ENTRIES; i++) {
        hits += strncmp(real, prefixes[i], strlen(prefixes[i])) == 0;
        hits += fnmatch(patterns[i], slash + 1, 0) == 0;
    }
    return hits;
}

static int ours(const struct setup *setup)
{
    struct gate_target target = {.form = GATE_PATH, .path = setup->path};
    struct gate_facts facts;
    if (gate_facts_gather(&setup->place, setup->action, &target, &facts, NULL) != GH_OK) {
        return -1;
    }
    facts.kernel.mode = GATE_ACT;
    facts.kernel.is_known_tool = true;
    struct gate_verdict verdict = gate_decide(&facts.kernel);
    gate_facts_fini(&facts);
    return verdict.decision;
}

/* So that no call is taken for useless. */
static void use(int value)
{
    if (value < 0) {
        die("a path could not be judged");
    }
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

static void compare(struct setup *setup, const char *what, enum gate_action action)
{
    static double plain[N_ROUNDS];
    static double mine[N_ROUNDS];
    setup->action = action;
    for (int round = 0; round < N_ROUNDS; round++) {
        double start = now_ns();
        for (int i = 0; i < N_CALLS; i++) {
            use(naive(setup->path));
        }
        double middle = now_ns();
        for (int i = 0; i < N_CALLS; i++) {
            use(ours(setup));
        }
        plain[round] = (middle - start) / N_CALLS;
        mine[round] = (now_ns() - middle) / N_CALLS;
    }
    double a = median(plain, N_ROUNDS);
    double b = median(mine, N_ROUNDS);
    printf("%-6s realpath + lists %6.0f ns, gate %6.0f ns, ratio %.2f\n", what, a, b, b / a);
}

static void compare_rules(const struct setup *setup)
{
    static double mine[N_ROUNDS];
    for (int round = 0; round < N_ROUNDS; round++) {
        double start = now_ns();
        for (int i = 0; i < N_CALLS; i++) {
            use(gate_rules_denies(setup->rules, setup->path) != NULL);
        }
        mine[round] = (now_ns() - start) / N_CALLS;
    }
    printf("deny list alone %.0f ns\n", median(mine, N_ROUNDS));
}

int main(void)
{
    make_entries();
    make_tree();
    const char *entries[2 * N_ENTRIES + 1] = {NULL};
    for (int i = 0; i < N_ENTRIES; i++) {
        entries[2 * i] = prefixes[i];
        entries[2 * i + 1] = patterns[i];
    }
    struct gate_rules_input input = {.home = "/home/u",
                                     .config_dir = "/home/u/.config/gatehouse",
                                     .state_dir = "/home/u/.local/state/gatehouse",
                                     .entries = entries};
    struct setup setup = {0};
    if (gate_rules_new(&input, &setup.rules, NULL) != GH_OK ||
        gitmeta_find(root, NULL, &setup.git, NULL) != GH_OK) {
        die("rules");
    }
    setup.place = (struct gate_place){setup.rules, &setup.git, root, "/home/u", NULL};
    snprintf(setup.path, sizeof setup.path, "%.*s/a/b/c/d/e/file.c", PATH_MAX / 2, root);
    compare(&setup, "read", GATE_READ);
    compare(&setup, "write", GATE_WRITE);
    compare_rules(&setup);
    gate_rules_free(setup.rules);
    gitmeta_dirs_fini(&setup.git);
    remove_tree();
    return 0;
}
