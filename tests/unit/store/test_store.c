/* Documents, audit rows, lists, files and restarts of a store that works. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "scene.h"

static struct scene scene;

static void setup(void)
{
    scene = scene_new();
    scene_open(&scene);
}

static void teardown(void)
{
    scene_end(&scene);
}

static struct store_doc doc(enum store_kind kind, const char *id, const char *state,
                            const char *body)
{
    return (struct store_doc){.kind = kind,
                              .id = id,
                              .session = "",
                              .ref = "",
                              .state = state,
                              .body = body,
                              .created_ms = gh_clock_wall_ms()};
}

static enum gh_code commit(struct store_txn *txn)
{
    return store_commit_wait(scene.store, &txn, NULL);
}

static void put(struct store_doc d)
{
    struct store_txn *txn = store_txn_new();
    store_txn_put(txn, &d);
    ck_assert_int_eq(commit(txn), GH_OK);
}

/* ---- files ---- */

static void assert_private(const char *name)
{
    struct stat st;
    ck_assert_msg(lstat(scene_path(&scene, name), &st) == 0, "%s", name);
    ck_assert_msg((st.st_mode & 07777) == 0600, "%s has mode %o", name, (unsigned)st.st_mode);
}

static void run_mode_case(mode_t mask)
{
    scene = scene_new();
    umask(mask);
    scene_open(&scene);
    scene_add_rows(&scene, 0, 3);
    static const char *const names[] = {"store.db", "store.db-wal", "store.db-shm", "store.lock",
                                        "audit.anchor"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_private(names[i]);
    }
    teardown();
    umask(022);
}

START_TEST(files_are_private_whatever_the_umask)
{
    run_mode_case(0);
    run_mode_case(0277);
}
END_TEST

START_TEST(wide_mode_is_narrowed)
{
    scene_close(&scene);
    ck_assert_int_eq(chmod(scene_path(&scene, "store.db"), 0666), 0);
    scene_open(&scene);
    scene_add_rows(&scene, 0, 1);
    assert_private("store.db");
    assert_private("store.db-wal");
}
END_TEST

START_TEST(fresh_store_is_healthy_and_verifies)
{
    struct store_health health = scene_health(&scene);
    ck_assert(health.is_writable);
    ck_assert(!health.is_damaged);
    ck_assert_str_eq(health.reason, "");
    ck_assert_int_eq(health.n_rows, 0);
    struct store_verify verify = scene_verify(&scene);
    ck_assert_msg(verify.is_ok, "%s", verify.reason);
    ck_assert_int_eq(verify.n_checked, 0);
}
END_TEST

/* The second opener sits in another process, as a second service would. */
START_TEST(second_opener_is_refused_by_name)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct store_options options = {.dir = scene.dir};
        struct store *other = NULL;
        struct gh_err err = {0};
        char expected[64];
        snprintf(expected, sizeof expected, "(process %d)", (int)getppid());
        bool is_right = store_open(&options, &other, &err) == GH_CONFLICT && other == NULL &&
                        strstr(err.detail, expected) != NULL;
        _exit(is_right ? 0 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_int_eq(scene_try_row(&scene, 0), GH_OK);
}
END_TEST

START_TEST(missing_folder_is_an_error)
{
    struct store_options options = {.dir = "/nonexistent/gatehouse"};
    struct store *other = NULL;
    struct gh_err err = {0};
    ck_assert_int_eq(store_open(&options, &other, &err), GH_IO);
    ck_assert_ptr_null(other);
}
END_TEST

START_TEST(chain_continues_over_restarts)
{
    for (int i = 0; i < 5; i++) {
        scene_add_rows(&scene, i * 10, i * 10 + 10);
        scene_reopen(&scene);
    }
    ck_assert_int_eq(scene_health(&scene).n_rows, 50);
    struct store_verify verify = scene_verify(&scene);
    ck_assert_msg(verify.is_ok, "%s", verify.reason);
    ck_assert_int_eq(verify.n_checked, 50);
    ck_assert_int_eq(verify.first_seq, 1);
    ck_assert_int_eq(verify.last_seq, 50);
    scene_close(&scene);
    struct store_verify closed = scene_verify(&scene);
    ck_assert_msg(closed.is_ok, "%s", closed.reason);
    ck_assert_str_eq(closed.last_hash, verify.last_hash);
    ck_assert_int_ne(access(scene_path(&scene, "store.db-wal"), F_OK), 0); /* left no trace */
}
END_TEST

