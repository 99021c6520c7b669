/* What happens to a log that somebody changes, cuts, rolls back or prunes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fs.h"
#include "scene.h"
#include "store/chain.h"
#include "store/conn.h"

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

/* The running store and the command line must agree on the place. */
static void assert_bad(uint64_t seq)
{
    struct store_verify live = scene_verify(&scene);
    ck_assert_msg(!live.is_ok, "the change was not found");
    ck_assert_msg(live.bad_seq == seq, "row %d instead of %d: %s", (int)live.bad_seq, (int)seq,
                  live.reason);
    ck_assert_str_ne(live.reason, "");
    struct store_verify dir;
    ck_assert_int_eq(store_verify_dir(scene.dir, &dir, NULL), GH_OK);
    ck_assert(!dir.is_ok);
    ck_assert_uint_eq(dir.bad_seq, seq);
}

static void assert_good(void)
{
    struct store_verify live = scene_verify(&scene);
    ck_assert_msg(live.is_ok, "row %d: %s", (int)live.bad_seq, live.reason);
    ck_assert_uint_eq(live.bad_seq, 0);
    struct store_verify dir;
    ck_assert_int_eq(store_verify_dir(scene.dir, &dir, NULL), GH_OK);
    ck_assert_msg(dir.is_ok, "row %d: %s", (int)dir.bad_seq, dir.reason);
}

/* ---- changes ---- */

static const struct {
    const char *sql;
    uint64_t bad_seq; /* of 40 rows */
} tampers[] = {
    {"UPDATE audit SET at_ms = at_ms + 1 WHERE seq = 7", 7},
    {"UPDATE audit SET part = part + 1 WHERE seq = 7", 7},
    {"UPDATE audit SET kind = 'Decision' WHERE seq = 7", 7},
    {"UPDATE audit SET session = 'ses_x' WHERE seq = 7", 7},
    {"UPDATE audit SET ref = 'dec_00000' WHERE seq = 7", 7},
    {"UPDATE audit SET tool = '' WHERE seq = 7", 7},
    {"UPDATE audit SET action = 'write2' WHERE seq = 7", 7},
    {"UPDATE audit SET decision = 'ALLOW' WHERE seq = 7", 7},
    {"UPDATE audit SET \"by\" = 'person' WHERE seq = 7", 7},
    {"UPDATE audit SET code = 'c' WHERE seq = 7", 7},
    {"UPDATE audit SET mode = 'm' WHERE seq = 7", 7},
    {"UPDATE audit SET principal = 'p' WHERE seq = 7", 7},
    {"UPDATE audit SET peer = '' WHERE seq = 7", 7},
    {"UPDATE audit SET agent = 'curl' WHERE seq = 7", 7},
    {"UPDATE audit SET trace_id = '0124' WHERE seq = 7", 7},
    {"UPDATE audit SET body = replace(body, 'file', 'fill') WHERE seq = 7", 7},
    {"UPDATE audit SET hash = zeroblob(32) WHERE seq = 7", 7},
    {"UPDATE audit SET hash = x'00' WHERE seq = 7", 7},
    {"UPDATE audit SET hash = zeroblob(32) WHERE seq = 40", 40},
    /* A byte moved over a column's border. */
    {"UPDATE audit SET agent = agent || '0', trace_id = substr(trace_id, 2) WHERE seq = 7", 7},
    {"UPDATE audit SET body = body || x'00' WHERE seq = 7", 7},
    {"UPDATE audit SET kind = 'x' WHERE seq = 1", 1},
    {"UPDATE audit SET kind = 'x' WHERE seq = 40", 40},
    {"UPDATE audit SET seq = 41 WHERE seq = 40", 40},
    {"UPDATE audit SET seq = -1 WHERE seq = 1", 1},
    {"UPDATE audit SET seq = 0 WHERE seq = 1", 1},
    /* A row before the first, with the hash that row 1 builds on. */
    {"INSERT INTO audit SELECT 0, at_ms, part, kind, session, ref, tool, action, decision, \"by\","
     " code, mode, principal, peer, agent, trace_id, zeroblob(32), body FROM audit WHERE seq = 40",
     1},
    /* Two rows swapped. */
    {"UPDATE audit SET seq = 99 WHERE seq = 7; UPDATE audit SET seq = 7 WHERE seq = 12;"
     "UPDATE audit SET seq = 12 WHERE seq = 99",
     7},
    /* One doubled at the end. */
    {"INSERT INTO audit SELECT 41, at_ms, part, kind, session, ref, tool, action, decision, \"by\","
     " code, mode, principal, peer, agent, trace_id, hash, body FROM audit WHERE seq = 40",
     41},
    {"DELETE FROM audit WHERE seq = 7", 7},
    {"DELETE FROM audit WHERE seq IN (1, 2)", 1},
    {"DELETE FROM audit WHERE seq >= 38", 38},
    {"DELETE FROM audit", 1},
    {"UPDATE meta SET value = 'gw_other' WHERE key = 'gateway'", 1},
};

