/* client: one HTTP request at a time to the service. libcurl ends here.
 *
 * No proxies, no redirects, no netrc, http and https only; answers are bounded; the token goes into
 * a header and nowhere else. Before anything is sent over the unix socket its owner is checked.
 * Single-threaded.
 */
#ifndef GH_CLI_CLIENT_H
#define GH_CLI_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/find.h"

#define CLI_MAX_ANSWER_BYTES (64U << 20)
#define CLI_TIMEOUT_MS 30000

struct cli_client;

/* Why no HTTP answer arrived. */
enum cli_failure {
    CLI_F_NONE = 0,
    CLI_F_NO_SERVICE,  /* nobody listens: nothing was sent */
    CLI_F_LOST,        /* broken off, timed out, or longer than the bound */
    CLI_F_INTERRUPTED, /* the interrupt descriptor became readable */
    CLI_F_LOCAL        /* our own side: memory, a refused socket */
};

/* A piece of a streamed answer; return false to end the request (which then succeeded). */
typedef bool cli_data_fn(const char *data, size_t len, void *cookie);

struct cli_request {
    const char *method;          /* "GET", "POST", ... */
    const char *path;            /* from the first slash, query included, already escaped */
    const char *body;            /* JSON, or NULL */
    const char *accept;          /* NULL: application/json */
    const char *if_match;        /* without the quotes, or NULL */
    const char *idempotency_key; /* or NULL */
    const char *last_event_id;   /* or NULL */
    int64_t timeout_ms;   /* for the whole request; 0: CLI_TIMEOUT_MS; -1: none, but 60 s of silence
                             end it */
    int interrupt_fd;     /* readable: give up; 0: none */
    cli_data_fn *on_data; /* takes the body of a 2xx answer instead of `body` below; or NULL */
    void *cookie;         /* for on_data */
};

struct cli_answer {
    enum cli_failure failure;
    long status; /* HTTP status; 0 when none arrived */
    char *body;  /* owned; NUL-terminated; never NULL when an answer arrived */
    size_t len;
    struct json_t *json; /* owned; NULL when the body is not JSON */
};

/* Make a client of `service` (borrowed until freed). Fails with GH_NOMEM. */
GH_MUST_USE enum gh_code cli_client_new(const struct cli_service *service, struct cli_client **ret,
                                        struct gh_err *err);
void cli_client_free(struct cli_client *client);

/* Send and wait. GH_OK when an HTTP answer arrived, whatever its status; else GH_IO, and
 * ret->failure says which kind. *ret is zeroed first and always to be given to cli_answer_fini. */
GH_MUST_USE enum gh_code cli_client_send(struct cli_client *client,
                                         const struct cli_request *request, struct cli_answer *ret,
                                         struct gh_err *err);
void cli_answer_fini(struct cli_answer *answer);

/* Append "name=value" to a path, percent-encoded, behind "?" or "&" as needed. Nothing when value
 * is NULL. */
void cli_query(struct gh_buf *path, const char *name, const char *value);

/* Append one path segment, percent-encoded. */
void cli_segment(struct gh_buf *path, const char *text);

#endif
