/* slots: the raw values of one file, one slot a key of the table. libcyaml ends here.
 *
 * libcyaml 1.3 knows no defaults and cannot tell an absent number from 0, so each key is loaded
 * into a slot of its own, empty when the key is absent. Threads: one at a time.
 */
#ifndef GH_CONFIG_SLOTS_H
#define GH_CONFIG_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "config/node.h"
#include "config/table.h"

struct slot {
    void *value; /* by type: int *, int64_t *, char *, char **, int64_t[], struct slot[]; or NULL */
    uint64_t n;  /* values of TABLE_LIST, TABLE_INTS, TABLE_ROWS, TABLE_NAMED */
};

struct slots;

/* Load `data` by the table; `nodes` are those of the same data. *ret is owned by caller
 * (slots_free). Fails with GH_CONFIG or GH_NOMEM. */
GH_MUST_USE enum gh_code slots_load(const struct nodes *nodes, const char *data, size_t len,
                                    struct slots **ret, struct gh_err *err);
void slots_free(struct slots *slots);
void slots_freep(struct slots **slots); /* for gh_auto */

/* The slots of table_top's keys, or NULL when the file sets nothing or `slots` is NULL. Borrowed.
 * Texts and lists may be taken out (value set to NULL), to be freed with free. */
struct slot *slots_top(const struct slots *slots);

/* The number of rows of the TABLE_NAMED key. */
size_t slots_count(const struct slots *slots);

/* The name of row `i` of the TABLE_NAMED key. Borrowed. */
const char *slots_name(const struct slots *slots, size_t i);

/* What a value of `key` has to be, for a message. */
void slots_expect(const struct table_key *key, char *out, size_t size);

#endif
