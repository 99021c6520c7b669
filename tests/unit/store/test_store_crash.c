/* Many threads at once, and a service that is killed in the middle of them. GH_REPEAT=n kills n
 * times; from 100 on, a log of a million rows is tried as well. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fs.h"
#include "scene.h"
#include "store/conn.h"

#define N_THREADS 8
#define N_EACH 400

static struct scene scene;

static void setup(void)
{
    scene = scene_new();
    scene_open(&scene);
}

static void teardown(void)
{
    scene_end(&scene);
}

static void assert_good(void)
{
    struct store_verify verify = scene_verify(&scene);
    ck_assert_msg(verify.is_ok, "row %d: %s", (int)verify.bad_seq, verify.reason);
}

/* ---- concurrency ---- */

/* Filled on the writer thread only, in the order of the answers. */
static int answered[N_THREADS * N_EACH];
static int n_answered;
static int n_refused;

static void note_answer(enum gh_code code, void *cookie)
{
    n_refused += code != GH_OK;
    answered[n_answered++] = (int)(intptr_t)cookie;
}

static void *submit(void *cookie)
{
    int from = (int)(intptr_t)cookie * N_EACH;
    for (int i = from; i < from + N_EACH; i++) {
        struct scene_space space;
        struct store_audit row = scene_row(i, &space);
        struct store_doc doc = {.kind = STORE_APPROVAL,
                                .id = space.ref,
                                .session = "",
                                .ref = "",
                                .state = "pending",
                                .body = "{}"};
        struct store_txn *txn = store_txn_new();
        store_txn_audit(txn, &row);
        if (i % 5 == 0) {
            store_txn_insert(txn, &doc);
        }
        store_commit(scene.store, &txn, note_answer, (void *)(intptr_t)i);
    }
    return NULL;
}

static void *read_on(void *cookie)
{
    atomic_bool *is_over = cookie;
    while (!*is_over) {
        struct store_row row = {0};
        enum gh_code code = store_get(scene.store, STORE_APPROVAL, "dec_000005", &row, NULL);
        ck_assert(code == GH_OK || code == GH_NOT_FOUND);
        store_row_fini(&row);
        assert_good();
        scene_health(&scene);
    }
    return NULL;
}

static bool compare_order(const struct store_audit_row *row, void *cookie)
{
    int *n = cookie;
    char ref[32];
    snprintf(ref, sizeof ref, "dec_%06d", answered[*n]);
    ck_assert_str_eq(row->row.ref, ref);
    ck_assert_uint_eq(row->seq, (uint64_t)++ * n);
    return true;
}

START_TEST(answers_come_in_the_order_of_the_rows)
{
    pthread_t writers[N_THREADS];
    pthread_t readers[2];
    atomic_bool is_over = false;
    n_answered = n_refused = 0;
    for (intptr_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&writers[i], NULL, submit, (void *)i), 0);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&readers[i], NULL, read_on, &is_over), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(writers[i], NULL);
    }
    struct store_txn *last = store_txn_new(); /* answered last, so the others are */
    ck_assert_int_eq(store_commit_wait(scene.store, &last, NULL), GH_OK);
    is_over = true;
    for (int i = 0; i < 2; i++) {
        pthread_join(readers[i], NULL);
    }
    ck_assert_int_eq(n_answered, N_THREADS * N_EACH);
    ck_assert_int_eq(n_refused, 0);
    struct store_audit_filter filter = {0};
    int n = 0;
    ck_assert_int_eq(store_audit_list(scene.store, &filter, compare_order, &n, NULL), GH_OK);
    ck_assert_int_eq(n, N_THREADS * N_EACH);
    ck_assert_int_eq(scene_sql_int(&scene, "SELECT count(*) FROM doc"), N_THREADS * N_EACH / 5);
    ck_assert_uint_lt(scene_health(&scene).n_commits, N_THREADS * N_EACH);
    assert_good();
}
END_TEST

/* What is queued when the store closes is still committed and answered. */
START_TEST(close_answers_what_is_queued)
{
    n_answered = n_refused = 0;
    submit((void *)0);
    scene_close(&scene);
    ck_assert_int_eq(n_answered, N_EACH);
    ck_assert_int_eq(n_refused, 0);
    scene_open(&scene);
    ck_assert_uint_eq(scene_health(&scene).n_rows, N_EACH);
    assert_good();
}
END_TEST

/* ---- kill ---- */

/* The child's: where acknowledged numbers go, and the next number. */
static int told_fd;
static atomic_int next_number;

static void tell_parent(enum gh_code code, void *cookie)
{
    int number = (int)(intptr_t)cookie;
    if (code == GH_OK && !gh_fs_write_all(told_fd, &number, sizeof number)) {
        _exit(9);
    }
}

