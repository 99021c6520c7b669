#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

void taint_fini(struct taint *taint)
{
    free(taint->source);
    free(taint->marker);
    free(taint->excerpt);
    *taint = (struct taint){0};
}

static bool make_taint(struct taint *ret, const char *source, const struct scan_finding *finding,
                       int64_t at_ms)
{
    *ret = (struct taint){strdup(source), strdup(finding->marker), strdup(finding->excerpt),
                          finding->offset, at_ms};
    if (ret->source == NULL || ret->marker == NULL || ret->excerpt == NULL) {
        taint_fini(ret);
        return false;
    }
    return true;
}

bool taint_copy(struct taint *to, const struct taint *from)
{
    *to = (struct taint){strdup(from->source), strdup(from->marker), strdup(from->excerpt),
                         from->offset, from->at_ms};
    if (to->source == NULL || to->marker == NULL || to->excerpt == NULL) {
        taint_fini(to);
        return false;
    }
    return true;
}

void taint_json(const struct taint *taint, struct gh_jw *w, const char *key)
{
    if (taint->source == NULL) {
        gh_jw_null(w, key);
        return;
    }
    gh_jw_obj(w, key);
    gh_jw_str(w, "source", taint->source);
    gh_jw_str(w, "marker", taint->marker);
    gh_jw_str(w, "excerpt", taint->excerpt);
    gh_jw_int(w, "offset", (int64_t)taint->offset);
    gh_jw_time(w, "at", taint->at_ms);
    gh_jw_end(w);
}

/* ---- what a principal left behind in a directory ---- */

static void key_of(const char *owner, const char *dir, char out[GH_HEX])
{
    unsigned char digest[GH_SHA256];
    gh_id_sha256_2(owner, strlen(owner) + 1, dir, strlen(dir), digest);
    gh_id_hex(digest, out);
}

struct trace *trace_of_locked(struct core *core, const char *owner, const char *dir, bool make)
{
    char key[GH_HEX];
    key_of(owner, dir, key);
    struct trace *trace = gh_map_find(&core->traces, key);
    if (trace != NULL || !make) {
        return trace;
    }
    trace = calloc(1, sizeof *trace);
    if (trace == NULL) {
        return NULL;
    }
    memcpy(trace->key, key, sizeof key);
    if (!gh_map_put(&core->traces, trace->key, trace)) {
        free(trace);
        return NULL;
    }
    return trace;
}

void trace_doc(struct store_txn *txn, const struct trace *trace)
{
    char id[GH_HEX + 8];
    snprintf(id, sizeof id, "place:%s", trace->key);
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    gh_jw_obj(&w, NULL);
    gh_jw_bool(&w, "plan", trace->is_plan);
    gh_jw_bool(&w, "tainted", trace->is_tainted);
    taint_json(&trace->taint, &w, "taint");
    gh_jw_end(&w);
    const struct store_doc doc = {STORE_META,       id, "", "", "", gh_clock_wall_ms(),
                                  gh_buf_str(&body)};
    store_txn_put(txn, &doc);
}

static const char *text_or(const struct json_t *obj, const char *key, const char *fallback)
{
    const char *text = gh_json_text(gh_json_get(obj, key));
    return text != NULL ? text : fallback;
}

/* Read a taint back; false when there is none. */
bool taint_read(const struct json_t *obj, struct taint *ret)
{
    if (gh_json_len(obj) == 0) {
        return false;
    }
    *ret = (struct taint){strdup(text_or(obj, "source", "unknown")),
                          strdup(text_or(obj, "marker", "")), strdup(text_or(obj, "excerpt", "")),
                          (size_t)gh_json_number(gh_json_get(obj, "offset"), 0),
                          gh_clock_parse(text_or(obj, "at", ""))};
    return ret->source != NULL;
}

enum gh_code trace_load(struct core *core, const struct store_row *row)
{
    if (strncmp(row->id, "place:", 6) != 0 || strlen(row->id) != 6 + GH_HEX - 1) {
        return GH_OK;
    }
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    struct gh_err err;
    GH_TRY(gh_json_parse(row->body, strlen(row->body), &body, &err));
    struct trace *trace = calloc(1, sizeof *trace);
    if (trace == NULL) {
        return GH_NOMEM;
    }
    snprintf(trace->key, sizeof trace->key, "%s", row->id + 6);
    trace->is_plan = gh_json_true(gh_json_get(body, "plan"));
    trace->is_tainted = gh_json_true(gh_json_get(body, "tainted")) &&
                        taint_read(gh_json_get(body, "taint"), &trace->taint);
    if (!gh_map_put(&core->traces, trace->key, trace)) {
        taint_fini(&trace->taint);
        free(trace);
        return GH_NOMEM;
    }
    return GH_OK;
}

void traces_free(struct core *core)
{
    size_t at = 0;
    for (struct trace *trace = gh_map_next(&core->traces, &at); trace != NULL;
         trace = gh_map_next(&core->traces, &at)) {
        taint_fini(&trace->taint);
        free(trace);
    }
    gh_map_fini(&core->traces);
}

