#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

#define MAX_ACTIVE_PER_TOKEN 64
#define MAX_DENY_PATHS 1000

struct open_work {
    struct core *core;
    struct http_exchange *x;
    struct auth_token who;
    struct json_t *json; /* owned; the strings below live in it */
    const char *agent, *title, *working_dir;
    const char **deny_paths; /* owned array */
    size_t n_deny_paths;
    enum gate_mode mode;
    int64_t ask_timeout_ms; /* 0: the configured one */
    char *external;         /* map key, or NULL; owned */
    struct policy *policy;  /* counted */
    struct place *place;    /* counted */
    struct idem *idem;
    struct session *session; /* being born */
};

static void open_free(struct open_work *work)
{
    gh_json_free(work->json);
    free(work->deny_paths);
    free(work->external);
    place_unref(work->place);
    policy_unref(work->policy);
    free(work);
}

/* ---- the request ---- */

static enum gh_code parse_deny_paths(struct open_work *work, struct gh_err *err)
{
    const struct json_t *arr = NULL;
    GH_TRY(gh_json_arr(work->json, "", "deny_paths", GH_OPTIONAL, MAX_DENY_PATHS, &arr, err));
    work->n_deny_paths = gh_json_len(arr);
    work->deny_paths = calloc(work->n_deny_paths + 1, sizeof *work->deny_paths);
    if (work->deny_paths == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the session.");
    }
    for (size_t i = 0; i < work->n_deny_paths; i++) {
        work->deny_paths[i] = gh_json_text(gh_json_at(arr, i));
        if (work->deny_paths[i] == NULL) {
            return gh_fail_at(err, GH_INVALID, "/deny_paths", "Every entry must be a string.");
        }
    }
    return GH_OK;
}

static enum gh_code parse_external(struct open_work *work, struct gh_err *err)
{
    static const char *const names[] = {"agent", "id", NULL};
    const struct json_t *obj = NULL;
    const char *agent = NULL;
    const char *id = NULL;
    GH_TRY(gh_json_obj(work->json, "", "external", GH_OPTIONAL, &obj, err));
    if (obj == NULL) {
        return GH_OK;
    }
    GH_TRY(gh_json_only(obj, "/external", names, err));
    GH_TRY(gh_json_str(obj, "/external", "agent", GH_NEED, 128, &agent, err));
    GH_TRY(gh_json_str(obj, "/external", "id", GH_NEED, 512, &id, err));
    if (id[0] == '\0') { /* callers that know no id must not meet in one session */
        return gh_fail_at(err, GH_INVALID, "/external/id", "The id must not be empty.");
    }
    gh_auto(gh_buf_fini) struct gh_buf key = GH_BUF_INIT;
    unsigned char digest[GH_SHA256];
    char hex[GH_HEX];
    gh_buf_printf(&key, "%s\n%zu:%s\n%s", work->who.name, strlen(agent), agent, id);
    gh_id_sha256(gh_buf_str(&key), key.len, digest);
    gh_id_hex(digest, hex);
    work->external = strdup(hex);
    return work->external != NULL ? GH_OK : gh_fail(err, GH_NOMEM, "There is not enough memory.");
}

static enum gh_code parse_client(struct open_work *work, struct gh_err *err)
{
    static const char *const names[] = {"pid", "version", "name", NULL};
    const struct json_t *obj = NULL;
    const char *text = NULL;
    int64_t pid = 0;
    GH_TRY(gh_json_obj(work->json, "", "client", GH_OPTIONAL, &obj, err));
    if (obj == NULL) {
        return GH_OK;
    }
    GH_TRY(gh_json_only(obj, "/client", names, err));
    GH_TRY(gh_json_int(obj, "/client", "pid", GH_OPTIONAL, 0, INT32_MAX, &pid, err));
    GH_TRY(gh_json_str(obj, "/client", "version", GH_OPTIONAL, 128, &text, err));
    return gh_json_str(obj, "/client", "name", GH_OPTIONAL, 128, &text, err);
}

static bool may_run_alone(const struct config *config, const char *token_name)
{
    for (size_t i = 0; config->autonomous.allowed_agents[i] != NULL; i++) {
        if (strcmp(config->autonomous.allowed_agents[i], token_name) == 0) {
            return true;
        }
    }
    return false;
}

