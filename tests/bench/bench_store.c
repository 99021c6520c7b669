/* What a durable audit row costs, against the same disk in the same run.
 *
 *   bench_store FOLDER [ROWS [SECONDS]]
 *
 * Makes folders below FOLDER and removes nothing; ROWS (1,000,000) fills the large log, SECONDS (1)
 * is the length of a round. Five rounds in turn, medians of records a second:
 *   append     write and fdatasync of a record at the end of a file
 *   overwrite  the same within allocated blocks: the floor of one commit
 *   naive      one SQLite transaction for each row, with the same columns
 *   empty      the store, 64 transactions in flight, a log that began empty
 *   large      the same on a log that began with ROWS rows
 * and then what lists, a verification and a restart take on the large log.
 * Figures of a shared machine wander; the ratios printed last are what to compare.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "store/chain.h"
#include "store/conn.h"
#include "store/store.h"

#define N_ROUNDS 5
#define N_IN_FLIGHT 64
#define N_SUBMITTERS 2
#define RECORD_BYTES 700

struct bench {
    const char *folder;
    double round_s;
    int append_fd, overwrite_fd;
    off_t append_at, overwrite_at;
    sqlite3 *naive;
    sqlite3_stmt *naive_insert;
    struct store *empty, *large;
};

static double now_s(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void check(bool is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

/* ---- rows ---- */

static const char body[] =
    "{\"target\":\"/home/somebody/project/src/module/file.c\",\"tier\":6,\"reason\":\"inside the"
    " working "
    "directory\",\"digest\":\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b78\","
    "\"request\":{\"tool\":\"write_file\",\"preview_bytes\":1843,\"lines_added\":12}}";

static struct store_audit make_row(const char *ref)
{
    return (struct store_audit){
        .kind = "decision",
        .at_ms = 1700000000000,
        .session = "ses_06h2mm0tfr001j2jmyhh1y68qstzcrvn",
        .ref = ref,
        .tool = "write_file",
        .action = "write",
        .decision = "allow",
        .by = "rule",
        .code = "inside_working_dir",
        .mode = "ask",
        .principal = "claude tok_06h2mm0tfr001j2jmyhh1y68qstzcrvn",
        .peer = "127.0.0.1:54321",
        .agent = "gatehouse-hook/0.1",
        .trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
        .body = body,
    };
}

/* ---- the disk and SQLite by themselves ---- */

static double run_file(const struct bench *bench, int fd, off_t *at, off_t wrap)
{
    static const char record[RECORD_BYTES] = {1};
    int n = 0;
    double start = now_s();
    for (; now_s() - start < bench->round_s; n++) {
        check(pwrite(fd, record, sizeof record, *at) == sizeof record && fdatasync(fd) == 0,
              "write");
        *at += RECORD_BYTES;
        *at = wrap != 0 && *at > wrap ? 0 : *at;
    }
    return n / (now_s() - start);
}

static double run_append(struct bench *bench)
{
    return run_file(bench, bench->append_fd, &bench->append_at, 0);
}

#define OVERWRITE_BYTES (8 << 20)

static double run_overwrite(struct bench *bench)
{
    return run_file(bench, bench->overwrite_fd, &bench->overwrite_at,
                    OVERWRITE_BYTES - RECORD_BYTES);
}

static double run_naive(struct bench *bench)
{
    char ref[GH_ID];
    int n = 0;
    double start = now_s();
    for (; now_s() - start < bench->round_s; n++) {
        gh_id_new("dec", ref);
        struct store_audit row = make_row(ref);
        for (int i = 0; i < STORE_N_TEXTS; i++) {
            const char *text = NULL;
            memcpy(&text, (const char *)&row + store_audit_texts[i], sizeof text);
            store_stmt_text(bench->naive_insert, i + 1, text, strlen(text));
        }
        check(store_stmt_run(bench->naive_insert) == SQLITE_OK, "insert");
    }
    return n / (now_s() - start);
}

