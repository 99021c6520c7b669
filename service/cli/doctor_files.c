#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/fs.h"
#include "cli/doctor.h"
#include "gate/rules.h"

#define DISK_WARN_MIB 256
#define DISK_FAIL_MIB 16

/* True when the folder is ours and closed to others. */
static bool check_folder(struct cli_doctor *doctor, const char *code, int fd, const char *path)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_uid != geteuid()) {
        cli_doctor_add(doctor, CLI_H_FAIL, code, "Give it to the user who runs the service.",
                       "%s belongs to another user", path);
        return false;
    }
    if ((st.st_mode & 077) != 0) {
        cli_doctor_add(doctor, CLI_H_FAIL, code, "chmod 700 it: it holds tokens.",
                       "%s is open to others (mode %03o)", path, (unsigned)st.st_mode & 0777U);
        return false;
    }
    return true;
}

void cli_probe_state_folder(struct cli_doctor *doctor)
{
    const char *path = doctor->cli->state_dir;
    gh_autoclose int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT) {
        cli_doctor_add(doctor, CLI_H_WARN, "state_folder", "gatehouse serve makes it.",
                       "%s does not exist yet", path);
    } else if (fd < 0) {
        cli_doctor_add(doctor, CLI_H_FAIL, "state_folder", "It must be a folder of its own.",
                       "%s cannot be opened: %s", path, strerror(errno));
    } else if (check_folder(doctor, "state_folder", fd, path)) {
        cli_doctor_add(doctor, CLI_H_OK, "state_folder", "", "%s", path);
    }
}

static void count_token(const struct auth_token *token, void *cookie)
{
    size_t *n = cookie;
    *n += token->revoked_ms < 0 ? 1 : 0;
}

/* Returns the number of files in the open folder that are not 0600, ours and regular; the first is
 * named. */
static size_t count_wide_files(int fd, char ret_name[256])
{
    size_t n = 0;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL) {
        gh_auto_close(&copy);
        return 0;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)) {
            snprintf(ret_name, 256, "%s", entry->d_name);
            n++;
        }
    }
    closedir(dir);
    return n;
}

void cli_probe_token_files(struct cli_doctor *doctor)
{
    static const char code[] = "token_files";
    struct gh_err err = {0};
    char name[256] = "";
    size_t n_valid = 0;
    gh_autofree char *path = NULL;
    if (asprintf(&path, "%s/tokens", doctor->cli->state_dir) < 0) {
        path = NULL;
        return;
    }
    gh_autoclose int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        cli_doctor_add(doctor, errno == ENOENT ? CLI_H_WARN : CLI_H_FAIL, code,
                       "gatehouse serve makes the folder and the first tokens.", "%s: %s", path,
                       strerror(errno));
        return;
    }
    if (!check_folder(doctor, code, fd, path)) {
        return;
    }
    size_t n_wide = count_wide_files(fd, name);
    if (n_wide > 0) {
        cli_doctor_add(doctor, CLI_H_FAIL, code, "chmod 600 the files; links are not taken.",
                       "%zu of the token files are not private, for example %s", n_wide, name);
        return;
    }
    if (auth_tokens_each(doctor->cli->state_dir, count_token, &n_valid, &err) != GH_OK) {
        cli_doctor_add(doctor, CLI_H_FAIL, code, "Remove or repair the named file.", "%s",
                       err.detail);
        return;
    }
    cli_doctor_add(doctor, CLI_H_OK, code, "", "%zu tokens not revoked, files private", n_valid);
}

void cli_probe_config(struct cli_doctor *doctor)
{
    if (doctor->config_path == NULL) {
        cli_doctor_add(doctor, CLI_H_FAIL, "config", "Set HOME in the password database.",
                       "there is no home folder to look below");
    } else if (doctor->config == NULL) {
        cli_doctor_add(doctor, CLI_H_FAIL, "config", "Correct the file; the service refuses it.",
                       "%s", doctor->config_err.detail);
    } else {
        bool is_there = access(doctor->config_path, R_OK) == 0;
        cli_doctor_add(doctor, CLI_H_OK, "config", "", "%s%s", doctor->config_path,
                       is_there ? "" : " does not exist: the defaults hold");
    }
}

/* Everything the service compiles its rules from. */
static enum gh_code compile(struct cli_doctor *doctor, struct gate_rules **ret, struct gh_err *err)
{
    gh_autofree char *own_home = gh_fs_home();
    const char *env_home = getenv("HOME");
    const char *home = env_home != NULL && env_home[0] == '/' ? env_home : own_home;
    bool is_one = home == NULL || own_home == NULL || strcmp(home, own_home) == 0;
    gh_autofree char *config_dir = gh_fs_xdg("XDG_CONFIG_HOME", ".config");
    gh_autofree char *runtime_dir = NULL;
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (runtime != NULL && runtime[0] == '/' &&
        asprintf(&runtime_dir, "%s/gatehouse", runtime) < 0) {
        runtime_dir = NULL;
    }
    if (doctor->config == NULL) {
        return gh_fail(err, GH_CONFIG, "The configuration is refused: %s",
                       doctor->config_err.detail);
    }
    const struct gate_rules_input input = {
        .home = home,
        .other_home = is_one ? NULL : own_home,
        .xdg_config_home = getenv("XDG_CONFIG_HOME"),
        .xdg_state_home = getenv("XDG_STATE_HOME"),
        .git_config_global = getenv("GIT_CONFIG_GLOBAL"),
        .config_dir = config_dir,
        .state_dir = doctor->cli->state_dir,
        .runtime_dir = runtime_dir,
        .entries = (const char *const *)doctor->config->permissions.deny_paths,
    };
    return gate_rules_new(&input, ret, err);
}

