/* A store whose disk, files or neighbours fail: nothing is acknowledged that is not there, health
 * says so, and it recovers by itself where that is right. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fs.h"
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

static void assert_reason(const char *part)
{
    struct store_health health = scene_health(&scene);
    ck_assert(!health.is_writable);
    ck_assert_msg(strstr(health.reason, part) != NULL, "%s", health.reason);
}

static void move(const char *from, const char *to)
{
    ck_assert_int_eq(rename(scene_path(&scene, from), scene_path(&scene, to)), 0);
}

/* ---- the disk ---- */

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A write that is refused in the middle of a commit, without root and without a full disk. */
START_TEST(refused_write_denies_and_recovers)
{
    signal(SIGXFSZ, SIG_IGN);
    scene_add_rows(&scene, 0, 10);
    limit_files(4096);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(scene_try_row(&scene, 100 + i), GH_AUDIT);
    }
    struct store_health health = scene_health(&scene);
    ck_assert(!health.is_writable);
    ck_assert(!health.is_damaged);
    ck_assert_str_ne(health.reason, "");
    ck_assert_uint_ge(health.n_errors, 20);
    ck_assert_uint_eq(health.n_rows, 10);
    limit_files(RLIM_INFINITY);
    scene_await_writable(&scene, true); /* without a commit */
    scene_add_rows(&scene, 10, 20);
    ck_assert_uint_eq(scene_health(&scene).n_rows, 20);
    assert_good();
    scene_reopen(&scene);
    assert_good();
}
END_TEST

START_TEST(start_on_a_refusing_disk_recovers)
{
    signal(SIGXFSZ, SIG_IGN);
    scene_close(&scene);
    limit_files(100);
    scene_open(&scene);
    ck_assert(!scene_health(&scene).is_writable);
    ck_assert_int_eq(scene_try_row(&scene, 0), GH_AUDIT);
    limit_files(RLIM_INFINITY);
    scene_await_writable(&scene, true);
    scene_add_rows(&scene, 0, 3);
    assert_good();
}
END_TEST

static bool write_proc(const char *path, const char *text)
{
    gh_autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && gh_fs_write_all(fd, text, strlen(text));
}

