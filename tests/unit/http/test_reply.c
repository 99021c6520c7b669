/* Replies: headers, problems, bodies, limits, what ends the connection and what does not. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "support.h"

#define H "Host: localhost\r\n"

static const char *const everywhere[] = {
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options: nosniff",
    "Referrer-Policy: no-referrer",
    "X-Frame-Options: DENY",
    "Cross-Origin-Opener-Policy: same-origin",
    "Cross-Origin-Resource-Policy: same-origin",
};

static void check_security(const struct answer *a)
{
    for (size_t i = 0; i < sizeof(everywhere) / sizeof(*everywhere); i++) {
        ck_assert_msg(answer_has(a, everywhere[i]), "%s in %s", everywhere[i], a->data);
    }
    ck_assert_ptr_null(strcasestr(a->data, "\r\nServer:"));
    ck_assert_ptr_null(strcasestr(a->data, "\r\nAccess-Control-"));
    ck_assert_ptr_null(strcasestr(a->data, "\r\nSet-Cookie:"));
}

START_TEST(test_headers)
{
    static const char *const requests[] = {
        "GET /echo HTTP/1.1\r\n" H "\r\n",
        "GET /problem HTTP/1.1\r\n" H "\r\n",
        "GET /status?code=304 HTTP/1.1\r\n" H "\r\n",
        "GET /status?code=204 HTTP/1.1\r\n" H "\r\n",
        "HEAD /echo HTTP/1.1\r\n" H "\r\n",
        "GET /echo HTTP/1.1\r\n" H "X-Deny: 1\r\n\r\n",
        "GET /a/../b HTTP/1.1\r\n" H "\r\n",
    };
    struct app app;
    app_start(&app, NULL);
    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
        struct answer a = client_ask(&app, requests[i]);
        ck_assert_int_ne(a.status, 0);
        check_security(&a);
        answer_free(&a);
    }
    struct answer a = client_ask(&app, requests[0]);
    ck_assert(answer_has(&a, "Content-Type: application/json"));
    ck_assert(answer_has(&a, "Cache-Control: no-store"));
    answer_free(&a);
    app_stop(&app);
}
END_TEST

/* What the caller gives stands alone; an empty status has no body and no type. */
START_TEST(test_given)
{
    struct app app;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    static const int codes[] = {200, 204, 304, 200};
    for (size_t i = 0; i < 4; i++) {
        char text[128];
        snprintf(text, sizeof(text), "GET /status?code=%d HTTP/1.1\r\n" H "\r\n", codes[i]);
        client_send(fd, text);
        struct answer a = client_read(fd, false);
        ck_assert_int_eq(a.status, codes[i]);
        ck_assert(answer_has(&a, "Cache-Control: max-age=60"));
        ck_assert(!answer_has(&a, "Cache-Control: no-store"));
        ck_assert(answer_has(&a, "ETag: \"e\""));
        ck_assert_int_eq(strcasestr(a.data, "\r\nContent-Type:") != NULL, codes[i] == 200);
        ck_assert_uint_eq(a.body_len, 0);
        answer_free(&a);
    }
    app_stop(&app);
}
END_TEST

START_TEST(test_problem)
{
    struct app app;
    app_start(&app, NULL);
    struct answer a = client_ask(
        &app, "GET /problem HTTP/1.1\r\n" H
              "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n");
    ck_assert_int_eq(a.status, 422);
    ck_assert(answer_has(&a, "Content-Type: application/problem+json"));
    ck_assert_str_eq(
        a.body, "{\"type\":\"urn:gatehouse:problem:invalid\",\"title\":\"A field has a value "
                "that is not allowed\",\"status\":422,\"detail\":\"the mode \\\"<b>\\u0001\\\" "
                "is not known\",\"code\":\"invalid\",\"trace_id\":"
                "\"0af7651916cd43dd8448eb211c80319c\",\"errors\":[{\"pointer\":\"/mode\","
                "\"detail\":\"the mode \\\"<b>\\u0001\\\" is not known\"}],"
                "\"decision\":\"deny\"}");
    answer_free(&a);
    app_stop(&app);
}
END_TEST

/* Refused before the body is read: told at once, without waiting for it, and closed. */
START_TEST(test_early)
{
    struct app app;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    client_send(fd, "POST /echo HTTP/1.1\r\n" H "X-Deny: 1\r\nExpect: 100-continue\r\n"
                    "Content-Length: 2000000\r\n\r\n");
    struct answer a = client_read(fd, false);
    ck_assert_int_eq(a.status, 401);
    ck_assert(answer_has(&a, "WWW-Authenticate: Bearer"));
    ck_assert(answer_has(&a, "Connection: close"));
    ck_assert(client_closed(fd));
    ck_assert_uint_eq(app.n_calls, 0);
    answer_free(&a);
    app_stop(&app);
}
END_TEST

/* Without a body there is nothing to leave unread: the connection goes on. */
START_TEST(test_early_without_body)
{
    struct app app;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    for (int i = 0; i < 3; i++) {
        client_send(fd, "GET /echo HTTP/1.1\r\n" H "X-Deny: 1\r\n\r\n");
        struct answer a = client_read(fd, false);
        ck_assert_int_eq(a.status, 401);
        ck_assert(!answer_has(&a, "Connection: close"));
        answer_free(&a);
    }
    app_stop(&app);
}
END_TEST

