/* cli: the client half of `gatehouse`: every command but `serve`.
 *
 * cli_main dispatches by a table; each command lives in cmd_*.c and talks to the service through
 * client.h. Text that came from an agent reaches the terminal through text/neutral.h only.
 * Single-threaded.
 */
#ifndef GH_CLI_CLI_H
#define GH_CLI_CLI_H

enum cli_exit {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_DENIED = 3,
    CLI_TIMED_OUT = 4, /* nobody answered; that is a denial */
    CLI_NO_SERVICE = 5,
    CLI_INTERRUPTED = 130
};

struct cli_command {
    const char *name;
    const char *summary;               /* one line, for the list */
    const char *help;                  /* usage and examples, ends with a newline */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
};

/* Run the command argv[1] names and return the exit code. `serve` (may be NULL) is one more
 * command, found beside those of this module; borrowed for the call. */
int cli_main(int argc, char **argv, const struct cli_command *serve);

#endif
