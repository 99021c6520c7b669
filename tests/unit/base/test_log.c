/* test_log: one line an event, whatever the values try. */
#include "base/log.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int captured = -1;
static int real_stderr = -1;

static void setup(void)
{
    char path[] = "/tmp/gh-log-XXXXXX";
    captured = mkostemp(path, O_APPEND | O_CLOEXEC);
    ck_assert_int_ge(captured, 0);
    unlink(path);
    real_stderr = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(captured, STDERR_FILENO), 0);
}

static void teardown(void)
{
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    close(captured);
}

/* What was logged; static, so one call a test. */
static const char *logged(void)
{
    static char text[1 << 20];
    ssize_t n = pread(captured, text, sizeof text - 1, 0);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    return text;
}

START_TEST(a_line_has_time_level_event_and_fields)
{
    gh_log(GH_LOG_WARN, "start", "port", "7717", "state", "/x y", (char *)NULL);
    const char *text = logged();
    ck_assert_ptr_nonnull(strstr(text, "Z warn start port=\"7717\" state=\"/x y\"\n"));
    ck_assert_uint_eq(strcspn(text, " "), strlen("2026-11-30T02:16:13.250Z"));
}
END_TEST

START_TEST(no_fields_and_missing_values_are_fine)
{
    gh_log(GH_LOG_ERROR, "alone", (char *)NULL);
    gh_log(GH_LOG_ERROR, "with", "key", (char *)NULL, (char *)NULL);
    const char *text = logged();
    ck_assert_ptr_nonnull(strstr(text, " error alone\n"));
    ck_assert_ptr_nonnull(strstr(text, " error with key=\"-\"\n"));
}
END_TEST

START_TEST(a_hostile_value_forges_no_field_and_no_line)
{
    gh_log(GH_LOG_INFO, "e", "v", "a\" x=\"1\n2026 error forged\r\x1b[2J\x7f\xE2\x80\xAE\\",
           (char *)NULL);
    const char *text = logged();
    ck_assert_ptr_nonnull(strstr(
        text, "v=\"a\\\" x=\\\"1\\x0a2026 error forged\\x0d\\x1b[2J\\x7f\\xe2\\x80\\xae\\\\\"\n"));
    ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
    for (const char *c = text; *c != '\0'; c++) {
        ck_assert(*c == '\n' || (*c >= 0x20 && *c < 0x7F));
    }
}
END_TEST

START_TEST(an_endless_value_is_cut_and_still_ends_its_line)
{
    static char longer[100000];
    memset(longer, '\n', sizeof longer - 1);
    gh_log(GH_LOG_INFO, "e", "v", longer, (char *)NULL);
    const char *text = logged();
    ck_assert_uint_lt(strlen(text), 4100);
    ck_assert_str_eq(text + strlen(text) - 2, "\"\n");
}
END_TEST

START_TEST(lines_below_the_level_are_dropped)
{
    gh_log(GH_LOG_DEBUG, "hidden", (char *)NULL);
    gh_log_level(GH_LOG_ERROR);
    gh_log(GH_LOG_WARN, "hidden", (char *)NULL);
    gh_log_level(GH_LOG_DEBUG);
    gh_log(GH_LOG_DEBUG, "shown", (char *)NULL);
    const char *text = logged();
    ck_assert_ptr_null(strstr(text, "hidden"));
    ck_assert_ptr_nonnull(strstr(text, " debug shown\n"));
}
END_TEST

START_TEST(errno_is_kept)
{
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    dup2(full, STDERR_FILENO);
    errno = EXDEV;
    gh_log(GH_LOG_ERROR, "lost", "k", "v", (char *)NULL);
    ck_assert_int_eq(errno, EXDEV);
    close(full);
}
END_TEST

enum { THREADS = 4, LINES = 500 };

static void *write_lines(void *name)
{
    for (int i = 0; i < LINES; i++) {
        gh_log(GH_LOG_INFO, "line", "by", name, "end", "END", (char *)NULL);
    }
    return NULL;
}

START_TEST(threads_never_mix_their_lines)
{
    static char names[THREADS][2] = {"a", "b", "c", "d"};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_lines, names[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    int lines = 0;
    for (const char *at = logged(); *at != '\0'; at = strchr(at, '\n') + 1, lines++) {
        char by = '?';
        ck_assert_int_eq(sscanf(at, "%*s info line by=\"%c\" end=\"END\"", &by), 1);
        ck_assert_uint_eq(strcspn(at, "\n"), strlen("2026-11-30T02:16:13.250Z info line "
                                                    "by=\"a\" end=\"END\""));
    }
    ck_assert_int_eq(lines, THREADS * LINES);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("log");
    TCase *t = tcase_create("log");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_line_has_time_level_event_and_fields);
    tcase_add_test(t, no_fields_and_missing_values_are_fine);
    tcase_add_test(t, a_hostile_value_forges_no_field_and_no_line);
    tcase_add_test(t, an_endless_value_is_cut_and_still_ends_its_line);
    tcase_add_test(t, lines_below_the_level_are_dropped);
    tcase_add_test(t, errno_is_kept);
    tcase_add_test(t, threads_never_mix_their_lines);
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
