/* anchor: audit.anchor, a small file beside the database that says how far the log reached.
 *
 * {"version":1,"gateway":"gw_...","count":N,"hash":"..."} padded to a fixed size and overwritten in
 * place, so an update costs one small write and no new block. It is made (and synced) before the
 * first row, and updated after rows are durable, so it may lie behind the rows, never before them:
 * a log that is shorter than its anchor was cut or rolled back.
 */
#ifndef GH_STORE_ANCHOR_H
#define GH_STORE_ANCHOR_H

#include <stdbool.h>

#include "base/err.h"
#include "store/chain.h"

#define STORE_ANCHOR_NAME "audit.anchor"

struct store_anchor {
    char gateway[GH_ID];
    struct store_head head;
};

/* Fails with GH_NOT_FOUND when there is none, GH_IO when it cannot be read or is not one. */
GH_MUST_USE enum gh_code store_anchor_read(int dir_fd, struct store_anchor *ret,
                                           struct gh_err *err);

/* Make or overwrite the file. *fd is the open file, -1 to open it first; it is opened anew when the
 * name no longer leads to it. With `is_synced` it is on the disk on return. Fails with GH_IO. */
GH_MUST_USE enum gh_code store_anchor_write(int dir_fd, int *fd, const struct store_anchor *anchor,
                                            bool is_synced, struct gh_err *err);

#endif
