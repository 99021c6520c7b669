#include "run/tail.h"

#include <stdlib.h>
#include <string.h>

void run_ring_fini(struct run_tail_ring *ring)
{
    free(ring->data);
    ring->data = NULL;
}

void run_ring_put(struct run_tail_ring *ring, const char *data, size_t len)
{
    if (ring->data == NULL && ring->cap > 0) {
        ring->data = malloc(ring->cap);
    }
    if (ring->data == NULL) {
        ring->cap = 0;
        ring->total += len;
        return;
    }
    if (len > ring->cap) {
        ring->total += len - ring->cap;
        data += len - ring->cap;
        len = ring->cap;
    }
    size_t at = (size_t)(ring->total % ring->cap);
    size_t first = len < ring->cap - at ? len : ring->cap - at;
    memcpy(ring->data + at, data, first);
    memcpy(ring->data, data + first, len - first);
    ring->total += len;
}

uint64_t run_ring_get(const struct run_tail_ring *ring, struct gh_buf *out)
{
    if (ring->data == NULL) {
        return ring->total;
    }
    if (ring->total <= ring->cap) {
        gh_buf_put(out, ring->data, (size_t)ring->total);
        return 0;
    }
    size_t at = (size_t)(ring->total % ring->cap);
    gh_buf_put(out, ring->data + at, ring->cap - at);
    gh_buf_put(out, ring->data, at);
    return ring->total - ring->cap;
}
