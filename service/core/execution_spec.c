#include "core/execution_spec.h"

#include <ctype.h>
#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fs.h"

/* ---- lists ---- */

/* `text` is taken. */
static void words_take(struct words *words, char *text)
{
    if (words->n + 2 > words->room) {
        size_t room = words->room == 0 ? 16 : words->room * 2;
        char **grown = realloc(words->all, room * sizeof *grown);
        words->all = grown != NULL ? grown : words->all;
        words->room = grown != NULL ? room : words->room;
    }
    if (text == NULL || words->n + 2 > words->room) {
        free(text);
        words->failed = true;
        return;
    }
    words->all[words->n++] = text;
    words->all[words->n] = NULL;
}

static void words_add(struct words *words, const char *text)
{
    words_take(words, strdup(text));
}

static void words_fini(struct words *words)
{
    for (size_t i = 0; i < words->n; i++) {
        free(words->all[i]);
    }
    free(words->all);
}

void execution_spec_fini(struct execution_spec *spec)
{
    place_unref(spec->place);
    words_fini(&spec->argv);
    words_fini(&spec->env);
    words_fini(&spec->roots);
    words_fini(&spec->denied);
    words_fini(&spec->names);
    free(spec->run_names);
    free(spec->ports);
    free(spec->cache_dir);
}

/* ---- what is denied ---- */

static void add_name(struct execution_spec *spec, char *glob, bool is_key_files)
{
    struct run_name *grown =
        realloc(spec->run_names, (spec->names.n + 1) * sizeof *spec->run_names);
    if (grown == NULL || glob == NULL) {
        free(glob);
        spec->names.failed = true;
        spec->run_names = grown != NULL ? grown : spec->run_names;
        return;
    }
    spec->run_names = grown;
    grown[spec->names.n] = (struct run_name){glob, is_key_files};
    words_take(&spec->names, glob);
}

/* The confiner compares bytes, so a name that counts in either case is given in both. */
static void add_folded(struct execution_spec *spec, const struct gate_denial *denial)
{
    char *upper = strdup(denial->name);
    for (char *at = upper; at != NULL && *at != '\0'; at++) {
        *at = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    }
    if (upper != NULL && strcmp(upper, denial->name) == 0) {
        free(upper);
        return;
    }
    add_name(spec, upper, denial->is_key_files);
}

/* Names that count in one folder become the paths that are there. */
static void add_in_folder(struct execution_spec *spec, const struct gate_denial *denial)
{
    DIR *dir = opendir(denial->dir);
    if (dir == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (fnmatch(denial->name, entry->d_name, 0) == 0) {
            char *path = NULL;
            words_take(&spec->denied,
                       asprintf(&path, "%s/%s", denial->dir, entry->d_name) < 0 ? NULL : path);
        }
    }
    closedir(dir);
}

static void add_denial(const struct gate_denial *denial, void *cookie)
{
    struct execution_spec *spec = cookie;
    if (denial->path != NULL) {
        words_add(&spec->denied, denial->path);
    } else if (denial->dir != NULL) {
        add_in_folder(spec, denial);
    } else {
        add_name(spec, strdup(denial->name), denial->is_key_files);
        if (denial->is_folded) {
            add_folded(spec, denial);
        }
    }
}

/* ---- what it is to run ---- */

static void add_variable(const char *key, const struct json_t *value, void *cookie)
{
    char *text = NULL;
    words_take(cookie, asprintf(&text, "%s=%s", key, gh_json_text(value)) < 0 ? NULL : text);
}

static bool is_command(const struct config_command *command, const struct gate_target *target)
{
    size_t n = 0;
    if (strcmp(command->program, target->program) != 0) {
        return false;
    }
    for (; command->args[n] != NULL; n++) {
        if (n >= target->n_args || strcmp(command->args[n], target->args[n]) != 0) {
            return false;
        }
    }
    return n == target->n_args;
}

/* A configured command brings its own time and environment. */
static const struct config_command *find_command(const struct config *config,
                                                 const struct gate_target *target)
{
    for (size_t i = 0; i < config->permissions.n_allowed_commands; i++) {
        if (is_command(&config->permissions.allowed_commands[i], target)) {
            return &config->permissions.allowed_commands[i];
        }
    }
    return NULL;
}

static void fill_command(const struct execution *execution, const struct call *call,
                         const struct config *config, struct execution_spec *ret)
{
    const struct gate_target *target = &call->parts[0].target;
    const struct config_command *command = find_command(config, target);
    const struct json_t *env = gh_json_get(call->execution, "env");
    words_add(&ret->argv, target->program);
    for (size_t i = 0; i < target->n_args; i++) {
        words_add(&ret->argv, target->args[i]);
    }
    for (size_t i = 0; command != NULL && command->env[i] != NULL; i++) {
        words_add(&ret->env, command->env[i]);
    }
    if (env != NULL) {
        gh_json_each(env, add_variable, &ret->env);
    }
    int64_t configured_ms =
        (command != NULL ? command->timeout_secs : config->exec.timeout_s) * 1000;
    ret->run.timeout_ms = execution->timeout_ms > 0 ? execution->timeout_ms : configured_ms;
    ret->run.input = gh_json_text(gh_json_get(call->execution, "stdin"));
    ret->run.input_len = ret->run.input != NULL ? strlen(ret->run.input) : 0;
    ret->run.is_interactive = call->is_interactive;
}