/* ---- the store ---- */

struct load {
    struct store *store;
    double until_s;
    sem_t credits; /* transactions that may still be put in flight */
    atomic_int n_done;
};

static void give_back(enum gh_code code, void *cookie)
{
    struct load *load = cookie;
    check(code == GH_OK, "commit");
    load->n_done++;
    sem_post(&load->credits);
}

static void *submit(void *cookie)
{
    struct load *load = cookie;
    char ref[GH_ID];
    while (now_s() < load->until_s) {
        while (sem_wait(&load->credits) != 0) {
        }
        gh_id_new("dec", ref);
        struct store_audit row = make_row(ref);
        struct store_txn *txn = store_txn_new();
        store_txn_audit(txn, &row);
        store_commit(load->store, &txn, give_back, load);
    }
    return NULL;
}

static double run_store(const struct bench *bench, struct store *store)
{
    struct load load = {.store = store};
    pthread_t threads[N_SUBMITTERS];
    double start = now_s();
    load.until_s = start + bench->round_s;
    sem_init(&load.credits, 0, N_IN_FLIGHT);
    for (int i = 0; i < N_SUBMITTERS; i++) {
        check(pthread_create(&threads[i], NULL, submit, &load) == 0, "thread");
    }
    for (int i = 0; i < N_SUBMITTERS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < N_IN_FLIGHT; i++) {
        while (sem_wait(&load.credits) != 0) {
        }
    }
    sem_destroy(&load.credits);
    return load.n_done / (now_s() - start);
}

static double run_empty(struct bench *bench)
{
    return run_store(bench, bench->empty);
}

static double run_large(struct bench *bench)
{
    return run_store(bench, bench->large);
}

static void fill(struct store *store, int n_rows)
{
    char ref[GH_ID];
    for (int i = 0; i < n_rows; i++) {
        gh_id_new("dec", ref);
        struct store_audit row = make_row(ref);
        struct store_txn *txn = store_txn_new();
        store_txn_audit(txn, &row);
        bool is_wait = i % 10000 == 9999 || i + 1 == n_rows;
        if (!is_wait) {
            store_commit(store, &txn, NULL, NULL);
        } else {
            check(store_commit_wait(store, &txn, NULL) == GH_OK, "fill");
        }
    }
}

/* ---- set up ---- */

