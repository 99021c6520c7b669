/* test_gate_names: names that are guarded without being on the deny list. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "gate/rules.h"
#include "tree.h"

static void free_rules(struct gate_rules **rules)
{
    gate_rules_free(*rules);
}

static struct gate_rules_input plain_input(void)
{
    return (struct gate_rules_input){
        .home = "/home/u", .config_dir = "/c/gatehouse", .state_dir = "/s/gatehouse"};
}

/* Scenarios 23 and 24. */
START_TEST(global_git_configuration)
{
    tree_begin();
    tree_file("dot/gitconfig", "x");
    tree_link("../dot/gitconfig", "home/.gitconfig");
    tree_file("dot/git/config", "x");
    tree_link("../../dot/git", "home/.config/git");
    const char *xdg = tree_at("xdg");
    struct gate_rules_input input = {.home = tree_at("home"),
                                     .xdg_config_home = xdg,
                                     .git_config_global = tree_at("my.conf"),
                                     .config_dir = "/c",
                                     .state_dir = "/s"};
    gh_auto(free_rules) struct gate_rules *rules = NULL;
    ck_assert_int_eq(gate_rules_new(&input, &rules, NULL), GH_OK);
    static const char *const guarded[] = {
        "home/.gitconfig",         "home/.GitConfig", "dot/gitconfig",  "home/.config/git/config",
        "home/.config/git/ignore", "dot/git/config",  "xdg/git/config", "my.conf",
    };
    for (size_t i = 0; i < sizeof guarded / sizeof *guarded; i++) {
        ck_assert_msg(gate_rules_is_global_git(rules, tree_at(guarded[i])), "%s", guarded[i]);
    }
    ck_assert(gate_rules_is_global_git(rules, "/etc/gitconfig"));
    static const char *const not_guarded[] = {"project/.gitconfig", "home/.gitconfig2", "dot",
                                              "home/.config", "xdg/gitx"};
    for (size_t i = 0; i < sizeof not_guarded / sizeof *not_guarded; i++) {
        ck_assert_msg(!gate_rules_is_global_git(rules, tree_at(not_guarded[i])), "%s",
                      not_guarded[i]);
    }
    input.xdg_config_home = "relative";
    input.git_config_global = "/dev/null";
    gh_auto(free_rules) struct gate_rules *other = NULL;
    ck_assert_int_eq(gate_rules_new(&input, &other, NULL), GH_OK);
    ck_assert(!gate_rules_is_global_git(other, tree_at("xdg/git/config")));
    ck_assert(!gate_rules_is_global_git(other, "/dev/null"));
    tree_end();
}
END_TEST

/* Scenario 46, behaviour 1.10. */
START_TEST(files_that_run_code_later)
{
    struct gate_rules_input input = plain_input();
    input.xdg_config_home = "/xdg";
    gh_auto(free_rules) struct gate_rules *rules = NULL;
    ck_assert_int_eq(gate_rules_new(&input, &rules, NULL), GH_OK);
    static const char *const later[] = {
        "/home/u/.bashrc",
        "/home/u/.zshrc",
        "/home/u/.zshenv",
        "/home/u/.config/fish/config.fish",
        "/home/u/.config/fish/conf.d/x.fish",
        "/home/u/.bash_profile",
        "/home/u/.bash_login",
        "/home/u/.profile",
        "/home/u/.zprofile",
        "/home/u/.zlogin",
        "/home/u/.config/autostart/x.desktop",
        "/home/u/.config/systemd/user/x.service",
        "/home/u/.xprofile",
        "/home/u/.xinitrc",
        "/home/u/.config/environment.d/x.conf",
        "/home/u/.pam_environment",
        "/home/u/.ssh/rc",
        "/w/.envrc",
        "/w/.vscode/tasks.json",
        "/home/u/.config/plasma-workspace/env/x.sh",
        "/etc/crontab",
        "/var/spool/cron/u",
        "/w/.husky/pre-commit",
        "/w/.pre-commit-config.yaml",
        "/xdg/autostart/x.desktop",
        "/xdg/systemd/user/x.service",
    };
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        ck_assert_msg(gate_rules_runs_later(rules, later[i]) != NULL, "%s", later[i]);
    }
    static const char *const now[] = {
        "/tmp/.bashrc",      "/w/.profile", "/home/u/x/.bashrc", "/home/u/.config/fish",
        "/w/.vscode/x.json", "/w/src/a.c",  "/home/u/.bashrc2",  "/w/husky/x"};
    for (size_t i = 0; i < sizeof now / sizeof *now; i++) {
        ck_assert_msg(gate_rules_runs_later(rules, now[i]) == NULL, "%s", now[i]);
    }
}
END_TEST

