#include "cli/args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/out.h"

#define MAX_SECS (INT64_C(100) * 365 * 86400)

/* A whole number with at most one unit letter behind it; -1 when it is none. */
static int64_t number_of(const char *text, const char **ret_unit)
{
    if (text[0] < '0' || text[0] > '9') {
        return -1;
    }
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || value > MAX_SECS) {
        return -1;
    }
    *ret_unit = end;
    return value;
}

int64_t cli_args_secs(const char *text)
{
    static const struct {
        const char *unit;
        int64_t secs;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    const char *unit = NULL;
    int64_t value = number_of(text, &unit);
    for (size_t i = 0; value >= 0 && i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(unit, units[i].unit) == 0) {
            return value > MAX_SECS / units[i].secs ? -1 : value * units[i].secs;
        }
    }
    return -1;
}

static int64_t count_of(const char *text)
{
    const char *unit = NULL;
    int64_t value = number_of(text, &unit);
    return value >= 0 && *unit == '\0' ? value : -1;
}

/* The entry whose name `word` starts with, up to its end or a "=". */
static const struct cli_opt *find_opt(const struct cli_opt *opts, const char *word)
{
    size_t len = strcspn(word, "=");
    for (; opts != NULL && opts->kind != CLI_OPT_END; opts++) {
        if (strlen(opts->name) == len && strncmp(opts->name, word, len) == 0) {
            return opts;
        }
    }
    return NULL;
}

static enum gh_code store_value(const struct cli_opt *opt, const char *value, struct gh_err *err)
{
    if (opt->kind == CLI_OPT_TEXT) {
        *(const char **)opt->to = value;
        return GH_OK;
    }
    int64_t number = opt->kind == CLI_OPT_SECS ? cli_args_secs(value) : count_of(value);
    if (number < 0) {
        return gh_fail(err, GH_INVALID, "%s needs %s.", opt->name,
                       opt->kind == CLI_OPT_SECS ? "a time such as 90, 5m, 2h or 30d"
                                                 : "a whole number");
    }
    *(int64_t *)opt->to = number;
    return GH_OK;
}

/* Take the option at argv[*at] and, where it has one, its value. */
static enum gh_code take_opt(const struct cli_opt *opt, int argc, char **argv, int *at,
                             struct gh_err *err)
{
    const char *equals = strchr(argv[*at], '=');
    if (opt->kind == CLI_OPT_FLAG) {
        if (equals != NULL) {
            return gh_fail(err, GH_INVALID, "%s takes no value.", opt->name);
        }
        *(bool *)opt->to = true;
        return GH_OK;
    }
    if (equals != NULL) {
        return store_value(opt, equals + 1, err);
    }
    if (*at + 1 >= argc) {
        return gh_fail(err, GH_INVALID, "%s needs a value.", opt->name);
    }
    *at += 1;
    return store_value(opt, argv[*at], err);
}

static enum gh_code take_word(int argc, char **argv, int *at, const struct cli_opt *const tables[2],
                              struct gh_err *err)
{
    const struct cli_opt *opt = find_opt(tables[0], argv[*at]);
    if (opt == NULL) {
        opt = find_opt(tables[1], argv[*at]);
    }
    if (opt == NULL) {
        gh_auto(gh_buf_fini) struct gh_buf shown = GH_BUF_INIT;
        text_for_terminal(argv[*at], 60, &shown);
        return gh_fail(err, GH_INVALID, "There is no option %s.", gh_buf_str(&shown));
    }
    return take_opt(opt, argc, argv, at, err);
}

enum gh_code cli_args_parse(int argc, char **argv, const struct cli_opt *opts, struct cli_args *ret,
                            struct gh_err *err)
{
    *ret = (struct cli_args){.rest = argv + 1};
    const struct cli_opt common[] = {{"--json", CLI_OPT_FLAG, &ret->json},
                                     {"--help", CLI_OPT_FLAG, &ret->help},
                                     {"-h", CLI_OPT_FLAG, &ret->help},
                                     {"--state-dir", CLI_OPT_TEXT, &ret->state_dir},
                                     {NULL, CLI_OPT_END, NULL}};
    const struct cli_opt *const tables[2] = {common, opts};
    bool is_over = false;
    for (int at = 1; at < argc; at++) {
        if (!is_over && strcmp(argv[at], "--") == 0) {
            is_over = true;
            ret->n_front = ret->n_rest;
        } else if (!is_over && argv[at][0] == '-' && argv[at][1] != '\0') {
            GH_TRY(take_word(argc, argv, &at, tables, err));
        } else {
            ret->rest[ret->n_rest++] = argv[at];
        }
    }
    ret->n_front = is_over ? ret->n_front : ret->n_rest;
    return GH_OK;
}
