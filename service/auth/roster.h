/* roster: all token records at one moment, found by digest. Never changed once made; shared by
 * counting references.
 *
 * Threads: any; taking a reference needs the lock that guards the pointer it is taken from.
 */
#ifndef GH_AUTH_ROSTER_H
#define GH_AUTH_ROSTER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/folder.h"
#include "auth/record.h"

struct roster {
    atomic_size_t refs;
    struct records records; /* sorted by id */
    uint32_t *slots;        /* index + 1 into records, 0 when free; a power of two of them */
    size_t n_slots;
};

/* Make a roster of `records`, which are taken over (emptied) on success. One reference is the
 * caller's. NULL when there is no memory. */
struct roster *roster_new(struct records *records);

struct roster *roster_hold(struct roster *roster); /* one more reference */
void roster_drop(struct roster *roster);           /* NULL is fine */
void roster_dropp(struct roster **roster);         /* for gh_auto */

/* The record with this digest, or NULL. Borrowed. */
const struct record *roster_find(const struct roster *roster,
                                 const unsigned char digest[GH_SHA256]);

/* The record with this id, or NULL. Borrowed. */
const struct record *roster_find_id(const struct roster *roster, const char *id);

#endif
