/* test_id: identifiers, digests, constant-time compare. */
#include "base/id.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "repeat.h"

static void setup(void)
{
    ck_assert(gh_id_init());
}

START_TEST(ids_have_their_form_and_sort_by_creation)
{
    char last[GH_ID];
    gh_id_new("dec", last);
    ck_assert(gh_id_valid(last, "dec"));
    for (int i = 0; i < 20000 * gh_test_repeat(); i++) {
        char next[GH_ID];
        gh_id_new("dec", next);
        ck_assert_int_lt(strcmp(last, next), 0);
        memcpy(last, next, sizeof last);
    }
}
END_TEST

START_TEST(the_random_part_differs)
{
    /* 13 digits hold the 64-bit stamp; the 19 behind them are random only. */
    char a[GH_ID];
    char b[GH_ID];
    gh_id_new("ses", a);
    gh_id_new("ses", b);
    ck_assert_str_ne(a + 4 + 13, b + 4 + 13);
}
END_TEST

static const struct {
    const char *name, *text;
    bool want;
} forms[] = {
    {"good", "apr_0123456789abcdefghjkmnpqrstvwxyz", true},
    {"other prefix", "dec_0123456789abcdefghjkmnpqrstvwxyz", false},
    {"too short", "apr_0123456789abcdefghjkmnpqrstvwxy", false},
    {"too long", "apr_0123456789abcdefghjkmnpqrstvwxyz0", false},
    {"letter i", "apr_0123456789abcdefghijkmnpqrstvwxy", false},
    {"upper case", "apr_0123456789ABCDEFGHJKMNPQRSTVWXYZ", false},
    {"slash", "apr_../../../../etc/passwd0000000000", false},
    {"no underscore", "apr-0123456789abcdefghjkmnpqrstvwxyz", false},
    {"empty", "", false},
};

START_TEST(only_well_formed_ids_are_valid)
{
    ck_assert_msg(gh_id_valid(forms[_i].text, "apr") == forms[_i].want, "%s", forms[_i].name);
}
END_TEST

enum { THREADS = 4, EACH = 5000 };

static void *make_many(void *out)
{
    char(*ids)[GH_ID] = out;
    for (int i = 0; i < EACH; i++) {
        gh_id_new("tok", ids[i]);
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

START_TEST(threads_never_get_the_same_id)
{
    char(*ids)[GH_ID] = calloc(THREADS * EACH, sizeof *ids);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, make_many, ids + (size_t)i * EACH), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    qsort(ids, THREADS * EACH, sizeof *ids, compare);
    for (size_t i = 1; i < THREADS * EACH; i++) {
        /* The first 13 digits hold the stamp, which alone is unique within a process. */
        ck_assert_int_lt(memcmp(ids[i - 1], ids[i], 4 + 13), 0);
    }
    free(ids);
}
END_TEST

static const char abc_hex[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

START_TEST(sha256_is_the_standard_one)
{
    unsigned char digest[GH_SHA256];
    char hex[GH_HEX];
    gh_id_sha256("abc", 3, digest);
    gh_id_hex(digest, hex);
    ck_assert_str_eq(hex, abc_hex);
    gh_id_sha256_2("a", 1, "bc", 2, digest);
    gh_id_hex(digest, hex);
    ck_assert_str_eq(hex, abc_hex);
}
END_TEST

static int temp_file(const void *data, size_t len)
{
    char path[] = "/tmp/gh-id-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    ck_assert_int_eq(write(fd, data, len), (ssize_t)len);
    return fd;
}

START_TEST(a_file_is_hashed_from_its_start_within_the_limit)
{
    gh_autoclose int fd = temp_file("abc", 3);
    unsigned char digest[GH_SHA256];
    char hex[GH_HEX];
    ck_assert(gh_id_sha256_fd(fd, 3, digest));
    gh_id_hex(digest, hex);
    ck_assert_str_eq(hex, abc_hex);
    ck_assert(!gh_id_sha256_fd(fd, 2, digest));
}
END_TEST

START_TEST(a_file_of_several_chunks_hashes_as_one)
{
    enum { LEN = 50001 };
    gh_autofree char *data = malloc(LEN);
    memset(data, 'q', LEN);
    gh_autoclose int fd = temp_file(data, LEN);
    unsigned char want[GH_SHA256];
    unsigned char got[GH_SHA256];
    gh_id_sha256(data, LEN, want);
    ck_assert(gh_id_sha256_fd(fd, LEN, got));
    ck_assert(gh_id_equal(want, got, sizeof got));
}
END_TEST

START_TEST(an_unreadable_descriptor_gives_no_digest)
{
    unsigned char digest[GH_SHA256];
    gh_autoclose int dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert(!gh_id_sha256_fd(dir, 100, digest));
    ck_assert(!gh_id_sha256_fd(-1, 100, digest));
}
END_TEST

START_TEST(equal_sees_the_first_and_the_last_byte)
{
    ck_assert(gh_id_equal("abcd", "abcd", 4));
    ck_assert(!gh_id_equal("abcd", "abcx", 4));
    ck_assert(!gh_id_equal("abcd", "xbcd", 4));
}
END_TEST

START_TEST(random_bytes_differ)
{
    unsigned char a[32] = {0};
    unsigned char b[32] = {0};
    gh_id_random(a, sizeof a);
    gh_id_random(b, sizeof b);
    ck_assert_mem_ne(a, b, sizeof a);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("id");
    TCase *t = tcase_create("id");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, ids_have_their_form_and_sort_by_creation);
    tcase_add_test(t, the_random_part_differs);
    tcase_add_loop_test(t, only_well_formed_ids_are_valid, 0,
                        (int)(sizeof forms / sizeof forms[0]));
    tcase_add_test(t, threads_never_get_the_same_id);
    tcase_add_test(t, sha256_is_the_standard_one);
    tcase_add_test(t, a_file_is_hashed_from_its_start_within_the_limit);
    tcase_add_test(t, a_file_of_several_chunks_hashes_as_one);
    tcase_add_test(t, an_unreadable_descriptor_gives_no_digest);
    tcase_add_test(t, equal_sees_the_first_and_the_last_byte);
    tcase_add_test(t, random_bytes_differ);
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
