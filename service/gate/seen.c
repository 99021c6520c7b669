#include "gate/seen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void seen_names_fini(struct seen_names *names)
{
    for (size_t i = 0; i < names->n; i++) {
        free(names->at[i]);
    }
    free(names->at);
    *names = (struct seen_names){0};
}

bool seen_names_has(const struct seen_names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++) {
        if (strcmp(names->at[i], name) == 0) {
            return true;
        }
    }
    return false;
}

bool seen_names_add(struct seen_names *names, const char *name)
{
    if (seen_names_has(names, name)) {
        return true;
    }
    char **grown = reallocarray(names->at, names->n + 1, sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    names->at = grown;
    grown[names->n] = strdup(name);
    if (grown[names->n] == NULL) {
        return false;
    }
    names->n++;
    return true;
}

void seen_stamps_fini(struct seen_stamps *stamps)
{
    for (size_t i = 0; i < stamps->n; i++) {
        free(stamps->at[i].path);
    }
    free(stamps->at);
    *stamps = (struct seen_stamps){0};
}

static int64_t to_ns(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Fills all but the path. A change time cannot be set back, a modification time can. */
static void look(const char *path, struct seen_stamp *ret)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        ret->size = -1;
        return;
    }
    ret->device = st.st_dev;
    ret->inode = st.st_ino;
    if (!S_ISDIR(st.st_mode)) {
        ret->size = st.st_size;
        ret->mtime_ns = to_ns(st.st_mtim);
        ret->ctime_ns = to_ns(st.st_ctim);
    }
}

static bool append(struct seen_stamps *stamps, const struct seen_stamp *stamp)
{
    struct seen_stamp *grown = reallocarray(stamps->at, stamps->n + 1, sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    stamps->at = grown;
    grown[stamps->n++] = *stamp;
    return true;
}

bool seen_stamps_add(struct seen_stamps *stamps, const char *path)
{
    struct seen_stamp stamp = {.path = strdup(path)};
    look(path, &stamp);
    if (stamp.path == NULL || !append(stamps, &stamp)) {
        free(stamp.path);
        return false;
    }
    return true;
}

bool seen_stamps_move(struct seen_stamps *stamps, struct seen_stamp *stamp)
{
    bool is_moved = append(stamps, stamp);
    if (is_moved) {
        stamp->path = NULL;
    }
    return is_moved;
}

bool seen_stamps_are_fresh(const struct seen_stamps *stamps)
{
    for (size_t i = 0; i < stamps->n; i++) {
        const struct seen_stamp *then = &stamps->at[i];
        struct seen_stamp now = {0};
        look(then->path, &now);
        if (now.size != then->size || now.inode != then->inode || now.device != then->device ||
            now.mtime_ns != then->mtime_ns || now.ctime_ns != then->ctime_ns) {
            return false;
        }
    }
    return true;
}
