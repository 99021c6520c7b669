/* test_race: checks, lists, logins and failures on several threads while tokens come and go. Meant
 * for the thread sanitizer; without it, it proves that a valid token is never refused meanwhile. */
#include "room.h"

#include <pthread.h>
#include <stdatomic.h>

#define CHECKERS 3
#define CHANGES 40

struct race {
    struct room room;
    struct auth *auth;
    char secret[AUTH_SECRET];
    atomic_bool is_over;
    atomic_int refused;
    atomic_int checks;
    atomic_int dropped;
};

static void note_dropped(const char *id, void *cookie)
{
    struct race *race = cookie;
    (void)id;
    atomic_fetch_add(&race->dropped, 1);
}

static void look_at(const struct auth_token *token, void *cookie)
{
    (void)cookie;
    ck_assert(token->name[0] != '\0');
}

static void *check_always(void *cookie)
{
    struct race *race = cookie;
    char header[AUTH_SECRET + 16];
    snprintf(header, sizeof header, "Bearer %s", race->secret);
    while (!atomic_load(&race->is_over)) {
        struct auth_token token;
        int retry_s = 0;
        struct gh_err err;
        if (auth_check(race->auth, header, "good", &token, &retry_s, &err) != GH_OK) {
            atomic_fetch_add(&race->refused, 1);
        }
        (void)!auth_check(race->auth, "Bearer x", "bad", &token, &retry_s, &err);
        auth_each(race->auth, look_at, NULL);
        atomic_fetch_add(&race->checks, 1);
    }
    return NULL;
}

static void *login_always(void *cookie)
{
    struct race *race = cookie;
    while (!atomic_load(&race->is_over)) {
        char code[40];
        char secret[AUTH_SECRET];
        char header[AUTH_SECRET + 16];
        struct auth_token token;
        struct gh_err err = {0};
        int64_t expires_ms = 0;
        int retry_s = 0;
        ck_assert_int_eq(auth_code_new(race->auth, AUTH_VIEWER, code, &expires_ms, &err), GH_OK);
        ck_assert_msg(auth_code_redeem(race->auth, code, "p", secret, &token, &retry_s, &err) ==
                          GH_OK,
                      "%s", err.detail);
        snprintf(header, sizeof header, "Bearer %s", secret);
        if (auth_check(race->auth, header, "login", &token, &retry_s, &err) != GH_OK) {
            atomic_fetch_add(&race->refused, 1);
        }
        ck_assert_int_eq(auth_tokens_revoke(race->room.dir, token.id, &err), GH_OK);
    }
    return NULL;
}

static bool has_dropped(void *cookie)
{
    return atomic_load(&((struct race *)cookie)->dropped) > 0;
}

START_TEST(a_valid_token_passes_whatever_changes)
{
    struct race race;
    memset(&race, 0, sizeof race);
    struct gh_err err = {0};
    room_enter(&race.room);
    ck_assert_int_eq(auth_tokens_prepare(race.room.dir, &err), GH_OK);
    ck_assert_int_eq(auth_secret_read(room_path(&race.room, "agent.token"), race.secret, &err),
                     GH_OK);
    ck_assert_int_eq(auth_new(race.room.dir, note_dropped, &race, &race.auth, &err), GH_OK);
    pthread_t threads[CHECKERS + 1];
    for (int i = 0; i < CHECKERS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, check_always, &race), 0);
    }
    ck_assert_int_eq(pthread_create(&threads[CHECKERS], NULL, login_always, &race), 0);
    for (int i = 0; i < CHANGES; i++) {
        char secret[AUTH_SECRET];
        char name[16];
        snprintf(name, sizeof name, "t%d", i % 7);
        room_add(&race.room, name, AUTH_VIEWER, secret);
        ck_assert_int_eq(auth_tokens_revoke(race.room.dir, name, &err), GH_OK);
    }
    ck_assert(room_wait(has_dropped, &race));
    atomic_store(&race.is_over, true);
    for (int i = 0; i <= CHECKERS; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_int_eq(atomic_load(&race.refused), 0);
    ck_assert_int_gt(atomic_load(&race.checks), 0);
    auth_free(race.auth);
    room_leave(&race.room);
}
END_TEST

static void *add_one(void *cookie)
{
    const struct room *room = cookie;
    char secret[AUTH_SECRET];
    struct gh_err err = {0};
    enum gh_code code =
        auth_tokens_add(room->dir, "same", AUTH_AGENT, -1, false, secret, NULL, &err);
    return code == GH_OK ? cookie : NULL;
}

START_TEST(one_name_is_given_once)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    pthread_t threads[6];
    int given = 0;
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_one, &room), 0);
    }
    for (int i = 0; i < 6; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        given += result != NULL ? 1 : 0;
    }
    ck_assert_int_eq(given, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("auth_race");
    TCase *tc = tcase_create("race");
    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_valid_token_passes_whatever_changes);
    tcase_add_test(tc, one_name_is_given_once);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
