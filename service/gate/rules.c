#include "gate/rules.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "gate/glob.h"
#include "gate/path.h"
#include "gate/rules_impl.h"
#include "text/neutral.h"

struct built_in {
    const char *text;
    unsigned flags;
    const char *dir;
};

/* Always there (behaviour 1.3.1): credentials that an agent never needs to see. "~" entries are
 * paths, the others names that count anywhere, or in `dir` only. */
static const struct built_in built_ins[] = {
    {"~/.ssh", RULE_FOLDED, NULL},
    {"~/.aws", RULE_FOLDED, NULL},
    {"~/.gnupg", RULE_FOLDED, NULL},
    {"~/.netrc", RULE_FOLDED, NULL},
    {"~/.docker/config.json", RULE_FOLDED, NULL},
    {"~/.kube/config", RULE_FOLDED, NULL},
    {"~/.npmrc", RULE_FOLDED, NULL},
    {"~/.pypirc", RULE_FOLDED, NULL},
    {"~/.config/gcloud", RULE_FOLDED, NULL},
    {"~/.azure", RULE_FOLDED, NULL},
    {"~/.cargo/credentials.toml", RULE_FOLDED, NULL},
    {"~/.cargo/credentials", RULE_FOLDED, NULL},
    {"~/.config/gh", RULE_FOLDED, NULL},
    {"~/.git-credentials", RULE_FOLDED, NULL},
    {"~/.config/git/credentials", RULE_FOLDED, NULL},
    {".env", RULE_FOLDED, NULL},
    {".env.*", RULE_FOLDED, NULL},
    {"id_rsa", RULE_FOLDED, NULL},
    {"id_ed25519", RULE_FOLDED, NULL},
    {"*.pem", RULE_FOLDED | RULE_KEY_FILES, NULL},
    {"*.key", RULE_FOLDED | RULE_KEY_FILES, NULL},
    {"/etc/ssl/private", RULE_FOLDED, NULL},
    {"shadow*", RULE_FOLDED, "/etc"},
    {"gshadow*", RULE_FOLDED, "/etc"},
    {"sudoers*", RULE_FOLDED, "/etc"},
    {"ssh_host_*_key", RULE_FOLDED, "/etc/ssh"},
};

static const char *const xdg_credentials[] = {"gcloud", "gh", "git/credentials"};

/* What an entry is read against. */
struct scope {
    enum rule_source source;
    const char *working_dir; /* NULL: relative entries are refused */
    const char *home;
    unsigned flags;
    const char *dir;
};

static enum gh_code no_memory(struct gh_err *err)
{
    return gh_fail(err, GH_NOMEM, "There is not enough memory for the deny list.");
}

/* Room for one more element behind `n`: the array doubles at powers of two. NULL: no memory. */
static void *more(void *at, size_t n, size_t size)
{
    if (n != 0 && (n & (n - 1)) != 0) {
        return at;
    }
    return reallocarray(at, n == 0 ? 1 : 2 * n, size);
}

static struct rule_entry *add_entry(struct gate_rules *rules)
{
    struct rule_entry *grown = more(rules->entries, rules->n_entries, sizeof *grown);
    if (grown == NULL) {
        return NULL;
    }
    rules->entries = grown;
    struct rule_entry *entry = &grown[rules->n_entries++];
    *entry = (struct rule_entry){0};
    return entry;
}

/* Takes `path`, also on failure. */
static bool add_exact(struct gate_rules *rules, char *path, int entry)
{
    struct rule_exact *grown = more(rules->exacts, rules->n_exacts, sizeof *grown);
    if (grown == NULL || path == NULL) {
        free(path);
        rules->exacts = grown != NULL ? grown : rules->exacts;
        return false;
    }
    rules->exacts = grown;
    grown[rules->n_exacts++] = (struct rule_exact){path, strlen(path), rule_hash_path(path), entry};
    return true;
}

static struct rule_pattern *add_pattern(struct gate_rules *rules)
{
    struct rule_pattern *grown = more(rules->patterns, rules->n_patterns, sizeof *grown);
    if (grown == NULL) {
        return NULL;
    }
    rules->patterns = grown;
    struct rule_pattern *pattern = &grown[rules->n_patterns++];
    *pattern = (struct rule_pattern){0};
    return pattern;
}

/* Remove escapes and stars; count the stars and note where the last one stood. Returns false when
 * there is anything that only the matcher can read. */
