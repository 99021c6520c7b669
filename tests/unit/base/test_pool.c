/* test_pool: order, bounds, and that nothing queued is lost at the end. */
#include "base/pool.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static void count_up(void *cookie)
{
    atomic_fetch_add((atomic_int *)cookie, 1);
}

START_TEST(every_job_runs_once_before_free_returns)
{
    struct gh_pool *pool = NULL;
    struct gh_err err = {0};
    atomic_int ran = 0;
    ck_assert_int_eq(gh_pool_new(4, 2000, &pool, &err), GH_OK);
    for (int i = 0; i < 2000; i++) {
        ck_assert_int_eq(gh_pool_run(pool, count_up, &ran, &err), GH_OK);
    }
    gh_pool_free(pool);
    ck_assert_int_eq(ran, 2000);
}
END_TEST

struct order {
    int seen[100];
    int n;
};

struct step {
    struct order *order;
    int number;
};

static void note(void *cookie)
{
    struct step *step = cookie;
    step->order->seen[step->order->n++] = step->number;
}

START_TEST(one_thread_runs_jobs_in_order)
{
    struct gh_pool *pool = NULL;
    struct gh_err err = {0};
    struct order order = {.n = 0};
    struct step steps[100];
    ck_assert_int_eq(gh_pool_new(1, 100, &pool, &err), GH_OK);
    for (int i = 0; i < 100; i++) {
        steps[i] = (struct step){&order, i};
        ck_assert_int_eq(gh_pool_run(pool, note, &steps[i], &err), GH_OK);
    }
    gh_pool_free(pool);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(order.seen[i], i);
    }
}
END_TEST

/* A job that says it started and then waits until it is let go. */
struct latch {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool started;
    bool open;
};

static void hold(void *cookie)
{
    struct latch *latch = cookie;
    pthread_mutex_lock(&latch->lock);
    latch->started = true;
    pthread_cond_broadcast(&latch->wake);
    while (!latch->open) {
        pthread_cond_wait(&latch->wake, &latch->lock);
    }
    pthread_mutex_unlock(&latch->lock);
}

static void wait_started(struct latch *latch)
{
    pthread_mutex_lock(&latch->lock);
    while (!latch->started) {
        pthread_cond_wait(&latch->wake, &latch->lock);
    }
    pthread_mutex_unlock(&latch->lock);
}

static void let_go(struct latch *latch)
{
    pthread_mutex_lock(&latch->lock);
    latch->open = true;
    pthread_cond_broadcast(&latch->wake);
    pthread_mutex_unlock(&latch->lock);
}

START_TEST(a_full_queue_refuses_and_recovers)
{
    struct gh_pool *pool = NULL;
    struct gh_err err = {0};
    struct latch latch = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false};
    atomic_int ran = 0;
    ck_assert_int_eq(gh_pool_new(1, 2, &pool, &err), GH_OK);
    ck_assert_int_eq(gh_pool_run(pool, hold, &latch, &err), GH_OK);
    wait_started(&latch);
    ck_assert_int_eq(gh_pool_run(pool, count_up, &ran, &err), GH_OK);
    ck_assert_int_eq(gh_pool_run(pool, count_up, &ran, &err), GH_OK);
    ck_assert_int_eq(gh_pool_run(pool, count_up, &ran, &err), GH_BUSY);
    ck_assert_int_eq(err.code, GH_BUSY);
    ck_assert_int_eq(ran, 0);
    let_go(&latch);
    gh_pool_free(pool);
    ck_assert_int_eq(ran, 2);
}
END_TEST

/* A job that queues itself until `left` is used up, then lets go. */
struct chain {
    struct gh_pool *pool;
    atomic_int left;
    struct latch latch;
};

static void run_chain(void *cookie)
{
    struct chain *chain = cookie;
    struct gh_err err = {0};
    if (atomic_fetch_sub(&chain->left, 1) == 1) {
        let_go(&chain->latch);
        return;
    }
    ck_assert_int_eq(gh_pool_run(chain->pool, run_chain, chain, &err), GH_OK);
}

START_TEST(a_job_may_queue_the_next_one)
{
    struct chain chain = {
        NULL, 50, {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false}};
    struct gh_err err = {0};
    ck_assert_int_eq(gh_pool_new(2, 4, &chain.pool, &err), GH_OK);
    ck_assert_int_eq(gh_pool_run(chain.pool, run_chain, &chain, &err), GH_OK);
    hold(&chain.latch); /* returns when the last job has let go */
    gh_pool_free(chain.pool);
    ck_assert_int_eq(chain.left, 0);
}
END_TEST

START_TEST(freeing_nothing_is_fine)
{
    gh_pool_free(NULL);
    struct gh_pool *pool = NULL;
    struct gh_err err = {0};
    ck_assert_int_eq(gh_pool_new(3, 1, &pool, &err), GH_OK);
    gh_pool_free(pool);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("pool");
    TCase *t = tcase_create("pool");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_job_runs_once_before_free_returns);
    tcase_add_test(t, one_thread_runs_jobs_in_order);
    tcase_add_test(t, a_full_queue_refuses_and_recovers);
    tcase_add_test(t, a_job_may_queue_the_next_one);
    tcase_add_test(t, freeing_nothing_is_fine);
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
