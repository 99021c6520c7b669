/* The library against the real kernel, in the modes that this kernel and user allow. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "confine/git.h"
#include "confine/scan.h"

static char base[] = "/var/tmp/confine-run-XXXXXX";
static struct confine *engine;

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static char *at(const char *name)
{
    return util_format("%s/%s", base, name);
}

struct run {
    struct confine_spec spec;
    const char *argv[4], *roots[2];
    struct confine_result result;
    struct confine_report report;
    struct confine_err err;
    char out[4096];
};

static void prepare(struct run *run, const char *script, bool namespaces)
{
    *run = (struct run){.argv = {"/bin/sh", "-c", script}, .roots = {base}};
    confine_spec_init(&run->spec);
    run->spec.argv = run->argv;
    run->spec.cwd = base;
    run->spec.write_roots = run->roots;
    run->spec.namespaces = namespaces ? CONFINE_NS_REQUIRE : CONFINE_NS_OFF;
}

/* Run it; what it wrote on stdout is in run->out. */
static enum confine_code execute(struct run *run)
{
    struct confine_plan *plan = NULL;
    struct confine_child child;
    int out[2];
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    run->spec.stdio[1] = out[1];
    enum confine_code code = confine_plan_new(engine, &run->spec, &plan, &run->err);
    if (code == CONFINE_OK) {
        code = confine_spawn(plan, &child, &run->err);
    }
    confine_plan_free(plan); /* may be at once */
    close(out[1]);
    size_t n = 0;
    ssize_t got;
    while (code == CONFINE_OK && (got = read(out[0], run->out + n, sizeof run->out - 1 - n)) > 0) {
        n += (size_t)got;
    }
    close(out[0]);
    if (code == CONFINE_OK) {
        code = confine_wait(&child, -1, &run->result, &run->err);
        run->report = child.report;
        confine_child_fini(&child);
    }
    return code;
}

/* 0: without namespaces, 1: with them, where the kernel lets us. */
static bool skip(int mode)
{
    if (mode == 1 && !confine_kernel(engine)->namespaces) {
        printf("skipped: no namespaces here: %s\n", confine_kernel(engine)->why);
        return true;
    }
    return false;
}

START_TEST(result_and_report)
{
    if (skip(_i)) {
        return;
    }
    struct run run;
    prepare(&run, "echo out; exit 7", _i == 1);
    ck_assert_int_eq(execute(&run), CONFINE_OK);
    ck_assert_str_eq(run.out, "out\n");
    ck_assert(WIFEXITED(run.result.status) && WEXITSTATUS(run.result.status) == 7);
    ck_assert(!run.result.killed && run.result.max_rss_kib > 0);
    ck_assert(run.report.seccomp && run.report.namespaces == (_i == 1));
    ck_assert_int_eq(run.report.unix_sockets, _i == 1);
    ck_assert_int_ne(run.report.enforcement, CONFINE_UNENFORCED);
    ck_assert_int_eq(run.report.enforcement == CONFINE_FULL, run.report.n_lost == 0);
}
END_TEST

START_TEST(signals_of_the_caller_do_not_leak)
{
    if (skip(_i)) {
        return;
    }
    struct run run;
    struct sigaction old;
    ck_assert_int_eq(sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, &old), 0);
    prepare(&run, "grep -E 'SigIgn|SigBlk' /proc/self/status; umask", _i == 1);
    mode_t mask = umask(027);
    ck_assert_int_eq(execute(&run), CONFINE_OK);
    umask(mask);
    sigaction(SIGPIPE, &old, NULL);
    ck_assert_str_eq(run.out, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n0027\n");
}
END_TEST

