/* test_tokens: the token folder: modes, links, names, replacing, revoking, what is not
 * resurrected. */
#include "room.h"

#include "auth/record.h"

static const struct {
    const char *name;
    enum auth_role role;
} roles[] = {
    {"agent", AUTH_AGENT},
    {"viewer", AUTH_VIEWER},
    {"approver", AUTH_APPROVER},
    {"metrics", AUTH_METRICS},
};

START_TEST(roles_have_names)
{
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        ck_assert_int_eq(auth_role_find(roles[i].name), roles[i].role);
        ck_assert_str_eq(auth_role_name(roles[i].role), roles[i].name);
    }
    ck_assert_int_eq(auth_role_find("admin"), AUTH_NONE);
    ck_assert_int_eq(auth_role_find(""), AUTH_NONE);
    ck_assert_int_eq(auth_role_find("Agent"), AUTH_NONE);
    ck_assert_int_eq(auth_role_find(NULL), AUTH_NONE);
    ck_assert_str_eq(auth_role_name(AUTH_NONE), "none");
}
END_TEST

START_TEST(secrets_have_256_bits_and_one_form)
{
    ck_assert(gh_id_init());
    char seen[64][AUTH_SECRET];
    unsigned char digest[GH_SHA256];
    unsigned char want[GH_SHA256];
    unsigned char ones[SECRET_CHARS] = {0};
    for (size_t i = 0; i < 64; i++) {
        record_secret(seen[i], digest);
        ck_assert_uint_eq(strlen(seen[i]), SECRET_CHARS);
        ck_assert(record_secret_valid(seen[i], SECRET_CHARS));
        gh_id_sha256(seen[i], SECRET_CHARS, want);
        ck_assert_mem_eq(digest, want, GH_SHA256);
        for (size_t k = 0; k < i; k++) {
            ck_assert_str_ne(seen[i], seen[k]);
        }
        for (size_t k = 3; k < SECRET_CHARS; k++) {
            ones[k] |= (unsigned char)(seen[i][k] != seen[0][k]);
        }
    }
    for (size_t k = 3; k < SECRET_CHARS; k++) {
        ck_assert_msg(ones[k] == 1, "digit %zu never changes", k);
    }
    ck_assert(!record_secret_valid("gh_", 3));
    ck_assert(!record_secret_valid(seen[0], SECRET_CHARS - 1));
    seen[0][10] = 'U';
    ck_assert(!record_secret_valid(seen[0], SECRET_CHARS));
}
END_TEST

START_TEST(prepare_writes_both_and_only_once)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_OK);
    struct stat st;
    ck_assert_int_eq(stat(room.tokens, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0700);
    static const char *const files[] = {"agent.json", "agent.token", "approver.json",
                                        "approver.token"};
    for (size_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(room_mode(&room, files[i]), 0600);
    }
    char first[AUTH_SECRET];
    char again[AUTH_SECRET];
    ck_assert_int_eq(auth_secret_read(room_path(&room, "agent.token"), first, &err), GH_OK);
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_OK);
    ck_assert_int_eq(auth_secret_read(room_path(&room, "agent.token"), again, &err), GH_OK);
    ck_assert_str_eq(first, again);
    ck_assert_int_eq(auth_secret_read(room_path(&room, "approver.token"), again, &err), GH_OK);
    ck_assert_str_ne(first, again);
    /* The records hold no secret. */
    gh_autofree char *text = NULL;
    size_t len = 0;
    ck_assert_int_eq(gh_fs_read(AT_FDCWD, room_path(&room, "agent.json"), 4096, &text, &len, &err),
                     GH_OK);
    ck_assert_ptr_null(strstr(text, first + 3));
    ck_assert_ptr_nonnull(strstr(text, "\"role\":\"agent\""));
}
END_TEST