static enum gh_code parse_mode(struct open_work *work, struct gh_err *err)
{
    const char *mode = NULL;
    work->mode = GATE_ACT;
    GH_TRY(gh_json_str(work->json, "", "mode", GH_OPTIONAL, 32, &mode, err));
    if (mode != NULL && !gate_mode_find(mode, &work->mode)) {
        return gh_fail_at(err, GH_INVALID, "/mode", "It must be act, plan or autonomous.");
    }
    if (work->mode == GATE_AUTONOMOUS && !may_run_alone(work->policy->config, work->who.name)) {
        return gh_fail_at(
            err, GH_FORBIDDEN, "/mode",
            "This token may not open an autonomous session; the configuration names those "
            "that may (autonomous.allowed_agents).");
    }
    return GH_OK;
}

static enum gh_code parse_open(struct open_work *work, struct gh_err *err)
{
    static const char *const names[] = {"agent",    "title",      "working_dir",
                                        "mode",     "deny_paths", "ask_timeout_s",
                                        "external", "client",     NULL};
    size_t len = 0;
    const char *data = http_body(work->x, &len);
    int64_t max_ms = work->policy->config->asks.max_timeout_s * 1000;
    GH_TRY(gh_json_parse(data, len, &work->json, err));
    GH_TRY(gh_json_only(work->json, "", names, err));
    GH_TRY(gh_json_str(work->json, "", "agent", GH_OPTIONAL, 128, &work->agent, err));
    GH_TRY(gh_json_str(work->json, "", "title", GH_OPTIONAL, 1024, &work->title, err));
    GH_TRY(gh_json_str(work->json, "", "working_dir", GH_NEED, 4096, &work->working_dir, err));
    GH_TRY(gh_json_secs(work->json, "", "ask_timeout_s", 1000, max_ms, true, &work->ask_timeout_ms,
                        err));
    GH_TRY(parse_mode(work, err));
    GH_TRY(parse_deny_paths(work, err));
    GH_TRY(parse_client(work, err));
    return parse_external(work, err);
}

/* ---- an external id that is known ---- */

enum gate_mode session_stricter_mode(enum gate_mode a, enum gate_mode b)
{
    if (a == GATE_PLAN || b == GATE_PLAN) {
        return GATE_PLAN;
    }
    return a == GATE_ACT || b == GATE_ACT ? GATE_ACT : GATE_AUTONOMOUS;
}

struct known_work {
    struct core *core;
    struct http_exchange *x;
    struct idem *idem; /* in progress, or NULL */
    char session[GH_ID];
    struct gh_buf body;
};

static void known_done(enum gh_code code, void *cookie)
{
    struct known_work *work = cookie;
    pthread_mutex_lock(&work->core->lock);
    idem_end_locked(work->core, work->idem, code == GH_OK ? work->session : NULL);
    pthread_mutex_unlock(&work->core->lock);
    if (code != GH_OK) {
        reply_audit_failed(work->x);
    } else {
        reply_json(work->x, 200, &work->body);
    }
    gh_buf_fini(&work->body);
    free(work);
}

/* A request for a session that exists. */
struct known {
    struct http_exchange *x;
    const struct auth_token *who;
    enum gate_mode mode;
    bool has_new_rules; /* its deny list grew */
    struct idem *idem;  /* in progress, or NULL; taken */
};

static void record_mode_locked(struct core *core, struct session *session, struct store_txn *txn,
                               const struct known *known)
{
    struct meta meta;
    meta_of(known->x, known->who, &meta);
    session_doc_locked(txn, core, session);
    record_note(
        txn, &(struct note){"mode", session->id, session->id, gate_mode_name(session->mode), "{}"},
        &meta);
    session_event_locked(core, session, "session.updated");
    ask_sweep_locked(core, session);
}

