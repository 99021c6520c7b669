#include "config/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/auto.h"

#define MAX_DEPTH 8
#define MAX_NODES 20000

/* One open mapping or list. */
struct level {
    char path[NODE_PATH];
    bool is_list;
    size_t n;            /* entries so far, of a list */
    char key[NODE_PATH]; /* the key that waits for its value, of a mapping */
    bool has_key;
    size_t key_line;
};

struct reader {
    yaml_parser_t parser;
    struct nodes *nodes;
    struct level levels[MAX_DEPTH];
    size_t depth;
    size_t documents;
    struct gh_err *err;
};

static void drop_parser(yaml_parser_t **parser)
{
    yaml_parser_delete(*parser);
}

static void drop_event(yaml_event_t *event)
{
    yaml_event_delete(event);
}

static void free_node(struct node *node)
{
    if (node != NULL) {
        free(node->path);
        free(node->key);
        free(node->text);
        free(node);
    }
}

static void free_nodep(struct node **node)
{
    free_node(*node);
}

void nodes_free(struct nodes *nodes)
{
    if (nodes == NULL) {
        return;
    }
    gh_map_fini(&nodes->by_path);
    for (size_t i = 0; i < nodes->n; i++) {
        free_node(nodes->all[i]);
    }
    free(nodes->all);
    free(nodes);
}

void nodes_freep(struct nodes **nodes)
{
    nodes_free(*nodes);
}

const struct node *nodes_find(const struct nodes *nodes, const char *path)
{
    return gh_map_find(&nodes->by_path, path);
}

/* The line of `path`, else of the nearest thing around it, else 1. */
static size_t find_line(const struct nodes *nodes, const char *path)
{
    char outer[NODE_PATH];
    snprintf(outer, sizeof outer, "%s", path);
    for (;;) {
        const struct node *node = nodes_find(nodes, outer);
        if (node != NULL) {
            return node->line;
        }
        char *cut = strrchr(outer, '[');
        char *dot = strrchr(outer, '.');
        if (dot != NULL && (cut == NULL || dot > cut)) {
            cut = dot;
        }
        if (cut == NULL) {
            return 1;
        }
        *cut = '\0';
    }
}

/* A key comes from the file: show it without bytes that could forge a line on a terminal. */
static void show(char *out, size_t size, const char *text)
{
    size_t n = 0;
    for (; text[n] != '\0' && n + 1 < size; n++) {
        out[n] = (text[n] > ' ' && text[n] <= '~') ? text[n] : '?';
    }
    out[n] = '\0';
}

enum gh_code nodes_refuse_line(const struct nodes *nodes, size_t line, const char *path,
                               struct gh_err *err, const char *sentence)
{
    char key[96];
    show(key, sizeof key, path);
    return gh_fail(err, GH_CONFIG, "%s:%zu: %s%s%s", nodes->file, line > 0 ? line : 1, key,
                   key[0] == '\0' ? "" : ": ", sentence);
}

enum gh_code nodes_refuse(const struct nodes *nodes, const char *path, struct gh_err *err,
                          const char *fmt, ...)
{
    char sentence[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, args);
    va_end(args);
    return nodes_refuse_line(nodes, find_line(nodes, path), path, err, sentence);
}

/* As nodes_refuse, while reading. */
static enum gh_code refuse(struct reader *r, size_t line, const char *path, const char *sentence)
{
    return nodes_refuse_line(r->nodes, line, path, r->err, sentence);
}

static enum gh_code out_of_memory(struct reader *r)
{
    return gh_fail(r->err, GH_NOMEM, "There is not enough memory to read %s.", r->nodes->file);
}

/* The path of the value that comes next. Returns false when it does not fit. */
static bool next_path(const struct reader *r, char out[NODE_PATH])
{
    if (r->depth == 0) {
        out[0] = '\0';
        return true;
    }
    const struct level *level = &r->levels[r->depth - 1];
    int n = 0;
    if (level->is_list) {
        n = snprintf(out, NODE_PATH, "%s[%zu]", level->path, level->n);
    } else {
        n = snprintf(out, NODE_PATH, "%s%s%s", level->path, level->path[0] == '\0' ? "" : ".",
                     level->key);
    }
    return n > 0 && n < NODE_PATH;
}

