#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/call.h"
#include "cli/commands.h"

static int run_help(int argc, char **argv);
static int run_version(int argc, char **argv);

static const struct cli_command cmd_version = {
    .name = "version",
    .summary = "print the version",
    .help = "gatehouse version [--json]\n",
    .run = run_version,
};

static const struct cli_command cmd_help = {
    .name = "help",
    .summary = "explain a command by example",
    .help = "gatehouse help [COMMAND]\n\n"
            "  gatehouse help            the list of commands\n"
            "  gatehouse help ask        how to ask the gate\n",
    .run = run_help,
};

/* The order of the list people see. */
static const struct cli_command *const commands[] = {
    &cli_cmd_status,  &cli_cmd_open,   &cli_cmd_pending, &cli_cmd_show,     &cli_cmd_approve,
    &cli_cmd_deny,    &cli_cmd_extend, &cli_cmd_cancel,  &cli_cmd_watch,    &cli_cmd_ask,
    &cli_cmd_explain, &cli_cmd_exec,   &cli_cmd_scan,    &cli_cmd_sessions, &cli_cmd_mode,
    &cli_cmd_taint,   &cli_cmd_grants, &cli_cmd_audit,   &cli_cmd_token,    &cli_cmd_config,
    &cli_cmd_doctor,  &cmd_version,    &cmd_help,
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

static const char exit_codes[] =
    "\nEvery command takes --json, --state-dir DIR and --help.\n"
    "The service is found by run.json in the state folder, or by GATEHOUSE_URL with\n"
    "GATEHOUSE_TOKEN_FILE (or GATEHOUSE_TOKEN).\n"
    "Exit codes: 0 done or allowed, 1 failed, 2 usage, 3 denied, 4 timed out\n"
    "(denied), 5 the service cannot be reached.\n";

static const struct cli_command *find_command(const char *name, const struct cli_command *serve)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return serve != NULL && strcmp(serve->name, name) == 0 ? serve : NULL;
}

static void print_list(FILE *to, const struct cli_command *serve)
{
    fputs("gatehouse COMMAND [OPTIONS]\n\n", to);
    if (serve != NULL) {
        fprintf(to, "  %-10s %s\n", serve->name, serve->summary);
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs(exit_codes, to);
}

static int print_help(const char *name, const struct cli_command *serve)
{
    const struct cli_command *command = find_command(name, serve);
    if (command == NULL) {
        cli_say("There is no command \"%s\"; the list: gatehouse help", name);
        return CLI_USAGE;
    }
    printf("%s: %s\n\n%s", command->name, command->summary, command->help);
    return fflush(stdout) == 0 ? CLI_DONE : CLI_FAILED;
}

int cli_help(const char *name)
{
    return print_help(name, NULL);
}

/* The list, or the help of the command that is named. */
static int help_on(int argc, char **argv, const struct cli_command *serve)
{
    gh_auto(cli_fini) struct cli cli;
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){NULL, 0, 1});
    if (code != CLI_GO_ON) {
        return code;
    }
    if (cli.args.n_rest == 1) {
        return print_help(cli.args.rest[0], serve);
    }
    print_list(stdout, serve);
    return fflush(stdout) == 0 ? CLI_DONE : CLI_FAILED;
}

static int run_help(int argc, char **argv)
{
    return help_on(argc, argv, NULL);
}

static int run_version(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){NULL, 0, 0});
    if (code != CLI_GO_ON) {
        return code;
    }
    cli_out_puts(&cli.out, cli.args.json ? "{\"version\":\"" GH_VERSION "\"}\n"
                                         : "gatehouse " GH_VERSION "\n");
    return cli_finish(&cli, CLI_DONE);
}

/* Options before the command ("gatehouse --json status") move behind it. Returns the place of the
 * command's name, argc when there is none. */
static int find_name(int argc, char **argv)
{
    int at = 1;
    while (at < argc && argv[at][0] == '-') {
        at += strcmp(argv[at], "--state-dir") == 0 ? 2 : 1;
    }
    return at < argc ? at : argc;
}

/* argv without the program: name, leading options, the rest. Owned by caller (free). */
static char **sort_words(int argc, char **argv, int name_at)
{
    char **words = calloc((size_t)argc + 1, sizeof *words);
    if (words != NULL) {
        words[0] = argv[name_at];
        memcpy(words + 1, argv + 1, (size_t)(name_at - 1) * sizeof *words);
        memcpy(words + name_at, argv + name_at + 1, (size_t)(argc - name_at - 1) * sizeof *words);
    }
    return words;
}

static bool is_one_of(const char *word, const char *const names[])
{
    while (*names != NULL && strcmp(word, *names) != 0) {
        names++;
    }
    return *names != NULL;
}

/* Help and version asked for without a command. */
static int run_bare(int argc, char **argv, const struct cli_command *serve)
{
    static const char *const helps[] = {"--help", "-h", NULL};
    static const char *const versions[] = {"--version", "-V", NULL};
    for (int i = 1; i < argc; i++) {
        if (is_one_of(argv[i], helps)) {
            print_list(stdout, serve);
            return fflush(stdout) == 0 ? CLI_DONE : CLI_FAILED;
        }
        if (is_one_of(argv[i], versions)) {
            char *words[] = {(char *)"version", NULL};
            return run_version(1, words);
        }
    }
    print_list(stderr, serve);
    return CLI_USAGE;
}

/* Right behind the name; anywhere for `serve`, whose own options know no help. */
static bool has_help_option(int argc, char **argv, bool is_anywhere)
{
    static const char *const helps[] = {"--help", "-h", NULL};
    for (int i = 1; i < argc && (i == 1 || is_anywhere); i++) {
        if (is_one_of(argv[i], helps)) {
            return true;
        }
    }
    return false;
}

int cli_main(int argc, char **argv, const struct cli_command *serve)
{
    int name_at = find_name(argc, argv);
    if (name_at == argc) {
        return run_bare(argc, argv, serve);
    }
    gh_autofree char **words = sort_words(argc, argv, name_at);
    if (words == NULL) {
        return CLI_FAILED;
    }
    const struct cli_command *command = find_command(words[0], serve);
    if (command == &cmd_help) {
        return help_on(argc - 1, words, serve);
    }
    if (command != NULL && has_help_option(argc - 1, words, command == serve)) {
        return print_help(words[0], serve);
    }
    if (command == NULL) {
        cli_say("There is no command \"%s\"; the list: gatehouse help", words[0]);
        return CLI_USAGE;
    }
    return command->run(argc - 1, words);
}