START_TEST(every_change_is_found_in_its_place)
{
    scene_add_rows(&scene, 0, 40);
    scene_close(&scene); /* the anchor is written */
    struct store_verify verify = scene_verify(&scene);
    ck_assert_msg(verify.is_ok, "%s", verify.reason);
    scene_sql(&scene, tampers[_i].sql);
    verify = scene_verify(&scene);
    ck_assert(!verify.is_ok);
    ck_assert_str_ne(verify.reason, "");
    ck_assert_uint_eq(verify.bad_seq, tampers[_i].bad_seq);
}
END_TEST

START_TEST(change_under_a_running_service_is_found)
{
    scene_add_rows(&scene, 0, 40);
    scene_sql(&scene, "UPDATE audit SET tool = 'x' WHERE seq = 33");
    assert_bad(33);
    scene_add_rows(&scene, 40, 50);
    assert_bad(33);
}
END_TEST

/* The anchor may be 200 ms old; the running store knows better. */
START_TEST(tail_cut_under_a_running_service_is_found)
{
    scene_add_rows(&scene, 0, 40);
    scene_sql(&scene, "DELETE FROM audit WHERE seq = 40");
    struct store_verify verify = scene_verify(&scene);
    ck_assert(!verify.is_ok);
    ck_assert_uint_eq(verify.bad_seq, 40);
    scene_add_rows(&scene, 40, 41);
    assert_bad(40);
}
END_TEST

/* Rows that another program appends are not overwritten, not continued, and stop the gate. */
START_TEST(row_appended_by_hand_stops_the_store)
{
    scene_add_rows(&scene, 0, 10);
    scene_sql(&scene, "INSERT INTO audit SELECT 11, at_ms, part, kind, session, ref, tool, action,"
                      " decision, \"by\", code, mode, principal, peer, agent, trace_id, hash, body"
                      " FROM audit WHERE seq = 10");
    assert_bad(11);
    ck_assert_int_eq(scene_try_row(&scene, 11), GH_AUDIT);
    ck_assert(scene_health(&scene).is_damaged);
    scene_reopen(&scene);
    ck_assert(scene_health(&scene).is_damaged);
    ck_assert_int_eq(scene_try_row(&scene, 11), GH_AUDIT);
}
END_TEST

/* A byte changed in the file itself, below SQL, far before the rows that a start looks at. */
START_TEST(flipped_byte_in_the_file_is_found)
{
    scene_add_rows(&scene, 0, 300);
    scene_close(&scene);
    gh_autofree char *data = NULL;
    size_t len = 0;
    ck_assert_int_eq(
        gh_fs_read(AT_FDCWD, scene_path(&scene, "store.db"), 1 << 24, &data, &len, NULL), GH_OK);
    static const char needle[] = "/tmp/file-19\"";
    char *at = memmem(data, len, needle, sizeof needle - 1);
    ck_assert_ptr_nonnull(at);
    scene_overwrite(scene_path(&scene, "store.db"), at - data + 5, "F", 1);
    scene_open(&scene);
    ck_assert(scene_health(&scene).is_writable);
    assert_bad(20);
}
END_TEST

START_TEST(broken_tail_is_found_at_the_start)
{
    scene_add_rows(&scene, 0, 300);
    scene_close(&scene);
    scene_sql(&scene, "UPDATE audit SET decision = 'allow' WHERE seq = 296");
    scene_open(&scene);
    struct store_health health = scene_health(&scene);
    ck_assert(health.is_damaged);
    ck_assert(!health.is_writable);
    ck_assert_ptr_nonnull(strstr(health.reason, "row 296"));
    ck_assert_int_eq(scene_try_row(&scene, 300), GH_AUDIT);
    assert_bad(296);
}
END_TEST

