#include "plan.h"

#include <errno.h>
#include <string.h>

#include "environ.h"
#include "landlock.h"
#include "report.h"
#include "table.h"

void confine_spec_init(struct confine_spec *spec)
{
    *spec = (struct confine_spec){
        .stdio = {-1, -1, -1},
        .allow_unix_sockets = CONFINE_CONTAINED,
        .allow_leaving_process_group = CONFINE_CONTAINED,
        .protect_git = true,
        .require_enforcement = true,
    };
}

/* ---- what is asked ---- */

static enum confine_code check_list(const char *const *paths, const char *what,
                                    struct confine_err *err)
{
    for (size_t i = 0; paths != NULL && paths[i] != NULL; i++) {
        if (paths[i][0] != '/') {
            return util_fail(err, CONFINE_E_SPEC, EINVAL, "%s is not absolute.", what);
        }
    }
    return CONFINE_OK;
}

static enum confine_code check_spec(const struct confine_spec *spec, struct confine_err *err)
{
    if (spec->argv == NULL || spec->argv[0] == NULL || spec->argv[0][0] == '\0') {
        return util_fail(err, CONFINE_E_SPEC, EINVAL, "There is no program.");
    }
    if (spec->cwd == NULL || spec->cwd[0] != '/') {
        return util_fail(err, CONFINE_E_SPEC, EINVAL, "The working directory is not absolute.");
    }
    CONFINE_TRY(check_list(spec->write_roots, "A write root", err));
    CONFINE_TRY(check_list(spec->read_roots, "A read root", err));
    return check_list(spec->deny_paths, "A denied path", err);
}

static enum confine_code check_kernel(const struct confine_kernel *kernel,
                                      const struct confine_spec *spec, struct confine_err *err)
{
    bool landlock = kernel->landlock_abi > 0 && kernel->landlock_denies;
    if (spec->require_enforcement && !landlock) {
        return util_fail(err, CONFINE_E_ENFORCE, EACCES,
                         "Landlock is not in force on this kernel, and enforcement is required.");
    }
    if (!kernel->seccomp) {
        return util_fail(err, CONFINE_E_ENFORCE, EACCES, "The kernel takes no seccomp filter.");
    }
    bool namespaces = spec->namespaces != CONFINE_NS_OFF && kernel->namespaces;
    if (spec->namespaces == CONFINE_NS_REQUIRE && !namespaces) {
        return util_fail(err, CONFINE_E_ENFORCE, EACCES, "Namespaces are required: %s",
                         kernel->why);
    }
    if (spec->network == CONFINE_NET_LOOPBACK && !namespaces) {
        return util_fail(err, CONFINE_E_ENFORCE, EACCES,
                         "A loopback of its own needs namespaces. %s", kernel->why);
    }
    if (spec->network == CONFINE_NET_TCP && (!landlock || kernel->landlock_abi < 4)) {
        return util_fail(err, CONFINE_E_ENFORCE, EACCES, "TCP ports need Landlock ABI 4.");
    }
    return CONFINE_OK;
}

/* ---- grants and denials ---- */

static enum confine_code grant_list(struct trees *trees, const char *const *paths,
                                    struct trees_wish wish, const char *cwd,
                                    struct confine_err *err)
{
    for (size_t i = 0; paths != NULL && paths[i] != NULL; i++) {
        /* a link below the working directory may have been planted by an earlier command */
        wish.nofollow =
            wish.right == TREES_READ && util_below(paths[i], cwd) && strcmp(paths[i], cwd) != 0;
        CONFINE_TRY(trees_grant(trees, paths[i], &wish, err));
    }
    return CONFINE_OK;
}

static enum confine_code grant_private(struct confine_plan *plan, const struct confine_spec *spec,
                                       struct confine_err *err)
{
    struct trees_wish wish = {.right = TREES_WRITE, .reason = "private temporary files"};
    if (spec->share_system_tmp) {
        const char *tmp = environ_get((const char *const *)environ, "TMPDIR");
        wish.reason = "the system's temporary files, shared on purpose";
        CONFINE_TRY(trees_grant(&plan->trees, "/tmp", &wish, err));
        if (tmp != NULL && tmp[0] == '/') {
            CONFINE_TRY(trees_grant(&plan->trees, tmp, &wish, err));
        }
    } else if (plan->tmp != NULL) {
        CONFINE_TRY(trees_grant(&plan->trees, plan->tmp, &wish, err));
    }
    if (spec->cache_dir != NULL) {
        wish.reason = "private caches";
        CONFINE_TRY(trees_grant(&plan->trees, spec->cache_dir, &wish, err));
    }
    wish = (struct trees_wish){.right = TREES_TERMINAL, .reason = "the terminal"};
    if (plan->namespaces || !plan->own_session) {
        CONFINE_TRY(trees_grant(&plan->trees, "/dev/tty", &wish, err));
    }
    return CONFINE_OK;
}

