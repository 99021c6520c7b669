/* test_json: what strangers send is read strictly, and errors name the field. */
#include "base/json.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

static const struct {
    const char *name, *text;
    enum gh_code want;
} documents[] = {
    {"object", "{\"a\":1}", GH_OK},
    {"array", "[1,2]", GH_OK},
    {"blanks around", " \n{} \t", GH_OK},
    {"empty", "", GH_BAD_JSON},
    {"a bare number", "1", GH_BAD_JSON},
    {"text behind", "{} x", GH_BAD_JSON},
    {"two documents", "{}{}", GH_BAD_JSON},
    {"duplicate key", "{\"a\":1,\"a\":2}", GH_BAD_JSON},
    {"duplicate key by escape", "{\"a\":1,\"\\u0061\":2}", GH_BAD_JSON},
    {"NUL in a string", "[\"\\u0000\"]", GH_BAD_JSON},
    {"NUL in a key", "{\"\\u0000\":1}", GH_BAD_JSON},
    {"invalid UTF-8", "[\"\xC0\xAF\"]", GH_BAD_JSON},
    {"lone surrogate", "[\"\\ud800\"]", GH_BAD_JSON},
    {"raw control byte", "[\"\x01\"]", GH_BAD_JSON},
    {"comment", "[1/**/]", GH_BAD_JSON},
    {"trailing comma", "[1,]", GH_BAD_JSON},
    {"NaN", "[NaN]", GH_BAD_JSON},
    {"number too large", "[1e999]", GH_BAD_JSON},
    {"integer too large", "[99999999999999999999]", GH_BAD_JSON},
    {"cut", "{\"a\":", GH_BAD_JSON},
};

START_TEST(documents_are_taken_or_refused)
{
    gh_auto(gh_json_freep) struct json_t *value = NULL;
    struct gh_err err = {0};
    enum gh_code code = gh_json_parse(documents[_i].text, strlen(documents[_i].text), &value, &err);
    ck_assert_msg(code == documents[_i].want, "%s: %s", documents[_i].name, err.detail);
    ck_assert_msg((value != NULL) == (code == GH_OK), "%s", documents[_i].name);
}
END_TEST

START_TEST(an_error_never_quotes_the_input)
{
    struct json_t *value = NULL;
    struct gh_err err = {0};
    static const char text[] = "{\"<script>evil\" 1}";
    ck_assert_int_eq(gh_json_parse(text, strlen(text), &value, &err), GH_BAD_JSON);
    ck_assert_ptr_null(strstr(err.detail, "evil"));
    ck_assert_ptr_null(strchr(err.detail, '<'));
    ck_assert_ptr_nonnull(strstr(err.detail, "line 1"));
}
END_TEST

static enum gh_code parse_nested(size_t depth, bool closed)
{
    gh_autofree char *text = malloc(2 * depth);
    gh_auto(gh_json_freep) struct json_t *value = NULL;
    struct gh_err err = {0};
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    return gh_json_parse(text, closed ? 2 * depth : depth, &value, &err);
}

START_TEST(nesting_is_bounded_before_the_parser_recurses)
{
    ck_assert_int_eq(parse_nested(GH_JSON_DEPTH, true), GH_OK);
    ck_assert_int_eq(parse_nested(GH_JSON_DEPTH + 1, true), GH_BAD_JSON);
    ck_assert_int_eq(parse_nested(1000000, false), GH_BAD_JSON);
}
END_TEST

START_TEST(brackets_in_strings_are_no_nesting)
{
    char text[300];
    gh_auto(gh_json_freep) struct json_t *value = NULL;
    struct gh_err err = {0};
    memset(text, '[', sizeof text);
    memcpy(text, "[\"\\\"", 4);
    memcpy(text + 298, "\"]", 2);
    ck_assert_int_eq(gh_json_parse(text, sizeof text, &value, &err), GH_OK);
}
END_TEST

