#include "http/inner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"

#define LINGER_MS 2000
#define LINGER_BYTES (16u << 20)
#define GEN_MASK 0xffffffu

/* What an event is about, in the top byte of its data; then 24 bits of generation, 32 of
 * descriptor. */
enum event_kind { EV_WAKE = 0, EV_LEFT, EV_LINGER };

static uint64_t event_data(enum event_kind kind, uint32_t gen, int fd)
{
    return (uint64_t)kind << 56 | (uint64_t)(gen & GEN_MASK) << 32 | (uint32_t)fd;
}

static bool listen_to(struct http_watch *w, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event ev = {.events = events, .data.u64 = data};
    return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static void wake(struct http_watch *w)
{
    uint64_t one = 1;
    ssize_t n = write(w->wake_fd, &one, sizeof(one));
    (void)n; /* a full counter wakes as well */
}

/* With the lock: true when the thread sleeps past `at_ms`. */
static bool sleeps_past(struct http_watch *w, int64_t at_ms)
{
    if (w->next_ms >= 0 && w->next_ms <= at_ms) {
        return false;
    }
    w->next_ms = at_ms;
    return true;
}

/* ---- deadlines ---- */

/* Deadlines are only stored by the library's threads, not moved in the heap: a look after the
 * shortest time there is finds each of them before it has passed. */
static int64_t next_look(const struct http_server *server, int64_t due, int64_t now)
{
    int64_t request = server->options.request_timeout_ms;
    int64_t idle = server->options.idle_timeout_ms;
    int64_t soon = now + (request < idle ? request : idle);
    return due < soon ? due : soon;
}

static bool put(struct http_watch *w, struct http_conn *conn, int64_t at_ms)
{
    if (!gh_heap_set(&w->heap, &conn->due, at_ms)) {
        shutdown(conn->fd, SHUT_RDWR); /* a connection without a deadline is not kept */
        return false;
    }
    atomic_store(&conn->queued, true);
    return true;
}

static void take(struct http_watch *w, struct http_conn *conn)
{
    gh_heap_remove(&w->heap, &conn->due);
    atomic_store(&conn->queued, false);
}

void http_watch_due(struct http_conn *conn, int64_t now)
{
    struct http_watch *w = &conn->server->watch;
    int64_t at_ms = next_look(conn->server, atomic_load(&conn->due_ms), now);
    pthread_mutex_lock(&w->lock);
    bool sleeping = put(w, conn, at_ms) && sleeps_past(w, at_ms);
    pthread_mutex_unlock(&w->lock);
    if (sleeping) {
        wake(w);
    }
}

void http_watch_forget(struct http_conn *conn)
{
    struct http_watch *w = &conn->server->watch;
    pthread_mutex_lock(&w->lock);
    take(w, conn);
    pthread_mutex_unlock(&w->lock);
}

/* With the lock. A busy connection leaves the heap, so that held ones cost nothing. */
static void look_at(struct http_server *server, struct http_conn *conn, int64_t now)
{
    take(&server->watch, conn);
    int phase = atomic_load(&conn->phase);
    int64_t due = atomic_load(&conn->due_ms);
    if (phase == CONN_BUSY) {
        return;
    }
    if (due <= now) {
        shutdown(conn->fd, SHUT_RDWR);
        return;
    }
    put(&server->watch, conn, next_look(server, due, now));
}

bool http_watch_make_room(struct http_server *server)
{
    struct http_watch *w = &server->watch;
    bool made = false;
    pthread_mutex_lock(&w->lock);
    struct gh_due *due = gh_heap_first(&w->heap);
    while (due != NULL && !made) {
        struct http_conn *conn = due->owner;
        take(w, conn);
        if (atomic_load(&conn->phase) != CONN_BUSY) {
            shutdown(conn->fd, SHUT_RDWR);
            made = true;
        }
        due = gh_heap_first(&w->heap);
    }
    pthread_mutex_unlock(&w->lock);
    return made;
}

/* ---- clients that leave ---- */

/* With the lock. */
static bool grow_slots(struct http_watch *w, size_t need)
{
    if (need <= w->n_slots) {
        return true;
    }
    size_t n = w->n_slots == 0 ? 256 : w->n_slots;
    while (n < need) {
        n *= 2;
    }
    struct watch_slot *slots = realloc(w->slots, n * sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    memset(slots + w->n_slots, 0, (n - w->n_slots) * sizeof(*slots));
    w->slots = slots;
    w->n_slots = n;
    return true;
}

void http_watch_add(struct http_exchange *x)
{
    struct http_watch *w = &x->conn->server->watch;
    int fd = x->conn->fd;
    pthread_mutex_lock(&w->lock);
    bool wanted = !x->watched && (x->stream != NULL || atomic_load(&x->state) != EX_READY);
    bool failed = wanted && !grow_slots(w, (size_t)fd + 1);
    if (wanted && !failed) {
        struct watch_slot *slot = &w->slots[fd];
        slot->gen = (slot->gen + 1) & GEN_MASK;
        slot->x = x;
        x->watched = true;
        failed = !listen_to(w, fd, EPOLLRDHUP | EPOLLONESHOT, event_data(EV_LEFT, slot->gen, fd));
        if (failed) {
            slot->x = NULL;
            x->watched = false;
        }
    }
    pthread_mutex_unlock(&w->lock);
    if (failed) {
        gh_log(GH_LOG_WARN, "http.unwatched", "error", strerror(errno), NULL);
    }
}

/* With the lock. */
static void drop_slot(struct http_watch *w, struct http_exchange *x)
{
    w->slots[x->conn->fd].x = NULL;
    x->watched = false;
    epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, x->conn->fd, NULL);
}

void http_watch_remove(struct http_exchange *x)
{
    if (x->gone == NULL && x->stream == NULL) {
        return; /* never added */
    }
    struct http_watch *w = &x->conn->server->watch;
    pthread_mutex_lock(&w->lock);
    if (x->watched) {
        drop_slot(w, x);
    }
    pthread_mutex_unlock(&w->lock);
}

static void handle_left(struct http_watch *w, int fd, uint32_t gen)
{
    pthread_mutex_lock(&w->lock);
    struct http_exchange *x =
        (size_t)fd < w->n_slots && w->slots[fd].gen == gen ? w->slots[fd].x : NULL;
    struct http_stream *stream = NULL;
    if (x != NULL) {
        atomic_fetch_add(&x->refs, 1); /* the reply may come meanwhile */
        stream = x->stream;
        drop_slot(w, x);
    }
    pthread_mutex_unlock(&w->lock);
    if (x == NULL) {
        return;
    }
    if (stream != NULL) {
        http_stream_left(stream);
    } else if (!atomic_load(&x->claimed)) {
        x->gone(x, x->gone_cookie);
    }
    http_exchange_unref(x);
}

/* ---- connections that are drained before their close ---- */

void http_watch_linger(struct http_server *server, int fd)
{
    struct http_watch *w = &server->watch;
    int64_t until = gh_clock_boot_ms() + LINGER_MS;
    bool sleeping = false;
    shutdown(fd, SHUT_WR);
    pthread_mutex_lock(&w->lock);
    int copy =
        w->running && w->n_lingering < HTTP_MAX_LINGERING ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy >= 0 && listen_to(w, copy, EPOLLIN, event_data(EV_LINGER, 0, copy))) {
        w->lingering[w->n_lingering++] = (struct drain){copy, 0, until};
        sleeping = sleeps_past(w, until);
    } else if (copy >= 0) {
        close(copy);
    }
    pthread_mutex_unlock(&w->lock);
    if (sleeping) {
        wake(w);
    }
}

