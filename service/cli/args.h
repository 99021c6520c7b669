/* args: one small parser for every command's options and operands. Pure. */
#ifndef GH_CLI_ARGS_H
#define GH_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum cli_opt_kind {
    CLI_OPT_END = 0, /* ends a table */
    CLI_OPT_FLAG,    /* bool *: set to true */
    CLI_OPT_TEXT,    /* const char **: borrowed from argv */
    CLI_OPT_SECS,    /* int64_t *: seconds; "90", "90s", "5m", "2h", "30d" */
    CLI_OPT_COUNT    /* int64_t *: a whole number from 0 */
};

struct cli_opt {
    const char *name; /* with its dashes */
    enum cli_opt_kind kind;
    void *to; /* where the value goes; untouched when the option is absent */
};

struct cli_args {
    bool json;
    bool help;
    const char *state_dir; /* as given, or NULL; borrowed from argv */
    char **rest;           /* operands, inside argv (which is reordered) */
    size_t n_rest;
    size_t n_front; /* operands before "--"; n_rest when there was none */
};

/* Sort argv[1..argc) into options and operands: `--name value` and `--name=value`, options and
 * operands in any order, "--" ends the options. --json, --state-dir and --help are known to every
 * command. `opts` ends with CLI_OPT_END and may be NULL. Fails with GH_INVALID. */
GH_MUST_USE enum gh_code cli_args_parse(int argc, char **argv, const struct cli_opt *opts,
                                        struct cli_args *ret, struct gh_err *err);

/* Read seconds as CLI_OPT_SECS does; -1 when it is none (a value above 100 years is none). */
int64_t cli_args_secs(const char *text);

#endif
