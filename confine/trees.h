/* trees: what is granted and what is denied, both by canonical path. */
#ifndef GH_CONFINE_TREES_H
#define GH_CONFINE_TREES_H

#include "util.h"

enum trees_right { TREES_READ, TREES_WRITE, TREES_DEVICE, TREES_TERMINAL };

struct trees_one {
    char *path;
    const char *reason; /* static */
    enum trees_right right;
    bool folder;
    bool scanned; /* a write root or an extra read root: names and links are looked for */
    int fd;       /* O_PATH */
};

struct trees_denied {
    char *path;
    const char *why; /* static */
    bool exists;
    mode_t mode;
    dev_t dev;
    ino_t ino;
    nlink_t links;
    off_t size;
    int64_t mtime_ns;
    bool tracked; /* git's index holds it, or a path below it */
};

/* A link that leads from the path people use to the granted one. */
struct trees_link {
    char *path, *target;
};

struct trees {
    struct trees_one *all;
    size_t n, room;
    struct trees_denied *denied; /* sorted by path after trees_seal */
    size_t n_denied, room_denied;
    struct trees_link *links;
    size_t n_links, room_links;
};

struct trees_wish {
    enum trees_right right;
    const char *reason;
    bool scanned;
    bool nofollow; /* a link grants nothing: a command may have planted it */
};

/* Close and free what is in it. */
void trees_fini(struct trees *trees);

/* Open and add; what does not exist is skipped. Fails with E_FILES. */
enum confine_code trees_grant(struct trees *trees, const char *path, const struct trees_wish *wish,
                              struct confine_err *err);

/* Deny `path` as given and as resolved, existing or not. */
void trees_deny(struct trees *trees, const char *path, const char *why);

/* The same for a path whose folder is known to hold no link, as a walk found it. */
void trees_deny_found(struct trees *trees, const char *path, const char *why);

/* Add everything that `from` grants, descriptors duplicated. Fails with E_FILES. */
enum confine_code trees_copy(struct trees *trees, const struct trees *from,
                             struct confine_err *err);

/* Sort the denied, drop doubles and trees at or below a denied entry. */
void trees_seal(struct trees *trees);

/* Is `path` denied, or below something denied? After trees_seal. */
bool trees_covered(const struct trees *trees, const char *path);

/* Is something denied strictly below `path`? After trees_seal. */
bool trees_denies_below(const struct trees *trees, const char *path);

/* The longest granted tree that holds `path`, or NULL. */
const struct trees_one *trees_of(const struct trees *trees, const char *path);

#endif
