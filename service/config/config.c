#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "config/node.h"
#include "config/slots.h"
#include "config/value.h"

#define MAX_BYTES (1 << 20)

static void free_configp(struct config **config)
{
    config_free(*config);
}

/* A file that another user can write would let that user lift denials. Root can do so anyway, and
 * some systems keep every settings file as root's. */
static enum gh_code check_owner(const char *path, const struct stat *st, struct gh_err *err)
{
    if (!S_ISREG(st->st_mode)) {
        return gh_fail(err, GH_CONFIG, "%s is not a regular file.", path);
    }
    if (st->st_uid != geteuid() && st->st_uid != 0) {
        return gh_fail(err, GH_CONFIG, "%s belongs to another user.", path);
    }
    if ((st->st_mode & 022) != 0) {
        return gh_fail(err, GH_CONFIG,
                       "%s can be written by others (mode %03o); run: chmod go-w %s", path,
                       (unsigned)st->st_mode & 0777U, path);
    }
    if (st->st_size > MAX_BYTES) {
        return gh_fail(err, GH_CONFIG, "%s is larger than %d bytes.", path, MAX_BYTES);
    }
    return GH_OK;
}

static enum gh_code read_all(int fd, const char *path, struct gh_buf *out, struct gh_err *err)
{
    char chunk[8192];
    while (out->len <= MAX_BYTES) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return gh_fail(err, GH_IO, "%s cannot be read: %s.", path, strerror(errno));
        }
        if (n == 0) {
            return out->failed
                       ? gh_fail(err, GH_NOMEM, "There is not enough memory to read %s.", path)
                       : GH_OK;
        }
        gh_buf_put(out, chunk, (size_t)n);
    }
    return gh_fail(err, GH_CONFIG, "%s is larger than %d bytes.", path, MAX_BYTES);
}

/* A link may lead to the file (dotfile managers), but a link that leads nowhere is not "missing":
 * the rules it stands for would be dropped in silence. */
static bool is_missing(const char *path)
{
    struct stat st;
    return lstat(path, &st) != 0 && errno == ENOENT;
}

/* GH_NOT_FOUND when there is no file. */
static enum gh_code read_file(const char *path, struct gh_buf *out, mode_t *ret_mode,
                              struct gh_err *err)
{
    gh_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0) {
        int saved = errno;
        return gh_fail(err, is_missing(path) ? GH_NOT_FOUND : GH_IO, "%s cannot be opened: %s.",
                       path, strerror(saved));
    }
    if (fstat(fd, &st) != 0) {
        return gh_fail(err, GH_IO, "%s cannot be opened: %s.", path, strerror(errno));
    }
    GH_TRY(check_owner(path, &st, err));
    *ret_mode = st.st_mode;
    return read_all(fd, path, out, err);
}

static enum gh_code check_listen(const struct config *config, const struct nodes *nodes,
                                 struct gh_err *err)
{
    struct config_tcp tcp;
    struct gh_err inner;
    const char *text = config->listen.tcp;
    bool has_unix = config->listen.unix_path == NULL || config->listen.unix_path[0] != '\0';
    if (text[0] == '\0') {
        return has_unix ? GH_OK
                        : nodes_refuse(nodes, "listen.tcp", err,
                                       "With unix off as well there is nothing to listen on.");
    }
    if (config_tcp_parse(text, config->listen.allow_non_loopback, &tcp, &inner) != GH_OK) {
        return nodes_refuse(nodes, "listen.tcp", err, "%s", inner.detail);
    }
    return GH_OK;
}

/* tcp_ports with nothing else means network: tcp_ports. */
static enum gh_code check_network(struct config *config, const struct nodes *nodes,
                                  struct gh_err *err)
{
    const struct node *word = nodes_find(nodes, "sandbox.network");
    bool has_ports = config->sandbox.n_tcp_ports > 0;
    bool is_ports = strcmp(config->sandbox.network, "tcp_ports") == 0;
    if (word == NULL || word->kind == NODE_MAP) {
        if (word != NULL && nodes_find(nodes, "sandbox.tcp_ports") != NULL) {
            return nodes_refuse(nodes, "sandbox.tcp_ports", err, "The ports are here twice.");
        }
        if (!has_ports && (word != NULL || nodes_find(nodes, "sandbox.tcp_ports") != NULL)) {
            return nodes_refuse(nodes, word != NULL ? "sandbox.network" : "sandbox.tcp_ports", err,
                                "Give at least one port, or network: none.");
        }
        if (has_ports) {
            free(config->sandbox.network);
            config->sandbox.network = strdup("tcp_ports");
        }
        return config->sandbox.network != NULL
                   ? GH_OK
                   : gh_fail(err, GH_NOMEM, "There is not enough memory.");
    }
    if (is_ports != has_ports) {
        return nodes_refuse(nodes, "sandbox.network", err,
                            is_ports ? "This needs sandbox.tcp_ports."
                                     : "With sandbox.tcp_ports this must be tcp_ports.");
    }
    return GH_OK;
}

