/* The parts that need no kernel feature: names, environment, trees, digests, plan files. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "confine/environ.h"
#include "confine/names.h"
#include "confine/order.h"
#include "confine/sha256.h"
#include "confine/trees.h"

static char home[] = "/tmp/confine-pure-XXXXXX";

static void write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fchmod(fd, mode), 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

START_TEST(globs)
{
    static const struct {
        const char *glob, *name;
        bool match;
    } rows[] = {
        {".env", ".env", true},
        {".env", ".env.local", false},
        {".env.*", ".env.local", true},
        {".env.*", ".env.", true},
        {"*.pem", "a.pem", true},
        {"*.pem", ".pem", true},
        {"*.pem", "a.pem.txt", false},
        {"id_?sa", "id_rsa", true},
        {"id_?sa", "id_sa", false},
        {"[a-c]x", "bx", true},
        {"[!a-c]x", "bx", false},
        {"[!a-c]x", "dx", true},
        {"[]x]", "]", true},
        {"a*b*c", "aXbYbZc", true},
        {"a*b*c", "aXbYbZ", false},
        {"*", "", true},
        {"", "", true},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"\xff*", "\xff\xfe", true},
        {"[a-", "a", false},
        {"[a-]", "-", true},
        {"****a", "bbba", true},
        {"ENV", "env", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_msg(names_glob(rows[i].glob, rows[i].name) == rows[i].match, "%s against %s",
                      rows[i].glob, rows[i].name);
    }
}
END_TEST

START_TEST(braces_and_unsound_patterns)
{
    const struct confine_name wish[] = {{"{.env,*.{pem,key}}", false},
                                        {"a/b", false},
                                        {"[open", false},
                                        {"", false},
                                        {"*.crt", true}};
    confine_auto(names_fini) struct names names;
    names_compile(&names, wish, sizeof wish / sizeof *wish);
    bool built_in = false;
    ck_assert(names_match(&names, ".env", &built_in) && !built_in);
    ck_assert(names_match(&names, "x.crt", &built_in) && built_in);
    ck_assert(!names_match(&names, "b", &built_in));
    ck_assert(!names_match(&names, "[open", &built_in));
    ck_assert(names_is_package_folder("node_modules"));
    ck_assert(!names_is_package_folder("modules"));
}
END_TEST

/* Scenario 97, B136: what is set, what never is. */
START_TEST(environment_is_built)
{
    static const char *const parent[] = {
        "PATH=/bin",        "HOME=/h",     "OPENAI_API_KEY=k",  "LD_PRELOAD=x",
        "SSH_AUTH_SOCK=/s", "LC_ALL=C",    "GATEHOUSE_TOKEN=t", "BASH_ENV=x",
        "GIT_DIR=x",        "TMPDIR=/old", "DISPLAY=:0",        NULL};
    static const char *const own[] = {
        "K=V", "DBUS_SESSION_BUS_ADDRESS=d", "GATEHOUSE_URL=u", "TMPDIR=/mine", "odd", "=x", NULL};
    struct confine_spec spec;
    confine_spec_init(&spec);
    spec.env = own;
    spec.cache_dir = "/cache";
    struct environ_wish wish = {.spec = &spec, .parent = parent, .tmp = "/private"};
    confine_auto(util_strs_fini) struct util_strs env = {0};
    environ_build(&wish, &env);
    const char *const *all = (const char *const *)env.all;
    ck_assert_str_eq(environ_get(all, "PATH"), "/bin");
    ck_assert_str_eq(environ_get(all, "LC_ALL"), "C");
    ck_assert_str_eq(environ_get(all, "K"), "V");
    ck_assert_str_eq(environ_get(all, "TMPDIR"), "/private");
    ck_assert_str_eq(environ_get(all, "npm_config_cache"), "/cache");
    static const char *const never[] = {
        "OPENAI_API_KEY",           "LD_PRELOAD",    "SSH_AUTH_SOCK",   "BASH_ENV", "GIT_DIR",
        "DBUS_SESSION_BUS_ADDRESS", "GATEHOUSE_URL", "GATEHOUSE_TOKEN", "DISPLAY",  "odd"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        ck_assert_msg(environ_get(all, never[i]) == NULL, "%s", never[i]);
    }
}
END_TEST