/* Everything from row 20 on rewritten with hashes that fit: the anchor is what tells. */
static void rewrite_from(uint64_t from)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *read = NULL;
    sqlite3_stmt *write = NULL;
    struct gh_buf scratch = GH_BUF_INIT;
    unsigned char prev[GH_SHA256] = {0};
    char gateway[GH_ID] = "";
    ck_assert_int_eq(sqlite3_open(scene_path(&scene, "store.db"), &db), SQLITE_OK);
    store_conn_prepare(db, "SELECT value FROM meta WHERE key = 'gateway'", &read);
    ck_assert_int_eq(sqlite3_step(read), SQLITE_ROW);
    snprintf(gateway, sizeof gateway, "%s", store_stmt_str(read, 0));
    store_stmt_fini(&read);
    store_conn_prepare(db, "SELECT " STORE_AUDIT_COLUMNS " FROM audit ORDER BY seq", &read);
    store_conn_prepare(db, "UPDATE audit SET hash = ?2 WHERE seq = ?1", &write);
    while (sqlite3_step(read) == SQLITE_ROW) {
        struct store_cells cells;
        ck_assert(store_cells_read(read, &cells));
        ck_assert(store_chain_hash(gateway, prev, &cells, &scratch, prev));
        if (cells.seq >= from) {
            sqlite3_bind_int64(write, 1, (int64_t)cells.seq);
            sqlite3_bind_blob(write, 2, prev, sizeof prev, SQLITE_TRANSIENT);
            ck_assert_int_eq(store_stmt_run(write), SQLITE_OK);
        }
    }
    store_stmt_fini(&read);
    store_stmt_fini(&write);
    store_conn_close(&db);
    gh_buf_fini(&scratch);
}

START_TEST(rewritten_log_does_not_fit_its_anchor)
{
    scene_add_rows(&scene, 0, 40);
    scene_close(&scene);
    scene_sql(&scene, "UPDATE audit SET decision = 'allow' WHERE seq = 20");
    rewrite_from(20);
    struct store_verify verify = scene_verify(&scene);
    ck_assert(!verify.is_ok);
    ck_assert_uint_eq(verify.bad_seq, 40);
    ck_assert_ptr_nonnull(strstr(verify.reason, "anchor"));
    scene_open(&scene);
    ck_assert(scene_health(&scene).is_damaged);
}
END_TEST

/* ---- the anchor ---- */

static void copy_file(const char *from, const char *to)
{
    gh_autofree char *data = NULL;
    size_t len = 0;
    ck_assert_int_eq(gh_fs_read(AT_FDCWD, scene_path(&scene, from), 1 << 26, &data, &len, NULL),
                     GH_OK);
    scene_write(&scene, to, data, len);
}

START_TEST(older_copy_put_back_is_refused)
{
    scene_add_rows(&scene, 0, 10);
    scene_close(&scene);
    copy_file("store.db", "older");
    scene_open(&scene);
    scene_add_rows(&scene, 10, 20);
    scene_close(&scene);
    copy_file("older", "store.db");
    scene_open(&scene);
    struct store_health health = scene_health(&scene);
    ck_assert(health.is_damaged);
    ck_assert_ptr_nonnull(strstr(health.reason, "cut"));
    assert_bad(11);

    /* A person who knows may accept it; the log says that it happened. */
    scene_close(&scene);
    ck_assert_int_eq(unlink(scene_path(&scene, "audit.anchor")), 0);
    ck_assert(!scene_verify(&scene).is_ok);
    scene_open(&scene);
    scene_add_rows(&scene, 20, 21);
    ck_assert(scene_health(&scene).is_writable);
    ck_assert_int_eq(scene_sql_int(&scene, "SELECT count(*) FROM audit WHERE kind = 'anchor'"), 1);
    assert_good();
}
END_TEST

static const char *const odd_anchors[] = {
    "",
    "{",
    "[]",
    "{\"version\":2,\"gateway\":\"gw_1\",\"count\":1,\"hash\":\"00\"}",
    "{\"version\":1,\"gateway\":\"gw_1\",\"count\":1,\"hash\":\"00\"}",
    "{\"version\":1,\"gateway\":\"gw_1\",\"count\":1,\"hash\":"
    "\"0000000000000000000000000000000000000000000000000000000000000000\"}",
};

START_TEST(odd_anchor_is_no_anchor)
{
    scene_add_rows(&scene, 0, 10);
    scene_close(&scene);
    const char *text = odd_anchors[_i];
    scene_write(&scene, "audit.anchor", text, strlen(text));
    struct store_verify verify = scene_verify(&scene);
    ck_assert(!verify.is_ok);
    ck_assert_ptr_nonnull(strstr(verify.reason, "anchor"));
    scene_open(&scene);
    ck_assert(scene_health(&scene).is_damaged);
    ck_assert_int_eq(scene_try_row(&scene, 0), GH_AUDIT);
}
END_TEST

