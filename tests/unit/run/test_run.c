#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/run.h"

/* Commands run for real, confined as this kernel can; a test that needs more says so. */

struct heard {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct run_result result;
    bool is_over;
    uint64_t n_data[2];
};

static char folder[] = "/tmp/gh-run-XXXXXX";
static struct run *run;

static void on_data(enum run_stream stream, const char *data, size_t len, uint64_t offset,
                    void *cookie)
{
    struct heard *heard = cookie;
    (void)data;
    pthread_mutex_lock(&heard->lock);
    ck_assert_uint_eq(offset, heard->n_data[stream]);
    heard->n_data[stream] += len;
    pthread_cond_broadcast(&heard->changed);
    pthread_mutex_unlock(&heard->lock);
}

static void on_end(const struct run_result *result, void *cookie)
{
    struct heard *heard = cookie;
    pthread_mutex_lock(&heard->lock);
    heard->result = *result;
    heard->is_over = true;
    pthread_cond_broadcast(&heard->changed);
    pthread_mutex_unlock(&heard->lock);
}

static void heard_init(struct heard *heard)
{
    memset(heard, 0, sizeof *heard);
    pthread_mutex_init(&heard->lock, NULL);
    pthread_cond_init(&heard->changed, NULL);
}

static void wait_over(struct heard *heard)
{
    pthread_mutex_lock(&heard->lock);
    while (!heard->is_over) {
        pthread_cond_wait(&heard->changed, &heard->lock);
    }
    pthread_mutex_unlock(&heard->lock);
}

static void wait_data(struct heard *heard, enum run_stream stream, uint64_t n)
{
    pthread_mutex_lock(&heard->lock);
    while (heard->n_data[stream] < n) {
        pthread_cond_wait(&heard->changed, &heard->lock);
    }
    pthread_mutex_unlock(&heard->lock);
}

static const char *roots[] = {folder, NULL};

static void spec_init(struct run_spec *spec, const char *const *argv, struct heard *heard)
{
    *spec = (struct run_spec){.argv = argv,
                              .cwd = folder,
                              .write_roots = roots,
                              .unix_sockets = RUN_CONTAINED,
                              .leaving_group = RUN_CONTAINED,
                              .protect_git = true,
                              .require_enforcement = true,
                              .timeout_ms = 60000,
                              .tail_bytes = 4096,
                              .on_data = on_data,
                              .on_end = on_end,
                              .cookie = heard};
}

static struct run_job *start(const struct run_spec *spec)
{
    struct run_job *job = NULL;
    struct gh_err err = {0};
    if (run_spawn(run, spec, &job, &err) != GH_OK) {
        ck_abort_msg("%s", err.detail);
    }
    run_watch(job);
    return job;
}

static void setup(void)
{
    struct gh_err err = {0};
    signal(SIGPIPE, SIG_IGN);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    if (run_new(&run, &err) != GH_OK) {
        ck_abort_msg("%s", err.detail);
    }
}

static void teardown(void)
{
    run_free(run);
    rmdir(folder);
}

#define SHELL(text) ((const char *const[]){"sh", "-c", text, NULL})

START_TEST(tells_exit_code_and_both_streams)
{
    struct heard heard;
    struct run_spec spec;
    heard_init(&heard);
    spec_init(&spec, SHELL("echo out; echo err >&2; exit 7"), &heard);
    struct run_job *job = start(&spec);
    wait_over(&heard);
    struct gh_buf out = GH_BUF_INIT;
    struct gh_buf errors = GH_BUF_INIT;
    ck_assert_int_eq(heard.result.end, RUN_EXITED);
    ck_assert_int_eq(heard.result.exit_code, 7);
    ck_assert_uint_eq(run_tail(job, RUN_STDOUT, &out), 0);
    ck_assert_uint_eq(run_tail(job, RUN_STDERR, &errors), 0);
    ck_assert_str_eq(gh_buf_str(&out), "out\n");
    ck_assert_str_eq(gh_buf_str(&errors), "err\n");
    ck_assert_int_eq(run_job_report(job)->enforcement, run_abilities(run)->enforcement);
    gh_buf_fini(&out);
    gh_buf_fini(&errors);
    run_job_free(job);
}
END_TEST

START_TEST(tells_a_signal)
{
    struct heard heard;
    struct run_spec spec;
    heard_init(&heard);
    spec_init(&spec, SHELL("kill -TERM $$"), &heard);
    struct run_job *job = start(&spec);
    wait_over(&heard);
    ck_assert_int_eq(heard.result.end, RUN_SIGNALED);
    ck_assert_int_eq(heard.result.signal, SIGTERM);
    run_job_free(job);
}
END_TEST

