#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fs.h"
#include "core/execution.h"
#include "core/state.h"

/* What became of a call: recorded, scanned, compared with what was approved. */

#define MAX_WRITTEN_BYTES ((size_t)64 << 20)

/* ---- what a session remembers of its last calls ---- */

static void recent_fini(struct recent *recent)
{
    free(recent->response_id);
    free(recent->path);
    *recent = (struct recent){0};
}

void outcome_forget(struct session *session)
{
    for (size_t i = 0; session->recent != NULL && i < N_RECENT; i++) {
        recent_fini(&session->recent[i]);
    }
    free(session->recent);
    session->recent = NULL;
    while (session->responses != NULL) {
        struct response *next = session->responses->next;
        free(session->responses->id);
        free(session->responses);
        session->responses = next;
    }
}

void outcome_expect_locked(struct session *session, const char *id, const struct call *call,
                           const struct judged *judged, bool is_allowed)
{
    if (session->recent == NULL) {
        session->recent = calloc(N_RECENT, sizeof *session->recent);
    }
    if (session->recent == NULL) {
        return;
    }
    struct recent *recent = &session->recent[session->recent_at++ % N_RECENT];
    recent_fini(recent);
    snprintf(recent->id, sizeof recent->id, "%s", id);
    recent->is_allowed = is_allowed;
    if (call->response_id != NULL) {
        recent->response_id = strdup(call->response_id);
    }
    if (call->has_new) {
        recent->path = strdup(judged->parts[0].facts.path.kernel);
        memcpy(recent->new_sha, call->new_sha, GH_SHA256);
        recent->has_new = recent->path != NULL;
    }
}

static struct recent *recent_find(struct session *session, const char *id)
{
    for (size_t i = 0; session->recent != NULL && i < N_RECENT; i++) {
        if (strcmp(session->recent[i].id, id) == 0) {
            return &session->recent[i];
        }
    }
    return NULL;
}

static struct response *new_response(struct session *session, const char *id)
{
    struct response *response = calloc(1, sizeof *response);
    if (response == NULL) {
        return NULL;
    }
    response->id = strdup(id);
    if (response->id == NULL) {
        free(response);
        return NULL;
    }
    response->next = session->responses;
    session->responses = response;
    return response;
}

struct response *outcome_response_locked(struct session *session, const char *id)
{
    size_t n = 0;
    for (struct response **at = &session->responses; *at != NULL; at = &(*at)->next) {
        if (strcmp((*at)->id, id) == 0) {
            return *at;
        }
        if (++n >= MAX_RESPONSES && (*at)->next == NULL) {
            struct response *oldest = *at;
            *at = NULL;
            free(oldest->id);
            free(oldest);
            break;
        }
    }
    return new_response(session, id);
}

/* ---- the decision as the audit has it ---- */

struct lookup {
    struct core *core;
    struct http_exchange *x;
    struct auth_token who;
    char session_id[GH_ID];
    char id[GH_ID];
    struct gh_buf body;
    bool is_asking;
};

static bool take_row(const struct store_audit_row *row, void *cookie)
{
    struct lookup *look = cookie;
    if (row->row.part != 0 || strcmp(row->row.session, look->session_id) != 0) {
        return true;
    }
    look->is_asking = strcmp(row->row.code, "asked") == 0;
    gh_buf_fini(&look->body);
    gh_buf_puts(&look->body, row->row.body);
    return false;
}

/* The row of an ask holds the answer among other things. */
static void unwrap_asking(struct lookup *look)
{
    gh_auto(gh_json_freep) struct json_t *json = NULL;
    struct gh_err err;
    if (look->is_asking &&
        gh_json_parse(gh_buf_str(&look->body), look->body.len, &json, &err) == GH_OK) {
        gh_buf_fini(&look->body);
        gh_json_canonical(gh_json_get(json, "answer"), &look->body);
    }
}

