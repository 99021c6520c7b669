/* test_gate_facts: from a target to a verdict, on a real tree: the scenarios of behaviour 8 that
 * need no session. */
#include "gate/facts.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "tree.h"
#include "world.h"

/* Scenarios 1, 2, 3, 9, 13, 14, 19; B005, B007, B009, B025. */
START_TEST(denied_paths)
{
    begin();
    static const char *const denied[] = {
        "~/.ssh/id",
        "~/.ssh/new",
        "~/.SSH/x",
        "~/.config/gatehouse/config.yaml",
        ".state/audit",
        ".env",
        "sub/.env",
        "notes.txt",
        "d/secret",
        "d/secret/not/yet",
        "dang",
        "conf/members.yml",
        "conf/./members.yml",
        "conf//members.yml",
        "x/../conf/members.yml",
        "conf/members.yml/",
        "/proc/self/cwd/conf/members.yml",
        ".agent/settings.json",
        "l/../secret/key",
        "../out/secret",
        "id_rsa",
    };
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++) {
        for (int mode = 0; mode < GATE_N_MODES; mode++) {
            expect(GATE_WRITE, denied[i], (enum gate_mode)mode, "deny_path");
            expect(GATE_READ, denied[i], (enum gate_mode)mode, "deny_path");
        }
    }
    expect(GATE_WRITE, "myconf/members.yml", GATE_ACT, "asked");
    expect(GATE_WRITE, "config.json", GATE_ACT, "asked");
    expect(GATE_READ, "/etc/passwd", GATE_PLAN, "auto");
    end();
}
END_TEST

/* A link with a denied name is denied, even in the middle of a chain. */
START_TEST(denied_links_on_the_way)
{
    begin();
    tree_file("w/vault/prod", "x");
    tree_link("vault/prod", "w/.env");
    tree_link(".env", "w/innocent");
    expect(GATE_READ, ".env", GATE_ACT, "deny_path");
    expect(GATE_READ, "innocent", GATE_ACT, "deny_path");
    end();
}
END_TEST

/* Scenarios 10 and 11. */
START_TEST(moves)
{
    begin();
    tree_file("w/pack/.gitignore", "hidden\n");
    tree_file("w/pack/hidden/.env", "x");
    tree_file("w/new/settings.json", "x");
    for (int mode = 0; mode < GATE_N_MODES; mode++) {
        expect_move("~/.ssh/id", "x", (enum gate_mode)mode, "deny_path");
        expect_move("src/a.c", "~/.ssh/x", (enum gate_mode)mode, "deny_path");
        expect_move("pack", "pack2", (enum gate_mode)mode, "deny_path");
        expect_move("new", ".agent", (enum gate_mode)mode, "deny_path");
        expect_move("src/a.c", ".git/hooks/x", (enum gate_mode)mode, "git_metadata");
        expect_move(".git/config", "x", (enum gate_mode)mode, "git_metadata");
        expect_move(".husky", "x", (enum gate_mode)mode, "git_metadata");
    }
    expect(GATE_DELETE, "pack", GATE_ACT, "deny_path");
    tree_link("pack", "w/packlink"); /* moved alone */
    expect_move("packlink", "other", GATE_ACT, "asked");
    expect_move("src/a.c", "src/b.c", GATE_ACT, "asked");
    expect_move("src/a.c", "src/b.c", GATE_AUTONOMOUS, "auto");
    expect_move("src/a.c", "../x", GATE_AUTONOMOUS, "autonomous_boundary");
    expect_move("../out/deep", "deep", GATE_AUTONOMOUS, "autonomous_boundary");
    expect_move("src", ".claude", GATE_AUTONOMOUS, "gate_configuration");
    expect_move("src/a.c", "src/b.c", GATE_PLAN, "plan_mode");
    end();
}
END_TEST

