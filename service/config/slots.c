#include "config/slots.h"

#include <cyaml/cyaml.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#define MAX_FIELDS                                                                                 \
    160 /* every key of the table, the ends of the sets, and TABLE_MAX_ROWS names                  \
         */
#define MAX_SETS 24
#define MAX_WORDS 8

/* What libcyaml said about the thing it refused. */
struct complaint {
    char path[NODE_PATH]; /* keys only, innermost last */
    char key[NODE_PATH];  /* a key that is not in the table */
    size_t line;
};

struct slots {
    struct cyaml_schema_field fields[MAX_FIELDS];
    size_t n_fields;
    struct cyaml_schema_value rows[MAX_SETS]; /* the entries of lists of sets */
    size_t n_rows;
    struct cyaml_strval words[MAX_SETS][MAX_WORDS];
    size_t n_words;
    struct cyaml_schema_value top;
    const char *names[TABLE_MAX_ROWS]; /* borrowed from the nodes */
    size_t n_names;
    const struct nodes *nodes; /* borrowed */
    struct complaint complaint;
    struct slot *values;
};

static const struct cyaml_strval bool_words[] = {{"true", 1}, {"false", 0}, {"yes", 1},
                                                 {"no", 0},   {"on", 1},    {"off", 0}};
static const struct cyaml_strval optin_words[] = {
    {"true", 1}, {"false", 0}, {"yes", 1}, {"no", 0}, {"on", 1}, {"off", 0}, {"contained", 2}};
static const struct cyaml_schema_value text_entry = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 0, 8191)};
static const struct cyaml_schema_value int_entry = {CYAML_VALUE_INT(CYAML_FLAG_DEFAULT, int64_t)};

static void *resize(void *ctx, void *at, size_t size)
{
    (void)ctx;
    if (size == 0) {
        free(at);
        return NULL;
    }
    return realloc(at, size);
}

/* Put one more step before `path`: the backtrace runs from the inside out. */
static void put_before(char path[NODE_PATH], const char *step)
{
    char inner[NODE_PATH];
    snprintf(inner, sizeof inner, "%s", path);
    int n = snprintf(path, NODE_PATH, "%s%s%s", step, inner[0] == '\0' ? "" : ".", inner);
    if (n >= NODE_PATH) {
        path[0] = '\0'; /* only a name longer than node.c lets through gets here */
    }
}

/* libcyaml reports by log lines only: "Load: Unexpected key: K", then a backtrace of "in mapping
 * field 'K' (line: L, column: C)" and "in sequence entry 'N' (...)"; its N is not reliable, its
 * lines are. Values of the file are never kept. */
GH_PRINTF(3, 0)
static void note_complaint(cyaml_log_t level, void *ctx, const char *fmt, va_list args)
{
    struct complaint *complaint = ctx;
    char text[512];
    char name[NODE_PATH];
    (void)level;
    vsnprintf(text, sizeof text, fmt, args);
    if (sscanf(text, "Load: Unexpected key: %255[^\n]", name) == 1) {
        snprintf(complaint->key, sizeof complaint->key, "%s", name);
        return;
    }
    if (strncmp(text, "  in ", 5) != 0) {
        return;
    }
    const char *place = strstr(text, "(line: ");
    if (complaint->line == 0 && place != NULL) {
        complaint->line = (size_t)strtoul(place + 7, NULL, 10);
    }
    if (sscanf(text, "  in mapping field '%255[^']'", name) == 1) {
        put_before(complaint->path, name);
    }
}

static struct cyaml_config make_config(struct complaint *complaint)
{
    return (struct cyaml_config){
        .log_fn = complaint != NULL ? note_complaint : NULL,
        .log_ctx = complaint,
        .mem_fn = resize,
        .log_level = CYAML_LOG_WARNING,
        .flags = CYAML_CFG_NO_ALIAS,
    };
}

static struct cyaml_schema_field *take_fields(struct slots *slots, size_t n)
{
    gh_assert(slots->n_fields + n <= MAX_FIELDS);
    struct cyaml_schema_field *fields = &slots->fields[slots->n_fields];
    slots->n_fields += n;
    return fields;
}

static void set_enum(struct cyaml_schema_value *value, const struct cyaml_strval *words, size_t n)
{
    value->type = CYAML_ENUM;
    value->flags |= CYAML_FLAG_STRICT;
    value->data_size = sizeof(int);
    value->enumeration.strings = words;
    value->enumeration.count = (uint32_t)n;
}