/* An agent reads decisions of its own sessions, also of one that is long gone from memory. */
static bool is_owner(struct lookup *look)
{
    struct store_row row = {0};
    struct gh_err err;
    gh_auto(gh_json_freep) struct json_t *json = NULL;
    if (look->who.role != AUTH_AGENT) {
        return true;
    }
    bool is_read = store_get(look->core->options.store, STORE_SESSION, look->session_id, &row,
                             &err) == GH_OK &&
                   gh_json_parse(row.body, strlen(row.body), &json, &err) == GH_OK;
    const char *owner = is_read ? gh_json_text(gh_json_get(json, "owner")) : NULL;
    bool is_own = owner != NULL && strcmp(owner, look->who.name) == 0;
    store_row_fini(&row);
    return is_own;
}

static void read_decision(void *cookie)
{
    struct lookup *look = cookie;
    const struct store_audit_filter filter = {
        .ref = look->id, .kind = "decision", .newest_first = true, .limit = 300};
    struct gh_err err;
    enum gh_code code = store_audit_list(look->core->options.store, &filter, take_row, look, &err);
    unwrap_asking(look);
    if (code != GH_OK) {
        http_problem(look->x, &err, NULL);
    } else if (look->body.len == 0 || !is_owner(look)) {
        reply_not_found(look->x);
    } else {
        reply_json(look->x, 200, &look->body);
    }
    gh_buf_fini(&look->body);
    free(look);
}

void decision_from_store(struct core *core, struct http_exchange *x, const struct auth_token *who,
                         const char *session_id, const char *id)
{
    struct gh_err err;
    struct lookup *look = gh_id_valid(id, "dec") ? calloc(1, sizeof *look) : NULL;
    if (look == NULL) {
        reply_not_found(x);
        return;
    }
    *look = (struct lookup){.core = core, .x = x, .who = *who};
    snprintf(look->session_id, sizeof look->session_id, "%s", session_id);
    snprintf(look->id, sizeof look->id, "%s", id);
    if (gh_pool_run(core->options.pool, read_decision, look, &err) != GH_OK) {
        free(look);
        http_problem(x, &err, NULL);
    }
}

/* ---- POST outcome ---- */

struct outcome {
    struct core *core;
    struct http_exchange *x;
    struct auth_token who;
    char session_id[GH_ID];
    char id[GH_ID];
    struct json_t *json; /* owned; the strings below live in it */
    const char *status, *detail, *output;
    char *path; /* file to compare, or NULL; owned */
    unsigned char new_sha[GH_SHA256];
    bool differs;
    bool is_old; /* no longer in memory: looked up in the audit */
    bool has_finding;
    struct scan_finding finding;
    struct gh_buf body;
};

static void outcome_free(struct outcome *work)
{
    gh_json_free(work->json);
    free(work->path);
    gh_buf_fini(&work->body);
    free(work);
}

static enum gh_code parse_outcome(struct outcome *work, struct gh_err *err)
{
    static const char *const names[] = {"status", "detail", "output", NULL};
    size_t len = 0;
    const char *data = http_body(work->x, &len);
    GH_TRY(gh_json_parse(data, len, &work->json, err));
    GH_TRY(gh_json_only(work->json, "", names, err));
    GH_TRY(gh_json_str(work->json, "", "status", GH_NEED, 16, &work->status, err));
    GH_TRY(gh_json_str(work->json, "", "detail", GH_OPTIONAL, (size_t)1 << 26, &work->detail, err));
    GH_TRY(gh_json_str(work->json, "", "output", GH_OPTIONAL, (size_t)1 << 26, &work->output, err));
    if (strcmp(work->status, "ok") != 0 && strcmp(work->status, "error") != 0 &&
        strcmp(work->status, "skipped") != 0) {
        return gh_fail_at(err, GH_INVALID, "/status", "It must be ok, error or skipped.");
    }
    return GH_OK;
}

/* Not recorded, so not reported: it may be reported again. */
static void take_back(struct outcome *work)
{
    struct core *core = work->core;
    pthread_mutex_lock(&core->lock);
    struct session *session = gh_map_find(&core->sessions, work->session_id);
    struct recent *recent = session != NULL ? recent_find(session, work->id) : NULL;
    if (recent != NULL) {
        recent->has_outcome = false;
    }
    pthread_mutex_unlock(&core->lock);
}