/* ---- scanning ---- */

/* Keep the first finding. The documents are written with every finding: an earlier write may have
 * failed, and a restart must not be looser than what was told. */
static void set_taint_locked(struct core *core, struct session *session, struct taint *found,
                             struct store_txn *txn)
{
    struct trace *trace = trace_of_locked(core, session->owner, session->place->working_dir, true);
    session->taint_version++;
    if (trace != NULL && !trace->is_tainted) {
        trace->is_tainted = taint_copy(&trace->taint, found);
    }
    if (trace != NULL && trace->is_tainted) {
        trace_doc(txn, trace);
    }
    if (!session->is_tainted) {
        session->taint = *found;
        *found = (struct taint){0};
        session->is_tainted = true;
    }
    session_doc_locked(txn, core, session);
}

void finding_json(const char *source, const struct scan_finding *finding, struct gh_jw *w,
                  const char *key)
{
    if (finding == NULL) {
        gh_jw_null(w, key);
        return;
    }
    gh_jw_obj(w, key);
    gh_jw_str(w, "source", source);
    gh_jw_str(w, "marker", finding->marker);
    gh_jw_str(w, "excerpt", finding->excerpt);
    gh_jw_int(w, "offset", (int64_t)finding->offset);
    gh_jw_end(w);
}

static void emit_taint_locked(struct core *core, const struct session *session, const char *type)
{
    struct gh_buf data = GH_BUF_INIT;
    struct gh_jw w = {&data, false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "session", session->id);
    gh_jw_bool(&w, "tainted", session->is_tainted);
    taint_json(&session->taint, &w, "taint");
    gh_jw_end(&w);
    event_emit_locked(core, type, session, session->owner, &data);
}

void taint_found_locked(struct core *core, struct session *session, const char *source,
                        const struct scan_finding *finding, const struct meta *meta,
                        struct store_txn *txn)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    finding_json(source, finding, &w, NULL);
    record_note(txn, &(struct note){"taint", session->id, session->id, "found", gh_buf_str(&body)},
                meta);
    struct taint found;
    if (make_taint(&found, source, finding, gh_clock_wall_ms())) {
        set_taint_locked(core, session, &found, txn);
        taint_fini(&found);
    }
    emit_taint_locked(core, session, "taint.found");
    ask_sweep_locked(core, session);
}

struct scan_work {
    struct http_exchange *x;
    struct gh_buf body;
};

static void scan_done(enum gh_code code, void *cookie)
{
    struct scan_work *work = cookie;
    if (code != GH_OK) {
        reply_audit_failed(work->x);
    } else {
        reply_json(work->x, 200, &work->body);
    }
    gh_buf_fini(&work->body);
    free(work);
}

static enum gh_code parse_scan(struct http_exchange *x, struct json_t **ret,
                               const char **ret_source, const char **ret_text, struct gh_err *err)
{
    static const char *const names[] = {"source", "text", NULL};
    size_t len = 0;
    const char *data = http_body(x, &len);
    GH_TRY(gh_json_parse(data, len, ret, err));
    GH_TRY(gh_json_only(*ret, "", names, err));
    GH_TRY(gh_json_str(*ret, "", "source", GH_NEED, 4096, ret_source, err));
    return gh_json_str(*ret, "", "text", GH_NEED, (size_t)1 << 26, ret_text, err);
}

/* Answer a scan; a finding is durable before it is told. */
static void answer_scan_locked(struct core *core, struct session *session, const char *source,
                               const struct scan_finding *finding, struct http_exchange *x,
                               const struct meta *meta)
{
    struct scan_work *work = calloc(1, sizeof *work);
    struct store_txn *txn = store_txn_new();
    if (work == NULL || txn == NULL) {
        free(work);
        store_txn_free(txn);
        reply_audit_failed(x);
        return;
    }
    work->x = x;
    if (finding != NULL) {
        taint_found_locked(core, session, source, finding, meta, txn);
    }
    struct gh_jw w = {&work->body, false};
    gh_jw_obj(&w, NULL);
    finding_json(source, finding, &w, "finding");
    gh_jw_bool(&w, "tainted", session->is_tainted);
    gh_jw_end(&w);
    if (finding == NULL) {
        store_txn_free(txn);
        scan_done(GH_OK, work);
        return;
    }
    store_commit(core->options.store, &txn, scan_done, work);
}

void core_scan(struct core *core, struct http_exchange *x, const struct auth_token *who,
               const char *session_id)
{
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    const char *source = NULL;
    const char *text = NULL;
    struct gh_err err;
    if (parse_scan(x, &body, &source, &text, &err) != GH_OK) {
        http_problem(x, &err, NULL);
        return;
    }
    struct scan_finding finding;
    bool is_found = scan_text(core->options.scan, text, strlen(text), &finding);
    struct meta meta;
    meta_of(x, who, &meta);
    pthread_mutex_lock(&core->lock);
    struct session *session = session_find_locked(core, who, session_id);
    if (session != NULL) {
        answer_scan_locked(core, session, source, is_found ? &finding : NULL, x, &meta);
    }
    pthread_mutex_unlock(&core->lock);
    if (session == NULL) {
        reply_not_found(x);
    }
}

