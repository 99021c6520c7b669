/* test_fs: private folders, bounded no-follow reads, atomic replacement. */
#include "base/fs.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"

static char top[64];
static int top_fd = -1;

static void setup(void)
{
    ck_assert(gh_id_init());
    snprintf(top, sizeof top, "/tmp/gh-fs-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(top));
    top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(top_fd, 0);
}

static void teardown(void)
{
    char command[128];
    close(top_fd);
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    ck_assert_int_eq(system(command), 0);
}

static void put(const char *name, const char *text)
{
    gh_autoclose int fd = openat(top_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert(gh_fs_write_all(fd, text, strlen(text)));
}

static int n_entries(void)
{
    int n = 0;
    DIR *dir = opendir(top);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    closedir(dir);
    return n;
}

static void path_of(const char *name, char out[160])
{
    snprintf(out, 160, "%s/%s", top, name);
}

START_TEST(a_private_folder_is_made_with_its_parents)
{
    char path[160];
    struct gh_err err = {0};
    gh_autoclose int fd = -1;
    struct stat st;
    path_of("a/b/c", path);
    umask(0);
    ck_assert_int_eq(gh_fs_private_dir(path, &fd, &err), GH_OK);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0700);
    ck_assert_int_eq(fstatat(top_fd, "a", &st, 0), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0700);
    ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);

    gh_autoclose int again = -1;
    ck_assert_int_eq(gh_fs_private_dir(path, &again, &err), GH_OK);
}
END_TEST

static const mode_t wide_modes[] = {0750, 0701, 0770, 0777, 0704};

