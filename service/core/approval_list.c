#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

#define MAX_LIMIT 1000
#define MAX_PAGE_BYTES ((size_t)2 << 20) /* a page ends behind the item that passes it */
#define MAX_READS 50

struct page {
    const char *states[8]; /* NULL-ended; empty: any */
    char words[128];
    char session[GH_ID];
    char after[GH_ID];
    int64_t limit;
    bool is_pending_only;
};

static enum gh_code parse_states(struct http_exchange *x, struct page *ret, struct gh_err *err)
{
    const char *text = http_query(x, "state");
    if (text == NULL) {
        return GH_OK;
    }
    snprintf(ret->words, sizeof ret->words, "%s", text);
    size_t n = 0;
    char *rest = NULL;
    for (char *word = strtok_r(ret->words, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        bool is_known = false;
        for (enum ask_state s = ASK_PENDING; s <= ASK_CANCELLED; s++) {
            is_known = is_known || strcmp(ask_state_name(s), word) == 0;
        }
        if (!is_known || n == 6) {
            return gh_fail(
                err, GH_INVALID,
                "state is a list of pending, allowed, allowed_always, denied, expired, cancelled.");
        }
        ret->states[n++] = word;
    }
    ret->is_pending_only = n == 1 && strcmp(ret->states[0], "pending") == 0;
    return GH_OK;
}

/* ?limit (1 to 1000, default 100) and an id as cursor. */
static enum gh_code parse_page(struct http_exchange *x, struct page *ret, struct gh_err *err)
{
    *ret = (struct page){.limit = 100};
    GH_TRY(parse_states(x, ret, err));
    GH_TRY(query_limit(x, &ret->limit, err));
    const char *session = http_query(x, "session");
    const char *cursor = http_query(x, "cursor");
    snprintf(ret->session, sizeof ret->session, "%s", session != NULL ? session : "");
    if (cursor != NULL && !gh_id_valid(cursor, "apr")) {
        return gh_fail(err, GH_BAD_CURSOR, "The cursor is not one this list gave out.");
    }
    snprintf(ret->after, sizeof ret->after, "%s", cursor != NULL ? cursor : "");
    return GH_OK;
}

enum gh_code query_limit(struct http_exchange *x, int64_t *ret, struct gh_err *err)
{
    const char *text = http_query(x, "limit");
    if (text == NULL) {
        return GH_OK;
    }
    char *end = NULL;
    long limit = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || limit < 1 || limit > MAX_LIMIT) {
        return gh_fail(err, GH_INVALID, "limit is a whole number from 1 to %d.", MAX_LIMIT);
    }
    *ret = limit;
    return GH_OK;
}

static bool is_listed(const struct ask *ask, const struct page *page, const struct auth_token *who)
{
    return (page->session[0] == '\0' || strcmp(page->session, ask->session_id) == 0) &&
           (who->role != AUTH_AGENT || strcmp(who->name, ask->owner) == 0) &&
           strcmp(ask->id, page->after) > 0;
}

/* Pending ones, oldest first, from memory. */
static void pending_json_locked(struct core *core, const struct page *page,
                                const struct auth_token *who, struct gh_buf *out)
{
    struct gh_jw w = {out, false};
    const char *last = NULL;
    bool has_more = false;
    int64_t n = 0;
    gh_jw_obj(&w, NULL);
    gh_jw_arr(&w, "items");
    for (const struct ask *ask = core->pending_first; ask != NULL; ask = ask->next) {
        if (!is_listed(ask, page, who)) {
            continue;
        }
        if (n++ == page->limit || (n > 1 && out->len > MAX_PAGE_BYTES)) {
            has_more = true;
            break;
        }
        gh_auto(gh_buf_fini) struct gh_buf item = GH_BUF_INIT;
        ask_json_locked(core, ask, NULL, &item);
        gh_jw_raw(&w, NULL, gh_buf_str(&item));
        last = ask->id;
    }
    gh_jw_arr_end(&w);
    gh_jw_str(&w, "next_cursor", has_more ? last : NULL);
    gh_jw_end(&w);
}

static uint64_t list_revision(struct core *core, const char *session_id)
{
    const struct session *session =
        session_id[0] != '\0' ? gh_map_find(&core->sessions, session_id) : NULL;
    return session != NULL ? session->revision : core->revision;
}

