/* test_auth: the service's view: headers, the limiter, reloads, expiry, login codes. */
#include "room.h"

#include <pthread.h>
#include <stdatomic.h>

#include "auth/codes.h"
#include "auth/limiter.h"
#include "base/clock.h"

/* What the dropped callback was told. */
struct told {
    pthread_mutex_t lock;
    char ids[16][GH_ID];
    size_t n;
};

static void note_dropped(const char *id, void *cookie)
{
    struct told *told = cookie;
    pthread_mutex_lock(&told->lock);
    if (told->n < 16) {
        snprintf(told->ids[told->n++], GH_ID, "%s", id);
    }
    pthread_mutex_unlock(&told->lock);
}

struct scene {
    struct room room;
    struct told told;
    struct auth *auth;
};

static void scene_start(struct scene *scene)
{
    struct gh_err err = {0};
    memset(scene, 0, sizeof *scene);
    pthread_mutex_init(&scene->told.lock, NULL);
    room_enter(&scene->room);
    ck_assert_int_eq(auth_tokens_prepare(scene->room.dir, &err), GH_OK);
    enum gh_code code = auth_new(scene->room.dir, note_dropped, &scene->told, &scene->auth, &err);
    ck_assert_msg(code == GH_OK, "%s", err.detail);
}

static void scene_end(struct scene *scene)
{
    auth_free(scene->auth);
    room_leave(&scene->room);
    pthread_mutex_destroy(&scene->told.lock);
}

static enum gh_code check_text(struct auth *auth, const char *header, struct auth_token *ret)
{
    int retry_s = 0;
    struct gh_err err = {0};
    return auth_check(auth, header, "test", ret, &retry_s, &err);
}

static enum gh_code check_secret(struct auth *auth, const char *secret, struct auth_token *ret)
{
    char header[AUTH_SECRET + 16];
    snprintf(header, sizeof header, "Bearer %s", secret);
    return check_text(auth, header, ret);
}

/* A question for room_wait. */
struct question {
    struct scene *scene;
    const char *secret;
    enum gh_code want;
    const char *id;
    const char *file;
};

static bool is_answered(void *cookie)
{
    const struct question *q = cookie;
    struct auth_token token;
    enum gh_code code = check_secret(q->scene->auth, q->secret, &token);
    return code == q->want || (q->want == GH_UNAUTHORIZED && code == GH_TOO_MANY);
}

static bool is_told(void *cookie)
{
    const struct question *q = cookie;
    struct told *told = &q->scene->told;
    bool found = false;
    pthread_mutex_lock(&told->lock);
    for (size_t i = 0; i < told->n; i++) {
        found = found || strcmp(told->ids[i], q->id) == 0;
    }
    pthread_mutex_unlock(&told->lock);
    return found;
}

static bool is_file_gone(void *cookie)
{
    const struct question *q = cookie;
    return !room_has(&q->scene->room, q->file);
}

START_TEST(the_agents_token_opens)
{
    gh_auto(scene_end) struct scene scene;
    scene_start(&scene);
    char secret[AUTH_SECRET];
    struct gh_err err = {0};
    struct auth_token token;
    ck_assert_int_eq(auth_secret_read(room_path(&scene.room, "agent.token"), secret, &err), GH_OK);
    ck_assert_int_eq(check_secret(scene.auth, secret, &token), GH_OK);
    ck_assert_str_eq(token.name, "agent");
    ck_assert_int_eq(token.role, AUTH_AGENT);
    ck_assert_uint_eq(auth_failures(scene.auth), 0);
}
END_TEST

