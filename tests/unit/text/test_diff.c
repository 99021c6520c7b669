/* test_diff: counts, hunks as JSON, limits, and that nothing outside memory is needed. */
#include "text/diff.h"

#include <check.h>
#include <git2.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/auto.h"

static void drop(json_t **value)
{
    json_decref(*value);
}

#define JSON_AUTO gh_auto(drop) json_t *

/* Diff and parse; owned by caller. */
static json_t *hunks_of(const char *old, size_t old_len, const char *new, size_t new_len,
                        size_t max_lines, struct text_diff *diff)
{
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    struct gh_err err;
    *diff = (struct text_diff){0};
    ck_assert_int_eq(text_diff_hunks(old, old_len, new, new_len, max_lines, &out, diff, &err),
                     GH_OK);
    json_t *parsed = json_loads(gh_buf_str(&out), 0, NULL);
    ck_assert_msg(json_is_array(parsed), "%s", gh_buf_str(&out));
    return parsed;
}

static json_t *strings(const char *old, const char *new, struct text_diff *diff)
{
    return hunks_of(old, strlen(old), new, strlen(new), 1000, diff);
}

static void check_line(const json_t *lines, size_t at, const char *kind, const char *text)
{
    const json_t *line = json_array_get(lines, at);
    ck_assert_str_eq(json_string_value(json_object_get(line, "kind")), kind);
    ck_assert_str_eq(json_string_value(json_object_get(line, "text")), text);
}

START_TEST(a_change_in_the_middle_is_one_hunk)
{
    struct text_diff diff;
    JSON_AUTO hunks =
        strings("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\nand\n6\n7\n8\n9\n", &diff);
    ck_assert_uint_eq(diff.added, 2);
    ck_assert_uint_eq(diff.removed, 1);
    ck_assert(!diff.is_binary && !diff.is_cut);
    ck_assert_uint_eq(json_array_size(hunks), 1);
    const json_t *hunk = json_array_get(hunks, 0);
    ck_assert_int_eq(json_integer_value(json_object_get(hunk, "old_start")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(hunk, "old_lines")), 7);
    ck_assert_int_eq(json_integer_value(json_object_get(hunk, "new_start")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(hunk, "new_lines")), 8);
    ck_assert_str_eq(json_string_value(json_object_get(hunk, "header")), "@@ -2,7 +2,8 @@");
    const json_t *lines = json_object_get(hunk, "lines");
    ck_assert_uint_eq(json_array_size(lines), 9);
    check_line(lines, 0, " ", "2");
    check_line(lines, 3, "-", "5");
    check_line(lines, 4, "+", "five");
    check_line(lines, 5, "+", "and");
    check_line(lines, 8, " ", "8");
    const json_t *gone = json_array_get(lines, 3);
    ck_assert_int_eq(json_integer_value(json_object_get(gone, "old")), 5);
    ck_assert(json_is_null(json_object_get(gone, "new")));
    const json_t *came = json_array_get(lines, 5);
    ck_assert(json_is_null(json_object_get(came, "old")));
    ck_assert_int_eq(json_integer_value(json_object_get(came, "new")), 6);
}
END_TEST

START_TEST(a_new_file_is_all_added_and_a_removed_one_all_removed)
{
    struct text_diff diff;
    JSON_AUTO created = hunks_of(NULL, 0, "a\nb\n", 4, 10, &diff);
    ck_assert_uint_eq(json_array_size(created), 1);
    ck_assert_uint_eq(diff.added, 2);
    ck_assert_uint_eq(diff.removed, 0);
    JSON_AUTO removed = hunks_of("a\nb\n", 4, NULL, 0, 10, &diff);
    ck_assert_uint_eq(json_array_size(removed), 1);
    ck_assert_uint_eq(diff.added, 0);
    ck_assert_uint_eq(diff.removed, 2);
}
END_TEST

START_TEST(equal_texts_have_no_hunks)
{
    struct text_diff diff;
    JSON_AUTO same = strings("a\nb\n", "a\nb\n", &diff);
    ck_assert_uint_eq(json_array_size(same), 0);
    JSON_AUTO empty = hunks_of(NULL, 0, NULL, 0, 10, &diff);
    ck_assert_uint_eq(json_array_size(empty), 0);
    ck_assert_uint_eq(diff.added + diff.removed, 0);
}
END_TEST

