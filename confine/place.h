/* place: the private root as a list of steps, made in the parent and carried out between clone and
 * exec. All paths of the new root are relative to it.
 *
 * "proc" in the new root is the workshop: stubs, texts and the second binds that pin ancestors lie
 * there, and the new /proc mount covers them for good.
 */
#ifndef GH_CONFINE_PLACE_H
#define GH_CONFINE_PLACE_H

#include "git.h"
#include "trees.h"

enum place_kind {
    PLACE_FOLDER, /* mkdir to; what is there already is right */
    PLACE_FILE,   /* an empty file at `to` as a place to mount on */
    PLACE_LINK,   /* a link at `to` to `from` */
    PLACE_BIND,   /* the tree at `from` (absolute, outside), which must be dev/ino */
    PLACE_MASK,   /* a clone of the stub `from` over `to` */
    PLACE_TWIN,   /* a file of mode 000, `size` and `mtime_ns` at `from`, then as a mask */
    PLACE_TEXT,   /* `text` as the read-only content of `to`, made at `from` */
    PLACE_GUARD,  /* `to` bound read-only onto itself */
};

struct place_step {
    enum place_kind kind;
    char *from, *to, *text;
    uint64_t attr; /* MOUNT_ATTR_* */
    dev_t dev;
    ino_t ino;
    off_t size;
    int64_t mtime_ns;
};

struct place {
    struct place_step *all;
    size_t n, room;
    size_t n_masks, n_pins;
};

struct place_wish {
    const struct trees *trees;
    const struct git_place *git;
    const struct util_strs *guards;
    const char *home; /* a folder to stand at, or NULL */
    const char *tmp;  /* bound at /tmp, or NULL */
};

/* The stubs that the child makes first, in the workshop. */
#define PLACE_STUB_FILE "proc/f"
#define PLACE_STUB_OPEN "proc/o"
#define PLACE_STUB_CLOSED "proc/c"

/* Write the steps down. Fails with E_SPEC where no private root can hold the trees. */
enum confine_code place_plan(struct place *place, const struct place_wish *wish,
                             struct confine_err *err);
void place_fini(struct place *place);

#endif