START_TEST(headers_are_read_strictly)
{
    gh_auto(scene_end) struct scene scene;
    scene_start(&scene);
    char secret[AUTH_SECRET];
    struct gh_err err = {0};
    struct auth_token token;
    ck_assert_int_eq(auth_secret_read(room_path(&scene.room, "agent.token"), secret, &err), GH_OK);
    static const struct {
        const char *before;
        const char *after;
        bool is_good;
    } forms[] = {
        {"Bearer ", "", true},         {"bearer ", "", true},      {"BEARER ", "", true},
        {"Bearer   ", "", true},       {"Bearer", "", false},      {"", "", false},
        {"Basic ", "", false},         {"Bearer ", " ", false},    {"Bearer ", " x", false},
        {"Bearer ", ",", false},       {" Bearer ", "", false},    {"Bearer\t", "", false},
        {"Bearer Bearer ", "", false}, {"Bearer \"", "\"", false}, {"Token ", "", false},
        {"Bearer ", "a", false},       {"Bearer x", "", false},    {"Bearer token=", "", false},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char header[256];
        snprintf(header, sizeof header, "%s%s%s", forms[i].before, secret, forms[i].after);
        enum gh_code code = check_text(scene.auth, header, &token);
        ck_assert_msg((code == GH_OK) == forms[i].is_good, "%s...%s gave %d", forms[i].before,
                      forms[i].after, code);
    }
    char upper[AUTH_SECRET];
    snprintf(upper, sizeof upper, "%s", secret);
    upper[0] = 'G';
    ck_assert_int_ne(check_secret(scene.auth, upper, &token), GH_OK);
    char *huge = malloc(1 << 20);
    memset(huge, 'a', (1 << 20) - 1);
    huge[(1 << 20) - 1] = '\0';
    memcpy(huge, "Bearer ", 7);
    ck_assert_int_ne(check_text(scene.auth, huge, &token), GH_OK);
    free(huge);
    ck_assert_int_ne(check_text(scene.auth, "", &token), GH_OK);
    ck_assert_int_ne(check_text(scene.auth, "Bearer ", &token), GH_OK);
}
END_TEST

START_TEST(a_refusal_tells_where_to_look_and_shows_nothing)
{
    gh_auto(scene_end) struct scene scene;
    scene_start(&scene);
    struct gh_err err = {0};
    struct auth_token token;
    int retry_s = 0;
    ck_assert_int_eq(auth_check(scene.auth, "Bearer hunter2", "p", &token, &retry_s, &err),
                     GH_UNAUTHORIZED);
    ck_assert_ptr_null(strstr(err.detail, "hunter2"));
    ck_assert_ptr_nonnull(strstr(err.detail, "tokens/approver.token"));
    ck_assert_ptr_nonnull(strstr(err.detail, "tokens/agent.token"));
    ck_assert_ptr_nonnull(strstr(err.detail, "gatehouse token add"));
    ck_assert_int_eq(auth_check(scene.auth, NULL, "p", &token, &retry_s, &err), GH_UNAUTHORIZED);
    ck_assert_ptr_nonnull(strstr(err.detail, "tokens/agent.token"));
    ck_assert_uint_eq(auth_failures(scene.auth), 1);
}
END_TEST

START_TEST(guessing_is_limited_and_locks_nobody_out)
{
    gh_auto(scene_end) struct scene scene;
    scene_start(&scene);
    char secret[AUTH_SECRET];
    struct gh_err err = {0};
    struct auth_token token;
    int retry_s = 0;
    ck_assert_int_eq(auth_secret_read(room_path(&scene.room, "agent.token"), secret, &err), GH_OK);
    /* More than a slow machine can refill meanwhile. */
    enum gh_code code = GH_OK;
    for (int i = 0; i < 2000 && code != GH_TOO_MANY; i++) {
        code = auth_check(scene.auth, "Bearer no", "test", &token, &retry_s, &err);
        ck_assert(i >= LIMITER_BURST || code == GH_UNAUTHORIZED);
    }
    ck_assert_int_eq(code, GH_TOO_MANY);
    ck_assert_int_ge(retry_s, 1);
    ck_assert_int_eq(check_secret(scene.auth, secret, &token), GH_OK); /* the same peer */
    ck_assert_int_eq(auth_check(scene.auth, "Bearer no", "other", &token, &retry_s, &err),
                     GH_UNAUTHORIZED);
    for (int i = 0; i < 100; i++) { /* nothing guessed, nothing counted */
        ck_assert_int_eq(auth_check(scene.auth, NULL, "test", &token, &retry_s, &err),
                         GH_UNAUTHORIZED);
    }
}
END_TEST

