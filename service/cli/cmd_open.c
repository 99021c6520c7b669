#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "cli/call.h"
#include "cli/commands.h"

#define PAGE_NAME "open.html"
#define BROWSER_WAIT_MS 3000 /* xdg-open is done by then, or runs the browser itself */
#define BROWSER_STEP_MS 50

static int run_open(int argc, char **argv);

const struct cli_command cli_cmd_open = {
    .name = "open",
    .summary = "open the approvals page in your browser, signed in",
    .help = "gatehouse open [--role viewer|approver] [--print] [--via HOST:PORT]\n\n"
            "  gatehouse open\n"
            "  gatehouse open --print                     print the address instead\n"
            "  ssh host gatehouse open --via 127.0.0.1:7777   through a forwarded port\n\n"
            "The address holds a code that works once, within 60 seconds. It reaches the\n"
            "browser through a private file, never through a command line.\n",
    .run = run_open,
};

struct open_opts {
    const char *role;
    const char *via;
    bool is_print;
};

/* HOST:PORT that may stand in a URL: what a listener or a person named, nothing else. */
static bool is_address(const char *text)
{
    return text[0] != '\0' && strlen(text) < CLI_LISTEN &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]") ==
               strlen(text);
}

static bool is_code(const char *text)
{
    return text[0] != '\0' && strlen(text) < 128 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
               strlen(text);
}

static bool has_display(void)
{
    const char *x11 = getenv("DISPLAY");
    const char *wayland = getenv("WAYLAND_DISPLAY");
    return (x11 != NULL && x11[0] != '\0') || (wayland != NULL && wayland[0] != '\0');
}

/* The environment without anything of ours: a token in it would be the browser's. NULL-ended,
 * owned by caller (free), strings borrowed. */
static char **clean_environment(void)
{
    size_t n = 0;
    while (environ[n] != NULL) {
        n++;
    }
    char **clean = calloc(n + 1, sizeof *clean);
    size_t used = 0;
    for (size_t i = 0; clean != NULL && i < n; i++) {
        if (strncmp(environ[i], "GATEHOUSE_", 10) != 0) {
            clean[used++] = environ[i];
        }
    }
    return clean;
}

/* True unless the child failed within the time; one that still runs is the browser itself. */
static bool wait_browser(pid_t pid)
{
    for (int ms = 0; ms < BROWSER_WAIT_MS; ms += BROWSER_STEP_MS) {
        int status = 0;
        pid_t done = waitpid(pid, &status, WNOHANG);
        if (done == pid) {
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        if (done < 0 && errno != EINTR) {
            return false;
        }
        usleep(BROWSER_STEP_MS * 1000);
    }
    return true;
}

static bool start_browser(char *path)
{
    pid_t pid = -1;
    char name[] = "xdg-open";
    char *argv[] = {name, path, NULL};
    posix_spawn_file_actions_t actions;
    gh_autofree char **environment = clean_environment();
    if (environment == NULL || posix_spawn_file_actions_init(&actions) != 0) {
        return false;
    }
    /* The browser's chatter is not ours, and it outlives us: it keeps none of our descriptors. */
    bool is_ready = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0 &&
                    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) == 0 &&
                    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) == 0;
    int code = is_ready ? posix_spawnp(&pid, name, &actions, NULL, argv, environment) : ENOMEM;
    posix_spawn_file_actions_destroy(&actions);
    return code == 0 && wait_browser(pid);
}

