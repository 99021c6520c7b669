/* The engine: what the kernel can do is asked by doing it, in a child. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "landlock.h"
#include "plan.h"
#include "table.h"

/* Under an empty ruleset no folder opens; a kernel that says "supported" and lets it is not
 * believed. */
static bool landlock_denies(int abi)
{
    struct landlock_rules rules = {.fs = landlock_all(abi)};
    confine_autoclose int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, 8, 0);
    pid_t pid = fd < 0 ? -1 : vfork();
    if (pid == 0) {
        bool denied = KERNEL_5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                      KERNEL_2(SYS_landlock_restrict_self, fd, 0) == 0 &&
                      KERNEL_4(SYS_openat, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0) == -EACCES;
        KERNEL_1(SYS_exit_group, denied ? 0 : 1);
    }
    int status = 1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* A private root in which a masked file and a pinned folder are tried; see child.c. */
static enum confine_code try_namespaces(struct confine *engine, const char *dir,
                                        struct confine_err *err)
{
    confine_autofree char *up = util_format("%s/up", dir);
    confine_autofree char *file = util_format("%s/up/file", dir);
    int fd = mkdir(up, 0700) != 0 ? -1 : open(file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) {
        return util_fail(err, CONFINE_E_SYSTEM, errno, "No folder to try namespaces in.");
    }
    close(fd);
    const char *const argv[] = {"/bin/true", NULL}, *const roots[] = {dir, NULL},
                      *const denied[] = {file, NULL};
    struct confine_spec spec;
    confine_spec_init(&spec);
    spec.argv = argv;
    spec.cwd = dir;
    spec.write_roots = roots;
    spec.deny_paths = denied;
    spec.namespaces = CONFINE_NS_REQUIRE;
    struct confine_plan *plan = NULL;
    CONFINE_TRY(confine_plan_new(engine, &spec, &plan, err));
    plan->probe = true;
    struct confine_child child;
    struct confine_result result = {.status = 1};
    enum confine_code code = confine_spawn(plan, &child, err);
    if (code == CONFINE_OK) {
        code = confine_wait(&child, -1, &result, err);
        confine_child_fini(&child);
    }
    confine_plan_free(plan);
    if (code == CONFINE_OK && result.status != 0) {
        return util_fail(err, CONFINE_E_APPLY, 0, "What had to be refused in a namespace was not.");
    }
    return code;
}

static void ask_namespaces(struct confine *engine)
{
    struct confine_kernel *kernel = &engine->kernel;
    struct confine_err err = {0};
    char *dir = NULL;
    kernel->namespaces = kernel->shadow_pins = true;
    enum confine_code code = confine_tmp_new(&dir, &err);
    if (code == CONFINE_OK) {
        code = try_namespaces(engine, dir, &err);
        confine_tmp_remove(dir);
        free(dir);
    }
    if (code != CONFINE_OK) {
        kernel->namespaces = kernel->shadow_pins = false;
        snprintf(kernel->why, sizeof kernel->why, "%s", err.detail);
    }
}

enum confine_code confine_new(struct confine **ret, struct confine_err *err)
{
    struct confine *engine = util_alloc(1, sizeof *engine);
    pthread_mutex_init(&engine->lock, NULL);
    engine->cache = scan_cache_new();
    struct confine_kernel *kernel = &engine->kernel;
    kernel->landlock_abi = landlock_abi();
    kernel->landlock_denies = kernel->landlock_abi > 0 && landlock_denies(kernel->landlock_abi);
    const struct passwd *user = getpwuid(geteuid()); /* here, as it is not for threads */
    engine->home = user == NULL ? NULL : util_dup(user->pw_dir);
    struct sock_fprog filter;
    enum confine_code code = table_system(&engine->system, err);
    if (code == CONFINE_OK) {
        code = plan_filter(engine, 0, &filter, err);
    }
    if (code != CONFINE_OK) {
        confine_free(engine);
        return code;
    }
    kernel->seccomp = filter_works(&filter);
    if (kernel->seccomp && kernel->landlock_denies) {
        ask_namespaces(engine);
    } else {
        snprintf(kernel->why, sizeof kernel->why, "There are no namespaces without Landlock.");
    }
    *ret = engine;
    return CONFINE_OK;
}

void confine_free(struct confine *engine)
{
    if (engine == NULL) {
        return;
    }
    for (size_t i = 0; i < FILTER_N; i++) {
        free(engine->filters[i].filter);
    }
    scan_cache_free(engine->cache);
    trees_fini(&engine->system);
    free(engine->home);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
}

const struct confine_kernel *confine_kernel(const struct confine *engine)
{
    return &engine->kernel;
}

/* ---- temporary folders ---- */

enum confine_code confine_tmp_new(char **ret, struct confine_err *err)
{
    char *path = util_dup("/tmp/gatehouse-XXXXXX");
    if (mkdtemp(path) == NULL) {
        int e = errno;
        free(path);
        return util_fail(err, CONFINE_E_SYSTEM, e, "No private temporary folder: %s.", strerror(e));
    }
    *ret = path;
    return CONFINE_OK;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)at;
    if (kind == FTW_DNR && chmod(path, 0700) != 0) {
        return 0;
    }
    if (kind == FTW_DP || kind == FTW_D || kind == FTW_DNR) {
        rmdir(path);
    } else {
        unlink(path);
    }
    return 0;
}

void confine_tmp_remove(const char *path)
{
    nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