static void reply_pending_locked(struct core *core, const struct page *page,
                                 struct http_exchange *x, const struct auth_token *who)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    char etag[64];
    pending_json_locked(core, page, who, &body);
    snprintf(etag, sizeof etag, "\"%s-%" PRIu64 "\"", core->run_id,
             list_revision(core, page->session));
    const struct http_header header = {"ETag", etag};
    if (body.failed) {
        reply_json(x, 200, &body);
        return;
    }
    http_reply(x, 200, &body, &header, 1);
}

static bool seen_list(const struct core *core, struct http_exchange *x, uint64_t *ret)
{
    const char *text = http_header(x, "If-None-Match");
    size_t n = strlen(core->run_id);
    char end = '\0';
    return text != NULL && text[0] == '"' && strncmp(text + 1, core->run_id, n) == 0 &&
           sscanf(text + 1 + n, "-%" SCNu64 "%c", ret, &end) == 2 && end == '"';
}

static void reply_list_unchanged(struct http_exchange *x)
{
    const struct http_header header = {"ETag", http_header(x, "If-None-Match")};
    struct gh_buf none = GH_BUF_INIT;
    http_reply(x, 304, &none, &header, 1);
}

void approvals_reply_locked(struct core *core, struct wait *wait)
{
    struct page page;
    struct gh_err err;
    struct auth_token who = wait->who;
    bool is_unchanged = wait->has_seen && wait->seen == list_revision(core, wait->session);
    struct http_exchange *x = wait_take_locked(core, wait);
    if (is_unchanged) {
        reply_list_unchanged(x);
    } else if (parse_page(x, &page, &err) != GH_OK) {
        http_problem(x, &err, NULL);
    } else {
        reply_pending_locked(core, &page, x, &who);
    }
}

static void list_pending_locked(struct core *core, const struct page *page, struct http_exchange *x,
                                const struct auth_token *who, int64_t wait_ms)
{
    struct wait wait = {.x = x, .kind = WAIT_LIST, .who = *who};
    snprintf(wait.session, sizeof wait.session, "%s", page->session);
    wait.has_seen = seen_list(core, x, &wait.seen);
    bool is_unchanged = wait.has_seen && wait.seen == list_revision(core, page->session);
    if (is_unchanged && wait_ms > 0 && wait_hold_locked(core, &wait, wait_ms, &core->list_waits)) {
        return;
    }
    if (is_unchanged) {
        reply_list_unchanged(x);
        return;
    }
    reply_pending_locked(core, page, x, who);
}

/* ---- everything else comes from the store ---- */

struct list_work {
    struct core *core;
    struct http_exchange *x;
    struct auth_token who;
    struct page page;
    struct gh_jw w;
    struct gh_buf body;
    int64_t n;        /* items on the page */
    size_t n_rows;    /* rows of this read */
    char at[GH_ID];   /* last row that was read */
    char last[GH_ID]; /* last item */
    bool has_more;    /* an item behind the page */
};

/* What is still in memory is fresher than its document (time left, caller). */
static bool live_json(struct core *core, const char *id, struct gh_buf *out)
{
    pthread_mutex_lock(&core->lock);
    const struct ask *ask = gh_map_find(&core->by_approval, id);
    if (ask != NULL) {
        ask_json_locked(core, ask, ask->state != ASK_PENDING ? &ask->settlement : NULL, out);
    }
    pthread_mutex_unlock(&core->lock);
    return ask != NULL;
}

static void add_row(const struct store_row *row, void *cookie)
{
    struct list_work *work = cookie;
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    struct gh_err err;
    snprintf(work->at, sizeof work->at, "%s", row->id);
    work->n_rows++;
    if (work->has_more || gh_json_parse(row->body, strlen(row->body), &body, &err) != GH_OK) {
        return;
    }
    const struct json_t *approval = gh_json_get(body, "approval");
    const char *owner = gh_json_text(gh_json_get(approval, "asked_by"));
    if (work->who.role == AUTH_AGENT && (owner == NULL || strcmp(owner, work->who.name) != 0)) {
        return;
    }
    if (work->n == work->page.limit) {
        work->has_more = true;
        return;
    }
    gh_auto(gh_buf_fini) struct gh_buf item = GH_BUF_INIT;
    work->n++;
    memcpy(work->last, work->at, sizeof work->last);
    if (!live_json(work->core, row->id, &item)) {
        gh_json_canonical(approval, &item);
    }
    gh_jw_raw(&work->w, NULL, gh_buf_str(&item));
}