/* ---- clearing ---- */

struct clear_work {
    struct core *core;
    struct http_exchange *x;
    uint64_t version; /* of the session's findings when a person cleared them */
    char session[GH_ID];
};

/* The folder stays marked while another session of its principal there is. */
static bool is_place_tainted_locked(struct core *core, const struct session *cleared)
{
    size_t at = 0;
    for (const struct session *other = gh_map_next(&core->sessions, &at); other != NULL;
         other = gh_map_next(&core->sessions, &at)) {
        if (other != cleared && other->is_active && other->is_tainted &&
            strcmp(other->owner, cleared->owner) == 0 &&
            strcmp(other->place->working_dir, cleared->place->working_dir) == 0) {
            return true;
        }
    }
    return false;
}

static void clear_in_memory_locked(struct core *core, struct session *session)
{
    taint_fini(&session->taint);
    session->is_tainted = false;
    struct trace *trace = trace_of_locked(core, session->owner, session->place->working_dir, false);
    if (trace != NULL && !is_place_tainted_locked(core, session)) {
        taint_fini(&trace->taint);
        trace->is_tainted = false;
    }
    emit_taint_locked(core, session, "taint.cleared");
}

static void ignore_outcome(enum gh_code code, void *cookie)
{
    (void)code;
    (void)cookie;
}

/* A finding came while the clearing was made durable: it stands, and is written again. */
static void keep_finding_locked(struct core *core, struct session *session)
{
    struct store_txn *txn = store_txn_new();
    const struct trace *trace =
        trace_of_locked(core, session->owner, session->place->working_dir, false);
    if (txn == NULL) {
        return;
    }
    session_doc_locked(txn, core, session);
    if (trace != NULL) {
        trace_doc(txn, trace);
    }
    store_commit(core->options.store, &txn, ignore_outcome, NULL);
}

/* Looser: takes effect only once it is durable, and only for what was there to be seen. */
static void clear_done(enum gh_code code, void *cookie)
{
    struct clear_work *work = cookie;
    struct core *core = work->core;
    struct gh_err err = {0};
    if (code != GH_OK) {
        reply_audit_failed(work->x);
        free(work);
        return;
    }
    pthread_mutex_lock(&core->lock);
    struct session *session = gh_map_find(&core->sessions, work->session);
    if (session != NULL && session->taint_version == work->version) {
        clear_in_memory_locked(core, session);
    } else if (session != NULL) {
        keep_finding_locked(core, session);
        gh_fail(&err, GH_CONFLICT, "A new finding came meanwhile; look at it and clear it again.");
    }
    pthread_mutex_unlock(&core->lock);
    if (err.code != GH_OK) {
        http_problem(work->x, &err, NULL);
    } else {
        struct gh_buf none = GH_BUF_INIT;
        http_reply(work->x, 204, &none, NULL, 0);
    }
    free(work);
}

/* Write the session and what it left behind as they will be. */
static void clear_docs_locked(struct core *core, struct session *session, struct store_txn *txn)
{
    struct taint kept = session->taint;
    session->taint = (struct taint){0};
    session->is_tainted = false;
    session_doc_locked(txn, core, session);
    session->taint = kept;
    session->is_tainted = kept.source != NULL;
    const struct trace *trace =
        trace_of_locked(core, session->owner, session->place->working_dir, false);
    if (trace != NULL && !is_place_tainted_locked(core, session)) {
        struct trace cleared = {.is_plan = trace->is_plan};
        memcpy(cleared.key, trace->key, sizeof cleared.key);
        trace_doc(txn, &cleared);
    }
}

void core_taint_clear(struct core *core, struct http_exchange *x, const struct auth_token *who,
                      const char *session_id)
{
    struct meta meta;
    meta_of(x, who, &meta);
    struct clear_work *work = calloc(1, sizeof *work);
    struct store_txn *txn = store_txn_new();
    pthread_mutex_lock(&core->lock);
    struct session *session = session_find_locked(core, who, session_id);
    if (work == NULL || txn == NULL || session == NULL) {
        pthread_mutex_unlock(&core->lock);
        free(work);
        store_txn_free(txn);
        reply_not_found(x);
        return;
    }
    *work = (struct clear_work){.core = core, .x = x, .version = session->taint_version};
    snprintf(work->session, sizeof work->session, "%s", session->id);
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    gh_jw_obj(&w, NULL);
    taint_json(&session->taint, &w, "taint");
    gh_jw_end(&w);
    record_note(txn,
                &(struct note){"taint", session->id, session->id, "cleared", gh_buf_str(&body)},
                &meta);
    clear_docs_locked(core, session, txn);
    store_commit(core->options.store, &txn, clear_done, work);
    pthread_mutex_unlock(&core->lock);
}