static struct json_t *parse(const char *text)
{
    struct json_t *value = NULL;
    struct gh_err err = {0};
    ck_assert_int_eq(gh_json_parse(text, strlen(text), &value, &err), GH_OK);
    return value;
}

START_TEST(unknown_fields_are_named_by_pointer)
{
    static const char *const names[] = {"a", "b", NULL};
    gh_auto(gh_json_freep) struct json_t *good = parse("{\"b\":1}");
    gh_auto(gh_json_freep) struct json_t *bad = parse("{\"a\":1,\"c/~\\n\":2}");
    gh_auto(gh_json_freep) struct json_t *array = parse("[1]");
    struct gh_err err = {0};
    ck_assert_int_eq(gh_json_only(good, "", names, &err), GH_OK);
    ck_assert_int_eq(gh_json_only(bad, "/x", names, &err), GH_UNKNOWN_FIELD);
    ck_assert_str_eq(err.pointer, "/x/c~1~0?");
    ck_assert_int_eq(gh_json_only(array, "/x", names, &err), GH_INVALID);
    ck_assert_str_eq(err.pointer, "/x");
    ck_assert_int_eq(gh_json_only(NULL, "", names, &err), GH_INVALID);
}
END_TEST

START_TEST(an_endless_key_gives_a_cut_pointer)
{
    static const char *const names[] = {NULL};
    char text[2100];
    struct gh_err err = {0};
    memset(text, '/', sizeof text);
    memcpy(text, "{\"", 2);
    strcpy(text + 2000, "\":1}");
    gh_auto(gh_json_freep) struct json_t *bad = parse(text);
    ck_assert_int_eq(gh_json_only(bad, "", names, &err), GH_UNKNOWN_FIELD);
    ck_assert_uint_lt(strlen(err.pointer), sizeof err.pointer);
    ck_assert_uint_gt(strlen(err.pointer), 100);
}
END_TEST

START_TEST(strings_are_bounded_and_typed)
{
    gh_auto(gh_json_freep) struct json_t *obj = parse("{\"s\":\"abc\",\"n\":null,\"i\":1}");
    struct gh_err err = {0};
    const char *got = "kept";
    ck_assert_int_eq(gh_json_str(obj, "", "none", GH_OPTIONAL, 9, &got, &err), GH_OK);
    ck_assert_int_eq(gh_json_str(obj, "", "n", GH_OPTIONAL, 9, &got, &err), GH_OK);
    ck_assert_str_eq(got, "kept");
    ck_assert_int_eq(gh_json_str(obj, "", "n", GH_NEED, 9, &got, &err), GH_INVALID);
    ck_assert_int_eq(gh_json_str(obj, "/at", "none", GH_NEED, 9, &got, &err), GH_INVALID);
    ck_assert_str_eq(err.pointer, "/at/none");
    ck_assert_int_eq(gh_json_str(obj, "", "i", GH_OPTIONAL, 9, &got, &err), GH_INVALID);
    ck_assert_int_eq(gh_json_str(obj, "", "s", GH_NEED, 2, &got, &err), GH_INVALID);
    ck_assert_str_eq(got, "kept");
    ck_assert_int_eq(gh_json_str(obj, "", "s", GH_NEED, 3, &got, &err), GH_OK);
    ck_assert_str_eq(got, "abc");
}
END_TEST

static const struct {
    const char *text;
    enum gh_code want;
    int64_t value;
} integers[] = {
    {"{\"k\":1}", GH_OK, 1},
    {"{\"k\":10}", GH_OK, 10},
    {"{\"k\":0}", GH_INVALID, -7},
    {"{\"k\":11}", GH_INVALID, -7},
    {"{\"k\":1.0}", GH_INVALID, -7},
    {"{\"k\":\"5\"}", GH_INVALID, -7},
    {"{\"k\":true}", GH_INVALID, -7},
    {"{\"k\":null}", GH_OK, -7},
    {"{}", GH_OK, -7},
};

