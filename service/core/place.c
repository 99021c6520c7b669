#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "core/state.h"

struct policy *policy_ref(struct policy *policy)
{
    atomic_fetch_add(&policy->refs, 1);
    return policy;
}

void policy_unref(struct policy *policy)
{
    if (policy == NULL || atomic_fetch_sub(&policy->refs, 1) > 1) {
        return;
    }
    gate_rules_free(policy->rules);
    config_free(policy->config);
    free(policy);
}

struct place *place_ref(struct place *place)
{
    atomic_fetch_add(&place->refs, 1);
    return place;
}

void place_unref(struct place *place)
{
    if (place == NULL || atomic_fetch_sub(&place->refs, 1) > 1) {
        return;
    }
    gate_rules_free(place->rules);
    gitmeta_dirs_fini(&place->git);
    free(place->working_dir);
    free(place->home);
    policy_unref(place->policy);
    free(place);
}

void place_unrefp(struct place **place)
{
    place_unref(*place);
    *place = NULL;
}

const struct gitmeta_dirs *place_git(const struct place *place, struct gitmeta_dirs *fresh)
{
    struct gh_err err;
    if (gitmeta_is_fresh(&place->git)) {
        return &place->git;
    }
    return gitmeta_find(place->working_dir, place->home, fresh, &err) == GH_OK ? fresh : NULL;
}

/* ---- the working directory ---- */

/* Folders nobody works in, and those below which nobody does. */
static const char *const refused_exact[] = {"/",        "/home", "/usr",    "/usr/local", "/opt",
                                            "/srv",     "/mnt",  "/media",  "/var",       "/tmp",
                                            "/var/tmp", "/run",  "/dev/shm"};
static const char *const refused_below[] = {
    "/bin",  "/sbin", "/lib",     "/lib64",    "/boot",    "/dev",      "/etc",
    "/proc", "/sys",  "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/share"};

static bool is_system(const char *dir)
{
    for (size_t i = 0; i < sizeof refused_exact / sizeof refused_exact[0]; i++) {
        if (strcmp(dir, refused_exact[i]) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof refused_below / sizeof refused_below[0]; i++) {
        if (gate_path_within(dir, refused_below[i])) {
            return true;
        }
    }
    return false;
}

static bool is_temp_root(const char *dir)
{
    const char *temp = getenv("TMPDIR");
    char real[PATH_MAX];
    return temp != NULL && realpath(temp, real) != NULL && strcmp(real, dir) == 0;
}

static bool is_listed(const struct config *config, const char *dir)
{
    for (size_t i = 0; config->sessions.allow_wide[i] != NULL; i++) {
        char real[PATH_MAX];
        if (realpath(config->sessions.allow_wide[i], real) != NULL && strcmp(real, dir) == 0) {
            return true;
        }
    }
    return false;
}

static enum gh_code refuse(struct gh_err *err, const char *why)
{
    return gh_fail_at(err, GH_WORKING_DIR, "/working_dir", "%s", why);
}

/* Contract 3: too wide, or secret, or not there. `dir` is canonical. */
static enum gh_code check_dir(const struct core *core, const struct policy *policy, const char *dir,
                              struct gh_err *err)
{
    char home[PATH_MAX];
    struct stat st;
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return refuse(err, "The working directory is not a folder.");
    }
    if (gate_rules_denies(policy->rules, dir) != NULL) {
        return refuse(err, "The working directory lies at or below a denied path.");
    }
    if (is_listed(policy->config, dir)) {
        return GH_OK;
    }
    bool has_home = core->options.home != NULL && realpath(core->options.home, home) != NULL;
    if (is_system(dir) || is_temp_root(dir) || (has_home && gate_path_within(home, dir))) {
        return refuse(
            err, "The working directory is too wide (a system folder, the temporary folder, the "
                 "home folder or above). Open the session in the project's own folder, or list "
                 "this exact path in sessions.allow_wide.");
    }
    return GH_OK;
}

static enum gh_code fill_place(struct core *core, struct place *place, const char *dir,
                               const char *const *entries, size_t n_entries, struct gh_err *err)
{
    char real[PATH_MAX];
    if (dir[0] != '/') {
        return refuse(err, "The working directory must be an absolute path.");
    }
    if (realpath(dir, real) == NULL) {
        return refuse(err, "The working directory does not exist or cannot be reached.");
    }
    GH_TRY(check_dir(core, place->policy, real, err));
    place->working_dir = strdup(real);
    place->home = core->options.home != NULL ? strdup(core->options.home) : NULL;
    if (place->working_dir == NULL || (core->options.home != NULL && place->home == NULL)) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the session.");
    }
    enum gh_code code =
        gate_rules_extend(place->policy->rules, real, entries, n_entries, &place->rules, err);
    if (code == GH_INVALID) {
        char pointer[sizeof err->pointer];
        snprintf(pointer, sizeof pointer, "/deny_paths%.100s", err->pointer);
        memcpy(err->pointer, pointer, sizeof pointer);
    }
    GH_TRY(code);
    return gitmeta_find(real, place->home, &place->git, err);
}

enum gh_code place_new(struct core *core, struct policy *policy, const char *working_dir,
                       const char *const *entries, size_t n_entries, struct place **ret,
                       struct gh_err *err)
{
    gh_auto(place_unrefp) struct place *place = calloc(1, sizeof *place);
    if (place == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the session.");
    }
    atomic_init(&place->refs, 1);
    place->policy = policy_ref(policy);
    GH_TRY(fill_place(core, place, working_dir, entries, n_entries, err));
    *ret = gh_steal(&place);
    return GH_OK;
}
