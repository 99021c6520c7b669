/* What a decision request may look like, and what is said of one that may not. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

#define HEAD "{\"tool\":\"write_file\",\"action\":\"write\",\"target\":{\"path\":\"a\"}"

static const struct {
    const char *name;
    const char *body;
    enum gh_code code;
    const char *pointer;
} cases[] = {
    {"a path", HEAD "}", GH_OK, ""},
    {"everything",
     HEAD ",\"arguments\":{\"x\":[1]},\"preview\":\"p\",\"diff\":{\"old\":\"a\",\"new\":\"b\"},"
          "\"narration\":\"n\",\"mode\":\"plan\",\"response_id\":\"r\",\"deadline_s\":540,"
          "\"on_deadline\":\"ticket\",\"detached\":true,\"wait_s\":50}",
     GH_OK, ""},
    {"a command",
     "{\"tool\":\"t\",\"action\":\"execute\",\"target\":{\"program\":\"ls\",\"args\":[\"-l\"],"
     "\"cwd\":\"s\"}}",
     GH_OK, ""},
    {"shell text", "{\"tool\":\"t\",\"action\":\"execute\",\"target\":{\"shell\":\"a && b\"}}",
     GH_OK, ""},
    {"a move", "{\"tool\":\"t\",\"action\":\"move\",\"target\":{\"from\":\"a\",\"to\":\"b\"}}",
     GH_OK, ""},
    {"a description", "{\"tool\":\"t\",\"action\":\"network\",\"target\":{\"description\":\"d\"}}",
     GH_OK, ""},
    {"not JSON", "{", GH_BAD_JSON, ""},
    {"not an object", "[]", GH_INVALID, ""},
    {"duplicate keys", "{\"tool\":\"a\",\"tool\":\"b\"}", GH_BAD_JSON, ""},
    {"a smuggled verdict", HEAD ",\"decision\":\"allow\"}", GH_UNKNOWN_FIELD, "/decision"},
    {"a key with a slash", HEAD ",\"a/b~c\":1}", GH_UNKNOWN_FIELD, "/a~1b~0c"},
    {"no tool", "{\"action\":\"write\",\"target\":{\"path\":\"a\"}}", GH_INVALID, "/tool"},
    {"a tool with a blank", "{\"tool\":\"Read \",\"action\":\"read\",\"target\":{\"path\":\"a\"}}",
     GH_INVALID, "/tool"},
    {"a tool in Cyrillic",
     "{\"tool\":\"R\xD0\xB5"
     "ad\",\"action\":\"read\",\"target\":{\"path\":\"a\"}}",
     GH_INVALID, "/tool"},
    {"no action", "{\"tool\":\"t\",\"target\":{\"path\":\"a\"}}", GH_INVALID, "/action"},
    {"an unknown action", "{\"tool\":\"t\",\"action\":\"Write\",\"target\":{\"path\":\"a\"}}",
     GH_INVALID, "/action"},
    {"no target", "{\"tool\":\"t\",\"action\":\"write\"}", GH_INVALID, "/target"},
    {"an empty target", "{\"tool\":\"t\",\"action\":\"write\",\"target\":{}}", GH_INVALID,
     "/target"},
    {"two forms",
     "{\"tool\":\"t\",\"action\":\"write\",\"target\":{\"path\":\"a\",\"description\":\"b\"}}",
     GH_UNKNOWN_FIELD, "/target/description"},
    {"half a move", "{\"tool\":\"t\",\"action\":\"move\",\"target\":{\"from\":\"a\"}}", GH_INVALID,
     "/target/to"},
    {"a number as argument",
     "{\"tool\":\"t\",\"action\":\"execute\",\"target\":{\"program\":\"p\",\"args\":[1]}}",
     GH_INVALID, "/target"},
    {"an unknown call mode", HEAD ",\"mode\":\"act\"}", GH_INVALID, "/mode"},
    {"a ticket without a deadline", HEAD ",\"on_deadline\":\"ticket\"}", GH_INVALID, "/deadline_s"},
    {"an unknown end", HEAD ",\"on_deadline\":\"allow\"}", GH_INVALID, "/on_deadline"},
    {"too long a wait", HEAD ",\"wait_s\":121}", GH_INVALID, "/wait_s"},
    {"a negative wait", HEAD ",\"wait_s\":-1}", GH_INVALID, "/wait_s"},
    {"a wait in words", HEAD ",\"wait_s\":\"50\"}", GH_INVALID, "/wait_s"},
    {"a far deadline is capped", HEAD ",\"deadline_s\":1e18}", GH_OK, ""},
    {"one part", "{\"tool\":\"t\",\"parts\":[{\"action\":\"write\",\"target\":{\"path\":\"a\"}}]}",
     GH_INVALID, "/parts"},
    {"two parts",
     "{\"tool\":\"t\",\"parts\":[{\"action\":\"write\",\"target\":{\"path\":\"a\"}},"
     "{\"action\":\"delete\",\"target\":{\"path\":\"b\"}}]}",
     GH_OK, ""},
    {"parts and an action",
     HEAD ",\"parts\":[{\"action\":\"write\",\"target\":{\"path\":\"a\"}},"
          "{\"action\":\"write\",\"target\":{\"path\":\"b\"}}]}",
     GH_INVALID, "/parts"},
    {"a bad part",
     "{\"tool\":\"t\",\"parts\":[{\"action\":\"write\",\"target\":{\"path\":\"a\"}},"
     "{\"action\":\"write\",\"target\":{\"path\":\"b\"},\"x\":1}]}",
     GH_UNKNOWN_FIELD, "/parts/1/x"},
};

START_TEST(a_body_is_taken_or_refused_with_its_place)
{
    gh_auto(call_freep) struct call *call = NULL;
    struct gh_err err = {0};
    enum gh_code code = call_parse(cases[_i].body, strlen(cases[_i].body), &call, &err);
    ck_assert_msg(code == cases[_i].code, "%s: %s (%s)", cases[_i].name, gh_code_slug(code),
                  err.detail);
    ck_assert_msg(strcmp(err.pointer, cases[_i].pointer) == 0, "%s: at %s", cases[_i].name,
                  err.pointer);
    ck_assert((call != NULL) == (code == GH_OK));
}
END_TEST

START_TEST(shell_text_is_sh_dash_c_and_that_text)
{
    static const char body[] =
        "{\"tool\":\"t\",\"action\":\"execute\",\"target\":{\"shell\":\"a\\nb\"}}";
    gh_auto(call_freep) struct call *call = NULL;
    struct gh_err err;
    ck_assert_int_eq(call_parse(body, strlen(body), &call, &err), GH_OK);
    const struct gate_target *target = &call->parts[0].target;
    ck_assert_str_eq(target->program, "sh");
    ck_assert_uint_eq(target->n_args, 2);
    ck_assert_str_eq(target->args[0], "-c");
    ck_assert_str_eq(target->args[1], "a\nb");
    ck_assert(target->is_shell);
}
END_TEST

START_TEST(numbers_of_seconds_become_milliseconds)
{
    static const char body[] = HEAD ",\"deadline_s\":1.5,\"wait_s\":0.25}";
    gh_auto(call_freep) struct call *call = NULL;
    struct gh_err err;
    ck_assert_int_eq(call_parse(body, strlen(body), &call, &err), GH_OK);
    ck_assert_int_eq(call->deadline_ms, 1500);
    ck_assert_int_eq(call->wait_ms, 250);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("call");
    TCase *tcase = tcase_create("call");
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, a_body_is_taken_or_refused_with_its_place, 0,
                        (int)(sizeof cases / sizeof cases[0]));
    tcase_add_test(tcase, shell_text_is_sh_dash_c_and_that_text);
    tcase_add_test(tcase, numbers_of_seconds_become_milliseconds);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