/* Read until the page and one item behind it are there: an agent's own lie among those of others.
 * After MAX_READS the page is what was found, and its cursor goes on from there. */
static enum gh_code read_page(struct list_work *work, struct gh_err *err)
{
    const struct page *page = &work->page;
    struct store_filter filter = {
        .session = page->session[0] != '\0' ? page->session : NULL,
        .states = page->states[0] != NULL ? page->states : NULL,
        .newest_first = true,
        .limit = (size_t)page->limit + 1,
    };
    memcpy(work->at, page->after, sizeof work->at);
    for (int i = 0; i < MAX_READS && !work->has_more; i++) {
        char after[GH_ID];
        memcpy(after, work->at, sizeof after);
        filter.after = after[0] != '\0' ? after : NULL;
        work->n_rows = 0;
        GH_TRY(store_list(work->core->options.store, STORE_APPROVAL, &filter, add_row, work, err));
        if (work->n_rows < filter.limit) {
            return GH_OK;
        }
    }
    if (!work->has_more) {
        work->has_more = true;
        memcpy(work->last, work->at, sizeof work->last);
    }
    return GH_OK;
}

static void list_stored(void *cookie)
{
    struct list_work *work = cookie;
    struct gh_err err;
    work->w = (struct gh_jw){&work->body, false};
    gh_jw_obj(&work->w, NULL);
    gh_jw_arr(&work->w, "items");
    enum gh_code code = read_page(work, &err);
    gh_jw_arr_end(&work->w);
    gh_jw_str(&work->w, "next_cursor", work->has_more ? work->last : NULL);
    gh_jw_end(&work->w);
    if (code != GH_OK) {
        http_problem(work->x, &err, NULL);
    } else {
        reply_json(work->x, 200, &work->body);
    }
    gh_buf_fini(&work->body);
    free(work);
}

static void queue_list(struct core *core, const struct page *page, struct http_exchange *x,
                       const struct auth_token *who)
{
    struct gh_err err;
    struct list_work *work = calloc(1, sizeof *work);
    enum gh_code code = GH_NOMEM;
    if (work == NULL) {
        gh_fail(&err, GH_NOMEM, "There is not enough memory.");
    } else {
        *work = (struct list_work){.core = core, .x = x, .who = *who, .page = *page};
        for (size_t i = 0; work->page.states[i] != NULL; i++) {
            work->page.states[i] = work->page.words + (page->states[i] - page->words);
        }
        code = gh_pool_run(core->options.pool, list_stored, work, &err);
    }
    if (code != GH_OK) {
        free(work);
        http_problem(x, &err, NULL);
    }
}

void core_approval_list(struct core *core, struct http_exchange *x, const struct auth_token *who)
{
    struct page page;
    struct gh_err err;
    int64_t wait_ms = 0;
    if (!query_wait_ms(x, &wait_ms, &err) || parse_page(x, &page, &err) != GH_OK) {
        http_problem(x, &err, NULL);
        return;
    }
    if (!page.is_pending_only) {
        queue_list(core, &page, x, who);
        return;
    }
    pthread_mutex_lock(&core->lock);
    list_pending_locked(core, &page, x, who, wait_ms);
    pthread_mutex_unlock(&core->lock);
}

/* ---- an approval that is no longer in memory ---- */

enum archived { ARCHIVED_GET = 0, ARCHIVED_PUT, ARCHIVED_DIFF };

struct archive_work {
    enum archived what;
    struct core *core;
    struct http_exchange *x;
    struct auth_token who;
    char id[GH_ID];
};

static const char *member(const struct json_t *obj, const char *key)
{
    const char *text = gh_json_text(gh_json_get(obj, key));
    return text != NULL ? text : "";
}