/* A linked worktree's index and objects lie in the main repository; below a repository's top the
 * rest of it would look deleted to git. */
static enum confine_code grant_git(struct confine_plan *plan, struct confine_err *err)
{
    const struct trees_one *tree = trees_of(&plan->trees, plan->cwd);
    if (plan->git.top == NULL || tree == NULL || tree->right != TREES_WRITE) {
        return CONFINE_OK;
    }
    struct trees_wish wish = {.right = TREES_WRITE, .reason = "git folder of the worktree"};
    if (util_below(plan->git.top, tree->path) && plan->git.linked) {
        CONFINE_TRY(trees_grant(&plan->trees, plan->git.dir, &wish, err));
        return trees_grant(&plan->trees, plan->git.common, &wish, err);
    }
    wish = (struct trees_wish){
        .right = TREES_READ, .reason = "the repository around it", .scanned = true};
    if (!util_below(plan->git.top, tree->path)) {
        return trees_grant(&plan->trees, plan->git.top, &wish, err);
    }
    return CONFINE_OK;
}

static enum confine_code grant_all(struct confine_plan *plan, const struct confine_spec *spec,
                                   struct confine_err *err)
{
    struct trees_wish wish = {.right = TREES_WRITE, .reason = "write root", .scanned = true};
    CONFINE_TRY(trees_copy(&plan->trees, &plan->engine->system, err));
    CONFINE_TRY(grant_list(&plan->trees, spec->write_roots, wish, plan->cwd, err));
    wish = (struct trees_wish){.right = TREES_READ, .reason = "read root", .scanned = true};
    CONFINE_TRY(grant_list(&plan->trees, spec->read_roots, wish, plan->cwd, err));
    CONFINE_TRY(table_grant(&plan->trees, plan->home, plan->cwd, plan->namespaces, err));
    CONFINE_TRY(grant_private(plan, spec, err));
    return grant_git(plan, err);
}

static enum confine_code deny_all(struct confine_plan *plan, const struct confine_spec *spec,
                                  struct confine_err *err)
{
    table_deny(&plan->trees, plan->home);
    for (size_t i = 0; spec->deny_paths != NULL && spec->deny_paths[i] != NULL; i++) {
        trees_deny(&plan->trees, spec->deny_paths[i], "denied path");
    }
    confine_auto(names_fini) struct names names;
    names_compile(&names, spec->deny_names, spec->n_deny_names);
    if (!scan_names(plan->engine->cache, &plan->trees, &names) || !scan_aliases(&plan->trees)) {
        return util_fail(err, CONFINE_E_FILES, EMFILE,
                         "No descriptors are left to look for denied entries.");
    }
    trees_seal(&plan->trees);
    return CONFINE_OK;
}

/* ---- what the command gets ---- */

static void copy_list(struct util_strs *to, const char *const *from)
{
    for (size_t i = 0; from[i] != NULL; i++) {
        util_strs_take(to, util_dup(from[i]));
    }
}

/* Where the program may lie, from the PATH that the command gets. */
static void find_programs(struct confine_plan *plan)
{
    const char *name = plan->argv.all[0];
    const char *path = environ_get((const char *const *)plan->env.all, "PATH");
    if (strchr(name, '/') != NULL || path == NULL) {
        util_strs_take(&plan->programs, util_dup(name));
        return;
    }
    while (*path != '\0') {
        size_t n = strcspn(path, ":");
        if (n > 0 && *path == '/') { /* never the working directory */
            util_strs_take(&plan->programs, util_format("%.*s/%s", (int)n, path, name));
        }
        path += n + (path[n] == ':');
    }
    if (plan->programs.n == 0) {
        util_strs_take(&plan->programs, util_format("/usr/bin/%s", name));
    }
}

static void set_tmp(struct confine_plan *plan, const char *tmp)
{
    for (size_t i = 0; i < plan->env.n; i++) {
        if (strncmp(plan->env.all[i], "TMPDIR=", 7) == 0) {
            free(plan->env.all[i]);
            plan->env.all[i] = util_format("TMPDIR=%s", tmp);
        }
    }
}

static void build_command(struct confine_plan *plan, const struct confine_spec *spec)
{
    copy_list(&plan->argv, spec->argv);
    struct environ_wish wish = {.spec = spec,
                                .parent = (const char *const *)environ,
                                .home = spec->home,
                                .tmp = plan->share_tmp ? "/tmp" : plan->tmp};
    environ_build(&wish, &plan->env);
    find_programs(plan);
}

/* ---- rulesets, filters, report ---- */