/* ---- documents ---- */

START_TEST(document_is_put_read_replaced_and_deleted)
{
    struct store_doc d = {.kind = STORE_APPROVAL,
                          .id = "apr_1",
                          .session = "ses_1",
                          .ref = "dec_1",
                          .state = "pending",
                          .created_ms = 123,
                          .body = "{\"a\":\"\xC3\xA4\\n\"}"};
    put(d);
    struct store_row row = {0};
    ck_assert_int_eq(store_get(scene.store, STORE_APPROVAL, "apr_1", &row, NULL), GH_OK);
    ck_assert_str_eq(row.id, d.id);
    ck_assert_str_eq(row.session, d.session);
    ck_assert_str_eq(row.ref, d.ref);
    ck_assert_str_eq(row.state, d.state);
    ck_assert_str_eq(row.body, d.body);
    ck_assert_int_eq(row.created_ms, 123);
    store_row_fini(&row);

    ck_assert_int_eq(store_get_by_ref(scene.store, STORE_APPROVAL, "dec_1", &row, NULL), GH_OK);
    ck_assert_str_eq(row.id, "apr_1");
    store_row_fini(&row);
    ck_assert_int_eq(store_get(scene.store, STORE_SESSION, "apr_1", &row, NULL), GH_NOT_FOUND);
    ck_assert_int_eq(store_get_by_ref(scene.store, STORE_APPROVAL, "", &row, NULL), GH_NOT_FOUND);

    d.state = "settled";
    put(d);
    ck_assert_int_eq(store_get(scene.store, STORE_APPROVAL, "apr_1", &row, NULL), GH_OK);
    ck_assert_str_eq(row.state, "settled");
    store_row_fini(&row);

    struct store_txn *txn = store_txn_new();
    store_txn_delete(txn, STORE_APPROVAL, "apr_1");
    ck_assert_int_eq(commit(txn), GH_OK);
    ck_assert_int_eq(store_get(scene.store, STORE_APPROVAL, "apr_1", &row, NULL), GH_NOT_FOUND);
}
END_TEST

START_TEST(duplicate_insert_fails_alone_and_whole)
{
    put(doc(STORE_IDEMPOTENCY, "key", "", "{}"));
    struct store_txn *txn = store_txn_new();
    struct scene_space space;
    struct store_audit row = scene_row(1, &space);
    struct store_doc side = doc(STORE_META, "side", "", "{}");
    struct store_doc twice = doc(STORE_IDEMPOTENCY, "key", "", "{\"other\":1}");
    store_txn_put(txn, &side);
    store_txn_audit(txn, &row);
    store_txn_insert(txn, &twice);
    struct store_txn *bare = store_txn_new();
    store_txn_insert(bare, &twice);
    struct store_txn *good = store_txn_new();
    store_txn_audit(good, &row);

    store_commit(scene.store, &bare, NULL, NULL);
    store_commit(scene.store, &good, NULL, NULL);
    ck_assert_int_eq(commit(txn), GH_AUDIT);
    scene_add_rows(&scene, 2, 4);

    struct store_row found = {0};
    ck_assert_int_eq(store_get(scene.store, STORE_META, "side", &found, NULL), GH_NOT_FOUND);
    ck_assert_int_eq(store_get(scene.store, STORE_IDEMPOTENCY, "key", &found, NULL), GH_OK);
    ck_assert_str_eq(found.body, "{}");
    store_row_fini(&found);
    ck_assert_int_eq(scene_health(&scene).n_rows, 3);
    ck_assert(scene_health(&scene).is_writable);
    ck_assert(scene_verify(&scene).is_ok);
}
END_TEST

