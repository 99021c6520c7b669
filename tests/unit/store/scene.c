#include "scene.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fs.h"
#include "base/id.h"
#include "store/conn.h"

struct scene scene_new(void)
{
    struct scene scene = {.dir = "/tmp/gh-store-XXXXXX"};
    ck_assert(gh_id_init());
    ck_assert_ptr_nonnull(mkdtemp(scene.dir));
    return scene;
}

void scene_open(struct scene *scene)
{
    struct gh_err err = {0};
    struct store_options options = {.dir = scene->dir};
    ck_assert_msg(store_open(&options, &scene->store, &err) == GH_OK, "%s", err.detail);
}

void scene_close(struct scene *scene)
{
    store_close(gh_steal(&scene->store));
}

void scene_reopen(struct scene *scene)
{
    scene_close(scene);
    scene_open(scene);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

void scene_end(struct scene *scene)
{
    scene_close(scene);
    ck_assert_int_eq(nftw(scene->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

struct store_audit scene_row(int i, struct scene_space *space)
{
    static const char *const decisions[] = {"allow", "deny", "ask"};
    snprintf(space->ref, sizeof space->ref, "dec_%06d", i);
    snprintf(space->session, sizeof space->session, "ses_%d", i % 7);
    snprintf(space->body, sizeof space->body, "{\"target\":\"/tmp/file-%d\"}", i);
    return (struct store_audit){
        .kind = "decision",
        .at_ms = 1700000000000 + i,
        .session = space->session,
        .ref = space->ref,
        .part = i % 3,
        .tool = i % 2 == 0 ? "shell" : "write_file",
        .action = i % 2 == 0 ? "execute" : "write",
        .decision = decisions[i % 3],
        .by = "rule",
        .code = "code",
        .mode = "ask",
        .principal = "agent tok_1",
        .peer = "127.0.0.1:9",
        .agent = "check/1",
        .trace_id = "0123",
        .body = space->body,
    };
}

enum gh_code scene_try_row(struct scene *scene, int i)
{
    struct scene_space space;
    struct store_audit row = scene_row(i, &space);
    struct store_txn *txn = store_txn_new();
    ck_assert_ptr_nonnull(txn);
    store_txn_audit(txn, &row);
    return store_commit_wait(scene->store, &txn, NULL);
}

void scene_add_rows(struct scene *scene, int from, int to)
{
    for (int i = from; i < to; i++) {
        struct scene_space space;
        struct store_audit row = scene_row(i, &space);
        struct store_txn *txn = store_txn_new();
        ck_assert_ptr_nonnull(txn);
        store_txn_audit(txn, &row);
        if (i + 1 < to) {
            store_commit(scene->store, &txn, NULL, NULL);
        } else {
            struct gh_err err = {0};
            ck_assert_msg(store_commit_wait(scene->store, &txn, &err) == GH_OK, "%s", err.detail);
        }
    }
}

static sqlite3 *open_as_stranger(const struct scene *scene)
{
    sqlite3 *db = NULL;
    ck_assert_int_eq(
        sqlite3_open_v2(scene_path(scene, "store.db"), &db, SQLITE_OPEN_READWRITE, NULL),
        SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    return db;
}

void scene_sql(const struct scene *scene, const char *sql)
{
    sqlite3 *db = open_as_stranger(scene);
    char *message = NULL;
    int rc = sqlite3_exec(db, sql, NULL, NULL, &message);
    ck_assert_msg(rc == SQLITE_OK, "%s: %s", sql, message);
    sqlite3_close(db);
}

int64_t scene_sql_int(const struct scene *scene, const char *sql)
{
    sqlite3 *db = open_as_stranger(scene);
    int64_t value = -1;
    ck_assert_int_eq(store_conn_int(db, sql, &value), SQLITE_OK);
    sqlite3_close(db);
    return value;
}

const char *scene_path(const struct scene *scene, const char *name)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", scene->dir, name);
    return path;
}

struct store_health scene_health(const struct scene *scene)
{
    struct store_health health;
    store_health(scene->store, &health);
    return health;
}

struct store_verify scene_verify(const struct scene *scene)
{
    struct store_verify verify;
    struct gh_err err = {0};
    enum gh_code code = scene->store != NULL ? store_verify(scene->store, &verify, &err)
                                             : store_verify_dir(scene->dir, &verify, &err);
    ck_assert_msg(code == GH_OK, "%s", err.detail);
    return verify;
}

static void nap(void)
{
    struct timespec moment = {.tv_nsec = 5000000};
    nanosleep(&moment, NULL);
}

void scene_await_writable(const struct scene *scene, bool is_writable)
{
    for (int i = 0; i < 6000 && scene_health(scene).is_writable != is_writable; i++) {
        nap();
    }
    ck_assert_msg(scene_health(scene).is_writable == is_writable, "%s", scene_health(scene).reason);
}

void scene_await_damaged(const struct scene *scene)
{
    for (int i = 0; i < 6000 && !scene_health(scene).is_damaged; i++) {
        nap();
    }
    ck_assert(scene_health(scene).is_damaged);
}

void scene_write(const struct scene *scene, const char *name, const void *data, size_t len)
{
    gh_autoclose int dir_fd = open(scene->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(dir_fd, 0);
    ck_assert_int_eq(gh_fs_replace(dir_fd, name, data, len, NULL), GH_OK);
}

void scene_overwrite(const char *path, int64_t at, const void *data, size_t len)
{
    gh_autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, data, len, at), (ssize_t)len);
}

int scene_repeat(int fallback)
{
    const char *text = getenv("GH_REPEAT");
    return text != NULL && atoi(text) > 0 ? atoi(text) : fallback;
}

int scene_main(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
