#include "auth/auth.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "auth/codes.h"
#include "auth/folder.h"
#include "auth/limiter.h"
#include "auth/roster.h"
#include "auth/watch.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"

#define LOGIN_LIFE_MS (12 * 3600 * 1000LL)
#define KEEP_DEAD_MS (30 * 86400000LL) /* how long a dead record stays listed */
#define MAX_HEADER 512                 /* bytes of an Authorization header that is looked at */

struct auth {
    char *state_dir;
    struct folder folder; /* opened once: what is watched is what is read */
    auth_dropped_fn *dropped;
    void *cookie;
    pthread_rwlock_t lock; /* guards `roster`, the pointer */
    struct roster *roster;
    pthread_mutex_t reload_lock; /* held from reading the folder to swapping the roster, so that an
                                    older reading never replaces a newer one */
    struct limiter *limiter;
    struct codes codes;
    atomic_ullong failures;
    atomic_bool is_lost; /* the folder went away; nothing is valid any more */
    struct watch *watch;
    struct roster *seen; /* watcher's thread only: what was looked at last */
    int64_t seen_ms;     /* and when, wall clock */
};

static void free_authp(struct auth **auth)
{
    auth_free(*auth);
}

static struct roster *hold_roster(struct auth *auth)
{
    pthread_rwlock_rdlock(&auth->lock);
    struct roster *roster = roster_hold(auth->roster);
    pthread_rwlock_unlock(&auth->lock);
    return roster;
}

/* Takes `records` over. */
static bool swap_roster(struct auth *auth, struct records *records)
{
    struct roster *fresh = roster_new(records);
    if (fresh == NULL) {
        return false;
    }
    pthread_rwlock_wrlock(&auth->lock);
    struct roster *old = auth->roster;
    auth->roster = fresh;
    pthread_rwlock_unlock(&auth->lock);
    roster_drop(old);
    return true;
}

static enum gh_code reload_as(struct auth *auth, enum folder_mood mood, struct gh_err *err)
{
    gh_auto(records_fini) struct records records = {NULL, 0, 0};
    pthread_mutex_lock(&auth->reload_lock);
    enum gh_code code = GH_OK;
    if (!atomic_load(&auth->is_lost)) {
        code = folder_read_all(&auth->folder, mood, &records, err);
    }
    if (code == GH_OK && !swap_roster(auth, &records)) {
        code = gh_fail(err, GH_NOMEM, "There is not enough memory for the tokens.");
    }
    pthread_mutex_unlock(&auth->reload_lock);
    return code;
}

/* ---- on the watcher's thread ---- */

/* The folder as a whole could not be read: nothing is valid. */
static void lock_out(struct auth *auth, const char *reason)
{
    gh_auto(records_fini) struct records none = {NULL, 0, 0};
    gh_log(GH_LOG_ERROR, "tokens_unreadable", "reason", reason, NULL);
    pthread_mutex_lock(&auth->reload_lock);
    if (!swap_roster(auth, &none)) {
        gh_log(GH_LOG_ERROR, "tokens_kept_for_want_of_memory", NULL);
    }
    pthread_mutex_unlock(&auth->reload_lock);
}

static bool on_reload(void *cookie, bool is_last)
{
    struct auth *auth = cookie;
    struct gh_err err = {0};
    enum gh_code code = reload_as(auth, is_last ? FOLDER_SKIP_ALL : FOLDER_SKIP, &err);
    if (code == GH_OK) {
        return true;
    }
    if (!is_last && (code == GH_BUSY || code == GH_NOMEM)) {
        return false;
    }
    lock_out(auth, err.detail);
    return true;
}

static void on_lost(void *cookie)
{
    struct auth *auth = cookie;
    if (!atomic_exchange(&auth->is_lost, true)) {
        lock_out(auth, "The tokens folder was moved or removed; start the service again.");
    }
}

static bool is_same(const struct record *a, const struct record *b)
{
    return a->token.role == b->token.role && gh_id_equal(a->digest, b->digest, GH_SHA256);
}

/* Tell of every token that opened something at the last look and does not now, and of those that
 * came and went in between. */
static void tell_dropped(struct auth *auth, const struct roster *now, int64_t now_ms)
{
    const struct records *before = &auth->seen->records;
    for (size_t i = 0; i < before->n; i++) {
        const struct record *old = &before->all[i];
        const struct record *new = roster_find_id(now, old->token.id);
        bool is_gone = new == NULL || !record_is_valid(new, now_ms) || !is_same(old, new);
        if (is_gone && record_is_valid(old, auth->seen_ms)) {
            auth->dropped(old->token.id, auth->cookie);
        }
    }
    for (size_t i = 0; i < now->records.n; i++) {
        const struct record *new = &now->records.all[i];
        if (!record_is_valid(new, now_ms) && roster_find_id(auth->seen, new->token.id) == NULL) {
            auth->dropped(new->token.id, auth->cookie);
        }
    }
}