static void outcome_done(enum gh_code code, void *cookie)
{
    struct outcome *work = cookie;
    if (code != GH_OK) {
        take_back(work);
        reply_audit_failed(work->x);
    } else {
        reply_json(work->x, 200, &work->body);
    }
    outcome_free(work);
}

static void record_outcome(struct store_txn *txn, const struct outcome *work)
{
    struct meta meta;
    meta_of(work->x, &work->who, &meta);
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "status", work->status);
    gh_jw_str(&w, "detail", work->detail);
    gh_jw_bool(&w, "written_differs", work->differs);
    gh_jw_end(&w);
    record_note(
        txn, &(struct note){"outcome", work->session_id, work->id, work->status, gh_buf_str(&body)},
        &meta);
}

static void mark_failed_locked(struct session *session, const struct recent *recent)
{
    struct response *response =
        recent->response_id != NULL ? outcome_response_locked(session, recent->response_id) : NULL;
    if (response != NULL) {
        response->has_failed = true;
    }
}

static void answer_outcome_locked(struct outcome *work, struct session *session,
                                  struct recent *recent)
{
    struct core *core = work->core;
    struct meta meta;
    if (recent != NULL && recent->has_outcome) { /* another one came while this one was read */
        struct gh_err err;
        gh_fail(&err, GH_CONFLICT, "The outcome was reported already.");
        http_problem(work->x, &err, NULL);
        outcome_free(work);
        return;
    }
    struct store_txn *txn = store_txn_new();
    if (txn == NULL) {
        reply_audit_failed(work->x);
        outcome_free(work);
        return;
    }
    meta_of(work->x, &work->who, &meta);
    record_outcome(txn, work);
    execution_used_locked(core, work->id);
    if (recent != NULL) {
        recent->has_outcome = true;
    }
    if (recent != NULL && strcmp(work->status, "error") == 0) {
        mark_failed_locked(session, recent);
    }
    if (work->has_finding) {
        taint_found_locked(core, session, work->id, &work->finding, &meta, txn);
    }
    struct gh_jw w = {&work->body, false};
    gh_jw_obj(&w, NULL);
    finding_json(work->id, work->has_finding ? &work->finding : NULL, &w, "finding");
    gh_jw_bool(&w, "tainted", session->is_tainted);
    gh_jw_bool(&w, "written_differs", work->differs);
    gh_jw_arr(&w, "rolled_back");
    gh_jw_arr_end(&w);
    gh_jw_null(&w, "restored_to");
    gh_jw_arr(&w, "kept");
    gh_jw_arr_end(&w);
    gh_jw_end(&w);
    store_commit(core->options.store, &txn, outcome_done, work);
}

/* One outcome a decision, and only of a decision of this session that was not denied. */
struct old_call {
    const char *session_id;
    bool is_allowed;
    bool has_outcome;
};

static bool look_at_row(const struct store_audit_row *row, void *cookie)
{
    struct old_call *call = cookie;
    if (strcmp(row->row.session, call->session_id) != 0) {
        return true;
    }
    if (strcmp(row->row.kind, "outcome") == 0) {
        call->has_outcome = true;
    } else if (strcmp(row->row.kind, "decision") == 0 &&
               strncmp(row->row.decision, "allow", 5) == 0) {
        call->is_allowed = true;
    }
    return true;
}

static enum gh_code check_old(const struct outcome *work, struct gh_err *err)
{
    struct old_call call = {work->session_id, false, false};
    const struct store_audit_filter filter = {.ref = work->id, .newest_first = true, .limit = 600};
    GH_TRY(store_audit_list(work->core->options.store, &filter, look_at_row, &call, err));
    if (!call.is_allowed) {
        return gh_fail(err, GH_NOT_FOUND, "There is no such allowed decision in this session.");
    }
    if (call.has_outcome) {
        return gh_fail(err, GH_CONFLICT, "The outcome was reported already.");
    }
    return GH_OK;
}