/* As after a crash between a commit and the anchor's turn. */
START_TEST(anchor_behind_the_rows_is_fine)
{
    scene_add_rows(&scene, 0, 10);
    scene_close(&scene);
    copy_file("audit.anchor", "older");
    scene_open(&scene);
    scene_add_rows(&scene, 10, 20);
    scene_close(&scene);
    copy_file("older", "audit.anchor");
    scene_open(&scene);
    ck_assert(scene_health(&scene).is_writable);
    assert_good();
}
END_TEST

START_TEST(anchor_follows_the_rows)
{
    scene_add_rows(&scene, 0, 10);
    char text[512] = "";
    for (int i = 0; i < 4000 && strstr(text, "\"count\":10,") == NULL; i++) {
        usleep(5000);
        gh_autofree char *data = NULL;
        size_t len = 0;
        ck_assert_int_eq(gh_fs_read(AT_FDCWD, scene_path(&scene, "audit.anchor"), sizeof text - 1,
                                    &data, &len, NULL),
                         GH_OK);
        snprintf(text, sizeof text, "%s", data);
    }
    ck_assert_ptr_nonnull(strstr(text, "\"count\":10,"));
}
END_TEST

START_TEST(anchor_removed_while_running_comes_back)
{
    scene_add_rows(&scene, 0, 10);
    ck_assert_int_eq(unlink(scene_path(&scene, "audit.anchor")), 0);
    scene_add_rows(&scene, 10, 11);
    scene_close(&scene);
    struct store_verify verify = scene_verify(&scene);
    ck_assert_msg(verify.is_ok, "%s", verify.reason);
}
END_TEST

/* ---- pruning ---- */

/* Prune all rows of scene_row below `i`. */
static uint64_t prune_below(int i)
{
    uint64_t n = 0;
    ck_assert_int_eq(store_prune(scene.store, 1700000000000 + i, &n, NULL), GH_OK);
    return n;
}

START_TEST(pruned_log_verifies_and_goes_on)
{
    scene_add_rows(&scene, 0, 100);
    ck_assert_uint_eq(prune_below(30), 30);
    assert_good();
    ck_assert_uint_eq(prune_below(30), 0);
    scene_add_rows(&scene, 100, 120);
    ck_assert_uint_eq(prune_below(60), 30);
    scene_reopen(&scene);
    scene_add_rows(&scene, 120, 130);
    assert_good();
    struct store_verify verify = scene_verify(&scene);
    ck_assert_uint_eq(verify.first_seq, 61);
    ck_assert_uint_eq(verify.last_seq, 132);
    ck_assert_uint_eq(verify.n_checked, 72);
    ck_assert_uint_eq(scene_health(&scene).n_rows, 132);
}
END_TEST

START_TEST(everything_can_be_pruned)
{
    ck_assert_uint_eq(prune_below(1000000), 0);
    scene_add_rows(&scene, 0, 100);
    uint64_t n = 0;
    ck_assert_int_eq(store_prune(scene.store, gh_clock_wall_ms() + 3600000, &n, NULL), GH_OK);
    ck_assert_uint_eq(n, 100);
    assert_good();
    scene_reopen(&scene);
    scene_add_rows(&scene, 0, 5);
    assert_good();
    struct store_verify verify = scene_verify(&scene);
    ck_assert_uint_eq(verify.first_seq, 101);
}
END_TEST

/* More than one step's worth, in steps that are each a whole prefix behind a row of their own. */
START_TEST(large_prefix_is_pruned_in_steps)
{
    scene_add_rows(&scene, 0, 12000);
    ck_assert_uint_eq(prune_below(11000), 11000);
    ck_assert_int_eq(scene_sql_int(&scene, "SELECT count(*) FROM audit WHERE kind = 'pruned'"), 3);
    assert_good();
    ck_assert_uint_eq(scene_verify(&scene).first_seq, 11001);
}
END_TEST

/* A row that is young for its place (the clock was set back) keeps what follows it. */
START_TEST(only_a_prefix_is_pruned)
{
    scene_add_rows(&scene, 0, 10);
    struct scene_space space;
    struct store_audit row = scene_row(5000, &space);
    struct store_txn *txn = store_txn_new();
    store_txn_audit(txn, &row);
    ck_assert_int_eq(store_commit_wait(scene.store, &txn, NULL), GH_OK);
    scene_add_rows(&scene, 10, 20);
    ck_assert_uint_eq(prune_below(1000), 10);
    ck_assert_uint_eq(scene_verify(&scene).first_seq, 11);
    assert_good();
}
END_TEST