static int64_t find_next_expiry(const struct roster *roster, int64_t now_ms)
{
    int64_t next_ms = -1;
    for (size_t i = 0; i < roster->records.n; i++) {
        const struct record *record = &roster->records.all[i];
        int64_t at_ms = record->token.expires_ms;
        if (record_is_valid(record, now_ms) && at_ms >= 0 && (next_ms < 0 || at_ms < next_ms)) {
            next_ms = at_ms;
        }
    }
    return next_ms;
}

/* Dead login tokens go at once; others stay listed for a while. The two own ones stay for ever:
 * their revoked record is what keeps them from being made again. */
static bool is_stale(const struct record *record, int64_t now_ms)
{
    const struct auth_token *token = &record->token;
    if (record_is_valid(record, now_ms) || record_is_own(token->name)) {
        return false;
    }
    int64_t died_ms = token->revoked_ms >= 0 ? token->revoked_ms : token->expires_ms;
    return token->is_login || died_ms + KEEP_DEAD_MS < now_ms;
}

/* With the lock, and only what is still the same record: its name may have been taken anew. */
static void remove_stale(struct auth *auth, const struct roster *roster, int64_t now_ms)
{
    gh_auto(folder_close) struct folder folder = FOLDER_INIT;
    for (size_t i = 0; i < roster->records.n; i++) {
        const struct record *record = &roster->records.all[i];
        struct record present;
        if (!is_stale(record, now_ms)) {
            continue;
        }
        /* Not waiting: a program that holds the lock must not hold revocations up. What it
         * changes leads to another look. */
        if (folder.fd < 0 && !folder_try_lock(&auth->folder, &folder)) {
            return;
        }
        if (folder_read(&folder, record->token.name, &present, NULL) == GH_OK &&
            strcmp(present.token.id, record->token.id) == 0 && is_stale(&present, now_ms) &&
            folder_remove(&folder, record->token.name, ".json", NULL) != GH_OK) {
            return;
        }
    }
}

static int64_t on_look(void *cookie)
{
    struct auth *auth = cookie;
    struct roster *roster = hold_roster(auth);
    int64_t now_ms = gh_clock_wall_ms();
    if (auth->seen != NULL) {
        tell_dropped(auth, roster, now_ms);
    }
    roster_drop(auth->seen);
    auth->seen = roster;
    auth->seen_ms = now_ms;
    if (!atomic_load(&auth->is_lost)) {
        remove_stale(auth, roster, now_ms);
    }
    return find_next_expiry(roster, now_ms);
}

/* ---- life ---- */

static void ignore_dropped(const char *token_id, void *cookie)
{
    (void)token_id;
    (void)cookie;
}

static enum gh_code make_locks(struct auth *auth, struct gh_err *err)
{
    pthread_rwlockattr_t attr;
    if (pthread_rwlockattr_init(&attr) != 0) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    /* A stream of requests must not hold a revocation up. */
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&auth->lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    pthread_mutex_init(&auth->reload_lock, NULL);
    codes_init(&auth->codes);
    return GH_OK;
}

/* Watch first, then read: what changes in between is read once more. */
static enum gh_code start(struct auth *auth, struct gh_err *err)
{
    gh_autofree char *path = NULL;
    if (asprintf(&path, "%s/tokens", auth->state_dir) < 0) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    struct watch_calls calls = {on_reload, on_lost, on_look, auth};
    GH_TRY(folder_open(auth->state_dir, &auth->folder, err));
    GH_TRY(watch_new(path, &calls, &auth->watch, err));
    GH_TRY(reload_as(auth, FOLDER_STRICT, err));
    /* What dies between here and the thread's first look is told of as well. */
    auth->seen = hold_roster(auth);
    auth->seen_ms = gh_clock_wall_ms();
    return watch_run(auth->watch, err);
}

