#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

#define FEEDBACK_BYTES 2000
#define MAX_EXTEND_MS ((int64_t)24 * 3600 * 1000)

/* ---- reading ---- */

/* A revision of another run is another thing: the run is part of it. */
static void etag_of(const struct core *core, uint64_t revision, char out[64])
{
    snprintf(out, 64, "\"%s-r%" PRIu64 "\"", core->run_id, revision);
}

void approval_reply_locked(struct core *core, const struct ask *ask, struct http_exchange *x)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    char etag[64];
    ask_json_locked(core, ask, ask->state != ASK_PENDING ? &ask->settlement : NULL, &body);
    etag_of(core, ask->revision, etag);
    const struct http_header header = {"ETag", etag};
    if (body.failed) {
        reply_json(x, 200, &body);
        return;
    }
    http_reply(x, 200, &body, &header, 1);
}

/* The revision in If-None-Match; false when there is none of ours. */
static bool seen_revision(const struct core *core, struct http_exchange *x, uint64_t *ret)
{
    const char *text = http_header(x, "If-None-Match");
    size_t n = strlen(core->run_id);
    char end = '\0';
    return text != NULL && text[0] == '"' && strncmp(text + 1, core->run_id, n) == 0 &&
           sscanf(text + 1 + n, "-r%" SCNu64 "%c", ret, &end) == 2 && end == '"';
}

void approval_not_modified(const struct core *core, struct http_exchange *x, uint64_t revision)
{
    char etag[64];
    etag_of(core, revision, etag);
    const struct http_header header = {"ETag", etag};
    struct gh_buf none = GH_BUF_INIT;
    http_reply(x, 304, &none, &header, 1);
}

static void get_locked(struct core *core, struct ask *ask, struct http_exchange *x,
                       const struct auth_token *who, int64_t wait_ms)
{
    struct wait wait = {.x = x, .kind = WAIT_APPROVAL, .who = *who, .ask = ask};
    wait.has_seen = seen_revision(core, x, &wait.seen);
    wait.is_holder = strcmp(who->name, ask->owner) == 0;
    ask_touch_locked(core, ask, who);
    bool is_unchanged = wait.has_seen && wait.seen == ask->revision;
    bool is_conditional = http_header(x, "If-None-Match") != NULL;
    bool may_hold = is_conditional ? is_unchanged : ask->state == ASK_PENDING;
    if (may_hold && wait_ms > 0 && wait_hold_locked(core, &wait, wait_ms, &ask->waits)) {
        return;
    }
    if (is_unchanged) {
        approval_not_modified(core, x, ask->revision);
    } else {
        approval_reply_locked(core, ask, x);
    }
}

void core_approval_get(struct core *core, struct http_exchange *x, const struct auth_token *who,
                       const char *id)
{
    struct gh_err err;
    int64_t wait_ms = 0;
    if (!query_wait_ms(x, &wait_ms, &err)) {
        http_problem(x, &err, NULL);
        return;
    }
    pthread_mutex_lock(&core->lock);
    struct ask *ask = ask_find_locked(core, who, id);
    if (ask != NULL) {
        get_locked(core, ask, x, who, wait_ms);
    }
    pthread_mutex_unlock(&core->lock);
    if (ask == NULL) {
        archived_approval(core, x, who, id);
    }
}

void core_approval_diff(struct core *core, struct http_exchange *x, const struct auth_token *who,
                        const char *id)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    pthread_mutex_lock(&core->lock);
    struct ask *ask = ask_find_locked(core, who, id);
    if (ask != NULL) {
        ask_touch_locked(core, ask, who);
        gh_buf_puts(&body, ask->texts);
    }
    pthread_mutex_unlock(&core->lock);
    if (ask == NULL) {
        archived_approval(core, x, who, id);
        return;
    }
    reply_json(x, 200, &body);
}

/* ---- settling by a person ---- */

struct put {
    struct core *core;
    struct http_exchange *x;
    struct auth_token who;
    struct ask *ask;     /* claimed: stays in memory */
    struct place *place; /* counted */
    bool is_grant;       /* asked for by a grant, not by a person */
    bool is_always;
    char *feedback;           /* owned */
    struct judged judged;     /* gathered again */
    struct card_session view; /* for the digest; no taint */
    bool is_changed;          /* its digest is not that of what was shown */
    enum gh_code code;        /* of the gathering */
};