static const struct {
    const char *sql;
    uint64_t bad_seq; /* of 100 rows, 30 pruned, row 101 the pruned one, 9 more behind it */
} pruned_tampers[] = {
    {"UPDATE audit SET body = replace(body, '\"through_seq\":30', '\"through_seq\":31')"
     " WHERE seq = 101",
     101},
    {"UPDATE audit SET body = replace(body, '\"through_hash\":\"', '\"through_hash\":\"0')"
     " WHERE seq = 101",
     101},
    {"UPDATE audit SET body = '{}' WHERE seq = 101", 101},
    {"UPDATE audit SET kind = 'note' WHERE seq = 101", 101},
    {"UPDATE audit SET tool = 'x' WHERE seq = 101", 101},
    {"UPDATE audit SET tool = 'x' WHERE seq = 31", 31},
    {"UPDATE audit SET tool = 'x' WHERE seq IN (31, 50)", 31},
    {"UPDATE audit SET tool = 'x' WHERE seq IN (50, 101)", 50},
    {"DELETE FROM audit WHERE seq = 31", 31},
    {"DELETE FROM audit WHERE seq <= 40", 31},
    {"DELETE FROM audit WHERE seq = 101", 101},
    {"INSERT INTO audit SELECT 30, at_ms, part, kind, session, ref, tool, action, decision, \"by\","
     " code, mode, principal, peer, agent, trace_id, hash, body FROM audit WHERE seq = 31",
     30},
};

START_TEST(every_change_of_a_pruned_log_is_found)
{
    scene_add_rows(&scene, 0, 100);
    ck_assert_uint_eq(prune_below(30), 30);
    scene_add_rows(&scene, 101, 110);
    scene_sql(&scene, pruned_tampers[_i].sql);
    assert_bad(pruned_tampers[_i].bad_seq);
}
END_TEST

START_TEST(old_rows_are_pruned_at_the_start)
{
    scene_add_rows(&scene, 0, 10); /* years old */
    struct scene_space space;
    struct store_audit row = scene_row(10, &space);
    row.at_ms = gh_clock_wall_ms() - (int64_t)9 * 24 * 3600 * 1000;
    struct store_txn *txn = store_txn_new();
    store_txn_audit(txn, &row);
    ck_assert_int_eq(store_commit_wait(scene.store, &txn, NULL), GH_OK);
    scene_close(&scene);
    struct store_options options = {.dir = scene.dir, .retain_days = 10};
    ck_assert_int_eq(store_open(&options, &scene.store, NULL), GH_OK);
    for (int i = 0; i < 4000 && scene_verify(&scene).first_seq == 1; i++) {
        usleep(5000);
    }
    struct store_verify verify = scene_verify(&scene);
    ck_assert_msg(verify.is_ok, "%s", verify.reason);
    ck_assert_uint_eq(verify.first_seq, 11);
    ck_assert_uint_eq(verify.last_seq, 12);
}
END_TEST

#define LOOP(tests, test, table)                                                                   \
    tcase_add_loop_test(tests, test, 0, (int)(sizeof table / sizeof table[0]))

int main(void)
{
    Suite *suite = suite_create("store_chain");
    TCase *tests = tcase_create("chain");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    LOOP(tests, every_change_is_found_in_its_place, tampers);
    tcase_add_test(tests, change_under_a_running_service_is_found);
    tcase_add_test(tests, tail_cut_under_a_running_service_is_found);
    tcase_add_test(tests, row_appended_by_hand_stops_the_store);
    tcase_add_test(tests, flipped_byte_in_the_file_is_found);
    tcase_add_test(tests, broken_tail_is_found_at_the_start);
    tcase_add_test(tests, rewritten_log_does_not_fit_its_anchor);
    tcase_add_test(tests, older_copy_put_back_is_refused);
    LOOP(tests, odd_anchor_is_no_anchor, odd_anchors);
    tcase_add_test(tests, anchor_behind_the_rows_is_fine);
    tcase_add_test(tests, anchor_follows_the_rows);
    tcase_add_test(tests, anchor_removed_while_running_comes_back);
    tcase_add_test(tests, pruned_log_verifies_and_goes_on);
    tcase_add_test(tests, everything_can_be_pruned);
    tcase_add_test(tests, large_prefix_is_pruned_in_steps);
    tcase_add_test(tests, only_a_prefix_is_pruned);
    LOOP(tests, every_change_of_a_pruned_log_is_found, pruned_tampers);
    tcase_add_test(tests, old_rows_are_pruned_at_the_start);
    suite_add_tcase(suite, tests);
    return scene_main(suite);
}