/* Scenarios 20 to 26; B008, B010. */
START_TEST(git_metadata)
{
    begin();
    static const char *const guarded[] = {
        ".git/config",         ".git",         "sub/.git/hooks/pre-commit",
        ".GIT/config",         ".Git/hooks/x", ".git /config",
        ".git./config",        "~/.gitconfig", "~/.config/git/config",
        ".husky/_/pre-commit", "git~1/x",
    };
    for (size_t i = 0; i < sizeof guarded / sizeof *guarded; i++) {
        for (int mode = 0; mode < GATE_N_MODES; mode++) {
            expect(GATE_WRITE, guarded[i], (enum gate_mode)mode, "git_metadata");
            expect(GATE_DELETE, guarded[i], (enum gate_mode)mode, "git_metadata");
        }
    }
    expect(GATE_WRITE, tree_at("xdg/git/config"), GATE_ACT, "git_metadata");
    expect(GATE_READ, ".git/HEAD", GATE_PLAN, "auto");
    static const char *const open_names[] = {".github/x",      ".gitignore", ".GITIGNORE",
                                             ".gitattributes", ".gitconfig", "git/x"};
    for (size_t i = 0; i < sizeof open_names / sizeof *open_names; i++) {
        expect(GATE_WRITE, open_names[i], GATE_ACT, "asked");
    }
    end();
}
END_TEST

/* Scenarios 40 and 41; B006. */
START_TEST(the_autonomous_boundary)
{
    begin();
    tree_link(tree_at("w/src/a.c"), "out/inward");
    expect(GATE_WRITE, "src/new.c", GATE_AUTONOMOUS, "auto");
    expect(GATE_WRITE, ".", GATE_AUTONOMOUS, "auto");
    expect(GATE_DELETE, "src/a.c", GATE_AUTONOMOUS, "auto");
    static const char *const outside[] = {
        "/etc/passwd", "../w-secrets/k", "../w.bak/k", "../wX", "..", "d/deep/x",
        "l/x",         "l/../deep/x",    "d/inward",
    };
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        expect(GATE_WRITE, outside[i], GATE_AUTONOMOUS, "autonomous_boundary");
        bool is_above = strcmp(outside[i], "..") == 0; /* holds denied files */
        expect(GATE_DELETE, outside[i], GATE_AUTONOMOUS,
               is_above ? "deny_path" : "autonomous_boundary");
    }
    /* kernel reading inside, lexical outside: the stricter counts */
    tree_dir("w/far/er");
    tree_link(tree_at("w/far/er"), "hop");
    expect(GATE_WRITE, tree_at("hop/../x"), GATE_AUTONOMOUS, "autonomous_boundary");
    expect(GATE_WRITE, tree_at("hop/x"), GATE_AUTONOMOUS, "auto");
    /* both readings lead inside, but the lexical one's link lies outside */
    tree_link(tree_at("w/far/er"), "out/k");
    expect(GATE_WRITE, tree_at("out/k/../inward"), GATE_AUTONOMOUS, "autonomous_boundary");
    expect(GATE_WRITE, tree_at("out/k/../other"), GATE_AUTONOMOUS, "autonomous_boundary");
    expect(GATE_WRITE, tree_at("out/k/x"), GATE_AUTONOMOUS, "auto");
    end();
}
END_TEST