/* Scenario 90, B136: credential files with an empty deny list; neighbours readable. */
START_TEST(credentials)
{
    if (skip(_i)) {
        return;
    }
    struct run run;
    confine_autofree char *home = at("home");
    static const char *const folders[] = {"home", "home/.cargo", "home/.config",
                                          "home/.config/git"};
    static const char *const files[] = {"home/.cargo/credentials.toml", "home/.cargo/config.toml",
                                        "home/.config/git/credentials", "home/.config/git/config"};
    for (size_t i = 0; i < 4; i++) {
        confine_autofree char *folder = at(folders[i]);
        mkdir(folder, 0700);
    }
    for (size_t i = 0; i < 4; i++) {
        confine_autofree char *file = at(files[i]);
        write_file(file, files[i] + 5);
    }
    confine_autofree char *work = at("home-work");
    mkdir(work, 0700);
    prepare(&run, "cat $HOME/.cargo/* $HOME/.config/git/* 2>/dev/null", _i == 1);
    run.spec.home = home;
    run.spec.cwd = run.roots[0] = work;
    ck_assert_int_eq(execute(&run), CONFINE_OK);
    ck_assert_str_eq(run.out, ".cargo/config.toml.config/git/config");
}
END_TEST

/* 5.2.8: a toolchain folder of a home inside the working directory may be a planted link. */
START_TEST(planted_home_link)
{
    if (skip(_i)) {
        return;
    }
    struct run run;
    confine_autofree char *home = at("planted");
    confine_autofree char *link = at("planted/.cargo");
    mkdir(home, 0700);
    unlink(link);
    ck_assert_int_eq(symlink("/boot", link), 0);
    prepare(&run, "ls $HOME/.cargo/ && echo open", _i == 1);
    run.spec.home = home;
    ck_assert_int_eq(execute(&run), CONFINE_OK);
    ck_assert_ptr_null(strstr(run.out, "open"));
}
END_TEST

START_TEST(kill_and_timeout)
{
    if (skip(_i)) {
        return;
    }
    struct run run;
    struct confine_plan *plan;
    struct confine_child child;
    prepare(&run, "sleep 60 & sleep 60", _i == 1);
    ck_assert_int_eq(confine_plan_new(engine, &run.spec, &plan, &run.err), CONFINE_OK);
    ck_assert_int_eq(confine_spawn(plan, &child, &run.err), CONFINE_OK);
    struct confine_child second;
    ck_assert_int_eq(confine_spawn(plan, &second, &run.err), CONFINE_E_ENFORCE);
    confine_plan_free(plan);
    ck_assert_int_eq(confine_wait(&child, 50, &run.result, &run.err), CONFINE_E_TIMEOUT);
    /* Scenario 100: no signal 0, none out of range; killing twice is no error. */
    ck_assert_int_eq(confine_signal(&child, 0), -1);
    ck_assert_int_eq(confine_signal(&child, 65), -1);
    confine_kill(&child);
    confine_kill(&child);
    ck_assert_int_eq(confine_wait(&child, -1, &run.result, &run.err), CONFINE_OK);
    ck_assert(run.result.killed && WIFSIGNALED(run.result.status));
    confine_kill(&child); /* what is gone is no error */
    ck_assert_int_eq(confine_signal(&child, SIGTERM), -1);
    ck_assert_int_eq(confine_wait(&child, 0, &run.result, &run.err), CONFINE_E_SYSTEM);
    confine_child_fini(&child);
    confine_child_fini(&child);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1);
    ck_assert_int_eq(errno, ECHILD);
}
END_TEST

