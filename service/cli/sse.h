/* sse: server-sent events, read piece by piece, bounded. Pure. */
#ifndef GH_CLI_SSE_H
#define GH_CLI_SSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define CLI_SSE_MAX (8U << 20) /* bytes of one event */
#define CLI_SSE_ID 128         /* bytes of an event id with the NUL */

struct cli_sse {
    struct gh_buf line;  /* the unfinished line */
    struct gh_buf data;  /* of the unfinished event */
    char type[64];       /* of the unfinished event; "" is "message" */
    char id[CLI_SSE_ID]; /* of the last finished event with one; "" before */
    char new_id[CLI_SSE_ID];
    bool was_cr; /* a LF that follows belongs to the line end before */
};

/* One event; all borrowed for the call. Return false to stop. */
typedef bool cli_sse_fn(const char *type, const char *id, const char *data, void *cookie);

/* Feed bytes. Returns false when `fn` stopped or an event is over the bound. */
bool cli_sse_feed(struct cli_sse *sse, const char *bytes, size_t len, cli_sse_fn *fn, void *cookie);

/* Forget an unfinished event (the connection broke); the last id stays. */
void cli_sse_reset(struct cli_sse *sse);
void cli_sse_fini(struct cli_sse *sse);

#endif
