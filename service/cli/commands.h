/* commands: the table's rows. Each is defined in its cmd_*.c. */
#ifndef GH_CLI_COMMANDS_H
#define GH_CLI_COMMANDS_H

#include "cli/cli.h"

/* Print the help of the command `name` to standard output; returns the exit code. */
int cli_help(const char *name);

extern const struct cli_command cli_cmd_status;
extern const struct cli_command cli_cmd_open;
extern const struct cli_command cli_cmd_pending;
extern const struct cli_command cli_cmd_show;
extern const struct cli_command cli_cmd_approve;
extern const struct cli_command cli_cmd_deny;
extern const struct cli_command cli_cmd_extend;
extern const struct cli_command cli_cmd_cancel;
extern const struct cli_command cli_cmd_watch;
extern const struct cli_command cli_cmd_ask;
extern const struct cli_command cli_cmd_explain;
extern const struct cli_command cli_cmd_exec;
extern const struct cli_command cli_cmd_scan;
extern const struct cli_command cli_cmd_sessions;
extern const struct cli_command cli_cmd_mode;
extern const struct cli_command cli_cmd_taint;
extern const struct cli_command cli_cmd_grants;
extern const struct cli_command cli_cmd_audit;
extern const struct cli_command cli_cmd_token;
extern const struct cli_command cli_cmd_config;
extern const struct cli_command cli_cmd_doctor;

#endif