START_TEST(asked_signal)
{
    if (skip(_i)) {
        return;
    }
    struct run run;
    struct confine_plan *plan;
    struct confine_child child;
    prepare(&run, "trap 'exit 9' TERM; echo x > ready; while :; do sleep 0.02; done", _i == 1);
    confine_autofree char *ready = at("ready");
    unlink(ready);
    ck_assert_int_eq(confine_plan_new(engine, &run.spec, &plan, &run.err), CONFINE_OK);
    ck_assert_int_eq(confine_spawn(plan, &child, &run.err), CONFINE_OK);
    confine_plan_free(plan);
    while (access(ready, F_OK) != 0) {
        ck_assert_int_eq(confine_wait(&child, 2, &run.result, &run.err), CONFINE_E_TIMEOUT);
    }
    ck_assert_int_eq(confine_signal(&child, SIGTERM), 0);
    ck_assert_int_eq(confine_wait(&child, -1, &run.result, &run.err), CONFINE_OK);
    confine_child_fini(&child);
    ck_assert(WIFEXITED(run.result.status) && WEXITSTATUS(run.result.status) == 9);
}
END_TEST

/* 5.4.6: out of descriptors is a refusal always, also with enforcement optional. */
START_TEST(no_descriptors)
{
    if (skip(_i)) {
        return;
    }
    struct rlimit old, tight;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    int left = 0;
    for (rlim_t limit = 4; limit < 100; limit += limit < 60 ? 1 : 13) {
        struct run run;
        struct confine_plan *plan = NULL;
        struct confine_child child;
        prepare(&run, "true", _i == 1);
        run.spec.require_enforcement = false;
        tight = (struct rlimit){limit, old.rlim_max};
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
        enum confine_code code = confine_plan_new(engine, &run.spec, &plan, &run.err);
        code = code == CONFINE_OK ? confine_spawn(plan, &child, &run.err) : code;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
        confine_plan_free(plan);
        if (code == CONFINE_OK) {
            confine_child_fini(&child);
            left++;
        } else {
            ck_assert_msg(code == CONFINE_E_FILES || code == CONFINE_E_EXEC ||
                              code == CONFINE_E_SPEC,
                          "limit %d: %d %s", (int)limit, (int)code, run.err.detail);
        }
    }
    ck_assert_int_gt(left, 0);
}
END_TEST

enum { N_THREADS = 8, N_RUNS = 13 };

static void *many(void *arg)
{
    int mode = *(int *)arg;
    intptr_t failed = 0;
    for (int i = 0; i < N_RUNS; i++) {
        struct run run;
        prepare(&run, "sleep 60 & echo $((6 * 7))", mode == 1);
        failed +=
            execute(&run) != CONFINE_OK || run.result.status != 0 || strcmp(run.out, "42\n") != 0;
    }
    return (void *)failed;
}

/* One engine, eight threads, a hundred runs that each leave something behind. */
START_TEST(concurrent)
{
    if (skip(_i)) {
        return;
    }
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, many, &_i), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        void *failed;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1);
}
END_TEST

START_TEST(refusals)
{
    static const struct {
        const char *cwd, *root, *deny;
    } rows[] = {{"relative", "/tmp", NULL}, {"/nowhere/at/all", NULL, NULL},
                {NULL, "relative", NULL},   {NULL, NULL, "relative"},
                {"/", NULL, NULL},          {NULL, NULL, base}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run run;
        const char *denied[] = {rows[i].deny, NULL};
        prepare(&run, "true", false);
        run.spec.cwd = rows[i].cwd != NULL ? rows[i].cwd : base;
        run.roots[0] = rows[i].root != NULL ? rows[i].root : base;
        run.spec.deny_paths = denied;
        ck_assert_msg(execute(&run) == CONFINE_E_SPEC, "row %zu", i);
    }
    struct run run;
    prepare(&run, "true", false);
    run.argv[0] = "/nowhere/program";
    ck_assert_int_eq(execute(&run), CONFINE_E_EXEC);
    ck_assert_int_eq(run.err.sys_errno, ENOENT);
    prepare(&run, "true", false);
    run.spec.network = CONFINE_NET_LOOPBACK;
    ck_assert_int_eq(execute(&run), CONFINE_E_ENFORCE);
}
END_TEST

