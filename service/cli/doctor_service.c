#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "store/store.h"

static const char start_it[] = "Start it with: gatehouse serve";

static bool is_loopback(const char *listen)
{
    return strncmp(listen, "127.", 4) == 0 || strncmp(listen, "[::1]:", 6) == 0 ||
           strncmp(listen, "localhost:", 10) == 0;
}

static void check_socket(struct cli_doctor *doctor, const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode)) {
        cli_doctor_add(doctor, CLI_H_WARN, "socket", "Restart the service.", "%s is not a socket",
                       path);
    } else if (st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        cli_doctor_add(doctor, CLI_H_WARN, "socket", "Restart the service; it makes it private.",
                       "%s is open to others (mode %03o)", path, (unsigned)st.st_mode & 0777U);
    } else {
        cli_doctor_add(doctor, CLI_H_OK, "socket", "", "%s", path);
    }
}

void cli_probe_discovery(struct cli_doctor *doctor)
{
    static const char code[] = "discovery";
    struct cli_run run;
    struct gh_err err = {0};
    enum gh_code found = cli_find_run(doctor->cli->state_dir, &run, &err);
    if (found == GH_NOT_FOUND && run.pid > 0) {
        cli_doctor_add(doctor, CLI_H_WARN, code, start_it,
                       "run.json is stale: process %lld is gone, not ours, or of another boot",
                       (long long)run.pid);
        return;
    }
    if (found == GH_NOT_FOUND) {
        cli_doctor_add(doctor, CLI_H_SKIP, code, "", "no service runs on this state folder");
        return;
    }
    if (found != GH_OK) {
        cli_doctor_add(doctor, CLI_H_FAIL, code, "Remove it and start the service again.", "%s",
                       err.detail);
        return;
    }
    cli_doctor_add(doctor, CLI_H_OK, code, "", "process %lld, %s", (long long)run.pid,
                   run.listen[0] != '\0' ? run.listen : "no TCP");
    if (run.listen[0] != '\0') {
        bool is_near = is_loopback(run.listen);
        cli_doctor_add(doctor, is_near ? CLI_H_OK : CLI_H_WARN, "listeners",
                       is_near ? "" : "Unset listen.allow_non_loopback; use an SSH tunnel instead.",
                       "%s %s", run.listen,
                       is_near ? "is loopback" : "can be reached from the network");
    }
    if (run.socket[0] != '\0') {
        check_socket(doctor, run.socket);
    }
}

/* GET without a message. */
static bool fetch(struct cli_doctor *doctor, const char *path, struct cli_answer *answer,
                  struct gh_err *err)
{
    const struct cli_request request = {.method = "GET", .path = path, .timeout_ms = 10000};
    return cli_client_send(doctor->cli->client, &request, answer, err) == GH_OK;
}

static void check_version(struct cli_doctor *doctor, const struct cli_answer *answer)
{
    const char *version = cli_str(answer->json, "version", "?");
    bool is_same = strcmp(version, GH_VERSION) == 0;
    cli_doctor_add(doctor, is_same ? CLI_H_OK : CLI_H_WARN, "version",
                   is_same ? "" : "Restart the service after an update.",
                   "service %s, this program " GH_VERSION, version);
}

void cli_probe_service(struct cli_doctor *doctor)
{
    static const char code[] = "service";
    struct gh_err err = {0};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    enum gh_code found = cli_reach(doctor->cli, CLI_AS_APPROVER, &err);
    if (found != GH_OK) {
        bool is_away = found == GH_NOT_FOUND;
        cli_doctor_add(doctor, CLI_H_FAIL, code,
                       is_away ? start_it : "The token files are in the state folder (tokens/).",
                       "%s", is_away ? "it is not running" : err.detail);
        return;
    }
    if (!fetch(doctor, "/v1/status", &answer, &err)) {
        cli_doctor_add(doctor, CLI_H_FAIL, code, start_it, "%s: %s", doctor->cli->service.url,
                       err.detail);
        return;
    }
    if (answer.status != 200) {
        cli_doctor_add(doctor, CLI_H_FAIL, code, "See gatehouse token list.", "it answers %ld %s",
                       answer.status, cli_str(answer.json, "code", ""));
        return;
    }
    doctor->is_reached = true;
    cli_doctor_add(doctor, CLI_H_OK, code, "", "answers over %s",
                   doctor->cli->service.socket[0] != '\0' ? "the unix socket"
                                                          : doctor->cli->service.url);
    check_version(doctor, &answer);
}

void cli_probe_store(struct cli_doctor *doctor)
{
    struct gh_err err = {0};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    if (!doctor->is_reached) {
        cli_doctor_add(doctor, CLI_H_SKIP, "store", "", "the service is not reached");
        return;
    }
    bool is_there = fetch(doctor, "/readyz", &answer, &err);
    bool is_ok = is_there && answer.status == 200;
    cli_doctor_add(
        doctor, is_ok ? CLI_H_OK : CLI_H_FAIL, "store",
        is_ok ? "" : "Look at the disk and the state folder; all is denied meanwhile.", "%s",
        is_ok ? "writable"
              : cli_str(answer.json, "detail", is_there ? "the service is not ready" : err.detail));
}

static void add_verdict(struct cli_doctor *doctor, bool is_ok, int64_t n_checked,
                        const char *reason)
{
    cli_doctor_add(doctor, is_ok ? CLI_H_OK : CLI_H_FAIL, "audit_chain",
                   is_ok ? "" : "Keep the file; somebody or something changed the record.",
                   "%lld rows%s%s", (long long)n_checked, is_ok ? ", unbroken" : ": ",
                   is_ok ? "" : reason);
}

/* No service: the folder itself, when there is a record. */
static void check_folder(struct cli_doctor *doctor)
{
    struct store_verify found = {0};
    struct gh_err err = {0};
    struct stat st;
    if (stat(doctor->cli->state_dir, &st) != 0) {
        cli_doctor_add(doctor, CLI_H_SKIP, "audit_chain", "", "there is no record yet");
        return;
    }
    enum gh_code code = store_verify_dir(doctor->cli->state_dir, &found, &err);
    if (code == GH_OK) {
        add_verdict(doctor, found.is_ok, (int64_t)found.n_checked, found.reason);
    } else if (code == GH_NOT_FOUND) {
        cli_doctor_add(doctor, CLI_H_SKIP, "audit_chain", "", "%s", err.detail);
    } else {
        cli_doctor_add(doctor, CLI_H_FAIL, "audit_chain",
                       "Keep the files and put a good copy back; the service denies all meanwhile.",
                       "%s", err.detail);
    }
}

void cli_probe_audit(struct cli_doctor *doctor)
{
    struct gh_err err = {0};
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    if (doctor->is_quick) {
        cli_doctor_add(doctor, CLI_H_SKIP, "audit_chain", "", "left out by --quick");
        return;
    }
    if (!doctor->is_reached) {
        check_folder(doctor);
        return;
    }
    const struct cli_request request = {
        .method = "GET", .path = "/v1/audit/verify", .timeout_ms = 60000};
    if (cli_client_send(doctor->cli->client, &request, &answer, &err) != GH_OK ||
        answer.status != 200) {
        cli_doctor_add(doctor, CLI_H_WARN, "audit_chain", "gatehouse audit verify", "%s",
                       answer.status > 0 ? cli_str(answer.json, "detail", "it was refused")
                                         : err.detail);
        return;
    }
    add_verdict(doctor, gh_json_true(gh_json_get(answer.json, "ok")),
                gh_json_number(gh_json_get(answer.json, "checked"), 0),
                cli_str(answer.json, "reason", ""));
}
