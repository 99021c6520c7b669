#include "support.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"

#define PATIENCE_MS 20000

static void count(struct app *app, size_t *counter)
{
    pthread_mutex_lock(&app->lock);
    (*counter)++;
    pthread_cond_broadcast(&app->changed);
    pthread_mutex_unlock(&app->lock);
}

static void left(struct http_exchange *x, void *cookie)
{
    struct app *app = cookie;
    pthread_mutex_lock(&app->lock);
    size_t i = *(size_t *)http_user(x);
    bool answer = app->answer_gone && app->held[i] != NULL;
    if (answer) {
        app->held[i] = NULL;
    }
    pthread_mutex_unlock(&app->lock);
    if (answer) {
        http_reply(x, 200, NULL, NULL, 0);
    }
    count(app, &app->n_gone);
}

struct slot {
    size_t i; /* first: what the user slot is read as */
    struct app *app;
};

static void free_slot(void *user)
{
    struct slot *slot = user;
    count(slot->app, &slot->app->n_fini);
    free(slot);
}

static void hold(struct app *app, struct http_exchange *x)
{
    struct slot *slot = malloc(sizeof(*slot));
    ck_assert_ptr_nonnull(slot);
    slot->app = app;
    http_set_user(x, slot, free_slot);
    pthread_mutex_lock(&app->lock);
    ck_assert_uint_lt(app->n_held, APP_MAX);
    slot->i = app->n_held;
    app->held[app->n_held++] = x;
    http_watch(x, left, app); /* the callback may come at once; it waits for the lock */
    pthread_cond_broadcast(&app->changed);
    pthread_mutex_unlock(&app->lock);
}

static void stream_left(struct http_stream *stream, void *cookie)
{
    struct app *app = cookie;
    (void)stream;
    count(app, &app->n_streams_gone);
}

static void open_stream(struct app *app, struct http_exchange *x)
{
    struct gh_err err = {0};
    struct http_stream *stream = NULL;
    ck_assert_int_eq(http_stream_open(x, "text/event-stream", 65536, &stream, &err), GH_OK);
    if (!http_stream_on_gone(stream, stream_left, app)) {
        count(app, &app->n_streams_gone);
    }
    pthread_mutex_lock(&app->lock);
    ck_assert_uint_lt(app->n_streams, APP_MAX);
    app->streams[app->n_streams++] = stream;
    pthread_cond_broadcast(&app->changed);
    pthread_mutex_unlock(&app->lock);
}

static void add_param(const char *name, const char *value, void *cookie)
{
    struct gh_jw *w = cookie;
    gh_jw_str(w, NULL, name);
    gh_jw_str(w, NULL, value);
}

static void echo(struct app *app, struct http_exchange *x)
{
    (void)app;
    size_t len = 0;
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    const char *sent = http_body(x, &len);
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "method", http_method_name(x));
    gh_jw_int(&w, "method_id", http_method(x));
    gh_jw_str(&w, "path", http_path(x));
    gh_jw_arr(&w, "query");
    http_query_each(x, add_param, &w);
    gh_jw_arr_end(&w);
    gh_jw_str(&w, "a", http_query(x, "a"));
    gh_jw_str(&w, "x_test", http_header(x, "x-test"));
    gh_jw_str(&w, "trace", http_trace_id(x));
    gh_jw_str(&w, "peer", http_peer(x)->text);
    gh_jw_str(&w, "peer_key", http_peer(x)->key);
    gh_jw_bool(&w, "unix", http_peer(x)->is_unix);
    gh_jw_int(&w, "uid", (int64_t)http_peer(x)->uid);
    gh_jw_int(&w, "body_len", (int64_t)len);
    gh_jw_strn(&w, "body", sent, len < 64 ? len : 64);
    gh_jw_end(&w);
    http_reply(x, 200, &body, NULL, 0);
}

static void reply_status(struct app *app, struct http_exchange *x)
{
    (void)app;
    const struct http_header headers[] = {{"Cache-Control", "max-age=60"}, {"ETag", "\"e\""}};
    http_reply(x, atoi(http_query(x, "code")), NULL, headers, 2);
}

static void reply_big(struct app *app, struct http_exchange *x)
{
    (void)app;
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    long n = atol(http_query(x, "bytes"));
    for (long i = 0; i < n; i++) {
        gh_buf_putc(&body, (char)('a' + i % 26));
    }
    http_reply(x, 200, &body, NULL, 0);
}

static void reply_problem(struct app *app, struct http_exchange *x)
{
    (void)app;
    struct gh_err err = {0};
    gh_fail_at(&err, GH_INVALID, "/mode", "the mode \"%s\" is not known", "<b>\x01");
    http_problem(x, &err, "\"decision\":\"deny\"");
}

static void handle(struct http_exchange *x, void *cookie)
{
    static const struct {
        const char *path;
        void (*fn)(struct app *app, struct http_exchange *x);
    } routes[] = {{"/status", reply_status}, {"/big", reply_big},      {"/problem", reply_problem},
                  {"/hold", hold},           {"/stream", open_stream}, {"/echo", echo}};
    struct app *app = cookie;
    count(app, &app->n_calls);
    for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++) {
        if (strcmp(http_path(x), routes[i].path) == 0) {
            routes[i].fn(app, x);
            return;
        }
    }
    echo(app, x);
}

static enum gh_code judge(struct http_exchange *x, void *cookie, size_t *ret_body_limit,
                          struct gh_err *err)
{
    (void)cookie;
    if (http_header(x, "X-Deny") != NULL) {
        return gh_fail(err, GH_UNAUTHORIZED, "no token");
    }
    if (strcmp(http_path(x), "/small") == 0) {
        *ret_body_limit = 10;
    }
    return GH_OK;
}

