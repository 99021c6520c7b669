/* test_gate_gitmeta: git's own files, under every name and wherever they lie. */
#include "gate/gitmeta.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "gate/gitconf.h"
#include "tree.h"

/* Scenarios 20, 21, 25; B008. */
START_TEST(spellings_of_dot_git)
{
    static const char *const git[] = {
        "/r/.git",
        "/r/.git/config",
        "/r/sub/.git/hooks/pre-commit",
        "/w/.GIT/config",
        "/w/.Git/hooks/pre-commit",
        "/w/.git /config",
        "/w/.git./config",
        "/w/sub/.gIt/x",
        "/w/.git. . ./x",
        "/w/git~1/config",
        "/w/GIT~1",
        "/w/git~2/x",
        "/w/.git::$INDEX_ALLOCATION",
        "/w/.git:x/config",
        "/w/.git\\config",
        "/w/.g\342\200\214it/config",
        "/w/\xe2\x81\xaa.git",
        "/w/.git\xef\xbb\xbf/x",
        "/w/.gi\xc2\xadt",
        "/w/.git\t/x",
        "/w/\xe2\x80\x8d.\xe2\x80\x8dg\xe2\x80\x8di\xe2\x80\x8dt\xe2\x80\x8d/x",
    };
    static const char *const not_git[] = {
        "/r/.github/x",   "/r/.gitignore",
        "/w/.GITIGNORE",  "/r/.gitattributes",
        "/r/.gitmodules", "/w/git/x",
        "/w/.gi",         "/w/.gitt",
        "/w/a.git",       "/w/repo.git/x",
        "/w/git~",        "/w/git~10",
        "/w/git~a",       "/w/.g\xc3\xaft",
        "/w/. git",       "/w/..git",
        "/w/ .git",       "/",
        "/w/.git-x/y",    "/w/\xff",
        "/w/\xe2\x80",
    };
    for (size_t i = 0; i < sizeof git / sizeof *git; i++) {
        ck_assert_msg(gitmeta_is_git_name(git[i]), "%s", git[i]);
    }
    for (size_t i = 0; i < sizeof not_git / sizeof *not_git; i++) {
        ck_assert_msg(!gitmeta_is_git_name(not_git[i]), "%s", not_git[i]);
    }
}
END_TEST

static void make_repository(const char *dir)
{
    char path[512];
    snprintf(path, sizeof path, "%s/HEAD", dir);
    tree_file(path, "ref: refs/heads/main\n");
    snprintf(path, sizeof path, "%s/objects", dir);
    tree_dir(path);
    snprintf(path, sizeof path, "%s/refs", dir);
    tree_dir(path);
}

static struct gitmeta_dirs find(const char *dir)
{
    struct gitmeta_dirs dirs;
    ck_assert_int_eq(gitmeta_find(tree_at(dir), tree_at("home"), &dirs, NULL), GH_OK);
    return dirs;
}

START_TEST(an_ordinary_repository)
{
    tree_begin();
    make_repository("w/.git");
    tree_dir("w/a/b");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("w/a/b");
    ck_assert_str_eq(dirs.top, tree_at("w"));
    ck_assert_str_eq(dirs.git_dir, tree_at("w/.git"));
    ck_assert_str_eq(dirs.common, tree_at("w/.git"));
    ck_assert_ptr_null(dirs.hooks);
    ck_assert(gitmeta_touches(&dirs, tree_at("w/.git/config")));
    ck_assert(!gitmeta_touches(&dirs, tree_at("w/a/b/c")));
    ck_assert(!gitmeta_holds(&dirs, tree_at("w/a")));
    ck_assert(!gitmeta_holds(&dirs, tree_at("w")));
    tree_end();
}
END_TEST