START_TEST(the_limiter_refills_one_a_second)
{
    struct limiter *limiter = NULL;
    struct gh_err err = {0};
    int retry_s = 0;
    ck_assert_int_eq(limiter_new(&limiter, &err), GH_OK);
    ck_assert_int_eq(limiter_fail(limiter, "a", 0, &retry_s), LIMITER_FIRST);
    for (int i = 1; i < LIMITER_BURST; i++) {
        ck_assert_int_eq(limiter_fail(limiter, "a", 0, &retry_s), LIMITER_COUNTED);
    }
    ck_assert_int_eq(limiter_fail(limiter, "a", 0, &retry_s), LIMITER_REACHED);
    ck_assert_int_eq(retry_s, 1);
    ck_assert_int_eq(limiter_fail(limiter, "a", 999, &retry_s), LIMITER_OVER);
    ck_assert_int_eq(limiter_fail(limiter, "a", 1000, &retry_s), LIMITER_COUNTED);
    ck_assert_int_eq(limiter_fail(limiter, "a", 1000, &retry_s), LIMITER_OVER);
    ck_assert_int_eq(limiter_fail(limiter, "a", 500, &retry_s), LIMITER_OVER); /* never back */
    ck_assert_int_eq(limiter_fail(limiter, "b", 1000, &retry_s), LIMITER_FIRST);
    ck_assert_int_eq(limiter_fail(limiter, "a", 100000, &retry_s), LIMITER_FIRST);
    ck_assert_int_eq(limiter_fail(limiter, NULL, 0, &retry_s), LIMITER_FIRST);
    limiter_free(limiter);
}
END_TEST

START_TEST(the_limiter_forgets_the_oldest)
{
    struct limiter *limiter = NULL;
    struct gh_err err = {0};
    int retry_s = 0;
    char key[32];
    ck_assert_int_eq(limiter_new(&limiter, &err), GH_OK);
    for (int i = 0; i < 21; i++) {
        limiter_fail(limiter, "kept", 0, &retry_s);
        limiter_fail(limiter, "lost", 0, &retry_s);
    }
    for (int i = 0; i < LIMITER_PEERS - 1; i++) {
        snprintf(key, sizeof key, "p%d", i);
        ck_assert_int_eq(limiter_fail(limiter, key, 0, &retry_s), LIMITER_FIRST);
        ck_assert_int_eq(limiter_fail(limiter, "kept", 0, &retry_s), LIMITER_OVER);
    }
    ck_assert_int_eq(limiter_fail(limiter, "lost", 0, &retry_s), LIMITER_FIRST);
    for (int i = 0; i < 10 * LIMITER_PEERS; i++) {
        snprintf(key, sizeof key, "q%d", i);
        ck_assert_int_eq(limiter_fail(limiter, key, 0, &retry_s), LIMITER_FIRST);
    }
    ck_assert_int_eq(limiter_fail(limiter, "kept", 0, &retry_s), LIMITER_FIRST);
    limiter_free(limiter);
}
END_TEST

START_TEST(added_and_revoked_tokens_are_seen)
{
    gh_auto(scene_end) struct scene scene;
    scene_start(&scene);
    char secret[AUTH_SECRET];
    struct gh_err err = {0};
    struct auth_token token;
    room_add(&scene.room, "ci", AUTH_VIEWER, secret);
    struct question q = {&scene, secret, GH_OK, NULL, NULL};
    ck_assert(room_wait(is_answered, &q));
    ck_assert_int_eq(check_secret(scene.auth, secret, &token), GH_OK);
    ck_assert_int_eq(token.role, AUTH_VIEWER);
    ck_assert_int_eq(auth_tokens_revoke(scene.room.dir, "ci", &err), GH_OK);
    q.want = GH_UNAUTHORIZED;
    q.id = token.id;
    ck_assert(room_wait(is_answered, &q));
    ck_assert(room_wait(is_told, &q));
    ck_assert_uint_eq(scene.told.n, 1);
}
END_TEST

START_TEST(a_removed_record_is_a_revoked_one)
{
    gh_auto(scene_end) struct scene scene;
    scene_start(&scene);
    char secret[AUTH_SECRET];
    struct gh_err err = {0};
    struct auth_token token;
    ck_assert_int_eq(auth_secret_read(room_path(&scene.room, "agent.token"), secret, &err), GH_OK);
    ck_assert_int_eq(check_secret(scene.auth, secret, &token), GH_OK);
    ck_assert_int_eq(unlink(room_path(&scene.room, "agent.json")), 0);
    struct question q = {&scene, secret, GH_UNAUTHORIZED, token.id, NULL};
    ck_assert(room_wait(is_answered, &q));
    ck_assert(room_wait(is_told, &q));
}
END_TEST

