/* test_err: codes, their table, and the caller-owned error. */
#include "base/err.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

START_TEST(every_code_has_status_slug_and_title)
{
    enum gh_code code = (enum gh_code)_i;
    int status = gh_code_status(code);
    ck_assert(status == 200 ? code == GH_OK : status >= 400 && status <= 503);
    ck_assert_uint_gt(strlen(gh_code_slug(code)), 0);
    ck_assert_uint_gt(strlen(gh_code_title(code)), 0);
    ck_assert_uint_eq(strspn(gh_code_slug(code), "abcdefghijklmnopqrstuvwxyz_"),
                      strlen(gh_code_slug(code)));
}
END_TEST

START_TEST(slugs_are_unique)
{
    for (int other = 0; other < GH_N_CODES; other++) {
        if (other != _i) {
            ck_assert_str_ne(gh_code_slug((enum gh_code)_i), gh_code_slug((enum gh_code)other));
        }
    }
}
END_TEST

START_TEST(fail_fills_the_error_and_returns_its_code)
{
    struct gh_err err = {0};
    ck_assert_int_eq(gh_fail(&err, GH_CONFLICT, "Number %d.", 7), GH_CONFLICT);
    ck_assert_int_eq(err.code, GH_CONFLICT);
    ck_assert_str_eq(err.detail, "Number 7.");
    ck_assert_str_eq(err.pointer, "");
}
END_TEST

START_TEST(fail_at_names_the_field)
{
    struct gh_err err = {0};
    ck_assert_int_eq(gh_fail_at(&err, GH_INVALID, "/a~1b", "Bad."), GH_INVALID);
    ck_assert_str_eq(err.pointer, "/a~1b");
}
END_TEST

START_TEST(a_later_failure_leaves_no_old_pointer)
{
    struct gh_err err = {0};
    ck_assert_int_eq(gh_fail_at(&err, GH_INVALID, "/a", "Bad."), GH_INVALID);
    ck_assert_int_eq(gh_fail(&err, GH_IO, "Worse."), GH_IO);
    ck_assert_str_eq(err.pointer, "");
}
END_TEST

START_TEST(long_texts_are_cut_and_ended)
{
    struct gh_err err;
    char longer[1000];
    memset(&err, 'z', sizeof err);
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    ck_assert_int_eq(gh_fail_at(&err, GH_INVALID, longer, "%s", longer), GH_INVALID);
    ck_assert_uint_eq(strlen(err.detail), sizeof err.detail - 1);
    ck_assert_uint_eq(strlen(err.pointer), sizeof err.pointer - 1);
}
END_TEST

START_TEST(no_error_to_fill_is_fine)
{
    ck_assert_int_eq(gh_fail(NULL, GH_BUSY, "Nobody reads %s.", "this"), GH_BUSY);
    ck_assert_int_eq(gh_fail_at(NULL, GH_BUSY, "/x", "Nor this."), GH_BUSY);
}
END_TEST

static enum gh_code step(enum gh_code code, int *calls)
{
    (*calls)++;
    return code;
}

static enum gh_code two_steps(enum gh_code first, int *calls)
{
    GH_TRY(step(first, calls));
    GH_TRY(step(GH_OK, calls));
    return GH_OK;
}

START_TEST(try_stops_at_the_first_failure_and_evaluates_once)
{
    int calls = 0;
    ck_assert_int_eq(two_steps(GH_STOPPING, &calls), GH_STOPPING);
    ck_assert_int_eq(calls, 1);
    ck_assert_int_eq(two_steps(GH_OK, &calls), GH_OK);
    ck_assert_int_eq(calls, 3);
}
END_TEST

START_TEST(a_broken_assertion_aborts)
{
    gh_assert(_i == 0);
    gh_assert(_i != 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("err");
    TCase *t = tcase_create("err");
    tcase_add_loop_test(t, every_code_has_status_slug_and_title, 0, GH_N_CODES);
    tcase_add_loop_test(t, slugs_are_unique, 0, GH_N_CODES);
    tcase_add_test(t, fail_fills_the_error_and_returns_its_code);
    tcase_add_test(t, fail_at_names_the_field);
    tcase_add_test(t, a_later_failure_leaves_no_old_pointer);
    tcase_add_test(t, long_texts_are_cut_and_ended);
    tcase_add_test(t, no_error_to_fill_is_fine);
    tcase_add_test(t, try_stops_at_the_first_failure_and_evaluates_once);
    tcase_add_test_raise_signal(t, a_broken_assertion_aborts, SIGABRT);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
