#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

#define LIFE_MS ((int64_t)24 * 3600 * 1000)
#define MAX_KEPT 200000

void idem_body(struct http_exchange *x, unsigned char ret[GH_SHA256])
{
    size_t len = 0;
    const char *data = http_body(x, &len);
    gh_id_sha256(data, len, ret);
}

/* SHA-256 of token, method, full path and key. */
static void scope_of(struct http_exchange *x, const struct auth_token *who, const char *key,
                     char out[GH_HEX])
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_buf_printf(&text, "%s\n%s\n%s\n%s", who->id, http_method_name(x), http_path(x), key);
    unsigned char digest[GH_SHA256];
    gh_id_sha256(gh_buf_str(&text), text.len, digest);
    gh_id_hex(digest, out);
}

static void forget_oldest_locked(struct core *core, int64_t now_ms)
{
    struct idem *first = core->idem_first;
    while (first != NULL && first->object[0] != '\0' &&
           (first->at_ms + LIFE_MS < now_ms || core->idems.n_used > MAX_KEPT)) {
        core->idem_first = first->next;
        if (core->idem_first == NULL) {
            core->idem_last = &core->idem_first;
        }
        gh_map_remove(&core->idems, first->scope);
        free(first);
        first = core->idem_first;
    }
}

static struct idem *add_locked(struct core *core, const char *scope,
                               const unsigned char body[GH_SHA256], int64_t at_ms)
{
    struct idem *idem = calloc(1, sizeof *idem);
    if (idem == NULL) {
        return NULL;
    }
    snprintf(idem->scope, sizeof idem->scope, "%s", scope);
    memcpy(idem->body, body, GH_SHA256);
    idem->at_ms = at_ms;
    if (!gh_map_put(&core->idems, idem->scope, idem)) {
        free(idem);
        return NULL;
    }
    *core->idem_last = idem;
    core->idem_last = &idem->next;
    return idem;
}

/* Answer the misuse of a known key; IDEM_REPLAY when it is used right. */
static enum idem_result check_known(struct idem *idem, const unsigned char body[GH_SHA256],
                                    struct http_exchange *x, struct idem **ret)
{
    struct gh_err err;
    if (!gh_id_equal(idem->body, body, GH_SHA256)) {
        gh_fail(&err, GH_KEY_REUSED, "This Idempotency-Key came with another body before.");
        http_problem(x, &err, NULL);
        return IDEM_ANSWERED;
    }
    if (idem->object[0] == '\0') {
        gh_fail(&err, GH_IN_PROGRESS,
                "The first request with this Idempotency-Key is still being worked on.");
        const struct http_header retry = {"Retry-After", "1"};
        http_problem_with(x, &err, NULL, &retry, 1);
        return IDEM_ANSWERED;
    }
    *ret = idem;
    return IDEM_REPLAY;
}

enum idem_result idem_begin_locked(struct core *core, struct http_exchange *x,
                                   const struct auth_token *who,
                                   const unsigned char body[GH_SHA256], struct idem **ret)
{
    const char *key = http_header(x, "Idempotency-Key");
    if (key == NULL) {
        return IDEM_NONE;
    }
    struct gh_err err;
    if (key[0] == '\0' || strlen(key) > 255) {
        gh_fail(&err, GH_BAD_REQUEST, "An Idempotency-Key has 1 to 255 characters.");
        http_problem(x, &err, NULL);
        return IDEM_ANSWERED;
    }
    int64_t now_ms = gh_clock_wall_ms();
    forget_oldest_locked(core, now_ms);
    char scope[GH_HEX];
    scope_of(x, who, key, scope);
    struct idem *known = gh_map_find(&core->idems, scope);
    if (known != NULL) {
        return check_known(known, body, x, ret);
    }
    *ret = add_locked(core, scope, body, now_ms);
    if (*ret == NULL) {
        gh_fail(&err, GH_NOMEM, "There is not enough memory.");
        http_problem(x, &err, NULL);
        return IDEM_ANSWERED;
    }
    return IDEM_NEW;
}

void idem_doc(struct store_txn *txn, const struct idem *idem, const char *object)
{
    char body_hex[GH_HEX];
    gh_id_hex(idem->body, body_hex);
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "body", body_hex);
    gh_jw_str(&w, "object", object);
    gh_jw_end(&w);
    const struct store_doc doc = {STORE_IDEMPOTENCY, idem->scope,      "", "", "",
                                  idem->at_ms,       gh_buf_str(&body)};
    store_txn_put(txn, &doc);
}

void idem_end_locked(struct core *core, struct idem *idem, const char *object)
{
    if (idem == NULL) {
        return;
    }
    if (object != NULL) {
        snprintf(idem->object, sizeof idem->object, "%s", object);
        return;
    }
    /* Nothing was created: the key is free again. */
    struct idem **at = &core->idem_first;
    while (*at != NULL && *at != idem) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = idem->next;
        if (core->idem_last == &idem->next) {
            core->idem_last = at;
        }
    }
    gh_map_remove(&core->idems, idem->scope);
    free(idem);
}

enum gh_code idem_load(struct core *core, const struct store_row *row)
{
    if (row->created_ms + LIFE_MS < gh_clock_wall_ms() || core->idems.n_used >= MAX_KEPT) {
        return GH_OK;
    }
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    struct gh_err err;
    GH_TRY(gh_json_parse(row->body, strlen(row->body), &body, &err));
    unsigned char hash[GH_SHA256];
    const char *object = gh_json_text(gh_json_get(body, "object"));
    if (object == NULL || !gh_id_unhex(gh_json_text(gh_json_get(body, "body")), hash)) {
        return GH_OK;
    }
    struct idem *idem = add_locked(core, row->id, hash, row->created_ms);
    if (idem == NULL) {
        return GH_NOMEM;
    }
    snprintf(idem->object, sizeof idem->object, "%s", object);
    return GH_OK;
}

void idems_free(struct core *core)
{
    struct idem *next = NULL;
    for (struct idem *idem = core->idem_first; idem != NULL; idem = next) {
        next = idem->next;
        free(idem);
    }
    gh_map_fini(&core->idems);
}
