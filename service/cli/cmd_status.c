#include "cli/call.h"
#include "cli/commands.h"

static int run_status(int argc, char **argv);

const struct cli_command cli_cmd_status = {
    .name = "status",
    .summary = "say how the service is",
    .help = "gatehouse status [--json]\n\n"
            "  gatehouse status\n"
            "  gatehouse status --json | jq .version\n"
            "  gatehouse status || gatehouse doctor     exit code 5: it does not run\n",
    .run = run_status,
};

static int run_status(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){NULL, 0, 0});
    if (code == CLI_GO_ON) {
        code = cli_connect(&cli, CLI_AS_APPROVER);
    }
    if (code == CLI_GO_ON) {
        code = cli_get(&cli, "/v1/status", &answer);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    if (cli.args.json) {
        return cli_print_json(&cli, &answer);
    }
    cli_out_tree(&cli.out, answer.json);
    return cli_finish(&cli, CLI_DONE);
}