/* Answer with the existing session, in the stricter of both modes. */
static void answer_known_locked(struct core *core, struct session *session,
                                const struct known *known)
{
    struct known_work *work = calloc(1, sizeof *work);
    struct store_txn *txn = store_txn_new();
    if (work == NULL || txn == NULL) {
        free(work);
        store_txn_free(txn);
        idem_end_locked(core, known->idem, NULL);
        reply_audit_failed(known->x);
        return;
    }
    enum gate_mode stricter = session_stricter_mode(session->mode, known->mode);
    bool is_changed = stricter != session->mode || known->has_new_rules;
    *work = (struct known_work){.core = core, .x = known->x, .idem = known->idem};
    memcpy(work->session, session->id, sizeof work->session);
    session->mode = stricter;
    session->mode_version += is_changed;
    session_json_locked(core, session, &work->body);
    if (is_changed) {
        record_mode_locked(core, session, txn, known);
    }
    if (known->idem != NULL) {
        idem_doc(txn, known->idem, session->id);
    }
    if (!is_changed && known->idem == NULL) {
        store_txn_free(txn);
        known_done(GH_OK, work);
        return;
    }
    store_commit(core->options.store, &txn, known_done, work);
}

/* ---- being born ---- */

static void answer_openings_locked(struct core *core, struct session *session,
                                   struct auth_token *who, bool is_ok)
{
    struct opening *opening = gh_steal(&session->openings);
    while (opening != NULL) {
        struct opening *next = opening->next;
        if (is_ok) {
            answer_known_locked(
                core, session,
                &(struct known){opening->x, who, opening->mode, false, opening->idem});
        } else {
            idem_end_locked(core, opening->idem, NULL);
            reply_audit_failed(opening->x);
        }
        free(opening);
        opening = next;
    }
}

static void born(enum gh_code code, void *cookie)
{
    struct open_work *work = cookie;
    struct core *core = work->core;
    struct session *session = work->session;
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    char location[GH_ID + 32];
    pthread_mutex_lock(&core->lock);
    snprintf(location, sizeof location, "/v1/sessions/%s", session->id);
    idem_end_locked(core, work->idem, code == GH_OK ? session->id : NULL);
    if (code == GH_OK) {
        session->is_born = true;
        session_json_locked(core, session, &body);
        session_event_locked(core, session, "session.opened");
        answer_openings_locked(core, session, &work->who, true);
    } else {
        answer_openings_locked(core, session, &work->who, false);
        gh_map_remove(&core->sessions, session->id);
        session_unname_locked(core, session);
        session_free(session);
    }
    pthread_mutex_unlock(&core->lock);
    if (code != GH_OK) {
        reply_audit_failed(work->x);
    } else {
        const struct http_header header = {"Location", location};
        http_reply(work->x, 201, &body, &header, 1);
    }
    open_free(work);
}

static char *deny_list_json(const struct open_work *work)
{
    struct gh_buf text = GH_BUF_INIT;
    struct gh_jw w = {&text, false};
    gh_jw_arr(&w, NULL);
    for (size_t i = 0; i < work->n_deny_paths; i++) {
        gh_jw_str(&w, NULL, work->deny_paths[i]);
    }
    gh_jw_arr_end(&w);
    return gh_buf_take(&text);
}

static char *member_json(const struct json_t *obj, const char *key)
{
    const struct json_t *value = gh_json_get(obj, key);
    if (gh_json_len(value) == 0) {
        return NULL;
    }
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_json_canonical(value, &text);
    return gh_buf_take(&text);
}

/* What the principal left behind here: taint that was not cleared, a plan mode not released. */
bool session_inherit_locked(struct core *core, struct session *session)
{
    const struct trace *trace =
        trace_of_locked(core, session->owner, session->place->working_dir, false);
    if (trace == NULL) {
        return true;
    }
    if (trace->is_plan) {
        session->mode = GATE_PLAN;
        session->is_plan_by_approver = true;
    }
    if (trace->is_tainted && !session->is_tainted) {
        session->is_tainted = taint_copy(&session->taint, &trace->taint);
        return session->is_tainted;
    }
    return true;
}