START_TEST(any_umask_gives_private_files)
{
    static const mode_t masks[] = {0, 022, 077};
    for (size_t i = 0; i < 3; i++) {
        gh_auto(room_leave) struct room room;
        room_enter(&room);
        mode_t before = umask(masks[i]);
        struct gh_err err = {0};
        enum gh_code code = auth_tokens_prepare(room.dir, &err);
        char secret[AUTH_SECRET];
        room_add(&room, "x", AUTH_VIEWER, secret);
        umask(before);
        ck_assert_int_eq(code, GH_OK);
        struct stat st;
        ck_assert_int_eq(stat(room.tokens, &st), 0);
        ck_assert_uint_eq(st.st_mode & 07777, 0700);
        static const char *const files[] = {"agent.token", "approver.json", "x.json", ".lock"};
        for (size_t k = 0; k < 4; k++) {
            ck_assert_uint_eq(room_mode(&room, files[k]), 0600);
        }
    }
}
END_TEST

START_TEST(wide_modes_are_refused_with_the_cure)
{
    static const char *const files[] = {"agent.token", "approver.token", "agent.json"};
    for (size_t i = 0; i < 3; i++) {
        gh_auto(room_leave) struct room room;
        room_enter(&room);
        struct gh_err err = {0};
        ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_OK);
        ck_assert_int_eq(chmod(room_path(&room, files[i]), 0644), 0);
        ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_IO);
        char cure[300];
        snprintf(cure, sizeof cure, "chmod 600 %s", room_path(&room, files[i]));
        ck_assert_msg(strstr(err.detail, cure) != NULL, "%s", err.detail);
    }
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_OK);
    ck_assert_int_eq(chmod(room.tokens, 0755), 0);
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_IO);
    ck_assert_ptr_nonnull(strstr(err.detail, "chmod 700"));
}
END_TEST

START_TEST(links_are_refused_and_not_followed)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    char secret[AUTH_SECRET];
    char target[128];
    snprintf(target, sizeof target, "%s/target", room.dir);
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_OK);
    ck_assert_int_eq(rename(room_path(&room, "agent.token"), target), 0);
    ck_assert_int_eq(symlink(target, room_path(&room, "agent.token")), 0);
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_IO);
    ck_assert_ptr_nonnull(strstr(err.detail, "link"));
    ck_assert_int_eq(auth_secret_read(room_path(&room, "agent.token"), secret, &err), GH_IO);
    /* A link that waits for a record to be written through it. */
    ck_assert_int_eq(symlink(target, room_path(&room, "trap.json")), 0);
    ck_assert_int_eq(auth_tokens_add(room.dir, "trap", AUTH_AGENT, -1, false, secret, NULL, &err),
                     GH_IO);
    ck_assert_int_eq(unlink(target), 0);
    ck_assert_int_eq(auth_tokens_add(room.dir, "trap", AUTH_AGENT, -1, false, secret, NULL, &err),
                     GH_IO);
    ck_assert_int_ne(access(target, F_OK), 0);
}
END_TEST

START_TEST(the_folder_may_not_be_a_link)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    char away[96];
    snprintf(away, sizeof away, "%s/away", room.dir);
    struct gh_err err = {0};
    ck_assert_int_eq(mkdir(away, 0700), 0);
    ck_assert_int_eq(symlink(away, room.tokens), 0);
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_IO);
    ck_assert_int_eq(unlink(room.tokens), 0);
}
END_TEST

static void count_token(const struct auth_token *token, void *cookie)
{
    (void)token;
    ++*(int *)cookie;
}

