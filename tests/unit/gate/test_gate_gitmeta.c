/* test_gate_gitmeta: git's own files, under every name and wherever they lie. */
#include "gate/gitmeta.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
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
    ck_assert_uint_eq(dirs.hooks.n, 0);
    ck_assert(gitmeta_touches(&dirs, tree_at("w/.git/config")));
    ck_assert(!gitmeta_touches(&dirs, tree_at("w/a/b/c")));
    ck_assert(!gitmeta_holds(&dirs, tree_at("w/a")));
    ck_assert(gitmeta_holds(&dirs, tree_at("w")));
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
        ck_assert_msg(dirs.hooks.n == 0, "%s: %s", config, dirs.hooks.n ? dirs.hooks.at[0] : "");
    } else {
        ck_assert_msg(seen_names_has(&dirs.hooks, tree_at(want)), "%s", config);
    }
    ck_assert_msg(!dirs.is_cut, "%s", config);
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
    expect_hooks("\xef\xbb\xbf[core]\nhooksPath = marked\n", "w/marked");
    expect_hooks("[core]\r\nhooksPath = a\\\r\nb\r\n", "w/ab");
    expect_hooks("[includeIf \"gitdir:/a]b/\"]\npath = ../extra\n", "w/from-include");
    expect_hooks("[includeIf \"onbranch:\\\"x\"] path = ../extra\n", "w/from-include");
    expect_hooks("[include \"x\"]\npath = ../extra\n", NULL);
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
    ck_assert(gitmeta_holds(&husky, tree_at("w")));
    ck_assert(!gitmeta_holds(&husky, tree_at("w/src")));
    tree_end();
}
END_TEST

/* Every way that a value could come to count is followed, to git's own bounds. */
START_TEST(chains_of_includes)
{
    tree_begin();
    make_repository("w/.git");
    for (int i = 0; i < 12; i++) {
        char name[32];
        char text[80];
        snprintf(name, sizeof name, "w/.git/c%d", i);
        snprintf(text, sizeof text, "[include]\npath = c%d\n[core]\nhooksPath = h%d\n", i + 1, i);
        tree_file(name, text);
    }
    tree_file("w/.git/config", "[include]\npath = c0\n");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("w");
    ck_assert(seen_names_has(&dirs.hooks, tree_at("w/h9")));
    ck_assert(dirs.is_cut); /* deeper than git goes */
    ck_assert(gitmeta_touches(&dirs, tree_at("w/anywhere/pre-commit")));
    ck_assert(!gitmeta_touches(&dirs, tree_at("w/anywhere/x")));
    tree_file("w/.git/config", "[include]\npath = c4\n");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs whole = find("w");
    ck_assert(seen_names_has(&whole.hooks, tree_at("w/h11")));
    ck_assert(!whole.is_cut);
    tree_end();
}
END_TEST

START_TEST(what_cannot_be_read_wholly)
{
    tree_begin();
    make_repository("w/.git");
    static const char *const texts[] = {
        "[include]\npath = ~somebody/x\n",
        "[include]\npath = %(prefix)/x\n",
        "[core]\nhooksPath = ~somebody/hooks\n",
        "[include]\npath = /proc/self/mem\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tree_file("w/.git/config", texts[i]);
        gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("w");
        ck_assert_msg(dirs.is_cut, "%s", texts[i]);
        ck_assert(gitmeta_touches(&dirs, tree_at("w/x/post-merge")));
    }
    gh_auto(gh_buf_fini) struct gh_buf big = GH_BUF_INIT;
    gh_buf_puts(&big, "[core]\nhooksPath = large\n");
    for (int i = 0; i < 300000; i++) {
        gh_buf_puts(&big, "# text\n");
    }
    tree_file("w/.git/config", gh_buf_str(&big));
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs large = find("w");
    ck_assert(seen_names_has(&large.hooks, tree_at("w/large")));
    ck_assert(!large.is_cut);
    gh_buf_fini(&big);
    big = (struct gh_buf)GH_BUF_INIT;
    gh_buf_puts(&big, "[core]\n");
    for (int i = 0; i < 100; i++) {
        gh_buf_printf(&big, "hooksPath = h%d\n", i);
    }
    tree_file("w/.git/config", gh_buf_str(&big));
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs many = find("w");
    ck_assert(many.is_cut);
    tree_end();
}
END_TEST

START_TEST(included_files_are_guarded)
{
    tree_begin();
    make_repository("w/.git");
    tree_file("w/shared/git.cfg", "");
    tree_link("shared", "w/by-link");
    tree_file("w/.git/config", "[include]\npath = ../by-link/git.cfg\npath = ../later.cfg\n");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("w");
    static const char *const guarded[] = {"w/shared/git.cfg", "w/by-link/git.cfg", "w/later.cfg",
                                          "home/.gitconfig"};
    for (size_t i = 0; i < sizeof guarded / sizeof *guarded; i++) {
        ck_assert_msg(gitmeta_touches(&dirs, tree_at(guarded[i])), "%s", guarded[i]);
    }
    ck_assert(gitmeta_holds(&dirs, tree_at("w/shared")));
    ck_assert(!gitmeta_touches(&dirs, tree_at("w/shared/other")));
    tree_end();
}
END_TEST

static void expect_stale_after(const char *file, const char *text)
{
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("w");
    ck_assert_msg(gitmeta_is_fresh(&dirs), "%s", file);
    tree_file(file, text);
    ck_assert_msg(!gitmeta_is_fresh(&dirs), "%s", file);
}