START_TEST(a_record_that_goes_bad_costs_itself_only)
{
    static const struct {
        const char *text; /* NULL: widened */
    } ways[] = {{"{"}, {NULL}};
    for (size_t i = 0; i < 2; i++) {
        gh_auto(scene_end) struct scene scene;
        scene_start(&scene);
        char agent[AUTH_SECRET];
        char approver[AUTH_SECRET];
        struct gh_err err = {0};
        struct auth_token token;
        ck_assert_int_eq(auth_secret_read(room_path(&scene.room, "agent.token"), agent, &err),
                         GH_OK);
        ck_assert_int_eq(auth_secret_read(room_path(&scene.room, "approver.token"), approver, &err),
                         GH_OK);
        if (ways[i].text != NULL) {
            room_put(&scene.room, "agent.json", ways[i].text, 0600);
        } else {
            ck_assert_int_eq(chmod(room_path(&scene.room, "agent.json"), 0644), 0);
        }
        struct question q = {&scene, agent, GH_UNAUTHORIZED, NULL, NULL};
        ck_assert(room_wait(is_answered, &q));
        ck_assert_int_eq(check_secret(scene.auth, approver, &token), GH_OK);
    }
}
END_TEST

START_TEST(a_moved_folder_ends_all_tokens)
{
    gh_auto(scene_end) struct scene scene;
    scene_start(&scene);
    char secret[AUTH_SECRET];
    char away[96];
    struct gh_err err = {0};
    ck_assert_int_eq(auth_secret_read(room_path(&scene.room, "agent.token"), secret, &err), GH_OK);
    snprintf(away, sizeof away, "%s/away", scene.room.dir);
    ck_assert_int_eq(rename(scene.room.tokens, away), 0);
    struct question q = {&scene, secret, GH_UNAUTHORIZED, NULL, NULL};
    ck_assert(room_wait(is_answered, &q));
    char code[40];
    int64_t expires_ms = 0;
    struct auth_token token;
    int retry_s = 0;
    ck_assert_int_eq(auth_code_new(scene.auth, AUTH_VIEWER, code, &expires_ms, &err), GH_OK);
    ck_assert_int_eq(auth_code_redeem(scene.auth, code, "p", secret, &token, &retry_s, &err),
                     GH_IO);
}
END_TEST

START_TEST(tokens_expire_and_are_told)
{
    gh_auto(scene_end) struct scene scene;
    scene_start(&scene);
    char secret[AUTH_SECRET];
    struct gh_err err = {0};
    struct auth_token token;
    /* A record whose time comes while the test looks on. */
    ck_assert_int_eq(auth_tokens_add(scene.room.dir, "short", AUTH_AGENT, gh_clock_wall_ms() + 1200,
                                     false, secret, &token, &err),
                     GH_OK);
    struct question q = {&scene, secret, GH_UNAUTHORIZED, token.id, NULL};
    ck_assert(room_wait(is_told, &q));
    ck_assert(gh_clock_wall_ms() >= token.expires_ms);
    ck_assert(room_wait(is_answered, &q));
    ck_assert(room_has(&scene.room, "short.json"));
}
END_TEST

START_TEST(dead_logins_are_cleaned_up)
{
    gh_auto(scene_end) struct scene scene;
    scene_start(&scene);
    char secret[AUTH_SECRET];
    struct gh_err err = {0};
    struct auth_token token;
    ck_assert_int_eq(auth_tokens_add(scene.room.dir, "login-a", AUTH_VIEWER,
                                     gh_clock_wall_ms() + 500, true, secret, &token, &err),
                     GH_OK);
    struct question q = {&scene, secret, GH_OK, token.id, "login-a.json"};
    ck_assert(room_wait(is_file_gone, &q));
    ck_assert(room_wait(is_told, &q));
    /* Other dead records are listed for 30 days, our own two for ever. */
    ck_assert_int_eq(
        auth_tokens_add(scene.room.dir, "old", AUTH_VIEWER, 1, false, secret, &token, &err), GH_OK);
    ck_assert_int_eq(auth_tokens_add(scene.room.dir, "new", AUTH_VIEWER, gh_clock_wall_ms() - 1,
                                     false, secret, &token, &err),
                     GH_OK);
    q.file = "old.json";
    ck_assert(room_wait(is_file_gone, &q));
    ck_assert(room_has(&scene.room, "new.json"));
    ck_assert(room_has(&scene.room, "agent.json"));
}
END_TEST

