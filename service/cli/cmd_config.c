#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "cli/call.h"
#include "cli/commands.h"
#include "config/config.h"

static int run_config(int argc, char **argv);

const struct cli_command cli_cmd_config = {
    .name = "config",
    .summary = "print the settings in force",
    .help = "gatehouse config [--config FILE] [--json]\n\n"
            "  gatehouse config                    of the running service\n"
            "  gatehouse config --config new.yaml  check and print a file; nothing is changed\n\n"
            "While no service runs, the file it would read is checked and printed. Secrets\n"
            "are never shown.\n",
    .run = run_config,
};

static int print_file(struct cli *cli, const char *path, bool may_be_missing)
{
    struct gh_err err = {0};
    struct config *config = NULL;
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    if (config_load(path, may_be_missing, &config, &err) != GH_OK) {
        cli_say("%s", err.detail);
        return CLI_FAILED;
    }
    config_json(config, &text);
    config_free(config);
    if (gh_json_parse(gh_buf_str(&text), text.len, &body, &err) != GH_OK) {
        cli_say("%s", err.detail);
        return CLI_FAILED;
    }
    if (cli->args.json) {
        cli_out_value(&cli->out, body);
    } else {
        cli_out_tree(&cli->out, body);
    }
    return cli_finish(cli, CLI_DONE);
}

static int print_running(struct cli *cli)
{
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = cli_get(cli, "/v1/config", &answer);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (cli->args.json) {
        return cli_print_json(cli, &answer);
    }
    cli_out_tree(&cli->out, answer.json);
    return cli_finish(cli, CLI_DONE);
}

static int run_config(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    struct gh_err err = {0};
    const char *file = NULL;
    const struct cli_opt opts[] = {{"--config", CLI_OPT_TEXT, &file}, {NULL, CLI_OPT_END, NULL}};
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){opts, 0, 0});
    if (code != CLI_GO_ON) {
        return code;
    }
    if (file != NULL) {
        return print_file(&cli, file, false);
    }
    enum gh_code reached = cli_reach(&cli, CLI_AS_APPROVER, &err);
    if (reached == GH_OK) {
        return print_running(&cli);
    }
    if (reached != GH_NOT_FOUND) {
        cli_say("%s", err.detail);
        return CLI_FAILED;
    }
    gh_autofree char *dir = gh_fs_xdg("XDG_CONFIG_HOME", ".config");
    gh_autofree char *path = NULL;
    if (dir == NULL || asprintf(&path, "%s/config.yaml", dir) < 0) {
        path = NULL;
        return CLI_FAILED;
    }
    fprintf(stderr, "The service is not running; this is what it would read.\n");
    return print_file(&cli, path, true);
}
