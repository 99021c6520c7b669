/* test_buf: the growable string, JSON strings, and the JSON writer. */
#include "base/buf.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

START_TEST(an_empty_buffer_reads_as_an_empty_string)
{
    struct gh_buf buf = GH_BUF_INIT;
    ck_assert_str_eq(gh_buf_str(&buf), "");
    gh_buf_put(&buf, "x", 0);
    ck_assert_ptr_null(buf.data);
    gh_buf_fini(&buf);
}
END_TEST

START_TEST(puts_append_and_keep_the_end)
{
    gh_auto(gh_buf_fini) struct gh_buf buf = GH_BUF_INIT;
    gh_buf_puts(&buf, "ab");
    gh_buf_putc(&buf, 'c');
    gh_buf_put(&buf, "d\0e", 3);
    gh_buf_printf(&buf, "%d-%s", 42, "f");
    ck_assert_uint_eq(buf.len, 10);
    ck_assert_mem_eq(buf.data, "abcd\0e42-f", 11);
    ck_assert(!buf.failed);
}
END_TEST

START_TEST(growth_keeps_every_byte)
{
    gh_auto(gh_buf_fini) struct gh_buf buf = GH_BUF_INIT;
    for (int i = 0; i < 10000; i++) {
        gh_buf_printf(&buf, "%04d", i);
    }
    ck_assert_uint_eq(buf.len, 40000);
    ck_assert_mem_eq(buf.data + 4 * 9999, "9999", 5);
    ck_assert_mem_eq(buf.data + 4 * 63, "0063", 4);
}
END_TEST

START_TEST(a_length_that_overflows_fails_and_stays_failed)
{
    gh_auto(gh_buf_fini) struct gh_buf buf = GH_BUF_INIT;
    gh_buf_puts(&buf, "kept");
    gh_buf_put(&buf, "x", SIZE_MAX - 2);
    ck_assert(buf.failed);
    gh_buf_puts(&buf, "more");
    ck_assert_str_eq(gh_buf_str(&buf), "kept");
    ck_assert_ptr_null(gh_buf_take(&buf));
}
END_TEST

START_TEST(take_hands_over_and_leaves_a_usable_buffer)
{
    struct gh_buf buf = GH_BUF_INIT;
    gh_buf_puts(&buf, "one");
    gh_autofree char *one = gh_buf_take(&buf);
    ck_assert_str_eq(one, "one");
    gh_buf_puts(&buf, "two");
    gh_autofree char *two = gh_buf_take(&buf);
    ck_assert_str_eq(two, "two");
    gh_autofree char *none = gh_buf_take(&buf);
    ck_assert_str_eq(none, "");
}
END_TEST

