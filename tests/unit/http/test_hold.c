/* Held requests: answered from any thread, at any moment; clients that leave; the end. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "support.h"

#define H "Host: localhost\r\n"
#define HOLD "POST /hold HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\n{}"

START_TEST(test_answered)
{
    struct app app;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    for (size_t i = 0; i < 20; i++) {
        client_send(fd, HOLD);
        app_wait(&app, &app.n_held, i + 1);
        ck_assert_uint_eq(http_server_held(app.server), 1);
        app_answer(&app, i);
        struct answer a = client_read(fd, false);
        ck_assert_int_eq(a.status, 200);
        answer_free(&a);
        ck_assert_uint_eq(http_server_held(app.server), 0);
    }
    app_wait(&app, &app.n_fini, 20);
    ck_assert_uint_eq(app.n_gone, 0);
    app_stop(&app);
}
END_TEST

struct answerer {
    struct app *app;
    atomic_bool stop;
};

/* Answer everything the moment it appears, often before its handler has returned. */
static void *answer_at_once(void *cookie)
{
    struct answerer *own = cookie;
    struct app *app = own->app;
    size_t next = 0;
    while (!atomic_load(&own->stop)) {
        pthread_mutex_lock(&app->lock);
        bool there = next < app->n_held;
        pthread_mutex_unlock(&app->lock);
        if (there) {
            app_answer(app, next++);
        }
    }
    return NULL;
}

START_TEST(test_race)
{
    enum { CLIENTS = 10, ROUNDS = 40 };
    struct app app;
    pthread_t thread;
    int fds[CLIENTS];
    app_start(&app, NULL);
    struct answerer own = {.app = &app};
    ck_assert_int_eq(pthread_create(&thread, NULL, answer_at_once, &own), 0);
    for (size_t i = 0; i < CLIENTS; i++) {
        fds[i] = client_dial(&app);
    }
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < CLIENTS; i++) {
            client_send(fds[i], HOLD);
        }
        for (size_t i = 0; i < CLIENTS; i++) {
            struct answer a = client_read(fds[i], false);
            ck_assert_int_eq(a.status, 200);
            answer_free(&a);
        }
    }
    atomic_store(&own.stop, true);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < CLIENTS; i++) {
        close(fds[i]);
    }
    app_wait(&app, &app.n_fini, (size_t)CLIENTS * ROUNDS);
    app_stop(&app);
}
END_TEST

START_TEST(test_left)
{
    struct app app;
    app_start(&app, NULL);
    app.answer_gone = _i == 1;
    for (size_t i = 0; i < 10; i++) {
        int fd = client_dial(&app);
        client_send(fd, HOLD);
        app_wait(&app, &app.n_held, i + 1);
        close(fd);
        app_wait(&app, &app.n_gone, i + 1);
    }
    ck_assert_uint_eq(http_server_held(app.server), _i == 1 ? 0 : 10);
    for (size_t i = 0; i < 10; i++) {
        app_answer(&app, i);
    }
    app_wait(&app, &app.n_fini, 10);
    ck_assert_uint_eq(app.n_gone, 10);
    app_stop(&app);
}
END_TEST

/* A reset, and the end of the sending half only: both are told as gone. Whether who still reads
 * gets the reply is the library's choice (it closes when it reads the end first): whole or nothing.
 */
START_TEST(test_left_otherwise)
{
    struct app app;
    app_start(&app, NULL);
    int reset = client_dial(&app);
    gh_autoclose int half = client_dial(&app);
    client_send(reset, HOLD);
    app_wait(&app, &app.n_held, 1);
    client_send(half, HOLD);
    app_wait(&app, &app.n_held, 2);
    struct linger now = {1, 0};
    setsockopt(reset, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(reset);
    app_wait(&app, &app.n_gone, 1);
    shutdown(half, SHUT_WR);
    app_wait(&app, &app.n_gone, 2);
    app_answer(&app, 0);
    app_answer(&app, 1);
    struct answer a = client_read(half, false);
    ck_assert(a.status == 200 || a.len == 0);
    answer_free(&a);
    app_wait(&app, &app.n_fini, 2);
    app_stop(&app);
}
END_TEST

/* Both at once, again and again: exactly one reply, no callback into what is freed. */
START_TEST(test_left_while_answered)
{
    enum { N = 200 };
    struct app app;
    pthread_t thread;
    app_start(&app, NULL);
    app.answer_gone = true;
    struct answerer own = {.app = &app};
    ck_assert_int_eq(pthread_create(&thread, NULL, answer_at_once, &own), 0);
    for (size_t i = 0; i < N; i++) {
        int fd = client_dial(&app);
        client_send(fd, HOLD);
        close(fd);
    }
    /* Some clients were gone before their request was read: those are no exchange at all. */
    while (app_read(&app, &app.n_held) == 0 ||
           app_read(&app, &app.n_fini) < app_read(&app, &app.n_held)) {
        usleep(1000);
    }
    atomic_store(&own.stop, true);
    pthread_join(thread, NULL);
    app_stop(&app);
}
END_TEST

START_TEST(test_cork)
{
    enum { N = 100 };
    struct app app;
    int fds[N];
    app_start(&app, NULL);
    for (size_t i = 0; i < N; i++) {
        fds[i] = client_dial(&app);
        client_send(fds[i], HOLD);
        app_wait(&app, &app.n_held, i + 1);
    }
    http_cork(app.server);
    http_cork(app.server);
    for (size_t i = 0; i < N; i++) {
        app_answer(&app, i);
    }
    http_uncork(app.server);
    struct pollfd p = {.fd = fds[0], .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, 20), 0); /* corked once more */
    http_uncork(app.server);
    for (size_t i = 0; i < N; i++) {
        struct answer a = client_read(fds[i], false);
        ck_assert_int_eq(a.status, 200);
        answer_free(&a);
        close(fds[i]);
    }
    app_stop(&app);
}
END_TEST

