/* doctor: read-only checks of the installation. Each probe adds rows; none changes anything. */
#ifndef GH_CLI_DOCTOR_H
#define GH_CLI_DOCTOR_H

#include "cli/call.h"
#include "config/config.h"

enum cli_health { CLI_H_OK = 0, CLI_H_SKIP, CLI_H_WARN, CLI_H_FAIL, CLI_N_HEALTH };

struct cli_doctor {
    struct cli *cli;
    const char *config_path;  /* of the file the service would read; borrowed */
    struct config *config;    /* NULL when it is refused */
    struct gh_err config_err; /* why it is refused */
    bool is_quick;            /* leave out what takes long */
    bool is_reached;          /* the service answered */
    size_t n[CLI_N_HEALTH];   /* rows by health */
    struct gh_jw checks;      /* the JSON array of rows */
    struct gh_buf json;
};

/* Add a row: a stable code, what was seen (neutralised here), and what to do ("" when nothing). */
void cli_doctor_add(struct cli_doctor *doctor, enum cli_health health, const char *code,
                    const char *fix, const char *fmt, ...) GH_PRINTF(5, 6);

typedef void cli_probe_fn(struct cli_doctor *doctor);

/* doctor_files.c */
cli_probe_fn cli_probe_state_folder;
cli_probe_fn cli_probe_token_files;
cli_probe_fn cli_probe_config;
cli_probe_fn cli_probe_rules;
cli_probe_fn cli_probe_disk;
/* doctor_service.c */
cli_probe_fn cli_probe_discovery;
cli_probe_fn cli_probe_service;
cli_probe_fn cli_probe_store;
cli_probe_fn cli_probe_audit;
/* doctor_kernel.c */
cli_probe_fn cli_probe_clock;
cli_probe_fn cli_probe_landlock;
cli_probe_fn cli_probe_seccomp;
cli_probe_fn cli_probe_namespaces;

/* Print each deny rule, what it resolves to and what is odd about it; with --json as an array under
 * `key`. Returns false when the rules cannot be compiled. */
bool cli_doctor_rules(struct cli_doctor *doctor, struct gh_jw *w, const char *key);

#endif
