/* bench_spawn: what a confined spawn of /bin/true costs, against posix_spawn in the same run.
 *
 * Spawn to the end of the process, in rotating order; the ratio is taken pair by pair. "whole" is
 * everything: plan, spawn, wait, free; "spawn" is from the spawn to the answer. Nothing is judged:
 * figures depend on the machine.
 *
 *   bench_spawn [ROUNDS [EXTRA_MB]]
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "confine/util.h"

enum { MOST_ROUNDS = 5000 };

struct way {
    const char *name;
    enum confine_namespaces namespaces;
    int masks; /* -1: posix_spawn */
    const char *dir;
    double ms[MOST_ROUNDS], spawn_ms[MOST_ROUNDS];
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_spawn: %s\n", what);
    exit(1);
}

static void spawn_plain(void)
{
    char name[] = "/bin/true", *argv[] = {name, NULL};
    pid_t pid;
    int status;
    if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0) {
        die("posix_spawn");
    }
}

static void spawn_confined(struct confine *engine, struct way *way, int round, const char *tmp)
{
    static const char *const argv[] = {"/bin/true", NULL};
    static const struct confine_name names[] = {{".env", false}, {"*.pem", true}, {"*.key", true}};
    const char *const roots[] = {way->dir, NULL};
    struct confine_spec spec;
    struct confine_plan *plan;
    struct confine_child child;
    struct confine_result result;
    struct confine_err err;
    confine_spec_init(&spec);
    spec.argv = argv;
    spec.cwd = way->dir;
    spec.write_roots = roots;
    spec.tmp_dir = tmp;
    spec.deny_names = names;
    spec.n_deny_names = 3;
    spec.namespaces = way->namespaces;
    double start = now_ms();
    if (confine_plan_new(engine, &spec, &plan, &err) != CONFINE_OK) {
        die(err.detail);
    }
    double planned = now_ms();
    if (confine_spawn(plan, &child, &err) != CONFINE_OK ||
        confine_wait(&child, -1, &result, &err) != CONFINE_OK) {
        die(err.detail);
    }
    double done = now_ms();
    confine_child_fini(&child);
    confine_plan_free(plan);
    if (result.status != 0) {
        die("the command failed");
    }
    way->spawn_ms[round] = done - planned;
    way->ms[round] = now_ms() - start;
}

static char *make_tree(const char *above, int masks)
{
    char *dir = util_format("%s/tree-%d", above, masks);
    mkdir(dir, 0700);
    for (int i = 0; i < (masks > 100 ? masks : 100); i++) {
        confine_autofree char *sub = util_format("%s/d%d", dir, i % 25);
        mkdir(sub, 0700);
        confine_autofree char *file =
            i < masks ? util_format("%s/%d.key", sub, i) : util_format("%s/%d.txt", sub, i);
        int fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        close(fd);
    }
    return dir;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, const double *base, int n)
{
    double *sorted = util_alloc((size_t)n, sizeof *sorted);
    for (int i = 0; i < n; i++) {
        sorted[i] = base == NULL ? values[i] : values[i] / base[i];
    }
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    double middle = sorted[n / 2];
    free(sorted);
    return middle;
}

static void print(const struct way *ways, size_t n_ways, int rounds)
{
    printf("%-36s %9s %9s %9s %9s\n", "way", "whole ms", "x plain", "spawn ms", "x plain");
    for (size_t w = 0; w < n_ways; w++) {
        printf("%-36s %9.3f %9.2f %9.3f %9.2f\n", ways[w].name, median(ways[w].ms, NULL, rounds),
               median(ways[w].ms, ways[0].ms, rounds), median(ways[w].spawn_ms, NULL, rounds),
               median(ways[w].spawn_ms, ways[0].spawn_ms, rounds));
    }
}

int main(int argc, char **argv)
{
    static struct way ways[] = {
        {.name = "posix_spawn", .masks = -1},
        {.name = "no namespaces", .namespaces = CONFINE_NS_OFF, .masks = 0},
        {.name = "private root, PID namespace", .namespaces = CONFINE_NS_REQUIRE, .masks = 0},
        {.name = "the same, 10 masks", .namespaces = CONFINE_NS_REQUIRE, .masks = 10},
        {.name = "the same, 25 masks", .namespaces = CONFINE_NS_REQUIRE, .masks = 25},
        {.name = "the same, 100 masks", .namespaces = CONFINE_NS_REQUIRE, .masks = 100},
        {.name = "carved, 10 denied", .namespaces = CONFINE_NS_OFF, .masks = 10},
    };
    enum { N_WAYS = sizeof ways / sizeof *ways };
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    size_t extra = argc > 2 ? (size_t)atoi(argv[2]) << 20 : 0;
    rounds = rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    char *memory = util_alloc(extra, 1);
    memset(memory, 1, extra);
    struct confine *engine;
    struct confine_err err;
    char *tmp, above[] = "/var/tmp/bench-spawn-XXXXXX";
    if (confine_new(&engine, &err) != CONFINE_OK || confine_tmp_new(&tmp, &err) != CONFINE_OK ||
        mkdtemp(above) == NULL) {
        die(err.detail);
    }
    for (size_t w = 0; w < N_WAYS; w++) {
        ways[w].dir = make_tree(above, ways[w].masks);
    }
    struct timespec settle = {.tv_sec = 4}; /* a tree younger than two seconds is not cached */
    nanosleep(&settle, NULL);
    for (int round = -2; round < rounds; round++) {
        int at = round < 0 ? 0 : round;
        spawn_plain();
        for (size_t k = 0; k < N_WAYS; k++) {
            struct way *way = &ways[(k + (size_t)at) % N_WAYS];
            if (way->masks >= 0) {
                if (way->namespaces == CONFINE_NS_OFF || confine_kernel(engine)->namespaces) {
                    spawn_confined(engine, way, at, tmp);
                }
                continue;
            }
            double start = now_ms();
            spawn_plain();
            way->ms[at] = way->spawn_ms[at] = now_ms() - start;
        }
    }
    printf("%d rounds, %zu MB more in this process\n", rounds, extra >> 20);
    print(ways, N_WAYS, rounds);
    confine_tmp_remove(tmp);
    confine_tmp_remove(above);
    confine_free(engine);
    free(memory);
    return 0;
}
