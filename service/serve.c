#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/id.h"
#include "base/log.h"
#include "base/pool.h"
#include "text/diff.h"

#define POOL_THREADS 6
#define POOL_QUEUE 4096
#define STOP_GRACE_MS 3000
#define RETRY_LISTEN_MS 1500

const char serve_help[] =
    "Usage: gatehouse serve [--config FILE] [--state-dir DIR] [--listen HOST:PORT]\n"
    "                       [--socket PATH] [--log-level LEVEL]\n"
    "\n"
    "Runs the service in the foreground until SIGTERM or SIGINT. SIGHUP reads the\n"
    "configuration again.\n"
    "\n"
    "  gatehouse serve                        the usual places: ~/.config, ~/.local\n"
    "  gatehouse serve --listen 127.0.0.1:0   a free port; run.json in the state\n"
    "                                         folder names it\n"
    "  gatehouse serve --state-dir /tmp/try --socket /tmp/try/api.sock\n"
    "\n"
    "Options:\n"
    "  --config FILE      settings (YAML or JSON);\n"
    "                     default $XDG_CONFIG_HOME/gatehouse/config.yaml\n"
    "  --state-dir DIR    tokens, audit log, run.json;\n"
    "                     default $XDG_STATE_HOME/gatehouse\n"
    "  --listen HOST:PORT TCP address; loopback only unless\n"
    "                     listen.allow_non_loopback; \"\" for none\n"
    "  --socket PATH      unix socket; default $XDG_RUNTIME_DIR/gatehouse/api.sock;\n"
    "                     \"\" for none\n"
    "  --log-level LEVEL  debug, info, warn or error; default info\n"
    "\n"
    "Exit code: 0 ended by a signal, 1 could not start or failed, 2 usage.\n";

struct serve {
    char *config_path, *config_dir, *config_file, *state_dir, *socket, *runtime_dir;
    char *home, *other_home;
    const char *listen; /* from the command line, or NULL */
    bool has_config;    /* --config was given: the file must exist */
    bool has_socket;
    bool has_terminal; /* started on one */
    int state_fd;
    struct config *config; /* until core takes it */
    struct store *store;
    struct scan *scan;
    struct gh_pool *pool;
    struct auth *auth;
    struct core *core;
    struct http_server *http;
    struct api api;
    struct config_tcp tcp;
    size_t body_limit; /* bytes, where no route says otherwise */
    bool has_tcp;
};

/* ---- where things are ---- */

static char *join(const char *dir, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", dir, name) < 0 ? NULL : path;
}

static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL || slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* The runtime folder when there is one of ours, else the state folder. */
static char *default_socket(const char *state_dir)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    gh_autofree char *dir =
        runtime != NULL && runtime[0] == '/' ? join(runtime, "gatehouse") : NULL;
    struct gh_err err;
    int fd = -1;
    if (dir != NULL && gh_fs_private_dir(dir, &fd, &err) == GH_OK) {
        close(fd);
        return join(dir, "api.sock");
    }
    return join(state_dir, "api.sock");
}

/* "~" is $HOME, as for the agents; the home of the password database is guarded as well. */
static void find_homes(struct serve *serve)
{
    const char *home = getenv("HOME");
    serve->home = home != NULL && home[0] == '/' ? strdup(home) : gh_fs_home();
    serve->other_home = gh_fs_home();
    if (serve->home != NULL && serve->other_home != NULL &&
        strcmp(serve->home, serve->other_home) == 0) {
        free(gh_steal(&serve->other_home));
    }
}

static enum gh_code find_places(struct serve *serve, struct gh_err *err)
{
    find_homes(serve);
    serve->config_dir = gh_fs_xdg("XDG_CONFIG_HOME", ".config");
    if (serve->config_path == NULL) {
        serve->config_path =
            serve->config_dir != NULL ? join(serve->config_dir, "config.yaml") : NULL;
    } else {
        /* A file named by hand may lie among a person's other files: it alone is ours. */
        serve->config_file = realpath(serve->config_path, NULL);
    }
    if (serve->state_dir == NULL) {
        serve->state_dir = gh_fs_xdg("XDG_STATE_HOME", ".local/state");
    }
    if (serve->config_path == NULL || serve->state_dir == NULL) {
        return gh_fail(err, GH_CONFIG, "There is no home folder; give --config and --state-dir.");
    }
    GH_TRY(gh_fs_private_dir(serve->state_dir, &serve->state_fd, err));
    char *real = realpath(serve->state_dir, NULL);
    if (real == NULL) {
        return gh_fail(err, GH_IO, "The state folder cannot be resolved: %s.", strerror(errno));
    }
    free(serve->state_dir);
    serve->state_dir = real;
    return GH_OK;
}