void app_start(struct app *app, const struct http_options *given)
{
    struct gh_err err = {0};
    struct http_options options = {0};
    if (given != NULL) {
        options = *given;
    }
    memset(app, 0, sizeof(*app));
    pthread_mutex_init(&app->lock, NULL);
    pthread_cond_init(&app->changed, NULL);
    ck_assert(gh_id_init());
    if (options.tcp_host == NULL) {
        options.tcp_host = "127.0.0.1";
    }
    options.head = judge;
    options.handler = handle;
    options.cookie = app;
    enum gh_code code = http_server_start(&options, &app->server, &err);
    ck_assert_msg(code == GH_OK, "%s", err.detail);
    const char *address = http_server_address(app->server);
    app->port = atoi(strrchr(address, ':') + 1);
    if (options.unix_path != NULL) {
        snprintf(app->unix_path, sizeof(app->unix_path), "%s", options.unix_path);
    }
}

size_t app_read(struct app *app, const size_t *counter)
{
    pthread_mutex_lock(&app->lock);
    size_t n = *counter;
    pthread_mutex_unlock(&app->lock);
    return n;
}

void app_answer(struct app *app, size_t i)
{
    pthread_mutex_lock(&app->lock);
    struct http_exchange *x = app->held[i];
    app->held[i] = NULL;
    pthread_mutex_unlock(&app->lock);
    if (x == NULL) {
        return;
    }
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    gh_buf_printf(&body, "{\"answered\":%zu}", i);
    http_reply(x, 200, &body, NULL, 0);
}

void app_stop(struct app *app)
{
    http_server_quiesce(app->server);
    for (size_t i = 0; i < app_read(app, &app->n_held); i++) {
        app_answer(app, i);
    }
    http_server_free(app->server, 5000);
    for (size_t i = 0; i < app->n_streams; i++) {
        if (app->streams[i] != NULL) {
            http_stream_close(app->streams[i]);
        }
    }
    pthread_cond_destroy(&app->changed);
    pthread_mutex_destroy(&app->lock);
}

void app_wait(struct app *app, const size_t *counter, size_t n)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_MS / 1000;
    int gave_up = 0;
    pthread_mutex_lock(&app->lock);
    while (*counter < n && gave_up == 0) {
        gave_up = pthread_cond_timedwait(&app->changed, &app->lock, &end);
    }
    size_t got = *counter;
    pthread_mutex_unlock(&app->lock);
    ck_assert_uint_ge(got, n);
}

/* ---- the client ---- */

int client_dial(const struct app *app)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)app->port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

int client_dial_unix(const char *path)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    ck_assert_int_ge(fd, 0);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

void client_send_n(int fd, const void *data, size_t len)
{
    size_t sent = 0;
    while (sent < len) {
        ssize_t n = send(fd, (const char *)data + sent, len - sent, MSG_NOSIGNAL);
        if (n < 0) {
            return; /* the server refused and closed: the answer tells */
        }
        sent += (size_t)n;
    }
}

void client_send(int fd, const char *text)
{
    client_send_n(fd, text, strlen(text));
}

/* At most `max` bytes; 0 at the end. */
static size_t receive(int fd, char *to, size_t max)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ck_assert_msg(poll(&p, 1, PATIENCE_MS) == 1, "nothing came for 20 s");
    ssize_t n = recv(fd, to, max, 0);
    return n > 0 ? (size_t)n : 0;
}

/* Bytes of the body that the head `data` announces; SIZE_MAX: until the end. */
static size_t announced(const char *data, const char *head_end, bool is_head)
{
    const char *at = strcasestr(data, "\r\nContent-Length:");
    int status = atoi(data + 9);
    if (is_head || status == 204 || status == 304 || status < 200) {
        return 0;
    }
    return at != NULL && at < head_end ? (size_t)atol(at + 17) : SIZE_MAX;
}

struct answer client_read(int fd, bool is_head_request)
{
    struct gh_buf buf = GH_BUF_INIT;
    struct answer answer = {0};
    char part[16384];
    size_t want = SIZE_MAX;
    size_t head = 0;
    size_t max = 1; /* byte by byte until the head is there, so that a next answer stays unread */
    while (head == 0 || buf.len < want) {
        if (head > 0) {
            max = want - buf.len < sizeof(part) ? want - buf.len : sizeof(part);
        }
        size_t n = receive(fd, part, max);
        if (n == 0) {
            break;
        }
        gh_buf_put(&buf, part, n);
        const char *end = head == 0 ? strstr(buf.data, "\r\n\r\n") : NULL;
        if (end != NULL) {
            head = (size_t)(end - buf.data) + 4;
            size_t length = announced(buf.data, end, is_head_request);
            want = length == SIZE_MAX ? SIZE_MAX : head + length;
        }
    }
    answer.len = buf.len;
    answer.data = gh_buf_take(&buf);
    if (head > 0 && (want == SIZE_MAX || answer.len == want)) {
        answer.status = atoi(answer.data + 9);
        answer.body = answer.data + head;
        answer.body_len = answer.len - head;
    }
    return answer;
}

bool client_closed(int fd)
{
    char part[4096];
    while (receive(fd, part, sizeof(part)) > 0) {
    }
    return true;
}

struct answer client_ask(const struct app *app, const char *text)
{
    gh_autoclose int fd = client_dial(app);
    client_send(fd, text);
    return client_read(fd, strncmp(text, "HEAD ", 5) == 0);
}

void answer_free(struct answer *answer)
{
    free(answer->data);
    *answer = (struct answer){0};
}

bool answer_has(const struct answer *answer, const char *line)
{
    const char *at = answer->data != NULL ? strcasestr(answer->data, line) : NULL;
    return at != NULL && at < answer->body && at[-1] == '\n' && at[strlen(line)] == '\r';
}