/* The scan believes a folder only while nothing of it changed. */
START_TEST(scan_follows_changes)
{
    confine_autofree char *root = at("scan");
    confine_autofree char *deep = at("scan/a");
    confine_autofree char *secret = at("scan/a/.env");
    confine_autofree char *link = at("scan/link");
    mkdir(root, 0700);
    mkdir(deep, 0700);
    unlink(link);
    ck_assert_int_eq(symlink("/", link), 0);
    static const struct confine_name wish[] = {{".env", false}};
    static const size_t expected[] = {0, 1, 0, 1};
    confine_auto(names_fini) struct names names;
    names_compile(&names, wish, 1);
    struct scan_cache *cache = scan_cache_new();
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        confine_auto(trees_fini) struct trees trees = {0};
        struct trees_wish grant = {.right = TREES_WRITE, .reason = "test", .scanned = true};
        unlink(secret);
        if (expected[i] != 0) {
            write_file(secret, "x");
        }
        ck_assert_int_eq(trees_grant(&trees, root, &grant, NULL), CONFINE_OK);
        scan_names(cache, &trees, &names);
        ck_assert_uint_eq(trees.n_denied, expected[i]);
    }
    scan_cache_free(cache);
}
END_TEST

START_TEST(git_places)
{
    confine_autofree char *repo = at("repo");
    confine_autofree char *command =
        util_format("git init -q '%s' && cd '%s' && git config user.email a@b && git config "
                    "user.name a && mkdir d "
                    "&& echo 1 > f && echo 1 > d/g && git add f d && git commit -qm x && git "
                    "worktree add -q ../wt",
                    repo, repo);
    ck_assert_int_eq(system(command), 0);
    confine_autofree char *worktree = at("wt");
    confine_auto(git_fini) struct git_place main = {0}, linked = {0}, none = {0};
    git_find(&main, repo);
    git_find(&linked, worktree);
    git_find(&none, "/proc");
    ck_assert_str_eq(main.top, repo);
    ck_assert(!main.linked && linked.linked && none.top == NULL);
    ck_assert_str_eq(linked.common, main.common);
    for (int version = 2; version <= 4; version++) {
        confine_autofree char *update =
            util_format("git -C '%s' update-index --index-version %d", repo, version);
        ck_assert_int_eq(system(update), 0);
        confine_auto(trees_fini) struct trees trees = {0};
        static const char *const names[] = {"repo/f", "repo/d", "repo/d2"};
        for (size_t i = 0; i < 3; i++) {
            confine_autofree char *path = at(names[i]);
            mkdir(path, 0700);
            trees_deny(&trees, path, "test");
        }
        trees_seal(&trees);
        git_mark_tracked(&main, &trees);
        ck_assert_msg(trees.denied[0].tracked && !trees.denied[1].tracked &&
                          trees.denied[2].tracked,
                      "index version %d", version);
    }
}
END_TEST

int main(void)
{
    struct confine_err err;
    if (mkdtemp(base) == NULL || confine_new(&engine, &err) != CONFINE_OK) {
        return 1;
    }
    if (!confine_kernel(engine)->landlock_denies) {
        puts("skipped: this kernel has no Landlock");
        return 0;
    }
    Suite *suite = suite_create("confine run");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, result_and_report, 0, 2);
    tcase_add_loop_test(tc, signals_of_the_caller_do_not_leak, 0, 2);
    tcase_add_loop_test(tc, credentials, 0, 2);
    tcase_add_loop_test(tc, planted_home_link, 0, 2);
    tcase_add_loop_test(tc, kill_and_timeout, 0, 2);
    tcase_add_loop_test(tc, asked_signal, 0, 2);
    tcase_add_loop_test(tc, no_descriptors, 0, 2);
    tcase_add_loop_test(tc, concurrent, 0, 2);
    tcase_add_test(tc, refusals);
    tcase_add_test(tc, scan_follows_changes);
    tcase_add_test(tc, git_places);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    confine_tmp_remove(base);
    confine_free(engine);
    return failed == 0 ? 0 : 1;
}
