/* test_ask_body: the words of a question become the contract's JSON, or are refused. */
#include "cli/ask_body.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fs.h"

struct row {
    struct cli_ask ask;
    const char *words[6]; /* action and operands */
    const char *json;     /* NULL: refused */
};

#define BASE .wait_s = -1

static const struct row rows[] = {
    {{BASE},
     {"read", "src/a.c"},
     "{\"tool\":\"read_file\",\"action\":\"read\",\"target\":{\"path\":\"src/a.c\"},\"wait_s\":0}"},
    {{BASE, .tool = "grep", .narration = "look", .response_id = "r-1", .plan = true},
     {"read", "/x"},
     "{\"tool\":\"grep\",\"action\":\"read\",\"target\":{\"path\":\"/x\"},\"narration\":\"look\","
     "\"response_id\":\"r-1\",\"mode\":\"plan\",\"wait_s\":0}"},
    {{.wait_s = 60},
     {"delete", "a"},
     "{\"tool\":\"delete_file\",\"action\":\"delete\",\"target\":{\"path\":\"a\"},"
     "\"deadline_s\":60,\"wait_s\":0}"},
    {{BASE},
     {"move", "a", "b"},
     "{\"tool\":\"move_file\",\"action\":\"move\",\"target\":{\"from\":\"a\",\"to\":\"b\"},"
     "\"wait_s\":0}"},
    {{BASE, .cwd = "sub"},
     {"execute", "cargo", "test", "a b"},
     "{\"tool\":\"run_command\",\"action\":\"execute\",\"target\":{\"program\":\"cargo\","
     "\"args\":[\"test\",\"a b\"],\"cwd\":\"sub\"},\"wait_s\":0}"},
    {{BASE, .shell = "a | b"},
     {"execute"},
     "{\"tool\":\"shell\",\"action\":\"execute\",\"target\":{\"shell\":\"a | b\"},\"wait_s\":0}"},
    {{BASE},
     {"network", "https://e/"},
     "{\"tool\":\"web_fetch\",\"action\":\"network\",\"target\":{\"description\":\"https://e/\"},"
     "\"wait_s\":0}"},
    {{BASE},
     {"mcp_tool", "t"},
     "{\"tool\":\"mcp__cli__call\",\"action\":\"mcp_tool\",\"target\":{\"description\":\"t\"},"
     "\"wait_s\":0}"},
    {{BASE},
     {"internal", "plan"},
     "{\"tool\":\"set_tasks\",\"action\":\"internal\",\"target\":{\"description\":\"plan\"},"
     "\"wait_s\":0}"},
    {{BASE}, {"read"}, NULL},
    {{BASE}, {"read", "a", "b"}, NULL},
    {{BASE}, {"fly", "a"}, NULL},
    {{BASE}, {"READ", "a"}, NULL},
    {{BASE}, {"move", "a"}, NULL},
    {{BASE}, {"execute"}, NULL},
    {{BASE, .shell = "x"}, {"execute", "y"}, NULL},
    {{BASE, .shell = "x"}, {"read", "y"}, NULL},
    {{BASE, .cwd = "x"}, {"write", "y"}, NULL},
    {{BASE, .new_file = "x"}, {"read", "y"}, NULL},
    {{BASE, .session = "s", .dir = "d"}, {"read", "y"}, NULL},
    {{.wait_s = 5, .no_wait = true}, {"read", "y"}, NULL},
};

static struct cli_args args_of(const struct row *row)
{
    struct cli_args args = {.rest = (char **)row->words};
    while (row->words[args.n_rest] != NULL) {
        args.n_rest++;
    }
    args.n_front = args.n_rest;
    return args;
}

START_TEST(every_row)
{
    const struct row *row = &rows[_i];
    struct cli_args args = args_of(row);
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_err err = {0};
    enum gh_code code = cli_ask_check(&row->ask, &args, &err);
    if (row->json == NULL) {
        ck_assert_int_eq(code, GH_INVALID);
        ck_assert_str_ne(err.detail, "");
        return;
    }
    ck_assert_int_eq(code, GH_OK);
    ck_assert_int_eq(cli_ask_body(&row->ask, &args, "/tmp", &body, &err), GH_OK);
    ck_assert_str_eq(gh_buf_str(&body), row->json);
}
END_TEST

