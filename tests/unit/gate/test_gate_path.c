/* test_gate_path: both readings of a path on a real tree with links. */
#include "gate/path.h"

#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "tree.h"

static void begin(void)
{
    tree_begin();
    tree_dir("w/src");
    tree_dir("w/a");
    tree_file("w/src/a.c", "x");
    tree_dir("out/deep");
    tree_file("out/secret", "s");
    tree_link(tree_at("out"), "w/d");
    tree_link("d", "w/e");
    tree_link("../out/secret", "w/notes.txt");
    tree_link(tree_at("out/new"), "w/dang");
    tree_link("../out/more/../x", "w/dang2");
    tree_link("out/deep", "far");
    tree_link("loop", "w/loop");
}

/* `want` is relative to the tree. */
static void expect(const char *text, const char *want, const char *want_lexical)
{
    gh_auto(gate_path_fini) struct gate_path path;
    struct gh_err err;
    enum gh_code code = gate_path_resolve(text, tree_at("w"), tree_at("home"), &path, &err);
    ck_assert_msg(code == GH_OK, "%s: %s", text, err.detail);
    ck_assert_str_eq(path.kernel, tree_at(want));
    if (want_lexical == NULL) {
        ck_assert_msg(path.lexical == NULL, "%s: lexical %s", text, path.lexical);
    } else {
        ck_assert_ptr_nonnull(path.lexical);
        ck_assert_str_eq(path.lexical, tree_at(want_lexical));
    }
}

static void refuse(const char *text)
{
    struct gate_path path;
    struct gh_err err = {0};
    ck_assert_msg(gate_path_resolve(text, tree_at("w"), tree_at("home"), &path, &err) == GH_INVALID,
                  "%.200s was taken", text);
    ck_assert_ptr_null(path.kernel);
    ck_assert_uint_gt(strlen(err.detail), 10);
}

