#include "auth/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fs.h"
#include "base/log.h"

#define MAX_RECORDS 20000
#define LOCK_TRIES 250 /* of LOCK_STEP_MS each */
#define LOCK_STEP_MS 20

enum gh_code folder_open(const char *state_dir, struct folder *ret, struct gh_err *err)
{
    gh_autofree char *path = NULL;
    if (asprintf(&path, "%s/tokens", state_dir) < 0) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory to open the tokens folder.");
    }
    *ret = FOLDER_INIT;
    return gh_fs_private_dir(path, &ret->fd, err);
}

void folder_close(struct folder *folder)
{
    if (folder->lock_fd >= 0) {
        close(folder->lock_fd);
    }
    if (folder->fd >= 0) {
        close(folder->fd);
    }
    *folder = FOLDER_INIT;
}

static int open_lock(const struct folder *folder)
{
    return openat(folder->fd, ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                  0600);
}

enum gh_code folder_lock(struct folder *folder, struct gh_err *err)
{
    gh_autoclose int fd = open_lock(folder);
    if (fd < 0) {
        return gh_fail(err, GH_IO, "tokens/.lock cannot be opened: %s.", strerror(errno));
    }
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            folder->lock_fd = gh_steal_fd(&fd);
            return GH_OK;
        }
        struct timespec step = {.tv_nsec = LOCK_STEP_MS * 1000000L};
        nanosleep(&step, NULL);
    }
    return gh_fail(err, GH_IO, "Another program holds the lock of the tokens folder.");
}

bool folder_try_lock(const struct folder *folder, struct folder *ret)
{
    gh_autoclose int fd = fcntl(folder->fd, F_DUPFD_CLOEXEC, 0);
    gh_autoclose int lock_fd = open_lock(folder);
    if (fd < 0 || lock_fd < 0 || flock(lock_fd, LOCK_EX | LOCK_NB) != 0) {
        return false;
    }
    *ret = (struct folder){gh_steal_fd(&fd), gh_steal_fd(&lock_fd)};
    return true;
}

/* The whole path, so that the command in a message can be run as it stands. */
static void show_path(int dir_fd, const char *name, char *out, size_t size)
{
    char link[32];
    char dir[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir_fd);
    ssize_t n = dir_fd >= 0 && name[0] != '/' ? readlink(link, dir, sizeof dir) : -1;
    if (n <= 0 || (size_t)n >= sizeof dir) {
        snprintf(out, size, "%s", name);
    } else {
        snprintf(out, size, "%.*s/%s", (int)n, dir, name);
    }
}

/* Fails with GH_BUSY for what may go away by itself. */
static enum gh_code refuse_open(const char *name, int why, struct gh_err *err)
{
    if (why == ENOENT) {
        return gh_fail(err, GH_NOT_FOUND, "%s does not exist.", name);
    }
    if (why == ELOOP) {
        return gh_fail(err, GH_IO, "%s is a link; links are not followed here.", name);
    }
    bool may_pass = why == EMFILE || why == ENFILE || why == ENOMEM || why == EINTR;
    return gh_fail(err, may_pass ? GH_BUSY : GH_IO, "%s cannot be opened: %s.", name,
                   strerror(why));
}

static enum gh_code check_private(int dir_fd, const char *name, const struct stat *st,
                                  struct gh_err *err)
{
    if (!S_ISREG(st->st_mode)) {
        return gh_fail(err, GH_IO, "%s is not a regular file.", name);
    }
    if (st->st_uid != geteuid()) {
        return gh_fail(err, GH_IO, "%s belongs to another user.", name);
    }
    if ((st->st_mode & 077) != 0) {
        char path[600];
        show_path(dir_fd, name, path, sizeof path);
        return gh_fail(err, GH_IO,
                       "A token file is open to others (mode %03o); make a new token if somebody "
                       "may have read it, else run: chmod 600 %s",
                       (unsigned)st->st_mode & 0777U, path);
    }
    return GH_OK;
}

enum gh_code folder_read_file(int dir_fd, const char *name, char *data, size_t cap, size_t *ret_len,
                              struct gh_err *err)
{
    gh_autoclose int fd =
        openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        return refuse_open(name, errno, err);
    }
    GH_TRY(check_private(dir_fd, name, &st, err));
    size_t len = 0;
    while (len < cap) {
        ssize_t n = read(fd, data + len, cap - len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return gh_fail(err, GH_IO, "%s cannot be read: %s.", name, strerror(errno));
        }
        if (n == 0) {
            data[len] = '\0';
            *ret_len = len;
            return GH_OK;
        }
        len += (size_t)n;
    }
    return gh_fail(err, GH_IO, "%s is larger than %zu bytes.", name, cap - 1);
}

static enum gh_code read_record(const struct folder *folder, const char *file, struct record *ret,
                                struct gh_err *err)
{
    char data[RECORD_BYTES];
    size_t len = 0;
    GH_TRY(folder_read_file(folder->fd, file, data, sizeof data, &len, err));
    return record_read(file, data, len, ret, err);
}

