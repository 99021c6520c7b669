#include "gate/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"

struct walker {
    const struct gate_walk *how;
    struct gh_buf paths[GATE_WALK_ROOTS]; /* where it stands, below each root */
    size_t *budget;
    int depth;
    bool is_cut;
    bool is_done; /* whoever looks has seen enough */
};

static void see_here(struct walker *w)
{
    for (size_t i = 0; i < GATE_WALK_ROOTS && !w->is_done && !w->is_cut; i++) {
        if (w->how->roots[i] != NULL) {
            w->is_cut = w->paths[i].failed;
            w->is_done = !w->is_cut && !w->how->see(gh_buf_str(&w->paths[i]), w->how->cookie);
        }
    }
}

static void close_dir(DIR **dir)
{
    if (*dir != NULL) {
        closedir(*dir);
    }
}

static void walk_in(struct walker *w, int fd);

static void descend(struct walker *w, int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        walk_in(w, fd);
    } else { /* what cannot be looked into cannot be cleared */
        w->is_cut = errno != ENOTDIR && errno != ELOOP && errno != ENOENT;
    }
}

static void visit(struct walker *w, int dir_fd, const struct dirent *entry)
{
    size_t lens[GATE_WALK_ROOTS];
    if (*w->budget == 0) {
        w->is_cut = true;
        return;
    }
    --*w->budget;
    for (size_t i = 0; i < GATE_WALK_ROOTS; i++) {
        lens[i] = w->paths[i].len;
        gh_buf_putc(&w->paths[i], '/');
        gh_buf_puts(&w->paths[i], entry->d_name);
    }
    see_here(w);
    if (!w->is_done && !w->is_cut && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)) {
        descend(w, dir_fd, entry->d_name);
    }
    for (size_t i = 0; i < GATE_WALK_ROOTS; i++) {
        if (w->paths[i].data != NULL && !w->paths[i].failed) {
            w->paths[i].len = lens[i];
            w->paths[i].data[lens[i]] = '\0';
        }
    }
}

/* Takes the descriptor. Recursion is bounded by GATE_WALK_DEPTH. */
static void walk_in(struct walker *w, int fd)
{
    gh_auto(close_dir) DIR *dir = fdopendir(fd);
    if (dir == NULL || w->depth >= GATE_WALK_DEPTH) {
        w->is_cut = true;
        if (dir == NULL) {
            close(fd);
        }
        return;
    }
    w->depth++;
    while (!w->is_done && !w->is_cut) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            w->is_cut = errno != 0;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            visit(w, dirfd(dir), entry);
        }
    }
    w->depth--;
}

bool gate_walk(const struct gate_walk *how)
{
    size_t own_budget = GATE_WALK_ENTRIES;
    int fd = open(how->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOTDIR || errno == ELOOP || errno == ENOENT;
    }
    struct walker w = {.how = how, .budget = how->budget != NULL ? how->budget : &own_budget};
    for (size_t i = 0; i < GATE_WALK_ROOTS; i++) {
        const char *root = how->roots[i];
        gh_buf_puts(&w.paths[i], root != NULL && strcmp(root, "/") != 0 ? root : "");
    }
    walk_in(&w, fd);
    for (size_t i = 0; i < GATE_WALK_ROOTS; i++) {
        gh_buf_fini(&w.paths[i]);
    }
    return !w.is_cut;
}
