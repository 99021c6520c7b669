/* rules_names: names that are guarded without being on the deny list. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/buf.h"
#include "gate/glob.h"
#include "gate/path.h"
#include "gate/rules_impl.h"

/* An agent's file below any directory: "first/rest", where `rest` may hold one pattern component;
 * `is_tree` takes in all that lies below. */
struct agent_name {
    const char *first;
    const char *rest; /* NULL: `first` itself */
    bool is_tree;
};

static const struct agent_name agent_names[] = {
    {".claude", "settings.json", false},
    {".claude", "settings.local.json", false},
    {".claude", "hooks", true},
    {".claude", "agents", true},
    {".claude", "skills", true},
    {".claude", "commands", true},
    {".claude", "plugins", true},
    {".mcp.json", NULL, false},
    {".codex", "config.toml", false},
    {".codex", "hooks.json", false},
    {".gemini", "settings.json", false},
    {".gemini", "policies", true},
    {".qwen", "settings.json", false},
    {".github", "hooks", true},
    {".github", "copilot/settings*.json", false},
    {".cursor", "hooks.json", false},
    {".cursor", "mcp.json", false},
    {".clinerules", "hooks", true},
    {"crush.json", NULL, false},
    {".crush.json", NULL, false},
    {"opencode.json", NULL, false},
    {"opencode.jsonc", NULL, false},
    {".opencode", NULL, true},
    {".agents", "plugins", true},
    {".vscode", "settings.json", false},
    {".amp", "settings.json", false},
    {".gatehouse.yaml", NULL, false},
    {".gatehouse.yml", NULL, false},
    {"gatehouse.yaml", NULL, false},
    {"gatehouse.yml", NULL, false},
    {".gatehouse", NULL, true},
};

/* Whole folders below the home: settings, hooks and what agents trust. */
static const char *const agent_home[] = {".claude", ".claude.json", ".codex",    ".gemini",
                                         ".qwen",   ".copilot",     ".cursor",   ".cline",
                                         ".agents", ".amp",         ".opencode", "Documents/Cline"};
static const char *const agent_config[] = {"opencode", "amp", "goose", "crush"};

struct later {
    const char *path;
    const char *reason;
};

#define EVERY_SHELL "It runs with every shell that is opened."
#define AT_LOGIN "It runs at every login."
#define AS_SERVICE "It is started as a background service."
#define ON_SCHEDULE "It runs on a schedule."
#define IN_EDITOR "An editor runs commands from it."
#define ON_ENTER "It runs when somebody enters the folder."
#define WITH_GIT "It runs with git commands."

static const struct later home_later[] = {
    {".bashrc", EVERY_SHELL},       {".bash_aliases", EVERY_SHELL},
    {".zshrc", EVERY_SHELL},        {".zshenv", EVERY_SHELL},
    {".inputrc", EVERY_SHELL},      {".bash_profile", AT_LOGIN},
    {".bash_login", AT_LOGIN},      {".bash_logout", AT_LOGIN},
    {".profile", AT_LOGIN},         {".zprofile", AT_LOGIN},
    {".zlogin", AT_LOGIN},          {".zlogout", AT_LOGIN},
    {".xprofile", AT_LOGIN},        {".xinitrc", AT_LOGIN},
    {".xsession", AT_LOGIN},        {".xsessionrc", AT_LOGIN},
    {".pam_environment", AT_LOGIN}, {".ssh/rc", AT_LOGIN},
    {".vimrc", IN_EDITOR},          {".emacs", IN_EDITOR},
    {".emacs.d", IN_EDITOR},        {".local/share/systemd/user", AS_SERVICE},
};

/* Below ~/.config and below $XDG_CONFIG_HOME. */
static const struct later config_later[] = {
    {"fish/config.fish", EVERY_SHELL}, {"fish/conf.d", EVERY_SHELL},
    {"fish/functions", EVERY_SHELL},   {"autostart", AT_LOGIN},
    {"environment.d", AT_LOGIN},       {"plasma-workspace/env", AT_LOGIN},
    {"systemd/user", AS_SERVICE},      {"nvim", IN_EDITOR},
};

