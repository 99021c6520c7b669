/* ask_body: the words of `gatehouse ask` and `explain` as the JSON of a decision request. */
#ifndef GH_CLI_ASK_BODY_H
#define GH_CLI_ASK_BODY_H

#include "base/buf.h"
#include "cli/args.h"

/* The options, borrowed from argv; absent ones are NULL. */
struct cli_ask {
    const char *session;
    const char *dir;
    const char *agent;
    const char *tool;
    const char *narration;
    const char *response_id;
    const char *new_file;
    const char *cwd;
    const char *shell;
    int64_t wait_s; /* -1: until somebody or the deadline settles it */
    bool no_wait;
    bool plan;
};

/* Check action and operands before anything is sent. Fails with GH_INVALID. */
GH_MUST_USE enum gh_code cli_ask_check(const struct cli_ask *ask, const struct cli_args *args,
                                       struct gh_err *err);

/* Append the request's JSON. `working_dir` is the session's: relative paths are below it. With
 * --new-file the old content is read from the target. Fails with GH_INVALID (not text),
 * GH_TOO_LARGE or GH_IO. */
GH_MUST_USE enum gh_code cli_ask_body(const struct cli_ask *ask, const struct cli_args *args,
                                      const char *working_dir, struct gh_buf *out,
                                      struct gh_err *err);

#endif
