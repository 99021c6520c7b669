/* walk: everything that lies below a folder, within a bound.
 *
 * Links are not followed and ignore files are not honoured. Threads: any. Reads the file system,
 * changes nothing.
 */
#ifndef GH_GATE_WALK_H
#define GH_GATE_WALK_H

#include <stdbool.h>
#include <stddef.h>

enum { GATE_WALK_ENTRIES = 100000, GATE_WALK_DEPTH = 128, GATE_WALK_ROOTS = 3 };

struct gate_walk {
    const char *dir;                    /* what is walked */
    const char *roots[GATE_WALK_ROOTS]; /* what its entries are named below: the folder itself,
                                           places where it is about to lie; NULL: none */
    size_t *budget;                     /* entries left, counted down; NULL: GATE_WALK_ENTRIES */
    /* Called for each entry, by its name below each root; false ends the walk. */
    bool (*see)(const char *path, void *cookie);
    void *cookie;
};

/* Walk. False when not everything could be seen: the budget ran out, a folder is closed or too
 * deep, or there is no memory. What is not a folder has nothing below it. */
bool gate_walk(const struct gate_walk *how);

#endif
