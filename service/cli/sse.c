#include "cli/sse.h"

#include <stdio.h>
#include <string.h>

void cli_sse_reset(struct cli_sse *sse)
{
    gh_buf_fini(&sse->line);
    gh_buf_fini(&sse->data);
    sse->type[0] = '\0';
    snprintf(sse->new_id, sizeof sse->new_id, "%s", sse->id);
    sse->was_cr = false;
}

void cli_sse_fini(struct cli_sse *sse)
{
    cli_sse_reset(sse);
    sse->id[0] = '\0';
}

static void take_field(struct cli_sse *sse, const char *name, const char *value)
{
    if (strcmp(name, "data") == 0) {
        if (sse->data.len > 0) {
            gh_buf_putc(&sse->data, '\n');
        }
        gh_buf_puts(&sse->data, value);
    } else if (strcmp(name, "event") == 0) {
        snprintf(sse->type, sizeof sse->type, "%s", value);
    } else if (strcmp(name, "id") == 0 && strlen(value) < sizeof sse->new_id) {
        snprintf(sse->new_id, sizeof sse->new_id, "%s", value);
    }
}

/* An empty line ends the event. */
static bool finish_event(struct cli_sse *sse, cli_sse_fn *fn, void *cookie)
{
    bool go_on = true;
    snprintf(sse->id, sizeof sse->id, "%s", sse->new_id);
    if (sse->data.len > 0) {
        go_on = fn(sse->type[0] == '\0' ? "message" : sse->type, sse->id, gh_buf_str(&sse->data),
                   cookie);
    }
    gh_buf_fini(&sse->data);
    sse->type[0] = '\0';
    return go_on;
}

static bool finish_line(struct cli_sse *sse, cli_sse_fn *fn, void *cookie)
{
    bool go_on = true;
    if (sse->line.len == 0) {
        go_on = finish_event(sse, fn, cookie);
    } else if (sse->line.data[0] != ':') {
        char *colon = strchr(sse->line.data, ':');
        const char *value = "";
        if (colon != NULL) {
            *colon = '\0';
            value = colon[1] == ' ' ? colon + 2 : colon + 1;
        }
        take_field(sse, sse->line.data, value);
    }
    gh_buf_fini(&sse->line);
    return go_on;
}

bool cli_sse_feed(struct cli_sse *sse, const char *bytes, size_t len, cli_sse_fn *fn, void *cookie)
{
    for (size_t i = 0; i < len; i++) {
        bool is_tail = bytes[i] == '\n' && sse->was_cr;
        sse->was_cr = bytes[i] == '\r';
        if (is_tail) {
            continue;
        }
        if (bytes[i] == '\n' || bytes[i] == '\r') {
            if (!finish_line(sse, fn, cookie)) {
                return false;
            }
        } else {
            gh_buf_putc(&sse->line, bytes[i]);
        }
        if (sse->line.failed || sse->data.failed || sse->line.len + sse->data.len > CLI_SSE_MAX) {
            return false;
        }
    }
    return true;
}
