#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/routes.h"
#include "base/auto.h"
#include "base/clock.h"

#define MAX_EXPORTS 2
#define EXPORT_BUFFER ((size_t)1 << 20)
#define PAGE_MAX 1000
#define STALL_MS 30000

/* A read of the log, on the pool: it waits for the disk. */
struct audit_work {
    struct api *api;
    struct http_exchange *x; /* alive until the reply: query strings are borrowed from it */
    struct store_audit_filter filter;
    struct gh_buf body;
    struct gh_jw w;
    uint64_t last;
    size_t n;
    bool has_more;              /* rows behind the page */
    struct http_stream *stream; /* an export */
    bool is_broken;
    char *texts[8]; /* copies of the filter's texts, for an export; owned */
};

static const char *query(struct http_exchange *x, const char *name)
{
    const char *text = http_query(x, name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static enum gh_code parse_time(struct http_exchange *x, const char *name, int64_t *ret_ms,
                               struct gh_err *err)
{
    const char *text = query(x, name);
    if (text == NULL) {
        return GH_OK;
    }
    *ret_ms = gh_clock_parse(text);
    if (*ret_ms < 0) {
        return gh_fail(err, GH_INVALID, "%s is a time such as 2026-01-31T12:00:00Z.", name);
    }
    return GH_OK;
}

static enum gh_code parse_number(struct http_exchange *x, const char *name, const char *prefix,
                                 uint64_t max, uint64_t *ret, struct gh_err *err)
{
    const char *text = query(x, name);
    if (text == NULL) {
        return GH_OK;
    }
    size_t n = strlen(prefix);
    char *end = NULL;
    bool is_ours = strncmp(text, prefix, n) == 0 && text[n] >= '0' && text[n] <= '9';
    *ret = is_ours ? strtoull(text + n, &end, 10) : 0;
    if (!is_ours || *end != '\0' || *ret > max) {
        return gh_fail(err, n > 0 ? GH_BAD_CURSOR : GH_INVALID, "%s is not acceptable.", name);
    }
    return GH_OK;
}

static enum gh_code parse_filter(struct http_exchange *x, struct store_audit_filter *ret,
                                 struct gh_err *err)
{
    uint64_t limit = 100;
    *ret = (struct store_audit_filter){
        .session = query(x, "session"),
        .action = query(x, "action"),
        .decision = query(x, "decision"),
        .by = query(x, "by"),
        .tool = query(x, "tool"),
        .ref = query(x, "ref"),
        .kind = query(x, "kind"),
        .text = query(x, "text"),
        .newest_first = true,
    };
    const char *order = query(x, "order");
    ret->newest_first = order == NULL || strcmp(order, "oldest") != 0;
    GH_TRY(parse_time(x, "since", &ret->since_ms, err));
    GH_TRY(parse_time(x, "until", &ret->until_ms, err));
    GH_TRY(parse_number(x, "cursor", "s", INT64_MAX, &ret->after, err));
    GH_TRY(parse_number(x, "limit", "", PAGE_MAX, &limit, err));
    if (limit == 0) {
        return gh_fail(err, GH_INVALID, "limit is a whole number from 1 to %d.", PAGE_MAX);
    }
    ret->limit = (size_t)limit;
    return GH_OK;
}

static void queue(struct api_request *request, gh_job_fn *fn)
{
    struct gh_err err;
    struct audit_work *work = calloc(1, sizeof *work);
    if (work == NULL) {
        gh_fail(&err, GH_NOMEM, "There is not enough memory.");
        http_problem(request->x, &err, NULL);
        return;
    }
    *work = (struct audit_work){.api = request->api, .x = request->x};
    if (parse_filter(request->x, &work->filter, &err) != GH_OK ||
        gh_pool_run(request->api->pool, fn, work, &err) != GH_OK) {
        http_problem(request->x, &err, NULL);
        free(work);
    }
}

/* ---- list ---- */

static bool add_row(const struct store_audit_row *row, void *cookie)
{
    struct audit_work *work = cookie;
    if (work->n == work->filter.limit - 1) {
        work->has_more = true; /* the row that was asked for beyond the page */
        return false;
    }
    gh_auto(gh_buf_fini) struct gh_buf item = GH_BUF_INIT;
    store_audit_json(row, &item);
    gh_jw_raw(&work->w, NULL, gh_buf_str(&item));
    work->last = row->seq;
    work->n++;
    return true;
}

static void list(void *cookie)
{
    struct audit_work *work = cookie;
    struct gh_err err;
    char cursor[32];
    work->filter.limit++;
    work->w = (struct gh_jw){&work->body, false};
    gh_jw_obj(&work->w, NULL);
    gh_jw_arr(&work->w, "items");
    enum gh_code code = store_audit_list(work->api->store, &work->filter, add_row, work, &err);
    gh_jw_arr_end(&work->w);
    snprintf(cursor, sizeof cursor, "s%" PRIu64, work->last);
    gh_jw_str(&work->w, "next_cursor", work->has_more ? cursor : NULL);
    gh_jw_end(&work->w);
    if (code != GH_OK) {
        http_problem(work->x, &err, NULL);
    } else {
        http_reply(work->x, 200, &work->body, NULL, 0);
    }
    gh_buf_fini(&work->body);
    free(work);
}

void api_audit(struct api_request *request)
{
    queue(request, list);
}

/* ---- export ---- */

/* A slow reader slows the export, not the service, and not for ever: it has a thread of the pool
 * for itself. False when it read nothing for too long, or the service stops. */
static bool wait_for_room(const struct audit_work *work)
{
    const struct timespec nap = {0, 2000000};
    for (int i = 0; i < STALL_MS / 2; i++) {
        if (http_stream_backlog(work->stream) <= EXPORT_BUFFER / 2) {
            return true;
        }
        if (atomic_load(&work->api->is_stopping)) {
            return false;
        }
        nanosleep(&nap, NULL);
    }
    return false;
}

static bool send_row(const struct store_audit_row *row, void *cookie)
{
    struct audit_work *work = cookie;
    gh_auto(gh_buf_fini) struct gh_buf line = GH_BUF_INIT;
    store_audit_json(row, &line);
    gh_buf_putc(&line, '\n');
    work->is_broken =
        line.failed || !wait_for_room(work) || !http_stream_send(work->stream, line.data, line.len);
    return !work->is_broken;
}

/* The exchange ends where the stream begins, and its query strings with it. */
static bool keep_texts(struct audit_work *work)
{
    struct store_audit_filter *filter = &work->filter;
    const char **fields[] = {&filter->session, &filter->action, &filter->decision, &filter->by,
                             &filter->tool,    &filter->ref,    &filter->kind,     &filter->text};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (*fields[i] == NULL) {
            continue;
        }
        work->texts[i] = strdup(*fields[i]);
        if (work->texts[i] == NULL) {
            return false;
        }
        *fields[i] = work->texts[i];
    }
    return true;
}

static void export_free(struct audit_work *work)
{
    for (size_t i = 0; i < sizeof work->texts / sizeof work->texts[0]; i++) {
        free(work->texts[i]);
    }
    free(work);
}

static void export(void *cookie)
{
    struct audit_work *work = cookie;
    struct api *api = work->api;
    struct gh_err err;
    work->filter.limit = 0;
    work->filter.newest_first = false;
    if (http_stream_open(work->x, "application/x-ndjson", EXPORT_BUFFER * 4, &work->stream, &err) ==
        GH_OK) {
        (void)!store_audit_list(api->store, &work->filter, send_row, work, &err);
        http_stream_close(work->stream);
    }
    atomic_fetch_sub(&api->n_exports, 1);
    export_free(work);
}

void api_audit_export(struct api_request *request)
{
    struct gh_err err;
    if (atomic_fetch_add(&request->api->n_exports, 1) >= MAX_EXPORTS) {
        atomic_fetch_sub(&request->api->n_exports, 1);
        gh_fail(&err, GH_TOO_MANY, "%d exports are running; try again when one is done.",
                MAX_EXPORTS);
        http_problem(request->x, &err, NULL);
        return;
    }
    struct audit_work *work = calloc(1, sizeof *work);
    enum gh_code code = GH_NOMEM;
    if (work == NULL) {
        gh_fail(&err, GH_NOMEM, "There is not enough memory.");
    } else {
        *work = (struct audit_work){.api = request->api, .x = request->x};
        code = parse_filter(request->x, &work->filter, &err);
        if (code == GH_OK && !keep_texts(work)) {
            code = gh_fail(&err, GH_NOMEM, "There is not enough memory.");
        }
        code = code == GH_OK ? gh_pool_run(request->api->pool, export, work, &err) : code;
    }
    if (code != GH_OK) {
        atomic_fetch_sub(&request->api->n_exports, 1);
        http_problem(request->x, &err, NULL);
        if (work != NULL) {
            export_free(work);
        }
    }
}

/* ---- verify ---- */

static void verify(void *cookie)
{
    struct audit_work *work = cookie;
    struct store_verify result;
    struct gh_err err;
    if (store_verify(work->api->store, &result, &err) != GH_OK) {
        http_problem(work->x, &err, NULL);
        free(work);
        return;
    }
    struct gh_jw w = {&work->body, false};
    gh_jw_obj(&w, NULL);
    gh_jw_bool(&w, "ok", result.is_ok);
    gh_jw_int(&w, "checked", (int64_t)result.n_checked);
    gh_jw_int(&w, "first_seq", (int64_t)result.first_seq);
    gh_jw_int(&w, "last_seq", (int64_t)result.last_seq);
    if (result.bad_seq > 0) {
        gh_jw_int(&w, "bad_seq", (int64_t)result.bad_seq);
    } else {
        gh_jw_null(&w, "bad_seq");
    }
    gh_jw_str(&w, "reason", result.reason[0] != '\0' ? result.reason : NULL);
    gh_jw_str(&w, "last_hash", result.last_hash);
    gh_jw_end(&w);
    http_reply(work->x, 200, &work->body, NULL, 0);
    gh_buf_fini(&work->body);
    free(work);
}

void api_audit_verify(struct api_request *request)
{
    queue(request, verify);
}
