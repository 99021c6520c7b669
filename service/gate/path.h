/* path: the two readings of a path a client sends (behaviour 1.2).
 *
 * The lexical reading removes ".." before links are followed; the kernel's follows links first.
 * Both then have links resolved in every existing component; a dangling link is resolved by its
 * text; what does not exist yet stays as written, and ".." after it is lexical. Results are
 * absolute, without ".", "..", "//".
 *
 * /proc's magic links mean something else to the client than to this process: /proc/self/cwd is
 * taken as the working directory, /proc/self/root as "/", and every other way through a process's
 * cwd, root, exe, fd, map_files or ns (thread-self and other pids included) is refused, as is a
 * link on a procfs that is mounted elsewhere.
 *
 * Reads the file system, changes nothing. Threads: any.
 */
#ifndef GH_GATE_PATH_H
#define GH_GATE_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct gate_path {
    char *kernel;  /* links first: what an open() would reach; owned */
    char *lexical; /* ".." first; NULL when it is the same place, reached by the same last link;
                      owned */
    char *spelled; /* absolute, ".." removed lexically, no link resolved; NULL when it equals
                      `kernel`: deny entries and names are matched against it as well; owned */
    char *leaf;    /* when the last component is itself a link, with no slash behind it: the link's
                      own place, its parents resolved. Deleting, moving or replacing acts here. NULL
                      when it is no link;    owned */
    char *lexical_leaf; /* the same for `lexical`; owned */
    char *hops; /* every link crossed by either reading, each ended by a NUL, an empty one last;
                   NULL when there is none; owned */
};

/* Free what the path owns, not the path. A zeroed one is fine. */
void gate_path_fini(struct gate_path *path);

/* Normalise `text` against the canonical `working_dir`; `home` (may be NULL) replaces a leading "~"
 * or "~/". Fails with GH_INVALID (empty, longer than PATH_MAX, more than 40 links, through a magic
 * link of /proc) or GH_NOMEM; on failure nothing is owned. */
GH_MUST_USE enum gh_code gate_path_resolve(const char *text, const char *working_dir,
                                           const char *home, struct gate_path *ret,
                                           struct gh_err *err);

/* The next hop after `hop` (NULL: the first), or NULL at the end. Borrowed. */
const char *gate_path_hop(const struct gate_path *path, const char *hop);

/* True when `path` equals `dir` or lies below it, by whole components. Both absolute. */
bool gate_path_within(const char *path, const char *dir);

#endif
