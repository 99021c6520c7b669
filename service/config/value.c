#include "config/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fs.h"

/* Where in the file the walk is. */
struct walk {
    const struct nodes *nodes;
    const struct slots *slots;
    const char *home; /* or NULL */
    struct gh_err *err;
};

static enum gh_code out_of_memory(const struct walk *walk)
{
    return gh_fail(walk->err, GH_NOMEM, "There is not enough memory to read the configuration.");
}

static enum gh_code refuse_type(const struct walk *walk, const struct table_key *key,
                                const char *path)
{
    char expect[200];
    slots_expect(key, expect, sizeof expect);
    return nodes_refuse(walk->nodes, path, walk->err, "%s", expect);
}

/* libcyaml reads "3x" as 3 and "010" as 8: look at the text itself. */
static bool is_number(const struct node *node)
{
    if (node == NULL || !node->is_plain) {
        return false;
    }
    const char *digits = node->text + (node->text[0] == '-' ? 1 : 0);
    size_t len = strspn(digits, "0123456789");
    return len > 0 && digits[len] == '\0' && (len == 1 || digits[0] != '0');
}

static enum gh_code check_number(const struct walk *walk, const struct table_key *key,
                                 const char *path, int64_t value)
{
    if (!is_number(nodes_find(walk->nodes, path)) || value < key->min || value > key->max) {
        return refuse_type(walk, key, path);
    }
    return GH_OK;
}

static enum gh_code check_text(const struct walk *walk, const struct table_key *key,
                               const char *path, const char *text)
{
    const char *wrong = key->wrong != NULL ? key->wrong(text) : NULL;
    return wrong == NULL ? GH_OK : nodes_refuse(walk->nodes, path, walk->err, "%s", wrong);
}

/* Replace the leading ~ of a path by the home folder. */
static enum gh_code expand(const struct walk *walk, const struct table_key *key, char **text)
{
    if (!key->is_path || (*text)[0] != '~') {
        return GH_OK;
    }
    if (walk->home == NULL) {
        return gh_fail(walk->err, GH_CONFIG, "There is no home folder that ~ could stand for.");
    }
    char *full = NULL;
    if (asprintf(&full, "%s%s", walk->home, *text + 1) < 0) {
        return out_of_memory(walk);
    }
    free(*text);
    *text = full;
    return GH_OK;
}

/* A quoted "true" is a text, as it is in JSON. */
static enum gh_code fill_choice(const struct walk *walk, const struct table_key *key,
                                const char *path, const struct slot *slot, int *ret)
{
    *ret = (int)key->fallback;
    if (slot == NULL || slot->value == NULL) {
        return GH_OK;
    }
    const struct node *node = nodes_find(walk->nodes, path);
    *ret = *(int *)slot->value;
    bool is_text = node == NULL || !node->is_plain;
    bool may_quote = key->type == TABLE_OPTIN && *ret == CONFIG_CONTAINED;
    return is_text && !may_quote ? refuse_type(walk, key, path) : GH_OK;
}

static enum gh_code fill_text(const struct walk *walk, const struct table_key *key,
                              const char *path, struct slot *slot, char **to)
{
    if (slot != NULL && slot->value != NULL) {
        GH_TRY(check_text(walk, key, path, slot->value));
        *to = gh_steal((char **)&slot->value);
        return expand(walk, key, to);
    }
    if (key->needed) {
        return nodes_refuse(walk->nodes, path, walk->err, "This is missing.");
    }
    if (key->fallback_text != NULL) {
        *to = strdup(key->fallback_text);
        return *to != NULL ? GH_OK : out_of_memory(walk);
    }
    return GH_OK;
}

static enum gh_code fill_word(const struct walk *walk, const struct table_key *key,
                              const struct slot *slot, char **to)
{
    bool is_set = slot != NULL && slot->value != NULL;
    *to = strdup(is_set ? key->words[*(int *)slot->value] : key->fallback_text);
    return *to != NULL ? GH_OK : out_of_memory(walk);
}

static enum gh_code fill_list(const struct walk *walk, const struct table_key *key,
                              const char *path, struct slot *slot, char ***to)
{
    size_t n = slot != NULL && slot->value != NULL ? slot->n : 0;
    *to = calloc(n + 1, sizeof(char *));
    if (*to == NULL) {
        return out_of_memory(walk);
    }
    char **from = n > 0 ? slot->value : NULL;
    for (size_t i = 0; i < n; i++) {
        char place[NODE_PATH];
        snprintf(place, sizeof place, "%.200s[%zu]", path, i);
        GH_TRY(check_text(walk, key, place, from[i]));
        (*to)[i] = gh_steal(&from[i]);
        GH_TRY(expand(walk, key, &(*to)[i]));
    }
    return GH_OK;
}