START_TEST(unbuildable_transaction_fails_alone)
{
    char id[402];
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    struct store_doc long_id = doc(STORE_META, id, "", "{}");
    struct store_txn *txn = store_txn_new();
    store_txn_put(txn, &long_id);
    ck_assert_int_eq(commit(txn), GH_AUDIT);

    struct scene_space space;
    struct store_audit row = scene_row(1, &space);
    row.peer = NULL;
    txn = store_txn_new();
    store_txn_audit(txn, &row);
    ck_assert_int_eq(commit(txn), GH_AUDIT);
    ck_assert_int_eq(scene_health(&scene).n_rows, 0);

    id[400] = '\0';
    put(long_id);
    struct store_row found = {0};
    ck_assert_int_eq(store_get(scene.store, STORE_META, id, &found, NULL), GH_OK);
    store_row_fini(&found);
}
END_TEST

/* Larger than the space a transaction begins with, several times over. */
START_TEST(large_and_many_steps_are_kept)
{
    size_t len = 3 << 20;
    gh_autofree char *body = malloc(len + 1);
    memset(body, 'b', len);
    body[len] = '\0';
    struct store_txn *txn = store_txn_new();
    struct scene_space space;
    for (int i = 0; i < 20; i++) {
        struct store_audit row = scene_row(i, &space);
        store_txn_audit(txn, &row);
    }
    struct store_doc large = doc(STORE_META, "large", "", body);
    store_txn_put(txn, &large);
    ck_assert_int_eq(commit(txn), GH_OK);
    struct store_row row = {0};
    ck_assert_int_eq(store_get(scene.store, STORE_META, "large", &row, NULL), GH_OK);
    ck_assert_str_eq(row.body, body);
    store_row_fini(&row);
    ck_assert_int_eq(scene_health(&scene).n_rows, 20);
    ck_assert(scene_verify(&scene).is_ok);
}
END_TEST

struct ids {
    char text[512];
};

static void add_id(const struct store_row *row, void *cookie)
{
    struct ids *ids = cookie;
    strncat(ids->text, row->id, sizeof ids->text - strlen(ids->text) - 2);
    strcat(ids->text, " ");
}

static void assert_list(struct store_filter filter, const char *expected)
{
    struct ids ids = {""};
    filter.limit = filter.limit != 0 ? filter.limit : 100;
    ck_assert_int_eq(store_list(scene.store, STORE_APPROVAL, &filter, add_id, &ids, NULL), GH_OK);
    ck_assert_str_eq(ids.text, expected);
}

START_TEST(documents_are_listed_by_page_state_and_session)
{
    static const struct {
        const char *id, *session, *state;
    } docs[] = {{"c", "s1", "pending"}, {"a", "s1", "pending"}, {"d", "s2", "settled"},
                {"b", "s2", "expired"}, {"e", "", ""},          {"f", "s1", "settled"}};
    for (size_t i = 0; i < sizeof docs / sizeof docs[0]; i++) {
        struct store_doc d = doc(STORE_APPROVAL, docs[i].id, docs[i].state, "{}");
        d.session = docs[i].session;
        put(d);
    }
    put(doc(STORE_SESSION, "x", "pending", "{}"));
    const char *const pending[] = {"pending", NULL};
    const char *const two[] = {"settled", "pending", NULL};
    const char *const empty[] = {"", NULL};
    const char *const none[] = {NULL};
    assert_list((struct store_filter){0}, "a b c d e f ");
    assert_list((struct store_filter){.newest_first = true}, "f e d c b a ");
    assert_list((struct store_filter){.limit = 2}, "a b ");
    assert_list((struct store_filter){.limit = 2, .after = "b"}, "c d ");
    assert_list((struct store_filter){.after = "c", .newest_first = true}, "b a ");
    assert_list((struct store_filter){.states = pending}, "a c ");
    assert_list((struct store_filter){.states = two}, "a c d f ");
    assert_list((struct store_filter){.states = two, .limit = 2, .newest_first = true}, "f d ");
    assert_list((struct store_filter){.states = two, .after = "a", .limit = 1}, "c ");
    assert_list((struct store_filter){.states = empty}, "e ");
    assert_list((struct store_filter){.states = none}, "");
    assert_list((struct store_filter){.session = "s1"}, "a c f ");
    assert_list((struct store_filter){.session = ""}, "e ");
    assert_list((struct store_filter){.session = "s1", .states = two, .newest_first = true},
                "f c a ");
    assert_list((struct store_filter){.session = "nobody"}, "");
}
END_TEST