/* ---- what the configuration says ---- */

static enum run_network network_of(const char *word)
{
    for (int i = RUN_NET_OPEN; i <= RUN_NET_NONE && word != NULL; i++) {
        if (strcmp(word, execution_network_name((enum run_network)i)) == 0) {
            return (enum run_network)i;
        }
    }
    return word == NULL ? RUN_NET_OPEN : RUN_NET_NONE;
}

static enum run_opt_in opt_in(enum config_optin value)
{
    static const enum run_opt_in values[] = {
        [CONFIG_NO] = RUN_NO, [CONFIG_YES] = RUN_YES, [CONFIG_CONTAINED] = RUN_CONTAINED};
    return values[value];
}

static enum run_namespaces namespaces_of(const char *word)
{
    return strcmp(word, "off") == 0       ? RUN_NS_OFF
           : strcmp(word, "require") == 0 ? RUN_NS_REQUIRE
                                          : RUN_NS_AUTO;
}

/* A request may tighten the network, never loosen it. */
static bool fill_policy(const struct call *call, const struct config *config,
                        struct execution_spec *ret)
{
    enum run_network asked = network_of(gh_json_text(gh_json_get(call->execution, "network")));
    struct run_spec *run = &ret->run;
    run->network = network_of(config->sandbox.network);
    run->network = asked > run->network ? asked : run->network;
    run->unix_sockets = opt_in(config->sandbox.allow_unix_sockets);
    run->leaving_group = opt_in(config->sandbox.allow_leaving_process_group);
    run->share_system_tmp = config->sandbox.share_system_tmp;
    run->protect_git = config->sandbox.protect_git;
    run->require_enforcement = config->sandbox.require_enforcement;
    run->namespaces = namespaces_of(config->sandbox.namespaces);
    run->read_roots = (const char *const *)config->sandbox.extra_read_paths;
    run->tail_bytes = (size_t)config->limits.output_kib << 10;
    run->n_tcp_ports = config->sandbox.n_tcp_ports;
    ret->ports = calloc(run->n_tcp_ports + 1, sizeof *ret->ports);
    for (size_t i = 0; ret->ports != NULL && i < run->n_tcp_ports; i++) {
        ret->ports[i] = (uint16_t)config->sandbox.tcp_ports[i];
    }
    run->tcp_ports = ret->ports;
    return ret->ports != NULL;
}

/* One folder a project, named by what it belongs to; without one, tools go without a cache. */
static void fill_cache(const struct place *place, struct execution_spec *ret)
{
    unsigned char digest[GH_SHA256];
    char hex[GH_HEX];
    struct gh_err err;
    gh_autoclose int fd = -1;
    gh_id_sha256(place->working_dir, strlen(place->working_dir), digest);
    gh_id_hex(digest, hex);
    if (place->home == NULL ||
        asprintf(&ret->cache_dir, "%s/.cache/gatehouse/projects/%.16s", place->home, hex) < 0) {
        ret->cache_dir = NULL;
        return;
    }
    if (gh_fs_private_dir(ret->cache_dir, &fd, &err) != GH_OK) {
        free(gh_steal(&ret->cache_dir));
    }
    ret->run.cache_dir = ret->cache_dir;
}

enum gh_code execution_spec_make(const struct execution *execution, const struct call *call,
                                 struct place *place, const struct judged_part *judged,
                                 struct execution_spec *ret, struct gh_err *err)
{
    const struct config *config = place->policy->config;
    *ret = (struct execution_spec){.place = place_ref(place)};
    fill_command(execution, call, config, ret);
    words_add(&ret->roots, place->working_dir);
    gate_rules_denials(place->rules, add_denial, ret);
    bool is_filled = fill_policy(call, config, ret);
    fill_cache(place, ret);
    if (!is_filled || ret->argv.failed || ret->env.failed || ret->roots.failed ||
        ret->denied.failed || ret->names.failed) {
        execution_spec_fini(ret);
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the command.");
    }
    ret->run.argv = (const char *const *)ret->argv.all;
    ret->run.env = (const char *const *)ret->env.all;
    ret->run.write_roots = (const char *const *)ret->roots.all;
    ret->run.deny_paths = (const char *const *)ret->denied.all;
    ret->run.deny_names = ret->run_names;
    ret->run.n_deny_names = ret->names.n;
    ret->run.cwd = judged->facts.cwd;
    ret->run.home = place->home;
    return GH_OK;
}
