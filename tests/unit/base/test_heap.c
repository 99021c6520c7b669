/* test_heap: deadlines come out in order, whatever was set, moved and removed before. */
#include "base/heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "repeat.h"

enum { NODES = 200, STEPS = 20000 };

START_TEST(an_empty_heap_has_no_first)
{
    struct gh_heap heap = GH_HEAP_INIT;
    struct gh_due node = {0};
    ck_assert_ptr_null(gh_heap_first(&heap));
    gh_heap_remove(&heap, &node);
    ck_assert_ptr_null(gh_heap_first(&heap));
    gh_heap_fini(&heap);
}
END_TEST

START_TEST(the_first_is_the_earliest_also_after_a_move)
{
    gh_auto(gh_heap_fini) struct gh_heap heap = GH_HEAP_INIT;
    struct gh_due a = {0};
    struct gh_due b = {0};
    ck_assert(gh_heap_set(&heap, &a, 100));
    ck_assert(gh_heap_set(&heap, &b, 50));
    ck_assert_ptr_eq(gh_heap_first(&heap), &b);
    ck_assert(gh_heap_set(&heap, &b, 200));
    ck_assert_ptr_eq(gh_heap_first(&heap), &a);
    ck_assert(gh_heap_set(&heap, &b, -1));
    ck_assert_ptr_eq(gh_heap_first(&heap), &b);
    ck_assert_uint_eq(heap.n, 2);
}
END_TEST

START_TEST(a_removed_node_can_come_back)
{
    gh_auto(gh_heap_fini) struct gh_heap heap = GH_HEAP_INIT;
    struct gh_due a = {0};
    ck_assert(gh_heap_set(&heap, &a, 1));
    gh_heap_remove(&heap, &a);
    ck_assert_uint_eq(a.place, 0);
    ck_assert_ptr_null(gh_heap_first(&heap));
    gh_heap_remove(&heap, &a);
    ck_assert(gh_heap_set(&heap, &a, 2));
    ck_assert_ptr_eq(gh_heap_first(&heap), &a);
}
END_TEST

START_TEST(equal_deadlines_all_come_out)
{
    gh_auto(gh_heap_fini) struct gh_heap heap = GH_HEAP_INIT;
    struct gh_due nodes[NODES] = {0};
    for (int i = 0; i < NODES; i++) {
        ck_assert(gh_heap_set(&heap, &nodes[i], 7));
    }
    for (int i = 0; i < NODES; i++) {
        struct gh_due *first = gh_heap_first(&heap);
        ck_assert_ptr_nonnull(first);
        gh_heap_remove(&heap, first);
    }
    ck_assert_ptr_null(gh_heap_first(&heap));
}
END_TEST

static void check_heap(const struct gh_heap *heap, const struct gh_due *nodes)
{
    size_t n = 0;
    for (int i = 0; i < NODES; i++) {
        if (nodes[i].place != 0) {
            ck_assert_ptr_eq(heap->nodes[nodes[i].place], &nodes[i]);
            ck_assert_int_le(gh_heap_first(heap)->at_ms, nodes[i].at_ms);
            n++;
        }
    }
    ck_assert_uint_eq(heap->n, n);
}

START_TEST(a_long_walk_keeps_the_order)
{
    gh_auto(gh_heap_fini) struct gh_heap heap = GH_HEAP_INIT;
    struct gh_due nodes[NODES] = {0};
    unsigned seed = (unsigned)_i + 1;
    for (int step = 0; step < STEPS; step++) {
        struct gh_due *node = &nodes[rand_r(&seed) % NODES];
        if (rand_r(&seed) % 3 == 0) {
            gh_heap_remove(&heap, node);
        } else {
            ck_assert(gh_heap_set(&heap, node, rand_r(&seed) % 1000));
        }
        if (step % 100 == 0) {
            check_heap(&heap, nodes);
        }
    }
    int64_t last = INT64_MIN;
    for (struct gh_due *due = gh_heap_first(&heap); due != NULL; due = gh_heap_first(&heap)) {
        ck_assert_int_ge(due->at_ms, last);
        last = due->at_ms;
        gh_heap_remove(&heap, due);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("heap");
    TCase *t = tcase_create("heap");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, an_empty_heap_has_no_first);
    tcase_add_test(t, the_first_is_the_earliest_also_after_a_move);
    tcase_add_test(t, a_removed_node_can_come_back);
    tcase_add_test(t, equal_deadlines_all_come_out);
    tcase_add_loop_test(t, a_long_walk_keeps_the_order, 0, 2 * gh_test_repeat());
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