static enum gh_code check_commands(const struct config *config, const struct nodes *nodes,
                                   struct gh_err *err)
{
    for (size_t i = 0; i < config->permissions.n_allowed_commands; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(config->permissions.allowed_commands[i].name,
                       config->permissions.allowed_commands[k].name) == 0) {
                char path[NODE_PATH];
                snprintf(path, sizeof path, "permissions.allowed_commands[%zu].name", i);
                return nodes_refuse(nodes, path, err, "Another command has this name.");
            }
        }
    }
    return GH_OK;
}

/* What one key alone cannot tell. */
static enum gh_code check_whole(struct config *config, const struct nodes *nodes,
                                struct gh_err *err)
{
    if (config->asks.timeout_s > config->asks.max_timeout_s) {
        bool is_set = nodes_find(nodes, "asks.timeout_s") != NULL;
        return nodes_refuse(nodes, is_set ? "asks.timeout_s" : "asks.max_timeout_s", err,
                            "asks.timeout_s may not be larger than asks.max_timeout_s.");
    }
    GH_TRY(check_listen(config, nodes, err));
    GH_TRY(check_network(config, nodes, err));
    return check_commands(config, nodes, err);
}

enum gh_code config_parse(const char *file, const char *data, size_t len, struct config **ret,
                          struct gh_err *err)
{
    gh_auto(nodes_freep) struct nodes *nodes = NULL;
    gh_auto(slots_freep) struct slots *slots = NULL;
    gh_auto(free_configp) struct config *config = calloc(1, sizeof *config);
    if (config == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory to read the configuration.");
    }
    GH_TRY(nodes_read(file, data, len, &nodes, err));
    if (nodes->n > 0) {
        GH_TRY(slots_load(nodes, data, len, &slots, err));
    }
    GH_TRY(value_fill(config, nodes, slots, err));
    GH_TRY(check_whole(config, nodes, err));
    *ret = gh_steal(&config);
    return GH_OK;
}

/* A webhook's secret in a file that everyone can read is worth a line, not a refusal: the file may
 * be meant to be read by others for the rest of it. */
static void warn_secrets(const char *path, mode_t mode, const struct config *config)
{
    for (size_t i = 0; (mode & 044) != 0 && i < config->n_notify; i++) {
        if (config->notify[i].secret != NULL) {
            gh_log(GH_LOG_WARN, "config_secret_readable_by_others", "file", path, NULL);
            return;
        }
    }
}

enum gh_code config_load(const char *path, bool may_be_missing, struct config **ret,
                         struct gh_err *err)
{
    gh_auto(gh_buf_fini) struct gh_buf data = GH_BUF_INIT;
    mode_t mode = 0600;
    enum gh_code code = GH_NOT_FOUND;
    if (path != NULL) {
        code = read_file(path, &data, &mode, err);
    }
    if (code != GH_OK && !(code == GH_NOT_FOUND && may_be_missing)) {
        return code == GH_NOT_FOUND ? gh_fail(err, GH_IO, "The configuration %s does not exist.",
                                              path != NULL ? path : "file")
                                    : code;
    }
    GH_TRY(config_parse(path != NULL ? path : "defaults", gh_buf_str(&data), data.len, ret, err));
    warn_secrets(path, mode, *ret);
    return GH_OK;
}

void config_free(struct config *config)
{
    if (config != NULL) {
        value_free(config);
        free(config);
    }
}

int config_deny_line(const char *path, size_t index)
{
    gh_auto(gh_buf_fini) struct gh_buf data = GH_BUF_INIT;
    gh_auto(nodes_freep) struct nodes *nodes = NULL;
    mode_t mode = 0;
    char place[NODE_PATH];
    if (path == NULL || read_file(path, &data, &mode, NULL) != GH_OK ||
        nodes_read(path, gh_buf_str(&data), data.len, &nodes, NULL) != GH_OK) {
        return 0;
    }
    snprintf(place, sizeof place, "permissions.deny_paths[%zu]", index);
    const struct node *node = nodes_find(nodes, place);
    return node != NULL ? (int)node->line : 0;
}

void config_json(const struct config *config, struct gh_buf *out)
{
    value_json(config, out);
}