static int open_file(const struct bench *bench, const char *name, off_t bytes)
{
    gh_autofree char *path = NULL;
    check(asprintf(&path, "%s/%s", bench->folder, name) > 0, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    static const char zeros[1 << 16];
    check(fd >= 0, path);
    for (off_t at = 0; at < bytes; at += (off_t)sizeof zeros) {
        check(pwrite(fd, zeros, sizeof zeros, at) == (ssize_t)sizeof zeros, path);
    }
    check(fsync(fd) == 0, path);
    return fd;
}

static void open_naive(struct bench *bench)
{
    gh_autofree char *path = NULL;
    check(asprintf(&path, "%s/naive.db", bench->folder) > 0, "naive.db");
    check(sqlite3_open(path, &bench->naive) == SQLITE_OK &&
              store_conn_exec(bench->naive,
                              "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                              "CREATE TABLE audit(seq INTEGER PRIMARY KEY, a, b, c, d, e, f, g, h,"
                              " i, j, k, l, m, n); CREATE INDEX by_ref ON audit(c)") == SQLITE_OK &&
              store_conn_prepare(bench->naive,
                                 "INSERT INTO audit VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                                 &bench->naive_insert) == SQLITE_OK,
          path);
}

static struct store *open_store(const struct bench *bench, const char *name)
{
    gh_autofree char *path = NULL;
    struct store *store = NULL;
    struct gh_err err = {0};
    check(asprintf(&path, "%s/%s", bench->folder, name) > 0 &&
              (mkdir(path, 0700) == 0 || errno == EEXIST),
          name);
    struct store_options options = {.dir = path};
    if (store_open(&options, &store, &err) != GH_OK) {
        fprintf(stderr, "%s\n", err.detail);
        exit(1);
    }
    return store;
}

/* ---- rounds ---- */

static double (*const runs[])(struct bench *bench) = {run_append, run_overwrite, run_naive,
                                                      run_empty, run_large};
static const char *const names[] = {"append", "overwrite", "naive", "empty", "large"};
#define N_RUNS 5

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(double figures[N_RUNS][N_ROUNDS])
{
    double median[N_RUNS];
    for (int i = 0; i < N_RUNS; i++) {
        qsort(figures[i], N_ROUNDS, sizeof figures[i][0], compare);
        median[i] = figures[i][N_ROUNDS / 2];
        printf("%-10s %10.0f rows/s   (%.0f to %.0f)\n", names[i], median[i], figures[i][0],
               figures[i][N_ROUNDS - 1]);
    }
    printf(
        "empty : naive %.2f   empty : append %.2f   empty : overwrite %.2f   large : empty %.3f\n",
        median[3] / median[2], median[3] / median[0], median[3] / median[1], median[4] / median[3]);
}

static bool count(const struct store_audit_row *row, void *cookie)
{
    (void)row;
    ++*(int *)cookie;
    return true;
}

/* What readers and a restart pay for the size of the log. */
static void report_reads(struct bench *bench)
{
    struct store_audit_filter newest = {.newest_first = true, .limit = 100};
    struct store_audit_filter nobody = {.session = "ses_nobody"};
    const struct store_audit_filter *const filters[] = {&newest, &nobody};
    static const char *const labels[] = {"newest 100", "no match"};
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        int n = 0;
        double start = now_s();
        check(store_audit_list(bench->large, filters[i], count, &n, NULL) == GH_OK, "list");
        printf("%-10s %10.1f ms\n", labels[i], (now_s() - start) * 1000);
    }
    struct store_verify verify;
    double start = now_s();
    check(store_verify(bench->large, &verify, NULL) == GH_OK && verify.is_ok, "verify");
    printf("verify     %10.0f ms, %llu rows\n", (now_s() - start) * 1000,
           (unsigned long long)verify.n_checked);
    store_close(bench->large);
    start = now_s();
    bench->large = open_store(bench, "large");
    printf("open       %10.0f ms\n", (now_s() - start) * 1000);
}

int main(int argc, char **argv)
{
    if (argc < 2 || !gh_id_init()) {
        fprintf(stderr, "usage: bench_store FOLDER [ROWS [SECONDS]]\n");
        return 2;
    }
    int n_rows = argc > 2 ? atoi(argv[2]) : 1000000;
    struct bench bench = {.folder = argv[1], .round_s = argc > 3 ? atof(argv[3]) : 1.0};
    check(mkdir(bench.folder, 0700) == 0 || errno == EEXIST, bench.folder);
    bench.append_fd = open_file(&bench, "append", 0);
    bench.overwrite_fd = open_file(&bench, "overwrite", OVERWRITE_BYTES);
    open_naive(&bench);
    bench.empty = open_store(&bench, "empty");
    bench.large = open_store(&bench, "large");
    double start = now_s();
    fill(bench.large, n_rows);
    printf("filled     %10.0f rows/s, %d rows\n", n_rows / (now_s() - start), n_rows);

    double figures[N_RUNS][N_ROUNDS];
    for (int round = 0; round < N_ROUNDS; round++) {
        for (int i = 0; i < N_RUNS; i++) {
            figures[i][round] = runs[i](&bench);
        }
    }
    report(figures);
    report_reads(&bench);
    store_close(bench.empty);
    store_close(bench.large);
    store_stmt_fini(&bench.naive_insert);
    store_conn_close(&bench.naive);
    close(bench.append_fd);
    close(bench.overwrite_fd);
    return 0;
}
