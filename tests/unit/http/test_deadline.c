/* Deadlines: whoever does not get on is closed, whoever waits for us is not. Nothing here is
 * decided by how long it took: each test waits for the close that must come. */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "support.h"

#define H "Host: localhost\r\n"
#define ECHO "GET /echo HTTP/1.1\r\n" H "\r\n"

/* Send a byte every 5 ms until the server closes. */
static void drip(int fd, const char *bytes)
{
    struct pollfd p = {.fd = fd, .events = POLLIN | POLLRDHUP};
    size_t n = strlen(bytes);
    for (size_t i = 0; poll(&p, 1, 5) == 0; i++) {
        ck_assert_uint_lt(i, 4000);
        client_send_n(fd, bytes + i % n, 1);
    }
    ck_assert(client_closed(fd));
}

/* The time for a request is counted from its beginning, not per byte. */
START_TEST(test_dripped)
{
    static const char *const begin[] = {
        "",
        "GET /echo HTTP/1.1\r\nX: ", "POST /echo HTTP/1.1\r\n" H "Content-Length: 4000000\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3d0900\r\n"};
    struct app app;
    struct http_options options = {.request_timeout_ms = 150, .idle_timeout_ms = 60000};
    app_start(&app, &options);
    gh_autoclose int fd = client_dial(&app);
    client_send(fd, begin[_i]);
    drip(fd, "a");
    ck_assert_uint_eq(app.n_calls, 0);
    app_stop(&app);
}
END_TEST

/* The same on a connection that has had a request. */
START_TEST(test_dripped_later)
{
    struct app app;
    struct http_options options = {.request_timeout_ms = 150, .idle_timeout_ms = 60000};
    app_start(&app, &options);
    gh_autoclose int fd = client_dial(&app);
    client_send(fd, ECHO);
    struct answer a = client_read(fd, false);
    answer_free(&a);
    client_send(fd, "GET /echo HTTP/1.1\r\nX: ");
    drip(fd, "a");
    ck_assert_uint_eq(app.n_calls, 1);
    app_stop(&app);
}
END_TEST

START_TEST(test_idle)
{
    struct app app;
    struct http_options options = {.request_timeout_ms = 60000, .idle_timeout_ms = 100};
    app_start(&app, &options);
    gh_autoclose int fd = client_dial(&app);
    client_send(fd, ECHO);
    struct answer a = client_read(fd, false);
    answer_free(&a);
    ck_assert(client_closed(fd));
    app_stop(&app);
}
END_TEST

/* A held request is complete: no deadline of the server touches it, also not when its connection
 * has left the heap; afterwards the idle time counts again. */
START_TEST(test_held)
{
    struct app app;
    struct http_options options = {.request_timeout_ms = 50, .idle_timeout_ms = 50};
    app_start(&app, &options);
    gh_autoclose int fd = client_dial(&app);
    client_send(fd, "POST /hold HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\n{}");
    app_wait(&app, &app.n_held, 1);
    struct pollfd p = {.fd = fd, .events = POLLIN | POLLRDHUP};
    ck_assert_int_eq(poll(&p, 1, 300), 0);
    ck_assert_uint_eq(app.n_gone, 0);
    app_answer(&app, 0);
    struct answer a = client_read(fd, false);
    ck_assert_int_eq(a.status, 200);
    answer_free(&a);
    ck_assert(client_closed(fd));
    app_stop(&app);
}
END_TEST

/* How many of the connections the server has closed; waits until there are at least `want`. */
static size_t wait_closed(const int *fds, size_t n, size_t want)
{
    struct pollfd p[256];
    size_t closed = 0;
    ck_assert_uint_le(n, 256);
    for (size_t tries = 0; closed < want; tries++) {
        ck_assert_uint_lt(tries, 2000);
        for (size_t i = 0; i < n; i++) {
            p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
        }
        ck_assert_int_ge(poll(p, n, 10), 0);
        closed = 0;
        for (size_t i = 0; i < n; i++) {
            closed += p[i].revents != 0;
        }
    }
    return closed;
}

/* More incomplete connections than may be: the oldest go, and a real request is served. */
START_TEST(test_room)
{
    enum { LIMIT = 40, SLOW = 200 };
    struct app app;
    int fds[SLOW];
    struct http_options options = {
        .max_connections = LIMIT, .request_timeout_ms = 600000, .idle_timeout_ms = 600000};
    app_start(&app, &options);
    for (size_t i = 0; i < SLOW; i++) {
        fds[i] = client_dial(&app);
        client_send(fds[i], "GET /echo HTTP/1.1\r\nX: ");
    }
    for (size_t i = 0; i < 5; i++) {
        struct answer a = client_ask(&app, ECHO);
        ck_assert_int_eq(a.status, 200);
        answer_free(&a);
    }
    ck_assert_uint_ge(wait_closed(fds, SLOW, SLOW - LIMIT), SLOW - LIMIT);
    for (size_t i = 0; i < SLOW; i++) {
        close(fds[i]);
    }
    app_stop(&app);
}
END_TEST

/* Held requests beyond seven eighths of the places: the next ones are told, not left hanging. */
START_TEST(test_full_of_held)
{
    enum { LIMIT = 40, HELD = 36 };
    struct app app;
    int fds[HELD];
    struct http_options options = {.max_connections = LIMIT};
    app_start(&app, &options);
    for (size_t i = 0; i < HELD; i++) {
        fds[i] = client_dial(&app);
        client_send(fds[i], "POST /hold HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\n{}");
        app_wait(&app, &app.n_held, i + 1);
    }
    struct answer a = client_ask(&app, ECHO);
    ck_assert_int_eq(a.status, 503);
    ck_assert_ptr_nonnull(strstr(a.body, "\"code\":\"busy\""));
    answer_free(&a);
    app_answer(&app, 0);
    a = client_read(fds[0], false);
    answer_free(&a);
    a = client_ask(&app, ECHO);
    ck_assert_int_eq(a.status, 200);
    answer_free(&a);
    app_stop(&app);
    for (size_t i = 0; i < HELD; i++) {
        close(fds[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_deadline");
    TCase *tc = tcase_create("deadline");
    tcase_set_timeout(tc, 200);
    tcase_add_loop_test(tc, test_dripped, 0, 4);
    tcase_add_test(tc, test_dripped_later);
    tcase_add_test(tc, test_idle);
    tcase_add_test(tc, test_held);
    tcase_add_test(tc, test_room);
    tcase_add_test(tc, test_full_of_held);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
