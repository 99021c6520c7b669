#include "cli/client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"

#define SILENCE_S 60 /* streams have a heartbeat every 15 s */
#define POLL_MS 1000

struct cli_client {
    const struct cli_service *service;
    CURLM *multi;
    CURL *easy;
    int socket_fd; /* of the connection in use, for the owner check; curl owns it */
};

/* What one request needs while it runs. */
struct exchange {
    const struct cli_request *request;
    struct cli_client *client;
    struct gh_buf body;
    struct curl_slist *headers;
    bool is_ended;   /* on_data had enough */
    bool is_too_big; /* the answer passed the bound */
    time_t heard_s;  /* when the last of the answer came */
};

enum gh_code cli_client_new(const struct cli_service *service, struct cli_client **ret,
                            struct gh_err *err)
{
    struct cli_client *client = calloc(1, sizeof *client);
    bool is_ready = client != NULL && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    if (is_ready) {
        client->service = service;
        client->multi = curl_multi_init();
        client->easy = curl_easy_init();
    }
    if (!is_ready || client->multi == NULL || client->easy == NULL) {
        cli_client_free(client);
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    *ret = client;
    return GH_OK;
}

void cli_client_free(struct cli_client *client)
{
    if (client != NULL) {
        curl_easy_cleanup(client->easy);
        curl_multi_cleanup(client->multi);
        free(client);
    }
}

void cli_answer_fini(struct cli_answer *answer)
{
    free(answer->body);
    gh_json_free(answer->json);
    *answer = (struct cli_answer){0};
}

/* Stands still while the machine sleeps, as the service's heartbeat does. */
static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static size_t take_data(char *data, size_t size, size_t n, void *cookie)
{
    struct exchange *exchange = cookie;
    const struct cli_request *request = exchange->request;
    size_t len = size * n;
    long status = 0;
    exchange->heard_s = now_s();
    curl_easy_getinfo(exchange->client->easy, CURLINFO_RESPONSE_CODE, &status);
    if (request->on_data != NULL && status >= 200 && status < 300) {
        exchange->is_ended = !request->on_data(data, len, request->cookie);
        return exchange->is_ended ? 0 : len;
    }
    exchange->is_too_big = exchange->body.len + len > CLI_MAX_ANSWER_BYTES;
    if (exchange->is_too_big) {
        return 0;
    }
    gh_buf_put(&exchange->body, data, len);
    return exchange->body.failed ? 0 : len;
}

static curl_socket_t open_socket(void *cookie, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct cli_client *client = cookie;
    (void)purpose;
    client->socket_fd =
        socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    return client->socket_fd < 0 ? CURL_SOCKET_BAD : client->socket_fd;
}

/* Runs when the connection stands and before the token is sent: whoever made the socket file must
 * be us or root. */
static int check_peer(void *cookie, char *ip, char *local_ip, int port, int local_port)
{
    const struct cli_client *client = cookie;
    struct ucred peer;
    socklen_t len = sizeof peer;
    (void)ip;
    (void)local_ip;
    (void)port;
    (void)local_port;
    if (client->service->socket[0] == '\0') {
        return CURL_PREREQFUNC_OK;
    }
    if (getsockopt(client->socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 ||
        (peer.uid != geteuid() && peer.uid != 0)) {
        return CURL_PREREQFUNC_ABORT;
    }
    return CURL_PREREQFUNC_OK;
}

/* "Name: value" to the list; false when there is no memory. */
static bool add_header(struct exchange *exchange, const char *fmt, const char *value)
{
    if (value == NULL) {
        return true;
    }
    gh_auto(gh_buf_fini) struct gh_buf line = GH_BUF_INIT;
    gh_buf_puts(&line, fmt);
    gh_buf_puts(&line, value);
    if (strcmp(fmt, "If-Match: \"") == 0) {
        gh_buf_putc(&line, '"');
    }
    /* A line break would start a header of somebody else's. */
    if (line.failed || strpbrk(line.data, "\r\n") != NULL) {
        return false;
    }
    struct curl_slist *longer = curl_slist_append(exchange->headers, line.data);
    explicit_bzero(line.data, line.len);
    exchange->headers = longer != NULL ? longer : exchange->headers;
    return longer != NULL;
}

static bool add_headers(struct exchange *exchange)
{
    const struct cli_request *request = exchange->request;
    return add_header(exchange, "Authorization: Bearer ", exchange->client->service->secret) &&
           add_header(exchange,
                      "Accept: ", request->accept != NULL ? request->accept : "application/json") &&
           add_header(exchange,
                      "Content-Type: ", request->body != NULL ? "application/json" : NULL) &&
           add_header(exchange, "If-Match: \"", request->if_match) &&
           add_header(exchange, "Idempotency-Key: ", request->idempotency_key) &&
           add_header(exchange, "Last-Event-ID: ", request->last_event_id) &&
           add_header(exchange, "Expect:", "");
}

/* What every request has in common. */
static void set_base(struct cli_client *client)
{
    CURL *easy = client->easy;
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "gatehouse-cli/" GH_VERSION);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, client);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, check_peer);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, client);
    if (client->service->socket[0] != '\0') {
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, client->service->socket);
    }
}