static enum gh_code find_socket(struct serve *serve, struct gh_err *err)
{
    const char *configured = serve->config->listen.unix_path;
    if (!serve->has_socket) {
        serve->socket = configured != NULL ? strdup(configured) : default_socket(serve->state_dir);
    }
    if (serve->socket == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    if (serve->socket[0] == '\0') {
        free(gh_steal(&serve->socket));
        return GH_OK;
    }
    if (strlen(serve->socket) >= sizeof((struct sockaddr_un *)0)->sun_path) {
        return gh_fail(
            err, GH_CONFIG,
            "The socket path %s is longer than the kernel takes (107 bytes); give --socket.",
            serve->socket);
    }
    bool is_own_folder = !serve->has_socket && configured == NULL;
    serve->runtime_dir = is_own_folder ? parent_of(serve->socket) : strdup(serve->socket);
    return GH_OK;
}

/* "HOST:PORT", "[::1]:PORT" or "". */
static enum gh_code parse_listen(struct serve *serve, struct gh_err *err)
{
    const char *text = serve->listen != NULL ? serve->listen : serve->config->listen.tcp;
    if (text[0] == '\0') {
        return GH_OK;
    }
    GH_TRY(config_tcp_parse(text, serve->config->listen.allow_non_loopback, &serve->tcp, err));
    serve->has_tcp = true;
    if (strcmp(serve->tcp.host, "localhost") == 0) {
        /* The address itself (and ::1 beside it): no resolver is asked what the name means. */
        snprintf(serve->tcp.host, sizeof serve->tcp.host, "127.0.0.1");
    }
    if (!serve->tcp.is_loopback) {
        gh_log(GH_LOG_WARN, "listening_beyond_loopback", "address", text, NULL);
    }
    return GH_OK;
}

/* ---- start ---- */

static void token_dropped(const char *token_id, void *cookie)
{
    struct serve *serve = cookie;
    if (serve->core != NULL) {
        core_token_dropped(serve->core, token_id);
    }
}

static enum gh_code start_parts(struct serve *serve, struct gh_err *err)
{
    const struct store_options store = {serve->state_dir, serve->config->audit.retain_days};
    GH_TRY(store_open(&store, &serve->store, err));
    GH_TRY(scan_new(&serve->scan, err));
    GH_TRY(gh_pool_new(POOL_THREADS, POOL_QUEUE, &serve->pool, err));
    GH_TRY(auth_tokens_prepare(serve->state_dir, err));
    const struct core_options core = {
        .store = serve->store,
        .scan = serve->scan,
        .pool = serve->pool,
        .home = serve->home,
        .other_home = serve->other_home,
        .config_dir = serve->config_dir,
        .config_file = serve->config_file,
        .state_dir = serve->state_dir,
        .runtime_dir = serve->runtime_dir,
        .version = GH_VERSION,
    };
    GH_TRY(api_set_edge(&serve->api, serve->config, err));
    serve->body_limit = (size_t)serve->config->limits.body_mib << 20;
    GH_TRY(core_new(&core, &serve->config, &serve->core, err));
    return auth_new(serve->state_dir, token_dropped, serve, &serve->auth, err);
}

static void fill_api(struct serve *serve)
{
    struct api *api = &serve->api;
    api->core = serve->core;
    api->auth = serve->auth;
    api->store = serve->store;
    api->pool = serve->pool;
    api->version = GH_VERSION;
    api->state_dir = serve->state_dir;
    api->socket = serve->socket;
    api->started_ms = gh_clock_wall_ms();
}

/* The first request may ask for it: it is known before. */
static void take_address(const char *address, void *cookie)
{
    struct api *api = cookie;
    if (address != NULL) {
        snprintf(api->listen, sizeof api->listen, "%s", address);
        api->port = (uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10);
    }
}

/* A socket of a service that is just ending is gone in a moment; ours is the only state folder. */
static enum gh_code start_http(struct serve *serve, struct gh_err *err)
{
    const struct http_options options = {
        .tcp_host = serve->has_tcp ? serve->tcp.host : NULL,
        .tcp_port = serve->tcp.port,
        .also_v6_loopback = serve->has_tcp && strcmp(serve->tcp.host, "127.0.0.1") == 0,
        .unix_path = serve->socket,
        .head = api_head,
        .handler = api_handle,
        .bound = take_address,
        .cookie = &serve->api,
        .body_limit = serve->body_limit,
    };
    enum gh_code code = http_server_start(&options, &serve->http, err);
    for (int waited_ms = 0; code == GH_IO && waited_ms < RETRY_LISTEN_MS; waited_ms += 100) {
        const struct timespec nap = {0, 100000000};
        nanosleep(&nap, NULL);
        code = http_server_start(&options, &serve->http, err);
    }
    return code;
}

/* ---- telling the world ---- */

static enum gh_code write_run_json(struct serve *serve, struct gh_err *err)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    char boot[GH_BOOT_ID];
    gh_clock_boot_id(boot);
    gh_jw_obj(&w, NULL);
    gh_jw_int(&w, "pid", getpid());
    gh_jw_time(&w, "started_at", serve->api.started_ms);
    gh_jw_str(&w, "boot_id", boot);
    gh_jw_str(&w, "listen", serve->api.listen[0] != '\0' ? serve->api.listen : NULL);
    gh_jw_str(&w, "socket", serve->socket);
    gh_jw_str(&w, "version", GH_VERSION);
    gh_jw_end(&w);
    gh_buf_putc(&body, '\n');
    if (body.failed) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    return gh_fs_replace(serve->state_fd, "run.json", body.data, body.len, err);
}