/* With the lock. */
static void end_linger(struct http_watch *w, size_t i)
{
    close(w->lingering[i].fd);
    w->lingering[i] = w->lingering[--w->n_lingering];
}

static void handle_linger(struct http_watch *w, int fd)
{
    char scratch[16384];
    pthread_mutex_lock(&w->lock);
    size_t i = 0;
    while (i < w->n_lingering && w->lingering[i].fd != fd) {
        i++;
    }
    if (i < w->n_lingering) {
        ssize_t n = recv(fd, scratch, sizeof(scratch), MSG_DONTWAIT);
        w->lingering[i].taken += n > 0 ? (size_t)n : 0;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) ||
            w->lingering[i].taken > LINGER_BYTES) {
            end_linger(w, i);
        }
    }
    pthread_mutex_unlock(&w->lock);
}

/* With the lock: close what lingers too long; the next time to look, or `next`. */
static int64_t reap_lingering(struct http_watch *w, int64_t now, int64_t next)
{
    for (size_t i = w->n_lingering; i-- > 0;) {
        int64_t until = w->lingering[i].until_ms;
        if (until <= now) {
            end_linger(w, i);
        } else if (next < 0 || until < next) {
            next = until;
        }
    }
    return next;
}

/* ---- the thread ---- */

/* Do what is due. Returns the milliseconds to sleep, -1 for ever, -2 to end. */
static int tend(struct http_server *server)
{
    struct http_watch *w = &server->watch;
    int64_t now = gh_clock_boot_ms();
    pthread_mutex_lock(&w->lock);
    struct gh_due *due = gh_heap_first(&w->heap);
    while (due != NULL && due->at_ms <= now) {
        look_at(server, due->owner, now);
        due = gh_heap_first(&w->heap);
    }
    w->next_ms = reap_lingering(w, now, due != NULL ? due->at_ms : -1);
    int64_t sleep = w->next_ms < 0 ? -1 : w->next_ms - now;
    int ret = w->stop ? -2 : (int)(sleep > 3600000 ? 3600000 : sleep);
    pthread_mutex_unlock(&w->lock);
    return ret;
}