static void set_words(struct slots *slots, struct cyaml_schema_value *value,
                      const char *const *words)
{
    gh_assert(slots->n_words < MAX_SETS);
    struct cyaml_strval *list = slots->words[slots->n_words++];
    size_t n = 0;
    for (; words[n] != NULL; n++) {
        gh_assert(n < MAX_WORDS);
        list[n] = (struct cyaml_strval){words[n], (int64_t)n};
    }
    set_enum(value, list, n);
}

static void set_list(struct cyaml_schema_value *value, const struct cyaml_schema_value *entry,
                     uint32_t entry_bytes, uint32_t max)
{
    value->type = CYAML_SEQUENCE;
    value->data_size = entry_bytes;
    value->sequence.entry = entry;
    value->sequence.max = max;
}

static const struct cyaml_schema_field *make_set(struct slots *slots, const struct table_set *set);

static void set_rows(struct slots *slots, struct cyaml_schema_value *value,
                     const struct table_set *set)
{
    gh_assert(slots->n_rows < MAX_SETS);
    struct cyaml_schema_value *row = &slots->rows[slots->n_rows++];
    row->type = CYAML_MAPPING;
    row->data_size = (uint32_t)(set->n * sizeof(struct slot));
    row->mapping.fields = make_set(slots, set);
    set_list(value, row, row->data_size, TABLE_MAX_ROWS);
}

/* libcyaml knows fixed keys only; those of a TABLE_NAMED mapping are the ones the file has. */
static void set_named(struct slots *slots, struct cyaml_schema_value *value,
                      const struct table_set *set)
{
    const struct cyaml_schema_field *row = make_set(slots, set);
    size_t row_bytes = set->n * sizeof(struct slot);
    struct cyaml_schema_field *fields = take_fields(slots, slots->n_names + 1);
    for (size_t i = 0; i < slots->n_names; i++) {
        fields[i].key = slots->names[i];
        fields[i].data_offset = (uint32_t)(i * row_bytes);
        fields[i].value.type = CYAML_MAPPING;
        fields[i].value.flags = CYAML_FLAG_OPTIONAL;
        fields[i].value.data_size = (uint32_t)row_bytes;
        fields[i].value.mapping.fields = row;
    }
    value->type = CYAML_MAPPING;
    value->data_size = (uint32_t)((slots->n_names + 1) * row_bytes);
    value->mapping.fields = fields;
}

static void set_section(struct slots *slots, struct cyaml_schema_value *value,
                        const struct table_set *set)
{
    value->type = CYAML_MAPPING;
    value->data_size = (uint32_t)(set->n * sizeof(struct slot));
    value->mapping.fields = make_set(slots, set);
}

static void set_value(struct slots *slots, struct cyaml_schema_value *value,
                      const struct table_key *key)
{
    value->flags = CYAML_FLAG_OPTIONAL | CYAML_FLAG_POINTER;
    switch (key->type) {
    case TABLE_BOOL:
        set_enum(value, bool_words, CYAML_ARRAY_LEN(bool_words));
        break;
    case TABLE_OPTIN:
        set_enum(value, optin_words, CYAML_ARRAY_LEN(optin_words));
        break;
    case TABLE_WORD:
        set_words(slots, value, key->words);
        break;
    case TABLE_INT:
        value->type = CYAML_INT;
        value->data_size = sizeof(int64_t);
        break;
    case TABLE_TEXT:
        value->type = CYAML_STRING;
        value->data_size = sizeof(char);
        value->string.max = (uint32_t)key->max;
        break;
    case TABLE_LIST:
        set_list(value, &text_entry, sizeof(char *), (uint32_t)key->max);
        break;
    case TABLE_INTS:
        set_list(value, &int_entry, sizeof(int64_t), TABLE_MAX_PORTS);
        break;
    case TABLE_SECTION:
        set_section(slots, value, key->set);
        break;
    case TABLE_ROWS:
        set_rows(slots, value, key->set);
        break;
    case TABLE_NAMED:
        set_named(slots, value, key->set);
        break;
    }
}

/* `network: {tcp_ports: [443]}` means tcp_ports: let the mapping lie over that key's slot. The key
 * itself is then ignored, or the slot would be freed twice; config.c refuses a file with both. */