static bool may(enum confine_opt_in opt, bool contained)
{
    return opt == CONFINE_YES || (opt == CONFINE_CONTAINED && contained);
}

enum confine_code plan_filter(struct confine *engine, unsigned wish, struct sock_fprog *ret,
                              struct confine_err *err)
{
    pthread_mutex_lock(&engine->lock);
    enum confine_code code = CONFINE_OK;
    if (engine->filters[wish].filter == NULL) {
        code = filter_build(wish, &engine->filters[wish], err);
    }
    *ret = engine->filters[wish];
    pthread_mutex_unlock(&engine->lock);
    return code;
}

static unsigned filter_wish(const struct confine_plan *plan)
{
    bool landlock = plan->report.landlock_abi > 0;
    return (may(plan->unix_sockets, plan->namespaces) ? FILTER_UNIX : 0u) |
           (may(plan->leave, plan->namespaces) ? FILTER_LEAVE : 0u) |
           (plan->ptrace && landlock ? FILTER_PTRACE : 0u) |
           (plan->namespaces ? 0u : FILTER_PLAIN) |
           (plan->network == CONFINE_NET_NONE ? FILTER_NO_IP : 0u) |
           (plan->network == CONFINE_NET_TCP ? FILTER_TCP : 0u);
}

static bool denies_anything(const struct trees *trees)
{
    for (size_t i = 0; i < trees->n; i++) {
        if (trees_denies_below(trees, trees->all[i].path)) {
            return true;
        }
    }
    return false;
}

static void fill_report(struct confine_plan *plan)
{
    struct confine_report *r = &plan->report;
    r->seccomp = true;
    r->namespaces = plan->namespaces;
    r->network = plan->network;
    r->unix_sockets = (filter_wish(plan) & FILTER_UNIX) != 0;
    landlock_lost(r->landlock_abi, r);
    if (!plan->namespaces) {
        report_lose(r, "plain: chmod, chown, times and xattr reach files outside the grants");
        report_lose(r, "plain: what left the process group is found and killed, not held");
        report_lose(r, "plain: System V memory and message queues of this user are shared");
        if (plan->git.top != NULL && plan->guards.n > 0) {
            report_lose(r,
                        "plain: git's configuration and hooks, and agent settings, are writable");
        }
        if (r->unix_sockets) {
            report_lose(r, "plain: local sockets of every daemon can be reached");
        }
    }
    bool denied = denies_anything(&plan->trees);
    r->deny_method = !denied               ? CONFINE_DENY_NONE
                     : plan->namespaces    ? CONFINE_DENY_MASKED
                     : r->landlock_abi > 0 ? CONFINE_DENY_CARVED
                                           : CONFINE_DENY_NONE;
    if (r->deny_method == CONFINE_DENY_CARVED) {
        report_lose(r,
                    "carved: names in denied folders can be listed, and entries made beside them");
    }
    r->enforcement = r->landlock_abi == 0 ? CONFINE_UNENFORCED
                     : r->n_lost > 0      ? CONFINE_PARTIAL
                                          : CONFINE_FULL;
}

static enum confine_code build_place(struct confine_plan *plan, struct confine_err *err)
{
    place_fini(&plan->place);
    struct place_wish wish = {.trees = &plan->trees,
                              .git = &plan->git,
                              .guards = &plan->guards,
                              .home = plan->home,
                              .tmp = plan->share_tmp ? NULL : plan->tmp};
    return place_plan(&plan->place, &wish, err);
}

/* Rules and filter for the mode as it stands. Fails with E_ENFORCE, E_FILES, E_SYSTEM. */
static enum confine_code arm(struct confine_plan *plan, struct confine_err *err)
{
    util_auto_close(&plan->ruleset);
    plan->ruleset = -1;
    int abi = plan->engine->kernel.landlock_denies ? plan->engine->kernel.landlock_abi : 0;
    struct landlock_wish wish = {.abi = abi,
                                 .carve = !plan->namespaces,
                                 .tcp_only = plan->network == CONFINE_NET_TCP,
                                 .ports = plan->ports,
                                 .n_ports = plan->n_ports};
    if (abi > 0) {
        enum confine_code code = landlock_build(&plan->trees, &wish, &plan->ruleset, err);
        if (code == CONFINE_E_FILES || (code != CONFINE_OK && plan->require)) {
            return code;
        }
        abi = code == CONFINE_OK ? abi : 0;
    }
    plan->report.landlock_abi = abi;
    fill_report(plan);
    return plan_filter(plan->engine, filter_wish(plan), &plan->filter, err);
}