static const struct later system_later[] = {
    {"/etc/profile", EVERY_SHELL},       {"/etc/profile.d", EVERY_SHELL},
    {"/etc/bash.bashrc", EVERY_SHELL},   {"/etc/zsh", EVERY_SHELL},
    {"/etc/environment", AT_LOGIN},      {"/etc/xdg/autostart", AT_LOGIN},
    {"/etc/systemd/system", AS_SERVICE}, {"/etc/systemd/user", AS_SERVICE},
    {"/etc/rc.local", AS_SERVICE},       {"/etc/crontab", ON_SCHEDULE},
    {"/etc/cron.d", ON_SCHEDULE},        {"/etc/cron.hourly", ON_SCHEDULE},
    {"/etc/cron.daily", ON_SCHEDULE},    {"/etc/cron.weekly", ON_SCHEDULE},
    {"/etc/cron.monthly", ON_SCHEDULE},  {"/var/spool/cron", ON_SCHEDULE},
    {"/etc/ld.so.preload", AS_SERVICE},
};

/* Anywhere, by the last components. */
static const struct later project_later[] = {
    {".envrc", ON_ENTER},
    {".vscode/tasks.json", IN_EDITOR},
    {".vscode/launch.json", IN_EDITOR},
    {".idea/runConfigurations", IN_EDITOR},
    {".zed/tasks.json", IN_EDITOR},
    {".exrc", IN_EDITOR},
    {".nvim.lua", IN_EDITOR},
    {".husky", WITH_GIT},
    {".pre-commit-config.yaml", WITH_GIT},
    {"lefthook.yml", WITH_GIT},
    {".lefthook.yml", WITH_GIT},
    {".lefthook", WITH_GIT},
};

static enum gh_code no_memory(struct gh_err *err)
{
    return gh_fail(err, GH_NOMEM, "There is not enough memory for the guarded names.");
}

static enum gh_code add_place(struct rule_places *places, const char *path, const char *reason,
                              struct gh_err *err)
{
    struct rule_place *grown = reallocarray(places->at, places->n + 1, sizeof *grown);
    if (grown == NULL) {
        return no_memory(err);
    }
    places->at = grown;
    grown[places->n] = (struct rule_place){strdup(path), strlen(path), reason};
    return grown[places->n++].path != NULL ? GH_OK : no_memory(err);
}

/* Guard `base`/`name` as it is spelled and where its links lead today. */
static enum gh_code guard(struct rule_places *places, const char *base, const struct later *name,
                          struct gh_err *err)
{
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_auto(gate_path_fini) struct gate_path real = {0};
    gh_buf_printf(&path, "%s%s%s", base, *base != '\0' ? "/" : "", name->path);
    if (path.failed) {
        return no_memory(err);
    }
    GH_TRY(add_place(places, gh_buf_str(&path), name->reason, err));
    enum gh_code code = gate_path_resolve(gh_buf_str(&path), "/", NULL, &real, err);
    if (code != GH_OK) {
        return code == GH_INVALID ? GH_OK : code; /* links that lead nowhere: the spelling counts */
    }
    const char *const at[] = {real.kernel, real.lexical, real.leaf, real.lexical_leaf};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        if (at[i] != NULL && strcmp(at[i], gh_buf_str(&path)) != 0) {
            GH_TRY(add_place(places, at[i], name->reason, err));
        }
    }
    return GH_OK;
}

static enum gh_code guard_list(struct rule_places *places, const char *base,
                               const struct later *names, size_t n, struct gh_err *err)
{
    for (size_t i = 0; i < n; i++) {
        GH_TRY(guard(places, base, &names[i], err));
    }
    return GH_OK;
}

static enum gh_code guard_agents(struct rule_places *places, const char *base,
                                 const char *const *names, size_t n, struct gh_err *err)
{
    for (size_t i = 0; i < n; i++) {
        struct later name = {names[i], NULL};
        GH_TRY(guard(places, base, &name, err));
    }
    return GH_OK;
}

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* A configuration folder: ~/.config and, when it is another one, $XDG_CONFIG_HOME. Both count
 * always, although a program reads only one. */