START_TEST(integers_are_whole_and_in_range)
{
    gh_auto(gh_json_freep) struct json_t *obj = parse(integers[_i].text);
    struct gh_err err = {0};
    int64_t got = -7;
    ck_assert_int_eq(gh_json_int(obj, "", "k", GH_OPTIONAL, 1, 10, &got, &err), integers[_i].want);
    ck_assert_int_eq(got, integers[_i].value);
}
END_TEST

static const struct {
    const char *text;
    bool cap;
    enum gh_code want;
    int64_t value_ms;
} durations[] = {
    {"{\"k\":1}", false, GH_OK, 1000},        {"{\"k\":0.25}", false, GH_OK, 250},
    {"{\"k\":60}", false, GH_OK, 60000},      {"{\"k\":61}", false, GH_INVALID, -7},
    {"{\"k\":61}", true, GH_OK, 60000},       {"{\"k\":1e300}", true, GH_OK, 60000},
    {"{\"k\":1e300}", false, GH_INVALID, -7}, {"{\"k\":0}", true, GH_INVALID, -7},
    {"{\"k\":-1}", true, GH_INVALID, -7},     {"{\"k\":-1e300}", true, GH_INVALID, -7},
    {"{\"k\":\"9\"}", true, GH_INVALID, -7},  {"{\"k\":true}", true, GH_INVALID, -7},
    {"{\"k\":null}", false, GH_OK, -7},       {"{}", true, GH_OK, -7},
};

START_TEST(seconds_become_milliseconds_within_bounds)
{
    gh_auto(gh_json_freep) struct json_t *obj = parse(durations[_i].text);
    struct gh_err err = {0};
    int64_t got_ms = -7;
    ck_assert_int_eq(gh_json_secs(obj, "", "k", 250, 60000, durations[_i].cap, &got_ms, &err),
                     durations[_i].want);
    ck_assert_int_eq(got_ms, durations[_i].value_ms);
}
END_TEST

START_TEST(booleans_objects_and_arrays_are_typed)
{
    gh_auto(gh_json_freep) struct json_t *obj =
        parse("{\"t\":true,\"f\":false,\"o\":{\"x\":1},\"a\":[1,2],\"i\":0}");
    struct gh_err err = {0};
    bool flag = false;
    const struct json_t *got = NULL;
    ck_assert_int_eq(gh_json_bool(obj, "", "t", &flag, &err), GH_OK);
    ck_assert(flag);
    ck_assert_int_eq(gh_json_bool(obj, "", "none", &flag, &err), GH_OK);
    ck_assert(flag);
    ck_assert_int_eq(gh_json_bool(obj, "", "i", &flag, &err), GH_INVALID);
    ck_assert_int_eq(gh_json_bool(obj, "", "f", &flag, &err), GH_OK);
    ck_assert(!flag);

    ck_assert_int_eq(gh_json_obj(obj, "", "a", GH_NEED, &got, &err), GH_INVALID);
    ck_assert_int_eq(gh_json_obj(obj, "", "none", GH_OPTIONAL, &got, &err), GH_OK);
    ck_assert_ptr_null(got);
    ck_assert_int_eq(gh_json_obj(obj, "", "o", GH_NEED, &got, &err), GH_OK);
    ck_assert_uint_eq(gh_json_len(got), 1);

    ck_assert_int_eq(gh_json_arr(obj, "", "o", GH_NEED, 9, &got, &err), GH_INVALID);
    ck_assert_int_eq(gh_json_arr(obj, "", "a", GH_NEED, 1, &got, &err), GH_INVALID);
    ck_assert_int_eq(gh_json_arr(obj, "", "a", GH_NEED, 2, &got, &err), GH_OK);
    ck_assert_uint_eq(gh_json_len(got), 2);
}
END_TEST