static void fold_network(struct slots *slots, struct cyaml_schema_field *fields,
                         const struct table_set *set)
{
    const struct node *node = nodes_find(slots->nodes, "sandbox.network");
    if (node == NULL || node->kind != NODE_MAP) {
        return;
    }
    struct cyaml_schema_field *network = NULL;
    struct cyaml_schema_field *ports = NULL;
    for (size_t i = 0; i < set->n; i++) {
        network = strcmp(set->keys[i].name, "network") == 0 ? &fields[i] : network;
        ports = strcmp(set->keys[i].name, "tcp_ports") == 0 ? &fields[i] : ports;
    }
    if (network == NULL || ports == NULL) {
        return;
    }
    struct cyaml_schema_field *inner = take_fields(slots, 2);
    inner[0] = *ports;
    inner[0].data_offset = offsetof(struct slot, value);
    inner[0].count_offset = offsetof(struct slot, n);
    network->data_offset = ports->data_offset;
    network->value = (struct cyaml_schema_value){.type = CYAML_MAPPING,
                                                 .flags = CYAML_FLAG_OPTIONAL,
                                                 .data_size = sizeof(struct slot),
                                                 .mapping = {.fields = inner}};
    ports->value = (struct cyaml_schema_value){.type = CYAML_IGNORE, .flags = CYAML_FLAG_OPTIONAL};
}

static const struct cyaml_schema_field *make_set(struct slots *slots, const struct table_set *set)
{
    struct cyaml_schema_field *fields = take_fields(slots, set->n + 1);
    for (size_t i = 0; i < set->n; i++) {
        size_t at = i * sizeof(struct slot);
        fields[i].key = set->keys[i].name;
        fields[i].data_offset = (uint32_t)(at + offsetof(struct slot, value));
        fields[i].count_offset = (uint32_t)(at + offsetof(struct slot, n));
        fields[i].count_size = sizeof(uint64_t);
        set_value(slots, &fields[i].value, &set->keys[i]);
    }
    fold_network(slots, fields, set);
    return fields;
}

/* The names below `agents`, in the order of the file. */
static enum gh_code find_names(struct slots *slots, struct gh_err *err)
{
    static const char top[] = "agents.";
    for (size_t i = 0; i < slots->nodes->n; i++) {
        const struct node *node = slots->nodes->all[i];
        const char *name = node->key;
        if (name == NULL || strncmp(node->path, top, sizeof top - 1) != 0 ||
            strcmp(node->path + sizeof top - 1, name) != 0) {
            continue;
        }
        if (strlen(name) > 64 ||
            strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != strlen(name)) {
            return nodes_refuse(slots->nodes, node->path, err,
                                "An agent's name has lower-case letters, digits and dashes.");
        }
        if (slots->n_names == TABLE_MAX_ROWS) {
            return nodes_refuse(slots->nodes, node->path, err, "There are too many agents.");
        }
        slots->names[slots->n_names++] = name;
    }
    return GH_OK;
}

static void expect_words(const char *const *words, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "This must be one of");
    for (size_t i = 0; words[i] != NULL && n < size; i++) {
        n += (size_t)snprintf(out + n, size - n, "%s %s", i == 0 ? "" : ",", words[i]);
    }
    if (n < size) {
        snprintf(out + n, size - n, ".");
    }
}

void slots_expect(const struct table_key *key, char *out, size_t size)
{
    switch (key->type) {
    case TABLE_BOOL:
        snprintf(out, size, "This must be true or false.");
        return;
    case TABLE_OPTIN:
        snprintf(out, size, "This must be true, false or contained.");
        return;
    case TABLE_WORD:
        expect_words(key->words, out, size);
        return;
    case TABLE_INT:
        snprintf(out, size, "This must be a whole number from %" PRId64 " to %" PRId64 ".",
                 key->min, key->max);
        return;
    case TABLE_TEXT:
        snprintf(out, size, "This must be a text of at most %" PRId64 " bytes.", key->max);
        return;
    case TABLE_LIST:
        snprintf(out, size, "This must be a list of at most %" PRId64 " texts.", key->max);
        return;
    case TABLE_INTS:
        snprintf(out, size,
                 "This must be a list of at most %d whole numbers from %" PRId64 " to %" PRId64 ".",
                 TABLE_MAX_PORTS, key->min, key->max);
        return;
    case TABLE_SECTION:
        snprintf(out, size, "This must hold settings, as KEY: VALUE lines.");
        return;
    case TABLE_ROWS:
        snprintf(out, size, "This must be a list of at most %d entries of KEY: VALUE lines.",
                 TABLE_MAX_ROWS);
        return;
    case TABLE_NAMED:
        snprintf(out, size, "This must hold names, each with KEY: VALUE lines.");
        return;
    }
}