/* Scenario 46. */
START_TEST(what_runs_later_is_never_remembered)
{
    begin();
    tree_file("dots/zshrc", "x");
    tree_link("../dots/zshrc", "home/.zshrc");
    static const char *const later[] = {"~/.bashrc", "~/.config/autostart/x", ".envrc", "~/.zshrc"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        struct gate_target target = path_target(later[i]);
        gh_auto(gate_facts_fini) struct gate_facts facts;
        ck_assert_int_eq(gate_facts_gather(&place, GATE_WRITE, &target, &facts, NULL), GH_OK);
        ck_assert_ptr_nonnull(facts.later);
        ck_assert(!judge(&facts, GATE_ACT).may_remember);
    }
    struct gate_target plain = path_target("/tmp/.bashrc");
    gh_auto(gate_facts_fini) struct gate_facts facts;
    ck_assert_int_eq(gate_facts_gather(&place, GATE_WRITE, &plain, &facts, NULL), GH_OK);
    ck_assert_ptr_null(facts.later);
    ck_assert(judge(&facts, GATE_ACT).may_remember);
    struct gate_target read = path_target("~/.bashrc");
    gh_auto(gate_facts_fini) struct gate_facts reading;
    ck_assert_int_eq(gate_facts_gather(&place, GATE_READ, &read, &reading, NULL), GH_OK);
    ck_assert_ptr_null(reading.later);
    struct gate_target move = move_target("src/a.c", "~/.zshrc");
    gh_auto(gate_facts_fini) struct gate_facts moving;
    ck_assert_int_eq(gate_facts_gather(&place, GATE_MOVE, &move, &moving, NULL), GH_OK);
    ck_assert_ptr_nonnull(moving.later);
    end();
}
END_TEST

START_TEST(agents_settings)
{
    begin();
    expect(GATE_WRITE, ".claude/settings.json", GATE_ACT, "asked");
    expect(GATE_WRITE, ".claude/settings.json", GATE_AUTONOMOUS, "gate_configuration");
    expect(GATE_WRITE, "~/.codex/config.toml", GATE_AUTONOMOUS, "gate_configuration");
    expect(GATE_READ, ".claude/settings.json", GATE_AUTONOMOUS, "auto");
    expect(GATE_DELETE, ".claude", GATE_AUTONOMOUS, "gate_configuration");
    expect(GATE_WRITE, ".claude/plan.md", GATE_AUTONOMOUS, "auto");
    struct gate_target target = path_target("sub/.mcp.json");
    gh_auto(gate_facts_fini) struct gate_facts facts;
    ck_assert_int_eq(gate_facts_gather(&place, GATE_WRITE, &target, &facts, NULL), GH_OK);
    ck_assert(!judge(&facts, GATE_ACT).may_remember);
    end();
}
END_TEST

static void refuse(enum gate_action action, struct gate_target target, const char *pointer)
{
    struct gate_facts facts;
    struct gh_err err = {0};
    ck_assert_int_eq(gate_facts_gather(&place, action, &target, &facts, &err), GH_INVALID);
    ck_assert_str_eq(err.pointer, pointer);
    ck_assert_uint_gt(strlen(err.detail), 10);
}

START_TEST(what_cannot_be_judged_is_refused)
{
    begin();
    const char *none[] = {"-c", " "};
    refuse(GATE_WRITE, path_target(""), "/path");
    refuse(GATE_WRITE, path_target(NULL), "/path");
    refuse(GATE_WRITE, path_target(" \t\n"), "/path");
    refuse(GATE_WRITE, path_target("\xe2\x80\x8b\xe2\x80\x8d"), "/path");
    refuse(GATE_READ, path_target("/proc/1/root/etc/passwd"), "/path");
    refuse(GATE_MOVE, move_target("", "x"), "/from");
    refuse(GATE_MOVE, move_target("x", " "), "/to");
    refuse(GATE_MOVE, path_target("x"), "");
    refuse(GATE_READ, move_target("x", "y"), "");
    refuse(GATE_EXECUTE, path_target("x"), "");
    refuse(GATE_ACTION_NONE, path_target("x"), "");
    refuse(GATE_NETWORK, (struct gate_target){.form = GATE_DESCRIPTION, .description = " "},
           "/description");
    refuse(GATE_WRITE, (struct gate_target){.form = GATE_DESCRIPTION, .description = "x"}, "");
    refuse(GATE_EXECUTE, (struct gate_target){.form = GATE_COMMAND, .program = ""}, "/program");
    refuse(GATE_EXECUTE,
           (struct gate_target){
               .form = GATE_COMMAND, .program = "sh", .args = none, .n_args = 2, .is_shell = true},
           "/shell");
    static const char *const folders[] = {"missing", "src/a.c", "~/.ssh", "d/secret", "", "loop"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        refuse(GATE_EXECUTE,
               (struct gate_target){.form = GATE_COMMAND, .program = "true", .cwd = folders[i]},
               "/cwd");
    }
    end();
}
END_TEST