START_TEST(counts_what_it_drops)
{
    struct heard heard;
    struct run_spec spec;
    heard_init(&heard);
    spec_init(&spec, SHELL("head -c 1000000 /dev/zero | tr '\\0' x; printf END"), &heard);
    struct run_job *job = start(&spec);
    wait_over(&heard);
    struct gh_buf out = GH_BUF_INIT;
    ck_assert_uint_eq(run_tail(job, RUN_STDOUT, &out), 1000003 - 4096);
    ck_assert_uint_eq(out.len, 4096);
    ck_assert_str_eq(gh_buf_str(&out) + 4093, "END");
    ck_assert_uint_eq(heard.n_data[RUN_STDOUT], 1000003);
    gh_buf_fini(&out);
    run_job_free(job);
}
END_TEST

START_TEST(keeps_the_tail_at_the_timeout)
{
    struct heard heard;
    struct run_spec spec;
    heard_init(&heard);
    spec_init(&spec, SHELL("echo before; sleep 600"), &heard);
    spec.timeout_ms = 300;
    struct run_job *job = start(&spec);
    wait_over(&heard);
    struct gh_buf out = GH_BUF_INIT;
    run_tail(job, RUN_STDOUT, &out);
    ck_assert_int_eq(heard.result.end, RUN_TIMED_OUT);
    ck_assert_str_eq(gh_buf_str(&out), "before\n");
    gh_buf_fini(&out);
    run_job_free(job);
}
END_TEST

START_TEST(does_not_wait_for_a_job_in_the_background)
{
    struct heard heard;
    struct run_spec spec;
    heard_init(&heard);
    spec_init(&spec, SHELL("sleep 600 & echo hi"), &heard);
    struct run_job *job = start(&spec);
    wait_over(&heard);
    ck_assert_int_eq(heard.result.end, RUN_EXITED);
    ck_assert_int_eq(heard.result.exit_code, 0);
    ck_assert_int_lt(heard.result.duration_ms, 60000);
    run_job_free(job);
}
END_TEST

START_TEST(kills_when_asked)
{
    struct heard heard;
    struct run_spec spec;
    heard_init(&heard);
    spec_init(&spec, SHELL("trap '' TERM HUP INT; echo up; while :; do sleep 1; done"), &heard);
    struct run_job *job = start(&spec);
    wait_data(&heard, RUN_STDOUT, 3);
    run_kill(job);
    run_kill(job);
    wait_over(&heard);
    ck_assert_int_eq(heard.result.end, RUN_KILLED);
    run_job_free(job);
}
END_TEST

START_TEST(feeds_input_and_ends_it)
{
    struct heard heard;
    struct run_spec spec;
    heard_init(&heard);
    spec_init(&spec, SHELL("wc -c"), &heard);
    char *input = calloc(1, 300000);
    memset(input, 'x', 300000); /* more than a pipe holds */
    spec.input = input;
    spec.input_len = 300000;
    struct run_job *job = start(&spec);
    wait_over(&heard);
    struct gh_buf out = GH_BUF_INIT;
    run_tail(job, RUN_STDOUT, &out);
    ck_assert_str_eq(gh_buf_str(&out), "300000\n");
    gh_buf_fini(&out);
    free(input);
    run_job_free(job);
}
END_TEST

START_TEST(has_no_input_unless_asked)
{
    struct heard heard;
    struct run_spec spec;
    heard_init(&heard);
    spec_init(&spec, SHELL("cat; read x || echo end"), &heard);
    struct run_job *job = start(&spec);
    wait_over(&heard);
    struct gh_buf out = GH_BUF_INIT;
    run_tail(job, RUN_STDOUT, &out);
    ck_assert_str_eq(gh_buf_str(&out), "end\n");
    ck_assert(!run_input(job, "x", 1, false));
    gh_buf_fini(&out);
    run_job_free(job);
}
END_TEST

START_TEST(takes_input_while_it_runs)
{
    struct heard heard;
    struct run_spec spec;
    heard_init(&heard);
    spec_init(&spec, SHELL("read a; echo got $a; read b; echo got $b; cat"), &heard);
    spec.is_interactive = true;
    struct run_job *job = start(&spec);
    ck_assert(run_input(job, "one\n", 4, false));
    wait_data(&heard, RUN_STDOUT, 8);
    ck_assert(run_input(job, "two\nrest", 8, true));
    ck_assert(!run_input(job, "late", 4, false));
    wait_over(&heard);
    struct gh_buf out = GH_BUF_INIT;
    run_tail(job, RUN_STDOUT, &out);
    ck_assert_str_eq(gh_buf_str(&out), "got one\ngot two\nrest");
    gh_buf_fini(&out);
    run_job_free(job);
}
END_TEST

