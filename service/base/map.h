/* map: a hash table from strings to pointers.
 *
 * Keys are borrowed: the value must own its key and keep it unchanged while it is in the map.
 * Threads: one at a time (the owner's lock).
 */
#ifndef GH_BASE_MAP_H
#define GH_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct gh_map_slot {
    const char *key; /* borrowed; NULL in a free slot */
    void *value;     /* borrowed */
    size_t hash;
};

struct gh_map {
    struct gh_map_slot *slots; /* heap, or NULL while empty */
    size_t n_slots;            /* a power of two, or 0 */
    size_t n_used;
};

#define GH_MAP_INIT ((struct gh_map){NULL, 0, 0})

/* Free the table, not the values. */
void gh_map_fini(struct gh_map *map);

/* The value of `key`, or NULL. */
void *gh_map_find(const struct gh_map *map, const char *key);

/* Insert or replace. Returns false when there is no memory; then nothing changed. */
bool gh_map_put(struct gh_map *map, const char *key, void *value);

/* Remove and return the value of `key`, or NULL. */
void *gh_map_remove(struct gh_map *map, const char *key);

/* Step over all values: start with *at = 0; NULL at the end. The map may not change meanwhile. */
void *gh_map_next(const struct gh_map *map, size_t *at);

#endif
