/* test_client: what goes over the wire, what comes back, and what is never believed. */
#include "cli/client.h"

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fs.h"

/* A server of one answer: reads one request, sends fixed bytes, closes. */
struct server {
    pthread_t thread;
    int listen_fd;
    const char *answer;
    size_t n_fill;      /* bytes of 'x' behind the answer */
    bool is_silent;     /* never answers; ends when the client leaves */
    char request[8192]; /* what came, NUL-terminated */
};

static size_t body_length(const char *request)
{
    const char *header = strcasestr(request, "content-length:");
    return header == NULL ? 0 : strtoul(header + 15, NULL, 10);
}

static void read_request(int fd, char *to, size_t size)
{
    size_t len = 0;
    const char *end = NULL;
    to[0] = '\0';
    while (len + 1 < size && (end == NULL || strlen(end + 4) < body_length(to))) {
        ssize_t n = read(fd, to + len, size - 1 - len);
        if (n <= 0) {
            return;
        }
        len += (size_t)n;
        to[len] = '\0';
        end = strstr(to, "\r\n\r\n");
    }
}

static void *serve(void *cookie)
{
    struct server *server = cookie;
    static char fill[65536];
    memset(fill, 'x', sizeof fill);
    gh_autoclose int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    read_request(fd, server->request, sizeof server->request);
    if (server->is_silent) {
        char byte = 0;
        while (read(fd, &byte, 1) > 0) {
        }
        return NULL;
    }
    bool is_open = gh_fs_write_all(fd, server->answer, strlen(server->answer));
    for (size_t sent = 0; is_open && sent < server->n_fill; sent += sizeof fill) {
        is_open = send(fd, fill, sizeof fill, MSG_NOSIGNAL) > 0;
    }
    return NULL;
}