START_TEST(old_idempotency_keys_are_removed_and_nothing_else)
{
    int64_t now_ms = gh_clock_wall_ms();
    static const struct {
        enum store_kind kind;
        const char *id;
        int64_t age_h;
        bool is_kept;
    } docs[] = {{STORE_IDEMPOTENCY, "old", 25, false},
                {STORE_IDEMPOTENCY, "young", 23, true},
                {STORE_APPROVAL, "settled", 2500, true},
                {STORE_SESSION, "ended", 2500, true}};
    for (size_t i = 0; i < sizeof docs / sizeof docs[0]; i++) {
        struct store_doc d = doc(docs[i].kind, docs[i].id, "", "{}");
        d.created_ms = now_ms - docs[i].age_h * 3600 * 1000;
        put(d);
    }
    scene_reopen(&scene);
    struct store_row row = {0};
    for (int i = 0;
         i < 4000 && store_get(scene.store, STORE_IDEMPOTENCY, "old", &row, NULL) == GH_OK; i++) {
        store_row_fini(&row);
        usleep(5000);
    }
    for (size_t i = 0; i < sizeof docs / sizeof docs[0]; i++) {
        enum gh_code code = store_get(scene.store, docs[i].kind, docs[i].id, &row, NULL);
        ck_assert_int_eq(code, docs[i].is_kept ? GH_OK : GH_NOT_FOUND);
        store_row_fini(&row);
    }
}
END_TEST

/* ---- audit lists ---- */

struct seen {
    uint64_t seqs[8000];
    size_t n, max;
};

static bool see(const struct store_audit_row *row, void *cookie)
{
    struct seen *seen = cookie;
    ck_assert_uint_lt(seen->n, 8000);
    seen->seqs[seen->n++] = row->seq;
    return seen->max == 0 || seen->n < seen->max;
}

static struct seen list(struct store_audit_filter filter)
{
    struct seen seen = {.n = 0};
    ck_assert_int_eq(store_audit_list(scene.store, &filter, see, &seen, NULL), GH_OK);
    return seen;
}

/* What the rows of scene_row look like to a filter. */
static bool is_match(const struct store_audit_filter *f, int i)
{
    struct scene_space space;
    struct store_audit row = scene_row(i, &space);
    return (f->session == NULL || strcmp(f->session, row.session) == 0) &&
           (f->action == NULL || strcmp(f->action, row.action) == 0) &&
           (f->decision == NULL || strcmp(f->decision, row.decision) == 0) &&
           (f->by == NULL || strcmp(f->by, row.by) == 0) &&
           (f->tool == NULL || strcmp(f->tool, row.tool) == 0) &&
           (f->ref == NULL || strcmp(f->ref, row.ref) == 0) &&
           (f->kind == NULL || strcmp(f->kind, row.kind) == 0) &&
           (f->text == NULL || strstr(row.body, f->text) != NULL) &&
           (f->since_ms == 0 || row.at_ms >= f->since_ms) &&
           (f->until_ms == 0 || row.at_ms < f->until_ms);
}

static const struct store_audit_filter filters[] = {
    {0},
    {.session = "ses_3"},
    {.session = "ses_3", .decision = "deny"},
    {.action = "write"},
    {.by = "person"},
    {.by = "rule", .tool = "shell"},
    {.ref = "dec_000777"},
    {.ref = "dec_000777", .kind = "decision"},
    {.kind = "session"},
    {.text = "file-99"},
    {.text = "%"},
    {.since_ms = 1700000000100, .until_ms = 1700000000110},
    {.session = "'; DROP TABLE audit; --"},
};

static void check_filter(struct store_audit_filter filter, int n_rows)
{
    struct seen up = list(filter);
    filter.newest_first = true;
    struct seen down = list(filter);
    size_t n = 0;
    for (int i = 0; i < n_rows; i++) {
        if (is_match(&filter, i)) {
            ck_assert_uint_lt(n, up.n);
            ck_assert_uint_eq(up.seqs[n++], (uint64_t)i + 1);
        }
    }
    ck_assert_uint_eq(n, up.n);
    ck_assert_uint_eq(n, down.n);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(down.seqs[i], up.seqs[n - 1 - i]);
    }
}

