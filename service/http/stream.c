#include "http/inner.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 8192 /* what the library asks for at a time */
#define KEEP_BYTES 16384 /* a larger empty queue is given back */

/* Freed when the owner has closed it and its exchange is freed. */
struct http_stream {
    pthread_mutex_t lock;
    struct http_server *server;
    struct MHD_Connection *mhd; /* valid until `finished` */
    struct gh_buf queue;
    size_t at; /* bytes of the queue that were handed over */
    size_t max;
    int refs;
    bool suspended; /* the library waits for bytes */
    bool closed;    /* nothing more comes */
    bool left;      /* the client is gone */
    bool finished;  /* the library is done with the request */
    void (*on_gone)(struct http_stream *stream, void *cookie);
    void *cookie;
    struct http_stream *next; /* server->streams.lock */
    struct http_stream **link;
};

/* With the lock: take the right to resume; the caller does it after unlocking. A resume that was
 * taken counts as a caller at once, so that the server waits for it. */
static bool take_resume(struct http_stream *stream)
{
    bool was = stream->suspended;
    stream->suspended = false;
    if (was) {
        atomic_fetch_add(&stream->server->n_callers, 1);
    }
    return was;
}

static void resume(struct http_server *server, struct MHD_Connection *mhd)
{
    MHD_resume_connection(mhd);
    atomic_fetch_sub(&server->n_callers, 1);
}

/* The library asks for bytes. */
static ssize_t read_queue(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct http_stream *stream = cls;
    ssize_t ret = 0;
    (void)pos;
    pthread_mutex_lock(&stream->lock);
    size_t waiting = stream->queue.len - stream->at;
    if (stream->left) {
        ret = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (waiting > 0) {
        size_t n = waiting < max ? waiting : max;
        memcpy(buf, stream->queue.data + stream->at, n);
        stream->at += n;
        ret = (ssize_t)n;
    } else if (stream->closed) {
        ret = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        stream->suspended = true;
        MHD_suspend_connection(stream->mhd);
    }
    if (stream->at > 0 && stream->at == stream->queue.len) {
        stream->queue.len = 0;
        stream->at = 0;
        if (stream->queue.cap > KEEP_BYTES) {
            gh_buf_fini(&stream->queue);
        }
    }
    pthread_mutex_unlock(&stream->lock);
    return ret;
}

/* Put into the server's list; false when no more streams are taken. */
static bool enlist(struct http_stream *stream)
{
    struct http_streams *all = &stream->server->streams;
    pthread_mutex_lock(&all->lock);
    bool taken = !all->ended;
    if (taken) {
        stream->next = all->first;
        stream->link = &all->first;
        if (all->first != NULL) {
            all->first->link = &stream->next;
        }
        all->first = stream;
    }
    pthread_mutex_unlock(&all->lock);
    return taken;
}

static void delist(struct http_stream *stream)
{
    struct http_streams *all = &stream->server->streams;
    pthread_mutex_lock(&all->lock);
    if (stream->link != NULL) {
        *stream->link = stream->next;
        if (stream->next != NULL) {
            stream->next->link = stream->link;
        }
        stream->link = NULL;
    }
    pthread_mutex_unlock(&all->lock);
}

static struct http_stream *new_stream(struct http_exchange *x, size_t max_buffered)
{
    struct http_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return NULL;
    }
    pthread_mutex_init(&stream->lock, NULL);
    stream->server = x->conn->server;
    stream->mhd = x->mhd;
    stream->max = max_buffered;
    stream->refs = 2; /* the owner and the exchange */
    return stream;
}

static void free_stream(struct http_stream *stream)
{
    pthread_mutex_destroy(&stream->lock);
    gh_buf_fini(&stream->queue);
    free(stream);
}

void http_stream_unref(struct http_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    bool last = --stream->refs == 0;
    pthread_mutex_unlock(&stream->lock);
    if (last) {
        free_stream(stream);
    }
}