START_TEST(far_changes_are_two_hunks)
{
    gh_auto(gh_buf_fini) struct gh_buf old = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf new = GH_BUF_INIT;
    for (int i = 0; i < 40; i++) {
        gh_buf_printf(&old, "line %d\n", i);
        gh_buf_printf(&new, i == 3 || i == 30 ? "other %d\n" : "line %d\n", i);
    }
    struct text_diff diff;
    JSON_AUTO hunks = strings(old.data, new.data, &diff);
    ck_assert_uint_eq(json_array_size(hunks), 2);
    ck_assert_uint_eq(diff.added, 2);
    ck_assert_uint_eq(diff.removed, 2);
}
END_TEST

START_TEST(a_missing_newline_at_the_end_is_said)
{
    struct text_diff diff;
    JSON_AUTO hunks = strings("a\nb\n", "a\nb", &diff);
    const json_t *lines = json_object_get(json_array_get(hunks, 0), "lines");
    ck_assert_uint_eq(json_array_size(lines), 3);
    ck_assert_ptr_null(json_object_get(json_array_get(lines, 0), "no_newline"));
    ck_assert_ptr_null(json_object_get(json_array_get(lines, 1), "no_newline"));
    ck_assert(json_is_true(json_object_get(json_array_get(lines, 2), "no_newline")));
    check_line(lines, 2, "+", "b");
    ck_assert_uint_eq(diff.added, 1);
    ck_assert_uint_eq(diff.removed, 1);
}
END_TEST

START_TEST(lines_and_headers_are_neutralised)
{
    struct text_diff diff;
    JSON_AUTO hunks = strings("int f\x1b(void)\n{\n1\n2\n3\n4\n5\n",
                              "int f\x1b(void)\n{\n1\n2\n3\n4\n"
                              "\x1b[2J\u202ex\r\n",
                              &diff);
    const json_t *hunk = json_array_get(hunks, 0);
    ck_assert_str_eq(json_string_value(json_object_get(hunk, "header")),
                     "@@ -4,4 +4,4 @@ int f\\x1b(void)");
    check_line(json_object_get(hunk, "lines"), 4, "+", "\\x1b[2J\\u{202e}x\\r");
}
END_TEST

START_TEST(a_change_of_the_line_ending_alone_is_seen)
{
    struct text_diff diff;
    JSON_AUTO hunks = strings("a\n", "a\r\n", &diff);
    const json_t *lines = json_object_get(json_array_get(hunks, 0), "lines");
    check_line(lines, 0, "-", "a");
    check_line(lines, 1, "+", "a\\r");
}
END_TEST

START_TEST(binary_is_said_and_not_shown)
{
    struct text_diff diff;
    JSON_AUTO hunks = hunks_of("a\0b", 3, "text\n", 5, 10, &diff);
    ck_assert(diff.is_binary);
    ck_assert_uint_eq(json_array_size(hunks), 0);
}
END_TEST

/* A NUL far down must not hide the change: it is text, and the NUL is shown. */
START_TEST(a_late_nul_is_shown)
{
    gh_auto(gh_buf_fini) struct gh_buf new = GH_BUF_INIT;
    for (int i = 0; i < 2000; i++) {
        gh_buf_puts(&new, "line\n");
    }
    gh_buf_put(&new, "x\0y\n", 4);
    struct text_diff diff;
    JSON_AUTO hunks = hunks_of(new.data, new.len - 4, new.data, new.len, 10, &diff);
    ck_assert(!diff.is_binary);
    check_line(json_object_get(json_array_get(hunks, 0), "lines"), 3, "+", "x\\x00y");
}
END_TEST

START_TEST(lines_beyond_the_limit_are_counted_not_shown)
{
    gh_auto(gh_buf_fini) struct gh_buf new = GH_BUF_INIT;
    for (int i = 0; i < 500; i++) {
        gh_buf_printf(&new, "line %d\n", i);
    }
    struct text_diff diff;
    JSON_AUTO hunks = hunks_of("", 0, new.data, new.len, 100, &diff);
    ck_assert(diff.is_cut);
    ck_assert_uint_eq(diff.added, 500);
    const json_t *lines = json_object_get(json_array_get(hunks, 0), "lines");
    ck_assert_uint_eq(json_array_size(lines), 100);
    JSON_AUTO none = hunks_of("", 0, new.data, new.len, 0, &diff);
    ck_assert(diff.is_cut);
    ck_assert_uint_eq(json_array_size(none), 0);
    JSON_AUTO all = hunks_of("", 0, new.data, new.len, 500, &diff);
    ck_assert(!diff.is_cut);
    ck_assert_uint_eq(json_array_size(all), 1);
}
END_TEST

