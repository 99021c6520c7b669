#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

#define MAX_READS 50

/* ---- the active ones, from memory ---- */

struct id_list {
    const char **ids;
    size_t n;
};

static int by_id(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Ids of the caller's active sessions after `after`, oldest first. */
static bool collect_locked(struct core *core, const struct auth_token *who, const char *after,
                           struct id_list *ret)
{
    ret->ids = calloc(core->sessions.n_used + 1, sizeof *ret->ids);
    if (ret->ids == NULL) {
        return false;
    }
    size_t at = 0;
    for (const struct session *session = gh_map_next(&core->sessions, &at); session != NULL;
         session = gh_map_next(&core->sessions, &at)) {
        if (session->is_born && session->is_active && strcmp(session->id, after) > 0 &&
            (who->role != AUTH_AGENT || strcmp(who->name, session->owner) == 0)) {
            ret->ids[ret->n++] = session->id;
        }
    }
    qsort(ret->ids, ret->n, sizeof *ret->ids, by_id);
    return true;
}

static void list_active(struct core *core, const char *after, int64_t limit,
                        struct http_exchange *x, const struct auth_token *who)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    struct id_list list = {0};
    pthread_mutex_lock(&core->lock);
    if (!collect_locked(core, who, after, &list)) {
        body.failed = true;
    }
    size_t n = list.n < (size_t)limit ? list.n : (size_t)limit;
    gh_jw_obj(&w, NULL);
    gh_jw_arr(&w, "items");
    for (size_t i = 0; i < n; i++) {
        gh_auto(gh_buf_fini) struct gh_buf item = GH_BUF_INIT;
        session_json_locked(core, gh_map_find(&core->sessions, list.ids[i]), &item);
        gh_jw_raw(&w, NULL, gh_buf_str(&item));
    }
    gh_jw_arr_end(&w);
    gh_jw_str(&w, "next_cursor", list.n > n ? list.ids[n - 1] : NULL);
    gh_jw_end(&w);
    pthread_mutex_unlock(&core->lock);
    free(list.ids);
    reply_json(x, 200, &body);
}

/* ---- ended ones come from the store: memory forgets them, at the latest in a restart ---- */

struct list_work {
    struct core *core;
    struct http_exchange *x;
    struct auth_token who;
    bool is_ended_only;
    int64_t limit;
    struct gh_jw w;
    struct gh_buf body;
    int64_t n;        /* items on the page */
    size_t n_rows;    /* rows of this read */
    char at[GH_ID];   /* last row that was read */
    char last[GH_ID]; /* last item */
    bool has_more;    /* an item behind the page */
};

/* What is still in memory is fresher than its document. */
static bool live_json(struct core *core, const char *id, struct gh_buf *out)
{
    pthread_mutex_lock(&core->lock);
    const struct session *session = gh_map_find(&core->sessions, id);
    if (session != NULL) {
        session_json_locked(core, session, out);
    }
    pthread_mutex_unlock(&core->lock);
    return session != NULL;
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
    const char *owner = gh_json_text(gh_json_get(body, "owner"));
    if (work->who.role == AUTH_AGENT && (owner == NULL || strcmp(owner, work->who.name) != 0)) {
        return;
    }
    if (work->n == work->limit) {
        work->has_more = true;
        return;
    }
    gh_auto(gh_buf_fini) struct gh_buf item = GH_BUF_INIT;
    work->n++;
    memcpy(work->last, work->at, sizeof work->last);
    if (!live_json(work->core, row->id, &item)) {
        gh_json_canonical(gh_json_get(body, "session"), &item);
    }
    gh_jw_raw(&work->w, NULL, gh_buf_str(&item));
}

/* As with approvals: an agent's own lie among those of others. */
static enum gh_code read_page(struct list_work *work, struct gh_err *err)
{
    static const char *const ended[] = {"ended", NULL};
    struct store_filter filter = {.states = work->is_ended_only ? ended : NULL,
                                  .limit = (size_t)work->limit + 1};
    for (int i = 0; i < MAX_READS && !work->has_more; i++) {
        char after[GH_ID];
        memcpy(after, work->at, sizeof after);
        filter.after = after[0] != '\0' ? after : NULL;
        work->n_rows = 0;
        GH_TRY(store_list(work->core->options.store, STORE_SESSION, &filter, add_row, work, err));
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

/* ---- entry ---- */

static enum gh_code parse_list(struct http_exchange *x, const char **ret_state,
                               const char **ret_after, int64_t *ret_limit, struct gh_err *err)
{
    const char *cursor = http_query(x, "cursor");
    *ret_state = http_query(x, "state");
    *ret_limit = 100;
    GH_TRY(query_limit(x, ret_limit, err));
    if (*ret_state != NULL && strcmp(*ret_state, "active") != 0 &&
        strcmp(*ret_state, "ended") != 0) {
        return gh_fail(err, GH_INVALID, "state is active or ended.");
    }
    if (cursor != NULL && !gh_id_valid(cursor, "ses")) {
        return gh_fail(err, GH_BAD_CURSOR, "The cursor is not one this list gave out.");
    }
    *ret_after = cursor != NULL ? cursor : "";
    return GH_OK;
}

void core_session_list(struct core *core, struct http_exchange *x, const struct auth_token *who)
{
    const char *state = NULL;
    const char *after = NULL;
    int64_t limit = 0;
    struct gh_err err;
    if (parse_list(x, &state, &after, &limit, &err) != GH_OK) {
        http_problem(x, &err, NULL);
        return;
    }
    if (state != NULL && strcmp(state, "active") == 0) {
        list_active(core, after, limit, x, who);
        return;
    }
    struct list_work *work = calloc(1, sizeof *work);
    enum gh_code code = GH_NOMEM;
    if (work == NULL) {
        gh_fail(&err, GH_NOMEM, "There is not enough memory.");
    } else {
        *work = (struct list_work){
            .core = core, .x = x, .who = *who, .is_ended_only = state != NULL, .limit = limit};
        snprintf(work->at, sizeof work->at, "%s", after);
        code = gh_pool_run(core->options.pool, list_stored, work, &err);
    }
    if (code != GH_OK) {
        free(work);
        http_problem(x, &err, NULL);
    }
}