static enum gh_code fill_config(struct gate_rules *rules, const char *config, struct gh_err *err)
{
    const struct later git = {"git", NULL};
    GH_TRY(guard(&rules->git, config, &git, err));
    const struct later git_file = {"git/config", NULL};
    GH_TRY(guard(&rules->git, config, &git_file, err));
    GH_TRY(guard_list(&rules->later, config, config_later, COUNT(config_later), err));
    return guard_agents(&rules->agent, config, agent_config, COUNT(agent_config), err);
}

static enum gh_code fill_home(struct gate_rules *rules, const char *home, struct gh_err *err)
{
    const struct later git = {".gitconfig", NULL};
    GH_TRY(guard(&rules->git, home, &git, err));
    GH_TRY(guard_list(&rules->later, home, home_later, COUNT(home_later), err));
    GH_TRY(guard_agents(&rules->agent, home, agent_home, COUNT(agent_home), err));
    gh_auto(gh_buf_fini) struct gh_buf config = GH_BUF_INIT;
    gh_buf_printf(&config, "%s/.config", home);
    return config.failed ? no_memory(err) : fill_config(rules, gh_buf_str(&config), err);
}

enum gh_code rule_places_fill(struct gate_rules *rules, const struct gate_rules_input *input,
                              struct gh_err *err)
{
    if (input->home != NULL) {
        rules->home = strdup(input->home);
        GH_TRY(rules->home != NULL ? fill_home(rules, input->home, err) : no_memory(err));
    }
    if (input->other_home != NULL) {
        GH_TRY(fill_home(rules, input->other_home, err));
    }
    if (input->xdg_config_home != NULL && input->xdg_config_home[0] == '/') {
        GH_TRY(fill_config(rules, input->xdg_config_home, err));
    }
    const char *global = input->git_config_global;
    if (global != NULL && global[0] == '/' && strcmp(global, "/dev/null") != 0) {
        const struct later name = {global, NULL};
        GH_TRY(guard(&rules->git, "", &name, err));
    }
    const struct later git = {"/etc/gitconfig", NULL};
    GH_TRY(guard(&rules->git, "", &git, err));
    return guard_list(&rules->later, "", system_later, COUNT(system_later), err);
}

static enum gh_code copy_places(struct rule_places *to, const struct rule_places *from,
                                struct gh_err *err)
{
    for (size_t i = 0; i < from->n; i++) {
        GH_TRY(add_place(to, from->at[i].path, from->at[i].reason, err));
    }
    return GH_OK;
}

/* Dotfiles become links while the service runs: where they lead is looked at for each session. */
static enum gh_code guard_again(struct rule_places *to, const struct rule_places *from,
                                struct gh_err *err)
{
    for (size_t i = 0; i < from->n; i++) {
        const struct later name = {from->at[i].path, from->at[i].reason};
        GH_TRY(guard(to, "", &name, err));
    }
    return GH_OK;
}

enum gh_code rule_places_copy(struct gate_rules *rules, const struct gate_rules *from,
                              struct gh_err *err)
{
    if (from->home != NULL) {
        rules->home = strdup(from->home);
        GH_TRY(rules->home != NULL ? GH_OK : no_memory(err));
    }
    GH_TRY(guard_again(&rules->git, &from->git, err));
    GH_TRY(guard_again(&rules->later, &from->later, err));
    return copy_places(&rules->agent, &from->agent, err);
}

static void free_places(struct rule_places *places)
{
    for (size_t i = 0; i < places->n; i++) {
        free(places->at[i].path);
    }
    free(places->at);
}

void rule_places_free(struct gate_rules *rules)
{
    free_places(&rules->git);
    free_places(&rules->later);
    free_places(&rules->agent);
    free(rules->home);
}

/* The first place at or above `path`, or NULL. Case is folded: on some file systems it does not
 * count, and names that differ in nothing else are not worth the difference. */
static const struct rule_place *find_place(const struct rule_places *places, const char *path)
{
    size_t path_len = strlen(path);
    for (size_t i = 0; i < places->n; i++) {
        size_t len = places->at[i].len;
        if (len <= path_len && (path[len] == '\0' || path[len] == '/') &&
            strncasecmp(path, places->at[i].path, len) == 0) {
            return &places->at[i];
        }
    }
    return NULL;
}

bool gate_rules_is_global_git(const struct gate_rules *rules, const char *path)
{
    return find_place(&rules->git, path) != NULL;
}

