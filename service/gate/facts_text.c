/* facts_text: what is gathered, as text: the target, its readings, its key. */
#include <stdio.h>
#include <string.h>

#include "gate/facts.h"

static bool is_by_name(enum gate_action action)
{
    return action == GATE_DELETE || action == GATE_MOVE;
}

const char *gate_facts_shown(const struct gate_facts *facts, bool is_to)
{
    const struct gate_path *path = is_to ? &facts->to : &facts->path;
    return is_by_name(facts->kernel.action) && path->leaf != NULL ? path->leaf : path->kernel;
}

static void put_readings(const struct gate_path *path, const char *shown, const char *prefix,
                         struct gh_jw *w)
{
    const struct {
        const char *name;
        const char *text;
    } readings[] = {{"kernel", path->kernel},
                    {"leaf", path->leaf},
                    {"lexical", path->lexical},
                    {"lexical_leaf", path->lexical_leaf}};
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
        char key[32];
        if (readings[i].text != NULL && strcmp(readings[i].text, shown) != 0) {
            snprintf(key, sizeof key, "%s%s", prefix, readings[i].name);
            gh_jw_str(w, key, readings[i].text);
        }
    }
}

void gate_facts_readings_json(const struct gate_facts *facts, struct gh_buf *out)
{
    struct gh_jw w = {out, false};
    gh_jw_obj(&w, NULL);
    if (facts->path.kernel != NULL) {
        put_readings(&facts->path, gate_facts_shown(facts, false), "", &w);
    }
    if (facts->to.kernel != NULL) {
        put_readings(&facts->to, gate_facts_shown(facts, true), "to_", &w);
    }
    gh_jw_end(&w);
}

static void put_command(const struct gate_facts *facts, const struct gate_target *target,
                        struct gh_jw *w)
{
    gh_jw_arr(w, "args");
    for (size_t i = 0; i < target->n_args; i++) {
        gh_jw_str(w, NULL, target->args[i]);
    }
    gh_jw_arr_end(w);
    gh_jw_str(w, "cwd", facts->cwd);
    gh_jw_str(w, "program", target->program);
}

void gate_facts_target_json(const struct gate_facts *facts, const struct gate_target *target,
                            struct gh_buf *out)
{
    struct gh_jw w = {out, false};
    gh_jw_obj(&w, NULL);
    switch (target->form) {
    case GATE_PATH:
        gh_jw_str(&w, "path", gate_facts_shown(facts, false));
        break;
    case GATE_MOVE_PATHS:
        gh_jw_str(&w, "from", gate_facts_shown(facts, false));
        gh_jw_str(&w, "to", gate_facts_shown(facts, true));
        break;
    case GATE_COMMAND:
        put_command(facts, target, &w);
        break;
    default:
        gh_jw_str(&w, "description", target->description);
        break;
    }
    gh_jw_end(&w);
}

/* Length before text: no content can be taken for a border. */
static void put_part(struct gh_buf *out, const char *text)
{
    text = text != NULL ? text : "";
    gh_buf_printf(out, "%zu:", strlen(text));
    gh_buf_puts(out, text);
    gh_buf_putc(out, ',');
}

/* All readings: a grant for one set says nothing about another that shares some of it. */
static void put_path(struct gh_buf *out, const struct gate_path *path)
{
    put_part(out, path->kernel);
    put_part(out, path->lexical);
    put_part(out, path->leaf);
    put_part(out, path->lexical_leaf);
}

void gate_facts_key(const struct gate_facts *facts, enum gate_action action,
                    const struct gate_target *target, const char *tool, const char *env_json,
                    struct gh_buf *out)
{
    put_part(out, gate_action_name(action));
    switch (target->form) {
    case GATE_PATH:
        put_path(out, &facts->path);
        break;
    case GATE_MOVE_PATHS:
        put_path(out, &facts->path);
        put_path(out, &facts->to);
        break;
    case GATE_COMMAND:
        put_part(out, target->program);
        put_part(out, facts->cwd);
        put_part(out, env_json);
        for (size_t i = 0; i < target->n_args; i++) {
            put_part(out, target->args[i]);
        }
        break;
    default:
        put_part(out, action == GATE_PERSISTENT_MEMORY ? tool : "");
        put_part(out, target->description);
        break;
    }
}
