/* test_find: run.json is believed only when it may be; tokens go where they belong. */
#include "cli/find.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fs.h"

#define AGENT "gh_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define APPROVER "gh_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

struct state {
    char path[32];
    char socket[48];
};

static struct state state; /* of the test that runs; each is a process of its own */

static void put_file(const char *name, const char *data, mode_t mode)
{
    char path[96];
    snprintf(path, sizeof path, "%s/%s", state.path, name);
    gh_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert(gh_fs_write_all(fd, data, strlen(data)));
    ck_assert_int_eq(fchmod(fd, mode), 0);
}

static void put_run(long pid, const char *boot_id, const char *socket)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"pid\":%ld,\"started_at\":\"2025-01-01T00:00:00.000Z\",\"boot_id\":\"%s\","
             "\"listen\":\"127.0.0.1:7717\",\"socket\":\"%s\",\"later\":true}\n",
             pid, boot_id, socket);
    put_file("run.json", text, 0600);
}

static void begin(void)
{
    char tokens[64];
    static const char *const names[] = {"GATEHOUSE_URL", "GATEHOUSE_TOKEN", "GATEHOUSE_TOKEN_FILE"};
    for (size_t i = 0; i < 3; i++) {
        unsetenv(names[i]);
    }
    snprintf(state.path, sizeof state.path, "/tmp/gh-find-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(state.path));
    snprintf(tokens, sizeof tokens, "%s/tokens", state.path);
    ck_assert_int_eq(mkdir(tokens, 0700), 0);
    put_file("tokens/agent.token", AGENT "\n", 0600);
    put_file("tokens/approver.token", APPROVER "\n", 0600);
    snprintf(state.socket, sizeof state.socket, "%s/api.sock", state.path);
}

static void end(void)
{
    static const char *const names[] = {
        "run.json", "api.sock", "tokens/agent.token", "tokens/approver.token", "tokens", ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[96];
        snprintf(path, sizeof path, "%s/%s", state.path, names[i]);
        remove(path);
    }
}

/* A socket file; nobody has to listen for it to be chosen. */
static void put_socket(void)
{
    gh_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", state.socket);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
}

static void put_live_run(const char *socket)
{
    char boot_id[GH_BOOT_ID];
    gh_clock_boot_id(boot_id);
    put_run((long)getpid(), boot_id, socket);
}

START_TEST(socket_first_then_tcp)
{
    struct cli_service service;
    struct gh_err err = {0};
    put_live_run(state.socket);
    ck_assert_int_eq(cli_find(state.path, CLI_AS_AGENT, &service, &err), GH_OK);
    ck_assert_str_eq(service.url, "http://127.0.0.1:7717");
    ck_assert_str_eq(service.socket, "");
    ck_assert_str_eq(service.secret, AGENT);
    cli_service_fini(&service);
    put_socket();
    ck_assert_int_eq(cli_find(state.path, CLI_AS_APPROVER, &service, &err), GH_OK);
    ck_assert_str_eq(service.url, "http://localhost");
    ck_assert_str_eq(service.socket, state.socket);
    ck_assert_str_eq(service.listen, "127.0.0.1:7717");
    ck_assert_str_eq(service.secret, APPROVER);
    cli_service_fini(&service);
    ck_assert_str_eq(service.secret, "");
}
END_TEST

START_TEST(stale_is_not_running)
{
    struct cli_run run;
    struct gh_err err = {0};
    char boot_id[GH_BOOT_ID];
    ck_assert_int_eq(cli_find_run("/nonexistent/state", &run, &err), GH_NOT_FOUND);
    ck_assert_int_eq(cli_find_run(state.path, &run, &err), GH_NOT_FOUND);
    ck_assert_int_eq(run.pid, 0);
    gh_clock_boot_id(boot_id);
    put_run(INT32_MAX, boot_id, "");
    ck_assert_int_eq(cli_find_run(state.path, &run, &err), GH_NOT_FOUND);
    ck_assert_int_eq(run.pid, INT32_MAX);
    put_run((long)getpid(), "00000000-0000-0000-0000-000000000000", "");
    ck_assert_int_eq(cli_find_run(state.path, &run, &err), GH_NOT_FOUND);
    put_run((long)getpid(), "unknown", "");
    ck_assert_int_eq(cli_find_run(state.path, &run, &err), GH_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.detail, "gatehouse serve"));
}
END_TEST

START_TEST(foreign_run_file_is_refused)
{
    struct cli_run run;
    struct gh_err err = {0};
    char path[64];
    put_live_run("");
    snprintf(path, sizeof path, "%s/run.json", state.path);
    ck_assert_int_eq(chmod(path, 0666), 0);
    ck_assert_int_eq(cli_find_run(state.path, &run, &err), GH_IO);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink("/etc/hostname", path), 0);
    ck_assert_int_eq(cli_find_run(state.path, &run, &err), GH_IO);
}
END_TEST