enum gh_code put_parse(struct http_exchange *x, struct json_t **ret, struct put_body *body,
                       struct gh_err *err)
{
    static const char *const names[] = {"decision", "feedback", NULL};
    static const struct {
        const char *name;
        enum gate_decision decision;
    } words[] = {{"allow", GATE_ALLOW}, {"allow_always", GATE_ALLOW_ALWAYS}, {"deny", GATE_DENY}};
    size_t len = 0;
    const char *data = http_body(x, &len);
    const char *word = NULL;
    GH_TRY(gh_json_parse(data, len, ret, err));
    GH_TRY(gh_json_only(*ret, "", names, err));
    GH_TRY(gh_json_str(*ret, "", "decision", GH_NEED, 64, &word, err));
    GH_TRY(gh_json_str(*ret, "", "feedback", GH_OPTIONAL, 65536, &body->feedback, err));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].name, word) == 0) {
            body->decision = words[i].decision;
            return GH_OK;
        }
    }
    return gh_fail_at(err, GH_INVALID, "/decision", "It must be allow, allow_always or deny.");
}

/* At most FEEDBACK_BYTES, cut between characters. */
static char *copy_feedback(const char *text)
{
    if (text == NULL || text[0] == '\0') {
        return NULL;
    }
    size_t n = strlen(text);
    if (n > FEEDBACK_BYTES) {
        n = FEEDBACK_BYTES;
        while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) {
            n--;
        }
    }
    return strndup(text, n);
}

static const char *via_of(struct http_exchange *x)
{
    const char *agent = http_header(x, "User-Agent");
    if (http_header(x, "Sec-Fetch-Mode") != NULL ||
        (agent != NULL && strncmp(agent, "Mozilla/", 8) == 0)) {
        return "web";
    }
    if (agent != NULL && strncmp(agent, "gatehouse/", 10) == 0) {
        return "cli";
    }
    return "api";
}

/* If-Match against the digest; GH_OK when it is the one. */
enum gh_code put_check_match(struct http_exchange *x, const char *digest, struct gh_err *err)
{
    const char *match = http_header(x, "If-Match");
    if (match == NULL) {
        return gh_fail(err, GH_DIGEST_NEEDED,
                       "Send If-Match with the quoted digest of the approval as it was shown.");
    }
    size_t n = strlen(digest);
    bool is_same =
        match[0] == '"' && strncmp(match + 1, digest, n) == 0 && strcmp(match + 1 + n, "\"") == 0;
    if (!is_same && strcmp(match, digest) != 0) {
        return gh_fail(
            err, GH_DIGEST_MISMATCH,
            "What is being decided is not what If-Match names. Fetch the approval and look again.");
    }
    return GH_OK;
}

static bool is_same_answer(const struct ask *ask, enum gate_decision decision)
{
    return (ask->state == ASK_ALLOWED && decision == GATE_ALLOW) ||
           (ask->state == ASK_ALLOWED_ALWAYS && decision == GATE_ALLOW_ALWAYS) ||
           (ask->state == ASK_DENIED && decision == GATE_DENY);
}

static void ignore_outcome(enum gh_code code, void *cookie)
{
    (void)code;
    (void)cookie;
}

/* A late click changes nothing, but it is not lost either. */
void put_note_late(struct core *core, const char *session, const char *id,
                   const struct put_body *body, const struct meta *meta)
{
    struct store_txn *txn = store_txn_new();
    if (txn == NULL) {
        return;
    }
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    struct gh_jw w = {&text, false};
    gh_jw_obj(&w, NULL);
    gh_jw_bool(&w, "late", true);
    gh_jw_str(&w, "decision", gate_decision_name(body->decision));
    gh_jw_str(&w, "feedback", body->feedback);
    gh_jw_end(&w);
    record_note(txn, &(struct note){"note", session, id, "late", gh_buf_str(&text)}, meta);
    store_commit(core->options.store, &txn, ignore_outcome, NULL);
}