START_TEST(bounds_what_waits_for_a_command_that_does_not_read)
{
    struct heard heard;
    struct run_spec spec;
    heard_init(&heard);
    spec_init(&spec, SHELL("sleep 600"), &heard);
    spec.is_interactive = true;
    struct run_job *job = start(&spec);
    char *data = calloc(1, RUN_MAX_INPUT);
    ck_assert(run_input(job, data, RUN_MAX_INPUT, false));
    ck_assert(!run_input(job, data, RUN_MAX_INPUT, false));
    run_kill(job);
    wait_over(&heard);
    free(data);
    run_job_free(job);
}
END_TEST

START_TEST(goes_on_when_its_input_is_not_read)
{
    struct heard heard;
    struct run_spec spec;
    heard_init(&heard);
    spec_init(&spec, SHELL("exec <&-; sleep 0.2; echo done"), &heard);
    spec.is_interactive = true;
    struct run_job *job = start(&spec);
    wait_over(&heard);
    ck_assert_int_eq(heard.result.exit_code, 0);
    run_job_free(job);
}
END_TEST

START_TEST(says_why_it_cannot_start)
{
    struct heard heard;
    struct run_spec spec;
    struct run_job *job = NULL;
    struct gh_err err = {0};
    heard_init(&heard);
    spec_init(&spec, (const char *const[]){"no-such-program-here", NULL}, &heard);
    ck_assert_int_eq(run_spawn(run, &spec, &job, &err), GH_INVALID);
    ck_assert_ptr_nonnull(strstr(err.detail, "no-such-program-here"));
    ck_assert_ptr_null(job);
}
END_TEST

START_TEST(closes_what_is_there_and_starts_nothing_more)
{
    struct heard heard[4];
    struct run_spec spec;
    struct run_job *jobs[4];
    struct run_job *late = NULL;
    struct gh_err err = {0};
    for (int i = 0; i < 4; i++) {
        heard_init(&heard[i]);
        spec_init(&spec, SHELL("sleep 600"), &heard[i]);
        jobs[i] = start(&spec);
    }
    run_stop(run, 20000);
    ck_assert_int_eq(run_spawn(run, &spec, &late, &err), GH_STOPPING);
    for (int i = 0; i < 4; i++) {
        wait_over(&heard[i]);
        ck_assert_int_eq(heard[i].result.end, RUN_KILLED);
        run_job_free(jobs[i]);
    }
}
END_TEST

#define N_AT_ONCE 40

START_TEST(runs_many_at_once)
{
    static struct heard heard[N_AT_ONCE];
    struct run_job *jobs[N_AT_ONCE];
    struct run_spec spec;
    for (int i = 0; i < N_AT_ONCE; i++) {
        heard_init(&heard[i]);
        spec_init(&spec, SHELL("head -c 200000 /dev/zero; exit 3"), &heard[i]);
        jobs[i] = start(&spec);
    }
    for (int i = 0; i < N_AT_ONCE; i++) {
        wait_over(&heard[i]);
        ck_assert_int_eq(heard[i].result.exit_code, 3);
        ck_assert_uint_eq(heard[i].n_data[RUN_STDOUT], 200000);
        run_job_free(jobs[i]);
    }
}
END_TEST

int main(void)
{
    if (strstr(TEST_SANITIZE, "thread") != NULL) {
        puts(
            "skipped: the keeper shares this process's memory, which this sanitizer cannot follow");
        return EXIT_SUCCESS;
    }
    Suite *suite = suite_create("run");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_set_timeout(all, 120);
    tcase_add_test(all, tells_exit_code_and_both_streams);
    tcase_add_test(all, tells_a_signal);
    tcase_add_test(all, counts_what_it_drops);
    tcase_add_test(all, keeps_the_tail_at_the_timeout);
    tcase_add_test(all, does_not_wait_for_a_job_in_the_background);
    tcase_add_test(all, kills_when_asked);
    tcase_add_test(all, feeds_input_and_ends_it);
    tcase_add_test(all, has_no_input_unless_asked);
    tcase_add_test(all, takes_input_while_it_runs);
    tcase_add_test(all, bounds_what_waits_for_a_command_that_does_not_read);
    tcase_add_test(all, goes_on_when_its_input_is_not_read);
    tcase_add_test(all, says_why_it_cannot_start);
    tcase_add_test(all, closes_what_is_there_and_starts_nothing_more);
    tcase_add_test(all, runs_many_at_once);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