enum confine_code plan_fall_back(struct confine_plan *plan, const char *why,
                                 struct confine_err *err)
{
    if (plan->network == CONFINE_NET_LOOPBACK || !plan->may_fall_back) {
        return util_fail(err, CONFINE_E_ENFORCE, EACCES, "Namespaces were required: %s.", why);
    }
    plan->namespaces = false;
    plan->report.n_lost = 0;
    report_lose(&plan->report, why);
    CONFINE_TRY(table_grant(&plan->trees, NULL, plan->cwd, false, err)); /* /proc of the host */
    trees_seal(&plan->trees);
    if (plan->tmp != NULL && !plan->share_tmp) {
        set_tmp(plan, plan->tmp);
    }
    return arm(plan, err);
}

static enum confine_code choose(struct confine_plan *plan, struct confine_err *err)
{
    if (!plan->namespaces) {
        return arm(plan, err);
    }
    struct confine_err why;
    if (build_place(plan, &why) != CONFINE_OK) {
        if (!plan->may_fall_back) {
            return util_fail(err, CONFINE_E_ENFORCE, EACCES, "%s", why.detail);
        }
        return plan_fall_back(
            plan, "namespaces: no private root can hold what is granted or denied", err);
    }
    if (plan->tmp != NULL && !plan->share_tmp) {
        set_tmp(plan, "/tmp");
    }
    return arm(plan, err);
}

static void copy_settings(struct confine_plan *plan, const struct confine_spec *spec)
{
    memcpy(plan->stdio, spec->stdio, sizeof plan->stdio);
    plan->unix_sockets = spec->allow_unix_sockets;
    plan->leave = spec->allow_leaving_process_group;
    plan->share_tmp = spec->share_system_tmp;
    plan->ptrace = spec->allow_ptrace;
    plan->require = spec->require_enforcement;
    plan->network = spec->network;
    plan->own_session = spec->session == CONFINE_OWN_SESSION;
    plan->may_fall_back = spec->namespaces == CONFINE_NS_AUTO;
    plan->namespaces = spec->namespaces != CONFINE_NS_OFF && plan->engine->kernel.namespaces;
    plan->n_ports = spec->n_tcp_ports;
    plan->ports = util_alloc(spec->n_tcp_ports, sizeof *plan->ports);
    if (spec->n_tcp_ports > 0) {
        memcpy(plan->ports, spec->tcp_ports, spec->n_tcp_ports * sizeof *plan->ports);
    }
    plan->tmp = spec->tmp_dir == NULL ? NULL : util_resolve(spec->tmp_dir);
    plan->cwd = util_resolve(spec->cwd);
    const char *home = spec->home != NULL ? spec->home : plan->engine->home;
    plan->home = home == NULL ? NULL : util_resolve(home);
    if (spec->namespaces == CONFINE_NS_AUTO && !plan->namespaces) {
        report_lose(&plan->report, "namespaces: this kernel or its settings refuse them");
    }
}

static enum confine_code make(struct confine_plan *plan, const struct confine_spec *spec,
                              struct confine_err *err)
{
    copy_settings(plan, spec);
    git_find(&plan->git, plan->cwd);
    CONFINE_TRY(grant_all(plan, spec, err));
    if (spec->protect_git) {
        git_guards(&plan->git, plan->cwd, &plan->guards);
    }
    CONFINE_TRY(deny_all(plan, spec, err));
    if (trees_of(&plan->trees, plan->cwd) == NULL || trees_covered(&plan->trees, plan->cwd)) {
        return util_fail(err, CONFINE_E_SPEC, EACCES,
                         "The working directory is inside nothing that is granted.");
    }
    git_mark_tracked(&plan->git, &plan->trees);
    build_command(plan, spec);
    return choose(plan, err);
}

enum confine_code confine_plan_new(struct confine *engine, const struct confine_spec *spec,
                                   struct confine_plan **ret, struct confine_err *err)
{
    CONFINE_TRY(check_spec(spec, err));
    CONFINE_TRY(check_kernel(&engine->kernel, spec, err));
    struct confine_plan *plan = util_alloc(1, sizeof *plan);
    plan->engine = engine;
    plan->ruleset = -1;
    enum confine_code code = make(plan, spec, err);
    if (code != CONFINE_OK) {
        confine_plan_free(plan);
        return code;
    }
    *ret = plan;
    return CONFINE_OK;
}

void confine_plan_free(struct confine_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    trees_fini(&plan->trees);
    git_fini(&plan->git);
    util_strs_fini(&plan->guards);
    place_fini(&plan->place);
    util_strs_fini(&plan->argv);
    util_strs_fini(&plan->env);
    util_strs_fini(&plan->programs);
    util_auto_close(&plan->ruleset);
    free(plan->cwd);
    free(plan->home);
    free(plan->tmp);
    free(plan->ports);
    free(plan);
}

const struct confine_report *confine_plan_report(const struct confine_plan *plan)
{
    return &plan->report;
}
