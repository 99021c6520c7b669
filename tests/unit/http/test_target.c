/* The request target is decoded once and refused when two readers could differ about it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "http/inner.h"

static enum gh_code parse(const char *raw, char **ret, uint16_t *ret_n)
{
    size_t len = strlen(raw);
    /* Exactly the room that is promised to be enough: the sanitizer sees one byte more. */
    *ret = malloc(http_target_room(raw, len));
    ck_assert_ptr_nonnull(*ret);
    return http_target_parse(raw, *ret, ret_n);
}

static const char *const refused[] = {
    "",
    "v1",
    "*",
    "http://localhost/v1",
    "//v1",
    "/v1//a",
    "/x/../v1",
    "/..",
    "/.",
    "/a/.",
    "/a/..",
    "/a/./b",
    "/a\\b",
    "/a%5cb",
    "/%2e%2e/",
    "/..%2f",
    "/%2e%2e%2f",
    "/a%00",
    "/%c0%ae",
    "/a%0a",
    "/a%7f",
    "/a%zz",
    "/a%4",
    "/a%",
    "/a#b",
    "/a b",
    "/a\x01",
    "/a?x=%00",
    "/a?x=%ff",
    "/a?%ed%a0%80=1",
    "/a?x=%f5%80%80%80",
    "/a%80",
    "/a\xff",
    "/a%2f%2fb",
};

START_TEST(test_refused)
{
    char *out = NULL;
    uint16_t n = 7;
    ck_assert_int_eq(parse(refused[_i], &out, &n), GH_BAD_REQUEST);
    free(out);
}
END_TEST

static const struct {
    const char *raw;
    const char *path;
    uint16_t n;
    const char *first[2];
} taken[] = {
    {"/", "/", 0, {0}},
    {"/%76%31/", "/v1/", 0, {0}},
    {"/v1/..;/", "/v1/..;/", 0, {0}},
    {"/%252e%252e", "/%2e%2e", 0, {0}},
    {"/a...", "/a...", 0, {0}},
    {"/.a/..b", "/.a/..b", 0, {0}},
    {"/a%20b+c", "/a b+c", 0, {0}},
    {"/%e2%82%ac", "/\xe2\x82\xac", 0, {0}},
    {"/a?", "/a", 0, {0}},
    {"/a?b", "/a", 1, {"b", ""}},
    {"/a?b=", "/a", 1, {"b", ""}},
    {"/a?=c", "/a", 1, {"", "c"}},
    {"/a?b=c+d%2B&e=f", "/a", 2, {"b", "c d+"}},
    {"/a?b=c=d?e/../f", "/a", 1, {"b", "c=d?e/../f"}},
    {"/a?&&b=c&&", "/a", 1, {"b", "c"}},
    {"/a?b=%0a", "/a", 1, {"b", "\n"}},
};

START_TEST(test_taken)
{
    char *out = NULL;
    uint16_t n = 7;
    ck_assert_int_eq(parse(taken[_i].raw, &out, &n), GH_OK);
    ck_assert_str_eq(out, taken[_i].path);
    ck_assert_uint_eq(n, taken[_i].n);
    const char *name = out + strlen(out) + 1;
    if (n > 0) {
        ck_assert_str_eq(name, taken[_i].first[0]);
        ck_assert_str_eq(name + strlen(name) + 1, taken[_i].first[1]);
    }
    free(out);
}
END_TEST

START_TEST(test_bounds)
{
    char raw[HTTP_MAX_TARGET + 2];
    char *out = NULL;
    uint16_t n = 0;
    memset(raw, 'a', sizeof(raw));
    raw[0] = '/';
    raw[HTTP_MAX_TARGET] = '\0';
    ck_assert_int_eq(parse(raw, &out, &n), GH_OK);
    ck_assert_uint_eq(strlen(out), HTTP_MAX_TARGET);
    free(out);
    raw[HTTP_MAX_TARGET] = 'a';
    raw[HTTP_MAX_TARGET + 1] = '\0';
    ck_assert_int_eq(parse(raw, &out, &n), GH_URI_TOO_LONG);
    free(out);
    memset(raw, '\0', sizeof(raw));
    strcpy(raw, "/?");
    for (size_t i = 0; i < HTTP_MAX_PARAMS; i++) {
        strcat(raw, "a&");
    }
    ck_assert_int_eq(parse(raw, &out, &n), GH_OK);
    ck_assert_uint_eq(n, HTTP_MAX_PARAMS);
    free(out);
    strcat(raw, "a");
    ck_assert_int_eq(parse(raw, &out, &n), GH_BAD_REQUEST);
    free(out);
}
END_TEST

START_TEST(test_trace)
{
    static const char *const bad[] = {
        "",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-zz",
    };
    char out[33];
    ck_assert(http_target_trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", out));
    ck_assert_str_eq(out, "0af7651916cd43dd8448eb211c80319c");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        ck_assert_msg(!http_target_trace(bad[i], out), "%s", bad[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_target");
    TCase *tc = tcase_create("target");
    tcase_add_loop_test(tc, test_refused, 0, sizeof(refused) / sizeof(*refused));
    tcase_add_loop_test(tc, test_taken, 0, sizeof(taken) / sizeof(*taken));
    tcase_add_test(tc, test_bounds);
    tcase_add_test(tc, test_trace);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