START_TEST(the_program_that_would_run)
{
    begin();
    tree_file("w/bin/tool", "#!/bin/sh\n");
    ck_assert_int_eq(chmod(tree_at("w/bin/tool"), 0755), 0);
    tree_link("tool", "w/bin/alias");
    ck_assert_int_eq(setenv("PATH", "/nowhere:bin::/usr/bin:/bin", 1), 0);
    static const char *const found[] = {"bin/tool", "./bin/alias", "tool", "alias"};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        struct gate_target target = {.form = GATE_COMMAND, .program = found[i]};
        gh_auto(gate_facts_fini) struct gate_facts facts;
        ck_assert_int_eq(gate_facts_gather(&place, GATE_EXECUTE, &target, &facts, NULL), GH_OK);
        ck_assert_ptr_nonnull(facts.resolved);
        ck_assert_str_eq(facts.resolved, tree_at("w/bin/tool"));
        ck_assert_str_eq(facts.cwd, tree_at("w"));
    }
    static const char *const missing[] = {"src/a.c", "src", "no-such-program", "~/x"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        struct gate_target target = {.form = GATE_COMMAND, .program = missing[i], .cwd = "src"};
        gh_auto(gate_facts_fini) struct gate_facts facts;
        ck_assert_int_eq(gate_facts_gather(&place, GATE_EXECUTE, &target, &facts, NULL), GH_OK);
        ck_assert_msg(facts.resolved == NULL, "%s", missing[i]);
        ck_assert_str_eq(facts.cwd, tree_at("w/src"));
    }
    end();
}
END_TEST

static char *key_of(enum gate_action action, struct gate_target target, const char *tool,
                    const char *env)
{
    gh_auto(gate_facts_fini) struct gate_facts facts;
    ck_assert_int_eq(gate_facts_gather(&place, action, &target, &facts, NULL), GH_OK);
    struct gh_buf out = GH_BUF_INIT;
    gate_facts_key(&facts, action, &target, tool, env, &out);
    ck_assert_uint_eq(strlen(gh_buf_str(&out)), out.len);
    return gh_buf_take(&out);
}

static struct gate_target shell(const char *const args[2])
{
    return (struct gate_target){
        .form = GATE_COMMAND, .program = "sh", .args = args, .n_args = 2, .is_shell = true};
}

static struct gate_target say(const char *text)
{
    return (struct gate_target){.form = GATE_DESCRIPTION, .description = text};
}