START_TEST(test_continue)
{
    struct app app;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    client_send(fd,
                "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    struct answer a = client_read(fd, false);
    ck_assert_int_eq(a.status, 100);
    answer_free(&a);
    client_send(fd, "abcde");
    a = client_read(fd, false);
    ck_assert_int_eq(a.status, 200);
    answer_free(&a);
    app_stop(&app);
}
END_TEST

/* A client that sends all of a body that is refused still reads the answer: no reset. */
START_TEST(test_refused_while_sending)
{
    enum { N = 6 << 20 };
    struct app app;
    app_start(&app, NULL);
    char *body = calloc(1, N);
    ck_assert_ptr_nonnull(body);
    gh_autoclose int fd = client_dial(&app);
    char head[128];
    snprintf(head, sizeof(head), "POST /echo HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n", N);
    client_send(fd, head);
    client_send_n(fd, body, N);
    struct answer a = client_read(fd, false);
    ck_assert_int_eq(a.status, 413);
    ck_assert_ptr_nonnull(strstr(a.body, "\"code\":\"body_too_large\""));
    answer_free(&a);
    free(body);
    app_stop(&app);
}
END_TEST

START_TEST(test_limits)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"POST /small HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\n0123456789", 200},
        {"POST /small HTTP/1.1\r\n" H "Content-Length: 11\r\n\r\n0123456789a", 413},
        {"POST /small HTTP/1.1\r\n" H
         "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n",
         200},
        {"POST /small HTTP/1.1\r\n" H
         "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n1\r\na\r\n0\r\n\r\n",
         413},
        /* far over the limit without a length: cut off */
        {"POST /small HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n40\r\n"
         "0123456789012345678901234567890123456789012345678901234567890123",
         0},
    };
    struct app app;
    app_start(&app, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct answer a = client_ask(&app, cases[i].text);
        ck_assert_msg(a.status == cases[i].status, "case %zu: %d", i, a.status);
        answer_free(&a);
    }
    app_stop(&app);
}
END_TEST

START_TEST(test_large)
{
    struct app app;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    for (int i = 0; i < 2; i++) {
        client_send(fd, "GET /big?bytes=3000000 HTTP/1.1\r\n" H "\r\n");
        struct answer a = client_read(fd, false);
        ck_assert_int_eq(a.status, 200);
        ck_assert_uint_eq(a.body_len, 3000000);
        for (size_t k = 0; k < a.body_len; k++) {
            ck_assert_int_eq(a.body[k], 'a' + (int)(k % 26));
        }
        answer_free(&a);
    }
    client_send(fd, "HEAD /big?bytes=3000000 HTTP/1.1\r\n" H "\r\n");
    struct answer a = client_read(fd, true);
    ck_assert(answer_has(&a, "Content-Length: 3000000"));
    answer_free(&a);
    client_send(fd, "GET /echo HTTP/1.1\r\n" H "\r\n"); /* nothing of a body came behind HEAD */
    a = client_read(fd, false);
    ck_assert_int_eq(a.status, 200);
    answer_free(&a);
    app_stop(&app);
}
END_TEST

/* Byte by byte and in one piece are the same request. */
START_TEST(test_dripped)
{
    static const char text[] =
        "POST /echo?a=1 HTTP/1.1\r\n" H "X-Test: t\r\nContent-Length: 3\r\n\r\nabc";
    struct app app;
    app_start(&app, NULL);
    gh_autoclose int fd = client_dial(&app);
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        client_send_n(fd, text + i, 1);
    }
    struct answer a = client_read(fd, false);
    ck_assert_int_eq(a.status, 200);
    ck_assert_ptr_nonnull(strstr(a.body, "\"body\":\"abc\""));
    answer_free(&a);
    app_stop(&app);
}
END_TEST

/* No traceparent, or a bad one: a fresh id each time. */
START_TEST(test_fresh_trace)
{
    struct app app;
    app_start(&app, NULL);
    struct answer a = client_ask(&app, "GET /echo HTTP/1.1\r\n" H "traceparent: x\r\n\r\n");
    struct answer b = client_ask(&app, "GET /echo HTTP/1.1\r\n" H "\r\n");
    const char *one = strstr(a.body, "\"trace\":\"");
    const char *two = strstr(b.body, "\"trace\":\"");
    ck_assert_ptr_nonnull(one);
    ck_assert_ptr_nonnull(two);
    ck_assert_uint_eq(strspn(one + 9, "0123456789abcdef"), 32);
    ck_assert_int_ne(strncmp(one, two, 41), 0);
    answer_free(&a);
    answer_free(&b);
    app_stop(&app);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_reply");
    TCase *tc = tcase_create("reply");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_headers);
    tcase_add_test(tc, test_given);
    tcase_add_test(tc, test_problem);
    tcase_add_test(tc, test_early);
    tcase_add_test(tc, test_early_without_body);
    tcase_add_test(tc, test_continue);
    tcase_add_test(tc, test_refused_while_sending);
    tcase_add_test(tc, test_limits);
    tcase_add_test(tc, test_large);
    tcase_add_test(tc, test_dripped);
    tcase_add_test(tc, test_fresh_trace);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