START_TEST(a_login_code_works_once)
{
    gh_auto(scene_end) struct scene scene;
    scene_start(&scene);
    char code[40];
    char secret[AUTH_SECRET];
    struct gh_err err = {0};
    struct auth_token token;
    int retry_s = 0;
    int64_t expires_ms = 0;
    ck_assert_int_eq(auth_code_new(scene.auth, AUTH_APPROVER, code, &expires_ms, &err), GH_OK);
    ck_assert_uint_eq(strlen(code), CODES_CHARS);
    ck_assert_int_gt(expires_ms, gh_clock_wall_ms());
    ck_assert_int_eq(auth_code_redeem(scene.auth, code, "p", secret, &token, &retry_s, &err),
                     GH_OK);
    ck_assert_int_eq(token.role, AUTH_APPROVER);
    ck_assert(token.is_login && strncmp(token.name, "login-", 6) == 0);
    ck_assert_int_gt(token.expires_ms, gh_clock_wall_ms() + 11 * 3600 * 1000LL);
    ck_assert_int_le(token.expires_ms, gh_clock_wall_ms() + 12 * 3600 * 1000LL);
    struct auth_token seen;
    ck_assert_int_eq(check_secret(scene.auth, secret, &seen), GH_OK); /* at once */
    ck_assert_str_eq(seen.id, token.id);
    char second[AUTH_SECRET];
    ck_assert_int_eq(auth_code_redeem(scene.auth, code, "p", second, &seen, &retry_s, &err),
                     GH_UNAUTHORIZED);
    ck_assert_ptr_null(strstr(err.detail, code));
    ck_assert_uint_eq(auth_failures(scene.auth), 1);
    /* It is a token like others: listed, and revocable. */
    ck_assert_int_eq(auth_tokens_revoke(scene.room.dir, token.id, &err), GH_OK);
    struct question q = {&scene, secret, GH_UNAUTHORIZED, token.id, NULL};
    ck_assert(room_wait(is_answered, &q));
    ck_assert(room_wait(is_told, &q));
}
END_TEST

START_TEST(a_login_survives_a_restart)
{
    gh_auto(scene_end) struct scene scene;
    scene_start(&scene);
    char code[40];
    char secret[AUTH_SECRET];
    struct gh_err err = {0};
    struct auth_token token;
    int retry_s = 0;
    int64_t expires_ms = 0;
    ck_assert_int_eq(auth_code_new(scene.auth, AUTH_VIEWER, code, &expires_ms, &err), GH_OK);
    ck_assert_int_eq(auth_code_redeem(scene.auth, code, "p", secret, &token, &retry_s, &err),
                     GH_OK);
    auth_free(scene.auth);
    scene.auth = NULL;
    ck_assert_int_eq(auth_new(scene.room.dir, NULL, NULL, &scene.auth, &err), GH_OK);
    ck_assert_int_eq(check_secret(scene.auth, secret, &token), GH_OK);
}
END_TEST

START_TEST(codes_are_few_and_for_people)
{
    gh_auto(scene_end) struct scene scene;
    scene_start(&scene);
    char code[40];
    struct gh_err err = {0};
    int64_t expires_ms = 0;
    ck_assert_int_eq(auth_code_new(scene.auth, AUTH_AGENT, code, &expires_ms, &err), GH_INVALID);
    ck_assert_int_eq(auth_code_new(scene.auth, AUTH_METRICS, code, &expires_ms, &err), GH_INVALID);
    for (int i = 0; i < CODES_OPEN; i++) {
        ck_assert_int_eq(auth_code_new(scene.auth, AUTH_VIEWER, code, &expires_ms, &err), GH_OK);
    }
    ck_assert_int_eq(auth_code_new(scene.auth, AUTH_VIEWER, code, &expires_ms, &err), GH_LIMIT);
}
END_TEST

