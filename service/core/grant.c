#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

#define TICKET_LIFE_MS (15 * 60 * 1000)

static void free_grant(struct grant *grant)
{
    gh_buf_fini(&grant->key);
    free(grant->target);
    free(grant);
}

void grants_free(struct session *session)
{
    while (session->grants != NULL) {
        grant_remove(session, session->grants);
    }
}

void grant_remove(struct session *session, struct grant *grant)
{
    struct grant **at = &session->grants;
    while (*at != NULL && *at != grant) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = grant->next;
        session->n_grants--;
        free_grant(grant);
    }
}

struct grant *grant_find(const struct session *session, const struct gh_buf *key)
{
    for (struct grant *grant = session->grants; grant != NULL; grant = grant->next) {
        if (!grant->is_ticket && grant->key.len == key->len &&
            memcmp(grant->key.data, key->data, key->len) == 0) {
            return grant;
        }
    }
    return NULL;
}

struct grant *ticket_find(const struct session *session, const char *digest)
{
    int64_t now_ms = gh_clock_boot_ms();
    for (struct grant *grant = session->grants; grant != NULL; grant = grant->next) {
        if (grant->is_ticket && now_ms < grant->expires_at_ms &&
            strcmp(gh_buf_str(&grant->key), digest) == 0) {
            return grant;
        }
    }
    return NULL;
}

/* A fresh grant at the head of the list; NULL without memory or room: the call is asked again. */
static struct grant *add(struct session *session, const char *target)
{
    if (session->n_grants >= MAX_GRANTS) {
        return NULL;
    }
    struct grant *grant = calloc(1, sizeof *grant);
    if (grant == NULL) {
        return NULL;
    }
    grant->target = strdup(target);
    if (grant->target == NULL) {
        free_grant(grant);
        return NULL;
    }
    gh_id_new("grt", grant->id);
    grant->created_ms = gh_clock_wall_ms();
    grant->next = session->grants;
    session->grants = grant;
    session->n_grants++;
    return grant;
}

void grant_add_locked(struct session *session, const struct judged_part *part,
                      enum gate_action action, const char *by, const char *decision)
{
    if (grant_find(session, &part->key) != NULL) {
        return;
    }
    struct grant *grant = add(session, gh_buf_str(&part->target));
    if (grant == NULL) {
        return;
    }
    gh_buf_put(&grant->key, part->key.data, part->key.len);
    grant->action = action;
    snprintf(grant->by, sizeof grant->by, "%s", by);
    snprintf(grant->decision, sizeof grant->decision, "%s", decision);
    if (grant->key.failed) {
        grant_remove(session, grant);
    }
}

void ticket_add_locked(struct session *session, const struct ask *ask, const char *by)
{
    struct grant *grant = add(session, gh_buf_str(&ask->judged.parts[0].target));
    if (grant == NULL) {
        return;
    }
    gh_buf_puts(&grant->key, ask->digest);
    grant->action = ask->call->parts[0].action;
    grant->is_ticket = true;
    grant->expires_at_ms = gh_clock_boot_ms() + TICKET_LIFE_MS;
    snprintf(grant->by, sizeof grant->by, "%s", by);
    snprintf(grant->decision, sizeof grant->decision, "%s", ask->decision);
    if (grant->key.failed) {
        grant_remove(session, grant);
    }
}

/* One seed from a configured command; its cwd is the session's working directory. */
static void seed(struct session *session, const struct config_command *command)
{
    size_t n_args = 0;
    while (command->args != NULL && command->args[n_args] != NULL) {
        n_args++;
    }
    const struct gate_target target = {.form = GATE_COMMAND,
                                       .program = command->program,
                                       .args = (const char *const *)command->args,
                                       .n_args = n_args};
    const struct place *place = session->place;
    const struct gate_place where = {place->rules, &place->git, place->working_dir, place->home,
                                     NULL};
    struct judged_part part = {0};
    struct gh_err err;
    if (gate_facts_gather(&where, GATE_EXECUTE, &target, &part.facts, &err) != GH_OK) {
        return;
    }
    gate_facts_target_json(&part.facts, &target, &part.target);
    gate_facts_key(&part.facts, GATE_EXECUTE, &target, "run_command", "", &part.key);
    if (!part.key.failed && !part.target.failed && grant_find(session, &part.key) == NULL) {
        grant_add_locked(session, &part, GATE_EXECUTE, "configuration", "");
        struct grant *grant = grant_find(session, &part.key);
        if (grant != NULL) {
            grant->is_seed = true;
        }
    }
    gate_facts_fini(&part.facts);
    gh_buf_fini(&part.target);
    gh_buf_fini(&part.key);
}