/* The action must stand before "--": what is behind belongs to a command. */
START_TEST(action_behind_dashes_is_refused)
{
    char *words[] = {(char *)"read", (char *)"a", NULL};
    struct cli_args args = {.rest = words, .n_rest = 2, .n_front = 0};
    struct cli_ask ask = {.wait_s = -1};
    struct gh_err err = {0};
    ck_assert_int_eq(cli_ask_check(&ask, &args, &err), GH_INVALID);
}
END_TEST

struct folder {
    char path[32];
    int fd;
};

static struct folder make_folder(void)
{
    struct folder folder = {.path = "/tmp/gh-ask-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(folder.path));
    folder.fd = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(folder.fd, 0);
    return folder;
}

static void remove_folder(struct folder *folder)
{
    unlinkat(folder->fd, "old", 0);
    unlinkat(folder->fd, "new", 0);
    close(folder->fd);
    rmdir(folder->path);
}

static void put_file(const struct folder *folder, const char *name, const char *data, size_t len)
{
    gh_autoclose int fd = openat(folder->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert(gh_fs_write_all(fd, data, len));
}

static enum gh_code ask_write(const struct folder *folder, struct gh_buf *body, struct gh_err *err)
{
    char new_file[64];
    char *words[] = {(char *)"write", (char *)"old", NULL};
    struct cli_args args = {.rest = words, .n_rest = 2, .n_front = 2};
    snprintf(new_file, sizeof new_file, "%s/new", folder->path);
    struct cli_ask ask = {.wait_s = -1, .new_file = new_file};
    return cli_ask_body(&ask, &args, folder->path, body, err);
}

START_TEST(new_file_sends_both_sides)
{
    struct folder folder = make_folder();
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf fresh = GH_BUF_INIT;
    struct gh_err err = {0};
    put_file(&folder, "new", "b\n", 2);
    ck_assert_int_eq(ask_write(&folder, &fresh, &err), GH_OK);
    ck_assert_ptr_nonnull(strstr(gh_buf_str(&fresh), "\"diff\":{\"old\":\"\",\"new\":\"b\\n\"}"));
    put_file(&folder, "old", "a\n", 2);
    ck_assert_int_eq(ask_write(&folder, &body, &err), GH_OK);
    ck_assert_ptr_nonnull(
        strstr(gh_buf_str(&body), "\"diff\":{\"old\":\"a\\n\",\"new\":\"b\\n\"}"));
    remove_folder(&folder);
}
END_TEST

/* A picture with replacement characters is not what would be written. */
START_TEST(new_file_that_is_no_text_is_refused)
{
    static const struct {
        const char *data;
        size_t len;
        enum gh_code code;
    } files[] = {{"a\xff", 2, GH_INVALID}, {"a\0b", 3, GH_INVALID}, {"a\xEF\xBF\xBD", 4, GH_OK}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct folder folder = make_folder();
        gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
        struct gh_err err = {0};
        put_file(&folder, "new", files[i].data, files[i].len);
        ck_assert_int_eq(ask_write(&folder, &body, &err), files[i].code);
        remove_folder(&folder);
    }
}
END_TEST

START_TEST(new_file_must_be_there)
{
    struct folder folder = make_folder();
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_err err = {0};
    ck_assert_int_eq(ask_write(&folder, &body, &err), GH_NOT_FOUND);
    remove_folder(&folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ask_body");
    TCase *tests = tcase_create("ask_body");
    tcase_add_loop_test(tests, every_row, 0, sizeof rows / sizeof rows[0]);
    tcase_add_test(tests, action_behind_dashes_is_refused);
    tcase_add_test(tests, new_file_sends_both_sides);
    tcase_add_test(tests, new_file_that_is_no_text_is_refused);
    tcase_add_test(tests, new_file_must_be_there);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
