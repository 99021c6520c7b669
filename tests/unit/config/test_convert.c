/* YAML of our own to JSON. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "config/config.h"

static const struct {
    const char *name, *yaml, *json; /* json NULL: refused */
} cases[] = {
    {"a map", "a: 1\nb: text\nc: true\nd: null\n",
     "{\"a\":1,\"b\":\"text\",\"c\":true,\"d\":null}"},
    {"quoted words stay text", "a: \"1\"\nb: 'true'\nc: 3.1.0\nd: -1.5\n",
     "{\"a\":\"1\",\"b\":\"true\",\"c\":\"3.1.0\",\"d\":-1.5}"},
    {"lists and nesting", "a:\n  - x\n  - {b: [1, 2]}\n", "{\"a\":[\"x\",{\"b\":[1,2]}]}"},
    {"a block of text", "a: |\n  one\n  two\n", "{\"a\":\"one\\ntwo\\n\"}"},
    {"status codes as keys", "'200':\n  a: b\n", "{\"200\":{\"a\":\"b\"}}"},
    {"an alias", "a: &x 1\nb: *x\n", NULL},
    {"not YAML", "a: [1\n", NULL},
};

START_TEST(a_document_is_converted_or_refused)
{
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    struct gh_err err;
    enum gh_code code = config_yaml_to_json(cases[_i].yaml, strlen(cases[_i].yaml), &out, &err);
    ck_assert_msg((code == GH_OK) == (cases[_i].json != NULL), "%s", cases[_i].name);
    if (cases[_i].json != NULL) {
        ck_assert_str_eq(gh_buf_str(&out), cases[_i].json);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("convert");
    TCase *tcase = tcase_create("convert");
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, a_document_is_converted_or_refused, 0,
                        (int)(sizeof cases / sizeof cases[0]));
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
