#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "cli/commands.h"
#include "cli/doctor.h"

static int run_doctor(int argc, char **argv);

const struct cli_command cli_cmd_doctor = {
    .name = "doctor",
    .summary = "check the installation; changes nothing",
    .help = "gatehouse doctor [--rules] [--strict] [--quick] [--config FILE] [--json]\n\n"
            "  gatehouse doctor\n"
            "  gatehouse doctor --rules            each deny rule and what it resolves to\n"
            "  gatehouse doctor --strict --json | jq '.checks[] | select(.status!=\"ok\")'\n\n"
            "  --quick   do not walk the whole audit record\n"
            "  --strict  warnings fail as well\n\n"
            "Exit code 0: no check failed; 1: one failed.\n",
    .run = run_doctor,
};

static cli_probe_fn *const probes[] = {
    cli_probe_state_folder, cli_probe_token_files, cli_probe_config,    cli_probe_rules,
    cli_probe_disk,         cli_probe_clock,       cli_probe_discovery, cli_probe_service,
    cli_probe_store,        cli_probe_audit,       cli_probe_landlock,  cli_probe_seccomp,
    cli_probe_namespaces,
};

static const struct {
    const char *name;
    enum cli_style style;
} healths[CLI_N_HEALTH] = {[CLI_H_OK] = {"ok", CLI_GREEN},
                           [CLI_H_SKIP] = {"skipped", CLI_DIM},
                           [CLI_H_WARN] = {"warning", CLI_YELLOW},
                           [CLI_H_FAIL] = {"FAILED", CLI_RED}};

static void put_row(struct cli_doctor *doctor, enum cli_health health, const char *code,
                    const char *fix, const char *evidence)
{
    struct cli_out *out = &doctor->cli->out;
    gh_auto(gh_buf_fini) struct gh_buf shown = GH_BUF_INIT;
    cli_out_style(out, healths[health].style);
    cli_out_cell(out, healths[health].name, 7);
    cli_out_style(out, CLI_PLAIN);
    cli_out_cell(out, code, 18);
    text_for_terminal(evidence, 0, &shown);
    cli_out_wrap(out, "                           ", 27, gh_buf_str(&shown));
    cli_out_puts(out, "\n");
    if (fix[0] != '\0') {
        cli_out_printf(out, "%27s-> ", "");
        cli_out_wrap(out, "                              ", 30, fix);
        cli_out_puts(out, "\n");
    }
}

void cli_doctor_add(struct cli_doctor *doctor, enum cli_health health, const char *code,
                    const char *fix, const char *fmt, ...)
{
    static const char *const words[CLI_N_HEALTH] = {"ok", "skipped", "warning", "failed"};
    gh_autofree char *evidence = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&evidence, fmt, args);
    va_end(args);
    if (n < 0) {
        evidence = NULL;
        doctor->json.failed = true;
        return;
    }
    doctor->n[health]++;
    if (!doctor->cli->args.json) {
        put_row(doctor, health, code, fix, evidence);
        return;
    }
    gh_jw_obj(&doctor->checks, NULL);
    gh_jw_str(&doctor->checks, "code", code);
    gh_jw_str(&doctor->checks, "status", words[health]);
    gh_jw_str(&doctor->checks, "evidence", evidence);
    gh_jw_str(&doctor->checks, "fix", fix[0] != '\0' ? fix : NULL);
    gh_jw_end(&doctor->checks);
}

static int finish(struct cli_doctor *doctor, bool is_strict)
{
    struct cli *cli = doctor->cli;
    bool is_ok = doctor->n[CLI_H_FAIL] == 0 && (!is_strict || doctor->n[CLI_H_WARN] == 0);
    if (cli->args.json) {
        struct cli_out_cut rest = {{0}, 0};
        gh_jw_arr_end(&doctor->checks);
        gh_jw_bool(&doctor->checks, "ok", is_ok);
        gh_jw_int(&doctor->checks, "failed", (int64_t)doctor->n[CLI_H_FAIL]);
        gh_jw_int(&doctor->checks, "warnings", (int64_t)doctor->n[CLI_H_WARN]);
        gh_jw_str(&doctor->checks, "version", GH_VERSION);
        gh_jw_end(&doctor->checks);
        cli_out_json(&cli->out, gh_buf_str(&doctor->json), doctor->json.len, &rest);
        cli_out_puts(&cli->out, "\n");
        cli->out.buf.failed = cli->out.buf.failed || doctor->json.failed;
    } else {
        cli_out_printf(&cli->out, "\n%zu ok, %zu warnings, %zu failed, %zu skipped\n",
                       doctor->n[CLI_H_OK], doctor->n[CLI_H_WARN], doctor->n[CLI_H_FAIL],
                       doctor->n[CLI_H_SKIP]);
    }
    return cli_finish(cli, is_ok ? CLI_DONE : CLI_FAILED);
}

static int list_rules(struct cli_doctor *doctor)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    struct gh_jw w = {.buf = &text, .comma = false};
    struct cli_out_cut rest = {{0}, 0};
    struct cli *cli = doctor->cli;
    gh_jw_obj(&w, NULL);
    bool is_ok = cli_doctor_rules(doctor, &w, "rules");
    gh_jw_end(&w);
    if (cli->args.json) {
        cli_out_json(&cli->out, gh_buf_str(&text), text.len, &rest);
        cli_out_puts(&cli->out, "\n");
    }
    return cli_finish(cli, is_ok ? CLI_DONE : CLI_FAILED);
}

static int run_probes(struct cli_doctor *doctor, bool is_strict)
{
    doctor->checks = (struct gh_jw){.buf = &doctor->json, .comma = false};
    gh_jw_obj(&doctor->checks, NULL);
    gh_jw_arr(&doctor->checks, "checks");
    for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++) {
        probes[i](doctor);
    }
    return finish(doctor, is_strict);
}

static int run_doctor(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    struct cli_doctor doctor = {.cli = &cli, .json = GH_BUF_INIT};
    bool is_rules = false;
    bool is_strict = false;
    const struct cli_opt opts[] = {{"--rules", CLI_OPT_FLAG, &is_rules},
                                   {"--strict", CLI_OPT_FLAG, &is_strict},
                                   {"--quick", CLI_OPT_FLAG, &doctor.is_quick},
                                   {"--config", CLI_OPT_TEXT, &doctor.config_path},
                                   {NULL, CLI_OPT_END, NULL}};
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){opts, 0, 0});
    if (code != CLI_GO_ON) {
        return code;
    }
    bool may_be_missing = doctor.config_path == NULL;
    gh_autofree char *dir = gh_fs_xdg("XDG_CONFIG_HOME", ".config");
    gh_autofree char *path = NULL;
    if (dir != NULL && asprintf(&path, "%s/config.yaml", dir) < 0) {
        path = NULL;
    }
    doctor.config_path = may_be_missing ? path : doctor.config_path;
    if (config_load(doctor.config_path, may_be_missing, &doctor.config, &doctor.config_err) !=
        GH_OK) {
        doctor.config = NULL;
    }
    code = is_rules ? list_rules(&doctor) : run_probes(&doctor, is_strict);
    config_free(doctor.config);
    gh_buf_fini(&doctor.json);
    return code;
}