static enum gh_code fill_ints(const struct walk *walk, const struct table_key *key,
                              const char *path, struct slot *slot, char *base)
{
    int64_t **to = (int64_t **)(base + key->offset);
    size_t *n = (size_t *)(base + key->count_offset);
    if (slot == NULL || slot->value == NULL) {
        return GH_OK;
    }
    bool is_folded = nodes_find(walk->nodes, path) == NULL; /* below sandbox.network */
    for (size_t i = 0; i < slot->n; i++) {
        char place[NODE_PATH];
        snprintf(place, sizeof place, "%.200s[%zu]", is_folded ? "sandbox.network.tcp_ports" : path,
                 i);
        GH_TRY(check_number(walk, key, place, ((int64_t *)slot->value)[i]));
    }
    *n = slot->n;
    *to = gh_steal((int64_t **)&slot->value);
    return GH_OK;
}

static enum gh_code fill_set(const struct walk *walk, const struct table_set *set, const char *path,
                             struct slot *slots, char *base);

static enum gh_code fill_rows(const struct walk *walk, const struct table_key *key,
                              const char *path, struct slot *slot, char *base)
{
    bool is_named = key->type == TABLE_NAMED;
    struct slot *from = slot != NULL ? slot->value : NULL;
    size_t n = from == NULL ? 0 : slot->n;
    if (is_named && from != NULL) {
        n = slots_count(walk->slots);
    }
    if (n == 0) {
        return GH_OK;
    }
    char *rows = calloc(n, key->set->row_bytes);
    if (rows == NULL) {
        return out_of_memory(walk);
    }
    *(char **)(base + key->offset) = rows;
    *(size_t *)(base + key->count_offset) = n;
    for (size_t i = 0; i < n; i++) {
        char *row = rows + i * key->set->row_bytes;
        char place[NODE_PATH];
        if (is_named) {
            snprintf(place, sizeof place, "%.100s.%.100s", path, slots_name(walk->slots, i));
            *(char **)row = strdup(slots_name(walk->slots, i));
            if (*(char **)row == NULL) {
                return out_of_memory(walk);
            }
        } else {
            snprintf(place, sizeof place, "%.200s[%zu]", path, i);
        }
        GH_TRY(fill_set(walk, key->set, place, from + i * key->set->n, row));
    }
    return GH_OK;
}

static enum gh_code fill_key(const struct walk *walk, const struct table_key *key, const char *path,
                             struct slot *slot, char *base)
{
    char *to = base + key->offset;
    int choice = 0;
    switch (key->type) {
    case TABLE_BOOL:
        GH_TRY(fill_choice(walk, key, path, slot, &choice));
        *(bool *)to = choice != 0;
        return GH_OK;
    case TABLE_OPTIN:
        GH_TRY(fill_choice(walk, key, path, slot, &choice));
        *(enum config_optin *)to = (enum config_optin)choice;
        return GH_OK;
    case TABLE_WORD:
        return fill_word(walk, key, slot, (char **)to);
    case TABLE_INT:
        *(int64_t *)to = key->fallback;
        if (slot != NULL && slot->value != NULL) {
            *(int64_t *)to = *(int64_t *)slot->value;
            return check_number(walk, key, path, *(int64_t *)to);
        }
        return GH_OK;
    case TABLE_TEXT:
        return fill_text(walk, key, path, slot, (char **)to);
    case TABLE_LIST:
        return fill_list(walk, key, path, slot, (char ***)to);
    case TABLE_INTS:
        return fill_ints(walk, key, path, slot, base);
    case TABLE_SECTION:
        return fill_set(walk, key->set, path, slot != NULL ? slot->value : NULL, base);
    case TABLE_ROWS:
    case TABLE_NAMED:
        return fill_rows(walk, key, path, slot, base);
    }
    return GH_OK;
}

/* `slots` is NULL where the file has nothing. */
static enum gh_code fill_set(const struct walk *walk, const struct table_set *set, const char *path,
                             struct slot *slots, char *base)
{
    for (size_t i = 0; i < set->n; i++) {
        char place[NODE_PATH];
        snprintf(place, sizeof place, "%.170s%s%s", path, path[0] == '\0' ? "" : ".",
                 set->keys[i].name);
        GH_TRY(fill_key(walk, &set->keys[i], place, slots != NULL ? &slots[i] : NULL, base));
    }
    return GH_OK;
}

enum gh_code value_fill(struct config *config, const struct nodes *nodes, const struct slots *slots,
                        struct gh_err *err)
{
    gh_autofree char *home = gh_fs_home();
    struct walk walk = {nodes, slots, home, err};
    return fill_set(&walk, &table_top, "", slots_top(slots), (char *)config);
}

