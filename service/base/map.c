#include "base/map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a; keys are our own random ids or values bounded by a per-token limit. */
static size_t hash_of(const char *key)
{
    uint64_t hash = 1469598103934665603U;
    for (; *key != '\0'; key++) {
        hash = (hash ^ (unsigned char)*key) * 1099511628211U;
    }
    return (size_t)(hash ^ hash >> 32);
}

void gh_map_fini(struct gh_map *map)
{
    free(map->slots);
    *map = GH_MAP_INIT;
}

/* The slot that holds `key`, or the free one where it belongs. */
static struct gh_map_slot *slot_of(const struct gh_map *map, const char *key, size_t hash)
{
    size_t mask = map->n_slots - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct gh_map_slot *slot = &map->slots[i];
        if (slot->key == NULL || (slot->hash == hash && strcmp(slot->key, key) == 0)) {
            return slot;
        }
    }
}

void *gh_map_find(const struct gh_map *map, const char *key)
{
    if (map->n_slots == 0) {
        return NULL;
    }
    return slot_of(map, key, hash_of(key))->value;
}

static bool grow(struct gh_map *map)
{
    if ((map->n_used + 1) * 3 <= map->n_slots * 2) {
        return true;
    }
    struct gh_map bigger = {NULL, map->n_slots == 0 ? 16 : map->n_slots * 2, map->n_used};
    bigger.slots = calloc(bigger.n_slots, sizeof *bigger.slots);
    if (bigger.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < map->n_slots; i++) {
        const struct gh_map_slot *old = &map->slots[i];
        if (old->key != NULL) {
            *slot_of(&bigger, old->key, old->hash) = *old;
        }
    }
    free(map->slots);
    *map = bigger;
    return true;
}

bool gh_map_put(struct gh_map *map, const char *key, void *value)
{
    if (!grow(map)) {
        return false;
    }
    size_t hash = hash_of(key);
    struct gh_map_slot *slot = slot_of(map, key, hash);
    if (slot->key == NULL) {
        map->n_used++;
    }
    *slot = (struct gh_map_slot){key, value, hash};
    return true;
}

void *gh_map_remove(struct gh_map *map, const char *key)
{
    if (map->n_slots == 0) {
        return NULL;
    }
    struct gh_map_slot *slot = slot_of(map, key, hash_of(key));
    if (slot->key == NULL) {
        return NULL;
    }
    void *value = slot->value;
    *slot = (struct gh_map_slot){NULL, NULL, 0};
    map->n_used--;

    /* Close the gap: later entries of the same run move to where a search would now end. */
    size_t mask = map->n_slots - 1;
    for (size_t i = ((size_t)(slot - map->slots) + 1) & mask; map->slots[i].key != NULL;
         i = (i + 1) & mask) {
        struct gh_map_slot moved = map->slots[i];
        map->slots[i] = (struct gh_map_slot){NULL, NULL, 0};
        *slot_of(map, moved.key, moved.hash) = moved;
    }
    return value;
}

void *gh_map_next(const struct gh_map *map, size_t *at)
{
    while (*at < map->n_slots) {
        const struct gh_map_slot *slot = &map->slots[(*at)++];
        if (slot->key != NULL) {
            return slot->value;
        }
    }
    return NULL;
}