/* sd_notify, spoken directly: one datagram to $NOTIFY_SOCKET. */
static void notify_manager(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || (path[0] != '/' && path[0] != '@') ||
        strlen(path) >= sizeof address.sun_path) {
        return;
    }
    gh_autoclose int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@') {
        address.sun_path[0] = '\0';
    }
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    (void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address, len);
}

static void say_ready(const struct serve *serve)
{
    gh_log(GH_LOG_INFO, "ready", "version", GH_VERSION, "listen",
           serve->api.listen[0] != '\0' ? serve->api.listen : NULL, "socket", serve->socket,
           "state", serve->state_dir, NULL);
    notify_manager("READY=1\n");
}

/* ---- signals ---- */

static void reload(struct serve *serve)
{
    char text[64];
    struct config *config = NULL;
    struct gh_err err;
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld\n",
             (long long)gh_clock_boot_ms() * 1000);
    notify_manager(text);
    enum gh_code code = config_load(serve->config_path, !serve->has_config, &config, &err);
    if (code == GH_OK) {
        code = api_set_edge(&serve->api, config, &err);
    }
    if (code == GH_OK) {
        code = core_reload(serve->core, &config, &err);
    } else {
        core_reload_failed(serve->core);
    }
    if (code == GH_OK) {
        gh_log(GH_LOG_INFO, "reloaded", "config", serve->config_path, NULL);
    } else {
        gh_log(GH_LOG_ERROR, "reload_refused", "why", err.detail, NULL);
        config_free(config);
    }
    notify_manager("READY=1\n");
}

/* A terminal that is gone hangs up what was started on it. */
static bool terminal_is_gone(const struct serve *serve)
{
    if (!serve->has_terminal) {
        return false;
    }
    gh_autoclose int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    return fd < 0;
}

static void wait_for_end(struct serve *serve, int signal_fd)
{
    for (;;) {
        struct signalfd_siginfo info;
        ssize_t n = read(signal_fd, &info, sizeof info);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n != (ssize_t)sizeof info) {
            return;
        }
        if (info.ssi_signo != SIGHUP || terminal_is_gone(serve)) {
            gh_log(GH_LOG_INFO, "stopping", "signal", strsignal((int)info.ssi_signo), NULL);
            return;
        }
        reload(serve);
    }
}