/* Scenario 97: handed back on purpose, the explicit value wins, an unset one is not invented. */
START_TEST(session_is_handed_back)
{
    static const char *const parent[] = {"SSH_AUTH_SOCK=/parent", "DISPLAY=:0", NULL};
    static const char *const own[] = {"DISPLAY=:9", NULL};
    struct confine_spec spec;
    confine_spec_init(&spec);
    spec.env = own;
    spec.allow_unix_sockets = CONFINE_YES;
    struct environ_wish wish = {.spec = &spec, .parent = parent};
    confine_auto(util_strs_fini) struct util_strs env = {0};
    environ_build(&wish, &env);
    const char *const *all = (const char *const *)env.all;
    ck_assert_str_eq(environ_get(all, "SSH_AUTH_SOCK"), "/parent");
    ck_assert_str_eq(environ_get(all, "DISPLAY"), ":9");
    ck_assert_ptr_null(environ_get(all, "WAYLAND_DISPLAY"));
    ck_assert_ptr_null(environ_get(all, "TMPDIR"));
}
END_TEST

START_TEST(denied_paths)
{
    confine_auto(trees_fini) struct trees trees = {0};
    static const char *const denied[] = {"/nowhere/a", "/nowhere/a/b", "/nowhere/a-b",
                                         "/nowhere/c/../d", "/nowhere/a.x"};
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++) {
        trees_deny(&trees, denied[i], "test");
    }
    trees_seal(&trees);
    ck_assert_uint_eq(trees.n_denied, 4);
    ck_assert(trees_covered(&trees, "/nowhere/a"));
    ck_assert(trees_covered(&trees, "/nowhere/a/b/c"));
    ck_assert(trees_covered(&trees, "/nowhere/a-b/x"));
    ck_assert(!trees_covered(&trees, "/nowhere/ab"));
    ck_assert(!trees_covered(&trees, "/nowhere"));
    ck_assert(trees_covered(&trees, "/nowhere/d"));
    ck_assert(trees_denies_below(&trees, "/"));
    ck_assert(trees_denies_below(&trees, "/nowhere"));
    ck_assert(!trees_denies_below(&trees, "/nowhere/a"));
    ck_assert(!trees_denies_below(&trees, "/now"));
}
END_TEST

START_TEST(paths)
{
    ck_assert(util_below("/a/b", "/a"));
    ck_assert(util_below("/a", "/a"));
    ck_assert(util_below("/a", "/"));
    ck_assert(!util_below("/ab", "/a"));
    confine_autofree char *gone = util_resolve("/nowhere/x/./y/../z");
    ck_assert_str_eq(gone, "/nowhere/x/z");
    ck_assert_ptr_null(util_resolve("relative"));
    confine_autofree char *link = util_format("%s/link", home);
    ck_assert_int_eq(symlink("/etc/hostname", link), 0);
    confine_autofree char *parent = util_resolve_parent(link);
    confine_autofree char *whole = util_resolve(link);
    ck_assert_str_eq(parent, link);
    ck_assert_str_eq(whole, "/etc/hostname");
    size_t len;
    ck_assert_ptr_null(util_slurp(link, 100, &len));
    ck_assert_int_eq(unlink(link), 0);
}
END_TEST