START_TEST(names_are_checked)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    char long_name[66];
    memset(long_name, 'a', 65);
    long_name[65] = '\0';
    char id[GH_ID];
    gh_id_new("tok", id);
    const char *const bad[] = {"",     ".",           "..",      "../x", "a/b", "a b",    "-x",
                               "\x7f", "caf\xc3\xa9", ".hidden", "a\n",  id,    long_name};
    struct gh_err err = {0};
    char secret[AUTH_SECRET];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(
            auth_tokens_add(room.dir, bad[i], AUTH_AGENT, -1, false, secret, NULL, &err),
            GH_INVALID);
    }
    long_name[64] = '\0';
    const char *const good[] = {"a", "A.b-c_9", "_x", "9", "tok_x", long_name};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        room_add(&room, good[i], AUTH_AGENT, secret);
    }
    int n = 0;
    ck_assert_int_eq(auth_tokens_each(room.dir, count_token, &n, &err), GH_OK);
    ck_assert_int_eq(n, 6);
    ck_assert_int_eq(auth_tokens_add(room.dir, "r", AUTH_NONE, -1, false, secret, NULL, &err),
                     GH_INVALID);
    ck_assert_int_eq(auth_tokens_add(room.dir, "r", 99, -1, false, secret, NULL, &err), GH_INVALID);
    ck_assert_int_eq(auth_tokens_add(room.dir, "r", AUTH_AGENT, -2, false, secret, NULL, &err),
                     GH_INVALID);
}
END_TEST

START_TEST(own_names_keep_their_roles)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    char secret[AUTH_SECRET];
    ck_assert_int_eq(
        auth_tokens_add(room.dir, "agent", AUTH_APPROVER, -1, false, secret, NULL, &err),
        GH_INVALID);
    ck_assert_int_eq(
        auth_tokens_add(room.dir, "approver", AUTH_AGENT, -1, false, secret, NULL, &err),
        GH_INVALID);
    ck_assert(!room_has(&room, "agent.token"));
}
END_TEST

START_TEST(a_taken_name_conflicts_until_it_is_dead)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    char secret[AUTH_SECRET];
    char second[AUTH_SECRET];
    struct auth_token token;
    room_add(&room, "ci", AUTH_AGENT, secret);
    ck_assert_int_eq(auth_tokens_add(room.dir, "ci", AUTH_VIEWER, -1, false, second, NULL, &err),
                     GH_CONFLICT);
    ck_assert_int_eq(auth_tokens_revoke(room.dir, "ci", &err), GH_OK);
    ck_assert_int_eq(auth_tokens_revoke(room.dir, "ci", &err), GH_OK);
    ck_assert_int_eq(auth_tokens_add(room.dir, "ci", AUTH_VIEWER, 1, false, second, &token, &err),
                     GH_OK);
    ck_assert_int_eq(token.role, AUTH_VIEWER);
    ck_assert(gh_id_valid(token.id, "tok"));
    ck_assert_int_eq(token.expires_ms, 1);
    ck_assert_str_ne(secret, second);
    room_add(&room, "ci", AUTH_AGENT, second); /* the one from 1970 is expired */
}
END_TEST

static void find_ci(const struct auth_token *token, void *cookie)
{
    if (strcmp(token->name, "ci") == 0) {
        *(struct auth_token *)cookie = *token;
    }
}

START_TEST(revoke_by_name_and_by_id)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    char secret[AUTH_SECRET];
    struct auth_token token = {.revoked_ms = 0};
    ck_assert_int_eq(auth_tokens_revoke(room.dir, "ci", &err), GH_NOT_FOUND);
    ck_assert_int_eq(auth_tokens_revoke(room.dir, "../ci", &err), GH_NOT_FOUND);
    room_add(&room, "ci", AUTH_AGENT, secret);
    ck_assert_int_eq(auth_tokens_each(room.dir, find_ci, &token, &err), GH_OK);
    ck_assert_int_eq(token.revoked_ms, -1);
    /* Garbage beside it must not stop a revocation. */
    room_put(&room, "bad.json", "{", 0600);
    ck_assert_int_eq(auth_tokens_revoke(room.dir, token.id, &err), GH_OK);
    ck_assert_int_eq(unlink(room_path(&room, "bad.json")), 0);
    ck_assert_int_eq(auth_tokens_each(room.dir, find_ci, &token, &err), GH_OK);
    ck_assert_int_gt(token.revoked_ms, 0);
    gh_id_new("tok", token.id);
    ck_assert_int_eq(auth_tokens_revoke(room.dir, token.id, &err), GH_NOT_FOUND);
}
END_TEST

