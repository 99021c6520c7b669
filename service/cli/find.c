#include "cli/find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/auto.h"
#include "base/fs.h"
#include "base/json.h"

#define MAX_RUN_BYTES 4096

static const char not_running[] = "The service is not running; start it with: gatehouse serve";

/* Open the state folder without making it. */
static int open_state(const char *state_dir)
{
    return open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The file says where tokens are sent, so nobody else may have written it. */
static enum gh_code check_owner(int dir_fd, struct gh_err *err)
{
    struct stat st;
    if (fstatat(dir_fd, "run.json", &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return gh_fail(err, GH_NOT_FOUND, "%s", not_running);
    }
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
        return gh_fail(err, GH_IO,
                       "run.json in the state folder is not a file that only this user "
                       "can write; remove it and start the service again.");
    }
    return GH_OK;
}

static enum gh_code read_fields(const struct json_t *body, struct cli_run *ret, struct gh_err *err)
{
    const char *boot_id = "";
    const char *listen = "";
    const char *socket = "";
    GH_TRY(gh_json_int(body, "", "pid", GH_NEED, 1, INT32_MAX, &ret->pid, err));
    GH_TRY(gh_json_str(body, "", "boot_id", GH_NEED, GH_BOOT_ID - 1, &boot_id, err));
    GH_TRY(gh_json_str(body, "", "listen", GH_OPTIONAL, CLI_LISTEN - 1, &listen, err));
    GH_TRY(gh_json_str(body, "", "socket", GH_OPTIONAL, CLI_SOCKET - 1, &socket, err));
    snprintf(ret->boot_id, sizeof ret->boot_id, "%s", boot_id);
    snprintf(ret->listen, sizeof ret->listen, "%s", listen);
    snprintf(ret->socket, sizeof ret->socket, "%s", socket);
    return GH_OK;
}

static bool is_alive(const struct cli_run *run)
{
    char boot_id[GH_BOOT_ID];
    char proc[32];
    struct stat st;
    gh_clock_boot_id(boot_id);
    snprintf(proc, sizeof proc, "/proc/%lld", (long long)run->pid);
    /* "unknown" equals no boot id, not even itself. */
    return strcmp(boot_id, run->boot_id) == 0 && strcmp(boot_id, "unknown") != 0 &&
           stat(proc, &st) == 0 && (st.st_uid == geteuid() || geteuid() == 0);
}

enum gh_code cli_find_run(const char *state_dir, struct cli_run *ret, struct gh_err *err)
{
    *ret = (struct cli_run){0};
    gh_autoclose int dir_fd = open_state(state_dir);
    if (dir_fd < 0) {
        return gh_fail(err, GH_NOT_FOUND, "%s", not_running);
    }
    GH_TRY(check_owner(dir_fd, err));
    gh_autofree char *text = NULL;
    size_t len = 0;
    GH_TRY(gh_fs_read(dir_fd, "run.json", MAX_RUN_BYTES, &text, &len, err));
    gh_auto(gh_json_freep) struct json_t *body = NULL;
    struct gh_err why = {0};
    if (gh_json_parse(text, len, &body, &why) != GH_OK || read_fields(body, ret, &why) != GH_OK) {
        return gh_fail(err, GH_IO,
                       "run.json in the state folder is damaged (%s %s); remove it and "
                       "start the service again.",
                       why.pointer, why.detail);
    }
    if (!is_alive(ret)) {
        return gh_fail(err, GH_NOT_FOUND, "%s", not_running);
    }
    return GH_OK;
}

/* A token from a file a person named; ours and closed to others, as every token file. */
static enum gh_code read_secret(const char *path, char ret[CLI_SECRET], struct gh_err *err)
{
    char secret[AUTH_SECRET] = "";
    struct gh_err why = {0};
    if (auth_secret_read(path, secret, &why) != GH_OK) {
        return gh_fail(err, GH_UNAUTHORIZED, "No token: %s", why.detail);
    }
    snprintf(ret, CLI_SECRET, "%s", secret);
    explicit_bzero(secret, sizeof secret);
    return GH_OK;
}

/* True when the environment names a token; the failure, if any, is in *code. */
static bool secret_from_env(char ret[CLI_SECRET], enum gh_code *code, struct gh_err *err)
{
    const char *secret = getenv("GATEHOUSE_TOKEN");
    const char *file = getenv("GATEHOUSE_TOKEN_FILE");
    *code = GH_OK;
    if (secret != NULL && secret[0] != '\0') {
        size_t len = strlen(secret);
        if (len >= CLI_SECRET || strspn(secret, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
                                                "XYZ0123456789._~+/=-") != len) {
            *code = gh_fail(err, GH_UNAUTHORIZED, "GATEHOUSE_TOKEN does not hold a token.");
            return true;
        }
        memcpy(ret, secret, len + 1);
        return true;
    }
    if (file != NULL && file[0] != '\0') {
        *code = read_secret(file, ret, err);
        return true;
    }
    return false;
}

/* The address a person set. */
static enum gh_code find_url(const char *url, struct cli_service *ret, struct gh_err *err)
{
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) {
        return gh_fail(err, GH_INVALID, "GATEHOUSE_URL must start with http:// or https://.");
    }
    ret->url = strdup(url);
    if (ret->url == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    size_t len = strlen(ret->url);
    while (len > 0 && ret->url[len - 1] == '/') {
        ret->url[--len] = '\0';
    }
    if (strncmp(url, "http://", 7) == 0) {
        snprintf(ret->listen, sizeof ret->listen, "%.*s", CLI_LISTEN - 1, ret->url + 7);
    }
    enum gh_code code = GH_OK;
    if (!secret_from_env(ret->secret, &code, err)) {
        return gh_fail(err, GH_UNAUTHORIZED,
                       "GATEHOUSE_URL is set; set GATEHOUSE_TOKEN_FILE (or "
                       "GATEHOUSE_TOKEN) to its token as well.");
    }
    return code;
}

static bool is_socket(const char *path)
{
    struct stat st;
    return path[0] == '/' && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

static enum gh_code find_local(const char *state_dir, enum cli_role role, struct cli_service *ret,
                               struct gh_err *err)
{
    static const char *const names[] = {[CLI_AS_AGENT] = "agent", [CLI_AS_APPROVER] = "approver"};
    struct cli_run run;
    GH_TRY(cli_find_run(state_dir, &run, err));
    snprintf(ret->listen, sizeof ret->listen, "%s", run.listen);
    if (is_socket(run.socket)) {
        snprintf(ret->socket, sizeof ret->socket, "%s", run.socket);
    } else if (run.listen[0] == '\0') {
        return gh_fail(err, GH_NOT_FOUND, "%s", not_running);
    }
    if (asprintf(&ret->url, "http://%s", ret->socket[0] != '\0' ? "localhost" : run.listen) < 0) {
        ret->url = NULL;
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    enum gh_code code = GH_OK;
    if (secret_from_env(ret->secret, &code, err)) {
        return code;
    }
    gh_autofree char *path = NULL;
    if (asprintf(&path, "%s/tokens/%s.token", state_dir, names[role]) < 0) {
        path = NULL;
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    return read_secret(path, ret->secret, err);
}

enum gh_code cli_find(const char *state_dir, enum cli_role role, struct cli_service *ret,
                      struct gh_err *err)
{
    const char *url = getenv("GATEHOUSE_URL");
    *ret = (struct cli_service){0};
    if (url != NULL && url[0] != '\0') {
        return find_url(url, ret, err);
    }
    return find_local(state_dir, role, ret, err);
}

void cli_service_fini(struct cli_service *service)
{
    free(service->url);
    explicit_bzero(service, sizeof *service);
}
