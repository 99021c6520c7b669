/* The embedded page: complete, named as it is requested, typed, and small. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "api/assets.h"

static const struct api_asset *find(const char *path)
{
    for (size_t i = 0; i < api_n_assets; i++) {
        if (strcmp(api_assets[i].path, path) == 0) {
            return &api_assets[i];
        }
    }
    return NULL;
}

START_TEST(test_start_page)
{
    const struct api_asset *page = find("/");

    ck_assert_ptr_nonnull(page);
    ck_assert_str_eq(page->type, "text/html; charset=utf-8");
    ck_assert_uint_eq(page->size, strlen((const char *)page->data));
    ck_assert_int_eq(strncmp((const char *)page->data, "<!doctype html>", 15), 0);
    ck_assert_ptr_null(find("/index.html"));
}
END_TEST

START_TEST(test_types)
{
    ck_assert_str_eq(find("/app.js")->type, "text/javascript; charset=utf-8");
    ck_assert_str_eq(find("/style.css")->type, "text/css; charset=utf-8");
    ck_assert_str_eq(find("/icon.svg")->type, "image/svg+xml");
}
END_TEST

START_TEST(test_rows)
{
    size_t total_bytes = 0;

    for (size_t i = 0; i < api_n_assets; i++) {
        const struct api_asset *a = &api_assets[i];

        total_bytes += a->size;
        ck_assert_uint_eq(strspn(a->path, "/abcdefghijklmnopqrstuvwxyz.-"), strlen(a->path));
        ck_assert_ptr_eq(find(a->path), a);
        ck_assert_uint_gt(a->size, 0);
        ck_assert_uint_eq(a->data[a->size], 0);
        ck_assert_uint_eq(strlen(a->etag), 34);
        ck_assert_int_eq(a->etag[0], '"');
        ck_assert_int_eq(a->etag[33], '"');
    }
    ck_assert_uint_lt(total_bytes, 100 * 1024);
}
END_TEST

/* The policy sent with the page allows neither: what holds one would silently not work. */
START_TEST(test_no_inline_code)
{
    static const char *const refused[] = {"innerHTML", "outerHTML",      "insertAdjacentHTML",
                                          " style=",   "document.write", "eval("};

    for (size_t i = 0; i < api_n_assets; i++) {
        for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
            ck_assert_msg(!strstr((const char *)api_assets[i].data, refused[k]), "%s has %s",
                          api_assets[i].path, refused[k]);
        }
    }
}
END_TEST

/* Every module that a module imports is in the table. */
START_TEST(test_imports)
{
    size_t n_imports = 0;

    for (size_t i = 0; i < api_n_assets; i++) {
        const char *p = (const char *)api_assets[i].data;

        while ((p = strstr(p, "from './"))) {
            char path[64] = "/";
            size_t len = strcspn(p + 8, "'");

            ck_assert_uint_lt(len, sizeof path - 1);
            memcpy(path + 1, p + 8, len);
            ck_assert_msg(find(path) != NULL, "%s imports %s", api_assets[i].path, path);
            p += 8;
            n_imports++;
        }
    }
    ck_assert_uint_gt(n_imports, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("assets");
    TCase *all = tcase_create("all");
    SRunner *runner;
    int failed;

    tcase_add_test(all, test_start_page);
    tcase_add_test(all, test_types);
    tcase_add_test(all, test_rows);
    tcase_add_test(all, test_no_inline_code);
    tcase_add_test(all, test_imports);
    suite_add_tcase(suite, all);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
