/* call: what every command does: parse, find the service, send, complain. */
#ifndef GH_CLI_CALL_H
#define GH_CLI_CALL_H

#include "cli/args.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/find.h"
#include "cli/out.h"

#define CLI_SHORT_ID 8 /* characters of an id's tail that tables show */
#define CLI_GO_ON (-1) /* not an exit code */

struct cli {
    const char *name; /* of the command; borrowed */
    struct cli_args args;
    struct cli_out out;
    char *state_dir;            /* owned */
    struct cli_service service; /* after cli_connect */
    struct cli_client *client;  /* owned; after cli_connect */
    int signal_fd;              /* readable after SIGINT or SIGTERM; -1: they end us as usual */
};

/* What a command takes. */
struct cli_syntax {
    const struct cli_opt *opts; /* NULL: only the common ones */
    size_t min, max;            /* number of operands */
};

/* Parse. CLI_GO_ON, or the exit code: of usage errors, of --help (printed). *cli is always to be
 * given to cli_fini; made for gh_auto. */
int cli_begin(struct cli *cli, int argc, char **argv, const struct cli_syntax *syntax);
void cli_fini(struct cli *cli);

/* Find the service and make a client with the token of `role`; a client made before is replaced.
 * CLI_GO_ON, or the exit code after a message. */
int cli_connect(struct cli *cli, enum cli_role role);

/* The same without a message. */
enum gh_code cli_reach(struct cli *cli, enum cli_role role, struct gh_err *err);

/* From now on SIGINT and SIGTERM make cli->signal_fd readable instead of ending the process. */
void cli_catch_signals(struct cli *cli);

/* Wait `ms`. Returns true when a signal came first. */
bool cli_pause(const struct cli *cli, int ms);

/* Send and demand a 2xx answer. CLI_GO_ON, or the exit code after a message (and, with --json, the
 * problem on standard output). */
int cli_send(struct cli *cli, const struct cli_request *request, struct cli_answer *answer);
int cli_get(struct cli *cli, const char *path, struct cli_answer *answer);

/* Print a non-2xx or missing answer; returns the exit code. */
int cli_complain(struct cli *cli, const struct cli_answer *answer, const struct gh_err *err);

/* "gatehouse: text" on stderr, neutralised. */
void cli_say(const char *fmt, ...) GH_PRINTF(1, 2);

/* cli_say, with a hint to --help behind it; returns CLI_USAGE. */
int cli_usage(const struct cli *cli, const char *fmt, ...) GH_PRINTF(2, 3);

/* Print an answer as it is (--json), flush, return CLI_DONE or CLI_FAILED. */
int cli_print_json(struct cli *cli, const struct cli_answer *answer);

/* Flush; `code`, or CLI_FAILED when standard output cannot be written. */
int cli_finish(struct cli *cli, int code);

/* Call `fn` for each item of the list at `path`, page by page. `item` is borrowed for the call.
 * CLI_GO_ON, or the exit code after a message. */
typedef void cli_item_fn(const struct json_t *item, void *cookie);
int cli_list(struct cli *cli, const char *path, cli_item_fn *fn, void *cookie);

/* Print all pages of a list as one JSON list; returns the exit code. */
int cli_print_list(struct cli *cli, const char *path);

/* Find the one object whose id has `word` in its tail (at least 6 characters; a whole id is taken
 * as it is) in the first list of `paths` (NULL-ended) that has any. Ids share their beginnings, so
 * any part of the tail will do. CLI_GO_ON with ret filled, or the exit code after a message. */
int cli_resolve(struct cli *cli, const char *const paths[], const char prefix[4], const char *word,
                char ret[64]);

/* The same for sessions, active ones first. */
int cli_resolve_session(struct cli *cli, const char *word, char ret[64]);

/* The approval that `word` (an id or a part of its tail) means. CLI_GO_ON, or the exit code after a
 * message. */
int cli_approval_get(struct cli *cli, const char *word, struct cli_answer *answer);

/* The tail of an id that tables show; borrowed from it. */
const char *cli_short_id(const char *id);

/* A string member of `obj`, or `fallback`. Borrowed. */
const char *cli_str(const struct json_t *obj, const char *key, const char *fallback);

/* Open (or find again) the session of the folder `dir`, owned by the agent's token. CLI_GO_ON with
 * *ret_id (64 bytes) and *ret_dir (owned by caller) set, or the exit code after a message. */
int cli_session_open(struct cli *cli, const char *dir, const char *agent, char ret_id[64],
                     char **ret_dir);

#endif