static const struct table_key *find_key(const struct table_set *set, const char *name, size_t len)
{
    for (size_t i = 0; set != NULL && i < set->n; i++) {
        if (strlen(set->keys[i].name) == len && strncmp(set->keys[i].name, name, len) == 0) {
            return &set->keys[i];
        }
    }
    return NULL;
}

/* The row of the table that `path` leads to, or NULL. */
static const struct table_key *find_row(const char *path)
{
    const struct table_key *key = NULL;
    const struct table_set *set = &table_top;
    while (*path != '\0') {
        size_t len = strcspn(path, ".");
        bool is_name = key != NULL && key->type == TABLE_NAMED;
        const struct table_key *next = is_name ? NULL : find_key(set, path, len);
        if (!is_name && next == NULL) {
            return key;
        }
        set = is_name ? key->set : next->set;
        key = next;
        path += len;
        path += *path == '.' ? 1 : 0;
    }
    return key;
}

/* True when `path` without its [N]s is `keys`. */
static bool is_at(const char *path, const char *keys)
{
    while (*path != '\0') {
        size_t index = *path == '[' ? 1 + strspn(path + 1, "0123456789") : 0;
        if (index > 0 && path[index] == ']') {
            path += index + 1;
        } else if (*path++ != *keys++) {
            return false;
        }
    }
    return *keys == '\0';
}

/* The node libcyaml means: the first with these keys from its line on. Its own line is that of the
 * last thing it took in. */
static const struct node *find_meant(const struct slots *slots, const char *keys)
{
    for (size_t i = 0; i < slots->nodes->n; i++) {
        const struct node *node = slots->nodes->all[i];
        if (node->line >= slots->complaint.line && is_at(node->path, keys)) {
            return node;
        }
    }
    return NULL;
}

static enum gh_code refuse_loaded(const struct slots *slots, struct gh_err *err)
{
    const struct complaint *complaint = &slots->complaint;
    bool is_unknown = complaint->key[0] != '\0';
    char keys[NODE_PATH * 2];
    char expect[200] = "This must hold settings, as KEY: VALUE lines.";
    snprintf(keys, sizeof keys, "%s%s%s", complaint->path,
             is_unknown && complaint->path[0] != '\0' ? "." : "", complaint->key);
    const struct table_key *key = find_row(complaint->path);
    if (is_unknown) {
        snprintf(expect, sizeof expect, "There is no such key.");
    } else if (key != NULL) {
        slots_expect(key, expect, sizeof expect);
    }
    const struct node *node = find_meant(slots, keys);
    if (node != NULL) {
        return nodes_refuse_line(slots->nodes, node->line, node->path, err, expect);
    }
    return nodes_refuse_line(slots->nodes, complaint->line, keys, err, expect);
}

enum gh_code slots_load(const struct nodes *nodes, const char *data, size_t len, struct slots **ret,
                        struct gh_err *err)
{
    gh_auto(slots_freep) struct slots *slots = calloc(1, sizeof *slots);
    if (slots == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory to read the configuration.");
    }
    slots->nodes = nodes;
    GH_TRY(find_names(slots, err));
    slots->top = (struct cyaml_schema_value){
        .type = CYAML_MAPPING,
        .flags = CYAML_FLAG_POINTER,
        .data_size = (uint32_t)(table_top.n * sizeof(struct slot)),
        .mapping = {.fields = make_set(slots, &table_top)},
    };
    struct cyaml_config config = make_config(&slots->complaint);
    cyaml_err_t rc = cyaml_load_data((const uint8_t *)data, len, &config, &slots->top,
                                     (cyaml_data_t **)&slots->values, NULL);
    if (rc == CYAML_ERR_OOM) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory to read the configuration.");
    }
    if (rc != CYAML_OK) {
        return refuse_loaded(slots, err);
    }
    *ret = gh_steal(&slots);
    return GH_OK;
}

void slots_free(struct slots *slots)
{
    if (slots == NULL) {
        return;
    }
    struct cyaml_config config = make_config(NULL);
    if (slots->values != NULL) {
        cyaml_free(&config, &slots->top, slots->values, 0);
    }
    free(slots);
}

void slots_freep(struct slots **slots)
{
    slots_free(*slots);
}

struct slot *slots_top(const struct slots *slots)
{
    return slots != NULL ? slots->values : NULL;
}

size_t slots_count(const struct slots *slots)
{
    return slots->n_names;
}

const char *slots_name(const struct slots *slots, size_t i)
{
    return slots->names[i];
}
