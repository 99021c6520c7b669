/* test_gate_folders: what takes whole folders along, and what makes a repository of one. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "gate/facts.h"
#include "tree.h"
#include "world.h"

/* Removing or moving a folder is judged by all that is in it. */
START_TEST(folders_are_judged_by_what_is_in_them)
{
    begin();
    tree_file("w/nest/.git/HEAD", "x");
    tree_file("w/deep/er/.git", "gitdir: x");
    tree_file("w/q/.claude/settings.json", "x");
    tree_file("w/plain/a/b", "x");
    tree_file("w/half/objects/x", "x");
    tree_file("w/half/refs/x", "x");
    tree_file("w/half/config", "x");
    static const char *const git_holders[] = {".", "nest", "deep", "half", "src/..", "../w/nest"};
    for (size_t i = 0; i < sizeof git_holders / sizeof *git_holders; i++) {
        expect(GATE_DELETE, git_holders[i], GATE_ACT, "git_metadata");
        expect_move(git_holders[i], "../elsewhere", GATE_ACT, "git_metadata");
    }
    expect(GATE_DELETE, "q", GATE_AUTONOMOUS, "gate_configuration");
    expect(GATE_DELETE, "q", GATE_ACT, "asked");
    expect_move("q", "sub", GATE_AUTONOMOUS, "gate_configuration");
    expect(GATE_DELETE, "plain", GATE_AUTONOMOUS, "auto");
    expect_move("plain", "plain2", GATE_AUTONOMOUS, "auto");
    tree_link(tree_at("w/nest"), "w/nestlink"); /* goes alone */
    expect(GATE_DELETE, "nestlink", GATE_AUTONOMOUS, "auto");
    end();
}
END_TEST

static const char *later_of(const char *from, const char *to)
{
    struct gate_target target = move_target(from, to);
    gh_auto(gate_facts_fini) struct gate_facts facts;
    ck_assert_int_eq(gate_facts_gather(&place, GATE_MOVE, &target, &facts, NULL), GH_OK);
    return facts.kernel.runs_later ? facts.later : NULL;
}

/* ... and by where it would lie. */
START_TEST(folders_are_judged_by_where_they_land)
{
    begin();
    tree_file("w/p1/user/x.service", "x");
    tree_file("w/p2/systemd/user/x.service", "x");
    tree_file("w/p3/conf.d/x.fish", "x");
    tree_file("w/p4/git/config", "x");
    tree_file("w/p5/settings.json", "x");
    ck_assert_ptr_nonnull(later_of("p1", "~/.config/systemd"));
    ck_assert_ptr_nonnull(later_of("p2", "~/.config"));
    ck_assert_ptr_nonnull(later_of("p3", "~/.config/fish"));
    ck_assert_ptr_null(later_of("p1", "elsewhere"));
    expect_move("p4", "~/.config", GATE_ACT, "git_metadata");
    expect_move("p5", ".claude", GATE_AUTONOMOUS, "gate_configuration");
    /* by a link as well, which takes nothing else along */
    tree_link("p1", "w/p1link");
    ck_assert_ptr_nonnull(later_of("p1link", "~/.config/systemd"));
    ck_assert_ptr_null(later_of("p1link", "elsewhere"));
    tree_link("p5", "w/p5link");
    expect_move("p5link", ".claude", GATE_AUTONOMOUS, "gate_configuration");
    /* a folder that exists may take it in */
    tree_dir("home/.config/systemd");
    tree_dir("w/half/refs");
    tree_dir("w/half/objects");
    tree_file("w/HEAD", "x");
    ck_assert_ptr_nonnull(later_of("p1/user", "~/.config/systemd"));
    expect_move("p4/git", "~/.config", GATE_ACT, "git_metadata");
    expect_move("HEAD", "half", GATE_ACT, "git_metadata");
    end();
}
END_TEST

