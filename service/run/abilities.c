#include <stdio.h>
#include <string.h>

#include "run/inner.h"

/* From the confiner's words to ours. */

static enum run_level level_of(enum confine_level level)
{
    static const enum run_level levels[] = {[CONFINE_FULL] = RUN_FULL,
                                            [CONFINE_PARTIAL] = RUN_PARTIAL,
                                            [CONFINE_UNENFORCED] = RUN_NONE};
    return levels[level];
}

static enum run_deny_method method_of(enum confine_deny_method method)
{
    static const enum run_deny_method methods[] = {[CONFINE_DENY_NONE] = RUN_DENY_NONE,
                                                   [CONFINE_DENY_MASKED] = RUN_DENY_MASKED,
                                                   [CONFINE_DENY_CARVED] = RUN_DENY_CARVED};
    return methods[method];
}

static enum run_network network_of(enum confine_network network)
{
    static const enum run_network networks[] = {[CONFINE_NET_OPEN] = RUN_NET_OPEN,
                                                [CONFINE_NET_NONE] = RUN_NET_NONE,
                                                [CONFINE_NET_LOOPBACK] = RUN_NET_LOOPBACK,
                                                [CONFINE_NET_TCP] = RUN_NET_TCP};
    return networks[network];
}

void run_fill_report(const struct confine_report *report, struct run_report *ret)
{
    *ret = (struct run_report){.enforcement = level_of(report->enforcement),
                               .deny_method = method_of(report->deny_method),
                               .network = network_of(report->network),
                               .landlock_abi = report->landlock_abi,
                               .seccomp = report->seccomp,
                               .namespaces = report->namespaces};
    for (size_t i = 0; i < report->n_lost && i < RUN_MAX_LOST; i++) {
        ret->lost[ret->n_lost++] = report->lost[i];
    }
}

/* Landlock 6 is the last that adds rights or scopes; 7 adds flags of its log. */
#define LANDLOCK_WHOLE 6

void run_fill_abilities(const struct confine_kernel *kernel, struct run_abilities *ret)
{
    bool has_landlock = kernel->landlock_abi > 0 && kernel->landlock_denies;
    *ret = (struct run_abilities){.landlock_abi = has_landlock ? kernel->landlock_abi : 0,
                                  .seccomp = kernel->seccomp,
                                  .namespaces = kernel->namespaces};
    if (!has_landlock || !kernel->seccomp) {
        ret->enforcement = RUN_NONE;
    } else {
        bool is_whole = kernel->landlock_abi >= LANDLOCK_WHOLE && kernel->namespaces;
        ret->enforcement = is_whole ? RUN_FULL : RUN_PARTIAL;
        ret->deny_method = kernel->namespaces ? RUN_DENY_MASKED : RUN_DENY_CARVED;
    }
    snprintf(ret->why, sizeof ret->why, "%s", kernel->why);
}