/* ---- end ---- */

static void wait_until_answered(const struct serve *serve)
{
    const struct timespec nap = {0, 5000000};
    for (int waited_ms = 0; waited_ms < STOP_GRACE_MS && http_server_busy(serve->http);
         waited_ms += 5) {
        nanosleep(&nap, NULL);
    }
}

/* Answer what waits, then take apart from the edge to the middle. */
static void stop(struct serve *serve)
{
    notify_manager("STOPPING=1\n");
    atomic_store(&serve->api.is_stopping, true);
    if (serve->http != NULL) {
        http_server_quiesce(serve->http);
        core_stop(serve->core);
        wait_until_answered(serve);
        unlinkat(serve->state_fd, "run.json", 0);
    }
    gh_pool_free(gh_steal(&serve->pool));
    store_close(gh_steal(&serve->store));
    http_server_free(serve->http, STOP_GRACE_MS);
    auth_free(serve->auth);
    core_free(serve->core);
    scan_free(serve->scan);
    config_free(serve->config);
    api_free_edges(&serve->api);
    free(serve->config_path);
    free(serve->config_dir);
    free(serve->config_file);
    free(serve->other_home);
    free(serve->state_dir);
    free(serve->socket);
    free(serve->runtime_dir);
    free(serve->home);
    if (serve->state_fd >= 0) {
        close(serve->state_fd);
    }
}

static enum gh_code start(struct serve *serve, struct gh_err *err)
{
    GH_TRY(find_places(serve, err));
    GH_TRY(config_load(serve->config_path, !serve->has_config, &serve->config, err));
    GH_TRY(find_socket(serve, err));
    GH_TRY(parse_listen(serve, err));
    GH_TRY(start_parts(serve, err));
    fill_api(serve);
    GH_TRY(start_http(serve, err));
    return write_run_json(serve, err);
}

/* ---- the command ---- */

static bool set_level(const char *word)
{
    static const char *const words[] = {"debug", "info", "warn", "error"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(words[i], word) == 0) {
            gh_log_level((enum gh_log_level)i);
            return true;
        }
    }
    return false;
}

static bool parse_args(struct serve *serve, int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},    {"state-dir", required_argument, NULL, 's'},
        {"listen", required_argument, NULL, 'l'},    {"socket", required_argument, NULL, 'u'},
        {"log-level", required_argument, NULL, 'v'}, {NULL, 0, NULL, 0},
    };
    optind = 1;
    for (int c = getopt_long(argc, argv, "", options, NULL); c != -1;
         c = getopt_long(argc, argv, "", options, NULL)) {
        bool is_known = true;
        switch (c) {
        case 'c':
            serve->config_path = strdup(optarg);
            serve->has_config = true;
            break;
        case 's':
            serve->state_dir = strdup(optarg);
            break;
        case 'l':
            serve->listen = optarg;
            break;
        case 'u':
            serve->socket = strdup(optarg);
            serve->has_socket = true;
            break;
        case 'v':
            is_known = set_level(optarg);
            break;
        default:
            is_known = false;
            break;
        }
        if (!is_known) {
            return false;
        }
    }
    return optind == argc;
}

int serve_main(int argc, char **argv)
{
    struct serve serve = {.state_fd = -1, .has_terminal = isatty(STDIN_FILENO) != 0};
    struct gh_err err;
    if (!parse_args(&serve, argc, argv)) {
        fputs(serve_help, stderr);
        stop(&serve);
        return 2;
    }
    umask(077);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL); /* before any thread: they all inherit it */
    gh_autoclose int signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    mallopt(M_TOP_PAD, 1 << 20);
    mallopt(M_MXFAST, 0); /* the per-thread caches do; fast bins only make larger requests slow */
    text_diff_open();
    enum gh_code code =
        signal_fd < 0 ? gh_fail(&err, GH_IO, "Signals cannot be received.") : start(&serve, &err);
    if (code == GH_OK) {
        say_ready(&serve);
        wait_for_end(&serve, signal_fd);
    } else {
        fprintf(stderr, "gatehouse: %s\n", err.detail);
    }
    stop(&serve);
    text_diff_close();
    return code == GH_OK ? 0 : 1;
}