static void refuse_archived(const struct archive_work *work, const struct json_t *approval,
                            const struct gh_buf *body)
{
    struct gh_err err;
    gh_auto(gh_buf_fini) struct gh_buf extra = GH_BUF_INIT;
    if (strcmp(member(approval, "state"), "expired") == 0) {
        gh_fail(&err, GH_EXPIRED, "Nobody answered in time: it was denied at %s.",
                member(approval, "settled_at"));
    } else {
        gh_fail(&err, GH_SETTLED, "It is already %s, by %s (%s) at %s.", member(approval, "state"),
                member(approval, "settled_by"), member(approval, "code"),
                member(approval, "settled_at"));
    }
    gh_buf_printf(&extra, "\"approval\":%s", gh_buf_str(body));
    http_problem(work->x, &err, extra.failed ? NULL : gh_buf_str(&extra));
}

static const char *state_after(enum gate_decision decision)
{
    return ask_state_name(decision == GATE_DENY    ? ASK_DENIED
                          : decision == GATE_ALLOW ? ASK_ALLOWED
                                                   : ASK_ALLOWED_ALWAYS);
}

/* A PUT on something that was settled long ago: the same checks in the same order, no change. */
static void put_archived(const struct archive_work *work, const struct json_t *approval,
                         struct gh_buf *text)
{
    gh_auto(gh_json_freep) struct json_t *json = NULL;
    struct put_body body = {0};
    struct gh_err err;
    struct meta meta;
    if (put_parse(work->x, &json, &body, &err) != GH_OK ||
        put_check_match(work->x, member(approval, "digest"), &err) != GH_OK) {
        http_problem(work->x, &err, NULL);
    } else if (strcmp(member(approval, "state"), state_after(body.decision)) == 0) {
        reply_json(work->x, 200, text);
    } else {
        meta_of(work->x, &work->who, &meta);
        put_note_late(work->core, member(approval, "session"), work->id, &body, &meta);
        refuse_archived(work, approval, text);
    }
}

static void answer_archived(const struct archive_work *work, const struct store_row *row)
{
    gh_auto(gh_json_freep) struct json_t *json = NULL;
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_err err;
    if (gh_json_parse(row->body, strlen(row->body), &json, &err) != GH_OK) {
        http_problem(work->x, &err, NULL);
        return;
    }
    const struct json_t *approval = gh_json_get(json, "approval");
    if (work->who.role == AUTH_AGENT && strcmp(member(approval, "asked_by"), work->who.name) != 0) {
        reply_not_found(work->x);
        return;
    }
    bool is_diff = work->what == ARCHIVED_DIFF;
    const struct json_t *texts = gh_json_get(json, "texts");
    if (is_diff && gh_json_len(texts) == 0) {
        reply_not_found(work->x);
        return;
    }
    gh_json_canonical(is_diff ? texts : approval, &body);
    if (work->what == ARCHIVED_PUT) {
        put_archived(work, approval, &body);
    } else {
        reply_json(work->x, 200, &body);
    }
}

static void read_archived(void *cookie)
{
    struct archive_work *work = cookie;
    struct store_row row = {0};
    struct gh_err err;
    enum gh_code code = store_get(work->core->options.store, STORE_APPROVAL, work->id, &row, &err);
    if (code == GH_OK) {
        answer_archived(work, &row);
        store_row_fini(&row);
    } else if (code == GH_NOT_FOUND) {
        reply_not_found(work->x);
    } else {
        http_problem(work->x, &err, NULL);
    }
    free(work);
}

void archived_approval(struct core *core, struct http_exchange *x, const struct auth_token *who,
                       const char *id)
{
    struct gh_err err;
    struct archive_work *work = gh_id_valid(id, "apr") ? calloc(1, sizeof *work) : NULL;
    if (work == NULL) {
        reply_not_found(x);
        return;
    }
    *work = (struct archive_work){.core = core, .x = x, .who = *who};
    size_t path_len = strlen(http_path(x));
    if (http_method(x) == HTTP_PUT) {
        work->what = ARCHIVED_PUT;
    } else if (path_len > 5 && strcmp(http_path(x) + path_len - 5, "/diff") == 0) {
        work->what = ARCHIVED_DIFF;
    }
    snprintf(work->id, sizeof work->id, "%s", id);
    if (gh_pool_run(core->options.pool, read_archived, work, &err) != GH_OK) {
        free(work);
        http_problem(x, &err, NULL);
    }
}