static void free_list(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        free(list[i]);
    }
    free(list);
}

static void free_set(const struct table_set *set, char *base);

static void free_rows(const struct table_key *key, char *base)
{
    char *rows = *(char **)(base + key->offset);
    size_t n = *(size_t *)(base + key->count_offset);
    for (size_t i = 0; i < n; i++) {
        char *row = rows + i * key->set->row_bytes;
        if (key->type == TABLE_NAMED) {
            free(*(char **)row);
        }
        free_set(key->set, row);
    }
    free(rows);
}

static void free_set(const struct table_set *set, char *base)
{
    for (size_t i = 0; i < set->n; i++) {
        const struct table_key *key = &set->keys[i];
        switch (key->type) {
        case TABLE_WORD:
        case TABLE_TEXT:
        case TABLE_INTS:
            free(*(void **)(base + key->offset));
            break;
        case TABLE_LIST:
            free_list(*(char ***)(base + key->offset));
            break;
        case TABLE_SECTION:
            free_set(key->set, base);
            break;
        case TABLE_ROWS:
        case TABLE_NAMED:
            free_rows(key, base);
            break;
        default:
            break;
        }
    }
}

void value_free(struct config *config)
{
    free_set(&table_top, (char *)config);
}

static void show_choice(struct gh_jw *w, const char *name, enum config_optin choice)
{
    if (choice == CONFIG_CONTAINED) {
        gh_jw_str(w, name, "contained");
    } else {
        gh_jw_bool(w, name, choice == CONFIG_YES);
    }
}

static void show_list(struct gh_jw *w, const char *name, char *const *list)
{
    gh_jw_arr(w, name);
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        gh_jw_str(w, NULL, list[i]);
    }
    gh_jw_arr_end(w);
}

static void show_ints(struct gh_jw *w, const struct table_key *key, const char *base)
{
    const int64_t *values = *(int64_t *const *)(base + key->offset);
    size_t n = *(const size_t *)(base + key->count_offset);
    gh_jw_arr(w, key->name);
    for (size_t i = 0; i < n; i++) {
        gh_jw_int(w, NULL, values[i]);
    }
    gh_jw_arr_end(w);
}

static void show_set(struct gh_jw *w, const struct table_set *set, const char *base);

static void show_rows(struct gh_jw *w, const struct table_key *key, const char *base)
{
    bool is_named = key->type == TABLE_NAMED;
    const char *rows = *(char *const *)(base + key->offset);
    size_t n = *(const size_t *)(base + key->count_offset);
    is_named ? gh_jw_obj(w, key->name) : gh_jw_arr(w, key->name);
    for (size_t i = 0; i < n; i++) {
        const char *row = rows + i * key->set->row_bytes;
        gh_jw_obj(w, is_named ? *(char *const *)row : NULL);
        show_set(w, key->set, row);
        gh_jw_end(w);
    }
    is_named ? gh_jw_end(w) : gh_jw_arr_end(w);
}

static void show_key(struct gh_jw *w, const struct table_key *key, const char *base)
{
    const char *at = base + key->offset;
    switch (key->type) {
    case TABLE_BOOL:
        gh_jw_bool(w, key->name, *(const bool *)at);
        return;
    case TABLE_OPTIN:
        show_choice(w, key->name, *(const enum config_optin *)at);
        return;
    case TABLE_INT:
        gh_jw_int(w, key->name, *(const int64_t *)at);
        return;
    case TABLE_WORD:
    case TABLE_TEXT:
        gh_jw_str(w, key->name,
                  key->secret && *(char *const *)at != NULL ? "redacted" : *(char *const *)at);
        return;
    case TABLE_LIST:
        show_list(w, key->name, *(char **const *)at);
        return;
    case TABLE_INTS:
        show_ints(w, key, base);
        return;
    case TABLE_SECTION:
        gh_jw_obj(w, key->name);
        show_set(w, key->set, base);
        gh_jw_end(w);
        return;
    case TABLE_ROWS:
    case TABLE_NAMED:
        show_rows(w, key, base);
        return;
    }
}

static void show_set(struct gh_jw *w, const struct table_set *set, const char *base)
{
    for (size_t i = 0; i < set->n; i++) {
        show_key(w, &set->keys[i], base);
    }
}

void value_json(const struct config *config, struct gh_buf *out)
{
    struct gh_jw w = {.buf = out};
    gh_jw_obj(&w, NULL);
    show_set(&w, &table_top, (const char *)config);
    gh_jw_end(&w);
}