static bool simplify(const char *text, char *out, int *ret_stars, size_t *ret_prefix)
{
    size_t len = 0;
    *ret_stars = 0;
    *ret_prefix = 0;
    for (; *text != '\0'; text++) {
        if (*text == '?' || *text == '[') {
            return false;
        }
        if (*text == '*') {
            (*ret_stars)++;
            *ret_prefix = len;
            continue;
        }
        text += *text == '\\' && text[1] != '\0' ? 1 : 0;
        out[len++] = *text;
    }
    out[len] = '\0';
    return *ret_stars <= 1;
}

struct compile {
    struct gate_rules *rules;
    int entry;
};

static bool compile_one(const char *text, void *cookie)
{
    const struct compile *c = cookie;
    gh_autofree char *plain = malloc(strlen(text) + 1);
    struct rule_pattern *pattern = plain != NULL ? add_pattern(c->rules) : NULL;
    if (pattern == NULL) {
        return false;
    }
    int n_stars;
    size_t prefix_len;
    bool is_simple = simplify(text, plain, &n_stars, &prefix_len);
    pattern->entry = c->entry;
    if (is_simple && plain[0] != '\0') {
        pattern->kind = n_stars == 0 ? PATTERN_LITERAL : PATTERN_AFFIX;
        pattern->text = gh_steal(&plain);
        pattern->prefix_len = prefix_len;
    } else {
        pattern->kind = PATTERN_GLOB;
        pattern->text = strdup(text);
    }
    if (pattern->text == NULL) {
        return false;
    }
    pattern->len = strlen(pattern->text);
    pattern->hash = RULE_HASH_START;
    for (size_t i = 0; i < pattern->len; i++) {
        pattern->hash = rule_hash_byte(pattern->hash, (unsigned char)pattern->text[i]);
    }
    return true;
}

static enum gh_code compile_name(struct gate_rules *rules, int index, const char *name,
                                 struct gh_err *err)
{
    struct rule_entry *entry = &rules->entries[index];
    gh_auto(gh_buf_fini) struct gh_buf shown = GH_BUF_INIT;
    gh_buf_printf(&shown, "%s%s%s", entry->dir != NULL ? entry->dir : "",
                  entry->dir != NULL ? "/" : "", name);
    entry->resolved = gh_buf_take(&shown);
    if (entry->resolved == NULL) {
        return no_memory(err);
    }
    if (!gate_glob_is_valid(name)) {
        entry->flags |= RULE_BAD;
        return GH_OK;
    }
    struct compile c = {rules, index};
    if (!gate_glob_expand(name, compile_one, &c)) {
        return gh_fail(err, GH_INVALID, "The entry has more than %d alternatives.",
                       GATE_GLOB_MAX_ALTERNATIVES);
    }
    return GH_OK;
}

/* Without links, for a built-in path whose links cannot be followed: it still has to count. */
static enum gh_code resolve_by_text(const char *text, const struct scope *scope,
                                    struct gate_path *ret, struct gh_err *err)
{
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_buf_printf(&path, "%s%s", text[0] == '~' ? scope->home : "",
                  text[0] == '~' ? text + 1 : text);
    ret->kernel = gh_buf_take(&path);
    return ret->kernel != NULL ? GH_OK : no_memory(err);
}

static enum gh_code compile_path(struct gate_rules *rules, int index, const char *text,
                                 const struct scope *scope, struct gh_err *err)
{
    gh_auto(gate_path_fini) struct gate_path path = {0};
    const char *base = scope->working_dir != NULL ? scope->working_dir : "/";
    enum gh_code code = gate_path_resolve(text, base, scope->home, &path, err);
    if (code == GH_INVALID && scope->source == RULE_BUILT_IN) {
        code = resolve_by_text(text, scope, &path, err);
    }
    GH_TRY(code);
    rules->entries[index].resolved = strdup(path.kernel);
    char **const spellings[] = {&path.kernel, &path.lexical, &path.spelled, &path.leaf,
                                &path.lexical_leaf};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        if (*spellings[i] != NULL && !add_exact(rules, gh_steal(spellings[i]), index)) {
            return no_memory(err);
        }
    }
    return rules->entries[index].resolved != NULL ? GH_OK : no_memory(err);
}

enum entry_kind { ENTRY_REFUSED = 0, ENTRY_NAME, ENTRY_PATH, ENTRY_SKIPPED };

