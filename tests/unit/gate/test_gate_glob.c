/* test_gate_glob: name patterns and their alternatives. */
#include "gate/glob.h"

#include <check.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"

struct glob_case {
    const char *pattern;
    const char *name;
    bool is_match;
};

static const struct glob_case globs[] = {
    {"a", "a", true},
    {"a", "A", false},
    {"a", "ab", false},
    {"*", "anything", true},
    {"*", "", true},
    {"**", "x", true},
    {"a*b", "ab", true},
    {"a*b", "a--b-b", true},
    {"a*b", "a--b-c", false},
    {"*.pem", "x.pem", true},
    {"*.pem", ".pem", true},
    {"*.pem", "x.pem.bak", false},
    {".env.*", ".env.local", true},
    {".env.*", ".env", false},
    {"?", "\xc3\xa9", true},
    {"??", "\xc3\xa9", false},
    {"?", "\xff", true},
    {"\xff*", "\xff\xfe", true},
    {"\xff", "\xc3\xbf", false},
    {"a?c", "abc", true},
    {"a?c", "ac", false},
    {"[abc]", "b", true},
    {"[a-c]x", "cx", true},
    {"[!a-c]", "d", true},
    {"[^a-c]", "b", false},
    {"[]]", "]", true},
    {"[]a]", "a", true},
    {"[a-]", "-", true},
    {"[\\]]", "]", true},
    {"[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", true},
    {"\\*", "*", true},
    {"\\*", "x", false},
    {"a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
};

START_TEST(globs_match_whole_names)
{
    for (size_t i = 0; i < sizeof globs / sizeof *globs; i++) {
        const struct glob_case *c = &globs[i];
        ck_assert_msg(gate_glob_match(c->pattern, c->name, strlen(c->name), false) == c->is_match,
                      "%s against %s", c->pattern, c->name);
    }
    ck_assert(gate_glob_match("[a-c]*X", "Bx", 2, true));
    ck_assert(!gate_glob_match("[a-c]*X", "Bx", 2, false));
}
END_TEST

struct braces {
    const char *pattern;
    const char *all; /* joined by blanks */
};

static const struct braces braces[] = {
    {"a", "a "},
    {"{a,b}", "a b "},
    {"x{a,b}y", "xay xby "},
    {"{a,{b,c}d}e", "ae bde cde "},
    {"{,x}a", "a xa "},
    {"{a}{b,c}", "ab ac "},
    {"[{]a", "[{]a "},
    {"\\{a,b}", "\\{a,b} "},
    {"{a,[,}]}", "a [,}] "},
};

static bool collect(const char *pattern, void *cookie)
{
    gh_buf_printf(cookie, "%s ", pattern);
    return true;
}

START_TEST(braces_are_expanded)
{
    for (size_t i = 0; i < sizeof braces / sizeof *braces; i++) {
        gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
        ck_assert(gate_glob_is_valid(braces[i].pattern));
        ck_assert(gate_glob_expand(braces[i].pattern, collect, &out));
        ck_assert_str_eq(gh_buf_str(&out), braces[i].all);
    }
    static const char *const bad[] = {"a[", "{a", "{a,{b}", "a\\", "[", "[!", "[]", "{a,[b}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(!gate_glob_is_valid(bad[i]), "%s", bad[i]);
    }
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    ck_assert(!gate_glob_expand("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", collect, &out));
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("glob");
    tcase_add_test(tcase, globs_match_whole_names);
    tcase_add_test(tcase, braces_are_expanded);
    Suite *suite = suite_create("gate_glob");
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