static void *submit_for_ever(void *cookie)
{
    (void)cookie;
    for (;;) {
        int number = next_number++;
        struct scene_space space;
        struct store_audit row = scene_row(number, &space);
        struct store_doc doc = {.kind = STORE_APPROVAL,
                                .id = space.ref,
                                .session = "",
                                .ref = "",
                                .state = "",
                                .body = space.body};
        struct store_txn *txn = store_txn_new();
        store_txn_insert(txn, &doc);
        store_txn_audit(txn, &row);
        if (number % 3 == 0) {
            store_commit(scene.store, &txn, tell_parent, (void *)(intptr_t)number);
        } else if (store_commit_wait(scene.store, &txn, NULL) == GH_OK) {
            tell_parent(GH_OK, (void *)(intptr_t)number);
        }
    }
    return NULL;
}

static void run_child(int fd, int from)
{
    told_fd = fd;
    next_number = from;
    scene_open(&scene);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, submit_for_ever, NULL);
    }
    pthread_join(threads[0], NULL);
}

#define MAX_NUMBERS 2000000
static bool acknowledged[MAX_NUMBERS];

/* Read acknowledgements; kill after `n_before` of them; go on to the last. Returns the number
 * behind the largest. */
static int read_acknowledged(int fd, pid_t child, int n_before)
{
    int number = 0;
    int top = 0;
    for (int n = 0; read(fd, &number, sizeof number) == (ssize_t)sizeof number; n++) {
        ck_assert_int_lt(number, MAX_NUMBERS);
        acknowledged[number] = true;
        top = number >= top ? number + 1 : top;
        if (n == n_before) {
            kill(child, SIGKILL);
        }
    }
    return top;
}

static bool strike_off(const struct store_audit_row *row, void *cookie)
{
    (void)cookie;
    acknowledged[atoi(row->row.ref + 4)] = false;
    return true;
}

static int kill_once(int from, int n_before)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        close(ends[0]);
        run_child(ends[1], from);
        _exit(1);
    }
    close(ends[1]);
    int top = read_acknowledged(ends[0], child, n_before);
    close(ends[0]);
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return top;
}

static void check_after_kill(void)
{
    scene_open(&scene);
    struct store_health health = scene_health(&scene);
    ck_assert_msg(health.is_writable, "%s", health.reason);
    assert_good();
    struct store_audit_filter filter = {0};
    ck_assert_int_eq(store_audit_list(scene.store, &filter, strike_off, NULL, NULL), GH_OK);
    for (int i = 0; i < MAX_NUMBERS; i++) {
        ck_assert_msg(!acknowledged[i], "decision %d was acknowledged and is gone", i);
    }
    /* A transaction is there whole or not at all. */
    ck_assert_int_eq(
        scene_sql_int(&scene, "SELECT count(*) FROM audit"),
        scene_sql_int(&scene, "SELECT count(*) FROM doc JOIN audit ON id = audit.ref"));
    ck_assert_int_eq(scene_sql_int(&scene, "SELECT count(*) FROM audit"),
                     scene_sql_int(&scene, "SELECT count(*) FROM doc"));
}

START_TEST(killed_service_loses_nothing_it_acknowledged)
{
    scene_close(&scene);
    int from = 0;
    srand(1);
    for (int i = 0; i < scene_repeat(4); i++) {
        memset(acknowledged, 0, sizeof acknowledged);
        from = kill_once(from, rand() % 1500) + 1000; /* behind what was in flight */
        check_after_kill();
        scene_close(&scene);
        ck_assert(scene_verify(&scene).is_ok);
    }
    scene_open(&scene);
    struct store_verify verify = scene_verify(&scene);
    ck_assert_uint_eq(verify.n_checked, scene_health(&scene).n_rows);
    ck_assert_int_eq(scene_sql_int(&scene, "SELECT count(*) FROM pragma_integrity_check"
                                           " WHERE integrity_check = 'ok'"),
                     1);
}
END_TEST

/* ---- size ---- */

static bool count(const struct store_audit_row *row, void *cookie)
{
    (void)row;
    ++*(int *)cookie;
    return true;
}

START_TEST(million_rows_verify_and_list)
{
    if (scene_repeat(0) < 100) {
        printf("skipped: a million rows are tried with GH_REPEAT=100 or more\n");
        return;
    }
    for (int i = 0; i < 1000000; i += 10000) {
        scene_add_rows(&scene, i, i + 10000);
    }
    scene_reopen(&scene);
    assert_good();
    ck_assert_uint_eq(scene_verify(&scene).n_checked, 1000000);
    struct store_audit_filter filter = {.session = "ses_1", .newest_first = true};
    int n = 0;
    ck_assert_int_eq(store_audit_list(scene.store, &filter, count, &n, NULL), GH_OK);
    ck_assert_int_eq(n, 142857);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store_crash");
    TCase *tests = tcase_create("crash");
    tcase_set_timeout(tests, 3000);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, answers_come_in_the_order_of_the_rows);
    tcase_add_test(tests, close_answers_what_is_queued);
    tcase_add_test(tests, killed_service_loses_nothing_it_acknowledged);
    suite_add_tcase(suite, tests);
    TCase *million = tcase_create("million");
    tcase_set_timeout(million, 3000);
    tcase_add_checked_fixture(million, setup, teardown);
    tcase_add_test(million, million_rows_verify_and_list);
    suite_add_tcase(suite, million);
    return scene_main(suite);
}