void approval_reply_settled_locked(struct core *core, const struct ask *ask,
                                   struct http_exchange *x)
{
    struct gh_err err;
    char when[GH_CLOCK_TEXT];
    gh_clock_format(ask->settled_ms, when);
    if (ask->state == ASK_EXPIRED) {
        gh_fail(&err, GH_EXPIRED, "Nobody answered in time: it was denied at %s.", when);
    } else {
        const char *by = ask->settlement.settled_by;
        gh_fail(&err, GH_SETTLED, "It is already %s, by %s (%s) at %s.", ask_state_name(ask->state),
                by[0] != '\0' ? by : gate_by_name(ask->settlement.answer.by),
                gate_reason_code(ask->settlement.answer.reason), when);
    }
    gh_auto(gh_buf_fini) struct gh_buf extra = GH_BUF_INIT;
    gh_buf_puts(&extra, "\"approval\":");
    ask_json_locked(core, ask, &ask->settlement, &extra);
    http_problem(x, &err, extra.failed ? NULL : gh_buf_str(&extra));
}

static bool make_person(struct settlement *how, enum gate_decision decision, const char *feedback)
{
    char text[FEEDBACK_BYTES + 512];
    bool is_deny = decision == GATE_DENY;
    const struct gate_verdict verdict = {
        .decision = decision,
        .tier = GATE_TIER_ASK,
        .by = GATE_BY_PERSON,
        .reason = is_deny ? GATE_R_DENIED_BY_PERSON : GATE_R_APPROVED,
    };
    const char *base = gate_reason_text(verdict.reason);
    if (feedback != NULL) {
        snprintf(text, sizeof text, "%s The person says: %s", base, feedback);
    } else {
        snprintf(text, sizeof text, "%s", base);
    }
    how->state = is_deny ? ASK_DENIED : decision == GATE_ALLOW ? ASK_ALLOWED : ASK_ALLOWED_ALWAYS;
    return answer_make(&how->answer, &verdict, text);
}

static void settle_by_person_locked(struct core *core, struct ask *ask, enum gate_decision decision,
                                    char **feedback, struct http_exchange *x,
                                    const struct auth_token *who)
{
    struct meta meta;
    struct settlement how = {0};
    meta_of(x, who, &meta);
    if (!make_person(&how, decision, *feedback)) {
        reply_audit_failed(x);
        settle_release_locked(core, ask);
        return;
    }
    how.feedback = gh_steal(feedback);
    snprintf(how.settled_by, sizeof how.settled_by, "%s", who->name);
    snprintf(how.via, sizeof how.via, "%s", via_of(x));
    settle_start_locked(core, ask, &how, x, &meta);
}

/* An operand file is not what the person saw: the answer stands, the call is denied. */
static void settle_changed_locked(struct put *put)
{
    struct ask *ask = put->ask;
    struct meta meta;
    struct settlement how = {.state = put->is_always ? ASK_ALLOWED_ALWAYS : ASK_ALLOWED};
    const struct gate_verdict verdict = {.decision = GATE_DENY,
                                         .tier = GATE_TIER_ASK,
                                         .by = GATE_BY_SYSTEM,
                                         .reason = GATE_R_OPERAND_CHANGED};
    meta_of(put->x, &put->who, &meta);
    char text[1024];
    struct judged as = ask->judged;
    as.total = verdict;
    judge_reason(ask->session, &as, text, sizeof text);
    if (!answer_make(&how.answer, &verdict, text)) {
        reply_audit_failed(put->x);
        settle_release_locked(put->core, ask);
        return;
    }
    snprintf(how.settled_by, sizeof how.settled_by, "%s", put->who.name);
    snprintf(how.via, sizeof how.via, "%s", via_of(put->x));
    settle_start_locked(put->core, ask, &how, put->x, &meta);
}

static void free_put(struct put *put)
{
    judged_fini(&put->judged);
    place_unref(put->place);
    free(put->feedback);
    free(put);
}

/* A grant covers it: nobody waits for the outcome. Anything but a plain yes leaves it to a person.
 */