enum gh_code folder_read(const struct folder *folder, const char *name, struct record *ret,
                         struct gh_err *err)
{
    char file[RECORD_FILE];
    snprintf(file, sizeof file, "%s.json", name);
    return read_record(folder, file, ret, err);
}

void records_fini(struct records *records)
{
    free(records->all);
    *records = (struct records){NULL, 0, 0};
}

static bool add_record(struct records *records, const struct record *record)
{
    if (records->n == records->cap) {
        size_t cap = records->cap == 0 ? 16 : records->cap * 2;
        struct record *all = realloc(records->all, cap * sizeof *all);
        if (all == NULL) {
            return false;
        }
        records->all = all;
        records->cap = cap;
    }
    records->all[records->n++] = *record;
    return true;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct record *)a)->token.id, ((const struct record *)b)->token.id);
}

static void close_dirp(DIR **dir)
{
    if (*dir != NULL) {
        closedir(*dir);
    }
}

/* "NAME.json"; temporary files start with a dot. */
static bool is_record_file(const char *name)
{
    size_t len = strlen(name);
    return name[0] != '.' && len > 5 && strcmp(name + len - 5, ".json") == 0;
}

/* One file of the folder. A bad one costs its own token, never those beside it, unless the mood is
 * strict. */
static enum gh_code take_file(const struct folder *folder, const char *file, enum folder_mood mood,
                              struct records *records, struct gh_err *err)
{
    struct record record;
    struct gh_err why = {0};
    enum gh_code code = read_record(folder, file, &record, &why);
    if (code == GH_NOT_FOUND) {
        return GH_OK; /* removed since the folder was read */
    }
    if (code != GH_OK) {
        bool may_pass = code == GH_BUSY || code == GH_NOMEM;
        if (mood == FOLDER_STRICT || (mood == FOLDER_SKIP && may_pass)) {
            return gh_fail(err, may_pass && mood == FOLDER_SKIP ? GH_BUSY : GH_IO, "%s",
                           why.detail);
        }
        gh_log(GH_LOG_WARN, "token_record_refused", "file", file, "reason", why.detail, NULL);
        return GH_OK;
    }
    if (records->n >= MAX_RECORDS) {
        return gh_fail(err, GH_IO, "The tokens folder holds more than %d records.", MAX_RECORDS);
    }
    return add_record(records, &record) ? GH_OK
                                        : gh_fail(err, GH_NOMEM, "There is not enough memory.");
}

enum gh_code folder_read_all(const struct folder *folder, enum folder_mood mood,
                             struct records *ret, struct gh_err *err)
{
    gh_autoclose int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    gh_auto(close_dirp) DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        enum gh_code code = refuse_open("The tokens folder", errno, err);
        return code == GH_BUSY ? GH_BUSY : gh_fail(err, GH_IO, "The tokens folder is gone.");
    }
    fd = -1; /* the stream's now */
    gh_auto(records_fini) struct records records = {NULL, 0, 0};
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (is_record_file(entry->d_name)) {
            GH_TRY(take_file(folder, entry->d_name, mood, &records, err));
        }
    }
    if (records.n > 0) {
        qsort(records.all, records.n, sizeof *records.all, compare_ids);
    }
    *ret = records;
    records = (struct records){NULL, 0, 0};
    return GH_OK;
}

enum gh_code folder_write(const struct folder *folder, const struct record *record,
                          struct gh_err *err)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    char file[RECORD_FILE];
    snprintf(file, sizeof file, "%s.json", record->token.name);
    record_write(record, &text);
    if (text.failed) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    return gh_fs_replace(folder->fd, file, text.data, text.len, err);
}

enum gh_code folder_write_secret(const struct folder *folder, const char *name,
                                 const char secret[AUTH_SECRET], struct gh_err *err)
{
    char file[RECORD_FILE];
    char line[AUTH_SECRET + 1];
    snprintf(file, sizeof file, "%s.token", name);
    snprintf(line, sizeof line, "%s\n", secret);
    enum gh_code code = gh_fs_replace(folder->fd, file, line, strlen(line), err);
    explicit_bzero(line, sizeof line);
    return code;
}

enum gh_code folder_check_secret(const struct folder *folder, const char *name, struct gh_err *err)
{
    char file[RECORD_FILE];
    struct stat st;
    snprintf(file, sizeof file, "%s.token", name);
    if (fstatat(folder->fd, file, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT
                   ? GH_OK
                   : gh_fail(err, GH_IO, "%s cannot be looked at: %s.", file, strerror(errno));
    }
    if (S_ISLNK(st.st_mode)) {
        return gh_fail(err, GH_IO, "tokens/%s is a link; links are not followed here.", file);
    }
    return check_private(folder->fd, file, &st, err);
}

enum gh_code folder_remove(const struct folder *folder, const char *name, const char *suffix,
                           struct gh_err *err)
{
    char file[RECORD_FILE];
    snprintf(file, sizeof file, "%s%s", name, suffix);
    if (unlinkat(folder->fd, file, 0) != 0 && errno != ENOENT) {
        return gh_fail(err, GH_IO, "tokens/%s cannot be removed: %s.", file, strerror(errno));
    }
    return GH_OK;
}