static bool reserve(struct nodes *nodes)
{
    if (nodes->n < nodes->cap) {
        return true;
    }
    size_t cap = nodes->cap == 0 ? 64 : nodes->cap * 2;
    struct node **all = realloc(nodes->all, cap * sizeof(struct node *));
    if (all == NULL) {
        return false;
    }
    nodes->all = all;
    nodes->cap = cap;
    return true;
}

/* Keep a finished node; takes it out of *node on success. */
static bool keep(struct nodes *nodes, struct node **node)
{
    if (!reserve(nodes) || !gh_map_put(&nodes->by_path, (*node)->path, *node)) {
        return false;
    }
    nodes->all[nodes->n++] = gh_steal(node);
    return true;
}

/* A value starts: add its node, and move its parent on. `proto` has kind, line, plain, text. */
static enum gh_code add_node(struct reader *r, const struct node *proto)
{
    char path[NODE_PATH];
    struct level *level = r->depth > 0 ? &r->levels[r->depth - 1] : NULL;
    bool is_member = level != NULL && !level->is_list;
    size_t line = is_member ? level->key_line : proto->line;
    if (!next_path(r, path) || r->nodes->n >= MAX_NODES) {
        return refuse(r, line, "", "The file is larger than any configuration needs.");
    }
    if (nodes_find(r->nodes, path) != NULL) {
        return refuse(r, line, path, "This key is here twice.");
    }
    gh_auto(free_nodep) struct node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        return out_of_memory(r);
    }
    node->kind = proto->kind;
    node->is_plain = proto->is_plain;
    node->line = line;
    node->path = strdup(path);
    node->key = is_member ? strdup(level->key) : NULL;
    node->text = proto->text != NULL ? strdup(proto->text) : NULL;
    if (node->path == NULL || (is_member && node->key == NULL) ||
        (proto->text != NULL && node->text == NULL) || !keep(r->nodes, &node)) {
        return out_of_memory(r);
    }
    if (level != NULL) {
        level->n++;
        level->has_key = false;
    }
    return GH_OK;
}

static enum gh_code open_level(struct reader *r, const yaml_event_t *event, bool is_list)
{
    size_t line = event->start_mark.line + 1;
    struct level *outer = r->depth > 0 ? &r->levels[r->depth - 1] : NULL;
    if (outer != NULL && !outer->is_list && !outer->has_key) {
        return refuse(r, line, outer->path, "A key must be a plain word.");
    }
    if (r->depth == MAX_DEPTH) {
        return refuse(r, line, "", "This is nested deeper than any setting.");
    }
    struct level level = {.is_list = is_list};
    if (!next_path(r, level.path)) {
        return refuse(r, line, "", "The file is larger than any configuration needs.");
    }
    struct node proto = {.kind = is_list ? NODE_LIST : NODE_MAP, .line = line};
    GH_TRY(add_node(r, &proto));
    r->levels[r->depth++] = level;
    return GH_OK;
}

static enum gh_code take_key(struct reader *r, const char *text, size_t line)
{
    struct level *level = &r->levels[r->depth - 1];
    if (text[0] == '\0' || strlen(text) >= NODE_PATH) {
        return refuse(r, line, level->path, "A key must be a plain word.");
    }
    snprintf(level->key, sizeof level->key, "%s", text);
    level->key_line = line;
    level->has_key = true;
    return GH_OK;
}

/* What YAML reads as null. Left to libcyaml it would be an empty string, and an empty string
 * switches a listener off. */
static bool is_null(const struct node *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    for (size_t i = 0; node->is_plain && nulls[i] != NULL; i++) {
        if (strcmp(node->text, nulls[i]) == 0) {
            return true;
        }
    }
    return false;
}

