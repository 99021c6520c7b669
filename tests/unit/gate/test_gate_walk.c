/* test_gate_walk: what lies below a folder, and where the walk ends. */
#include "gate/walk.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tree.h"

struct seen_paths {
    int n;
    int stop_at; /* 0: never */
    char last[1024];
    struct gh_buf all;
};

static bool see(const char *path, void *cookie)
{
    struct seen_paths *seen = cookie;
    snprintf(seen->last, sizeof seen->last, "%s", path);
    gh_buf_printf(&seen->all, "%s\n", path);
    return ++seen->n != seen->stop_at;
}

static bool walk(const char *dir, const char *to, size_t *budget, struct seen_paths *seen)
{
    struct gate_walk how = {
        .dir = dir, .roots = {dir, to}, .budget = budget, .see = see, .cookie = seen};
    return gate_walk(&how);
}

START_TEST(everything_is_seen)
{
    tree_begin();
    tree_file("w/.gitignore", "deep\n");
    tree_file("w/deep/er/.env", "x");
    tree_dir("out/inner");
    tree_link(tree_at("out"), "w/link");
    struct seen_paths seen = {0};
    ck_assert(walk(tree_at("w"), NULL, NULL, &seen));
    ck_assert_int_eq(seen.n, 5); /* ignored files too; what a link leads to is not below */
    ck_assert_ptr_nonnull(strstr(gh_buf_str(&seen.all), tree_at("w/deep/er/.env")));
    ck_assert_ptr_null(strstr(gh_buf_str(&seen.all), "inner"));
    struct seen_paths moved = {0};
    ck_assert(walk(tree_at("w"), "/", NULL, &moved));
    ck_assert_int_eq(moved.n, 10);
    ck_assert_ptr_nonnull(strstr(gh_buf_str(&moved.all), "\n/deep/er/.env\n"));
    static const char *const empty[] = {"w/.gitignore", "w/link", "w/none", "out/inner"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        struct seen_paths none = {0};
        ck_assert(walk(tree_at(empty[i]), NULL, NULL, &none));
        ck_assert_int_eq(none.n, 0);
    }
    gh_buf_fini(&seen.all);
    gh_buf_fini(&moved.all);
    tree_end();
}
END_TEST

START_TEST(whoever_looks_ends_it)
{
    tree_begin();
    tree_file("w/a/b/c", "x");
    struct seen_paths seen = {.stop_at = 2};
    ck_assert(walk(tree_at("w"), NULL, NULL, &seen));
    ck_assert_int_eq(seen.n, 2);
    ck_assert_str_eq(seen.last, tree_at("w/a/b"));
    gh_buf_fini(&seen.all);
    tree_end();
}
END_TEST

/* Several walks draw on one budget. */
START_TEST(the_budget)
{
    tree_begin();
    tree_file("w/a/b/c", "x");
    size_t budget = 7;
    struct seen_paths seen = {0};
    ck_assert(walk(tree_at("w"), NULL, &budget, &seen));
    ck_assert_uint_eq(budget, 4);
    ck_assert(walk(tree_at("w"), NULL, &budget, &seen));
    ck_assert_uint_eq(budget, 1);
    ck_assert(!walk(tree_at("w"), NULL, &budget, &seen));
    ck_assert_uint_eq(budget, 0);
    ck_assert_int_eq(seen.n, 7);
    ck_assert(!walk(tree_at("w"), NULL, &budget, &seen));
    ck_assert(walk(tree_at("w/a/b/c"), NULL, &budget, &seen)); /* nothing to look at */
    gh_buf_fini(&seen.all);
    tree_end();
}
END_TEST

START_TEST(too_deep)
{
    tree_begin();
    char deep[1024] = "w";
    for (int i = 0; i < GATE_WALK_DEPTH + 2; i++) {
        strcat(deep, "/d");
    }
    tree_dir(deep);
    struct seen_paths seen = {0};
    ck_assert(!walk(tree_at("w"), NULL, NULL, &seen));
    ck_assert_int_eq(seen.n, GATE_WALK_DEPTH);
    gh_buf_fini(&seen.all);
    tree_end();
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("walk");
    tcase_add_test(tcase, everything_is_seen);
    tcase_add_test(tcase, whoever_looks_ends_it);
    tcase_add_test(tcase, the_budget);
    tcase_add_test(tcase, too_deep);
    Suite *suite = suite_create("gate_walk");
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