START_TEST(a_long_line_is_cut_at_a_character)
{
    gh_auto(gh_buf_fini) struct gh_buf new = GH_BUF_INIT;
    for (int i = 0; i < 2001; i++) {
        gh_buf_puts(&new, "é");
    }
    struct text_diff diff;
    JSON_AUTO hunks = hunks_of("", 0, new.data, new.len, 10, &diff);
    const json_t *line = json_array_get(json_object_get(json_array_get(hunks, 0), "lines"), 0);
    ck_assert_uint_eq(json_string_length(json_object_get(line, "text")), 4000);
    ck_assert(json_is_true(json_object_get(line, "cut")));
    new.len -= 2;
    JSON_AUTO fits = hunks_of("", 0, new.data, new.len, 10, &diff);
    line = json_array_get(json_object_get(json_array_get(fits, 0), "lines"), 0);
    ck_assert_ptr_null(json_object_get(line, "cut"));
}
END_TEST

START_TEST(texts_of_too_many_lines_are_not_compared)
{
    size_t len = TEXT_DIFF_MAX_LINES / 2 + 1;
    gh_autofree char *old = malloc(len);
    gh_autofree char *new = malloc(len);
    memset(old, '\n', len);
    memset(new, '\n', len);
    new[0] = 'x';
    struct text_diff diff;
    JSON_AUTO hunks = hunks_of(old, len, new, len, 10, &diff);
    ck_assert(diff.is_cut);
    ck_assert_uint_eq(json_array_size(hunks), 0);
    ck_assert_uint_eq(diff.removed, len);
    ck_assert_uint_eq(diff.added, len - 1);
    JSON_AUTO below = hunks_of(old, len - 1, new, len - 1, 10, &diff);
    ck_assert_uint_eq(json_array_size(below), 1);
    ck_assert_uint_eq(diff.removed, 2);
    ck_assert_uint_eq(diff.added, 1);
}
END_TEST

/* Lower a limit to 0; returns what it was. */
static struct rlimit forbid(int resource)
{
    struct rlimit old;
    ck_assert_int_eq(getrlimit(resource, &old), 0);
    const struct rlimit none = {0, old.rlim_max};
    ck_assert_int_eq(setrlimit(resource, &none), 0);
    return old;
}

/* No attribute file, configuration or helper program has a say: none can be opened or started. */
START_TEST(no_file_and_no_process_is_needed)
{
    ck_assert_int_gt(git_libgit2_init(), 0);
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    struct text_diff diff;
    struct gh_err err;
    const struct rlimit files = forbid(RLIMIT_NOFILE);
    const struct rlimit processes = forbid(RLIMIT_NPROC);
    enum gh_code code = text_diff_hunks("a\n", 2, "b\n", 2, 10, &out, &diff, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NPROC, &processes), 0);
    ck_assert_int_eq(code, GH_OK);
    ck_assert_uint_eq(diff.added, 1);
    git_libgit2_shutdown();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("diff");
    TCase *tcase = tcase_create("diff");
    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_change_in_the_middle_is_one_hunk);
    tcase_add_test(tcase, a_new_file_is_all_added_and_a_removed_one_all_removed);
    tcase_add_test(tcase, equal_texts_have_no_hunks);
    tcase_add_test(tcase, far_changes_are_two_hunks);
    tcase_add_test(tcase, a_missing_newline_at_the_end_is_said);
    tcase_add_test(tcase, lines_and_headers_are_neutralised);
    tcase_add_test(tcase, a_change_of_the_line_ending_alone_is_seen);
    tcase_add_test(tcase, binary_is_said_and_not_shown);
    tcase_add_test(tcase, a_late_nul_is_shown);
    tcase_add_test(tcase, lines_beyond_the_limit_are_counted_not_shown);
    tcase_add_test(tcase, a_long_line_is_cut_at_a_character);
    tcase_add_test(tcase, texts_of_too_many_lines_are_not_compared);
    tcase_add_test(tcase, no_file_and_no_process_is_needed);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