START_TEST(the_working_directory_itself)
{
    begin();
    ck_assert_int_eq(remove(tree_at("w/.git/config")), 0);
    char *bare = strdup(tree_at("w/bare"));
    tree_dir("w/bare/src");
    tree_dir("w/bare2");
    tree_link(bare, "w/bare/self");
    free((char *)place.working_dir);
    place.working_dir = bare;
    expect(GATE_DELETE, ".", GATE_AUTONOMOUS, "autonomous_boundary");
    expect(GATE_DELETE, "src/..", GATE_AUTONOMOUS, "autonomous_boundary");
    expect_move(".", "sub/x", GATE_AUTONOMOUS, "autonomous_boundary");
    expect_move("src", ".", GATE_AUTONOMOUS, "autonomous_boundary");
    expect(GATE_DELETE, "src", GATE_AUTONOMOUS, "auto");
    expect(GATE_DELETE, "self", GATE_AUTONOMOUS, "auto"); /* the link, not what it points to */
    expect(GATE_DELETE, "self/", GATE_AUTONOMOUS, "autonomous_boundary"); /* here it is not */
    expect(GATE_DELETE, "self/.", GATE_AUTONOMOUS, "autonomous_boundary");
    expect(GATE_DELETE, ".", GATE_ACT, "asked");
    end();
}
END_TEST

/* All parts of a call share one budget; what it does not reach is refused. */
START_TEST(walks_have_a_budget)
{
    begin();
    tree_file("w/plain/a/b", "x");
    size_t budget = 5;
    place.budget = &budget;
    expect(GATE_DELETE, "plain", GATE_ACT, "asked");
    ck_assert_uint_eq(budget, 3);
    expect_move("plain", "plain2", GATE_ACT, "asked");
    ck_assert_uint_eq(budget, 1);
    expect(GATE_DELETE, "plain", GATE_ACT, "deny_path");
    tree_link("plain", "w/plainlink");
    ck_assert_ptr_nonnull(later_of("plainlink", "elsewhere")); /* a link is not worth a refusal */
    expect(GATE_WRITE, "plain/x", GATE_ACT, "asked");          /* nothing to walk */
    expect(GATE_DELETE, "plain/a/b", GATE_ACT, "asked");
    end();
}
END_TEST

/* A repository in an ordinary folder, file by file. */
START_TEST(repositories_in_the_making)
{
    begin();
    expect(GATE_WRITE, "b/HEAD", GATE_AUTONOMOUS, "git_metadata"); /* none is one without it */
    expect_move("src/a.c", "b/HEAD", GATE_AUTONOMOUS, "git_metadata");
    expect(GATE_WRITE, "b/config", GATE_AUTONOMOUS, "auto");
    tree_file("w/b/config", "x");
    expect(GATE_WRITE, "b/objects/x", GATE_AUTONOMOUS, "auto");
    tree_file("w/b/objects/x", "x");
    expect(GATE_WRITE, "b/refs/x", GATE_AUTONOMOUS, "git_metadata");
    expect_move("src", "b/refs", GATE_AUTONOMOUS, "git_metadata");
    expect(GATE_WRITE, "b/notes", GATE_AUTONOMOUS, "auto");
    expect(GATE_DELETE, "b/config", GATE_AUTONOMOUS, "auto");
    tree_file("w/h/HEAD", "x");
    expect(GATE_DELETE, "h/HEAD", GATE_AUTONOMOUS, "auto");
    end();
}
END_TEST

START_TEST(a_nested_repositorys_hooks)
{
    begin();
    tree_file("w/inner/.git/HEAD", "x");
    tree_dir("w/inner/.git/objects");
    tree_dir("w/inner/.git/refs");
    tree_file("w/inner/.git/config", "[core]\nhooksPath = .hooks\n");
    tree_file("w/new/pre-commit", "x");
    expect(GATE_WRITE, "inner/.hooks/pre-commit", GATE_AUTONOMOUS, "git_metadata");
    expect(GATE_WRITE, "inner/src/x", GATE_AUTONOMOUS, "auto");
    expect_move("new", "inner/.hooks", GATE_AUTONOMOUS, "git_metadata");
    expect(GATE_WRITE, "new/pre-commit", GATE_AUTONOMOUS, "auto");
    end();
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("folders");
    tcase_add_test(tcase, folders_are_judged_by_what_is_in_them);
    tcase_add_test(tcase, folders_are_judged_by_where_they_land);
    tcase_add_test(tcase, the_working_directory_itself);
    tcase_add_test(tcase, walks_have_a_budget);
    tcase_add_test(tcase, repositories_in_the_making);
    tcase_add_test(tcase, a_nested_repositorys_hooks);
    Suite *suite = suite_create("gate_folders");
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