/* The components of `tail` stand in `path` from a component's start on, and end there or at a
 * component's end. */
static bool has_tail(const char *at, const char *tail, bool is_tree)
{
    size_t len = strlen(tail);
    return strncasecmp(at, tail, len) == 0 && (at[len] == '\0' || (is_tree && at[len] == '/'));
}

const char *gate_rules_runs_later(const struct gate_rules *rules, const char *path)
{
    const struct rule_place *place = find_place(&rules->later, path);
    if (place != NULL) {
        return place->reason;
    }
    for (const char *at = strchr(path, '/'); at != NULL; at = strchr(at + 1, '/')) {
        bool may_be = strchr(".lL", at[1]) != NULL;
        for (size_t i = 0; may_be && i < COUNT(project_later); i++) {
            if (has_tail(at + 1, project_later[i].path, true)) {
                return project_later[i].reason;
            }
        }
    }
    return NULL;
}

static bool is_agent_name(const char *at, const struct agent_name *name)
{
    bool may_be = rule_fold((unsigned char)at[0]) == (unsigned char)name->first[0] &&
                  rule_fold((unsigned char)at[1]) == (unsigned char)name->first[1];
    size_t len = may_be ? strlen(name->first) : 0;
    if (!may_be || strncasecmp(at, name->first, len) != 0) {
        return false;
    }
    if (name->rest == NULL) {
        return at[len] == '\0' || (name->is_tree && at[len] == '/');
    }
    if (at[len] != '/') {
        return false;
    }
    const char *rest = at + len + 1;
    const char *pattern = strchr(name->rest, '*');
    if (pattern == NULL) {
        return has_tail(rest, name->rest, name->is_tree);
    }
    return strchr(rest, '/') == strrchr(rest, '/') && /* the star stays in its component */
           gate_glob_match(name->rest, rest, strlen(rest), true);
}

bool gate_rules_is_gate_config(const struct gate_rules *rules, const char *path)
{
    if (find_place(&rules->agent, path) != NULL) {
        return true;
    }
    for (const char *at = strchr(path, '/'); at != NULL; at = strchr(at + 1, '/')) {
        bool may_be = strchr(".cgoCGO", at[1]) != NULL;
        for (size_t i = 0; may_be && i < COUNT(agent_names); i++) {
            if (is_agent_name(at + 1, &agent_names[i])) {
                return true;
            }
        }
    }
    return false;
}

bool gate_rules_holds_gate_config(const struct gate_rules *rules, const char *path)
{
    if (gate_rules_is_gate_config(rules, path)) {
        return true;
    }
    const char *last = strrchr(path, '/');
    for (size_t i = 0; last != NULL && i < COUNT(agent_names); i++) {
        if (agent_names[i].rest != NULL &&
            rule_fold((unsigned char)last[1]) == (unsigned char)agent_names[i].first[0] &&
            strcasecmp(last + 1, agent_names[i].first) == 0) {
            return true;
        }
    }
    size_t len = strlen(path);
    static const char nested[] = "/.github/copilot";
    return len >= sizeof nested - 1 && strcasecmp(path + len - (sizeof nested - 1), nested) == 0;
}

void gate_rules_denials(const struct gate_rules *rules,
                        void (*fn)(const struct gate_denial *denial, void *cookie), void *cookie)
{
    for (size_t i = 0; i < rules->n_exacts; i++) {
        const struct gate_denial path = {.path = rules->exacts[i].path};
        fn(&path, cookie);
    }
    for (size_t i = 0; i < rules->n_entries; i++) {
        const struct rule_entry *entry = &rules->entries[i];
        bool is_name = entry->resolved[0] != '/' || entry->dir != NULL;
        if (!is_name || entry->resolved[0] == '\0' ||
            (entry->flags & (RULE_BAD | RULE_SKIPPED)) != 0) {
            continue;
        }
        size_t skipped = entry->dir != NULL ? strlen(entry->dir) + 1 : 0;
        const struct gate_denial name = {.name = entry->resolved + skipped,
                                         .dir = entry->dir,
                                         .is_folded = (entry->flags & RULE_FOLDED) != 0,
                                         .is_key_files = (entry->flags & RULE_KEY_FILES) != 0};
        fn(&name, cookie);
    }
}