START_TEST(codes_die_after_a_minute)
{
    struct codes codes;
    struct gh_err err = {0};
    char code[40];
    char other[40];
    ck_assert(gh_id_init());
    codes_init(&codes);
    ck_assert_int_eq(codes_take(&codes, "", 0), AUTH_NONE);
    ck_assert_int_eq(codes_new(&codes, AUTH_VIEWER, 1000, code, &err), GH_OK);
    ck_assert_int_eq(codes_new(&codes, AUTH_APPROVER, 1000, other, &err), GH_OK);
    ck_assert_str_ne(code, other);
    ck_assert_int_eq(codes_take(&codes, code, 61000), AUTH_NONE);
    ck_assert_int_eq(codes_take(&codes, code, 2000), AUTH_NONE); /* spent by the try */
    char longer[64];
    snprintf(longer, sizeof longer, "%sx", other);
    ck_assert_int_eq(codes_take(&codes, longer, 2000), AUTH_NONE);
    ck_assert_int_eq(codes_take(&codes, other, 60999), AUTH_APPROVER);
    ck_assert_int_eq(codes_take(&codes, other, 60999), AUTH_NONE);
    for (int i = 0; i < CODES_OPEN; i++) {
        ck_assert_int_eq(codes_new(&codes, AUTH_VIEWER, 0, code, &err), GH_OK);
    }
    ck_assert_int_eq(codes_new(&codes, AUTH_VIEWER, 59999, code, &err), GH_LIMIT);
    ck_assert_int_eq(codes_new(&codes, AUTH_VIEWER, 60000, code, &err), GH_OK);
    codes_fini(&codes);
}
END_TEST

START_TEST(start_refuses_what_is_not_private)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    struct auth *auth = NULL;
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_OK);
    ck_assert_int_eq(chmod(room_path(&room, "agent.json"), 0640), 0);
    ck_assert_int_eq(auth_new(room.dir, NULL, NULL, &auth, &err), GH_IO);
    ck_assert_ptr_null(auth);
    ck_assert_ptr_nonnull(strstr(err.detail, "chmod 600"));
    ck_assert_int_eq(chmod(room_path(&room, "agent.json"), 0600), 0);
    ck_assert_int_eq(chmod(room.tokens, 0711), 0);
    ck_assert_int_eq(auth_new(room.dir, NULL, NULL, &auth, &err), GH_IO);
    ck_assert_int_eq(auth_new("/proc/none", NULL, NULL, &auth, &err), GH_IO);
}
END_TEST

static void count_token(const struct auth_token *token, void *cookie)
{
    ck_assert(gh_id_valid(token->id, "tok"));
    ++*(int *)cookie;
}

START_TEST(many_tokens_are_all_found)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    static char secrets[200][AUTH_SECRET];
    for (int i = 0; i < 200; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        room_add(&room, name, AUTH_AGENT, secrets[i]);
    }
    struct auth *auth = NULL;
    ck_assert_int_eq(auth_new(room.dir, NULL, NULL, &auth, &err), GH_OK);
    for (int i = 0; i < 200; i++) {
        struct auth_token token;
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        ck_assert_int_eq(check_secret(auth, secrets[i], &token), GH_OK);
        ck_assert_str_eq(token.name, name);
    }
    int n = 0;
    auth_each(auth, count_token, &n);
    ck_assert_int_eq(n, 200);
    auth_free(auth);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("auth");
    TCase *tc = tcase_create("auth");
    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, the_agents_token_opens);
    tcase_add_test(tc, headers_are_read_strictly);
    tcase_add_test(tc, a_refusal_tells_where_to_look_and_shows_nothing);
    tcase_add_test(tc, guessing_is_limited_and_locks_nobody_out);
    tcase_add_test(tc, the_limiter_refills_one_a_second);
    tcase_add_test(tc, the_limiter_forgets_the_oldest);
    tcase_add_test(tc, added_and_revoked_tokens_are_seen);
    tcase_add_test(tc, a_removed_record_is_a_revoked_one);
    tcase_add_test(tc, a_record_that_goes_bad_costs_itself_only);
    tcase_add_test(tc, a_moved_folder_ends_all_tokens);
    tcase_add_test(tc, tokens_expire_and_are_told);
    tcase_add_test(tc, dead_logins_are_cleaned_up);
    tcase_add_test(tc, a_login_code_works_once);
    tcase_add_test(tc, a_login_survives_a_restart);
    tcase_add_test(tc, codes_are_few_and_for_people);
    tcase_add_test(tc, codes_die_after_a_minute);
    tcase_add_test(tc, start_refuses_what_is_not_private);
    tcase_add_test(tc, many_tokens_are_all_found);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
