/* test_args: options and operands in every order, and what is refused. */
#include "cli/args.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct values {
    bool flag;
    const char *text;
    int64_t secs, count;
};

/* Parse the NULL-ended words behind the program's name. */
static enum gh_code parse(const char *const words[], struct values *values, struct cli_args *args,
                          struct gh_err *err)
{
    static char *argv[32];
    const struct cli_opt opts[] = {{"--flag", CLI_OPT_FLAG, &values->flag},
                                   {"--text", CLI_OPT_TEXT, &values->text},
                                   {"--secs", CLI_OPT_SECS, &values->secs},
                                   {"--count", CLI_OPT_COUNT, &values->count},
                                   {NULL, CLI_OPT_END, NULL}};
    int argc = 1;
    argv[0] = (char *)"command";
    for (; words[argc - 1] != NULL; argc++) {
        argv[argc] = (char *)words[argc - 1];
    }
    *values = (struct values){.secs = -7, .count = -7};
    return cli_args_parse(argc, argv, opts, args, err);
}

START_TEST(takes_any_order)
{
    const char *const words[] = {"one",       "--text",         "--flag",  "two",
                                 "--secs=5m", "--json",         "--count", "0",
                                 "-",         "--state-dir=/s", NULL};
    struct values values;
    struct cli_args args;
    struct gh_err err = {0};
    ck_assert_int_eq(parse(words, &values, &args, &err), GH_OK);
    ck_assert_str_eq(values.text, "--flag");
    ck_assert(!values.flag);
    ck_assert_int_eq(values.secs, 300);
    ck_assert_int_eq(values.count, 0);
    ck_assert(args.json && !args.help);
    ck_assert_str_eq(args.state_dir, "/s");
    ck_assert_uint_eq(args.n_rest, 3);
    ck_assert_uint_eq(args.n_front, 3);
    ck_assert_str_eq(args.rest[0], "one");
    ck_assert_str_eq(args.rest[1], "two");
    ck_assert_str_eq(args.rest[2], "-");
}
END_TEST

START_TEST(dashes_end_the_options)
{
    const char *const words[] = {"execute", "--flag", "--", "rm", "--json", "--", "-rf", NULL};
    struct values values;
    struct cli_args args;
    struct gh_err err = {0};
    ck_assert_int_eq(parse(words, &values, &args, &err), GH_OK);
    ck_assert(values.flag && !args.json);
    ck_assert_uint_eq(args.n_front, 1);
    ck_assert_uint_eq(args.n_rest, 5);
    ck_assert_str_eq(args.rest[2], "--json");
    ck_assert_str_eq(args.rest[3], "--");
    ck_assert_str_eq(args.rest[4], "-rf");
}
END_TEST

static const char *const refused[][3] = {
    {"--unknown", NULL},
    {"-x", NULL},
    {"--text", NULL},
    {"--flag=yes", NULL},
    {"--secs", "abc"},
    {"--secs", "-1"},
    {"--secs", ""},
    {"--secs", "1e18"},
    {"--secs", "5w"},
    {"--secs", "5 m"},
    {"--secs", "+5"},
    {"--count", "1m"},
    {"--count", "0x10"},
    {"--fla", NULL},
    {"--flags", NULL},
    {"--count=", NULL},
    {"--secs", "99999999999999999999"},
};

START_TEST(refuses)
{
    struct values values;
    struct cli_args args;
    struct gh_err err = {0};
    ck_assert_int_eq(parse(refused[_i], &values, &args, &err), GH_INVALID);
    ck_assert_str_ne(err.detail, "");
    ck_assert_int_eq(values.secs, -7);
    ck_assert_int_eq(values.count, -7);
}
END_TEST

START_TEST(hostile_option_is_shown_neutral)
{
    const char *const words[] = {"--\x1b[2Jx", NULL};
    struct values values;
    struct cli_args args;
    struct gh_err err = {0};
    ck_assert_int_eq(parse(words, &values, &args, &err), GH_INVALID);
    ck_assert_ptr_null(strchr(err.detail, '\x1b'));
    ck_assert_ptr_nonnull(strstr(err.detail, "\\x1b"));
}
END_TEST

START_TEST(reads_times)
{
    static const struct {
        const char *text;
        int64_t secs;
    } rows[] = {{"0", 0},
                {"90", 90},
                {"90s", 90},
                {"5m", 300},
                {"2h", 7200},
                {"30d", 2592000},
                {"36500d", 3153600000},
                {"36501d", -1},
                {"99999999h", -1},
                {"m", -1},
                {"1.5h", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_msg(cli_args_secs(rows[i].text) == rows[i].secs, "%s", rows[i].text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("args");
    TCase *tests = tcase_create("args");
    tcase_add_test(tests, takes_any_order);
    tcase_add_test(tests, dashes_end_the_options);
    tcase_add_loop_test(tests, refuses, 0, sizeof refused / sizeof refused[0]);
    tcase_add_test(tests, hostile_option_is_shown_neutral);
    tcase_add_test(tests, reads_times);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