START_TEST(loose_getters_have_safe_answers)
{
    gh_auto(gh_json_freep) struct json_t *obj = parse("{\"a\":[\"x\",5,true,null]}");
    const struct json_t *arr = gh_json_get(obj, "a");
    ck_assert_str_eq(gh_json_text(gh_json_at(arr, 0)), "x");
    ck_assert_ptr_null(gh_json_text(gh_json_at(arr, 1)));
    ck_assert_int_eq(gh_json_number(gh_json_at(arr, 1), 9), 5);
    ck_assert_int_eq(gh_json_number(gh_json_at(arr, 0), 9), 9);
    ck_assert(gh_json_true(gh_json_at(arr, 2)));
    ck_assert(!gh_json_true(gh_json_at(arr, 1)));
    ck_assert_ptr_null(gh_json_at(arr, 4));
    ck_assert_ptr_null(gh_json_get(obj, "b"));
    ck_assert_uint_eq(gh_json_len(gh_json_at(arr, 0)), 0);
    ck_assert_uint_eq(gh_json_len(NULL), 0);
    ck_assert(!gh_json_true(NULL));
    ck_assert_ptr_null(gh_json_text(NULL));
    gh_json_free(NULL);
}
END_TEST

static void add_up(const char *key, const struct json_t *value, void *cookie)
{
    *(int64_t *)cookie += gh_json_number(value, 0) * (int64_t)strlen(key);
}

START_TEST(each_visits_every_member)
{
    gh_auto(gh_json_freep) struct json_t *obj = parse("{\"a\":1,\"bb\":10,\"ccc\":100}");
    int64_t sum = 0;
    gh_json_each(obj, add_up, &sum);
    ck_assert_int_eq(sum, 321);
}
END_TEST

START_TEST(the_canonical_form_is_one_for_equal_values)
{
    gh_auto(gh_json_freep) struct json_t *one =
        parse("{ \"b\" : [1, {\"z\":null,\"y\":\"\\u00e9/\"}], \"a\":1.5 }");
    gh_auto(gh_json_freep) struct json_t *two =
        parse("{\"a\":15e-1,\"b\":[1,{\"y\":\"\xC3\xA9\\/\",\"z\":null}]}");
    gh_auto(gh_buf_fini) struct gh_buf a = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf b = GH_BUF_INIT;
    gh_json_canonical(one, &a);
    gh_json_canonical(two, &b);
    ck_assert_str_eq(gh_buf_str(&a), "{\"a\":1.5,\"b\":[1,{\"y\":\"\xC3\xA9/\",\"z\":null}]}");
    ck_assert_str_eq(gh_buf_str(&a), gh_buf_str(&b));
    gh_json_canonical(gh_json_get(one, "a"), &b);
    ck_assert(!b.failed);
    gh_json_canonical(NULL, &b);
    ck_assert(b.failed);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, documents_are_taken_or_refused, 0,
                        (int)(sizeof documents / sizeof documents[0]));
    tcase_add_test(t, an_error_never_quotes_the_input);
    tcase_add_test(t, nesting_is_bounded_before_the_parser_recurses);
    tcase_add_test(t, brackets_in_strings_are_no_nesting);
    tcase_add_test(t, unknown_fields_are_named_by_pointer);
    tcase_add_test(t, an_endless_key_gives_a_cut_pointer);
    tcase_add_test(t, strings_are_bounded_and_typed);
    tcase_add_loop_test(t, integers_are_whole_and_in_range, 0,
                        (int)(sizeof integers / sizeof integers[0]));
    tcase_add_loop_test(t, seconds_become_milliseconds_within_bounds, 0,
                        (int)(sizeof durations / sizeof durations[0]));
    tcase_add_test(t, booleans_objects_and_arrays_are_typed);
    tcase_add_test(t, loose_getters_have_safe_answers);
    tcase_add_test(t, each_visits_every_member);
    tcase_add_test(t, the_canonical_form_is_one_for_equal_values);
}

int main(void)
{
    Suite *s = suite_create("json");
    TCase *t = tcase_create("json");
    add_tests(t);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
