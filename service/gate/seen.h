/* seen: what a look at a repository has read, so that it can be told when to look again.
 *
 * Threads: any.
 */
#ifndef GH_GATE_SEEN_H
#define GH_GATE_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Texts in the order they were found, each once. Zeroed, it is empty. */
struct seen_names {
    char **at; /* owned */
    size_t n;
};

/* A path as it was before it was read. */
struct seen_stamp {
    char *path; /* owned */
    uint64_t device;
    uint64_t inode;
    int64_t size;     /* bytes; 0 for a folder, -1 when there is nothing */
    int64_t mtime_ns; /* 0 for a folder: what is in it has stamps of its own */
    int64_t ctime_ns; /* 0 for a folder */
};

struct seen_stamps {
    struct seen_stamp *at; /* owned */
    size_t n;
};

/* Free the copies. */
void seen_names_fini(struct seen_names *names);

/* True when `name` was added. */
bool seen_names_has(const struct seen_names *names, const char *name);

/* Copy `name` in unless it is there. False without memory. */
bool seen_names_add(struct seen_names *names, const char *name);

/* Free the paths. */
void seen_stamps_fini(struct seen_stamps *stamps);

/* Note how `path` (absolute; links are followed) is now: before it is read, so that a change in
 * between is noticed. False without memory. */
bool seen_stamps_add(struct seen_stamps *stamps, const char *path);

/* Take over a stamp that another list made; there it is left empty. False without memory. */
bool seen_stamps_move(struct seen_stamps *stamps, struct seen_stamp *stamp);

/* True while every path is as it was. One stat for each. */
bool seen_stamps_are_fresh(const struct seen_stamps *stamps);

#endif
