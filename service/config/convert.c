#include "config/config.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* YAML to JSON for a document of our own: scalars that look like numbers, booleans or null become
 * them, everything else is a string. Aliases and several documents are refused. */

#define MAX_DEPTH 64

struct convert {
    struct gh_jw w;
    bool is_map[MAX_DEPTH];
    bool wants_key[MAX_DEPTH];
    int depth;
    char *key; /* of the next value in a map, or NULL; owned */
};

static bool is_number(const char *text)
{
    char *end = NULL;
    if (text[0] == '\0' || strspn(text, "-0123456789.eE+") != strlen(text)) {
        return false;
    }
    (void)strtod(text, &end);
    return *end == '\0' && text[strlen(text) - 1] != '.';
}

static void put_scalar(struct convert *c, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (is_plain && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0 || is_number(text))) {
        gh_jw_raw(&c->w, c->key, text);
    } else if (is_plain &&
               (strcmp(text, "null") == 0 || strcmp(text, "~") == 0 || text[0] == '\0')) {
        gh_jw_null(&c->w, c->key);
    } else {
        gh_jw_str(&c->w, c->key, text);
    }
}

/* A value was written: the next scalar of a map is a key again. */
static void value_done(struct convert *c)
{
    free(c->key);
    c->key = NULL;
    if (c->depth > 0 && c->is_map[c->depth - 1]) {
        c->wants_key[c->depth - 1] = true;
    }
}

static bool on_scalar(struct convert *c, const yaml_event_t *event)
{
    if (c->depth > 0 && c->is_map[c->depth - 1] && c->wants_key[c->depth - 1]) {
        c->key = strdup((const char *)event->data.scalar.value);
        c->wants_key[c->depth - 1] = false;
        return c->key != NULL;
    }
    put_scalar(c, event);
    value_done(c);
    return true;
}

static bool on_open(struct convert *c, bool is_map)
{
    if (c->depth == MAX_DEPTH) {
        return false;
    }
    if (is_map) {
        gh_jw_obj(&c->w, c->key);
    } else {
        gh_jw_arr(&c->w, c->key);
    }
    free(c->key);
    c->key = NULL;
    c->is_map[c->depth] = is_map;
    c->wants_key[c->depth] = is_map;
    c->depth++;
    return true;
}

static bool on_close(struct convert *c, bool is_map)
{
    if (is_map) {
        gh_jw_end(&c->w);
    } else {
        gh_jw_arr_end(&c->w);
    }
    c->depth--;
    value_done(c);
    return true;
}

static bool on_event(struct convert *c, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return on_scalar(c, event);
    case YAML_MAPPING_START_EVENT:
        return on_open(c, true);
    case YAML_SEQUENCE_START_EVENT:
        return on_open(c, false);
    case YAML_MAPPING_END_EVENT:
        return on_close(c, true);
    case YAML_SEQUENCE_END_EVENT:
        return on_close(c, false);
    case YAML_ALIAS_EVENT:
        return false;
    default:
        return true;
    }
}

static bool convert_all(struct convert *c, yaml_parser_t *parser)
{
    bool is_done = false;
    while (!is_done) {
        yaml_event_t event;
        if (yaml_parser_parse(parser, &event) == 0) {
            return false;
        }
        bool is_ok = on_event(c, &event);
        is_done = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
        if (!is_ok) {
            return false;
        }
    }
    return true;
}

enum gh_code config_yaml_to_json(const char *text, size_t len, struct gh_buf *out,
                                 struct gh_err *err)
{
    yaml_parser_t parser;
    struct convert c = {.w = {out, false}};
    if (yaml_parser_initialize(&parser) == 0) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    bool is_ok = convert_all(&c, &parser);
    yaml_parser_delete(&parser);
    free(c.key);
    if (!is_ok || out->failed) {
        return gh_fail(err, GH_INTERNAL, "The document cannot be converted.");
    }
    return GH_OK;
}
