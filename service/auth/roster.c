#include "auth/roster.h"

#include <stdlib.h>
#include <string.h>

/* The digest's first bytes are as random as a hash can make them. Whoever steers them knows the
 * digest, not the secret. */
static size_t first_slot(const struct roster *roster, const unsigned char digest[GH_SHA256])
{
    uint64_t head = 0;
    memcpy(&head, digest, sizeof head);
    return (size_t)head & (roster->n_slots - 1);
}

static void enter(struct roster *roster, size_t index)
{
    size_t at = first_slot(roster, roster->records.all[index].digest);
    while (roster->slots[at] != 0) {
        at = (at + 1) & (roster->n_slots - 1);
    }
    roster->slots[at] = (uint32_t)index + 1;
}

struct roster *roster_new(struct records *records)
{
    struct roster *roster = calloc(1, sizeof *roster);
    if (roster == NULL) {
        return NULL;
    }
    roster->n_slots = 16;
    while (roster->n_slots < records->n * 2) {
        roster->n_slots *= 2;
    }
    roster->slots = calloc(roster->n_slots, sizeof *roster->slots);
    if (roster->slots == NULL) {
        free(roster);
        return NULL;
    }
    atomic_init(&roster->refs, 1);
    roster->records = *records;
    *records = (struct records){NULL, 0, 0};
    for (size_t i = 0; i < roster->records.n; i++) {
        enter(roster, i);
    }
    return roster;
}

struct roster *roster_hold(struct roster *roster)
{
    atomic_fetch_add(&roster->refs, 1);
    return roster;
}

void roster_drop(struct roster *roster)
{
    if (roster != NULL && atomic_fetch_sub(&roster->refs, 1) == 1) {
        records_fini(&roster->records);
        free(roster->slots);
        free(roster);
    }
}

void roster_dropp(struct roster **roster)
{
    roster_drop(*roster);
}

const struct record *roster_find(const struct roster *roster, const unsigned char digest[GH_SHA256])
{
    const struct record *found = NULL;
    for (size_t at = first_slot(roster, digest); roster->slots[at] != 0;
         at = (at + 1) & (roster->n_slots - 1)) {
        const struct record *record = &roster->records.all[roster->slots[at] - 1];
        if (gh_id_equal(record->digest, digest, GH_SHA256)) {
            found = record;
        }
    }
    return found;
}

static int compare_id(const void *key, const void *record)
{
    return strcmp(key, ((const struct record *)record)->token.id);
}

const struct record *roster_find_id(const struct roster *roster, const char *id)
{
    return roster->records.n == 0 ? NULL
                                  : bsearch(id, roster->records.all, roster->records.n,
                                            sizeof *roster->records.all, compare_id);
}