/* What was found is looked for again when anything it rests on changes. */
START_TEST(changes_are_noticed)
{
    tree_begin();
    tree_dir("w");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs none = find("w");
    ck_assert(gitmeta_is_fresh(&none));
    tree_dir("w/.git");
    ck_assert(!gitmeta_is_fresh(&none)); /* git init begins */
    expect_stale_after("w/.git/HEAD", "x");
    make_repository("w/.git");
    tree_file("w/inc", "");
    expect_stale_after("w/.git/config", "[include]\npath=../inc\npath=../absent\n");
    expect_stale_after("w/inc", "[core]\nhooksPath = hooks\n");
    expect_stale_after("w/absent", "");
    expect_stale_after("w/.git/config.worktree", "");
    expect_stale_after("home/.config/git/config", "");
    expect_stale_after("home/.gitconfig", "");
    expect_stale_after("w/.git/commondir", ".\n");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("w");
    tree_file("w/.git/refs/heads/main", "x");
    tree_file("w/src", "x");
    ck_assert(gitmeta_is_fresh(&dirs)); /* everyday changes */
    tree_link("elsewhere", "w/hooks");
    tree_dir("w/elsewhere");
    ck_assert(!gitmeta_is_fresh(&dirs)); /* the hooks folder leads elsewhere */
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs moved = find("w");
    ck_assert(gitmeta_touches(&moved, tree_at("w/elsewhere/x")));
    ck_assert(gitmeta_touches(&moved, tree_at("w/hooks")));
    tree_end();
}
END_TEST

/* A repository that is brought in by single files is stopped before it is one, in any order. */
START_TEST(repositories_in_the_making)
{
    static const char *const names[] = {"HEAD", "objects/x", "refs/x", "config"};
    tree_begin();
    tree_dir("plain");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("plain");
    for (int first = 0; first < 4; first++) {
        for (int second = 0; second < 4; second++) {
            for (int i = 0; i < 4; i++) {
                char path[64];
                snprintf(path, sizeof path, "m/%d%d%d/", first, second, i);
                size_t len = strlen(path);
                tree_dir(path);
                strcpy(path + len, names[first]);
                tree_file(path, "");
                strcpy(path + len, names[second]);
                tree_file(path, "");
                strcpy(path + len, names[i]);
                bool is_third = first != second && i != first && i != second;
                ck_assert_msg(gitmeta_touches(&dirs, tree_at(path)) == is_third, "%s", path);
                strcpy(path + len, "index");
                ck_assert(gitmeta_touches(&dirs, tree_at(path)) == (first != second));
                strcpy(path + len, "readme");
                ck_assert(!gitmeta_touches(&dirs, tree_at(path)));
            }
        }
    }
    tree_file("split/HEAD", "x"); /* the rest lies where "commondir" says */
    ck_assert(gitmeta_touches(&dirs, tree_at("split/commondir")));
    tree_file("split2/commondir", "x");
    ck_assert(gitmeta_touches(&dirs, tree_at("split2/HEAD")));
    ck_assert(gitmeta_is_head(tree_at("any/HEAD")));
    ck_assert(!gitmeta_is_head(tree_at("any/Head")));
    ck_assert(!gitmeta_is_head(tree_at("HEAD/x")));
    tree_end();
}
END_TEST

START_TEST(ordinary_folders_with_such_names)
{
    tree_begin();
    tree_dir("w/src/config");
    tree_dir("w/src/objects");
    tree_dir("w/src/head");
    tree_dir("w/etc/refs");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("w");
    static const char *const usable[] = {
        "w/config",
        "w/src/config",
        "w/src/config/x.ts",
        "w/src/hooks/use.ts",
        "w/src/objects/a.ts",
        "w/src/head/x.ts",
        "w/etc/config",
        "w/etc/refs/x",
        "w/info",
        "w/index",
        "w/logs/x",
    };
    for (size_t i = 0; i < sizeof usable / sizeof *usable; i++) {
        ck_assert_msg(!gitmeta_touches(&dirs, tree_at(usable[i])), "%s", usable[i]);
    }
    tree_end();
}
END_TEST

START_TEST(hooks_of_a_nested_repository)
{
    tree_begin();
    make_repository("w/.git");
    make_repository("w/a/inner/.git");
    tree_file("w/a/inner/.git/config", "[core]\nhooksPath = my/hooks\n");
    gh_auto(gitmeta_dirs_fini) struct gitmeta_dirs dirs = find("w");
    const char *home = tree_at("home");
    const char *hook = tree_at("w/a/inner/my/hooks/pre-commit");
    ck_assert(gitmeta_is_nested_hook(&dirs, hook, home, false));
    ck_assert(gitmeta_is_nested_hook(&dirs, tree_at("w/a/inner/my/hooks/lib"), home, true));
    ck_assert(gitmeta_is_nested_hook(&dirs, tree_at("w/a/inner/my"), home, true));
    ck_assert(!gitmeta_is_nested_hook(&dirs, tree_at("w/a/inner/my2"), home, true));
    ck_assert(!gitmeta_is_nested_hook(&dirs, tree_at("w/a/inner/x/pre-commit"), home, false));
    ck_assert(!gitmeta_is_nested_hook(&dirs, tree_at("w/pre-commit"), home, false));
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
    tcase_add_test(tcase, chains_of_includes);
    tcase_add_test(tcase, what_cannot_be_read_wholly);
    tcase_add_test(tcase, included_files_are_guarded);
    tcase_add_test(tcase, changes_are_noticed);
    tcase_add_test(tcase, repositories_in_the_making);
    tcase_add_test(tcase, ordinary_folders_with_such_names);
    tcase_add_test(tcase, hooks_of_a_nested_repository);
    Suite *suite = suite_create("gate_gitmeta");
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
