/* test_out: tables, wrapped text and JSON that a terminal cannot obey. */
#include "cli/out.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* A terminal of `columns`, or a pipe for 0; no colours. */
static struct cli_out make_out(size_t columns)
{
    return (struct cli_out){.columns = columns == 0 ? 80 : columns, .is_tty = columns != 0};
}

START_TEST(cells_line_up)
{
    gh_auto(cli_out_fini) struct cli_out out = make_out(40);
    cli_out_cell(&out, "ab", 6);
    cli_out_cell(&out, "\u05e9\u05dc\u05d5\u05dd", 6); /* Hebrew, 4 columns */
    cli_out_cell(&out, "\u65e5\u672c", 6);             /* 2 wide characters, 4 columns */
    cli_out_cell(&out, "much too long", 6);
    cli_out_cell(&out, NULL, 2);
    ck_assert_str_eq(gh_buf_str(&out.buf), "ab     \u05e9\u05dc\u05d5\u05dd   \u65e5\u672c   "
                                           "muc... -  ");
}
END_TEST

START_TEST(last_cell_is_cut_on_terminals_only)
{
    static const char text[] = "0123456789012345678901234567890123456789";
    gh_auto(cli_out_fini) struct cli_out tty = make_out(40);
    gh_auto(cli_out_fini) struct cli_out pipe = make_out(0);
    cli_out_last(&tty, text, 20);
    cli_out_last(&pipe, text, 60);
    ck_assert_str_eq(gh_buf_str(&tty.buf), "01234567890123456...\n");
    ck_assert_str_eq(gh_buf_str(&pipe.buf), "0123456789012345678901234567890123456789\n");
}
END_TEST

/* A label is ours: no line of a stranger's text may start where labels start. */
START_TEST(wrapped_text_never_reaches_the_margin)
{
    gh_auto(cli_out_fini) struct cli_out out = make_out(40);
    cli_out_field(&out, "why",
                  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                  "digest     00000000\nwhy        rule");
    cli_out_block(&out, "  | ",
                  "one\ndigest 1\n\n"
                  "0123456789012345678901234567890123456789\n");
    ck_assert_str_eq(gh_buf_str(&out.buf), "why        aaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
                                           "           digest     00000000\\nwhy     \n"
                                           "              rule\n"
                                           "  | one\n"
                                           "  | digest 1\n"
                                           "  | \n"
                                           "  | 012345678901234567890123456789012345\n"
                                           "  | 6789\n");
}
END_TEST

START_TEST(words_move_whole_and_lose_nothing)
{
    gh_auto(cli_out_fini) struct cli_out out = make_out(20);
    gh_auto(cli_out_fini) struct cli_out pipe = make_out(0);
    cli_out_wrap(&out, "  ", 0, "one two three  fourfour 0123456789012345678901 six");
    ck_assert_str_eq(gh_buf_str(&out.buf), "one two three  \n"
                                           "  fourfour 012345678\n"
                                           "  9012345678901 six");
    cli_out_wrap(&pipe, "  ", 0, "one two three four");
    ck_assert_str_eq(gh_buf_str(&pipe.buf), "one two three four");
}
END_TEST

static bool is_harmless(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((*text < ' ' && *text != '\n') || *text == 0x7F) {
            return false; /* char is signed here: bytes from 0x80 are refused too */
        }
    }
    return true;
}