/* A namespace in which file systems can be mounted; without root, by being root in it. */
static bool enter_namespace(void)
{
    char uids[32];
    char gids[32];
    if (geteuid() == 0) {
        return unshare(CLONE_NEWNS) == 0;
    }
    snprintf(uids, sizeof uids, "0 %u 1\n", (unsigned)geteuid());
    snprintf(gids, sizeof gids, "0 %u 1\n", (unsigned)getegid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_proc("/proc/self/uid_map", uids) &&
           write_proc("/proc/self/setgroups", "deny") && write_proc("/proc/self/gid_map", gids);
}

/* A small file system of our own over the scene's folder. Returns false (with the reason printed)
 * where that is not allowed. */
static bool mount_small(const char *options)
{
    if (enter_namespace() && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("none", scene.dir, "tmpfs", 0, options) == 0) {
        return true;
    }
    printf("skipped: no file system can be mounted here (%s)\n", strerror(errno));
    return false;
}

static void unmount_small(void)
{
    scene_close(&scene);
    ck_assert_int_eq(umount(scene.dir), 0);
}

static void fill_disk(void)
{
    gh_autoclose int fd = open(scene_path(&scene, "ballast"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    static const char block[4096] = {1};
    while (write(fd, block, sizeof block) > 0 || errno == EINTR) {
    }
    ck_assert_int_eq(errno, ENOSPC);
}

START_TEST(full_disk_denies_and_recovers)
{
    scene_close(&scene);
    if (!mount_small("size=8m,mode=0700")) {
        return;
    }
    scene_open(&scene);
    scene_add_rows(&scene, 0, 100);
    fill_disk();
    int n_denied = 0;
    for (int i = 0; i < 2000; i++) {
        n_denied += scene_try_row(&scene, 1000 + i) != GH_OK;
    }
    uint64_t n_rows = scene_health(&scene).n_rows;
    ck_assert_uint_eq(n_rows, 100 + 2000 - (uint64_t)n_denied);
    ck_assert_int_gt(n_denied, 0);
    assert_reason("disk is full");
    assert_good();
    ck_assert_int_eq(unlink(scene_path(&scene, "ballast")), 0);
    scene_await_writable(&scene, true);
    scene_add_rows(&scene, 0, 50);
    ck_assert_uint_eq(scene_health(&scene).n_rows, n_rows + 50);
    assert_good();
    scene_reopen(&scene);
    ck_assert(scene_health(&scene).is_writable);
    assert_good();
    unmount_small();
}
END_TEST

START_TEST(read_only_disk_denies_and_recovers)
{
    scene_close(&scene);
    if (!mount_small("size=64m,mode=0700")) {
        return;
    }
    scene_open(&scene);
    scene_add_rows(&scene, 0, 10);
    scene_close(&scene);
    ck_assert_int_eq(mount(NULL, scene.dir, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    scene_open(&scene);
    ck_assert(!scene_health(&scene).is_writable);
    ck_assert(!scene_health(&scene).is_damaged);
    ck_assert_int_eq(scene_try_row(&scene, 10), GH_AUDIT);
    ck_assert_int_eq(mount(NULL, scene.dir, NULL, MS_REMOUNT, NULL), 0);
    scene_await_writable(&scene, true);
    scene_add_rows(&scene, 10, 20);
    ck_assert_uint_eq(scene_health(&scene).n_rows, 20);
    assert_good();
    unmount_small();
}
END_TEST

/* As somebody whom modes bind, which root is not. */
static int try_read_only_folder(void)
{
    if (geteuid() == 0 &&
        (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0)) {
        return 2;
    }
    struct store_options options = {.dir = scene.dir};
    struct store *store = NULL;
    struct store_txn *txn = store_txn_new();
    struct store_health health;
    if (store_open(&options, &store, NULL) != GH_OK) {
        return 3;
    }
    store_health(store, &health);
    bool is_right = !health.is_writable && !health.is_damaged && health.reason[0] != '\0' &&
                    store_commit_wait(store, &txn, NULL) == GH_AUDIT;
    if (chmod(scene.dir, 0700) != 0 || chmod(scene_path(&scene, "store.db"), 0600) != 0) {
        return 4;
    }
    scene.store = store;
    scene_await_writable(&scene, true);
    store_close(store);
    return is_right ? 0 : 5;
}

START_TEST(read_only_folder_denies_and_recovers)
{
    scene_add_rows(&scene, 0, 10);
    scene_close(&scene);
    static const char *const names[] = {"store.db", "store.lock", "audit.anchor", "."};
    for (size_t i = 0; geteuid() == 0 && i < sizeof names / sizeof names[0]; i++) {
        ck_assert_int_eq(chown(scene_path(&scene, names[i]), 65534, 65534), 0);
    }
    ck_assert_int_eq(chmod(scene_path(&scene, "store.db"), 0400), 0);
    ck_assert_int_eq(chmod(scene.dir, 0500), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        _exit(try_read_only_folder());
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

START_TEST(limit_of_open_files_stops_no_commit)
{
    struct rlimit limit;
    struct store_row row = {0};
    scene_add_rows(&scene, 0, 10);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit low = {.rlim_cur = 3, .rlim_max = limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    scene_add_rows(&scene, 10, 20);
    ck_assert_int_eq(store_get(scene.store, STORE_META, "x", &row, NULL), GH_IO);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(store_get(scene.store, STORE_META, "x", &row, NULL), GH_NOT_FOUND);
    assert_good();
}
END_TEST

/* ---- files that go away ---- */

static const char *const moved[] = {"store.db", "store.db-wal"};

START_TEST(moved_file_denies_until_it_is_back)
{
    scene_add_rows(&scene, 0, 10);
    move(moved[_i], "aside");
    assert_reason("removed or replaced"); /* without a commit */
    ck_assert_int_eq(scene_try_row(&scene, 10), GH_AUDIT);
    ck_assert_int_ne(access(scene_path(&scene, moved[_i]), F_OK), 0); /* not made anew */
    move("aside", moved[_i]);
    scene_await_writable(&scene, true);
    scene_add_rows(&scene, 10, 20);
    ck_assert_uint_eq(scene_health(&scene).n_rows, 20);
    assert_good();
}
END_TEST

START_TEST(replaced_database_denies_and_is_not_touched)
{
    scene_add_rows(&scene, 0, 10);
    move("store.db", "aside");
    scene_write(&scene, "store.db", "other", 5);
    ck_assert_int_eq(scene_try_row(&scene, 10), GH_AUDIT);
    struct store_row row = {0};
    ck_assert_int_eq(store_get(scene.store, STORE_META, "x", &row, NULL), GH_IO);
    scene_close(&scene);
    gh_autofree char *data = NULL;
    size_t len = 0;
    ck_assert_int_eq(gh_fs_read(AT_FDCWD, scene_path(&scene, "store.db"), 100, &data, &len, NULL),
                     GH_OK);
    ck_assert_str_eq(data, "other");
}
END_TEST

START_TEST(missing_database_is_not_made_anew)
{
    scene_add_rows(&scene, 0, 10);
    scene_close(&scene);
    move("store.db", "aside");
    scene_open(&scene);
    ck_assert(scene_health(&scene).is_damaged);
    assert_reason("missing");
    ck_assert_int_eq(scene_try_row(&scene, 10), GH_AUDIT);
    struct store_row row = {0};
    ck_assert_int_eq(store_get(scene.store, STORE_META, "x", &row, NULL), GH_IO);
    ck_assert_int_ne(access(scene_path(&scene, "store.db"), F_OK), 0);
    struct store_verify verify;
    ck_assert_int_eq(store_verify_dir(scene.dir, &verify, NULL), GH_IO);
    move("aside", "store.db");
    scene_reopen(&scene);
    ck_assert(scene_health(&scene).is_writable);
    assert_good();
}
END_TEST

/* ---- damage ---- */

static const struct {
    const char *what;
    int64_t at; /* page, from 0; -1: the whole file */
} damages[] = {{"first page", 0}, {"a leaf", 5}, {"whole file", -1}};

START_TEST(damaged_database_is_kept_and_denies)
{
    scene_add_rows(&scene, 0, 400);
    scene_close(&scene);
    const char *path = scene_path(&scene, "store.db");
    struct stat before;
    ck_assert_int_eq(stat(path, &before), 0);
    gh_autofree char *zeros = calloc(1, (size_t)before.st_size);
    bool is_page = damages[_i].at >= 0;
    scene_overwrite(path, is_page ? damages[_i].at * 4096 : 0, zeros,
                    is_page ? 4096 : (size_t)before.st_size);
    scene_open(&scene);
    struct store_health health = scene_health(&scene);
    ck_assert_msg(health.is_damaged, "%s", damages[_i].what);
    ck_assert(!health.is_writable);
    ck_assert_ptr_nonnull(strstr(health.reason, "move store.db*"));
    ck_assert_int_eq(scene_try_row(&scene, 400), GH_AUDIT);
    scene_reopen(&scene);
    ck_assert(scene_health(&scene).is_damaged);
    struct stat after;
    ck_assert_int_eq(stat(scene_path(&scene, "store.db"), &after), 0);
    ck_assert_int_eq(after.st_size, before.st_size);
    ck_assert_int_eq(after.st_ino, before.st_ino);
    ck_assert_int_eq(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
}
END_TEST

START_TEST(truncated_database_denies)
{
    scene_add_rows(&scene, 0, 400);
    scene_close(&scene);
    ck_assert_int_eq(truncate(scene_path(&scene, "store.db"), 5 * 4096), 0);
    scene_open(&scene);
    ck_assert(scene_health(&scene).is_damaged);
    ck_assert_int_eq(scene_try_row(&scene, 400), GH_AUDIT);
}
END_TEST

static const struct {
    const char *sql, *reason;
} strangers[] = {
    {"CREATE TRIGGER t AFTER INSERT ON audit BEGIN DELETE FROM audit; END", "trigger"},
    {"CREATE VIEW v AS SELECT 1", "views"},
    {"PRAGMA user_version = 1000", "newer"},
    {"PRAGMA application_id = 7", "not a database of this service"},
    {"ALTER TABLE audit DROP COLUMN peer", "tables or columns"},
    {"DROP TABLE doc", "tables or columns"},
    {"DELETE FROM meta", "gateway"},
};

START_TEST(strange_schema_denies)
{
    scene_close(&scene);
    scene_sql(&scene, strangers[_i].sql);
    scene_open(&scene);
    ck_assert(scene_health(&scene).is_damaged);
    assert_reason(strangers[_i].reason);
    ck_assert_int_eq(scene_try_row(&scene, 0), GH_AUDIT);
}
END_TEST

START_TEST(something_else_in_its_place_denies)
{
    scene_close(&scene);
    ck_assert_int_eq(unlink(scene_path(&scene, "store.db")), 0);
    ck_assert_int_eq(unlink(scene_path(&scene, "audit.anchor")), 0);
    if (_i == 0) {
        ck_assert_int_eq(mkdir(scene_path(&scene, "store.db"), 0700), 0);
    } else {
        ck_assert_int_eq(symlink("elsewhere", scene_path(&scene, "store.db")), 0);
    }
    scene_open(&scene);
    ck_assert(scene_health(&scene).is_damaged);
    ck_assert_int_ne(access(scene_path(&scene, "elsewhere"), F_OK), 0);
}
END_TEST

/* A database too large for a check before the start: found soon after. */
START_TEST(damage_in_a_large_database_is_found_later)
{
    size_t len = 256 << 10;
    gh_autofree char *body = malloc(len + 1);
    memset(body, 'b', len);
    body[len] = '\0';
    for (int i = 0; i < 80; i++) {
        char id[16];
        snprintf(id, sizeof id, "d%d", i);
        struct store_doc doc = {
            .kind = STORE_META, .id = id, .session = "", .ref = "", .state = "", .body = body};
        struct store_txn *txn = store_txn_new();
        store_txn_put(txn, &doc);
        store_commit(scene.store, &txn, NULL, NULL);
    }
    scene_add_rows(&scene, 0, 100);
    scene_reopen(&scene); /* undamaged, it stays open */
    scene_add_rows(&scene, 100, 110);
    scene_close(&scene);
    static const char zeros[4096];
    scene_overwrite(scene_path(&scene, "store.db"), (int64_t)2000 * 4096, zeros, sizeof zeros);
    scene_open(&scene);
    scene_await_damaged(&scene);
    ck_assert_int_eq(scene_try_row(&scene, 110), GH_AUDIT);
    scene_reopen(&scene); /* and a close does not wait for the check's end */
}
END_TEST

/* ---- neighbours ---- */

START_TEST(foreign_lock_denies_and_passes)
{
    scene_add_rows(&scene, 0, 10);
    sqlite3 *other = NULL;
    ck_assert_int_eq(sqlite3_open(scene_path(&scene, "store.db"), &other), SQLITE_OK);
    ck_assert_int_eq(store_conn_exec(other, "BEGIN IMMEDIATE"), SQLITE_OK);
    ck_assert_int_eq(scene_try_row(&scene, 10), GH_AUDIT);
    assert_reason("another program");
    ck_assert(!scene_health(&scene).is_damaged);
    ck_assert_int_eq(store_conn_exec(other, "ROLLBACK"), SQLITE_OK);
    scene_await_writable(&scene, true);
    scene_add_rows(&scene, 10, 20);
    sqlite3_close(other);
    ck_assert_uint_eq(scene_health(&scene).n_rows, 20);
    assert_good();
}
END_TEST

/* Write while the child works, up to a length of the log that it can keep up with. Returns the
 * number of the next row. */
static int write_beside(pid_t child, int i, int *status)
{
    while (waitpid(child, status, WNOHANG) == 0) {
        if (i < 4000) {
            scene_add_rows(&scene, i, i + 20);
            i += 20;
        } else {
            usleep(5000);
        }
    }
    return i;
}

/* Another process copies the database over and over, as `sqlite3 store.db .backup` does. */
static int back_up(const char *from, const char *to)
{
    for (int i = 0; i < 20; i++) {
        sqlite3 *source = NULL;
        sqlite3 *copy = NULL;
        if (sqlite3_open(from, &source) != SQLITE_OK || sqlite3_open(to, &copy) != SQLITE_OK) {
            return 2;
        }
        sqlite3_busy_timeout(source, 5000);
        sqlite3_backup *backup = sqlite3_backup_init(copy, "main", source, "main");
        if (backup == NULL || sqlite3_backup_step(backup, -1) != SQLITE_DONE ||
            sqlite3_backup_finish(backup) != SQLITE_OK ||
            !store_conn_says(copy, "PRAGMA integrity_check", "ok")) {
            return 3;
        }
        sqlite3_close(copy);
        sqlite3_close(source);
    }
    return 0;
}

START_TEST(backup_while_writing_is_whole)
{
    scene_add_rows(&scene, 0, 100);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        _exit(back_up(scene_path(&scene, "store.db"), scene_path(&scene, "copy")));
    }
    int status = 0;
    int i = write_beside(child, 100, &status);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_uint_eq(scene_health(&scene).n_rows, (uint64_t)i);
    ck_assert_uint_eq(scene_health(&scene).n_errors, 0);
    assert_good();
    scene_close(&scene);
    /* The copy goes into the place of a lost database, without an anchor: it is a log of its own.
     */
    move("copy", "store.db");
    ck_assert_int_eq(unlink(scene_path(&scene, "audit.anchor")), 0);
    scene_open(&scene);
    ck_assert_msg(scene_health(&scene).is_writable, "%s", scene_health(&scene).reason);
    scene_add_rows(&scene, 0, 1);
    assert_good();
}
END_TEST

/* The command line verifies from a process of its own while the service writes. */
START_TEST(verification_from_outside_while_writing)
{
    scene_add_rows(&scene, 0, 100);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct store_verify verify = {.is_ok = true};
        bool is_good = true;
        for (int i = 0; i < 50 && is_good; i++) {
            is_good = store_verify_dir(scene.dir, &verify, NULL) == GH_OK && verify.is_ok;
        }
        _exit(is_good ? 0 : 1);
    }
    int status = 0;
    write_beside(child, 100, &status);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_uint_eq(scene_health(&scene).n_errors, 0);
    assert_good();
}
END_TEST

#define LOOP(tests, test, table)                                                                   \
    tcase_add_loop_test(tests, test, 0, (int)(sizeof table / sizeof table[0]))

int main(void)
{
    Suite *suite = suite_create("store_faults");
    TCase *tests = tcase_create("faults");
    tcase_set_timeout(tests, 240);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, refused_write_denies_and_recovers);
    tcase_add_test(tests, start_on_a_refusing_disk_recovers);
    tcase_add_test(tests, full_disk_denies_and_recovers);
    tcase_add_test(tests, read_only_disk_denies_and_recovers);
    tcase_add_test(tests, read_only_folder_denies_and_recovers);
    tcase_add_test(tests, limit_of_open_files_stops_no_commit);
    LOOP(tests, moved_file_denies_until_it_is_back, moved);
    tcase_add_test(tests, replaced_database_denies_and_is_not_touched);
    tcase_add_test(tests, missing_database_is_not_made_anew);
    LOOP(tests, damaged_database_is_kept_and_denies, damages);
    tcase_add_test(tests, truncated_database_denies);
    LOOP(tests, strange_schema_denies, strangers);
    tcase_add_loop_test(tests, something_else_in_its_place_denies, 0, 2);
    tcase_add_test(tests, damage_in_a_large_database_is_found_later);
    tcase_add_test(tests, foreign_lock_denies_and_passes);
    tcase_add_test(tests, backup_while_writing_is_whole);
    tcase_add_test(tests, verification_from_outside_while_writing);
    suite_add_tcase(suite, tests);
    return scene_main(suite);
}