static void finish_grant_locked(struct put *put)
{
    struct ask *ask = put->ask;
    struct settlement how = {.state = ASK_ALLOWED};
    judge_locked(ask->session, ask->call, &put->judged, false);
    if (put->code == GH_OK && !put->is_changed && !ask->is_unwanted && !ask->is_over &&
        put->judged.total.decision == GATE_ALLOW_ALWAYS &&
        answer_make(&how.answer, &put->judged.total, gate_reason_text(GATE_R_GRANTED))) {
        settle_start_locked(put->core, ask, &how, NULL, NULL);
        return;
    }
    settle_release_locked(put->core, ask);
}

/* Back from the pool: judge tiers 1 to 5 with what the file system says now, then settle. What the
 * gate refuses now is cancelled, whoever clicked. */
static void finish_put_locked(struct put *put)
{
    struct ask *ask = put->ask;
    struct gh_err err;
    struct meta meta;
    meta_of(put->x, &put->who, &meta);
    if (put->code != GH_OK) {
        gh_fail(&err, GH_CONFLICT,
                "The target cannot be looked at any more, so it cannot be allowed.");
        http_problem(put->x, &err, NULL);
        settle_release_locked(put->core, ask);
        return;
    }
    judge_locked(ask->session, ask->call, &put->judged, false);
    if (ask->is_over) { /* the second look took longer than there was time */
        gh_fail(&err, GH_EXPIRED, "Its time ended before it could be allowed.");
        http_problem(put->x, &err, NULL);
        settle_release_locked(put->core, ask);
    } else if (ask->is_unwanted) {
        const struct gate_verdict unwanted = {.tier = ask->unwanted_tier,
                                              .reason = ask->unwanted_reason};
        settle_refuse_locked(put->core, ask, &unwanted, put->x, &meta);
    } else if (put->judged.total.decision == GATE_DENY) {
        settle_refuse_locked(put->core, ask, &put->judged.total, put->x, &meta);
    } else if (put->is_changed) {
        settle_changed_locked(put);
    } else {
        settle_by_person_locked(put->core, ask, put->is_always ? GATE_ALLOW_ALWAYS : GATE_ALLOW,
                                &put->feedback, put->x, &put->who);
    }
}

static void gather(struct put *put)
{
    struct gh_err err;
    /* The claim keeps the call in place without the lock. */
    put->code = judge_gather(put->place, put->ask->call, &put->judged, &err);
    if (put->code != GH_OK) {
        return;
    }
    struct card card;
    put->code = card_make(&put->view, put->place, put->ask->call, &put->judged, &card, &err);
    if (put->code == GH_OK) {
        put->is_changed = strcmp(card.digest, put->ask->digest) != 0;
        card_fini(&card);
    }
}

/* Rules that were replaced while the files were looked at: look again under the new ones. */
static bool is_stale_locked(struct put *put)
{
    const struct session *session = put->ask->session;
    if (session->place == put->place) {
        return false;
    }
    place_unref(put->place);
    put->place = place_ref(session->place);
    judged_fini(&put->judged);
    return true;
}

static void gather_again(void *cookie)
{
    struct put *put = cookie;
    gather(put);
    pthread_mutex_lock(&put->core->lock);
    while (is_stale_locked(put)) {
        pthread_mutex_unlock(&put->core->lock);
        gather(put);
        pthread_mutex_lock(&put->core->lock);
    }
    if (put->is_grant) {
        finish_grant_locked(put);
    } else {
        finish_put_locked(put);
    }
    pthread_mutex_unlock(&put->core->lock);
    free_put(put);
}

void approval_grant_locked(struct core *core, struct ask *ask)
{
    struct gh_err err;
    struct put *put = calloc(1, sizeof *put);
    if (put == NULL) {
        return; /* a person can still answer it */
    }
    *put = (struct put){
        .core = core, .ask = ask, .place = place_ref(ask->session->place), .is_grant = true};
    memcpy(put->view.id, ask->session_id, sizeof put->view.id);
    ask->is_settling = true;
    if (gh_pool_run(core->options.pool, gather_again, put, &err) != GH_OK) {
        free_put(put);
        settle_release_locked(core, ask);
    }
}