/* Reduce the allowed "**" forms in place (`text` is a copy) and say what is left. */
static enum entry_kind classify(char **text, const struct scope *scope, const char **ret_why)
{
    char *at = *text;
    size_t len = strlen(at);
    bool has_tail = false;
    bool has_head = false;
    for (; len >= 3 && strcmp(at + len - 3, "/**") == 0; has_tail = true) {
        len -= len > 3 ? 3 : 2;
        at[len] = '\0';
    }
    for (; strncmp(at, "**/", 3) == 0; has_head = true) {
        at += 3;
    }
    for (len = strlen(at); has_head && len > 0 && at[len - 1] == '/'; len--) {
        at[len - 1] = '\0';
    }
    *text = at;
    size_t n = strcspn(at, "/");
    bool is_dots = (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.');
    if (text_is_invisible(at, strlen(at)) || (is_dots && at[n + strspn(at + n, "/")] == '\0')) {
        *ret_why = "is empty, or only dots";
        return ENTRY_REFUSED;
    }
    if (at[n] == '\0' && at[0] != '~' && (!has_tail || has_head)) {
        return ENTRY_NAME;
    }
    if (has_head || strpbrk(at, "*?[{") != NULL) {
        *ret_why = "mixes \"/\" with a pattern; write a name (\"*.pem\"), **/NAME or DIR/**";
        return ENTRY_REFUSED;
    }
    if (at[0] == '~') {
        return n == 1 && scope->home != NULL ? ENTRY_PATH : ENTRY_SKIPPED;
    }
    *ret_why = "is relative, which has no meaning here; write an absolute path or \"~/...\"";
    return at[0] == '/' || scope->working_dir != NULL ? ENTRY_PATH : ENTRY_REFUSED;
}

/* An entry that is there already; one that a person wrote as well loses its exemptions. */
static bool is_known(struct gate_rules *rules, const char *text, const struct scope *scope)
{
    bool is_relative = text[0] != '/' && text[0] != '~' && strchr(text, '/') != NULL;
    for (size_t i = 0; !is_relative && i < rules->n_entries; i++) {
        struct rule_entry *entry = &rules->entries[i];
        if (entry->dir == scope->dir && strcmp(entry->text, text) == 0) {
            entry->flags &= scope->source == RULE_BUILT_IN ? ~0U : ~(unsigned)RULE_KEY_FILES;
            return true;
        }
    }
    return false;
}

static enum gh_code add_text(struct gate_rules *rules, const char *text, const struct scope *scope,
                             struct gh_err *err)
{
    if (is_known(rules, text, scope)) {
        return GH_OK;
    }
    gh_autofree char *copy = strdup(text);
    struct rule_entry *entry = copy != NULL ? add_entry(rules) : NULL;
    if (entry == NULL) {
        return no_memory(err);
    }
    int index = (int)rules->n_entries - 1;
    entry->text = strdup(text);
    entry->source = scope->source;
    entry->flags = scope->flags;
    entry->dir = scope->dir;
    if (entry->text == NULL) {
        return no_memory(err);
    }
    char *rest = copy;
    const char *why = "";
    switch (classify(&rest, scope, &why)) {
    case ENTRY_NAME:
        return compile_name(rules, index, rest, err);
    case ENTRY_PATH:
        return compile_path(rules, index, rest, scope, err);
    case ENTRY_SKIPPED:
        entry->flags |= RULE_SKIPPED;
        entry->resolved = strdup("");
        return entry->resolved != NULL ? GH_OK : no_memory(err);
    case ENTRY_REFUSED:
        break;
    }
    return gh_fail(err, GH_INVALID, "The deny entry \"%s\" %s.", text, why);
}

/* As add_text, for entry `i` of a list: the error says which. */
static enum gh_code add_listed(struct gate_rules *rules, const char *text, size_t i,
                               const struct scope *scope, struct gh_err *err)
{
    enum gh_code code = add_text(rules, text, scope, err);
    if (code == GH_INVALID && err != NULL) {
        snprintf(err->pointer, sizeof err->pointer, "/%zu", i);
    }
    return code;
}

/* What a second home has of the built-in list: spelled out, since entries are told apart by their
 * text. */
static enum gh_code add_other_home(struct gate_rules *rules, const char *home, struct gh_err *err)
{
    struct scope scope = {.source = RULE_BUILT_IN, .home = home, .flags = RULE_FOLDED};
    for (size_t i = 0; i < sizeof built_ins / sizeof *built_ins; i++) {
        if (built_ins[i].text[0] != '~') {
            continue;
        }
        gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
        gh_buf_printf(&text, "%s%s", home, built_ins[i].text + 1);
        GH_TRY(text.failed ? no_memory(err) : add_text(rules, gh_buf_str(&text), &scope, err));
    }
    return GH_OK;
}

static enum gh_code add_built_in(struct gate_rules *rules, const struct gate_rules_input *input,
                                 struct gh_err *err)
{
    struct scope scope = {.source = RULE_BUILT_IN, .home = input->home};
    for (size_t i = 0; i < sizeof built_ins / sizeof *built_ins; i++) {
        scope.flags = built_ins[i].flags;
        scope.dir = built_ins[i].dir;
        GH_TRY(add_text(rules, built_ins[i].text, &scope, err));
    }
    if (input->other_home != NULL) {
        GH_TRY(add_other_home(rules, input->other_home, err));
    }
    scope.flags = RULE_FOLDED;
    scope.dir = NULL;
    const char *const own[] = {input->config_dir, input->config_file, input->state_dir,
                               input->runtime_dir};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (own[i] != NULL) {
            GH_TRY(add_text(rules, own[i], &scope, err));
        }
    }
    bool has_xdg = input->xdg_config_home != NULL && input->xdg_config_home[0] == '/';
    for (size_t i = 0; has_xdg && i < sizeof xdg_credentials / sizeof *xdg_credentials; i++) {
        gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
        gh_buf_printf(&path, "%s/%s", input->xdg_config_home, xdg_credentials[i]);
        GH_TRY(path.failed ? no_memory(err) : add_text(rules, gh_buf_str(&path), &scope, err));
    }
    return GH_OK;
}

