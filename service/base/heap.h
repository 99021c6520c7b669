/* heap: a binary heap of deadlines. Nodes live inside the things that are due.
 *
 * Threads: one at a time (the owner's lock).
 */
#ifndef GH_BASE_HEAP_H
#define GH_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gh_due {
    int64_t at_ms; /* CLOCK_BOOTTIME */
    size_t place;  /* 1-based place in the heap; 0 while not in one */
    void *owner;   /* what is due; borrowed */
    int kind;      /* the owner's word for what is due */
};

struct gh_heap {
    struct gh_due **nodes; /* heap-allocated, [0] unused */
    size_t n;
    size_t cap;
};

#define GH_HEAP_INIT ((struct gh_heap){NULL, 0, 0})

/* Free the array; nodes still in it are forgotten. */
void gh_heap_fini(struct gh_heap *heap);

/* Put `node` in, or move it, to be due at `at_ms`. Returns false when there is no memory; then the
 * node is where it was. */
bool gh_heap_set(struct gh_heap *heap, struct gh_due *node, int64_t at_ms);

/* Take `node` out; nothing happens when it is not in. */
void gh_heap_remove(struct gh_heap *heap, struct gh_due *node);

/* The node that is due first, or NULL. Borrowed; still in the heap. */
struct gh_due *gh_heap_first(const struct gh_heap *heap);

#endif
