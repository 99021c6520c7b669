/* What two parsers could read differently is refused and the connection closed: one request seen,
 * nothing behind it. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "support.h"

#define H "Host: localhost\r\n"
#define POST "POST /echo HTTP/1.1\r\n" H
#define GET "GET /echo HTTP/1.1\r\n" H
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

static const struct {
    const char *text;
    size_t len; /* 0: strlen */
    int status; /* 0: closed without an answer */
} refused[] = {
    /* lengths */
    {POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde", 0, 400},
    {POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", 0, 400},
    {POST "Content-Length: +5\r\n\r\nabcde", 0, 400},
    {POST "Content-Length: 0x5\r\n\r\nabcde", 0, 400},
    {POST "Content-Length: -1\r\n\r\nabcde", 0, 400},
    {POST "Content-Length: 5, 6\r\n\r\nabcde", 0, 400},
    {POST "Content-Length: \r\n\r\nabcde", 0, 400},
    {POST "Content-Length: 5 \r\n\r\nabcde", 0, 400},
    {POST "Content-Length: 99999999999999999999999\r\n\r\nabcde", 0, 413},
    {POST "Content-Length: 4194305\r\n\r\nabcde", 0, 413},
    {POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 400},
    {POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 0, 400},
    {POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 0, 400},
    {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 400},
    {"POST /echo HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 400},
    /* chunks */
    {CHUNKED "0x5\r\nabcde\r\n0\r\n\r\n", 0, 400},
    {CHUNKED "-1\r\nabcde\r\n0\r\n\r\n", 0, 400},
    {CHUNKED "5\r\nabcdeXX0\r\n\r\n", 0, 400},
    {CHUNKED "fffffffffffffffff\r\nabcde", 0, 413},
    /* lines */
    {"GET /echo HTTP/1.1\nHost: localhost\n\n", 0, 400},
    {"GET /echo HTTP/1.1\r\nHost: localhost\r\nX: a\n\r\n", 0, 400},
    {"GET /echo HTTP/1.1\r\nHost: localhost\r\nX: a\r\n\n", 0, 400},
    {"GET /echo HTTP/1.1\r\nHost: local\r\n host\r\n\r\n", 0, 400},
    {GET "X: abc\r\n\tdef\r\n\r\n", 0, 400},
    {POST "Content-Length: 1\r\n 0\r\n\r\n0123456789", 0, 400},
    {"GET /echo HTTP/1.1\r\n X: a\r\n" H "\r\n", 0, 400},
    {GET "Xfoo\r\n\r\n", 0, 400},
    {GET "X : a\r\n\r\n", 0, 400},
    {GET "X y: a\r\n\r\n", 0, 400},
    {GET ": 5\r\nY: z\r\n\r\n", 0, 400},
    {GET ":\r\nY: z\r\n\r\n", 0, 400},
    {GET "X: a\x01"
         "b\r\n\r\n",
     0, 400},
    {GET "X: a\rY: b\r\n\r\n", 0, 400},
    {GET "X: a\0b\r\n\r\n", sizeof(GET "X: a\0b\r\n\r\n") - 1, 400},
    {"GET /echo HTTP/1.1\r\nHost: localhost\0.evil\r\n\r\n",
     sizeof("GET /echo HTTP/1.1\r\nHost: localhost\0.evil\r\n\r\n") - 1, 400},
    {GET "X\0: a\r\n\r\n", sizeof(GET "X\0: a\r\n\r\n") - 1, 400},
    /* fields that stand once */
    {GET H "\r\n", 0, 400},
    {GET "Authorization: a\r\nauthorization: b\r\n\r\n", 0, 400},
    {GET "Origin: http://a\r\nOrigin: http://b\r\n\r\n", 0, 400},
    {GET "Idempotency-Key: a\r\nIdempotency-Key: b\r\n\r\n", 0, 400},
    /* the request line */
    {"GET /echo\0x HTTP/1.1\r\n" H "\r\n", sizeof("GET /echo\0x HTTP/1.1\r\n" H "\r\n") - 1, 400},
    {"GET /ec ho HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"GET  /echo HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"GET\t/echo HTTP/1.1\r\n" H "\r\n", 0, 0},
    {"GET /echo HTTP/1.1 \r\n" H "\r\n", 0, 400},
    {"GET /echo HTTP/1.2\r\n" H "\r\n", 0, 400},
    {"GET /echo HTTP/2.0\r\n" H "\r\n", 0, 505},
    {"GET /echo\r\n\r\n", 0, 400},
    {"G(T /echo HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"GET http://localhost/echo HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"CONNECT localhost:80 HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"OPTIONS * HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"GET /a/../echo HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"GET /%00 HTTP/1.1\r\n" H "\r\n", 0, 400},
    /* expectations */
    {POST "Expect: other\r\nContent-Length: 5\r\n\r\n", 0, 417},
};

/* Each is followed by a second request on the same connection, which must never be seen. */
START_TEST(test_refused)
{
    struct app app;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    const char *text = refused[_i].text;
    client_send_n(fd, text, refused[_i].len > 0 ? refused[_i].len : strlen(text));
    client_send(fd, GET "\r\n");
    struct answer a = client_read(fd, false);
    ck_assert_msg(a.status == refused[_i].status || refused[_i].status == 0, "case %d: %d, not %d",
                  _i, a.status, refused[_i].status);
    ck_assert(client_closed(fd));
    ck_assert_uint_eq(app.n_calls, 0);
    answer_free(&a);
    app_stop(&app);
}
END_TEST

START_TEST(test_form)
{
    struct app app;
    app_start(&app, NULL);
    struct answer a = client_ask(&app, POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde");
    ck_assert_int_eq(a.status, 400);
    ck_assert(answer_has(&a, "Content-Type: application/problem+json"));
    ck_assert(answer_has(&a, "Connection: close"));
    ck_assert_ptr_nonnull(strstr(a.body, "\"code\":\"bad_request\""));
    answer_free(&a);
    app_stop(&app);
}
END_TEST

/* The plain forms go through, several on one connection. */
START_TEST(test_taken)
{
    static const struct {
        const char *text;
        const char *shows;
    } good[] = {
        {GET "\r\n", "\"method\":\"GET\""},
        {"\r\n" GET "\r\n", "\"method\":\"GET\""},
        {POST "Content-Length: 5\r\n\r\nabcde", "\"body\":\"abcde\""},
        {POST "Content-Length: 005\r\n\r\nabcde", "\"body\":\"abcde\""},
        {CHUNKED "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "\"body\":\"abcde\""},
        {CHUNKED "5\r\nabcde\r\n0\r\nHost: evil\r\n\r\n", "\"body\":\"abcde\""},
        {GET "X-Test:   a b\r\nY:\r\n\r\n", "\"x_test\":\"a b\""},
        {GET "X-Test: \xc3\xa4\r\n\r\n", "\"x_test\":\"\xc3\xa4\""},
        {"GET /echo?a=b%20c&a=d HTTP/1.1\r\n" H "\r\n",
         "\"query\":[\"a\",\"b c\",\"a\",\"d\"],\"a\":\"b c\""},
        {"FOO /echo HTTP/1.1\r\n" H "\r\n", "\"method\":\"FOO\",\"method_id\":0"},
        {"get /echo HTTP/1.1\r\n" H "\r\n", "\"method\":\"get\",\"method_id\":0"},
        {"PATCH /echo HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\n{}", "\"method_id\":5"},
        {"DELETE /echo HTTP/1.1\r\n" H "\r\n", "\"method_id\":6"},
        {GET "Content-Length: 3\r\n\r\nabc", "\"body_len\":3"},
        {GET "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "\"method\":\"GET\""},
    };
    struct app app;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        client_send(fd, good[i].text);
        struct answer a = client_read(fd, false);
        ck_assert_msg(a.status == 200, "case %zu: %d %s", i, a.status, a.data);
        ck_assert_msg(strstr(a.body, good[i].shows) != NULL, "case %zu: %s", i, a.body);
        answer_free(&a);
    }
    app_stop(&app);
}
END_TEST

START_TEST(test_pipelined)
{
    struct app app;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    client_send(fd, GET "X-Test: 1\r\n\r\n" POST "X-Test: 2\r\nContent-Length: 2\r\n\r\nab" GET
                        "X-Test: 3\r\n\r\n");
    for (int i = 1; i <= 3; i++) {
        char want[32];
        struct answer a = client_read(fd, false);
        snprintf(want, sizeof(want), "\"x_test\":\"%d\"", i);
        ck_assert_int_eq(a.status, 200);
        ck_assert_ptr_nonnull(strstr(a.body, want));
        answer_free(&a);
    }
    app_stop(&app);
}
END_TEST

/* Browsers send every localhost service's cookies. */
START_TEST(test_cookies)
{
    struct app app;
    app_start(&app, NULL);
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_buf_puts(&text, POST "User-Agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/120.0\r\n"
                            "Authorization: Bearer 0123456789012345678901234567890123456789\r\n"
                            "Content-Type: application/json\r\nContent-Length: 2\r\nCookie: ");
    for (size_t i = 0; i < 16384 / 8; i++) {
        gh_buf_printf(&text, "%04zu=v; ", i % 10000);
    }
    gh_buf_puts(&text, "\r\nX-Test: behind\r\n\r\n{}");
    struct answer a = client_ask(&app, gh_buf_str(&text));
    ck_assert_int_eq(a.status, 200);
    ck_assert_ptr_nonnull(strstr(a.body, "\"x_test\":\"behind\""));
    answer_free(&a);
    app_stop(&app);
}
END_TEST

START_TEST(test_too_large_head)
{
    struct app app;
    app_start(&app, NULL);
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_buf_puts(&text, GET);
    for (size_t i = 0; i < 100000; i++) {
        gh_buf_puts(&text, "X: a\r\n");
    }
    gh_buf_puts(&text, "\r\n");
    struct answer a = client_ask(&app, gh_buf_str(&text));
    ck_assert_int_eq(a.status, 431);
    answer_free(&a);
    ck_assert_uint_eq(app.n_calls, 0);
    app_stop(&app);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_head");
    TCase *tc = tcase_create("head");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, test_refused, 0, sizeof(refused) / sizeof(*refused));
    tcase_add_test(tc, test_form);
    tcase_add_test(tc, test_taken);
    tcase_add_test(tc, test_pipelined);
    tcase_add_test(tc, test_cookies);
    tcase_add_test(tc, test_too_large_head);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