static bool make_table(struct rule_table *table, size_t n)
{
    table->n_slots = 16;
    while (table->n_slots < 4 * n) {
        table->n_slots *= 2;
    }
    table->slots = reallocarray(NULL, table->n_slots, sizeof *table->slots);
    for (size_t i = 0; table->slots != NULL && i < table->n_slots; i++) {
        table->slots[i] = -1;
    }
    return table->slots != NULL;
}

static void put_table(struct rule_table *table, uint32_t hash, int index)
{
    size_t at = hash & (table->n_slots - 1);
    while (table->slots[at] >= 0) {
        at = (at + 1) & (table->n_slots - 1);
    }
    table->slots[at] = index;
}

/* The bucket of a pattern that is no literal: by a byte that every match has. */
static int *find_bucket(struct gate_rules *rules, const struct rule_pattern *pattern)
{
    if (pattern->kind != PATTERN_AFFIX) {
        return &rules->any;
    }
    if (pattern->len > pattern->prefix_len) {
        return &rules->by_last[rule_fold((unsigned char)pattern->text[pattern->len - 1])];
    }
    return &rules->by_first[rule_fold((unsigned char)pattern->text[0])];
}

/* Build what the matcher looks things up in. */
static enum gh_code index_rules(struct gate_rules *rules, struct gh_err *err)
{
    if (!make_table(&rules->exact_table, rules->n_exacts) ||
        !make_table(&rules->literal_table, rules->n_patterns)) {
        return no_memory(err);
    }
    for (size_t i = 0; i < rules->n_exacts; i++) {
        put_table(&rules->exact_table, rules->exacts[i].hash, (int)i);
    }
    rules->any = -1;
    for (int i = 0; i < 256; i++) {
        rules->by_last[i] = -1;
        rules->by_first[i] = -1;
    }
    for (size_t i = 0; i < rules->n_patterns; i++) {
        struct rule_pattern *pattern = &rules->patterns[i];
        if (pattern->kind == PATTERN_LITERAL) {
            put_table(&rules->literal_table, pattern->hash, (int)i);
            continue;
        }
        int *head = find_bucket(rules, pattern);
        pattern->next = *head;
        *head = (int)i;
    }
    return GH_OK;
}

static void free_rules(struct gate_rules **rules)
{
    gate_rules_free(*rules);
}

