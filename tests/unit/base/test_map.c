/* test_map: the hash table, also against a plain list under a long random walk. */
#include "base/map.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "repeat.h"

START_TEST(an_empty_map_finds_and_removes_nothing)
{
    struct gh_map map = GH_MAP_INIT;
    size_t at = 0;
    ck_assert_ptr_null(gh_map_find(&map, "x"));
    ck_assert_ptr_null(gh_map_remove(&map, "x"));
    ck_assert_ptr_null(gh_map_next(&map, &at));
    gh_map_fini(&map);
}
END_TEST

START_TEST(put_replaces_by_content_of_the_key)
{
    gh_auto(gh_map_fini) struct gh_map map = GH_MAP_INIT;
    char key[] = "same";
    int one = 1;
    int two = 2;
    ck_assert(gh_map_put(&map, "same", &one));
    ck_assert(gh_map_put(&map, key, &two));
    ck_assert_uint_eq(map.n_used, 1);
    ck_assert_ptr_eq(gh_map_find(&map, "same"), &two);
    ck_assert_ptr_eq(gh_map_remove(&map, "same"), &two);
    ck_assert_uint_eq(map.n_used, 0);
    ck_assert_ptr_null(gh_map_find(&map, "same"));
}
END_TEST

START_TEST(an_empty_key_is_a_key)
{
    gh_auto(gh_map_fini) struct gh_map map = GH_MAP_INIT;
    int one = 1;
    ck_assert(gh_map_put(&map, "", &one));
    ck_assert_ptr_eq(gh_map_find(&map, ""), &one);
}
END_TEST

enum { KEYS = 300, STEPS = 20000 };

struct item {
    char key[16];
    bool is_in;
};

static void check_all(const struct gh_map *map, const struct item *items)
{
    size_t n = 0;
    for (int i = 0; i < KEYS; i++) {
        void *want = items[i].is_in ? (void *)&items[i] : NULL;
        ck_assert_ptr_eq(gh_map_find(map, items[i].key), want);
        n += items[i].is_in;
    }
    ck_assert_uint_eq(map->n_used, n);
    size_t seen = 0;
    size_t at = 0;
    for (struct item *item = gh_map_next(map, &at); item != NULL; item = gh_map_next(map, &at)) {
        ck_assert(item->is_in);
        seen++;
    }
    ck_assert_uint_eq(seen, n);
}

START_TEST(a_long_walk_agrees_with_a_list)
{
    /* Closing the gap after a removal is the part that goes wrong; runs of collisions need it. */
    gh_auto(gh_map_fini) struct gh_map map = GH_MAP_INIT;
    static struct item items[KEYS];
    for (int i = 0; i < KEYS; i++) {
        snprintf(items[i].key, sizeof items[i].key, "key-%d", i);
        items[i].is_in = false;
    }
    unsigned seed = (unsigned)_i + 1;
    for (int step = 0; step < STEPS; step++) {
        struct item *item = &items[rand_r(&seed) % KEYS];
        if (rand_r(&seed) % 2 == 0) {
            ck_assert(gh_map_put(&map, item->key, item));
            item->is_in = true;
        } else {
            ck_assert_ptr_eq(gh_map_remove(&map, item->key), item->is_in ? item : NULL);
            item->is_in = false;
        }
        if (step % 400 == 0) {
            check_all(&map, items);
        }
    }
    check_all(&map, items);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("map");
    TCase *t = tcase_create("map");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, an_empty_map_finds_and_removes_nothing);
    tcase_add_test(t, put_replaces_by_content_of_the_key);
    tcase_add_test(t, an_empty_key_is_a_key);
    tcase_add_loop_test(t, a_long_walk_agrees_with_a_list, 0, 2 * gh_test_repeat());
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
