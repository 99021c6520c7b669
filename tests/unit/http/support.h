/* support: a server on a free loopback port with a few routes, and a client that writes raw bytes.
 *
 *   ANY  /echo            200, JSON of what was understood
 *   GET  /status?code=N   N with an empty body
 *   GET  /big?bytes=N     200, N bytes
 *   GET  /problem         422 with a pointer
 *   POST /hold            held until app_answer
 *   GET  /stream          a stream, kept in app.streams
 *   ANY  /small           body limit of 10 bytes
 * A request with "X-Deny: 1" is refused by the head callback with 401.
 */
#ifndef GH_TESTS_HTTP_SUPPORT_H
#define GH_TESTS_HTTP_SUPPORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "http/http.h"

#define APP_MAX 512

struct app {
    struct http_server *server;
    int port;
    char unix_path[128]; /* "" unless started with it */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct http_exchange *held[APP_MAX]; /* NULL: answered */
    size_t n_held;                       /* ever held */
    size_t n_gone;                       /* calls of the gone callback */
    bool answer_gone;                    /* the gone callback answers */
    struct http_stream *streams[APP_MAX];
    size_t n_streams;
    size_t n_streams_gone;
    size_t n_fini; /* user slots freed */
    size_t n_calls;
};

/* Start with the defaults of `options` (may be NULL) on a free port. Aborts the test on failure. */
void app_start(struct app *app, const struct http_options *options);
void app_stop(struct app *app);

/* Wait until *counter (a field of `app`) is at least `n`; the test fails after 20 s. */
void app_wait(struct app *app, const size_t *counter, size_t n);

/* The value of a counter now. */
size_t app_read(struct app *app, const size_t *counter);

/* Answer the i-th held exchange with its number. */
void app_answer(struct app *app, size_t i);

/* ---- the client ---- */

struct answer {
    int status; /* 0: closed before a whole answer */
    char *data; /* all bytes, NUL-terminated; owned (answer_free) */
    size_t len;
    const char *body; /* inside data */
    size_t body_len;
};

int client_dial(const struct app *app); /* TCP */
int client_dial_unix(const char *path);
void client_send(int fd, const char *text);
void client_send_n(int fd, const void *data, size_t len);

/* Read one answer: head and as many bytes as Content-Length says (or until the end). The test fails
 * when nothing comes for 20 s. */
struct answer client_read(int fd, bool is_head_request);

/* True when the server closed; reads away what comes before. Fails after 20 s. */
bool client_closed(int fd);

/* Send `text` on a fresh connection and read one answer. */
struct answer client_ask(const struct app *app, const char *text);
void answer_free(struct answer *answer);

/* True when the head of `answer` has this line. */
bool answer_has(const struct answer *answer, const char *line);

#endif