START_TEST(no_repository)
{
    tree_begin();
    tree_dir("w/.git"); /* empty: not one, as for git */
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("w");
    ck_assert_ptr_null(dirs.top);
    ck_assert_ptr_null(dirs.git_dir);
    ck_assert(gitmeta_touches(&dirs, tree_at("w/.git/hooks/pre-commit"))); /* B009 */
    ck_assert(!gitmeta_touches(&dirs, tree_at("w/x")));
    ck_assert(!gitmeta_holds(&dirs, tree_at("w/x")));
    tree_end();
}
END_TEST

/* Scenario 26, and a git dir without ".git" in its name. */
START_TEST(worktrees_and_separate_git_dirs)
{
    tree_begin();
    make_repository("main/.git");
    tree_file("main/.git/worktrees/wt/HEAD", "x");
    tree_dir("main/.git/worktrees/wt/refs");
    tree_file("main/.git/worktrees/wt/commondir", "../..\n");
    char text[600];
    snprintf(text, sizeof text, "gitdir: %s\n", tree_at("main/.git/worktrees/wt"));
    tree_file("wt/.git", text);
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("wt");
    ck_assert_str_eq(dirs.top, tree_at("wt"));
    ck_assert_str_eq(dirs.git_dir, tree_at("main/.git/worktrees/wt"));
    ck_assert_str_eq(dirs.common, tree_at("main/.git"));
    ck_assert(gitmeta_touches(&dirs, tree_at("wt/.git")));
    make_repository("store/project");
    tree_file("sep/.git", "gitdir: ../store/project");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs sep = find("sep");
    ck_assert_str_eq(sep.git_dir, tree_at("store/project"));
    ck_assert(gitmeta_touches(&sep, tree_at("store/project/config")));
    ck_assert(gitmeta_touches(&sep, tree_at("store/project/any/thing")));
    ck_assert(!gitmeta_touches(&sep, tree_at("store/project2")));
    make_repository("in/w/state/repo");
    tree_file("in/w/.git", "gitdir: state/repo\n");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs in = find("in/w");
    ck_assert(gitmeta_holds(&in, tree_at("in/w/state")));
    ck_assert(!gitmeta_holds(&in, tree_at("in/w/other")));
    tree_link(tree_at("main/.git"), "linked/.git");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs linked = find("linked");
    ck_assert_str_eq(linked.git_dir, tree_at("main/.git"));
    tree_end();
}
END_TEST

START_TEST(bad_pointers_are_no_repository)
{
    tree_begin();
    static const char *const texts[] = {"", "gitdir:", "gitdir: \n", "nothing", "\n\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tree_file("w/.git", texts[i]);
        gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("w");
        ck_assert_ptr_null(dirs.git_dir);
    }
    tree_end();
}
END_TEST

START_TEST(bare_repositories)
{
    tree_begin();
    make_repository("srv/proj");
    tree_dir("w");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs none = find("w");
    static const char *const state[] = {"srv/proj/config", "srv/proj/hooks/post-receive",
                                        "srv/proj/HEAD", "srv/proj/refs/heads/main",
                                        "srv/proj/HOOKS/x"};
    for (size_t i = 0; i < sizeof state / sizeof *state; i++) {
        ck_assert_msg(gitmeta_touches(&none, tree_at(state[i])), "%s", state[i]);
    }
    ck_assert(gitmeta_holds(&none, tree_at("srv/proj")));
    ck_assert(!gitmeta_touches(&none, tree_at("srv/other")));
    ck_assert(!gitmeta_touches(&none, tree_at("srv/proj/notes.txt"))); /* nothing to git */
    ck_assert(!gitmeta_touches(&none, tree_at("w/hooks/x")));
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs inside = find("srv/proj/refs");
    ck_assert_str_eq(inside.git_dir, tree_at("srv/proj"));
    ck_assert_ptr_null(inside.top);
    tree_end();
}
END_TEST

static void expect_hooks(const char *config, const char *want)
{
    tree_file("w/.git/config", config);
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("w");
    if (want == NULL) {
        ck_assert_msg(dirs.hooks == NULL, "%s: %s", config, dirs.hooks);
    } else {
        ck_assert_msg(dirs.hooks != NULL, "%s", config);
        ck_assert_str_eq(dirs.hooks, tree_at(want));
    }
}