/* Scenarios 34 to 37, 39; B001, B017, B065: different targets never share a key. */
START_TEST(keys_are_exact)
{
    begin();
    static const char *const texts[] = {
        "echo ok",  "echo ok && id", "echo ok; id",   "echo ok\nid",
        "echo  ok", "echo ok ",      "echo ok $(id)", "echo ok\xe2\x81\xaa",
    };
    static const char *const paths[] = {
        "app.js",  "app.js\xe2\x81\xaa", "app.js ",       "\xd0\xb0pp.js",
        "app.js.", "\xc3\xa9.txt",       "e\xcc\x81.txt", "\xff",
        "\xfe",    "l/../app.js",        "../out/app.js",
    };
    char *keys[64];
    int n = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *args[2] = {"-c", texts[i]};
        keys[n++] = key_of(GATE_EXECUTE, shell(args), "shell", "");
    }
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        keys[n++] = key_of(GATE_WRITE, path_target(paths[i]), "write_file", "");
    }
    keys[n++] = key_of(GATE_DELETE, path_target("app.js"), "delete_file", "");
    keys[n++] = key_of(GATE_MOVE, move_target("a", "b"), "move_file", "");
    keys[n++] = key_of(GATE_MOVE, move_target("a", "c"), "move_file", "");
    keys[n++] = key_of(GATE_MOVE, move_target("b", "a"), "move_file", "");
    keys[n++] = key_of(GATE_PERSISTENT_MEMORY, say("topic"), "memory_write", "");
    keys[n++] = key_of(GATE_PERSISTENT_MEMORY, say("topic"), "memory_forget", "");
    keys[n++] = key_of(GATE_MCP_TOOL, say("topic"), "mcp__a__b", "");
    const char *split[] = {"a", "b"};
    const char *joined[] = {"a,1:b"};
    struct gate_target command = {.form = GATE_COMMAND, .program = "p", .args = split, .n_args = 2};
    keys[n++] = key_of(GATE_EXECUTE, command, "shell", "");
    keys[n++] = key_of(GATE_EXECUTE, command, "shell", "{\"A\":\"1\"}");
    command.cwd = "src";
    keys[n++] = key_of(GATE_EXECUTE, command, "shell", "");
    command =
        (struct gate_target){.form = GATE_COMMAND, .program = "p", .args = joined, .n_args = 1};
    keys[n++] = key_of(GATE_EXECUTE, command, "shell", "");
    for (int i = 0; i < n; i++) {
        for (int j = i + 1; j < n; j++) {
            ck_assert_msg(strcmp(keys[i], keys[j]) != 0, "%s", keys[i]);
        }
    }
    const char *same[2] = {"-c", "echo ok"};
    struct gate_target vector = {
        .form = GATE_COMMAND, .program = "sh", .args = same, .n_args = 2, .cwd = "src/.."};
    keys[n++] = key_of(GATE_EXECUTE, vector, "run_command", "");
    ck_assert_str_eq(keys[n - 1], keys[0]);
    keys[n++] = key_of(GATE_MCP_TOOL, say("topic"), "other", "");
    ck_assert_str_eq(keys[n - 1], keys[n - 7]);
    for (int i = 0; i < n; i++) {
        free(keys[i]);
    }
    end();
}
END_TEST

/* "@" stands for the tree. */
static void expect_text(const struct gh_buf *got, const char *format)
{
    gh_auto(gh_buf_fini) struct gh_buf want = GH_BUF_INIT;
    for (; *format != '\0'; format++) {
        if (*format == '@') {
            gh_buf_puts(&want, root);
        } else {
            gh_buf_putc(&want, *format);
        }
    }
    ck_assert_str_eq(gh_buf_str(got), gh_buf_str(&want));
}

static void expect_json(enum gate_action action, struct gate_target target, const char *format)
{
    gh_auto(gate_facts_fini) struct gate_facts facts;
    ck_assert_int_eq(gate_facts_gather(&place, action, &target, &facts, NULL), GH_OK);
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    gate_facts_target_json(&facts, &target, &out);
    expect_text(&out, format);
}

static void expect_readings(enum gate_action action, struct gate_target target, const char *format)
{
    gh_auto(gate_facts_fini) struct gate_facts facts;
    ck_assert_int_eq(gate_facts_gather(&place, action, &target, &facts, NULL), GH_OK);
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    gate_facts_readings_json(&facts, &out);
    expect_text(&out, format);
}

START_TEST(targets_are_shown_canonical)
{
    begin();
    const char *args[] = {"a", "\"b\n"};
    expect_json(GATE_WRITE, path_target("./src//a.c"), "{\"path\":\"@/w/src/a.c\"}");
    expect_json(GATE_MOVE, move_target("a", "l/../b"), "{\"from\":\"@/w/a\",\"to\":\"@/out/b\"}");
    expect_json(GATE_NETWORK, say("http://x"), "{\"description\":\"http://x\"}");
    expect_json(
        GATE_EXECUTE,
        (struct gate_target){.form = GATE_COMMAND, .program = "p", .args = args, .n_args = 2},
        "{\"args\":[\"a\",\"\\\"b\\n\"],\"cwd\":\"@/w\",\"program\":\"p\"}");
    expect_json(GATE_EXECUTE, (struct gate_target){.form = GATE_COMMAND, .program = "p"},
                "{\"args\":[],\"cwd\":\"@/w\",\"program\":\"p\"}");
    end();
}
END_TEST