static bool set_request(struct exchange *exchange, const char *url)
{
    CURL *easy = exchange->client->easy;
    const struct cli_request *request = exchange->request;
    set_base(exchange->client);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_data);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
    if (request->body != NULL) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(request->body));
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
    }
    if (request->timeout_ms >= 0) {
        long ms = request->timeout_ms > 0 ? (long)request->timeout_ms : CLI_TIMEOUT_MS;
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, ms);
    }
    return curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK;
}

/* A stream is given up when nothing at all comes: a few bytes of heartbeat are below every speed
 * that curl's own limit knows. */
static bool is_silent(const struct exchange *exchange)
{
    return exchange->request->timeout_ms < 0 && now_s() - exchange->heard_s > SILENCE_S;
}

/* Run the prepared transfer to its end, or until the interrupt descriptor is readable (then false).
 */
static bool run_transfer(struct exchange *exchange, CURLcode *ret)
{
    struct cli_client *client = exchange->client;
    struct curl_waitfd extra = {.fd = exchange->request->interrupt_fd, .events = CURL_WAIT_POLLIN};
    unsigned n_extra = extra.fd > 0 ? 1 : 0;
    int n_running = 1;
    CURLMcode code = CURLM_OK;
    *ret = CURLE_FAILED_INIT;
    while (code == CURLM_OK) {
        code = curl_multi_perform(client->multi, &n_running);
        if (n_running == 0) {
            break;
        }
        code = code == CURLM_OK ? curl_multi_poll(client->multi, &extra, n_extra, POLL_MS, NULL)
                                : code;
        if (extra.revents != 0) {
            return false;
        }
        if (is_silent(exchange)) {
            *ret = CURLE_OPERATION_TIMEDOUT;
            return true;
        }
    }
    int n_left = 0;
    const CURLMsg *done = curl_multi_info_read(client->multi, &n_left);
    if (done != NULL && done->msg == CURLMSG_DONE) {
        *ret = done->data.result;
    }
    return true;
}

