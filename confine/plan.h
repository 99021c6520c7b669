/* plan: the inside of an engine and of a plan. */
#ifndef GH_CONFINE_PLAN_H
#define GH_CONFINE_PLAN_H

#include <pthread.h>

#include "filter.h"
#include "place.h"
#include "scan.h"

struct confine {
    struct confine_kernel kernel;
    pthread_mutex_t lock; /* of `filters` */
    struct sock_fprog filters[FILTER_N];
    struct scan_cache *cache;
    struct trees system; /* granted to every command */
    char *home;          /* the operating system's idea, or NULL */
};

struct confine_plan {
    struct confine *engine; /* borrowed */
    struct trees trees;
    struct git_place git;
    struct util_strs guards;
    struct place place;
    struct util_strs argv, env, programs;
    char *cwd, *home, *tmp;
    int stdio[3];

    enum confine_opt_in unix_sockets, leave;
    bool share_tmp, ptrace, require, may_fall_back, own_session;
    bool probe, spawned;
    enum confine_network network;
    uint16_t *ports;
    size_t n_ports;

    bool namespaces;          /* as planned now */
    int ruleset;              /* -1: none */
    struct sock_fprog filter; /* borrowed from the engine */
    struct confine_report report;
};

/* Plan again without namespaces; `why` (static) is reported. Fails as confine_plan_new. */
enum confine_code plan_fall_back(struct confine_plan *plan, const char *why,
                                 struct confine_err *err);

/* The compiled filter, kept by the engine. Fails with E_SYSTEM. */
enum confine_code plan_filter(struct confine *engine, unsigned wish, struct sock_fprog *ret,
                              struct confine_err *err);

#endif
