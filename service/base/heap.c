#include "base/heap.h"

#include <stdlib.h>

void gh_heap_fini(struct gh_heap *heap)
{
    free(heap->nodes);
    *heap = GH_HEAP_INIT;
}

static void place(struct gh_heap *heap, struct gh_due *node, size_t at)
{
    heap->nodes[at] = node;
    node->place = at;
}

static void sift_up(struct gh_heap *heap, struct gh_due *node)
{
    size_t at = node->place;
    while (at > 1 && heap->nodes[at / 2]->at_ms > node->at_ms) {
        place(heap, heap->nodes[at / 2], at);
        at /= 2;
    }
    place(heap, node, at);
}

static void sift_down(struct gh_heap *heap, struct gh_due *node)
{
    size_t at = node->place;
    for (;;) {
        size_t child = at * 2;
        if (child > heap->n) {
            break;
        }
        if (child < heap->n && heap->nodes[child + 1]->at_ms < heap->nodes[child]->at_ms) {
            child++;
        }
        if (heap->nodes[child]->at_ms >= node->at_ms) {
            break;
        }
        place(heap, heap->nodes[child], at);
        at = child;
    }
    place(heap, node, at);
}

bool gh_heap_set(struct gh_heap *heap, struct gh_due *node, int64_t at_ms)
{
    if (node->place == 0) {
        if (heap->n + 2 > heap->cap) {
            size_t cap = heap->cap == 0 ? 64 : heap->cap * 2;
            struct gh_due **nodes = realloc(heap->nodes, cap * sizeof *nodes);
            if (nodes == NULL) {
                return false;
            }
            heap->nodes = nodes;
            heap->cap = cap;
        }
        place(heap, node, ++heap->n);
    }
    node->at_ms = at_ms;
    sift_up(heap, node);
    sift_down(heap, node);
    return true;
}

void gh_heap_remove(struct gh_heap *heap, struct gh_due *node)
{
    if (node->place == 0) {
        return;
    }
    size_t at = node->place;
    struct gh_due *last = heap->nodes[heap->n--];
    node->place = 0;
    if (last != node) {
        place(heap, last, at);
        sift_up(heap, last);
        sift_down(heap, last);
    }
}

struct gh_due *gh_heap_first(const struct gh_heap *heap)
{
    return heap->n > 0 ? heap->nodes[1] : NULL;
}