/* Turn curl's verdict into ours. */
static enum gh_code judge(const struct exchange *exchange, CURLcode code, struct cli_answer *ret,
                          struct gh_err *err)
{
    static const struct {
        CURLcode code;
        enum cli_failure failure;
        const char *text;
    } kinds[] = {
        {CURLE_COULDNT_CONNECT, CLI_F_NO_SERVICE, "Nobody listens there"},
        {CURLE_COULDNT_RESOLVE_HOST, CLI_F_NO_SERVICE, "The host is not known"},
        {CURLE_OPERATION_TIMEDOUT, CLI_F_LOST, "No answer in time"},
        {CURLE_ABORTED_BY_CALLBACK, CLI_F_LOCAL,
         "The socket belongs to another user; nothing was sent"},
        {CURLE_OUT_OF_MEMORY, CLI_F_LOCAL, "There is not enough memory"},
        {CURLE_URL_MALFORMAT, CLI_F_LOCAL, "The address is not one"},
    };
    if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && exchange->is_ended)) {
        return GH_OK;
    }
    if (exchange->is_too_big) {
        ret->failure = CLI_F_LOST;
        return gh_fail(err, GH_IO, "The answer is larger than %u MiB.", CLI_MAX_ANSWER_BYTES >> 20);
    }
    const char *text = "The connection broke off";
    ret->failure = CLI_F_LOST;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].code == code) {
            ret->failure = kinds[i].failure;
            text = kinds[i].text;
        }
    }
    return gh_fail(err, GH_IO, "%s (%s).", text, curl_easy_strerror(code));
}

static enum gh_code exchange_run(struct exchange *exchange, struct cli_answer *ret,
                                 struct gh_err *err)
{
    struct cli_client *client = exchange->client;
    CURLcode code = CURLE_OK;
    if (curl_multi_add_handle(client->multi, client->easy) != CURLM_OK) {
        ret->failure = CLI_F_LOCAL;
        return gh_fail(err, GH_IO, "The request cannot be started.");
    }
    bool is_done = run_transfer(exchange, &code);
    curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &ret->status);
    curl_multi_remove_handle(client->multi, client->easy);
    if (!is_done) {
        ret->failure = CLI_F_INTERRUPTED;
        return gh_fail(err, GH_IO, "Interrupted.");
    }
    GH_TRY(judge(exchange, code, ret, err));
    ret->len = exchange->body.len;
    ret->body = exchange->body.len > 0 ? gh_buf_take(&exchange->body) : strdup("");
    if (ret->body == NULL) {
        ret->failure = CLI_F_LOCAL;
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    struct gh_err ignored;
    if (ret->len > 0 && gh_json_parse(ret->body, ret->len, &ret->json, &ignored) != GH_OK) {
        ret->json = NULL;
    }
    return GH_OK;
}

enum gh_code cli_client_send(struct cli_client *client, const struct cli_request *request,
                             struct cli_answer *ret, struct gh_err *err)
{
    struct exchange exchange = {
        .request = request, .client = client, .body = GH_BUF_INIT, .heard_s = now_s()};
    gh_auto(gh_buf_fini) struct gh_buf url = GH_BUF_INIT;
    *ret = (struct cli_answer){0};
    gh_buf_printf(&url, "%s%s", client->service->url, request->path);
    enum gh_code code = GH_NOMEM;
    if (!url.failed && add_headers(&exchange) && set_request(&exchange, url.data)) {
        code = exchange_run(&exchange, ret, err);
    } else {
        ret->failure = CLI_F_LOCAL;
        code = gh_fail(err, GH_IO, "The request cannot be made from these values.");
    }
    curl_easy_reset(client->easy);
    curl_slist_free_all(exchange.headers);
    gh_buf_fini(&exchange.body);
    return code;
}

static void put_escaped(struct gh_buf *out, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    for (; *text != '\0'; text++) {
        if (strchr(plain, *text) != NULL) {
            gh_buf_putc(out, *text);
        } else {
            gh_buf_printf(out, "%%%02X", (unsigned char)*text);
        }
    }
}

void cli_query(struct gh_buf *path, const char *name, const char *value)
{
    if (value != NULL) {
        gh_buf_putc(path, strchr(gh_buf_str(path), '?') == NULL ? '?' : '&');
        gh_buf_puts(path, name);
        gh_buf_putc(path, '=');
        put_escaped(path, value);
    }
}

void cli_segment(struct gh_buf *path, const char *text)
{
    put_escaped(path, text);
}