static struct session *make_session_locked(struct open_work *work)
{
    struct core *core = work->core;
    struct session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return NULL;
    }
    gh_id_new("ses", session->id);
    snprintf(session->owner, sizeof session->owner, "%s", work->who.name);
    session->agent = strdup(work->agent != NULL ? work->agent : "");
    session->title = strdup(work->title != NULL ? work->title : "");
    session->deny_json = deny_list_json(work);
    session->external = gh_steal(&work->external);
    session->external_json = member_json(work->json, "external");
    session->client_json = member_json(work->json, "client");
    session->mode = work->mode;
    session->is_active = true;
    session->created_ms = gh_clock_wall_ms();
    session->ended_ms = -1;
    session->place = gh_steal(&work->place);
    session->ask_timeout_ms = work->ask_timeout_ms > 0
                                  ? work->ask_timeout_ms
                                  : session->place->policy->config->asks.timeout_s * 1000;
    bool is_whole = session->agent != NULL && session->title != NULL &&
                    session->deny_json != NULL && session_inherit_locked(core, session) &&
                    gh_map_put(&core->sessions, session->id, session);
    if (is_whole && session->external != NULL &&
        !gh_map_put(&core->externals, session->external, session)) {
        gh_map_remove(&core->sessions, session->id);
        is_whole = false;
    }
    if (!is_whole) {
        session_free(session);
        return NULL;
    }
    grants_seed(session);
    return session;
}

static size_t count_active_locked(struct core *core, const char *owner)
{
    size_t n = 0;
    size_t at = 0;
    for (const struct session *session = gh_map_next(&core->sessions, &at); session != NULL;
         session = gh_map_next(&core->sessions, &at)) {
        n += session->is_active && strcmp(session->owner, owner) == 0;
    }
    return n;
}

/* Takes `work` on success. */
static enum gh_code create_locked(struct open_work *work, struct gh_err *err)
{
    struct core *core = work->core;
    struct meta meta;
    if (count_active_locked(core, work->who.name) >= MAX_ACTIVE_PER_TOKEN) {
        return gh_fail(err, GH_LIMIT, "This token has %d active sessions; end some of them.",
                       MAX_ACTIVE_PER_TOKEN);
    }
    struct store_txn *txn = store_txn_new();
    work->session = txn != NULL ? make_session_locked(work) : NULL;
    if (work->session == NULL) {
        store_txn_free(txn);
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the session.");
    }
    meta_of(work->x, &work->who, &meta);
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    session_json_locked(core, work->session, &body);
    record_note(txn,
                &(struct note){"session", work->session->id, work->session->id, "opened",
                               gh_buf_str(&body)},
                &meta);
    session_doc_locked(txn, core, work->session);
    if (work->idem != NULL) {
        idem_doc(txn, work->idem, work->session->id);
    }
    store_commit(core->options.store, &txn, born, work);
    return GH_OK;
}

/* The external id is being born right now: wait for it. */
static bool join_opening_locked(struct session *session, const struct open_work *work)
{
    struct opening *opening = malloc(sizeof *opening);
    if (opening == NULL) {
        return false;
    }
    *opening = (struct opening){work->x, work->mode, work->idem, session->openings};
    session->openings = opening;
    return true;
}

/* True when `work` was taken over; otherwise it was answered and the caller frees it. */
static bool open_locked(struct open_work *work)
{
    struct core *core = work->core;
    struct gh_err err;
    struct session *known =
        work->external != NULL ? gh_map_find(&core->externals, work->external) : NULL;
    bool has_new_rules = false;
    if (known != NULL && known->is_born) {
        if (!session_add_rules_locked(core, known, work->deny_paths, work->n_deny_paths,
                                      &has_new_rules, &err)) {
            idem_end_locked(core, work->idem, NULL);
            http_problem(work->x, &err, NULL);
            return false;
        }
        answer_known_locked(
            core, known,
            &(struct known){work->x, &work->who, work->mode, has_new_rules, work->idem});
        return false;
    }
    if (known != NULL) {
        if (!join_opening_locked(known, work)) {
            idem_end_locked(core, work->idem, NULL);
            reply_audit_failed(work->x);
        }
        return false;
    }
    if (create_locked(work, &err) != GH_OK) {
        idem_end_locked(core, work->idem, NULL);
        http_problem(work->x, &err, NULL);
        return false;
    }
    return true;
}

