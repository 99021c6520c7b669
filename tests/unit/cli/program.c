/* The commands as a program of their own, for test_commands.py. */
#include "cli/cli.h"

#include <stdio.h>

static int run_serve(int argc, char **argv)
{
    printf("serve got %d words, first %s\n", argc, argc > 1 ? argv[1] : "-");
    return CLI_DONE;
}

int main(int argc, char **argv)
{
    static const struct cli_command serve = {.name = "serve",
                                             .summary = "run the service",
                                             .help = "gatehouse serve\n",
                                             .run = run_serve};
    return cli_main(argc, argv, &serve);
}
