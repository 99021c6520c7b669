/* config: the service's settings, one table in table.c. libcyaml ends here.
 *
 * Source of the keys: decisions.md "Configuration and start". An unknown key, a wrong type or a bad
 * value is refused with file, line and key. A loaded configuration is immutable. Threads: any.
 */
#ifndef GH_CONFIG_CONFIG_H
#define GH_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum config_optin { CONFIG_NO = 0, CONFIG_YES, CONFIG_CONTAINED };

struct config_command {
    char *name; /* unique */
    char *program;
    char **args;          /* NULL-ended, never NULL */
    int64_t timeout_secs; /* 300 when not set */
    char **env;           /* "K=V", NULL-ended, never NULL */
};

struct config_agent {
    char *name;
    bool rewrite;
    int64_t timeout_s; /* 0 when not set */
};

struct config_notify {
    char *url;
    char *secret;  /* never shown; may be NULL */
    char **events; /* NULL-ended, never NULL; empty: all */
};

struct config {
    struct {
        char **deny_paths; /* NULL-ended, never NULL */
        struct config_command *allowed_commands;
        size_t n_allowed_commands;
    } permissions;
    struct {
        bool require_enforcement;                      /* default true */
        enum config_optin allow_unix_sockets;          /* default contained */
        enum config_optin allow_leaving_process_group; /* default contained */
        bool share_system_tmp;                         /* default false */
        char **extra_read_paths;                       /* absolute; NULL-ended, never NULL */
        char *network;      /* "unrestricted", "none", "loopback", "tcp_ports" */
        int64_t *tcp_ports; /* n_tcp_ports of them */
        size_t n_tcp_ports;
        char *namespaces; /* "auto", "off", "require" */
        bool protect_git; /* default true */
    } sandbox;
    struct {
        bool checkpoints;        /* default true */
        char **ignore;           /* NULL-ended, never NULL */
        int64_t retain;          /* default 50 */
        int64_t max_file_mib;    /* default 64 */
        bool require_checkpoint; /* default false */
    } git;
    struct {
        int64_t timeout_s;               /* default 300 */
        int64_t max_timeout_s;           /* default 86400 */
        int64_t max_pending;             /* default 1024 */
        int64_t max_pending_per_session; /* default 64 */
    } asks;
    struct {
        char **allow_wide; /* absolute; NULL-ended, never NULL */
    } sessions;
    struct {
        char *tcp;               /* "127.0.0.1:7717"; "" switches TCP off */
        char *unix_path;         /* key `unix`; NULL: the default place; "" switches it off */
        char **allowed_hosts;    /* NULL-ended, never NULL */
        char **allowed_origins;  /* NULL-ended, never NULL */
        bool allow_non_loopback; /* default false */
    } listen;
    struct {
        int64_t body_mib;   /* default 4 */
        int64_t output_kib; /* default 50 */
    } limits;
    struct {
        int64_t timeout_s; /* default 300 */
    } exec;
    struct {
        char **allowed_agents; /* token names; NULL-ended, never NULL */
    } autonomous;
    struct {
        int64_t retain_days; /* default 0: never */
    } audit;
    struct {
        bool rollback; /* default true */
    } hooks;
    struct config_agent *agents;
    size_t n_agents;
    struct config_notify *notify;
    size_t n_notify;
};

/* Load `path`; NULL or a file that does not exist gives the defaults when `may_be_missing`.
 * *ret is owned by caller (config_free). Fails with GH_CONFIG ("FILE:LINE: KEY: what is wrong"),
 * GH_IO, GH_NOMEM. */
GH_MUST_USE enum gh_code config_load(const char *path, bool may_be_missing, struct config **ret,
                                     struct gh_err *err);
void config_free(struct config *config);

/* As config_load, for a text already read; `file` is the name for messages. */
GH_MUST_USE enum gh_code config_parse(const char *file, const char *data, size_t len,
                                      struct config **ret, struct gh_err *err);

struct config_tcp {
    char host[64]; /* "127.0.0.1", "::1" or "localhost" */
    uint16_t port; /* 0: any free one */
    bool is_v6;
    bool is_loopback;
};

/* Take HOST:PORT apart, by the rules of listen.tcp: [addr]:port for IPv6, literal addresses or
 * "localhost" only, beyond loopback only when allowed. Fails with GH_CONFIG; the detail is the
 * sentence alone. */
GH_MUST_USE enum gh_code config_tcp_parse(const char *text, bool allow_non_loopback,
                                          struct config_tcp *ret, struct gh_err *err);

/* The line in `path` of permissions.deny_paths entry `index`, or 0. */
int config_deny_line(const char *path, size_t index);

/* Append the effective configuration as a JSON object, secrets as "redacted". */
void config_json(const struct config *config, struct gh_buf *out);

/* Convert a YAML document of our own (no aliases, at most 64 levels) to JSON, appended to `out`.
 * Fails with GH_INTERNAL (not such a document) or GH_NOMEM. */
GH_MUST_USE enum gh_code config_yaml_to_json(const char *text, size_t len, struct gh_buf *out,
                                             struct gh_err *err);

#endif