enum gh_code auth_new(const char *state_dir, auth_dropped_fn *dropped, void *cookie,
                      struct auth **ret, struct gh_err *err)
{
    struct auth *bare = calloc(1, sizeof *bare);
    if (bare == NULL || make_locks(bare, err) != GH_OK) {
        free(bare);
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    gh_auto(free_authp) struct auth *auth = bare;
    auth->folder = FOLDER_INIT;
    auth->dropped = dropped != NULL ? dropped : ignore_dropped;
    auth->cookie = cookie;
    auth->state_dir = strdup(state_dir);
    if (auth->state_dir == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    GH_TRY(limiter_new(&auth->limiter, err));
    GH_TRY(start(auth, err));
    *ret = gh_steal(&auth);
    return GH_OK;
}

void auth_free(struct auth *auth)
{
    if (auth == NULL) {
        return;
    }
    watch_free(auth->watch);
    roster_drop(auth->seen);
    roster_drop(auth->roster);
    limiter_free(auth->limiter);
    codes_fini(&auth->codes);
    folder_close(&auth->folder);
    pthread_rwlock_destroy(&auth->lock);
    pthread_mutex_destroy(&auth->reload_lock);
    free(auth->state_dir);
    free(auth);
}

/* ---- checking ---- */

/* The credential in "Bearer CREDENTIAL", or NULL: the scheme in any case, one word, nothing behind
 * it. */
static const char *find_credential(const char *header, size_t *ret_len)
{
    size_t len = strnlen(header, MAX_HEADER + 1);
    if (len > MAX_HEADER || strncasecmp(header, "Bearer ", 7) != 0) {
        return NULL;
    }
    const char *credential = header + 7 + strspn(header + 7, " ");
    *ret_len = len - (size_t)(credential - header);
    return credential;
}

static bool find_token(struct auth *auth, const char *header, struct auth_token *ret)
{
    unsigned char digest[GH_SHA256];
    size_t len = 0;
    const char *secret = find_credential(header, &len);
    if (secret == NULL || !record_secret_valid(secret, len)) {
        return false;
    }
    gh_id_sha256(secret, len, digest);
    int64_t now_ms = gh_clock_wall_ms();
    pthread_rwlock_rdlock(&auth->lock);
    const struct record *record = roster_find(auth->roster, digest);
    bool is_found = record != NULL && record_is_valid(record, now_ms);
    if (is_found) {
        *ret = record->token;
    }
    pthread_rwlock_unlock(&auth->lock);
    return is_found;
}

static enum gh_code refuse(struct gh_err *err, const char *what)
{
    return gh_fail(err, GH_UNAUTHORIZED,
                   "%s Send \"Authorization: Bearer TOKEN\" with what is in "
                   "tokens/approver.token or tokens/agent.token in the state folder, or make one: "
                   "gatehouse token add.",
                   what);
}

/* A wrong guess of any kind. Neither the log nor the answer ever shows what was sent. */
static enum gh_code count_failure(struct auth *auth, const char *peer_key, const char *what,
                                  int *ret_retry_s, struct gh_err *err)
{
    int retry_s = 0;
    atomic_fetch_add(&auth->failures, 1);
    enum limiter_answer answer =
        limiter_fail(auth->limiter, peer_key, gh_clock_boot_ms(), &retry_s);
    if (answer == LIMITER_FIRST) {
        gh_log(GH_LOG_WARN, "auth_failed", "peer", peer_key, NULL);
    } else if (answer == LIMITER_REACHED) {
        gh_log(GH_LOG_WARN, "auth_limited", "peer", peer_key, NULL);
    }
    if (answer == LIMITER_REACHED || answer == LIMITER_OVER) {
        *ret_retry_s = retry_s;
        return gh_fail(err, GH_TOO_MANY,
                       "Too many wrong credentials came from here; a valid one still passes.");
    }
    return refuse(err, what);
}

enum gh_code auth_check(struct auth *auth, const char *authorization, const char *peer_key,
                        struct auth_token *ret, int *ret_retry_s, struct gh_err *err)
{
    if (authorization == NULL) {
        return refuse(err, "A token is needed."); /* nothing was guessed: not counted */
    }
    if (find_token(auth, authorization, ret)) {
        return GH_OK;
    }
    return count_failure(auth, peer_key, "The token is unknown, revoked or expired.", ret_retry_s,
                         err);
}

void auth_each(struct auth *auth, void (*fn)(const struct auth_token *token, void *cookie),
               void *cookie)
{
    gh_auto(roster_dropp) struct roster *roster = hold_roster(auth);
    for (size_t i = 0; i < roster->records.n; i++) {
        fn(&roster->records.all[i].token, cookie);
    }
}

uint64_t auth_failures(struct auth *auth)
{
    return atomic_load(&auth->failures);
}

/* ---- login ---- */

enum gh_code auth_code_new(struct auth *auth, enum auth_role role, char ret_code[40],
                           int64_t *ret_expires_ms, struct gh_err *err)
{
    if (role != AUTH_VIEWER && role != AUTH_APPROVER) {
        return gh_fail(err, GH_INVALID, "A login code is for a viewer or an approver.");
    }
    GH_TRY(codes_new(&auth->codes, role, gh_clock_boot_ms(), ret_code, err));
    *ret_expires_ms = gh_clock_wall_ms() + CODES_LIFE_MS;
    return GH_OK;
}

enum gh_code auth_code_redeem(struct auth *auth, const char *code, const char *peer_key,
                              char ret_secret[AUTH_SECRET], struct auth_token *ret,
                              int *ret_retry_s, struct gh_err *err)
{
    enum auth_role role = codes_take(&auth->codes, code, gh_clock_boot_ms());
    if (role == AUTH_NONE) {
        return count_failure(auth, peer_key, "The login code is wrong, used or expired.",
                             ret_retry_s, err);
    }
    if (atomic_load(&auth->is_lost)) {
        return gh_fail(err, GH_IO, "The tokens folder was moved or removed.");
    }
    char name[AUTH_NAME] = "login-";
    record_random(name + 6, 12);
    GH_TRY(auth_tokens_add(auth->state_dir, name, role, gh_clock_wall_ms() + LOGIN_LIFE_MS, true,
                           ret_secret, ret, err));
    /* The page uses the token at once, before the watcher would have seen it. */
    return reload_as(auth, FOLDER_SKIP, err);
}