START_TEST(json_is_ascii_and_equal)
{
    static const char json[] = "{\"a\":\"\x7f\xc2\x9b"
                               "31m\u202e\u05e9 \U0001F600 \\u001b[2K\"}\n";
    gh_auto(cli_out_fini) struct cli_out out = make_out(0);
    struct gh_err err = {0};
    struct json_t *before = NULL;
    struct json_t *after = NULL;
    /* Fed byte by byte: characters are cut everywhere. */
    struct cli_out_cut rest = {{0}, 0};
    for (size_t i = 0; i < sizeof json - 1; i++) {
        cli_out_json(&out, json + i, 1, &rest);
    }
    ck_assert(is_harmless(gh_buf_str(&out.buf)));
    ck_assert_ptr_nonnull(strstr(gh_buf_str(&out.buf), "\\u009b"));
    ck_assert_ptr_nonnull(strstr(gh_buf_str(&out.buf), "\\ud83d\\ude00"));
    ck_assert_int_eq(gh_json_parse(json, sizeof json - 1, &before, &err), GH_OK);
    ck_assert_int_eq(gh_json_parse(out.buf.data, out.buf.len, &after, &err), GH_OK);
    ck_assert_str_eq(gh_json_text(gh_json_get(before, "a")), gh_json_text(gh_json_get(after, "a")));
    gh_json_free(before);
    gh_json_free(after);
}
END_TEST

START_TEST(broken_bytes_in_json_are_replaced)
{
    gh_auto(cli_out_fini) struct cli_out out = make_out(0);
    struct cli_out_cut rest = {{0}, 0};
    static const char bytes[] = "a\x9b\xc3\x28\xf5\xe2\x82"
                                "b\x1b\r";
    cli_out_json(&out, bytes, sizeof bytes - 1, &rest);
    ck_assert_str_eq(gh_buf_str(&out.buf), "a\\ufffd\\ufffd(\\ufffd\\ufffdb ");
}
END_TEST

START_TEST(tree_names_every_leaf)
{
    static const char json[] = "{\"b\":{\"c\":[1,2]},\"a\":\"x\\u001by\",\"n\":null,"
                               "\"l\":[{\"k\":true},{\"k\":\"z\"}]}";
    gh_auto(cli_out_fini) struct cli_out out = make_out(0);
    gh_auto(gh_json_freep) struct json_t *value = NULL;
    struct gh_err err = {0};
    ck_assert_int_eq(gh_json_parse(json, sizeof json - 1, &value, &err), GH_OK);
    cli_out_tree(&out, value);
    ck_assert_str_eq(gh_buf_str(&out.buf), "b.c                            [1,2]\n"
                                           "a                              x\\x1by\n"
                                           "l.1.k                          true\n"
                                           "l.2.k                          z\n");
}
END_TEST

START_TEST(spans_read_well)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {{-5, "0s"},         {999, "0s"},          {12000, "12s"},   {287412, "4m47s"},
                {7380000, "2h03m"}, {273600000, "3d04h"}, {INT64_MAX, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[24];
        cli_out_span(rows[i].ms, text);
        ck_assert(rows[i].text == NULL ? strlen(text) < sizeof text
                                       : strcmp(text, rows[i].text) == 0);
    }
}
END_TEST

START_TEST(colours_only_where_wanted)
{
    gh_auto(cli_out_fini) struct cli_out plain = make_out(80);
    gh_auto(cli_out_fini) struct cli_out bright = make_out(80);
    bright.has_color = true;
    cli_out_style(&plain, CLI_RED);
    cli_out_style(&bright, CLI_RED);
    ck_assert_str_eq(gh_buf_str(&plain.buf), "");
    ck_assert_str_eq(gh_buf_str(&bright.buf), "\x1b[31m");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("out");
    TCase *tests = tcase_create("out");
    tcase_add_test(tests, cells_line_up);
    tcase_add_test(tests, last_cell_is_cut_on_terminals_only);
    tcase_add_test(tests, wrapped_text_never_reaches_the_margin);
    tcase_add_test(tests, words_move_whole_and_lose_nothing);
    tcase_add_test(tests, json_is_ascii_and_equal);
    tcase_add_test(tests, broken_bytes_in_json_are_replaced);
    tcase_add_test(tests, tree_names_every_leaf);
    tcase_add_test(tests, spans_read_well);
    tcase_add_test(tests, colours_only_where_wanted);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
