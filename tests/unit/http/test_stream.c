/* Streams: order, the first bytes at once, slow readers, clients that leave. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "support.h"

#define STREAM "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"

static void say(struct http_stream *stream, const char *text)
{
    ck_assert(http_stream_send(stream, text, strlen(text)));
}

/* Read until `text` has come; the bytes so far are kept in `seen`. */
static void read_until(int fd, const char *text, struct gh_buf *seen)
{
    char c = 0;
    while (strstr(gh_buf_str(seen), text) == NULL) {
        ck_assert_int_eq(read(fd, &c, 1), 1);
        gh_buf_putc(seen, c);
    }
}

START_TEST(test_order)
{
    struct app app;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    gh_auto(gh_buf_fini) struct gh_buf seen = GH_BUF_INIT;
    client_send(fd, STREAM);
    app_wait(&app, &app.n_streams, 1);
    read_until(fd, "\r\n\r\n", &seen); /* the head comes before there is anything to say */
    ck_assert_ptr_nonnull(strstr(seen.data, "Content-Type: text/event-stream\r\n"));
    ck_assert_ptr_nonnull(strstr(seen.data, "Cache-Control: no-store\r\n"));
    for (int i = 0; i < 200; i++) {
        char text[32];
        snprintf(text, sizeof(text), "data: %d\n\n", i);
        say(app.streams[0], text);
        if (i % 50 == 0) {
            read_until(fd, text, &seen); /* the reader has all: the next one wakes it up */
        }
    }
    http_stream_close(app.streams[0]);
    app.streams[0] = NULL;
    read_until(fd, "\r\n0\r\n\r\n", &seen);
    const char *at = seen.data;
    for (int i = 0; i < 200; i++) {
        char text[32];
        snprintf(text, sizeof(text), "data: %d\n", i);
        at = strstr(at, text);
        ck_assert_msg(at != NULL, "%s", text);
    }
    client_send(fd,
                "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"); /* and the connection goes on */
    struct answer a = client_read(fd, false);
    ck_assert_int_eq(a.status, 200);
    answer_free(&a);
    app_stop(&app);
}
END_TEST

/* A reader that takes nothing: the queue is bounded, the stream can be closed. */
START_TEST(test_slow)
{
    struct app app;
    char block[8192];
    size_t sent = 0;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    memset(block, 'x', sizeof(block));
    client_send(fd, STREAM);
    app_wait(&app, &app.n_streams, 1);
    while (http_stream_send(app.streams[0], block, sizeof(block))) {
        ck_assert_uint_le(http_stream_backlog(app.streams[0]), 65536);
        ck_assert_uint_lt(++sent, 100000);
    }
    ck_assert_uint_ge(sent, 8);
    ck_assert(!http_stream_send(app.streams[0], block, 65537));
    http_stream_close(app.streams[0]);
    app.streams[0] = NULL;
    http_server_free(app.server, 50); /* still deaf */
}
END_TEST

/* The client leaves an idle stream: told without a send, and the next send says no. */
START_TEST(test_left)
{
    struct app app;
    app_start(&app, NULL);
    for (size_t i = 0; i < 20; i++) {
        gh_auto(gh_buf_fini) struct gh_buf seen = GH_BUF_INIT;
        int fd = client_dial(&app);
        client_send(fd, STREAM);
        app_wait(&app, &app.n_streams, i + 1);
        if (i % 2 == 0) {
            say(app.streams[i], "hello");
            read_until(fd, "hello", &seen);
        }
        close(fd);
        app_wait(&app, &app.n_streams_gone, i + 1);
        ck_assert(!http_stream_send(app.streams[i], "a", 1));
    }
    app_stop(&app);
}
END_TEST

struct sender {
    struct app *app;
    atomic_bool stop;
};

static void *send_to_all(void *cookie)
{
    struct sender *own = cookie;
    while (!atomic_load(&own->stop)) {
        for (size_t i = 0; i < own->app->n_streams; i++) {
            (void)!http_stream_send(own->app->streams[i], "data: x\n\n", 9);
        }
    }
    return NULL;
}

/* Sends from two threads while clients leave one after another. */
START_TEST(test_left_while_sending)
{
    enum { N = 40 };
    struct app app;
    pthread_t threads[2];
    int fds[N];
    app_start(&app, NULL);
    for (size_t i = 0; i < N; i++) {
        fds[i] = client_dial(&app);
        client_send(fds[i], STREAM);
    }
    app_wait(&app, &app.n_streams, N);
    struct sender own = {.app = &app};
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, send_to_all, &own), 0);
    }
    for (size_t i = 0; i < N; i++) {
        char some[64];
        ck_assert_int_gt(read(fds[i], some, sizeof(some)), 0);
        close(fds[i]);
    }
    app_wait(&app, &app.n_streams_gone, N);
    atomic_store(&own.stop, true);
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    app_stop(&app);
}
END_TEST

START_TEST(test_many)
{
    enum { N = 400 };
    struct app app;
    int fds[N];
    app_start(&app, NULL);
    for (size_t i = 0; i < N; i++) {
        fds[i] = client_dial(&app);
        client_send(fds[i], STREAM);
        app_wait(&app, &app.n_streams, i + 1); /* so that the i-th stream is the i-th client's */
    }
    for (size_t i = 0; i < N; i++) {
        say(app.streams[i], "data: all\n\n");
    }
    for (size_t i = 0; i < N; i++) {
        gh_auto(gh_buf_fini) struct gh_buf seen = GH_BUF_INIT;
        read_until(fds[i], "data: all\n\n", &seen);
        close(fds[i]);
    }
    app_wait(&app, &app.n_streams_gone, N);
    app_stop(&app);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_stream");
    TCase *tc = tcase_create("stream");
    tcase_set_timeout(tc, 200);
    tcase_add_test(tc, test_order);
    tcase_add_test(tc, test_slow);
    tcase_add_test(tc, test_left);
    tcase_add_test(tc, test_left_while_sending);
    tcase_add_test(tc, test_many);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
