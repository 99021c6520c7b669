/* hold_server: a small server on the http module, to measure what held requests cost.
 *
 *   hold_server [PORT] [SECONDS] [THREADS]     prints the address, ends by itself
 *
 *   POST /g      parse the body, read two fields, answer 200 bytes of JSON
 *   POST /hold   answered by the next /wake, or one of them by /wake1
 *   POST /wake   answer all held; prints how many and the microseconds it took
 *   GET  /stat   how many are held, CPU time used
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/json.h"
#include "http/http.h"

struct waiting {
    struct http_exchange *x;
    struct waiting *next;
    struct waiting **link;
};

struct app {
    struct http_server *server;
    pthread_mutex_t lock;
    struct waiting *first;
    size_t n;
    atomic_size_t n_left;
};

static long now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static long cpu_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000L + u.ru_utime.tv_usec +
           u.ru_stime.tv_usec;
}

static void say(struct http_exchange *x, const char *text)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    gh_buf_puts(&body, text);
    http_reply(x, 200, &body, NULL, 0);
}

/* The work of the floor program, so that only the HTTP layer differs. */
static void gate(struct http_exchange *x)
{
    struct gh_err err = {0};
    size_t len = 0;
    const char *session = "";
    const char *tool = "";
    gh_auto(gh_json_freep) struct json_t *root = NULL;
    const char *text = http_body(x, &len);
    if (gh_json_parse(text, len, &root, &err) != GH_OK ||
        gh_json_str(root, "", "session", GH_OPTIONAL, 64, &session, &err) != GH_OK ||
        gh_json_str(root, "", "tool", GH_OPTIONAL, 64, &tool, &err) != GH_OK) {
        http_problem(x, &err, NULL);
        return;
    }
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "decision", "allow");
    gh_jw_str(&w, "session", session);
    gh_jw_str(&w, "tool", tool);
    gh_jw_str(&w, "reason", "matched a rule: reading inside the working directory needs no one");
    gh_jw_int(&w, "rule", 17);
    gh_jw_end(&w);
    http_reply(x, 200, &body, NULL, 0);
}

static void drop(struct app *app, struct waiting *one)
{
    *one->link = one->next;
    if (one->next != NULL) {
        one->next->link = one->link;
    }
    app->n--;
}

static void left(struct http_exchange *x, void *cookie)
{
    struct app *app = cookie;
    pthread_mutex_lock(&app->lock);
    struct waiting *one = http_user(x);
    bool mine = one->link != NULL;
    if (mine) {
        drop(app, one);
        one->link = NULL;
    }
    pthread_mutex_unlock(&app->lock);
    atomic_fetch_add(&app->n_left, 1);
    if (mine) {
        say(x, "{\"left\":true}\n");
    }
}

static void hold(struct app *app, struct http_exchange *x)
{
    struct waiting *one = calloc(1, sizeof(*one));
    if (one == NULL) {
        abort();
    }
    one->x = x;
    http_set_user(x, one, free);
    http_body_drop(x);
    pthread_mutex_lock(&app->lock);
    http_watch(x, left, app); /* the callback may come at once; it waits for the lock */
    one->next = app->first;
    one->link = &app->first;
    if (one->next != NULL) {
        one->next->link = &one->next;
    }
    app->first = one;
    app->n++;
    pthread_mutex_unlock(&app->lock);
}

static void wake(struct app *app, struct http_exchange *x, size_t max)
{
    size_t n = 0;
    long start = now_us();
    http_cork(app->server);
    while (n < max) {
        pthread_mutex_lock(&app->lock);
        struct waiting *one = app->first;
        if (one != NULL) {
            drop(app, one);
            one->link = NULL;
        }
        pthread_mutex_unlock(&app->lock);
        if (one == NULL) {
            break;
        }
        say(one->x, "{\"woken\":true}\n");
        n++;
    }
    http_uncork(app->server);
    char text[96];
    snprintf(text, sizeof(text), "%zu %ld\n", n, now_us() - start);
    say(x, text);
}

static void handle(struct http_exchange *x, void *cookie)
{
    struct app *app = cookie;
    const char *path = http_path(x);
    if (strcmp(path, "/g") == 0) {
        gate(x);
    } else if (strcmp(path, "/hold") == 0) {
        hold(app, x);
    } else if (strcmp(path, "/wake") == 0) {
        wake(app, x, SIZE_MAX);
    } else if (strcmp(path, "/wake1") == 0) {
        wake(app, x, 1);
    } else {
        char text[160];
        snprintf(text, sizeof(text), "held %zu left %zu cpu_us %ld\n", app->n,
                 atomic_load(&app->n_left), cpu_us());
        say(x, text);
    }
}

static void answer_all(struct app *app)
{
    while (app->first != NULL) {
        struct waiting *one = app->first;
        drop(app, one);
        one->link = NULL;
        say(one->x, "{\"stopping\":true}\n");
    }
}

int main(int argc, char **argv)
{
    struct app app = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct http_options options = {.tcp_host = "127.0.0.1",
                                   .tcp_port = (uint16_t)(argc > 1 ? atoi(argv[1]) : 0),
                                   .n_threads = (unsigned)(argc > 3 ? atoi(argv[3]) : 0),
                                   .handler = handle,
                                   .cookie = &app};
    struct gh_err err = {0};
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigaddset(&end, SIGINT);
    sigprocmask(SIG_BLOCK, &end, NULL);
    if (!gh_id_init() || http_server_start(&options, &app.server, &err) != GH_OK) {
        fprintf(stderr, "hold_server: %s\n", err.detail);
        return 1;
    }
    printf("%s\n", http_server_address(app.server));
    fflush(stdout);
    struct timespec life = {argc > 2 ? atol(argv[2]) : 300, 0};
    sigtimedwait(&end, NULL, &life);
    http_server_quiesce(app.server);
    answer_all(&app);
    http_server_free(app.server, 2000);
    return 0;
}