/* Scenario 16, B007. */
START_TEST(plain_texts_are_normalised)
{
    begin();
    static const char *const cases[][2] = {
        {"src/a.c", "w/src/a.c"},
        {"./src/./a.c", "w/src/a.c"},
        {"src//a.c", "w/src/a.c"},
        {"src/a.c/", "w/src/a.c"},
        {"src/../src/a.c", "w/src/a.c"},
        {"nothing/../src/a.c", "w/src/a.c"},
        {"src/a.c/../b.c", "w/src/b.c"},
        {"../x", "x"},
        {".", "w"},
        {"..", ""},
        {"new/deep/file", "w/new/deep/file"},
        {"...", "w/..."},
        {"src/..a/.b", "w/src/..a/.b"},
        {" ", "w/ "},
        {"src/a.c/below", "w/src/a.c/below"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[PATH_MAX];
        snprintf(want, sizeof want, "%s", tree_at(cases[i][1]));
        if (*cases[i][1] == '\0') {
            want[strlen(want) - 1] = '\0';
        }
        expect(cases[i][0], want, NULL);
    }
    expect("/../../etc/passwd", "/etc/passwd", NULL);
    expect("../../../../../../../../../..", "/", NULL);
    expect("//", "/", NULL);
    tree_end();
}
END_TEST

/* Scenario 17. */
START_TEST(the_home_is_expanded_and_nobody_elses)
{
    begin();
    tree_dir("home/.ssh");
    expect("~", "home", NULL);
    expect("~/x", "home/x", NULL);
    expect("~/.ssh/../y", "home/y", NULL);
    expect("~bob/x", "w/~bob/x", NULL);
    expect("a/~/x", "w/a/~/x", NULL);
    gh_auto(gate_path_fini) struct gate_path path;
    ck_assert_int_eq(gate_path_resolve("~/x", tree_at("w"), NULL, &path, NULL), GH_OK);
    ck_assert_str_eq(path.kernel, tree_at("w/~/x"));
    tree_end();
}
END_TEST

/* Scenarios 9, 18, 19; B005. */
START_TEST(links_are_followed_wherever_they_stand)
{
    begin();
    expect("notes.txt", "out/secret", NULL);
    expect("d/secret", "out/secret", NULL);
    expect("e/secret", "out/secret", NULL);
    expect("e/not/yet", "out/not/yet", NULL);
    expect("dang", "out/new", NULL);
    expect("dang/", "out/new", "out/new"); /* the same place, but only one is by a last link */
    expect("dang/below", "out/new/below", NULL);
    expect("dang2", "out/x", NULL);
    expect(tree_at("far/x"), "out/deep/x", NULL);
    tree_end();
}
END_TEST

START_TEST(the_two_readings_of_dot_dot)
{
    begin();
    tree_link(tree_at("out/deep"), "w/l");
    tree_link(tree_at("out"), "w/up");
    expect("l/../x", "out/x", "w/x");
    expect("l/../../w/src/a.c", "w/src/a.c", NULL);
    expect("nothing/../l/../x", "out/x", "w/x");
    expect("nothing/../notes.txt", "out/secret", NULL);
    expect("src/../notes.txt", "out/secret", NULL);
    expect("l/../../w/up/secret", "out/secret", NULL);
    tree_end();
}
END_TEST

START_TEST(spelling_leaf_and_hops_are_kept)
{
    begin();
    gh_auto(gate_path_fini) struct gate_path path;
    ck_assert_int_eq(gate_path_resolve("e/../e/secret", tree_at("w"), NULL, &path, NULL), GH_OK);
    ck_assert_str_eq(path.kernel, tree_at("e/secret"));
    ck_assert_str_eq(path.lexical, tree_at("out/secret"));
    ck_assert_str_eq(path.spelled, tree_at("w/e/secret"));
    ck_assert_ptr_null(path.leaf);
    int n = 0;
    bool saw_d = false;
    for (const char *hop = gate_path_hop(&path, NULL); hop != NULL;
         hop = gate_path_hop(&path, hop)) {
        saw_d = saw_d || strcmp(hop, tree_at("w/d")) == 0;
        n++;
    }
    ck_assert_int_eq(n, 4);
    ck_assert(saw_d);
    gh_auto(gate_path_fini) struct gate_path leaf;
    tree_link(tree_at("w/src/a.c"), "out/inward");
    ck_assert_int_eq(gate_path_resolve("d/inward", tree_at("w"), NULL, &leaf, NULL), GH_OK);
    ck_assert_str_eq(leaf.kernel, tree_at("w/src/a.c"));
    ck_assert_str_eq(leaf.leaf, tree_at("out/inward"));
    ck_assert_ptr_null(leaf.lexical);
    /* a slash behind a link leads through it, unless it is removed */
    gh_auto(gate_path_fini) struct gate_path slash;
    ck_assert_int_eq(gate_path_resolve("d/", tree_at("w"), NULL, &slash, NULL), GH_OK);
    ck_assert_str_eq(slash.kernel, tree_at("out"));
    ck_assert_ptr_null(slash.leaf);
    ck_assert_str_eq(slash.lexical, tree_at("out"));
    ck_assert_str_eq(slash.lexical_leaf, tree_at("w/d"));
    gh_auto(gate_path_fini) struct gate_path plain;
    ck_assert_int_eq(gate_path_resolve("src/a.c", tree_at("w"), NULL, &plain, NULL), GH_OK);
    ck_assert_ptr_null(plain.spelled);
    ck_assert_ptr_null(gate_path_hop(&plain, NULL));
    tree_end();
}
END_TEST

START_TEST(loops_and_long_chains_are_refused)
{
    begin();
    refuse("loop");
    refuse("loop/x");
    tree_file("w/c0", "x");
    for (int i = 1; i <= 41; i++) {
        char link[32];
        char target[32];
        snprintf(link, sizeof link, "w/c%d", i);
        snprintf(target, sizeof target, "c%d", i - 1);
        tree_link(target, link);
    }
    expect("c40", "w/c0", NULL);
    refuse("c41");
    tree_end();
}
END_TEST

START_TEST(lengths_are_bounded)
{
    begin();
    refuse("");
    char text[PATH_MAX + 8];
    memset(text, 'a', sizeof text);
    text[0] = '/';
    text[PATH_MAX] = '\0';
    refuse(text);
    for (size_t i = 0; i + 1 < PATH_MAX; i += 2) {
        text[i] = '/';
    }
    text[PATH_MAX - 2] = '\0';
    expect(text, text, NULL);
    refuse(text + 1); /* with the working directory before it */
    /* a link whose text is long, crossed again and again, cannot make the result too long */
    char target[3000];
    memset(target, 'x', sizeof target);
    for (size_t i = 100; i < sizeof target; i += 101) {
        target[i] = '/';
    }
    target[sizeof target - 1] = '\0';
    tree_link(target, "w/big");
    char twice[3000];
    memset(twice, 'y', sizeof twice);
    for (size_t i = 0; i < sizeof twice; i += 101) {
        twice[i] = '/';
    }
    memcpy(twice, "big", 3);
    twice[3] = '/';
    twice[sizeof twice - 1] = '\0';
    refuse(twice);
    tree_end();
}
END_TEST

/* B007: what a process's own links mean depends on whose they are. */
START_TEST(magic_links_of_proc)
{
    if (access("/proc/self/cwd", F_OK) != 0) {
        printf("skipped: /proc is not mounted\n");
        return;
    }
    begin();
    expect("/proc/self/cwd/src/a.c", "w/src/a.c", NULL);
    expect("/proc/self/cwd/d/secret", "out/secret", NULL);
    expect("/proc/self/root/etc/passwd", "/etc/passwd", NULL);
    expect("/proc/self/status", "/proc/self/status", NULL);
    expect("/proc/self/../version", "/proc/version", NULL);
    tree_link("/proc/self/cwd", "w/mine");
    expect("mine/src/a.c", "w/src/a.c", NULL);
    char own[64];
    snprintf(own, sizeof own, "/proc/%d/cwd/x", (int)getpid());
    refuse(own);
    static const char *const refused[] = {
        "/proc/1/cwd/x",     "/proc/1/root/etc/passwd",     "/proc/999999/cwd/x",
        "/proc/self/fd/0",   "/proc/self/fd/99/x",          "/proc/self/exe",
        "/proc/thread-self", "/proc/thread-self/cwd/x",     "/proc/thread-self/../../cwd/x",
        "/dev/fd/0",         "/proc/self/task/99999/cwd/x", "/proc/self/map_files/x",
        "/proc/self/ns/mnt", "/proc/x/../self/fd/3",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        refuse(refused[i]);
    }
    tree_end();
}
END_TEST

START_TEST(within_is_by_whole_components)
{
    ck_assert(gate_path_within("/t/app", "/t/app"));
    ck_assert(gate_path_within("/t/app/k", "/t/app"));
    ck_assert(gate_path_within("/t/app/k", "/t/app/"));
    ck_assert(!gate_path_within("/t/app-secrets/k", "/t/app"));
    ck_assert(!gate_path_within("/t/app.bak", "/t/app"));
    ck_assert(!gate_path_within("/t/appX", "/t/app"));
    ck_assert(!gate_path_within("/t", "/t/app"));
    ck_assert(gate_path_within("/anything", "/"));
    ck_assert(gate_path_within("/", "/"));
}
END_TEST

START_TEST(names_are_bytes)
{
    begin();
    expect("caf\xc3\xa9", "w/caf\xc3\xa9", NULL);
    expect("cafe\xcc\x81", "w/cafe\xcc\x81", NULL);
    expect("\xff\xfe", "w/\xff\xfe", NULL);
    expect("app.js\xe2\x81\xaa", "w/app.js\xe2\x81\xaa", NULL);
    expect("line\nbreak", "w/line\nbreak", NULL);
    tree_end();
}
END_TEST

START_TEST(what_cannot_be_entered_stays_as_written)
{
    begin();
    char name[300];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    char want[PATH_MAX];
    snprintf(want, sizeof want, "w/%s", name);
    expect(name, want, NULL); /* longer than any name can be */
    expect("src/a.c/../../d/secret", "out/secret", NULL);
    tree_end();
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("path");
    tcase_add_test(tcase, plain_texts_are_normalised);
    tcase_add_test(tcase, the_home_is_expanded_and_nobody_elses);
    tcase_add_test(tcase, links_are_followed_wherever_they_stand);
    tcase_add_test(tcase, the_two_readings_of_dot_dot);
    tcase_add_test(tcase, spelling_leaf_and_hops_are_kept);
    tcase_add_test(tcase, loops_and_long_chains_are_refused);
    tcase_add_test(tcase, lengths_are_bounded);
    tcase_add_test(tcase, magic_links_of_proc);
    tcase_add_test(tcase, within_is_by_whole_components);
    tcase_add_test(tcase, names_are_bytes);
    tcase_add_test(tcase, what_cannot_be_entered_stays_as_written);
    Suite *suite = suite_create("gate_path");
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