void grants_seed(struct session *session)
{
    const struct config *config = session->place->policy->config;
    for (size_t i = 0; i < config->permissions.n_allowed_commands; i++) {
        seed(session, &config->permissions.allowed_commands[i]);
    }
}

static void grant_json(const struct grant *grant, struct gh_jw *w)
{
    gh_jw_obj(w, NULL);
    gh_jw_str(w, "id", grant->id);
    gh_jw_str(w, "action", gate_action_name(grant->action));
    gh_jw_raw(w, "target", grant->target);
    gh_jw_bool(w, "seed", grant->is_seed);
    gh_jw_bool(w, "once", grant->is_ticket);
    gh_jw_int(w, "hits", (int64_t)grant->hits);
    gh_jw_str(w, "by", grant->by);
    gh_jw_str(w, "decision", grant->decision[0] != '\0' ? grant->decision : NULL);
    gh_jw_time(w, "created_at", grant->created_ms);
    gh_jw_time(w, "expires_at", grant->is_ticket ? grant->created_ms + TICKET_LIFE_MS : -1);
    gh_jw_end(w);
}

void core_grant_list(struct core *core, struct http_exchange *x, const struct auth_token *who,
                     const char *id)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    pthread_mutex_lock(&core->lock);
    const struct session *session = session_find_locked(core, who, id);
    if (session != NULL) {
        int64_t now_ms = gh_clock_boot_ms();
        gh_jw_obj(&w, NULL);
        gh_jw_arr(&w, "items");
        for (const struct grant *grant = session->grants; grant != NULL; grant = grant->next) {
            if (grant->expires_at_ms == 0 || now_ms < grant->expires_at_ms) {
                grant_json(grant, &w);
            }
        }
        gh_jw_arr_end(&w);
        gh_jw_null(&w, "next_cursor");
        gh_jw_end(&w);
    }
    pthread_mutex_unlock(&core->lock);
    if (session == NULL) {
        reply_not_found(x);
        return;
    }
    reply_json(x, 200, &body);
}

static void revoke_done(enum gh_code code, void *cookie)
{
    struct http_exchange *x = cookie;
    if (code != GH_OK) {
        reply_audit_failed(x);
        return;
    }
    struct gh_buf none = GH_BUF_INIT;
    http_reply(x, 204, &none, NULL, 0);
}

/* Stricter at once: the grant is gone before the record is durable, and stays gone. All of them
 * when `grant_id` is NULL. */
static bool revoke_locked(struct core *core, struct session *session, const char *grant_id,
                          struct http_exchange *x, const struct meta *meta)
{
    struct store_txn *txn = store_txn_new();
    struct grant *next = NULL;
    bool is_found = grant_id == NULL;
    for (struct grant *grant = session->grants; txn != NULL && grant != NULL; grant = next) {
        next = grant->next;
        if (grant_id != NULL && strcmp(grant->id, grant_id) != 0) {
            continue;
        }
        gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
        struct gh_jw w = {&body, false};
        grant_json(grant, &w);
        record_note(txn,
                    &(struct note){"grant", session->id, grant->id, "revoked", gh_buf_str(&body)},
                    meta);
        grant_remove(session, grant);
        is_found = true;
    }
    if (txn == NULL || !is_found) {
        store_txn_free(txn);
        return false;
    }
    store_commit(core->options.store, &txn, revoke_done, x);
    return true;
}

void core_grant_revoke(struct core *core, struct http_exchange *x, const struct auth_token *who,
                       const char *id, const char *grant_id)
{
    struct meta meta;
    meta_of(x, who, &meta);
    pthread_mutex_lock(&core->lock);
    struct session *session = session_find_locked(core, who, id);
    bool is_found = session != NULL && revoke_locked(core, session, grant_id, x, &meta);
    pthread_mutex_unlock(&core->lock);
    if (!is_found) {
        reply_not_found(x);
    }
}