enum gh_code gate_rules_new(const struct gate_rules_input *input, struct gate_rules **ret,
                            struct gh_err *err)
{
    gh_auto(free_rules) struct gate_rules *rules = calloc(1, sizeof *rules);
    if (rules == NULL) {
        return no_memory(err);
    }
    GH_TRY(add_built_in(rules, input, err));
    struct scope scope = {.source = RULE_CONFIGURATION, .home = input->home};
    for (size_t i = 0; input->entries != NULL && input->entries[i] != NULL; i++) {
        GH_TRY(add_listed(rules, input->entries[i], i, &scope, err));
    }
    GH_TRY(rule_places_fill(rules, input, err));
    GH_TRY(index_rules(rules, err));
    *ret = gh_steal(&rules);
    return GH_OK;
}

static enum gh_code copy_entries(struct gate_rules *rules, const struct gate_rules *base,
                                 struct gh_err *err)
{
    for (size_t i = 0; i < base->n_entries; i++) {
        const struct rule_entry *from = &base->entries[i];
        struct rule_entry *entry = add_entry(rules);
        if (entry == NULL) {
            return no_memory(err);
        }
        *entry = *from;
        entry->text = strdup(from->text);
        entry->resolved = strdup(from->resolved);
        if (entry->text == NULL || entry->resolved == NULL) {
            return no_memory(err);
        }
    }
    for (size_t i = 0; i < base->n_exacts; i++) {
        if (!add_exact(rules, strdup(base->exacts[i].path), base->exacts[i].entry)) {
            return no_memory(err);
        }
    }
    for (size_t i = 0; i < base->n_patterns; i++) {
        struct rule_pattern *pattern = add_pattern(rules);
        if (pattern == NULL) {
            return no_memory(err);
        }
        *pattern = base->patterns[i];
        pattern->text = strdup(base->patterns[i].text);
        if (pattern->text == NULL) {
            return no_memory(err);
        }
    }
    return rule_places_copy(rules, base, err);
}

enum gh_code gate_rules_extend(const struct gate_rules *base, const char *working_dir,
                               const char *const *entries, size_t n_entries,
                               struct gate_rules **ret, struct gh_err *err)
{
    gh_auto(free_rules) struct gate_rules *rules = calloc(1, sizeof *rules);
    if (rules == NULL) {
        return no_memory(err);
    }
    GH_TRY(base != NULL ? copy_entries(rules, base, err) : GH_OK);
    struct scope scope = {.source = RULE_SESSION,
                          .working_dir = working_dir,
                          .home = base != NULL ? base->home : NULL};
    for (size_t i = 0; i < n_entries; i++) {
        GH_TRY(add_listed(rules, entries[i], i, &scope, err));
    }
    GH_TRY(index_rules(rules, err));
    *ret = gh_steal(&rules);
    return GH_OK;
}

void gate_rules_free(struct gate_rules *rules)
{
    if (rules == NULL) {
        return;
    }
    for (size_t i = 0; i < rules->n_entries; i++) {
        free(rules->entries[i].text);
        free(rules->entries[i].resolved);
    }
    for (size_t i = 0; i < rules->n_exacts; i++) {
        free(rules->exacts[i].path);
    }
    for (size_t i = 0; i < rules->n_patterns; i++) {
        free(rules->patterns[i].text);
    }
    free(rules->entries);
    free(rules->exacts);
    free(rules->patterns);
    free(rules->exact_table.slots);
    free(rules->literal_table.slots);
    rule_places_free(rules);
    free(rules);
}

static const char *note_of(const struct rule_entry *entry)
{
    struct stat st;
    if ((entry->flags & RULE_BAD) != 0) {
        return "never matches: bad pattern";
    }
    if ((entry->flags & RULE_SKIPPED) != 0) {
        return "skipped: only \"~\" and \"~/...\" are expanded, and only with a home folder";
    }
    bool is_path = entry->resolved[0] == '/' && entry->dir == NULL;
    return is_path && lstat(entry->resolved, &st) != 0 ? "matches nothing now" : "";
}

void gate_rules_each(const struct gate_rules *rules,
                     void (*fn)(const struct gate_rule_info *info, void *cookie), void *cookie)
{
    static const char *const sources[] = {
        [RULE_BUILT_IN] = "built-in",
        [RULE_CONFIGURATION] = "configuration",
        [RULE_SESSION] = "session",
    };
    for (size_t i = 0; i < rules->n_entries; i++) {
        const struct rule_entry *entry = &rules->entries[i];
        struct gate_rule_info info = {entry->text, entry->resolved, sources[entry->source],
                                      note_of(entry)};
        fn(&info, cookie);
    }
}
