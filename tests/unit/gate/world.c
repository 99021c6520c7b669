#include "world.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "tree.h"

static struct gate_rules *rules;
static struct gitmeta_dirs git;
struct gate_place place;
const char *root;

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

void begin(void)
{
    root = tree_begin();
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
    place = (struct gate_place){rules, &git, strdup(tree_at("w")), strdup(tree_at("home")), NULL};
}

void end(void)
{
    gate_rules_free(rules);
    gitmeta_dirs_fini(&git);
    free((char *)place.working_dir);
    free((char *)place.home);
    tree_end();
}

struct gate_verdict judge(const struct gate_facts *facts, enum gate_mode mode)
{
    struct gate_case kernel = facts->kernel;
    struct gate_case lexical = facts->lexical;
    kernel.mode = lexical.mode = mode;
    kernel.is_known_tool = lexical.is_known_tool = true;
    struct gate_verdict a = gate_decide(&kernel);
    struct gate_verdict b = gate_decide(&lexical);
    return *gate_stricter(&a, &b);
}

struct gate_target path_target(const char *path)
{
    return (struct gate_target){.form = GATE_PATH, .path = path};
}

struct gate_target move_target(const char *from, const char *to)
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

void expect(enum gate_action action, const char *path, enum gate_mode mode, const char *code)
{
    const char *got = code_of(action, path_target(path), mode);
    ck_assert_msg(strcmp(got, code) == 0, "%s %s in %s: %s, not %s", gate_action_name(action), path,
                  gate_mode_name(mode), got, code);
}

void expect_move(const char *from, const char *to, enum gate_mode mode, const char *code)
{
    const char *got = code_of(GATE_MOVE, move_target(from, to), mode);
    ck_assert_msg(strcmp(got, code) == 0, "move %s %s in %s: %s, not %s", from, to,
                  gate_mode_name(mode), got, code);
}
