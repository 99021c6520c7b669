#include "scan/automaton.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#define MAX_NODES 1024
#define NONE 0xFF

/* A node of the trie of phrases. Node 0 is the root. */
struct node {
    uint16_t next[FOLD_COUNT]; /* 0: none, until link_nodes */
    uint16_t fail;             /* the longest proper suffix that is a node */
    uint8_t last;              /* the symbol that led here */
    uint8_t hit;               /* the lowest phrase that ends here, or NONE */
    uint16_t state;            /* its row offset in the finished table */
};

struct trie {
    struct node nodes[MAX_NODES];
    uint16_t order[MAX_NODES]; /* breadth first */
    size_t count;
};

static uint16_t add_node(struct trie *trie, uint8_t symbol)
{
    gh_assert(trie->count < MAX_NODES);
    struct node *node = &trie->nodes[trie->count];
    node->last = symbol;
    node->hit = NONE;
    return (uint16_t)trie->count++;
}

static void add_phrase(struct trie *trie, size_t index)
{
    uint16_t at = 0;
    for (const char *c = scan_phrase_list[index]; *c != '\0'; c++) {
        enum fold symbol = scan_fold((unsigned char)*c);
        if (trie->nodes[at].next[symbol] == 0) {
            trie->nodes[at].next[symbol] = add_node(trie, (uint8_t)symbol);
        }
        at = trie->nodes[at].next[symbol];
    }
    if (trie->nodes[at].hit == NONE) {
        trie->nodes[at].hit = (uint8_t)index;
    }
}

/* Fill in what `node` does on `symbol`; its failure node, which is shallower, is complete. */
static void link_symbol(struct trie *trie, uint16_t at, size_t symbol, size_t *queued)
{
    struct node *node = &trie->nodes[at];
    uint16_t fallback = at == 0 ? 0 : trie->nodes[node->fail].next[symbol];
    uint16_t child = node->next[symbol];
    if (child == 0) {
        node->next[symbol] = fallback;
        return;
    }
    trie->nodes[child].fail = fallback;
    uint8_t shorter = trie->nodes[fallback].hit;
    if (shorter < trie->nodes[child].hit) {
        trie->nodes[child].hit = shorter;
    }
    trie->order[(*queued)++] = child;
}

/* Complete the transitions, breadth first. */
static void link_nodes(struct trie *trie)
{
    size_t queued = 1;
    for (size_t i = 0; i < queued; i++) {
        for (size_t symbol = 0; symbol < FOLD_COUNT; symbol++) {
            link_symbol(trie, trie->order[i], symbol, &queued);
        }
    }
    gh_assert(queued == trie->count);
    for (size_t i = 0; i < trie->count; i++) {
        struct node *node = &trie->nodes[i];
        node->next[FOLD_NOTHING] = (uint16_t)i;
        if (node->last == FOLD_BLANK) {
            node->next[FOLD_BLANK] = (uint16_t)i;
        }
    }
}

/* Give each node its row: hits from SCAN_HIT_ROW on, the others from 0. Returns the rows below. */
static size_t number_nodes(struct trie *trie, struct scan *scan)
{
    size_t plain = 0;
    size_t hits = 0;
    for (size_t i = 0; i < trie->count; i++) {
        struct node *node = &trie->nodes[i];
        size_t row = plain;
        if (node->hit == NONE) {
            plain++;
        } else {
            gh_assert(hits < SCAN_PHRASES);
            scan->hit[hits] = node->hit;
            row = SCAN_HIT_ROW + hits++;
        }
        node->state = (uint16_t)(row << SCAN_ROW_BITS);
    }
    gh_assert(plain <= SCAN_HIT_ROW);
    return plain;
}

/* Write the row of the waiting state whose escape, if it is one, leads to `blank`. */
static uint16_t add_waiting(struct scan *scan, const struct trie *trie, size_t row, uint16_t blank)
{
    gh_assert(row < SCAN_HIT_ROW);
    uint16_t state = (uint16_t)(row << SCAN_ROW_BITS);
    /* No escape: the backslash was another character, and the match starts over behind it. */
    for (size_t symbol = 0; symbol < FOLD_COUNT; symbol++) {
        scan->next[state + symbol] = trie->nodes[trie->nodes[0].next[symbol]].state;
    }
    static const char escapes[] = {'n', 'r', 't'};
    for (size_t i = 0; i < sizeof escapes; i++) {
        scan->next[state + scan_fold((unsigned char)escapes[i])] = blank;
    }
    return state;
}

/* Write all rows. Nodes with the same successor on a blank share a waiting state. */
static void write_rows(struct scan *scan, const struct trie *trie, size_t rows)
{
    uint16_t waiting[MAX_NODES] = {0}; /* by the node a blank leads to; 0: none yet */
    size_t first_waiting = rows;
    for (size_t i = 0; i < trie->count; i++) {
        const struct node *node = &trie->nodes[i];
        for (size_t symbol = 0; symbol < FOLD_COUNT; symbol++) {
            scan->next[node->state + symbol] = trie->nodes[node->next[symbol]].state;
        }
        uint16_t blank = node->next[FOLD_BLANK];
        if (waiting[blank] == 0) {
            waiting[blank] = add_waiting(scan, trie, rows++, trie->nodes[blank].state);
        }
        scan->next[node->state + FOLD_BACKSLASH] = waiting[blank];
    }
    /* A second backslash is the one that may start an escape; nothing stands before it. */
    for (size_t row = first_waiting; row < rows; row++) {
        scan->next[(row << SCAN_ROW_BITS) + FOLD_BACKSLASH] = waiting[0];
    }
}

enum gh_code scan_compile(struct scan *scan, struct gh_err *err)
{
    gh_autofree struct trie *trie = calloc(1, sizeof *trie);
    if (trie == NULL) {
        return gh_fail(err, GH_NOMEM, "no memory for the phrase list");
    }
    add_node(trie, FOLD_OTHER);
    for (size_t i = 0; i < SCAN_PHRASES; i++) {
        add_phrase(trie, i);
    }
    link_nodes(trie);
    write_rows(scan, trie, number_nodes(trie, scan));
    for (uint32_t code = 0; code < sizeof scan->symbol; code++) {
        scan->symbol[code] = (uint8_t)scan_fold(code);
    }
    for (uint32_t code = 0; code < sizeof scan->ascii; code++) {
        scan->ascii[code] = scan_ascii(scan_fold(code));
    }
    return GH_OK;
}