struct rule_count {
    size_t n, n_odd;
    char first_odd[160];
};

/* What "matches nothing now" says is usual for built-in rules; the rest is a mistake of someone. */
static bool is_odd(const struct gate_rule_info *info)
{
    return strncmp(info->note, "never", 5) == 0 || strncmp(info->note, "skipped", 7) == 0;
}

static void count_rule(const struct gate_rule_info *info, void *cookie)
{
    struct rule_count *count = cookie;
    count->n++;
    if (is_odd(info) && count->n_odd++ == 0) {
        snprintf(count->first_odd, sizeof count->first_odd, "%s (%s)", info->entry, info->note);
    }
}

void cli_probe_rules(struct cli_doctor *doctor)
{
    static const char code[] = "deny_rules";
    struct gh_err err = {0};
    struct gate_rules *rules = NULL;
    struct rule_count count = {0};
    if (compile(doctor, &rules, &err) != GH_OK) {
        cli_doctor_add(doctor, doctor->config == NULL ? CLI_H_SKIP : CLI_H_FAIL, code,
                       "Correct permissions.deny_paths.", "%s %s", err.pointer, err.detail);
        return;
    }
    gate_rules_each(rules, count_rule, &count);
    gate_rules_free(rules);
    if (count.n_odd > 0) {
        cli_doctor_add(doctor, CLI_H_WARN, code, "gatehouse doctor --rules lists them.",
                       "%zu of %zu rules deny nothing, for example %s", count.n_odd, count.n,
                       count.first_odd);
    } else {
        cli_doctor_add(doctor, CLI_H_OK, code, "", "%zu rules; list: gatehouse doctor --rules",
                       count.n);
    }
}

struct rule_list {
    struct cli *cli;
    struct gh_jw *w;
};

static void list_rule(const struct gate_rule_info *info, void *cookie)
{
    const struct rule_list *list = cookie;
    struct cli_out *out = &list->cli->out;
    gh_auto(gh_buf_fini) struct gh_buf last = GH_BUF_INIT;
    if (list->cli->args.json) {
        gh_jw_obj(list->w, NULL);
        gh_jw_str(list->w, "entry", info->entry);
        gh_jw_str(list->w, "resolved", info->resolved);
        gh_jw_str(list->w, "source", info->source);
        gh_jw_str(list->w, "note", info->note);
        gh_jw_end(list->w);
        return;
    }
    cli_out_cell(out, info->entry, 24);
    cli_out_cell(out, info->source, 13);
    text_for_terminal(info->resolved, 0, &last);
    if (info->note[0] != '\0') {
        gh_buf_puts(&last, "  -- ");
        text_for_terminal(info->note, 0, &last);
    }
    cli_out_wrap(out, "                                       ", 39, gh_buf_str(&last));
    cli_out_puts(out, "\n");
}

bool cli_doctor_rules(struct cli_doctor *doctor, struct gh_jw *w, const char *key)
{
    struct gh_err err = {0};
    struct gate_rules *rules = NULL;
    struct rule_list list = {.cli = doctor->cli, .w = w};
    bool is_ok = compile(doctor, &rules, &err) == GH_OK;
    gh_jw_arr(w, key);
    if (is_ok) {
        if (!doctor->cli->args.json) {
            cli_out_puts(&doctor->cli->out, "RULE                     SOURCE        DENIES\n");
        }
        gate_rules_each(rules, list_rule, &list);
        gate_rules_free(rules);
    } else {
        cli_say("%s %s", err.pointer, err.detail);
    }
    gh_jw_arr_end(w);
    return is_ok;
}

void cli_probe_disk(struct cli_doctor *doctor)
{
    static const char fix[] =
        "Free some space: without it nothing can be recorded, so all is denied.";
    struct statvfs st;
    if (statvfs(doctor->cli->state_dir, &st) != 0) {
        cli_doctor_add(doctor, CLI_H_SKIP, "disk_space", "", "%s: %s", doctor->cli->state_dir,
                       strerror(errno));
        return;
    }
    unsigned long long mib = (unsigned long long)st.f_bavail * st.f_frsize >> 20;
    enum cli_health health = CLI_H_OK;
    if (mib < DISK_WARN_MIB) {
        health = mib < DISK_FAIL_MIB ? CLI_H_FAIL : CLI_H_WARN;
    }
    cli_doctor_add(doctor, health, "disk_space", health == CLI_H_OK ? "" : fix,
                   "%llu MiB free for the state folder", mib);
}
