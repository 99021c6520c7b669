/* find: where the service listens and which token is ours.
 *
 * GATEHOUSE_URL (with GATEHOUSE_TOKEN or GATEHOUSE_TOKEN_FILE) wins; otherwise <state>/run.json and
 * the token files beside it. A local token is never sent to an address from the environment, and
 * run.json is believed only while the process it names is alive, ours and of this boot: whoever
 * takes a dead service's port gets no token.
 */
#ifndef GH_CLI_FIND_H
#define GH_CLI_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

#define CLI_SECRET 256 /* bytes of a token with the NUL */
#define CLI_LISTEN 64  /* bytes of "127.0.0.1:NNNN" with the NUL */
#define CLI_SOCKET 108 /* bytes of a unix socket's path with the NUL; the kernel's limit */

enum cli_role { CLI_AS_AGENT = 0, CLI_AS_APPROVER };

/* The content of run.json. */
struct cli_run {
    int64_t pid;
    char boot_id[GH_BOOT_ID];
    char listen[CLI_LISTEN]; /* "" when TCP is off */
    char socket[CLI_SOCKET]; /* "" when the socket is off */
};

struct cli_service {
    char *url;               /* without a slash at its end; owned */
    char socket[CLI_SOCKET]; /* "" for TCP */
    char listen[CLI_LISTEN]; /* where the page is, or "" */
    char secret[CLI_SECRET];
};

/* Read and check <state_dir>/run.json. Fails with GH_NOT_FOUND (no service runs; the file is absent
 * or stale: *ret is filled in the latter case) or GH_IO (the file cannot be trusted). */
GH_MUST_USE enum gh_code cli_find_run(const char *state_dir, struct cli_run *ret,
                                      struct gh_err *err);

/* Find the service and the token of `role`. Fails with GH_NOT_FOUND (no service runs),
 * GH_UNAUTHORIZED (no usable token) or GH_IO. *ret is zeroed first and always to be given to
 * cli_service_fini. */
GH_MUST_USE enum gh_code cli_find(const char *state_dir, enum cli_role role,
                                  struct cli_service *ret, struct gh_err *err);

/* Free, and wipe the secret. */
void cli_service_fini(struct cli_service *service);

#endif