START_TEST(agents_own_settings)
{
    struct gate_rules_input input = plain_input();
    gh_auto(free_rules) struct gate_rules *rules = NULL;
    ck_assert_int_eq(gate_rules_new(&input, &rules, NULL), GH_OK);
    static const char *const config[] = {
        "/w/.claude/settings.json",
        "/w/.claude/settings.local.json",
        "/w/.claude/hooks/x.sh",
        "/w/.claude/agents/a.md",
        "/w/.claude/skills/s/SKILL.md",
        "/w/.mcp.json",
        "/w/sub/.mcp.json",
        "/w/.codex/config.toml",
        "/w/.codex/hooks.json",
        "/w/.gemini/settings.json",
        "/w/.gemini/policies/p.toml",
        "/w/.qwen/settings.json",
        "/w/.github/hooks/h.json",
        "/w/.github/copilot/settings.json",
        "/w/.github/copilot/settings.local.json",
        "/w/.cursor/hooks.json",
        "/w/.cursor/mcp.json",
        "/w/.clinerules/hooks/PreToolUse",
        "/w/crush.json",
        "/w/.crush.json",
        "/w/opencode.json",
        "/w/opencode.jsonc",
        "/w/.opencode/plugin/x.js",
        "/w/.agents/plugins/p/x",
        "/w/.vscode/settings.json",
        "/w/.amp/settings.json",
        "/w/.CLAUDE/Settings.json",
        "/home/u/.claude/anything",
        "/home/u/.claude.json",
        "/home/u/.codex/x",
        "/home/u/.copilot/config",
        "/home/u/.cline/x",
        "/home/u/Documents/Cline/Hooks/x",
        "/home/u/.config/opencode/x",
        "/home/u/.config/goose/config.yaml",
        "/home/u/.config/crush/crush.json",
        "/w/.gatehouse.yaml",
    };
    for (size_t i = 0; i < sizeof config / sizeof *config; i++) {
        ck_assert_msg(gate_rules_is_gate_config(rules, config[i]), "%s", config[i]);
        ck_assert(gate_rules_holds_gate_config(rules, config[i]));
    }
    static const char *const plain[] = {
        "/w/.claude/notes.md",
        "/w/claude/settings.json",
        "/w/.github/workflows/w.yml",
        "/w/.github/copilot/other.json",
        "/w/.github/copilot/x/settings.json",
        "/w/.vscode/extensions.json",
        "/w/mcp.json",
        "/w/.mcp.json.bak",
        "/w/src/crush.json.c",
        "/w/.claude",
        "/home/u/.config/x",
        "/w/.agents/x",
        "/w/.mcp.json/x",
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        ck_assert_msg(!gate_rules_is_gate_config(rules, plain[i]), "%s", plain[i]);
    }
    static const char *const folders[] = {"/w/.claude", "/w/.github", "/w/.github/copilot",
                                          "/w/.Codex"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        ck_assert_msg(gate_rules_holds_gate_config(rules, folders[i]), "%s", folders[i]);
    }
    ck_assert(!gate_rules_holds_gate_config(rules, "/w/src"));
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("names");
    tcase_add_test(tcase, global_git_configuration);
    tcase_add_test(tcase, files_that_run_code_later);
    tcase_add_test(tcase, agents_own_settings);
    Suite *suite = suite_create("gate_names");
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
