#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "run/tail.h"

/* What is kept is always the end of what was put, whatever the pieces. */
START_TEST(keeps_the_last_bytes)
{
    static const char text[] = "abcdefghijklmnopqrstuvwxyz";
    for (size_t piece = 1; piece <= 26; piece++) {
        struct run_tail_ring ring = {.cap = 7};
        for (size_t at = 0; at < 26; at += piece) {
            run_ring_put(&ring, text + at, 26 - at < piece ? 26 - at : piece);
            struct gh_buf out = GH_BUF_INIT;
            size_t seen = (size_t)ring.total;
            uint64_t dropped = run_ring_get(&ring, &out);
            size_t kept = seen < 7 ? seen : 7;
            ck_assert_uint_eq(dropped, seen - kept);
            ck_assert_uint_eq(out.len, kept);
            ck_assert_mem_eq(gh_buf_str(&out), text + seen - kept, kept);
            gh_buf_fini(&out);
        }
        ck_assert_uint_eq(ring.total, 26);
        run_ring_fini(&ring);
    }
}
END_TEST

START_TEST(keeps_nothing_without_room)
{
    struct run_tail_ring ring = {.cap = 0};
    struct gh_buf out = GH_BUF_INIT;
    run_ring_put(&ring, "abc", 3);
    ck_assert_uint_eq(run_ring_get(&ring, &out), 3);
    ck_assert_uint_eq(out.len, 0);
    run_ring_fini(&ring);
}
END_TEST

START_TEST(is_empty_before_the_first_byte)
{
    struct run_tail_ring ring = {.cap = 10};
    struct gh_buf out = GH_BUF_INIT;
    ck_assert_uint_eq(run_ring_get(&ring, &out), 0);
    ck_assert_uint_eq(out.len, 0);
    ck_assert_ptr_null(ring.data);
    run_ring_fini(&ring);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_tail");
    TCase *all = tcase_create("all");
    tcase_add_test(all, keeps_the_last_bytes);
    tcase_add_test(all, keeps_nothing_without_room);
    tcase_add_test(all, is_empty_before_the_first_byte);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