START_TEST(digests)
{
    char hex[65], long_text[200];
    sha256_hex("", 0, hex);
    ck_assert_str_eq(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256_hex("abc", 3, hex);
    ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    memset(long_text, 'a', sizeof long_text);
    sha256_hex(long_text, 119, hex);
    ck_assert_str_eq(hex, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb");
    sha256_hex(long_text, 200, hex);
    ck_assert_str_eq(hex, "c2a908d98f5df987ade41b5fce213067efbcc21ef2240212a41e54b5e7c28ae5");
}
END_TEST

/* A sealed plan file; `spoil` changes one byte behind the digest. */
static void write_plan(const char *path, const char *body, mode_t mode, bool spoil)
{
    char hex[65];
    sha256_hex(body, strlen(body), hex);
    confine_autofree char *text = util_format("%sdigest %s\n", body, hex);
    if (spoil) {
        text[20] ^= 1;
    }
    unlink(path);
    write_file(path, text, mode);
}

#define PLAN "gatehouse-plan 1\nexpires 1000\ncwd /tmp\nwrite /tmp\n"

/* Exit 126 when in doubt: each doubt by itself. */
START_TEST(plan_files)
{
    static const struct {
        const char *body;
        mode_t mode;
        int64_t now_s;
        bool spoil, good;
    } rows[] = {
        {PLAN "arg a\\nb\\\\\\x7f\narg \n", 0600, 500, false, true},
        {PLAN "arg a\n", 0600, 1000, false, false},
        {PLAN "arg a\n", 0600, 99, false, false},
        {PLAN "arg a\n", 0640, 500, false, false},
        {PLAN "arg a\n", 0600, 500, true, false},
        {PLAN "arg a\nwhat b\n", 0600, 500, false, false},
        {PLAN "arg a\\q\n", 0600, 500, false, false},
        {PLAN "arg a\\x00\n", 0600, 500, false, false},
        {PLAN "arg a\nnetwork all\n", 0600, 500, false, false},
        {PLAN, 0600, 500, false, false},
        {"gatehouse-plan 1\ncwd /tmp\nwrite /tmp\narg a\n", 0600, 500, false, false},
        {"gatehouse-plan 2\nexpires 1000\ncwd /tmp\nwrite /tmp\narg a\n", 0600, 500, false, false},
        {"gatehouse-plan 1\nexpires 1000x\ncwd /tmp\nwrite /tmp\narg a\n", 0600, 500, false, false},
    };
    confine_autofree char *path = util_format("%s/plan", home);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_plan(path, rows[i].body, rows[i].mode, rows[i].spoil);
        confine_auto(order_fini) struct order order;
        struct confine_err err;
        order_init(&order);
        enum confine_code code = order_read(&order, path, rows[i].now_s, &err);
        ck_assert_msg(code == (rows[i].good ? CONFINE_OK : CONFINE_E_SPEC), "row %zu", i);
        if (rows[i].good) {
            ck_assert_str_eq(order.spec.argv[0], "a\nb\\\x7f");
            ck_assert_str_eq(order.spec.argv[1], "");
        }
    }
}
END_TEST

START_TEST(plan_file_is_no_link)
{
    confine_autofree char *path = util_format("%s/plan", home);
    confine_autofree char *other = util_format("%s/other", home);
    write_plan(path, PLAN "arg a\n", 0600, false);
    confine_auto(order_fini) struct order order;
    struct confine_err err;
    order_init(&order);
    ck_assert_int_eq(symlink(path, other), 0);
    ck_assert_int_eq(order_read(&order, other, 500, &err), CONFINE_E_SPEC);
    ck_assert_int_eq(unlink(other), 0);
    ck_assert_int_eq(link(path, other), 0);
    ck_assert_int_eq(order_read(&order, path, 500, &err), CONFINE_E_SPEC);
    ck_assert_int_eq(unlink(other), 0);
    ck_assert_int_eq(order_read(&order, path, 500, &err), CONFINE_OK);
}
END_TEST

START_TEST(settings)
{
    static const struct {
        const char *key, *value;
        bool good;
    } rows[] = {
        {"network", "tcp:80,443", true},
        {"network", "tcp:0", false},
        {"network", "tcp:80,", true},
        {"network", "tcp:x", false},
        {"network", "none", true},
        {"namespaces", "off", true},
        {"namespaces", "on", false},
        {"unix-sockets", "yes", true},
        {"require", "maybe", false},
        {"deny", "", false},
        {"deny", "x", true},
        {"nothing", "x", false},
    };
    confine_auto(order_fini) struct order order;
    order_init(&order);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_msg(order_set(&order, rows[i].key, rows[i].value) == rows[i].good, "row %zu", i);
    }
}
END_TEST

int main(void)
{
    if (mkdtemp(home) == NULL) {
        return 1;
    }
    Suite *suite = suite_create("confine pure");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, globs);
    tcase_add_test(tc, braces_and_unsound_patterns);
    tcase_add_test(tc, environment_is_built);
    tcase_add_test(tc, session_is_handed_back);
    tcase_add_test(tc, denied_paths);
    tcase_add_test(tc, paths);
    tcase_add_test(tc, digests);
    tcase_add_test(tc, plan_files);
    tcase_add_test(tc, plan_file_is_no_link);
    tcase_add_test(tc, settings);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    confine_tmp_remove(home);
    return failed == 0 ? 0 : 1;
}