START_TEST(a_revoked_agent_stays_revoked)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_OK);
    ck_assert_int_eq(auth_tokens_revoke(room.dir, "agent", &err), GH_OK);
    ck_assert(!room_has(&room, "agent.token"));
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_OK);
    ck_assert(!room_has(&room, "agent.token"));
    char secret[AUTH_SECRET];
    char read[AUTH_SECRET];
    room_add(&room, "agent", AUTH_AGENT, secret);
    ck_assert_int_eq(auth_secret_read(room_path(&room, "agent.token"), read, &err), GH_OK);
    ck_assert_str_eq(secret, read);
}
END_TEST

START_TEST(a_secret_that_was_taken_away_stays_away)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_OK);
    ck_assert_int_eq(unlink(room_path(&room, "approver.token")), 0);
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_OK);
    ck_assert(!room_has(&room, "approver.token"));
    /* Without its record a secret opens nothing, and both are made anew. */
    ck_assert_int_eq(unlink(room_path(&room, "approver.json")), 0);
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_OK);
    ck_assert(room_has(&room, "approver.token") && room_has(&room, "approver.json"));
}
END_TEST

#define GOOD_ID "tok_00000000000000000000000000000000"
#define GOOD_SHA "00000000000000000000000000000000000000000000000000000000000000ff"
#define RECORD(id, name, role, sha, rest)                                                          \
    "{\"id\":\"" id "\",\"name\":\"" name "\",\"role\":\"" role "\",\"sha256\":\"" sha             \
    "\",\"created_ms\":1" rest "}"

static const char *const garbage[] = {
    "",
    "{",
    "[]",
    "null",
    "{}",
    RECORD("", "x", "agent", GOOD_SHA, ""),
    RECORD("tok_1", "x", "agent", GOOD_SHA, ""),
    RECORD(GOOD_ID, "", "agent", GOOD_SHA, ""),
    RECORD(GOOD_ID, "y", "agent", GOOD_SHA, ""), /* not the file's name */
    RECORD(GOOD_ID, "x", "admin", GOOD_SHA, ""),
    RECORD(GOOD_ID, "x", "none", GOOD_SHA, ""),
    RECORD(GOOD_ID, "x", "agent", "00ff", ""),
    RECORD(GOOD_ID, "x", "agent",
           "zz000000000000000000000000000000000000000000000000000000000000ff", ""),
    RECORD(GOOD_ID, "x", "agent", GOOD_SHA, ",\"expires_ms\":\"soon\""),
    RECORD(GOOD_ID, "x", "agent", GOOD_SHA, ",\"expires_ms\":-5"),
    RECORD(GOOD_ID, "x", "agent", GOOD_SHA, ",\"revoked_ms\":1e3"),
    RECORD(GOOD_ID, "x", "agent", GOOD_SHA, ",\"login\":1"),
    RECORD(GOOD_ID, "x", "agent", GOOD_SHA, ",\"more\":1"),
    RECORD(GOOD_ID, "x", "agent", GOOD_SHA, ",\"role\":\"approver\""),
};

START_TEST(garbage_is_named_and_refused)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    int n = 0;
    ck_assert_int_eq(auth_tokens_each(room.dir, count_token, &n, &err), GH_OK);
    room_put(&room, "x.json", garbage[_i], 0600);
    ck_assert_msg(auth_tokens_each(room.dir, count_token, &n, &err) == GH_IO, "accepted: %s",
                  garbage[_i]);
    ck_assert_ptr_nonnull(strstr(err.detail, "x.json"));
    ck_assert_int_eq(n, 0);
}
END_TEST

