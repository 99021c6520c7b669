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

/* One tree for all: working directory w, home, and folders outside. */
static struct gate_rules *rules;
static struct gitmeta_dirs git;
static struct gate_place place;

static void make_rules(void)
{
    struct gate_rules_input input = {.home = tree_at("home"),
                                     .xdg_config_home = tree_at("xdg"),
                                     .config_dir = tree_at("home/.config/gatehouse"),
                                     .state_dir = tree_at("w/.state")};
    const char *entries[] = {tree_at("out/secret"), tree_at("w/conf/members.yml"),
                             tree_at("w/.agent/settings.json"), NULL};
    input.entries = entries;
    ck_assert_int_eq(gate_rules_new(&input, &rules, NULL), GH_OK);
}

static void begin(void)
{
    tree_begin();
    tree_file("w/src/a.c", "x");
    tree_file("w/.git/HEAD", "x");
    tree_dir("w/.git/objects");
    tree_dir("w/.git/refs");
    tree_file("w/.git/config", "[core]\nhooksPath = .husky/_\n");
    tree_dir("out/deep");
    tree_file("out/secret/key", "s");
    tree_file("home/.bashrc", "x");
    tree_file("home/.ssh/id", "x");
    tree_link(tree_at("out"), "w/d");
    tree_link("../out/secret/key", "w/notes.txt");
    tree_link(tree_at("out/secret/new"), "w/dang");
    tree_link(tree_at("out/deep"), "w/l");
    make_rules();
    ck_assert_int_eq(gitmeta_find(tree_at("w"), tree_at("home"), &git, NULL), GH_OK);
    place = (struct gate_place){rules, &git, strdup(tree_at("w")), strdup(tree_at("home"))};
}

static void end(void)
{
    gate_rules_free(rules);
    gitmeta_dirs_fini(&git);
    free((char *)place.working_dir);
    free((char *)place.home);
    tree_end();
}

static struct gate_verdict judge(const struct gate_facts *facts, enum gate_mode mode)
{
    struct gate_case kernel = facts->kernel;
    struct gate_case lexical = facts->lexical;
    kernel.mode = lexical.mode = mode;
    kernel.is_known_tool = lexical.is_known_tool = true;
    struct gate_verdict a = gate_decide(&kernel);
    struct gate_verdict b = gate_decide(&lexical);
    return *gate_stricter(&a, &b);
}

static struct gate_target path_target(const char *path)
{
    return (struct gate_target){.form = GATE_PATH, .path = path};
}

static struct gate_target move_target(const char *from, const char *to)
{
    return (struct gate_target){.form = GATE_MOVE_PATHS, .path = from, .to = to};
}

/* The verdict's code of a call that can be judged. */
static const char *code_of(enum gate_action action, struct gate_target target, enum gate_mode mode)
{
    gh_auto(gate_facts_fini) struct gate_facts facts;
    struct gh_err err = {0};
    enum gh_code code = gate_facts_gather(&place, action, &target, &facts, &err);
    ck_assert_msg(code == GH_OK, "%s: %s", target.path, err.detail);
    struct gate_verdict v = judge(&facts, mode);
    ck_assert(v.reason != GATE_R_DENY_PATH || facts.deny_entry != NULL);
    return gate_reason_code(v.reason);
}

static void expect(enum gate_action action, const char *path, enum gate_mode mode, const char *code)
{
    const char *got = code_of(action, path_target(path), mode);
    ck_assert_msg(strcmp(got, code) == 0, "%s %s in %s: %s, not %s", gate_action_name(action), path,
                  gate_mode_name(mode), got, code);
}

static void expect_move(const char *from, const char *to, enum gate_mode mode, const char *code)
{
    const char *got = code_of(GATE_MOVE, move_target(from, to), mode);
    ck_assert_msg(strcmp(got, code) == 0, "move %s %s in %s: %s, not %s", from, to,
                  gate_mode_name(mode), got, code);
}

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

static void expect_json(enum gate_action action, struct gate_target target, const char *format)
{
    gh_auto(gate_facts_fini) struct gate_facts facts;
    ck_assert_int_eq(gate_facts_gather(&place, action, &target, &facts, NULL), GH_OK);
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    gate_facts_target_json(&facts, &target, &out);
    /* "@" stands for the tree */
    gh_auto(gh_buf_fini) struct gh_buf want = GH_BUF_INIT;
    for (; *format != '\0'; format++) {
        if (*format == '@') {
            gh_buf_put(&want, place.working_dir, strlen(place.working_dir) - 2);
        } else {
            gh_buf_putc(&want, *format);
        }
    }
    ck_assert_str_eq(gh_buf_str(&out), gh_buf_str(&want));
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
    Suite *suite = suite_create("gate_facts");
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
