/* landlock: rulesets from granted trees, whole or carved around what is denied
 * (behaviour 5.2, 5.4).
 */
#ifndef GH_CONFINE_LANDLOCK_H
#define GH_CONFINE_LANDLOCK_H

#include "kernel.h"
#include "trees.h"

/* The kernel's ABI, at most 7; 0: none. */
int landlock_abi(void);

/* Every file-system right that `abi` knows. */
uint64_t landlock_all(int abi);

/* The rights of a grant under `abi`; on what is no folder the file subset. */
uint64_t landlock_access(int abi, enum trees_right right, bool folder);

struct landlock_wish {
    int abi;
    bool carve;            /* around the denied entries; else they are masked */
    bool tcp_only;         /* TCP connect and bind to `ports` and 53 only */
    const uint16_t *ports; /* borrowed */
    size_t n_ports;
};

/* A ruleset for the trees (descriptor, caller closes). Fails with E_ENFORCE, E_FILES. */
enum confine_code landlock_build(const struct trees *trees, const struct landlock_wish *wish,
                                 int *ret, struct confine_err *err);

/* What a kernel of `abi` lacks, into report->lost. */
void landlock_lost(int abi, struct confine_report *report);

#endif
