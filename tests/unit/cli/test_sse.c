/* test_sse: events read whole and in pieces. */
#include "cli/sse.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

struct seen {
    struct gh_buf text;
    int n_left; /* stop after so many; -1: never */
};

static bool note(const char *type, const char *id, const char *data, void *cookie)
{
    struct seen *seen = cookie;
    gh_buf_printf(&seen->text, "%s|%s|%s;", type, id, data);
    return --seen->n_left != 0;
}

static const char stream[] = ": hello\n\nid: b-1\nevent: approval.created\ndata: {\"a\":1}\n\n"
                             "event:x\r\ndata:one\r\ndata:  two\r\nretry: 5\r\n\r\n"
                             ":beat\n\nid: b-3\ndata: z\rnofield\r\rdata: unfinished\n";
static const char expected[] = "approval.created|b-1|{\"a\":1};x|b-1|one\n two;message|b-3|z;";

START_TEST(any_cut_reads_the_same)
{
    size_t step = (size_t)_i + 1;
    struct cli_sse sse = {0};
    struct seen seen = {.text = GH_BUF_INIT, .n_left = -1};
    for (size_t at = 0; at < sizeof stream - 1; at += step) {
        size_t left = sizeof stream - 1 - at;
        ck_assert(cli_sse_feed(&sse, stream + at, left < step ? left : step, note, &seen));
    }
    ck_assert_str_eq(gh_buf_str(&seen.text), expected);
    ck_assert_str_eq(sse.id, "b-3");
    gh_buf_fini(&seen.text);
    cli_sse_fini(&sse);
}
END_TEST

START_TEST(stops_when_told)
{
    struct cli_sse sse = {0};
    struct seen seen = {.text = GH_BUF_INIT, .n_left = 1};
    ck_assert(!cli_sse_feed(&sse, stream, sizeof stream - 1, note, &seen));
    ck_assert_str_eq(gh_buf_str(&seen.text), "approval.created|b-1|{\"a\":1};");
    gh_buf_fini(&seen.text);
    cli_sse_fini(&sse);
}
END_TEST

/* A broken connection drops the event it cut, and the id that came with it. */
START_TEST(reset_forgets_the_unfinished)
{
    static const char cut[] = "id: 1\ndata: a\n\nid: 2\ndata: b\nda";
    static const char next[] = "data: c\n\n";
    struct cli_sse sse = {0};
    struct seen seen = {.text = GH_BUF_INIT, .n_left = -1};
    ck_assert(cli_sse_feed(&sse, cut, sizeof cut - 1, note, &seen));
    ck_assert_str_eq(sse.id, "1");
    cli_sse_reset(&sse);
    ck_assert(cli_sse_feed(&sse, next, sizeof next - 1, note, &seen));
    ck_assert_str_eq(gh_buf_str(&seen.text), "message|1|a;message|1|c;");
    gh_buf_fini(&seen.text);
    cli_sse_fini(&sse);
}
END_TEST

START_TEST(endless_event_is_refused)
{
    static char lots[1 << 16];
    struct cli_sse sse = {0};
    struct seen seen = {.text = GH_BUF_INIT, .n_left = -1};
    bool go_on = true;
    memset(lots, 'x', sizeof lots);
    for (size_t fed = 0; go_on && fed <= 2 * (size_t)CLI_SSE_MAX; fed += sizeof lots) {
        go_on = cli_sse_feed(&sse, lots, sizeof lots, note, &seen);
    }
    ck_assert(!go_on);
    ck_assert_uint_eq(seen.text.len, 0);
    cli_sse_fini(&sse);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sse");
    TCase *tests = tcase_create("sse");
    tcase_add_loop_test(tests, any_cut_reads_the_same, 0, sizeof stream - 1);
    tcase_add_test(tests, stops_when_told);
    tcase_add_test(tests, reset_forgets_the_unfinished);
    tcase_add_test(tests, endless_event_is_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
