#include "auth/watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"

#define SETTLE_MS 20 /* changes that come together are read together */
#define RETRY_MS 200
#define RETRIES 3 /* so that a revocation is seen within a second all the same */
#define FAR_MS (10 * 365 * 86400000LL) /* armed when nothing expires, to hear of a set clock */

enum { WAKE_STOP = 0, WAKE_FOLDER, WAKE_TIMER, N_WAKES };

struct watch {
    struct watch_calls calls;
    int fds[N_WAKES];
    pthread_t thread;
    bool is_running;
};

static void free_watchp(struct watch **watch)
{
    watch_free(*watch);
}

enum gh_code watch_new(const char *path, const struct watch_calls *calls, struct watch **ret,
                       struct gh_err *err)
{
    gh_auto(free_watchp) struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    watch->calls = *calls;
    watch->fds[WAKE_STOP] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watch->fds[WAKE_FOLDER] = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    watch->fds[WAKE_TIMER] = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    for (int i = 0; i < N_WAKES; i++) {
        if (watch->fds[i] < 0) {
            return gh_fail(err, GH_IO, "The tokens folder cannot be watched: %s.", strerror(errno));
        }
    }
    uint32_t mask = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE |
                    IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW;
    if (inotify_add_watch(watch->fds[WAKE_FOLDER], path, mask) < 0) {
        return gh_fail(err, GH_IO, "The tokens folder cannot be watched: %s.", strerror(errno));
    }
    *ret = gh_steal(&watch);
    return GH_OK;
}

struct change {
    bool is_record;
    bool is_lost;
};

static void note_event(const struct inotify_event *event, struct change *change)
{
    size_t len = event->len > 0 ? strlen(event->name) : 0;
    bool is_record =
        len > 5 && event->name[0] != '.' && strcmp(event->name + len - 5, ".json") == 0;
    if (is_record || (event->mask & IN_Q_OVERFLOW) != 0) {
        change->is_record = true;
    }
    if ((event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) != 0) {
        change->is_lost = true;
    }
}

/* Take all events that wait. */
static void drain(const struct watch *watch, struct change *change)
{
    char data[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    for (;;) {
        ssize_t n = read(watch->fds[WAKE_FOLDER], data, sizeof data);
        if (n <= 0) {
            return;
        }
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event = (const struct inotify_event *)(data + at);
            note_event(event, change);
            at += (ssize_t)sizeof *event + event->len;
        }
    }
}

/* False when it is time to stop. */
static bool pause_ms(const struct watch *watch, int ms)
{
    struct pollfd stop = {.fd = watch->fds[WAKE_STOP], .events = POLLIN};
    return poll(&stop, 1, ms) <= 0;
}

static bool reload(const struct watch *watch)
{
    for (int i = 0; i < RETRIES; i++) {
        if (watch->calls.reload(watch->calls.cookie, false)) {
            return true;
        }
        if (!pause_ms(watch, RETRY_MS)) {
            return false;
        }
    }
    return watch->calls.reload(watch->calls.cookie, true);
}

/* False when it is time to stop. */
static bool follow_folder(const struct watch *watch)
{
    struct change change = {false, false};
    drain(watch, &change);
    if (!change.is_record && !change.is_lost) {
        return true;
    }
    if (!pause_ms(watch, SETTLE_MS)) {
        return false;
    }
    drain(watch, &change);
    if (change.is_lost) {
        watch->calls.lost(watch->calls.cookie);
        return true;
    }
    return reload(watch);
}

/* Absolute and on the wall clock: it fires after a suspend, and (by CANCEL_ON_SET) when the clock
 * is set, forwards or back. */
static void arm(const struct watch *watch, int64_t next_ms)
{
    int64_t at_ms = next_ms >= 0 ? next_ms : gh_clock_wall_ms() + FAR_MS;
    struct itimerspec spec = {
        .it_value = {.tv_sec = at_ms / 1000, .tv_nsec = (at_ms % 1000) * 1000000 + 1}};
    /* ECANCELED (the clock was just set) arms it all the same. */
    (void)timerfd_settime(watch->fds[WAKE_TIMER], TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET,
                          &spec, NULL);
}

static void *run(void *cookie)
{
    const struct watch *watch = cookie;
    struct pollfd wakes[N_WAKES];
    for (int i = 0; i < N_WAKES; i++) {
        wakes[i] = (struct pollfd){.fd = watch->fds[i], .events = POLLIN};
    }
    for (;;) {
        arm(watch, watch->calls.look(watch->calls.cookie));
        int n = poll(wakes, N_WAKES, -1);
        if (n < 0 && errno != EINTR) {
            return NULL; /* cannot be: the set is fixed and small */
        }
        if (n > 0 && wakes[WAKE_STOP].revents != 0) {
            return NULL;
        }
        uint64_t fired = 0;
        (void)!read(watch->fds[WAKE_TIMER], &fired, sizeof fired);
        if (n > 0 && wakes[WAKE_FOLDER].revents != 0 && !follow_folder(watch)) {
            return NULL;
        }
    }
}

enum gh_code watch_run(struct watch *watch, struct gh_err *err)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&watch->thread, NULL, run, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        return gh_fail(err, GH_NOMEM, "No thread can be started: %s.", strerror(rc));
    }
    watch->is_running = true;
    return GH_OK;
}

void watch_free(struct watch *watch)
{
    if (watch == NULL) {
        return;
    }
    if (watch->is_running) {
        uint64_t one = 1;
        (void)!write(watch->fds[WAKE_STOP], &one, sizeof one);
        pthread_join(watch->thread, NULL);
    }
    for (int i = 0; i < N_WAKES; i++) {
        if (watch->fds[i] > 0) {
            close(watch->fds[i]);
        }
    }
    free(watch);
}