/* Different places never look the same, nor share a key. */
START_TEST(a_link_is_shown_where_it_lies)
{
    begin();
    tree_file("w/real", "x");
    tree_link(tree_at("w/real"), "out/link");
    tree_link(tree_at("w/src"), "w/srclink");
    tree_dir("out/deep/sub");
    expect_json(GATE_DELETE, path_target("../out/link"), "{\"path\":\"@/out/link\"}");
    expect_json(GATE_DELETE, path_target("real"), "{\"path\":\"@/w/real\"}");
    expect_json(GATE_WRITE, path_target("../out/link"), "{\"path\":\"@/w/real\"}");
    expect_json(GATE_READ, path_target("../out/link"), "{\"path\":\"@/w/real\"}");
    expect_json(GATE_MOVE, move_target("real", "../out/link"),
                "{\"from\":\"@/w/real\",\"to\":\"@/out/link\"}");
    expect_json(GATE_MOVE, move_target("srclink", "x"),
                "{\"from\":\"@/w/srclink\",\"to\":\"@/w/x\"}");
    expect_readings(GATE_DELETE, path_target("real"), "{}");
    expect_readings(GATE_DELETE, path_target("../out/link"), "{\"kernel\":\"@/w/real\"}");
    expect_readings(GATE_WRITE, path_target("../out/link"), "{\"leaf\":\"@/out/link\"}");
    expect_readings(GATE_WRITE, path_target("l/../conf"), "{\"lexical\":\"@/w/conf\"}");
    expect_readings(GATE_MOVE, move_target("l/../x", "../out/link"),
                    "{\"lexical\":\"@/w/x\",\"to_kernel\":\"@/w/real\"}");
    expect_readings(GATE_NETWORK, say("x"), "{}");
    /* both readings end in one file, by another last link */
    tree_link(tree_at("w/real"), "w/twin");
    tree_link(tree_at("w/real"), "out/twin");
    expect_readings(GATE_DELETE, path_target("l/../twin"),
                    "{\"kernel\":\"@/w/real\",\"lexical\":\"@/w/real\","
                    "\"lexical_leaf\":\"@/w/twin\"}");
    static const char *const names[] = {"real", "../out/link", "../out/twin", "twin", "l/../twin"};
    enum { N = sizeof names / sizeof *names };
    char *keys[N];
    for (int i = 0; i < N; i++) {
        keys[i] = key_of(GATE_DELETE, path_target(names[i]), "delete_file", "");
        for (int j = 0; j < i; j++) {
            ck_assert_msg(strcmp(keys[i], keys[j]) != 0, "%s %s", names[i], names[j]);
        }
    }
    for (int i = 0; i < N; i++) {
        free(keys[i]);
    }
    end();
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("facts");
    tcase_add_test(tcase, denied_paths);
    tcase_add_test(tcase, denied_links_on_the_way);
    tcase_add_test(tcase, moves);
    tcase_add_test(tcase, git_metadata);
    tcase_add_test(tcase, the_autonomous_boundary);
    tcase_add_test(tcase, what_runs_later_is_never_remembered);
    tcase_add_test(tcase, agents_settings);
    tcase_add_test(tcase, what_cannot_be_judged_is_refused);
    tcase_add_test(tcase, the_program_that_would_run);
    tcase_add_test(tcase, keys_are_exact);
    tcase_add_test(tcase, targets_are_shown_canonical);
    tcase_add_test(tcase, a_link_is_shown_where_it_lies);
    Suite *suite = suite_create("gate_facts");
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
