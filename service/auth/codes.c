#include "auth/codes.h"

#include <string.h>

#include "auth/record.h"

void codes_init(struct codes *codes)
{
    memset(codes, 0, sizeof *codes);
    pthread_mutex_init(&codes->lock, NULL);
}

void codes_fini(struct codes *codes)
{
    pthread_mutex_destroy(&codes->lock);
}

/* A free place, or one whose code has died. */
static struct code *find_place(struct codes *codes, int64_t now_ms)
{
    for (size_t i = 0; i < CODES_OPEN; i++) {
        if (codes->all[i].role == AUTH_NONE || codes->all[i].dies_ms <= now_ms) {
            return &codes->all[i];
        }
    }
    return NULL;
}

enum gh_code codes_new(struct codes *codes, enum auth_role role, int64_t now_ms, char ret_code[40],
                       struct gh_err *err)
{
    struct code code = {.role = role, .dies_ms = now_ms + CODES_LIFE_MS};
    record_random(ret_code, CODES_CHARS);
    gh_id_sha256(ret_code, CODES_CHARS, code.digest);
    pthread_mutex_lock(&codes->lock);
    struct code *place = find_place(codes, now_ms);
    if (place != NULL) {
        *place = code;
    }
    pthread_mutex_unlock(&codes->lock);
    if (place == NULL) {
        explicit_bzero(ret_code, CODES_CHARS);
        return gh_fail(err, GH_LIMIT, "%d login codes are open; each dies after %d seconds.",
                       CODES_OPEN, CODES_LIFE_MS / 1000);
    }
    return GH_OK;
}

enum auth_role codes_take(struct codes *codes, const char *code, int64_t now_ms)
{
    unsigned char digest[GH_SHA256];
    enum auth_role role = AUTH_NONE;
    gh_id_sha256(code, strnlen(code, CODES_CHARS + 1), digest);
    pthread_mutex_lock(&codes->lock);
    /* Every place is looked at, so that the time says nothing about which one matched. */
    for (size_t i = 0; i < CODES_OPEN; i++) {
        struct code *at = &codes->all[i];
        bool is_match = gh_id_equal(at->digest, digest, GH_SHA256);
        if (is_match && at->role != AUTH_NONE) {
            role = at->dies_ms > now_ms ? at->role : AUTH_NONE;
            memset(at, 0, sizeof *at);
        }
    }
    pthread_mutex_unlock(&codes->lock);
    return role;
}