/* The runtime folder, else the state folder; the file's path is owned by caller. */
static enum gh_code write_page(struct cli *cli, const char *url, char **ret, struct gh_err *err)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    gh_autofree char *dir = NULL;
    gh_autoclose int dir_fd = -1;
    gh_auto(gh_buf_fini) struct gh_buf page = GH_BUF_INIT;
    int n = runtime != NULL && runtime[0] == '/' ? asprintf(&dir, "%s/gatehouse", runtime)
                                                 : asprintf(&dir, "%s", cli->state_dir);
    if (n < 0) {
        dir = NULL;
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    GH_TRY(gh_fs_private_dir(dir, &dir_fd, err));
    gh_buf_printf(&page,
                  "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
                  "<meta name=\"referrer\" content=\"no-referrer\"><title>gatehouse</title>"
                  "<meta http-equiv=\"refresh\" content=\"0;url=%s\">"
                  "<p><a href=\"%s\">Open gatehouse</a></p></html>\n",
                  url, url);
    if (page.failed) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    GH_TRY(gh_fs_replace(dir_fd, PAGE_NAME, page.data, page.len, err));
    if (asprintf(ret, "%s/" PAGE_NAME, dir) < 0) {
        *ret = NULL;
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    return GH_OK;
}

/* A listener on every address is reached by the loopback one; the Host check knows no other. */
static void write_url(const char *address, const char *code, char ret[256])
{
    static const char *const wide[] = {"0.0.0.0:", "[::]:"};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        if (strncmp(address, wide[i], strlen(wide[i])) == 0) {
            snprintf(ret, 256, "http://127.0.0.1:%s/#code=%s", address + strlen(wide[i]), code);
            return;
        }
    }
    snprintf(ret, 256, "http://%s/#code=%s", address, code);
}

static int print_url(struct cli *cli, const char *url, const struct cli_answer *answer)
{
    if (cli->args.json) {
        struct cli_out_cut rest = {{0}, 0};
        gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
        struct gh_jw w = {.buf = &text, .comma = false};
        gh_jw_obj(&w, NULL);
        gh_jw_str(&w, "url", url);
        gh_jw_str(&w, "expires_at", cli_str(answer->json, "expires_at", NULL));
        gh_jw_end(&w);
        cli_out_json(&cli->out, gh_buf_str(&text), text.len, &rest);
        cli_out_puts(&cli->out, "\n");
    } else {
        cli_out_printf(&cli->out, "%s\n", url);
    }
    return cli_finish(cli, CLI_DONE);
}

static int show_page(struct cli *cli, const struct open_opts *opts, const struct cli_answer *answer)
{
    struct gh_err err = {0};
    char url[256];
    gh_autofree char *path = NULL;
    const char *address = opts->via != NULL ? opts->via : cli->service.listen;
    const char *code = cli_str(answer->json, "code", "");
    if (!is_address(address) || !is_code(code)) {
        cli_say(is_code(code) ? "The service listens on no TCP port that a browser could open; "
                                "forward one and name it with --via."
                              : "The service answered without a login code.");
        return CLI_FAILED;
    }
    write_url(address, code, url);
    if (opts->is_print || opts->via != NULL || cli->args.json || !has_display()) {
        return print_url(cli, url, answer);
    }
    if (write_page(cli, url, &path, &err) != GH_OK) {
        cli_say("%s", err.detail);
        return print_url(cli, url, answer);
    }
    cli_client_free(gh_steal(&cli->client)); /* its descriptors are not the browser's */
    if (!start_browser(path)) {
        cli_say("No browser could be started; open this address yourself.");
        return print_url(cli, url, answer);
    }
    fputs("Opened in your browser. Where it did not: gatehouse open --print\n", stderr);
    return CLI_DONE;
}

static int run_open(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    struct open_opts o = {.role = "approver"};
    const struct cli_opt opts[] = {{"--role", CLI_OPT_TEXT, &o.role},
                                   {"--via", CLI_OPT_TEXT, &o.via},
                                   {"--print", CLI_OPT_FLAG, &o.is_print},
                                   {NULL, CLI_OPT_END, NULL}};
    char body[48];
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){opts, 0, 0});
    if (code != CLI_GO_ON) {
        return code;
    }
    if (strcmp(o.role, "approver") != 0 && strcmp(o.role, "viewer") != 0) {
        return cli_usage(&cli, "--role takes viewer or approver.");
    }
    if (o.via != NULL && !is_address(o.via)) {
        return cli_usage(&cli, "--via takes HOST:PORT.");
    }
    code = cli_connect(&cli, CLI_AS_APPROVER);
    if (code == CLI_GO_ON) {
        snprintf(body, sizeof body, "{\"role\":\"%s\"}", o.role);
        const struct cli_request request = {
            .method = "POST", .path = "/v1/login/codes", .body = body};
        code = cli_send(&cli, &request, &answer);
    }
    return code == CLI_GO_ON ? show_page(&cli, &o, &answer) : code;
}