START_TEST(good_records_and_other_files)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    int n = 0;
    ck_assert_int_eq(auth_tokens_each(room.dir, count_token, &n, &err), GH_OK);
    room_put(&room, "x.json", RECORD(GOOD_ID, "x", "agent", GOOD_SHA, ""), 0600);
    room_put(&room, ".tmp_1.json", "{", 0644);
    room_put(&room, "notes.txt", "{", 0644);
    ck_assert_int_eq(auth_tokens_each(room.dir, count_token, &n, &err), GH_OK);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(mkfifo(room_path(&room, "y.json"), 0600), 0);
    ck_assert_int_eq(auth_tokens_each(room.dir, count_token, &n, &err), GH_IO);
}
END_TEST

START_TEST(a_large_record_is_refused)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    int n = 0;
    ck_assert_int_eq(auth_tokens_each(room.dir, count_token, &n, &err), GH_OK);
    room_put(&room, "x.json", "{}", 0600);
    ck_assert_int_eq(truncate(room_path(&room, "x.json"), 1 << 20), 0);
    ck_assert_int_eq(auth_tokens_each(room.dir, count_token, &n, &err), GH_IO);
}
END_TEST

START_TEST(foreign_files_are_refused)
{
    if (geteuid() != 0) {
        puts("foreign_files_are_refused: skipped, only root can give a file away");
        return;
    }
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_OK);
    ck_assert_int_eq(chown(room_path(&room, "agent.token"), 4242, 4242), 0);
    ck_assert_int_eq(auth_tokens_prepare(room.dir, &err), GH_IO);
    ck_assert_ptr_nonnull(strstr(err.detail, "another user"));
}
END_TEST

START_TEST(secret_files_hold_one_secret)
{
    gh_auto(room_leave) struct room room;
    room_enter(&room);
    struct gh_err err = {0};
    char secret[AUTH_SECRET];
    char read[AUTH_SECRET];
    char text[200];
    room_add(&room, "x", AUTH_AGENT, secret);
    room_put(&room, "s", secret, 0600);
    ck_assert_int_eq(auth_secret_read(room_path(&room, "s"), read, &err), GH_OK);
    static const char *const wrongs[] = {"%s\n\n", " %s", "%s x", "\n%s", "x%s", "%s\r\n"};
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        const char *at = strstr(wrongs[i], "%s");
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - wrongs[i]), wrongs[i], secret, at + 2);
        room_put(&room, "s", text, 0600);
        ck_assert_int_eq(auth_secret_read(room_path(&room, "s"), read, &err), GH_IO);
        ck_assert_ptr_null(strstr(err.detail, secret));
    }
    room_put(&room, "s", "", 0600);
    ck_assert_int_eq(auth_secret_read(room_path(&room, "s"), read, &err), GH_IO);
    ck_assert_int_eq(auth_secret_read(room_path(&room, "none"), read, &err), GH_NOT_FOUND);
    ck_assert_int_eq(auth_secret_read(room.dir, read, &err), GH_IO);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("auth_tokens");
    TCase *tc = tcase_create("tokens");
    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, roles_have_names);
    tcase_add_test(tc, secrets_have_256_bits_and_one_form);
    tcase_add_test(tc, prepare_writes_both_and_only_once);
    tcase_add_test(tc, any_umask_gives_private_files);
    tcase_add_test(tc, wide_modes_are_refused_with_the_cure);
    tcase_add_test(tc, links_are_refused_and_not_followed);
    tcase_add_test(tc, the_folder_may_not_be_a_link);
    tcase_add_test(tc, names_are_checked);
    tcase_add_test(tc, own_names_keep_their_roles);
    tcase_add_test(tc, a_taken_name_conflicts_until_it_is_dead);
    tcase_add_test(tc, revoke_by_name_and_by_id);
    tcase_add_test(tc, a_revoked_agent_stays_revoked);
    tcase_add_test(tc, a_secret_that_was_taken_away_stays_away);
    tcase_add_loop_test(tc, garbage_is_named_and_refused, 0,
                        (int)(sizeof garbage / sizeof garbage[0]));
    tcase_add_test(tc, good_records_and_other_files);
    tcase_add_test(tc, a_large_record_is_refused);
    tcase_add_test(tc, foreign_files_are_refused);
    tcase_add_test(tc, secret_files_hold_one_secret);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