static const char *const damaged[] = {
    "",
    "{",
    "[]",
    "{}",
    "{\"pid\":\"1\",\"boot_id\":\"x\"}",
    "{\"pid\":0,\"boot_id\":\"x\"}",
    "{\"pid\":-1,\"boot_id\":\"x\"}",
    "{\"pid\":1}",
    "{\"pid\":1,\"boot_id\":\"0123456789012345678901234567890123456789\"}",
    "{\"pid\":1,\"boot_id\":\"x\",\"listen\":7}",
};

START_TEST(damaged_run_file_is_named)
{
    struct cli_run run;
    struct gh_err err = {0};
    put_file("run.json", damaged[_i], 0600);
    ck_assert_int_eq(cli_find_run(state.path, &run, &err), GH_IO);
    ck_assert_ptr_nonnull(strstr(err.detail, "run.json"));
}
END_TEST

START_TEST(wide_token_file_is_refused)
{
    struct cli_service service;
    struct gh_err err = {0};
    put_live_run("");
    put_file("tokens/agent.token", AGENT "\n", 0644);
    ck_assert_int_eq(cli_find(state.path, CLI_AS_AGENT, &service, &err), GH_UNAUTHORIZED);
    ck_assert_str_eq(service.secret, "");
    ck_assert_ptr_null(strstr(err.detail, AGENT));
    cli_service_fini(&service);
}
END_TEST

/* The local token is not for whatever address the environment names. */
START_TEST(url_needs_its_own_token)
{
    struct cli_service service;
    struct gh_err err = {0};
    put_live_run("");
    setenv("GATEHOUSE_URL", "http://example.org:80/", 1);
    ck_assert_int_eq(cli_find(state.path, CLI_AS_AGENT, &service, &err), GH_UNAUTHORIZED);
    ck_assert_str_eq(service.secret, "");
    cli_service_fini(&service);
    setenv("GATEHOUSE_TOKEN", "gh_other", 1);
    ck_assert_int_eq(cli_find(state.path, CLI_AS_AGENT, &service, &err), GH_OK);
    ck_assert_str_eq(service.url, "http://example.org:80");
    ck_assert_str_eq(service.listen, "example.org:80");
    ck_assert_str_eq(service.secret, "gh_other");
    cli_service_fini(&service);
}
END_TEST

START_TEST(token_file_of_the_environment)
{
    struct cli_service service;
    struct gh_err err = {0};
    char path[64];
    snprintf(path, sizeof path, "%s/tokens/approver.token", state.path);
    setenv("GATEHOUSE_URL", "http://127.0.0.1:1", 1);
    setenv("GATEHOUSE_TOKEN_FILE", path, 1);
    ck_assert_int_eq(cli_find(state.path, CLI_AS_AGENT, &service, &err), GH_OK);
    ck_assert_str_eq(service.secret, APPROVER);
    cli_service_fini(&service);
}
END_TEST

static const char *const bad_env[][2] = {
    {"GATEHOUSE_URL", "file:///etc/passwd"},  {"GATEHOUSE_URL", "127.0.0.1:7717"},
    {"GATEHOUSE_URL", "gopher://127.0.0.1/"}, {"GATEHOUSE_TOKEN", "a b"},
    {"GATEHOUSE_TOKEN", "a\r\nX-Forged: 1"},  {"GATEHOUSE_TOKEN_FILE", "/nonexistent"},
};

START_TEST(bad_environment_is_refused)
{
    struct cli_service service;
    struct gh_err err = {0};
    setenv("GATEHOUSE_URL", "http://127.0.0.1:1", 1);
    setenv(bad_env[_i][0], bad_env[_i][1], 1);
    enum gh_code code = cli_find(state.path, CLI_AS_AGENT, &service, &err);
    ck_assert(code == GH_INVALID || code == GH_UNAUTHORIZED);
    ck_assert_str_eq(service.secret, "");
    cli_service_fini(&service);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("find");
    TCase *tests = tcase_create("find");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, socket_first_then_tcp);
    tcase_add_test(tests, stale_is_not_running);
    tcase_add_test(tests, foreign_run_file_is_refused);
    tcase_add_loop_test(tests, damaged_run_file_is_named, 0, sizeof damaged / sizeof damaged[0]);
    tcase_add_test(tests, wide_token_file_is_refused);
    tcase_add_test(tests, url_needs_its_own_token);
    tcase_add_test(tests, token_file_of_the_environment);
    tcase_add_loop_test(tests, bad_environment_is_refused, 0, sizeof bad_env / sizeof bad_env[0]);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
