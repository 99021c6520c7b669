/* tail: the last bytes of a stream, and how many there were. Threads: one at a time. */
#ifndef GH_RUN_TAIL_H
#define GH_RUN_TAIL_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct run_tail_ring {
    char *data;     /* `cap` bytes once there is output; owned */
    size_t cap;     /* bytes kept at most */
    uint64_t total; /* bytes seen */
};

/* Free what is kept. */
void run_ring_fini(struct run_tail_ring *ring);

/* Add bytes. Without memory they count as seen and are not kept. */
void run_ring_put(struct run_tail_ring *ring, const char *data, size_t len);

/* Append what is kept, oldest first; returns the bytes that came before. */
uint64_t run_ring_get(const struct run_tail_ring *ring, struct gh_buf *out);

#endif