/* Waiters and streams at the stop: everybody gets a whole answer, new requests the 503. */
START_TEST(test_stop)
{
    enum { WAITERS = 50, STREAMS = 5 };
    struct app app;
    int fds[WAITERS];
    int streams[STREAMS];
    app_start(&app, NULL);
    gh_autoclose int idle = client_dial(&app);
    client_send(idle, "GET /echo HTTP/1.1\r\n" H "\r\n");
    struct answer a = client_read(idle, false);
    answer_free(&a);
    for (size_t i = 0; i < WAITERS; i++) {
        fds[i] = client_dial(&app);
        client_send(fds[i], HOLD);
    }
    for (size_t i = 0; i < STREAMS; i++) {
        streams[i] = client_dial(&app);
        client_send(streams[i], "GET /stream HTTP/1.1\r\n" H "\r\n");
    }
    app_wait(&app, &app.n_held, WAITERS);
    app_wait(&app, &app.n_streams, STREAMS);
    http_server_quiesce(app.server);
    http_server_quiesce(app.server);
    client_send(idle, "GET /echo HTTP/1.1\r\n" H "\r\n");
    a = client_read(idle, false);
    ck_assert_int_eq(a.status, 503);
    ck_assert(answer_has(&a, "Connection: close"));
    ck_assert_ptr_nonnull(strstr(a.body, "\"code\":\"stopping\""));
    answer_free(&a);
    app_stop(&app);
    for (size_t i = 0; i < WAITERS; i++) {
        a = client_read(fds[i], false);
        ck_assert_int_eq(a.status, 200);
        ck_assert(answer_has(&a, "Connection: close"));
        answer_free(&a);
        close(fds[i]);
    }
    for (size_t i = 0; i < STREAMS; i++) {
        a = client_read(streams[i], false);
        ck_assert_int_eq(a.status, 200);
        ck_assert_ptr_nonnull(strstr(a.data, "\r\n0\r\n\r\n")); /* ended, not cut */
        answer_free(&a);
        close(streams[i]);
    }
    ck_assert_uint_eq(app.n_fini, WAITERS);
    ck_assert_uint_eq(app.n_gone, 0);
}
END_TEST

/* A client that takes nothing of a large reply holds the end up for the grace time only. */
START_TEST(test_stop_with_deaf_client)
{
    struct app app;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    client_send(fd, "GET /big?bytes=20000000 HTTP/1.1\r\n" H "\r\n");
    app_wait(&app, &app.n_calls, 1);
    while (http_server_held(app.server) > 0) {
        usleep(1000); /* the handler builds it */
    }
    http_server_free(app.server, 50);
}
END_TEST

/* Every descriptor of the server and its connections is closed on exec. */
START_TEST(test_cloexec)
{
    struct app app;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    client_send(fd, HOLD);
    app_wait(&app, &app.n_held, 1);
    DIR *dir = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(dir);
    size_t sockets = 0;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        char link[64] = "";
        int n = atoi(e->d_name);
        ssize_t len = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
        bool ours = len > 0 && (strncmp(link, "socket:", 7) == 0 || strncmp(link, "anon_", 5) == 0);
        if (ours) {
            ck_assert_msg((fcntl(n, F_GETFD) & FD_CLOEXEC) != 0, "fd %d %s", n, link);
            sockets += strncmp(link, "socket:", 7) == 0;
        }
    }
    closedir(dir);
    ck_assert_uint_ge(sockets, 3); /* listening, accepted, the client's own */
    app_stop(&app);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_hold");
    TCase *tc = tcase_create("hold");
    tcase_set_timeout(tc, 200);
    tcase_add_test(tc, test_answered);
    tcase_add_test(tc, test_race);
    tcase_add_loop_test(tc, test_left, 0, 2);
    tcase_add_test(tc, test_left_otherwise);
    tcase_add_test(tc, test_left_while_answered);
    tcase_add_test(tc, test_cork);
    tcase_add_test(tc, test_stop);
    tcase_add_test(tc, test_stop_with_deaf_client);
    tcase_add_test(tc, test_cloexec);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