START_TEST(audit_filters_agree_with_a_plain_search)
{
    scene_add_rows(&scene, 0, 2500);
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        check_filter(filters[i], 2500);
    }
}
END_TEST

START_TEST(audit_pages_join_without_gap_or_double)
{
    scene_add_rows(&scene, 0, 2500);
    for (int is_down = 0; is_down < 2; is_down++) {
        struct store_audit_filter filter = {.limit = 77, .newest_first = is_down != 0};
        size_t n = 0;
        for (struct seen page = list(filter); page.n > 0; page = list(filter)) {
            for (size_t i = 0; i < page.n; i++, n++) {
                ck_assert_uint_eq(page.seqs[i], is_down ? 2500 - n : n + 1);
            }
            filter.after = page.seqs[page.n - 1];
        }
        ck_assert_uint_eq(n, 2500);
    }
    ck_assert_uint_eq(list((struct store_audit_filter){.after = UINT64_MAX}).n, 0);
    ck_assert_uint_eq(list((struct store_audit_filter){.after = 2500}).n, 0);
    ck_assert_uint_eq(list((struct store_audit_filter){.after = 1, .newest_first = true}).n, 0);
}
END_TEST

START_TEST(audit_list_of_an_empty_log_is_empty)
{
    ck_assert_uint_eq(list((struct store_audit_filter){0}).n, 0);
    ck_assert_uint_eq(list((struct store_audit_filter){.newest_first = true}).n, 0);
}
END_TEST

START_TEST(audit_list_stops_when_told)
{
    scene_add_rows(&scene, 0, 50);
    struct store_audit_filter filter = {0};
    struct seen seen = {.max = 3};
    ck_assert_int_eq(store_audit_list(scene.store, &filter, see, &seen, NULL), GH_OK);
    ck_assert_uint_eq(seen.n, 3);
}
END_TEST

/* A callback that writes and reads would hang or starve if the list held a lock or a connection
 * while it is given out: as many of them as there are readers, and one more, are nested. */
static bool nest(const struct store_audit_row *row, void *cookie)
{
    int *depth = cookie;
    (void)row;
    if (++*depth < 8) {
        struct store_audit_filter filter = {.limit = 1};
        ck_assert_int_eq(scene_try_row(&scene, 1000 + *depth), GH_OK);
        ck_assert_int_eq(store_audit_list(scene.store, &filter, nest, depth, NULL), GH_OK);
    }
    return true;
}

START_TEST(slow_listener_holds_nothing)
{
    scene_add_rows(&scene, 0, 5);
    struct store_audit_filter filter = {.limit = 1};
    int depth = 0;
    ck_assert_int_eq(store_audit_list(scene.store, &filter, nest, &depth, NULL), GH_OK);
    ck_assert_int_eq(depth, 8);
    ck_assert_int_eq(scene_health(&scene).n_rows, 12);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *files = tcase_create("files without a store");
    tcase_add_test(files, files_are_private_whatever_the_umask);
    suite_add_tcase(suite, files);
    TCase *tests = tcase_create("store");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, wide_mode_is_narrowed);
    tcase_add_test(tests, fresh_store_is_healthy_and_verifies);
    tcase_add_test(tests, second_opener_is_refused_by_name);
    tcase_add_test(tests, missing_folder_is_an_error);
    tcase_add_test(tests, chain_continues_over_restarts);
    tcase_add_test(tests, document_is_put_read_replaced_and_deleted);
    tcase_add_test(tests, duplicate_insert_fails_alone_and_whole);
    tcase_add_test(tests, unbuildable_transaction_fails_alone);
    tcase_add_test(tests, large_and_many_steps_are_kept);
    tcase_add_test(tests, documents_are_listed_by_page_state_and_session);
    tcase_add_test(tests, old_idempotency_keys_are_removed_and_nothing_else);
    tcase_add_test(tests, audit_filters_agree_with_a_plain_search);
    tcase_add_test(tests, audit_pages_join_without_gap_or_double);
    tcase_add_test(tests, audit_list_of_an_empty_log_is_empty);
    tcase_add_test(tests, audit_list_stops_when_told);
    tcase_add_test(tests, slow_listener_holds_nothing);
    suite_add_tcase(suite, tests);
    return scene_main(suite);
}