static void claim_allow_locked(struct core *core, struct ask *ask, const struct put_body *body,
                               struct http_exchange *x, const struct auth_token *who)
{
    struct gh_err err;
    struct put *put = calloc(1, sizeof *put);
    if (put == NULL) {
        reply_audit_failed(x);
        return;
    }
    *put = (struct put){.core = core,
                        .x = x,
                        .who = *who,
                        .ask = ask,
                        .place = place_ref(ask->session->place),
                        .is_always = body->decision == GATE_ALLOW_ALWAYS,
                        .feedback = copy_feedback(body->feedback)};
    memcpy(put->view.id, ask->session_id, sizeof put->view.id);
    ask->is_settling = true;
    if (gh_pool_run(core->options.pool, gather_again, put, &err) != GH_OK) {
        http_problem(x, &err, NULL);
        free_put(put);
        settle_release_locked(core, ask);
    }
}

static void defer_locked(struct ask *ask, struct http_exchange *x, const struct auth_token *who)
{
    struct deferred *deferred = malloc(sizeof *deferred);
    if (deferred == NULL) {
        reply_audit_failed(x);
        return;
    }
    struct deferred **at = &ask->deferred;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *deferred = (struct deferred){x, *who, NULL};
    *at = deferred;
}

static void put_pending_locked(struct core *core, struct ask *ask, const struct put_body *body,
                               struct http_exchange *x, const struct auth_token *who)
{
    struct gh_err err;
    if (body->decision == GATE_ALLOW_ALWAYS && !ask->may_remember) {
        gh_fail_at(&err, GH_NOT_OFFERED, "/decision", "\"allow_always\" is not offered for this.");
        http_problem(x, &err, NULL);
    } else if (body->decision == GATE_DENY) {
        gh_autofree char *feedback = copy_feedback(body->feedback);
        settle_by_person_locked(core, ask, GATE_DENY, &feedback, x, who);
    } else {
        claim_allow_locked(core, ask, body, x, who);
    }
}

/* The contract's order: body, 428, 412, then the state. The ask exists. */
void settle_put_locked(struct core *core, struct ask *ask, struct http_exchange *x,
                       const struct auth_token *who)
{
    gh_auto(gh_json_freep) struct json_t *json = NULL;
    struct put_body body = {0};
    struct gh_err err;
    struct meta meta;
    if (put_parse(x, &json, &body, &err) != GH_OK ||
        put_check_match(x, ask->digest, &err) != GH_OK) {
        http_problem(x, &err, NULL);
    } else if (core->is_stopping) {
        gh_fail(&err, GH_STOPPING, "The service is shutting down.");
        http_problem(x, &err, NULL);
    } else if (ask->is_settling) {
        defer_locked(ask, x, who);
    } else if (strcmp(who->name, ask->owner) == 0) {
        gh_fail(&err, GH_FORBIDDEN, "The one who asked cannot answer.");
        http_problem(x, &err, NULL);
    } else if (ask->state == ASK_PENDING && !ask->is_over) {
        put_pending_locked(core, ask, &body, x, who);
    } else if (is_same_answer(ask, body.decision)) {
        approval_reply_locked(core, ask, x);
    } else if (ask->state == ASK_PENDING) {
        meta_of(x, who, &meta);
        put_note_late(core, ask->session_id, ask->id, &body, &meta);
        gh_fail(&err, GH_EXPIRED, "Nobody answered in time.");
        http_problem(x, &err, NULL);
    } else {
        meta_of(x, who, &meta);
        put_note_late(core, ask->session_id, ask->id, &body, &meta);
        approval_reply_settled_locked(core, ask, x);
    }
}

void core_approval_settle(struct core *core, struct http_exchange *x, const struct auth_token *who,
                          const char *id)
{
    pthread_mutex_lock(&core->lock);
    struct ask *ask = ask_find_locked(core, who, id);
    if (ask != NULL) {
        settle_put_locked(core, ask, x, who);
    }
    pthread_mutex_unlock(&core->lock);
    if (ask == NULL) {
        archived_approval(core, x, who, id);
    }
}