/* The file against the approved text; the scan of both texts. Runs on the pool. */
static void look_at_outcome(void *cookie)
{
    struct outcome *work = cookie;
    struct core *core = work->core;
    struct gh_err err;
    unsigned char digest[GH_SHA256];
    if (work->is_old && check_old(work, &err) != GH_OK) {
        http_problem(work->x, &err, NULL);
        outcome_free(work);
        return;
    }
    if (work->path != NULL && strcmp(work->status, "ok") == 0) {
        gh_autoclose int fd =
            open(work->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        work->differs = fd < 0 || !gh_id_sha256_fd(fd, MAX_WRITTEN_BYTES, digest) ||
                        !gh_id_equal(digest, work->new_sha, GH_SHA256);
    }
    const char *texts[] = {work->output, work->detail};
    for (size_t i = 0; i < 2 && !work->has_finding; i++) {
        work->has_finding = texts[i] != NULL && scan_text(core->options.scan, texts[i],
                                                          strlen(texts[i]), &work->finding);
    }
    pthread_mutex_lock(&core->lock);
    struct session *session = session_find_locked(core, &work->who, work->session_id);
    if (session != NULL) {
        answer_outcome_locked(work, session, recent_find(session, work->id));
    }
    pthread_mutex_unlock(&core->lock);
    if (session == NULL) {
        gh_fail(&err, GH_NOT_FOUND, "There is no such session, or it is not yours.");
        http_problem(work->x, &err, NULL);
        outcome_free(work);
    }
}

/* Find the call; copy what the comparison needs. */
static enum gh_code admit_outcome_locked(struct outcome *work, struct gh_err *err)
{
    struct session *session = session_find_locked(work->core, &work->who, work->session_id);
    const struct recent *recent = session != NULL ? recent_find(session, work->id) : NULL;
    if (session == NULL) {
        return gh_fail(err, GH_NOT_FOUND, "There is no such session, or it is not yours.");
    }
    if (recent == NULL) {
        work->is_old = true; /* before a restart, or long ago: the audit knows it */
        return GH_OK;
    }
    const struct ask *ask = gh_map_find(&work->core->by_decision, work->id);
    bool is_allowed = recent->is_allowed ||
                      (ask != NULL && ask->is_answered && ask->answer.decision != GATE_DENY);
    if (ask != NULL && !ask->is_answered) {
        return gh_fail(err, GH_CONFLICT, "The decision is still waiting.");
    }
    if (!is_allowed && strcmp(work->status, "skipped") != 0) {
        return gh_fail(err, GH_CONFLICT,
                       "The decision was deny; only \"skipped\" can be reported.");
    }
    if (recent->has_outcome) {
        return gh_fail(err, GH_CONFLICT, "The outcome was reported already.");
    }
    if (recent->has_new) {
        work->path = strdup(recent->path);
        memcpy(work->new_sha, recent->new_sha, GH_SHA256);
    }
    return GH_OK;
}

void core_outcome(struct core *core, struct http_exchange *x, const struct auth_token *who,
                  const char *session_id, const char *id)
{
    struct gh_err err;
    struct outcome *work = calloc(1, sizeof *work);
    if (work == NULL) {
        reply_audit_failed(x);
        return;
    }
    *work = (struct outcome){.core = core, .x = x, .who = *who};
    snprintf(work->session_id, sizeof work->session_id, "%s", session_id);
    snprintf(work->id, sizeof work->id, "%s", id);
    enum gh_code code = parse_outcome(work, &err);
    if (code == GH_OK) {
        pthread_mutex_lock(&core->lock);
        code = admit_outcome_locked(work, &err);
        pthread_mutex_unlock(&core->lock);
    }
    if (code == GH_OK) {
        code = gh_pool_run(core->options.pool, look_at_outcome, work, &err);
    }
    if (code != GH_OK) {
        http_problem(x, &err, NULL);
        outcome_free(work);
    }
}