static void handle(struct http_watch *w, uint64_t data)
{
    int fd = (int)(uint32_t)data;
    uint64_t seen = 0;
    switch ((enum event_kind)(data >> 56)) {
    case EV_WAKE:
        (void)!read(w->wake_fd, &seen, sizeof(seen));
        break;
    case EV_LEFT:
        handle_left(w, fd, (uint32_t)(data >> 32) & GEN_MASK);
        break;
    case EV_LINGER:
        handle_linger(w, fd);
        break;
    }
}

static void *run(void *cookie)
{
    struct http_server *server = cookie;
    struct epoll_event events[64];
    int sleep_ms = 0;
    while ((sleep_ms = tend(server)) != -2) {
        int n = epoll_wait(server->watch.epoll_fd, events, 64, sleep_ms);
        for (int i = 0; i < n; i++) {
            handle(&server->watch, events[i].data.u64);
        }
    }
    return NULL;
}

enum gh_code http_watch_start(struct http_server *server, struct gh_err *err)
{
    struct http_watch *w = &server->watch;
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->epoll_fd < 0 || w->wake_fd < 0 ||
        !listen_to(w, w->wake_fd, EPOLLIN, event_data(EV_WAKE, 0, w->wake_fd))) {
        return gh_fail(err, GH_IO, "no epoll: %s", strerror(errno));
    }
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    w->running = pthread_create(&w->thread, NULL, run, server) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return w->running ? GH_OK : gh_fail(err, GH_NOMEM, "no thread");
}

void http_watch_stop(struct http_server *server)
{
    struct http_watch *w = &server->watch;
    pthread_mutex_lock(&w->lock);
    bool running = w->running;
    w->running = false;
    w->stop = true;
    pthread_mutex_unlock(&w->lock);
    if (running) {
        wake(w);
        pthread_join(w->thread, NULL);
    }
}

void http_watch_fini(struct http_server *server)
{
    struct http_watch *w = &server->watch;
    while (w->n_lingering > 0) {
        end_linger(w, 0);
    }
    gh_heap_fini(&w->heap);
    free(w->slots);
    gh_auto_close(&w->epoll_fd);
    gh_auto_close(&w->wake_fd);
    pthread_mutex_destroy(&w->lock);
}
