#include "environ.h"

#include <string.h>

/* Taken over from the parent where it has them. */
static const char *const base[] = {
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "TZ",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "COLUMNS",
    "LINES",
    "SOURCE_DATE_EPOCH",
    /* where version managers put their toolchains */
    "CARGO_HOME",
    "RUSTUP_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "JAVA_HOME",
    "GOROOT",
    "GOPATH",
    "VOLTA_HOME",
};

/* The way to a service of the session: never, even when the caller set them. */
static const char *const session[] = {
    "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",           "WAYLAND_DISPLAY", "DISPLAY"};

static const char *const caches[] = {"XDG_CACHE_HOME", "GOCACHE", "CCACHE_DIR", "npm_config_cache",
                                     "PIP_CACHE_DIR"};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static size_t name_len(const char *entry)
{
    return strcspn(entry, "=");
}

const char *environ_get(const char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; env != NULL && env[i] != NULL; i++) {
        if (strncmp(env[i], name, n) == 0 && env[i][n] == '=') {
            return env[i] + n + 1;
        }
    }
    return NULL;
}

static bool is_listed(const char *const *list, size_t n, const char *entry)
{
    for (size_t i = 0; i < n; i++) {
        if (strlen(list[i]) == name_len(entry) && strncmp(list[i], entry, name_len(entry)) == 0) {
            return true;
        }
    }
    return false;
}

static void set(struct util_strs *env, char *entry)
{
    for (size_t i = 0; i < env->n; i++) {
        if (name_len(env->all[i]) == name_len(entry) &&
            strncmp(env->all[i], entry, name_len(entry)) == 0) {
            free(env->all[i]);
            env->all[i] = entry;
            return;
        }
    }
    util_strs_take(env, entry);
}

static void set_pair(struct util_strs *env, const char *name, const char *value)
{
    if (value != NULL) {
        set(env, util_format("%s=%s", name, value));
    }
}

static bool is_base(const char *entry)
{
    return is_listed(base, COUNT(base), entry) || strncmp(entry, "LC_", 3) == 0;
}

/* What the parent has and the command may know. */
static void take_parent(const struct environ_wish *wish, struct util_strs *env)
{
    bool all = wish->spec->inherit_env;
    for (size_t i = 0; wish->parent != NULL && wish->parent[i] != NULL; i++) {
        const char *entry = wish->parent[i];
        bool scrubbed = is_listed(session, COUNT(session), entry) ||
                        strncmp(entry, "GATEHOUSE_", 10) == 0 || entry[name_len(entry)] == '\0';
        if (!scrubbed && (all || is_base(entry))) {
            set(env, util_dup(entry));
        }
    }
}

static void take_request(const struct confine_spec *spec, struct util_strs *env)
{
    for (size_t i = 0; spec->env != NULL && spec->env[i] != NULL; i++) {
        const char *entry = spec->env[i];
        if (name_len(entry) == 0 || entry[name_len(entry)] == '\0' ||
            is_listed(session, COUNT(session), entry) ||
            (strncmp(entry, "GATEHOUSE_", 10) == 0 && !spec->pass_gatehouse)) {
            continue;
        }
        set(env, util_dup(entry));
    }
}

/* With unix sockets allowed on purpose the session is handed back: the caller's value wins, else
 * the parent's; an unset one is not invented. */
static void hand_back(const struct environ_wish *wish, struct util_strs *env)
{
    for (size_t i = 0; i < COUNT(session); i++) {
        const char *value = environ_get(wish->spec->env, session[i]);
        set_pair(env, session[i], value != NULL ? value : environ_get(wish->parent, session[i]));
    }
}

void environ_build(const struct environ_wish *wish, struct util_strs *env)
{
    set_pair(env, "PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin");
    set_pair(env, "LANG", "C.UTF-8");
    set_pair(env, "TERM", "dumb");
    take_parent(wish, env);
    set_pair(env, "HOME", wish->home);
    for (size_t i = 0; wish->spec->cache_dir != NULL && i < COUNT(caches); i++) {
        set_pair(env, caches[i], wish->spec->cache_dir);
    }
    if (wish->spec->network == CONFINE_NET_TCP) {
        set_pair(env, "RES_OPTIONS", "use-vc");
    }
    take_request(wish->spec, env);
    if (wish->spec->allow_unix_sockets == CONFINE_YES) {
        hand_back(wish, env);
    }
    /* ours, last: the folder that exists and is writable */
    for (size_t i = 0; i < env->n; i++) {
        if (strncmp(env->all[i], "TMPDIR=", 7) == 0 && !wish->spec->share_system_tmp) {
            free(env->all[i]);
            env->all[i] = env->all[--env->n];
            env->all[env->n] = NULL;
        }
    }
    if (!wish->spec->share_system_tmp ||
        environ_get((const char *const *)env->all, "TMPDIR") == NULL) {
        set_pair(env, "TMPDIR", wish->tmp);
    }
}