/* Listen on a free TCP port, or on `socket_path`. */
static void start(struct server *server, const char *socket_path, struct cli_service *service)
{
    struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    socklen_t len = sizeof tcp;
    *service = (struct cli_service){.secret = "gh_secret"};
    server->listen_fd =
        socket(socket_path != NULL ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(server->listen_fd, 0);
    if (socket_path != NULL) {
        snprintf(local.sun_path, sizeof local.sun_path, "%s", socket_path);
        snprintf(service->socket, sizeof service->socket, "%s", socket_path);
        ck_assert_int_eq(bind(server->listen_fd, (struct sockaddr *)&local, sizeof local), 0);
        service->url = strdup("http://localhost");
    } else {
        ck_assert_int_eq(bind(server->listen_fd, (struct sockaddr *)&tcp, sizeof tcp), 0);
        ck_assert_int_eq(getsockname(server->listen_fd, (struct sockaddr *)&tcp, &len), 0);
        ck_assert_int_gt(asprintf(&service->url, "http://127.0.0.1:%d", ntohs(tcp.sin_port)), 0);
    }
    ck_assert_int_eq(listen(server->listen_fd, 4), 0);
    ck_assert_int_eq(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void stop(struct server *server, struct cli_service *service)
{
    shutdown(server->listen_fd, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listen_fd);
    cli_service_fini(service);
}

/* One request to a server that answers so. */
static enum gh_code exchange(struct server *server, const char *socket_path,
                             const struct cli_request *request, struct cli_answer *ret)
{
    struct cli_service service;
    struct cli_client *client = NULL;
    struct gh_err err = {0};
    start(server, socket_path, &service);
    ck_assert_int_eq(cli_client_new(&service, &client, &err), GH_OK);
    enum gh_code code = cli_client_send(client, request, ret, &err);
    cli_client_free(client);
    stop(server, &service);
    return code;
}

static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                         "Content-Length: 7\r\n\r\n{\"a\":1}";

START_TEST(sends_what_it_should)
{
    struct server server = {.answer = ok};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    const struct cli_request request = {.method = "PUT",
                                        .path = "/v1/x?y=1",
                                        .body = "{\"b\":2}",
                                        .if_match = "sha256-00",
                                        .idempotency_key = "k1"};
    /* Proxies of the environment must not see the token. */
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    ck_assert_int_eq(exchange(&server, NULL, &request, &answer), GH_OK);
    ck_assert_int_eq(answer.status, 200);
    ck_assert_int_eq(gh_json_number(gh_json_get(answer.json, "a"), 0), 1);
    ck_assert_ptr_nonnull(strstr(server.request, "PUT /v1/x?y=1 HTTP/1.1\r\n"));
    ck_assert_ptr_nonnull(strstr(server.request, "\r\nAuthorization: Bearer gh_secret\r\n"));
    ck_assert_ptr_nonnull(strstr(server.request, "\r\nIf-Match: \"sha256-00\"\r\n"));
    ck_assert_ptr_nonnull(strstr(server.request, "\r\nIdempotency-Key: k1\r\n"));
    ck_assert_ptr_nonnull(strstr(server.request, "\r\nContent-Type: application/json\r\n"));
    ck_assert_ptr_null(strcasestr(server.request, "\r\nExpect:"));
    ck_assert_ptr_nonnull(strstr(server.request, "\r\n\r\n{\"b\":2}"));
}
END_TEST

START_TEST(speaks_over_the_unix_socket)
{
    struct server server = {.answer = ok};
    char path[48];
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    snprintf(path, sizeof path, "/tmp/gh-client-%d.sock", (int)getpid());
    const struct cli_request request = {.method = "GET", .path = "/v1/status"};
    ck_assert_int_eq(exchange(&server, path, &request, &answer), GH_OK);
    unlink(path);
    ck_assert_int_eq(answer.status, 200);
    ck_assert_ptr_nonnull(strstr(server.request, "\r\nHost: localhost\r\n"));
    ck_assert_ptr_null(strstr(server.request, "Content-Type"));
}
END_TEST

START_TEST(follows_no_redirect)
{
    struct server server = {.answer = "HTTP/1.1 307 Temporary Redirect\r\n"
                                      "Location: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    const struct cli_request request = {.method = "GET", .path = "/"};
    ck_assert_int_eq(exchange(&server, NULL, &request, &answer), GH_OK);
    ck_assert_int_eq(answer.status, 307);
    ck_assert_str_eq(answer.body, "");
    ck_assert_ptr_null(answer.json);
}
END_TEST

START_TEST(bounds_the_answer)
{
    struct server server = {.answer = "HTTP/1.1 200 OK\r\n\r\n",
                            .n_fill = (size_t)CLI_MAX_ANSWER_BYTES + (1U << 20)};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    const struct cli_request request = {.method = "GET", .path = "/"};
    ck_assert_int_eq(exchange(&server, NULL, &request, &answer), GH_IO);
    ck_assert_int_eq(answer.failure, CLI_F_LOST);
    ck_assert_ptr_null(answer.body);
}
END_TEST

START_TEST(names_its_failures)
{
    static const char *const answers[] = {"", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"};
    const struct cli_request request = {.method = "GET", .path = "/"};
    for (size_t i = 0; i < 2; i++) {
        struct server server = {.answer = answers[i]};
        gh_auto(cli_answer_fini) struct cli_answer answer = {0};
        ck_assert_int_eq(exchange(&server, NULL, &request, &answer), GH_IO);
        ck_assert_int_eq(answer.failure, CLI_F_LOST);
    }
    struct cli_service nobody = {.url = strdup("http://127.0.0.1:1")};
    struct cli_client *client = NULL;
    struct gh_err err = {0};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    ck_assert_int_eq(cli_client_new(&nobody, &client, &err), GH_OK);
    ck_assert_int_eq(cli_client_send(client, &request, &answer, &err), GH_IO);
    ck_assert_int_eq(answer.failure, CLI_F_NO_SERVICE);
    cli_client_free(client);
    cli_service_fini(&nobody);
}
END_TEST

START_TEST(refuses_header_breaks)
{
    struct cli_service nobody = {.url = strdup("http://127.0.0.1:1")};
    struct cli_client *client = NULL;
    struct gh_err err = {0};
    const struct cli_request request = {
        .method = "GET", .path = "/", .if_match = "a\"\r\nX-Forged: 1"};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    ck_assert_int_eq(cli_client_new(&nobody, &client, &err), GH_OK);
    ck_assert_int_eq(cli_client_send(client, &request, &answer, &err), GH_IO);
    ck_assert_int_eq(answer.failure, CLI_F_LOCAL);
    cli_client_free(client);
    cli_service_fini(&nobody);
}
END_TEST

START_TEST(gives_up_when_interrupted)
{
    struct server server = {.is_silent = true};
    int pipes[2];
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    ck_assert_int_eq(write(pipes[1], "x", 1), 1);
    const struct cli_request request = {
        .method = "GET", .path = "/", .interrupt_fd = pipes[0], .timeout_ms = 60000};
    ck_assert_int_eq(exchange(&server, NULL, &request, &answer), GH_IO);
    ck_assert_int_eq(answer.failure, CLI_F_INTERRUPTED);
    close(pipes[0]);
    close(pipes[1]);
}
END_TEST

START_TEST(times_out)
{
    struct server server = {.is_silent = true};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    const struct cli_request request = {.method = "GET", .path = "/", .timeout_ms = 100};
    ck_assert_int_eq(exchange(&server, NULL, &request, &answer), GH_IO);
    ck_assert_int_eq(answer.failure, CLI_F_LOST);
}
END_TEST

static bool take_some(const char *data, size_t len, void *cookie)
{
    struct gh_buf *buf = cookie;
    gh_buf_put(buf, data, len);
    return buf->len < 3;
}

START_TEST(streams_until_enough)
{
    struct server server = {.answer = "HTTP/1.1 200 OK\r\n\r\nabcdef", .is_silent = false};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    gh_auto(gh_buf_fini) struct gh_buf buf = GH_BUF_INIT;
    const struct cli_request request = {
        .method = "GET", .path = "/", .timeout_ms = -1, .on_data = take_some, .cookie = &buf};
    ck_assert_int_eq(exchange(&server, NULL, &request, &answer), GH_OK);
    ck_assert_str_eq(gh_buf_str(&buf), "abcdef");
    ck_assert_str_eq(answer.body, "");
}
END_TEST

/* An error body is never mistaken for the stream. */
START_TEST(errors_do_not_stream)
{
    struct server server = {.answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 15\r\n\r\n"
                                      "{\"code\":\"nope\"}"};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    gh_auto(gh_buf_fini) struct gh_buf buf = GH_BUF_INIT;
    const struct cli_request request = {
        .method = "GET", .path = "/", .on_data = take_some, .cookie = &buf};
    ck_assert_int_eq(exchange(&server, NULL, &request, &answer), GH_OK);
    ck_assert_int_eq(answer.status, 403);
    ck_assert_uint_eq(buf.len, 0);
    ck_assert_int_eq(answer.len, 15);
}
END_TEST

START_TEST(escapes_queries)
{
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_buf_puts(&path, "/v1/");
    cli_segment(&path, "a/../b?c");
    cli_query(&path, "x", "1&y=2 \xc3\xa9\r\n");
    cli_query(&path, "none", NULL);
    cli_query(&path, "z", "");
    ck_assert_str_eq(gh_buf_str(&path), "/v1/a%2F..%2Fb%3Fc?x=1%26y%3D2%20%C3%A9%0D%0A&z=");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client");
    TCase *tests = tcase_create("client");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, sends_what_it_should);
    tcase_add_test(tests, speaks_over_the_unix_socket);
    tcase_add_test(tests, follows_no_redirect);
    tcase_add_test(tests, bounds_the_answer);
    tcase_add_test(tests, names_its_failures);
    tcase_add_test(tests, refuses_header_breaks);
    tcase_add_test(tests, gives_up_when_interrupted);
    tcase_add_test(tests, times_out);
    tcase_add_test(tests, streams_until_enough);
    tcase_add_test(tests, errors_do_not_stream);
    tcase_add_test(tests, escapes_queries);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
