#include <stdio.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "core/state.h"

/* The files a command names are part of what a person approves: their content is hashed when it is
 * shown and again right before the allow is given (contract 6, digest). */

#define MAX_FILE_BYTES ((size_t)1 << 20)
#define MAX_TOTAL_BYTES ((size_t)256 << 20)

struct operands {
    const struct place *place;
    struct gh_buf list; /* path NUL hex NUL, in order */
    size_t total;       /* bytes read */
};

/* Open `path` when it is a regular file below the working directory; -1 otherwise. */
static int open_operand(const struct operands *all, const char *path, struct stat *st)
{
    gh_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, st) != 0 || !S_ISREG(st->st_mode) ||
        (size_t)st->st_size > MAX_FILE_BYTES || !gate_path_within(path, all->place->working_dir)) {
        return -1;
    }
    return gh_steal_fd(&fd);
}

static enum gh_code add_file(struct operands *all, const char *path, struct gh_err *err)
{
    struct stat st;
    gh_autoclose int fd = open_operand(all, path, &st);
    if (fd < 0) {
        return GH_OK;
    }
    all->total += (size_t)st.st_size;
    if (all->total > MAX_TOTAL_BYTES) {
        return gh_fail_at(err, GH_INVALID, "/target/args",
                          "The command names more files than can be shown and checked.");
    }
    unsigned char digest[GH_SHA256];
    char hex[GH_HEX] = "unreadable";
    if (gh_id_sha256_fd(fd, MAX_FILE_BYTES, digest)) {
        gh_id_hex(digest, hex);
    }
    gh_buf_put(&all->list, path, strlen(path) + 1);
    gh_buf_put(&all->list, hex, strlen(hex) + 1);
    return GH_OK;
}

/* A whole argument word, as a path relative to the command's cwd. */
static enum gh_code add_word(struct operands *all, const char *cwd, const char *word,
                             struct gh_err *err)
{
    char joined[PATH_MAX];
    char real[PATH_MAX];
    int n = word[0] == '/' ? snprintf(joined, sizeof joined, "%s", word)
                           : snprintf(joined, sizeof joined, "%s/%s", cwd, word);
    if (word[0] == '\0' || n < 0 || (size_t)n >= sizeof joined || realpath(joined, real) == NULL) {
        return GH_OK;
    }
    gh_buf_puts(&all->list, "=");
    gh_buf_put(&all->list, real, strlen(real) + 1); /* where it leads, hashed or not */
    return add_file(all, real, err);
}

static enum gh_code add_part(struct operands *all, const struct judged_part *part,
                             const struct gate_target *target, struct gh_err *err)
{
    if (target->form != GATE_COMMAND) {
        return GH_OK;
    }
    if (part->facts.resolved != NULL) {
        GH_TRY(add_word(all, "/", part->facts.resolved, err));
    }
    for (size_t i = 0; i < target->n_args; i++) {
        GH_TRY(add_word(all, part->facts.cwd, target->args[i], err));
    }
    return GH_OK;
}

enum gh_code card_operands(const struct place *place, const struct judged *judged,
                           const struct call *call, unsigned char ret[GH_SHA256],
                           struct gh_err *err)
{
    struct operands all = {.place = place, .list = GH_BUF_INIT};
    enum gh_code code = GH_OK;
    for (size_t i = 0; i < judged->n && code == GH_OK; i++) {
        code = add_part(&all, &judged->parts[i], &call->parts[i].target, err);
    }
    if (code == GH_OK && all.list.failed) {
        code = gh_fail(err, GH_NOMEM, "There is not enough memory for the call.");
    }
    if (code == GH_OK) {
        gh_id_sha256(gh_buf_str(&all.list), all.list.len, ret);
    }
    gh_buf_fini(&all.list);
    return code;
}
