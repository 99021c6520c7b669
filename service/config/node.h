/* node: where everything in a YAML file stands. libyaml ends here.
 *
 * A first pass over the file that refuses what a settings file has no use for (aliases, tags,
 * several documents, repeated keys, empty values, deep nesting) and keeps the line of each value,
 * so that whatever is refused later can be pointed at. Paths read "asks.timeout_s" and
 * "permissions.deny_paths[3]". Threads: one at a time.
 */
#ifndef GH_CONFIG_NODE_H
#define GH_CONFIG_NODE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/map.h"

#define NODE_PATH 256 /* bytes of a path with the NUL */
#define NODE_FILE 128 /* bytes of a file name as shown, with the NUL */

enum node_kind { NODE_SCALAR = 0, NODE_MAP, NODE_LIST };

struct node {
    char *path;
    char *key;  /* the last key of the path; NULL for list entries and the top */
    char *text; /* scalars only */
    size_t line;
    enum node_kind kind;
    bool is_plain; /* a scalar without quotes */
};

struct nodes {
    char file[NODE_FILE]; /* for messages: the end of a long name */
    struct node **all;    /* in the order of the file; n of them */
    size_t n;
    size_t cap;
    struct gh_map by_path;
};

/* Read `data`. *ret is owned by caller (nodes_free) and holds nothing when the file is empty.
 * Fails with GH_CONFIG or GH_NOMEM. */
GH_MUST_USE enum gh_code nodes_read(const char *file, const char *data, size_t len,
                                    struct nodes **ret, struct gh_err *err);
void nodes_free(struct nodes *nodes);
void nodes_freep(struct nodes **nodes); /* for gh_auto */

/* The node at `path`, or NULL. Borrowed. */
const struct node *nodes_find(const struct nodes *nodes, const char *path);

/* Fail with GH_CONFIG: "FILE:LINE: PATH: sentence", the line of `path` or of what holds it. */
enum gh_code nodes_refuse(const struct nodes *nodes, const char *path, struct gh_err *err,
                          const char *fmt, ...) GH_PRINTF(4, 5);

/* As nodes_refuse, for a line that is known. */
enum gh_code nodes_refuse_line(const struct nodes *nodes, size_t line, const char *path,
                               struct gh_err *err, const char *sentence);

#endif