static enum gh_code take_scalar(struct reader *r, const yaml_event_t *event)
{
    size_t line = event->start_mark.line + 1;
    char *text = (char *)event->data.scalar.value;
    struct level *level = r->depth > 0 ? &r->levels[r->depth - 1] : NULL;
    if (strlen(text) != event->data.scalar.length) {
        return refuse(r, line, level != NULL ? level->path : "", "A value holds a NUL character.");
    }
    if (level != NULL && !level->is_list && !level->has_key) {
        return take_key(r, text, line);
    }
    struct node proto = {.kind = NODE_SCALAR, .line = line, .text = text};
    proto.is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    char path[NODE_PATH];
    if (level == NULL && is_null(&proto)) {
        return GH_OK; /* a document of comments only */
    }
    if (is_null(&proto) && next_path(r, path)) {
        return refuse(r, line, path, "This has no value; give one or take the line out.");
    }
    return add_node(r, &proto);
}

/* Anchors would allow aliases, and aliases allow bombs; tags change a value's type unseen. */
static enum gh_code check_decoration(struct reader *r, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL;
    const yaml_char_t *tag = NULL;
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    char path[NODE_PATH];
    if ((anchor == NULL && tag == NULL) || !next_path(r, path)) {
        return GH_OK;
    }
    return refuse(r, event->start_mark.line + 1, path,
                  "Anchors, aliases and tags are not used here.");
}

static enum gh_code take_event(struct reader *r, const yaml_event_t *event)
{
    size_t line = event->start_mark.line + 1;
    GH_TRY(check_decoration(r, event));
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return ++r->documents == 1
                   ? GH_OK
                   : refuse(r, line, "", "A second document starts here; there may be one.");
    case YAML_ALIAS_EVENT:
        return refuse(r, line, "", "Anchors, aliases and tags are not used here.");
    case YAML_SCALAR_EVENT:
        return take_scalar(r, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_level(r, event, true);
    case YAML_MAPPING_START_EVENT:
        return open_level(r, event, false);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        return GH_OK;
    default:
        return GH_OK;
    }
}

static enum gh_code refuse_syntax(struct reader *r)
{
    const yaml_parser_t *parser = &r->parser;
    if (parser->error == YAML_MEMORY_ERROR) {
        return out_of_memory(r);
    }
    char sentence[160];
    snprintf(sentence, sizeof sentence, "This is not YAML: %s.",
             parser->problem != NULL ? parser->problem : "cannot be read");
    return refuse(r, parser->problem_mark.line + 1, "", sentence);
}

static enum gh_code read_events(struct reader *r)
{
    for (;;) {
        gh_auto(drop_event) yaml_event_t event;
        memset(&event, 0, sizeof event);
        if (yaml_parser_parse(&r->parser, &event) == 0) {
            return refuse_syntax(r);
        }
        GH_TRY(take_event(r, &event));
        if (event.type == YAML_STREAM_END_EVENT) {
            return GH_OK;
        }
    }
}

enum gh_code nodes_read(const char *file, const char *data, size_t len, struct nodes **ret,
                        struct gh_err *err)
{
    gh_auto(nodes_freep) struct nodes *nodes = calloc(1, sizeof *nodes);
    gh_autofree struct reader *r = calloc(1, sizeof *r);
    if (nodes == NULL || r == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory to read the configuration.");
    }
    size_t name_len = strlen(file);
    bool is_long = name_len >= NODE_FILE;
    snprintf(nodes->file, sizeof nodes->file, "%s%s", is_long ? "..." : "",
             is_long ? file + name_len - NODE_FILE + 4 : file);
    r->nodes = nodes;
    r->err = err;
    if (yaml_parser_initialize(&r->parser) == 0) {
        return out_of_memory(r);
    }
    gh_auto(drop_parser) yaml_parser_t *parser = &r->parser;
    yaml_parser_set_input_string(parser, (const unsigned char *)data, len);
    GH_TRY(read_events(r));
    *ret = gh_steal(&nodes);
    return GH_OK;
}