static const struct {
    const char *name, *text;
    size_t len;
    const char *want;
} strings[] = {
    {"plain", "abc", 3, "\"abc\""},
    {"empty", "", 0, "\"\""},
    {"quote and backslash", "a\"b\\c", 5, "\"a\\\"b\\\\c\""},
    {"short escapes", "\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\""},
    {"NUL", "a\0b", 3, "\"a\\u0000b\""},
    {"escape and delete", "\x1b\x7f", 2, "\"\\u001b\\u007f\""},
    {"two bytes", "\xC3\xA9", 2, "\"\xC3\xA9\""},
    {"three bytes", "\xE2\x82\xAC", 3, "\"\xE2\x82\xAC\""},
    {"four bytes", "\xF0\x9F\x98\x80", 4, "\"\xF0\x9F\x98\x80\""},
    {"lone continuation", "a\x80z", 3, "\"a\xEF\xBF\xBDz\""},
    {"overlong slash", "\xC0\xAF", 2, "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
    {"overlong three", "\xE0\x80\xAF", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
    {"surrogate", "\xED\xA0\x80", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
    {"last surrogate's neighbour", "\xED\x9F\xBF", 3, "\"\xED\x9F\xBF\""},
    {"above U+10FFFF", "\xF4\x90\x80\x80", 4,
     "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
    {"U+10FFFF", "\xF4\x8F\xBF\xBF", 4, "\"\xF4\x8F\xBF\xBF\""},
    {"cut at the end", "a\xE2\x82", 3, "\"a\xEF\xBF\xBD\xEF\xBF\xBD\""},
    {"cut by a letter", "\xE2\x82z", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBDz\""},
    {"0xFF", "\xFF", 1, "\"\xEF\xBF\xBD\""},
};

START_TEST(json_strings_are_escaped_and_valid_utf8)
{
    gh_auto(gh_buf_fini) struct gh_buf buf = GH_BUF_INIT;
    gh_buf_json(&buf, strings[_i].text, strings[_i].len);
    ck_assert_msg(strcmp(gh_buf_str(&buf), strings[_i].want) == 0, "%s: %s", strings[_i].name,
                  gh_buf_str(&buf));
}
END_TEST

START_TEST(a_cut_sequence_reads_nothing_behind_the_end)
{
    /* Exactly sized on the heap: the address sanitizer sees one byte too many. */
    gh_autofree char *exact = malloc(2);
    memcpy(exact, "\xF0\x9F", 2);
    gh_auto(gh_buf_fini) struct gh_buf buf = GH_BUF_INIT;
    gh_buf_json(&buf, exact, 2);
    ck_assert_str_eq(gh_buf_str(&buf), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
}
END_TEST

START_TEST(the_writer_places_commas_and_keys)
{
    gh_auto(gh_buf_fini) struct gh_buf buf = GH_BUF_INIT;
    struct gh_jw w = {&buf, false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "s", "x\"y");
    gh_jw_str(&w, "n", NULL);
    gh_jw_strn(&w, "cut", "abcdef", 3);
    gh_jw_arr(&w, "a");
    gh_jw_int(&w, NULL, INT64_MIN);
    gh_jw_int(&w, NULL, INT64_MAX);
    gh_jw_obj(&w, NULL);
    gh_jw_end(&w);
    gh_jw_arr(&w, NULL);
    gh_jw_arr_end(&w);
    gh_jw_arr_end(&w);
    gh_jw_bool(&w, "t", true);
    gh_jw_bool(&w, "f", false);
    gh_jw_null(&w, "z");
    gh_jw_raw(&w, "r", "[1]");
    gh_jw_end(&w);
    ck_assert_str_eq(gh_buf_str(&buf), "{\"s\":\"x\\\"y\",\"n\":null,\"cut\":\"abc\","
                                       "\"a\":[-9223372036854775808,9223372036854775807,{},[]],"
                                       "\"t\":true,\"f\":false,\"z\":null,\"r\":[1]}");
}
END_TEST

START_TEST(times_are_rfc3339_and_unset_ones_null)
{
    gh_auto(gh_buf_fini) struct gh_buf buf = GH_BUF_INIT;
    struct gh_jw w = {&buf, false};
    gh_jw_arr(&w, NULL);
    gh_jw_time(&w, NULL, 0);
    gh_jw_time(&w, NULL, -1);
    gh_jw_arr_end(&w);
    ck_assert_str_eq(gh_buf_str(&buf), "[\"1970-01-01T00:00:00.000Z\",null]");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("buf");
    TCase *t = tcase_create("buf");
    tcase_add_test(t, an_empty_buffer_reads_as_an_empty_string);
    tcase_add_test(t, puts_append_and_keep_the_end);
    tcase_add_test(t, growth_keeps_every_byte);
    tcase_add_test(t, a_length_that_overflows_fails_and_stays_failed);
    tcase_add_test(t, take_hands_over_and_leaves_a_usable_buffer);
    tcase_add_loop_test(t, json_strings_are_escaped_and_valid_utf8, 0,
                        (int)(sizeof strings / sizeof strings[0]));
    tcase_add_test(t, a_cut_sequence_reads_nothing_behind_the_end);
    tcase_add_test(t, the_writer_places_commas_and_keys);
    tcase_add_test(t, times_are_rfc3339_and_unset_ones_null);
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