START_TEST(a_folder_open_to_others_is_refused_and_named)
{
    char path[160];
    struct gh_err err = {0};
    int fd = -7;
    path_of("wide", path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(chmod(path, wide_modes[_i]), 0);
    ck_assert_int_eq(gh_fs_private_dir(path, &fd, &err), GH_IO);
    ck_assert_int_eq(fd, -7);
    ck_assert_ptr_nonnull(strstr(err.detail, path));
    ck_assert_ptr_nonnull(strstr(err.detail, "chmod 700"));
}
END_TEST

START_TEST(a_link_in_place_of_the_folder_is_refused)
{
    char path[160];
    struct gh_err err = {0};
    int fd = -1;
    path_of("link", path);
    ck_assert_int_eq(mkdirat(top_fd, "real", 0700), 0);
    ck_assert_int_eq(symlinkat("real", top_fd, "link"), 0);
    ck_assert_int_eq(gh_fs_private_dir(path, &fd, &err), GH_IO);
    ck_assert_int_eq(fd, -1);
}
END_TEST

START_TEST(a_file_in_place_of_the_folder_is_refused)
{
    char path[160];
    struct gh_err err = {0};
    int fd = -1;
    put("file", "x");
    path_of("file", path);
    ck_assert_int_eq(gh_fs_private_dir(path, &fd, &err), GH_IO);
    path_of("file/below", path);
    ck_assert_int_eq(gh_fs_private_dir(path, &fd, &err), GH_IO);
}
END_TEST

START_TEST(another_user_s_folder_is_refused)
{
    char path[160];
    struct gh_err err = {0};
    int fd = -1;
    path_of("theirs", path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    if (chown(path, 65534, (gid_t)-1) != 0) {
        puts("another_user_s_folder_is_refused: giving a folder away needs root; checked on /root");
        snprintf(path, sizeof path, "/root");
    }
    ck_assert_int_eq(gh_fs_private_dir(path, &fd, &err), GH_IO);
}
END_TEST

START_TEST(a_file_is_read_whole_with_a_nul_behind)
{
    struct gh_err err = {0};
    gh_autofree char *data = NULL;
    size_t len = 0;
    put("five", "12345");
    ck_assert_int_eq(gh_fs_read(top_fd, "five", 5, &data, &len, &err), GH_OK);
    ck_assert_uint_eq(len, 5);
    ck_assert_str_eq(data, "12345");
}
END_TEST

START_TEST(an_empty_file_is_an_empty_string)
{
    struct gh_err err = {0};
    gh_autofree char *data = NULL;
    size_t len = 9;
    put("empty", "");
    ck_assert_int_eq(gh_fs_read(top_fd, "empty", 0, &data, &len, &err), GH_OK);
    ck_assert_uint_eq(len, 0);
    ck_assert_str_eq(data, "");
}
END_TEST

START_TEST(reads_refuse_what_is_missing_large_linked_or_no_file)
{
    struct gh_err err = {0};
    char *data = NULL;
    size_t len = 0;
    put("six", "123456");
    ck_assert_int_eq(symlinkat("six", top_fd, "link"), 0);
    ck_assert_int_eq(mkfifoat(top_fd, "fifo", 0600), 0);
    ck_assert_int_eq(mkdirat(top_fd, "dir", 0700), 0);
    ck_assert_int_eq(gh_fs_read(top_fd, "none", 5, &data, &len, &err), GH_NOT_FOUND);
    ck_assert_int_eq(gh_fs_read(top_fd, "six", 5, &data, &len, &err), GH_TOO_LARGE);
    ck_assert_int_eq(gh_fs_read(top_fd, "link", 9, &data, &len, &err), GH_IO);
    /* A FIFO without a writer must not block. */
    ck_assert_int_eq(gh_fs_read(top_fd, "fifo", 5, &data, &len, &err), GH_IO);
    ck_assert_int_eq(gh_fs_read(top_fd, "dir", 4096, &data, &len, &err), GH_IO);
    ck_assert_ptr_null(data);
}
END_TEST

START_TEST(a_file_that_says_it_is_empty_and_is_not_is_refused)
{
    struct gh_err err = {0};
    char *data = NULL;
    size_t len = 0;
    ck_assert_int_eq(gh_fs_read(AT_FDCWD, "/proc/self/status", 1 << 20, &data, &len, &err), GH_IO);
    ck_assert_ptr_null(data);
}
END_TEST

START_TEST(replace_swaps_whole_content_privately)
{
    struct gh_err err = {0};
    struct stat st;
    gh_autofree char *data = NULL;
    size_t len = 0;
    put("it", "old and longer");
    umask(0);
    ck_assert_int_eq(gh_fs_replace(top_fd, "it", "new", 3, &err), GH_OK);
    ck_assert_int_eq(gh_fs_read(top_fd, "it", 100, &data, &len, &err), GH_OK);
    ck_assert_str_eq(data, "new");
    ck_assert_int_eq(fstatat(top_fd, "it", &st, 0), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
    ck_assert_int_eq(n_entries(), 1);
}
END_TEST

START_TEST(replace_takes_the_place_of_a_link_and_spares_its_target)
{
    struct gh_err err = {0};
    gh_autofree char *data = NULL;
    size_t len = 0;
    struct stat st;
    put("target", "precious");
    ck_assert_int_eq(symlinkat("target", top_fd, "it"), 0);
    ck_assert_int_eq(gh_fs_replace(top_fd, "it", "new", 3, &err), GH_OK);
    ck_assert_int_eq(gh_fs_read(top_fd, "target", 100, &data, &len, &err), GH_OK);
    ck_assert_str_eq(data, "precious");
    ck_assert_int_eq(fstatat(top_fd, "it", &st, AT_SYMLINK_NOFOLLOW), 0);
    ck_assert(S_ISREG(st.st_mode));
}
END_TEST

START_TEST(a_failed_replace_leaves_no_litter)
{
    struct gh_err err = {0};
    ck_assert_int_eq(mkdirat(top_fd, "it", 0700), 0);
    ck_assert_int_eq(gh_fs_replace(top_fd, "it", "new", 3, &err), GH_IO);
    ck_assert_ptr_nonnull(strstr(err.detail, "it"));
    ck_assert_int_eq(n_entries(), 1);
    ck_assert_int_eq(gh_fs_replace(-1, "it", "new", 3, &err), GH_IO);
}
END_TEST

START_TEST(write_all_says_when_it_cannot)
{
    gh_autoclose int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(full, 0);
    ck_assert(!gh_fs_write_all(full, "x", 1));
    ck_assert(gh_fs_write_all(full, "x", 0));
    ck_assert(!gh_fs_write_all(-1, "x", 1));
}
END_TEST

START_TEST(the_home_is_not_taken_from_the_environment)
{
    setenv("HOME", "/nowhere", 1);
    gh_autofree char *home = gh_fs_home();
    ck_assert_ptr_nonnull(home);
    ck_assert_str_ne(home, "/nowhere");
    ck_assert_int_eq(home[0], '/');
}
END_TEST

START_TEST(xdg_takes_absolute_values_only)
{
    gh_autofree char *home = gh_fs_home();
    char want[4200];
    snprintf(want, sizeof want, "%s/.config/gatehouse", home);

    setenv("XDG_CONFIG_HOME", "/etc/xdg-test", 1);
    gh_autofree char *absolute = gh_fs_xdg("XDG_CONFIG_HOME", ".config");
    ck_assert_str_eq(absolute, "/etc/xdg-test/gatehouse");
    setenv("XDG_CONFIG_HOME", "relative", 1);
    gh_autofree char *relative = gh_fs_xdg("XDG_CONFIG_HOME", ".config");
    ck_assert_str_eq(relative, want);
    setenv("XDG_CONFIG_HOME", "", 1);
    gh_autofree char *empty = gh_fs_xdg("XDG_CONFIG_HOME", ".config");
    ck_assert_str_eq(empty, want);
    unsetenv("XDG_CONFIG_HOME");
    gh_autofree char *unset = gh_fs_xdg("XDG_CONFIG_HOME", ".config");
    ck_assert_str_eq(unset, want);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("fs");
    TCase *t = tcase_create("fs");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_private_folder_is_made_with_its_parents);
    tcase_add_loop_test(t, a_folder_open_to_others_is_refused_and_named, 0,
                        (int)(sizeof wide_modes / sizeof wide_modes[0]));
    tcase_add_test(t, a_link_in_place_of_the_folder_is_refused);
    tcase_add_test(t, a_file_in_place_of_the_folder_is_refused);
    tcase_add_test(t, another_user_s_folder_is_refused);
    tcase_add_test(t, a_file_is_read_whole_with_a_nul_behind);
    tcase_add_test(t, an_empty_file_is_an_empty_string);
    tcase_add_test(t, reads_refuse_what_is_missing_large_linked_or_no_file);
    tcase_add_test(t, a_file_that_says_it_is_empty_and_is_not_is_refused);
    tcase_add_test(t, replace_swaps_whole_content_privately);
    tcase_add_test(t, replace_takes_the_place_of_a_link_and_spares_its_target);
    tcase_add_test(t, a_failed_replace_leaves_no_litter);
    tcase_add_test(t, write_all_says_when_it_cannot);
    tcase_add_test(t, the_home_is_not_taken_from_the_environment);
    tcase_add_test(t, xdg_takes_absolute_values_only);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