enum gh_code http_stream_open(struct http_exchange *x, const char *content_type,
                              size_t max_buffered, struct http_stream **ret, struct gh_err *err)
{
    struct http_header type = {"Content-Type", content_type};
    struct http_stream *stream = new_stream(x, max_buffered);
    struct MHD_Response *response =
        stream != NULL ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES,
                                                           read_queue, stream, NULL)
                       : NULL;
    if (response == NULL || atomic_exchange(&x->claimed, true)) {
        if (response != NULL) {
            MHD_destroy_response(response);
        }
        if (stream != NULL) {
            free_stream(stream);
        }
        gh_fail(err, GH_NOMEM, "no memory for a stream");
        struct gh_err own = {.code = GH_NOMEM};
        http_problem(x, &own, NULL);
        return GH_NOMEM;
    }
    http_reply_headers(response, 200, &type, 1);
    stream->closed = !enlist(stream);
    http_watch_remove(x); /* as a held exchange; now as a stream */
    x->stream = stream;
    http_watch_add(x);
    *ret = stream;
    http_reply_publish(x, 200, response);
    return GH_OK;
}

bool http_stream_send(struct http_stream *stream, const void *data, size_t len)
{
    pthread_mutex_lock(&stream->lock);
    size_t waiting = stream->queue.len - stream->at;
    bool taken = !stream->left && !stream->finished && !stream->closed && waiting <= stream->max &&
                 len <= stream->max - waiting;
    if (taken && stream->at > 0) {
        memmove(stream->queue.data, stream->queue.data + stream->at, waiting);
        stream->queue.len = waiting;
        stream->at = 0;
    }
    if (taken) {
        gh_buf_put(&stream->queue, data, len);
        taken = !stream->queue.failed;
    }
    struct http_server *server = stream->server;
    struct MHD_Connection *mhd = stream->mhd;
    bool wake = taken && len > 0 && take_resume(stream);
    pthread_mutex_unlock(&stream->lock);
    if (wake) {
        resume(server, mhd);
    }
    return taken;
}

size_t http_stream_backlog(const struct http_stream *stream)
{
    struct http_stream *own = (struct http_stream *)stream; /* for its lock */
    pthread_mutex_lock(&own->lock);
    size_t waiting = own->queue.len - own->at;
    pthread_mutex_unlock(&own->lock);
    return waiting;
}

bool http_stream_on_gone(struct http_stream *stream,
                         void (*fn)(struct http_stream *stream, void *cookie), void *cookie)
{
    pthread_mutex_lock(&stream->lock);
    bool there = !stream->left && !stream->finished;
    stream->on_gone = there ? fn : NULL;
    stream->cookie = cookie;
    pthread_mutex_unlock(&stream->lock);
    return there;
}

/* With the lock: no more bytes; true when the caller must resume. */
static bool finish_input(struct http_stream *stream)
{
    stream->closed = true;
    return take_resume(stream);
}

void http_stream_close(struct http_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    struct http_server *server = stream->server;
    struct MHD_Connection *mhd = stream->mhd;
    stream->on_gone = NULL;
    bool wake = finish_input(stream);
    bool last = --stream->refs == 0;
    pthread_mutex_unlock(&stream->lock);
    if (wake) {
        resume(server, mhd);
    }
    if (last) {
        free_stream(stream);
    }
}

/* Tell the owner, once. The caller holds a reference, so the stream outlives the call. */
static void tell_gone(struct http_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    void (*fn)(struct http_stream *, void *) = stream->on_gone;
    void *cookie = stream->cookie;
    stream->on_gone = NULL;
    pthread_mutex_unlock(&stream->lock);
    if (fn != NULL) {
        fn(stream, cookie);
    }
}

void http_stream_left(struct http_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->left = true;
    struct http_server *server = stream->server;
    struct MHD_Connection *mhd = stream->mhd;
    bool wake = take_resume(stream);
    pthread_mutex_unlock(&stream->lock);
    if (wake) {
        resume(server, mhd);
    }
    tell_gone(stream);
}

void http_stream_finished(struct http_stream *stream)
{
    delist(stream);
    pthread_mutex_lock(&stream->lock);
    stream->finished = true;
    gh_buf_fini(&stream->queue);
    stream->at = 0;
    pthread_mutex_unlock(&stream->lock);
    tell_gone(stream);
}

void http_stream_end_all(struct http_server *server)
{
    struct http_streams *all = &server->streams;
    pthread_mutex_lock(&all->lock);
    all->ended = true;
    for (struct http_stream *stream = all->first; stream != NULL; stream = stream->next) {
        pthread_mutex_lock(&stream->lock);
        bool wake = finish_input(stream);
        pthread_mutex_unlock(&stream->lock);
        if (wake) {
            resume(server, stream->mhd);
        }
    }
    pthread_mutex_unlock(&all->lock);
}