/* B010. */
START_TEST(the_hooks_folder_of_the_configuration)
{
    tree_begin();
    make_repository("w/.git");
    expect_hooks("[core]\n\thooksPath = .husky/_\n", "w/.husky/_");
    expect_hooks("[CORE]\nHOOKSPATH=evil # note\n", "w/evil");
    expect_hooks("[core] hookspath = \"a b\" ; x\n", "w/a b");
    expect_hooks("[core]\nbare = false\nhooksPath = one\n[core]\nhooksPath = two\n", "w/two");
    expect_hooks("[core \"sub\"]\nhooksPath = no\n", NULL);
    expect_hooks("[other]\nhooksPath = no\n", NULL);
    expect_hooks("; [core]\n# hooksPath = no\n", NULL);
    expect_hooks("[core]\nhooksPath = ~/hooks\n", "home/hooks");
    expect_hooks("[core]\nhooksPath = lon\\\ng\n", "w/long");
    expect_hooks("[core]\nhooksPath =\n", NULL);
    expect_hooks("[core]\nhooksPath\n", NULL);
    expect_hooks("[core", NULL);
    expect_hooks("[core]\nhooksPath = \"open", "w/open");
    tree_file("w/extra", "[core]\nhooksPath = from-include\n");
    expect_hooks("[include]\npath = ../extra\n", "w/from-include");
    tree_file("w/.git/again", "[include]\npath = again\n");
    expect_hooks("[include]\npath = again\n", NULL);
    tree_file("home/.gitconfig", "[core]\nhooksPath = /global/hooks\n");
    expect_hooks("", "/global/hooks");
    expect_hooks("[core]\nhooksPath = local\n", "w/local");
    tree_file("w/.git/config.worktree", "[core]\nhooksPath = tree\n");
    expect_hooks("[core]\nhooksPath = local\n", "w/tree");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("w");
    ck_assert(gitmeta_touches(&dirs, tree_at("w/tree/pre-commit")));
    ck_assert(gitmeta_touches(&dirs, tree_at("w/TREE/pre-commit")));
    ck_assert(!gitmeta_touches(&dirs, tree_at("w/treehouse")));
    tree_end();
}
END_TEST

START_TEST(hooks_beside_ordinary_files)
{
    tree_begin();
    make_repository("w/.git");
    tree_file("w/.git/config", "[core]\nhooksPath = .\n");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("w");
    ck_assert(gitmeta_touches(&dirs, tree_at("w/pre-commit")));
    ck_assert(gitmeta_touches(&dirs, tree_at("w/Pre-Push")));
    ck_assert(!gitmeta_touches(&dirs, tree_at("w/README")));
    ck_assert(!gitmeta_touches(&dirs, tree_at("w/src/pre-commit")));
    tree_file("w/.git/config", "[core]\nhooksPath = .husky/_\n");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs husky = find("w");
    ck_assert(gitmeta_holds(&husky, tree_at("w/.husky")));
    ck_assert(gitmeta_holds(&husky, tree_at("w/.husky/_")));
    ck_assert(!gitmeta_holds(&husky, tree_at("w")));
    tree_end();
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("gitmeta");
    tcase_add_test(tcase, spellings_of_dot_git);
    tcase_add_test(tcase, an_ordinary_repository);
    tcase_add_test(tcase, no_repository);
    tcase_add_test(tcase, worktrees_and_separate_git_dirs);
    tcase_add_test(tcase, bad_pointers_are_no_repository);
    tcase_add_test(tcase, bare_repositories);
    tcase_add_test(tcase, the_hooks_folder_of_the_configuration);
    tcase_add_test(tcase, hooks_beside_ordinary_files);
    Suite *suite = suite_create("gate_gitmeta");
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
