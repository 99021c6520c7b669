/* The write-ahead log is begun anew, not grown for ever. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "scene.h"
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

static void assert_good(void)
{
    struct store_verify verify = scene_verify(&scene);
    ck_assert_msg(verify.is_ok, "row %d: %s", (int)verify.bad_seq, verify.reason);
}

static int64_t log_bytes(void)
{
    struct stat st;
    ck_assert_int_eq(stat(scene_path(&scene, "store.db-wal"), &st), 0);
    return st.st_size;
}

static void add_large_row(const char *body)
{
    struct scene_space space;
    struct store_audit row = scene_row(1, &space);
    struct store_txn *txn = store_txn_new();
    row.body = body;
    store_txn_audit(txn, &row);
    ck_assert_int_eq(store_commit_wait(scene.store, &txn, NULL), GH_OK);
}

/* The log is copied back and begun anew, however long the store runs: what was written comes to
 * many times its length. A reader that sits in an old state only puts that off. */
START_TEST(log_is_used_anew)
{
    sqlite3 *other = NULL;
    int64_t n = 0;
    static char body[60001];
    memset(body, 'b', sizeof body - 1);
    ck_assert_int_eq(sqlite3_open(scene_path(&scene, "store.db"), &other), SQLITE_OK);
    ck_assert_int_eq(store_conn_exec(other, "BEGIN"), SQLITE_OK);
    ck_assert_int_eq(store_conn_int(other, "SELECT count(*) FROM audit", &n), SQLITE_OK);
    for (int i = 0; i < 150; i++) {
        add_large_row(body);
    }
    ck_assert_int_eq(store_conn_exec(other, "COMMIT"), SQLITE_OK);
    sqlite3_close(other);
    int64_t written = 0;
    for (int i = 0; i < 50000 && written < 4 * log_bytes(); i++) {
        add_large_row(body);
        written += (int64_t)sizeof body;
    }
    ck_assert_int_ge(written, 4 * log_bytes());
    assert_good();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store_log");
    TCase *tests = tcase_create("log");
    tcase_set_timeout(tests, 240);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, log_is_used_anew);
    suite_add_tcase(suite, tests);
    return scene_main(suite);
}