/* An ended session of this external id comes back, without grants. */
static struct session *revive_locked(struct core *core, const char *external)
{
    size_t at = 0;
    struct session *found = NULL;
    for (struct session *session = gh_map_next(&core->sessions, &at); session != NULL;
         session = gh_map_next(&core->sessions, &at)) {
        if (!session->is_active && session->external != NULL &&
            strcmp(session->external, external) == 0 &&
            (found == NULL || strcmp(session->id, found->id) > 0)) {
            found = session;
        }
    }
    return found;
}

/* Look at the folder under the policy in force; a reload meanwhile means looking again. Returns
 * with the lock held. */
static enum gh_code look_and_lock(struct open_work *work, struct gh_err *err)
{
    struct core *core = work->core;
    for (;;) {
        enum gh_code code = place_new(core, work->policy, work->working_dir, work->deny_paths,
                                      work->n_deny_paths, &work->place, err);
        if (code == GH_OK && work->external != NULL) {
            session_recall(core, work->external);
        }
        pthread_mutex_lock(&core->lock);
        if (work->policy == core->policy) {
            return code;
        }
        policy_unref(work->policy);
        work->policy = policy_ref(core->policy);
        pthread_mutex_unlock(&core->lock);
        place_unrefp(&work->place);
    }
}

/* On the pool: look at the folder, find an ended session, then open. */
static void open_on_pool(void *cookie)
{
    struct open_work *work = cookie;
    struct core *core = work->core;
    struct gh_err err;
    enum gh_code code = look_and_lock(work, &err);
    bool is_taken = false;
    bool has_new_rules = false;
    struct session *ended = NULL;
    if (code == GH_OK && work->external != NULL &&
        gh_map_find(&core->externals, work->external) == NULL) {
        ended = revive_locked(core, work->external);
    }
    if (code != GH_OK) {
        idem_end_locked(core, work->idem, NULL);
        http_problem(work->x, &err, NULL);
    } else if (ended != NULL && count_active_locked(core, work->who.name) < MAX_ACTIVE_PER_TOKEN &&
               session_add_rules_locked(core, ended, work->deny_paths, work->n_deny_paths,
                                        &has_new_rules, &err) &&
               session_reopen_locked(core, ended)) {
        answer_reopened_locked(core, ended, work->mode, work->x, &work->who, work->idem);
    } else {
        is_taken = open_locked(work);
    }
    pthread_mutex_unlock(&core->lock);
    if (!is_taken) {
        open_free(work);
    }
}

/* ---- entry ---- */

/* Idempotency first; false when it was answered. */
static bool admit_locked(struct open_work *work)
{
    struct core *core = work->core;
    unsigned char body[GH_SHA256];
    if (http_header(work->x, "Idempotency-Key") == NULL) {
        return true;
    }
    idem_body(work->x, body);
    enum idem_result result = idem_begin_locked(core, work->x, &work->who, body, &work->idem);
    if (result == IDEM_REPLAY) {
        char id[GH_ID];
        memcpy(id, work->idem->object, sizeof id);
        core_session_get(core, work->x, &work->who, id);
    }
    return result == IDEM_NEW || result == IDEM_NONE;
}

void core_session_open(struct core *core, struct http_exchange *x, const struct auth_token *who)
{
    struct gh_err err;
    struct open_work *work = calloc(1, sizeof *work);
    if (work == NULL) {
        gh_fail(&err, GH_NOMEM, "There is not enough memory for the session.");
        http_problem(x, &err, NULL);
        return;
    }
    *work = (struct open_work){.core = core, .x = x, .who = *who};
    pthread_mutex_lock(&core->lock);
    work->policy = policy_ref(core->policy);
    pthread_mutex_unlock(&core->lock);
    if (parse_open(work, &err) != GH_OK) {
        http_problem(x, &err, NULL);
        open_free(work);
        return;
    }
    pthread_mutex_lock(&core->lock);
    bool is_admitted = admit_locked(work);
    pthread_mutex_unlock(&core->lock);
    if (!is_admitted) {
        open_free(work);
        return;
    }
    if (gh_pool_run(core->options.pool, open_on_pool, work, &err) != GH_OK) {
        pthread_mutex_lock(&core->lock);
        idem_end_locked(core, work->idem, NULL);
        pthread_mutex_unlock(&core->lock);
        http_problem(x, &err, NULL);
        open_free(work);
    }
}
