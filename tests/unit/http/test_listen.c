/* Sockets: private from the first moment, never taken from a living service, both address families.
 */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "support.h"

#define ECHO "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"

struct place {
    char dir[64];
    char path[96];
};

static void make_place(struct place *place)
{
    strcpy(place->dir, "/tmp/gh-http-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(place->dir));
    snprintf(place->path, sizeof(place->path), "%s/api.sock", place->dir);
}

static void remove_place(const struct place *place)
{
    unlink(place->path);
    ck_assert_int_eq(rmdir(place->dir), 0);
}

static void handle(struct http_exchange *x, void *cookie)
{
    (void)cookie;
    http_reply(x, 200, NULL, NULL, 0);
}

static enum gh_code start(const struct http_options *given, struct http_server **ret,
                          struct gh_err *err)
{
    struct http_options options = *given;
    options.handler = handle;
    return http_server_start(&options, ret, err);
}

START_TEST(test_unix)
{
    struct place place;
    struct app app;
    struct stat st;
    make_place(&place);
    struct http_options options = {.unix_path = place.path};
    mode_t before = umask(0);
    app_start(&app, &options);
    umask(before);
    ck_assert_int_eq(lstat(place.path, &st), 0);
    ck_assert(S_ISSOCK(st.st_mode));
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    gh_autoclose int fd = client_dial_unix(place.path);
    client_send(fd, ECHO);
    struct answer a = client_read(fd, false);
    char want[128];
    snprintf(want, sizeof(want),
             "\"peer\":\"unix:pid=%d,uid=%u\",\"peer_key\":\"unix:%u\",\"unix\":true,\"uid\":%u",
             (int)getpid(), (unsigned)getuid(), (unsigned)getuid(), (unsigned)getuid());
    ck_assert_ptr_nonnull(strstr(a.body, want));
    answer_free(&a);
    a = client_ask(&app, ECHO);
    ck_assert_ptr_nonnull(strstr(a.body, "\"peer\":\"127.0.0.1:"));
    ck_assert_ptr_nonnull(strstr(a.body, "\"peer_key\":\"127.0.0.1\",\"unix\":false"));
    answer_free(&a);
    app_stop(&app);
    ck_assert_int_eq(lstat(place.path, &st), -1);
    remove_place(&place);
}
END_TEST

/* Leave a bound, dead socket at the path. */
static void leave_dead(const struct place *place)
{
    gh_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", place->path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
}

START_TEST(test_unix_taken)
{
    struct place place;
    struct http_server *first = NULL;
    struct http_server *second = NULL;
    struct gh_err err = {0};
    make_place(&place);
    struct http_options options = {.unix_path = place.path};
    leave_dead(&place);
    ck_assert_int_eq(start(&options, &first, &err), GH_OK); /* a dead one is replaced */
    ck_assert_ptr_null(http_server_address(first));
    ck_assert_int_eq(start(&options, &second, &err), GH_IO); /* a living one is not */
    ck_assert_ptr_nonnull(strstr(err.detail, place.path));
    gh_autoclose int fd = client_dial_unix(place.path);
    client_send(fd, ECHO);
    struct answer a = client_read(fd, false);
    ck_assert_int_eq(a.status, 200); /* and goes on living */
    answer_free(&a);
    http_server_free(first, 1000);
    remove_place(&place);
}
END_TEST

START_TEST(test_unix_refused)
{
    struct place place;
    struct http_server *server = NULL;
    struct gh_err err = {0};
    char long_path[200];
    make_place(&place);
    struct http_options options = {.unix_path = place.path};
    FILE *f = fopen(place.path, "we");
    ck_assert_ptr_nonnull(f);
    fclose(f);
    ck_assert_int_eq(start(&options, &server, &err), GH_IO); /* not a socket: left alone */
    ck_assert_int_eq(access(place.path, F_OK), 0);
    memset(long_path, 'a', sizeof(long_path));
    long_path[0] = '/';
    long_path[sizeof(long_path) - 1] = '\0';
    options.unix_path = long_path;
    ck_assert_int_eq(start(&options, &server, &err), GH_IO);
    ck_assert_ptr_null(server);
    remove_place(&place);
}
END_TEST

/* Somebody put another socket at the path meanwhile: not ours to remove. */
START_TEST(test_unix_replaced)
{
    struct place place;
    struct http_server *server = NULL;
    struct gh_err err = {0};
    make_place(&place);
    struct http_options options = {.unix_path = place.path};
    ck_assert_int_eq(start(&options, &server, &err), GH_OK);
    ck_assert_int_eq(unlink(place.path), 0);
    leave_dead(&place);
    http_server_free(server, 1000);
    ck_assert_int_eq(access(place.path, F_OK), 0);
    remove_place(&place);
}
END_TEST

static int dial6(int port)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    inet_pton(AF_INET6, "::1", &a.sin6_addr);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool has_v6(void)
{
    gh_autoclose int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6};
    inet_pton(AF_INET6, "::1", &a.sin6_addr);
    return fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
}

START_TEST(test_v6)
{
    struct app app;
    if (!has_v6()) {
        printf("skipped: no IPv6 loopback here\n");
        return;
    }
    struct http_options options = {.also_v6_loopback = true};
    app_start(&app, &options);
    gh_autoclose int fd = dial6(app.port);
    ck_assert_int_ge(fd, 0);
    client_send(fd, ECHO);
    struct answer a = client_read(fd, false);
    ck_assert_ptr_nonnull(strstr(a.body, "\"peer\":\"[::1]:"));
    answer_free(&a);
    ck_assert_int_eq(strncmp(http_server_address(app.server), "127.0.0.1:", 10), 0);
    app_stop(&app);
    options = (struct http_options){.tcp_host = "::1"};
    app_start(&app, &options);
    ck_assert_int_eq(strncmp(http_server_address(app.server), "[::1]:", 6), 0);
    app_stop(&app);
}
END_TEST

START_TEST(test_tcp_taken)
{
    struct app app;
    struct http_server *server = NULL;
    struct gh_err err = {0};
    app_start(&app, NULL);
    struct http_options options = {.tcp_host = "127.0.0.1", .tcp_port = (uint16_t)app.port};
    ck_assert_int_eq(start(&options, &server, &err), GH_IO);
    ck_assert_ptr_nonnull(strstr(err.detail, "in use"));
    app_stop(&app);
    ck_assert_int_eq(start(&options, &server, &err), GH_OK); /* at once again */
    http_server_free(server, 0);
    options.tcp_host = "localhost";
    ck_assert_int_eq(start(&options, &server, &err), GH_IO);
    http_server_free(NULL, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_listen");
    TCase *tc = tcase_create("listen");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_unix);
    tcase_add_test(tc, test_unix_taken);
    tcase_add_test(tc, test_unix_refused);
    tcase_add_test(tc, test_unix_replaced);
    tcase_add_test(tc, test_v6);
    tcase_add_test(tc, test_tcp_taken);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
