#include "config/table.h"

#include "config/config.h"
#include "config/words.h"

#define DAY_S 86400
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define AT(member) offsetof(struct config, member)
#define OF(type, member) offsetof(struct type, member)

static const char *const network_words[] = {"unrestricted", "none", "loopback", "tcp_ports", NULL};
static const char *const namespace_words[] = {"auto", "off", "require", NULL};

static const struct table_key command_keys[] = {
    {"name", TABLE_TEXT, OF(config_command, name), .max = 64, .wrong = words_name, .needed = true},
    {"program", TABLE_TEXT, OF(config_command, program), .max = 4095, .wrong = words_program,
     .needed = true},
    {"args", TABLE_LIST, OF(config_command, args), .max = 1024},
    {"timeout_secs", TABLE_INT, OF(config_command, timeout_secs), .fallback = 300, .min = 1,
     .max = DAY_S},
    {"env", TABLE_LIST, OF(config_command, env), .max = 256, .wrong = words_env},
};
static const struct table_set command_set = {command_keys, COUNT(command_keys),
                                             sizeof(struct config_command)};

static const struct table_key agent_keys[] = {
    {"rewrite", TABLE_BOOL, OF(config_agent, rewrite), .fallback = false},
    {"timeout_s", TABLE_INT, OF(config_agent, timeout_s), .fallback = 0, .min = 1, .max = DAY_S},
};
static const struct table_set agent_set = {agent_keys, COUNT(agent_keys),
                                           sizeof(struct config_agent)};

static const struct table_key notify_keys[] = {
    {"url", TABLE_TEXT, OF(config_notify, url), .max = 2048, .wrong = words_url, .needed = true},
    {"secret", TABLE_TEXT, OF(config_notify, secret), .max = 512, .wrong = words_program,
     .secret = true},
    {"events", TABLE_LIST, OF(config_notify, events), .max = 64, .wrong = words_event},
};
static const struct table_set notify_set = {notify_keys, COUNT(notify_keys),
                                            sizeof(struct config_notify)};

static const struct table_key permissions_keys[] = {
    {"deny_paths", TABLE_LIST, AT(permissions.deny_paths), .max = 4096, .wrong = words_deny},
    {"allowed_commands", TABLE_ROWS, AT(permissions.allowed_commands),
     AT(permissions.n_allowed_commands), .set = &command_set},
};
static const struct table_set permissions_set = {permissions_keys, COUNT(permissions_keys), 0};

static const struct table_key sandbox_keys[] = {
    {"require_enforcement", TABLE_BOOL, AT(sandbox.require_enforcement), .fallback = true},
    {"allow_unix_sockets", TABLE_OPTIN, AT(sandbox.allow_unix_sockets),
     .fallback = CONFIG_CONTAINED},
    {"allow_leaving_process_group", TABLE_OPTIN, AT(sandbox.allow_leaving_process_group),
     .fallback = CONFIG_CONTAINED},
    {"share_system_tmp", TABLE_BOOL, AT(sandbox.share_system_tmp), .fallback = false},
    {"extra_read_paths", TABLE_LIST, AT(sandbox.extra_read_paths), .max = 256, .wrong = words_path,
     .is_path = true},
    {"network", TABLE_WORD, AT(sandbox.network), .fallback_text = "unrestricted",
     .words = network_words},
    {"tcp_ports", TABLE_INTS, AT(sandbox.tcp_ports), AT(sandbox.n_tcp_ports), .min = 1,
     .max = 65535},
    {"namespaces", TABLE_WORD, AT(sandbox.namespaces), .fallback_text = "auto",
     .words = namespace_words},
    {"protect_git", TABLE_BOOL, AT(sandbox.protect_git), .fallback = true},
};
static const struct table_set sandbox_set = {sandbox_keys, COUNT(sandbox_keys), 0};

static const struct table_key git_keys[] = {
    {"checkpoints", TABLE_BOOL, AT(git.checkpoints), .fallback = true},
    {"ignore", TABLE_LIST, AT(git.ignore), .max = 1024, .wrong = words_ignore},
    {"retain", TABLE_INT, AT(git.retain), .fallback = 50, .min = 1, .max = 10000},
    {"max_file_mib", TABLE_INT, AT(git.max_file_mib), .fallback = 64, .min = 1, .max = 4096},
    {"require_checkpoint", TABLE_BOOL, AT(git.require_checkpoint), .fallback = false},
};
static const struct table_set git_set = {git_keys, COUNT(git_keys), 0};

static const struct table_key asks_keys[] = {
    {"timeout_s", TABLE_INT, AT(asks.timeout_s), .fallback = 300, .min = 1, .max = DAY_S},
    {"max_timeout_s", TABLE_INT, AT(asks.max_timeout_s), .fallback = DAY_S, .min = 1, .max = DAY_S},
    {"max_pending", TABLE_INT, AT(asks.max_pending), .fallback = 1024, .min = 1, .max = 65536},
    {"max_pending_per_session", TABLE_INT, AT(asks.max_pending_per_session), .fallback = 64,
     .min = 1, .max = 65536},
};
static const struct table_set asks_set = {asks_keys, COUNT(asks_keys), 0};

static const struct table_key sessions_keys[] = {
    {"allow_wide", TABLE_LIST, AT(sessions.allow_wide), .max = 256, .wrong = words_path,
     .is_path = true},
};
static const struct table_set sessions_set = {sessions_keys, COUNT(sessions_keys), 0};

static const struct table_key listen_keys[] = {
    {"tcp", TABLE_TEXT, AT(listen.tcp), .fallback_text = "127.0.0.1:7717", .max = 64},
    {"unix", TABLE_TEXT, AT(listen.unix_path), .max = 107, .wrong = words_socket, .is_path = true},
    {"allowed_hosts", TABLE_LIST, AT(listen.allowed_hosts), .max = 64, .wrong = words_host},
    {"allowed_origins", TABLE_LIST, AT(listen.allowed_origins), .max = 64, .wrong = words_origin},
    {"allow_non_loopback", TABLE_BOOL, AT(listen.allow_non_loopback), .fallback = false},
};
static const struct table_set listen_set = {listen_keys, COUNT(listen_keys), 0};

static const struct table_key limits_keys[] = {
    {"body_mib", TABLE_INT, AT(limits.body_mib), .fallback = 4, .min = 1, .max = 64},
    {"output_kib", TABLE_INT, AT(limits.output_kib), .fallback = 50, .min = 1, .max = 16384},
};
static const struct table_set limits_set = {limits_keys, COUNT(limits_keys), 0};

static const struct table_key exec_keys[] = {
    {"timeout_s", TABLE_INT, AT(exec.timeout_s), .fallback = 300, .min = 1, .max = DAY_S},
};
static const struct table_set exec_set = {exec_keys, COUNT(exec_keys), 0};

static const struct table_key autonomous_keys[] = {
    {"allowed_agents", TABLE_LIST, AT(autonomous.allowed_agents), .max = 256,
     .wrong = words_token_name},
};
static const struct table_set autonomous_set = {autonomous_keys, COUNT(autonomous_keys), 0};

static const struct table_key audit_keys[] = {
    {"retain_days", TABLE_INT, AT(audit.retain_days), .fallback = 0, .min = 0, .max = 36500},
};
static const struct table_set audit_set = {audit_keys, COUNT(audit_keys), 0};

static const struct table_key hooks_keys[] = {
    {"rollback", TABLE_BOOL, AT(hooks.rollback), .fallback = true},
};
static const struct table_set hooks_set = {hooks_keys, COUNT(hooks_keys), 0};

static const struct table_key top_keys[] = {
    {"permissions", TABLE_SECTION, 0, .set = &permissions_set},
    {"sandbox", TABLE_SECTION, 0, .set = &sandbox_set},
    {"git", TABLE_SECTION, 0, .set = &git_set},
    {"asks", TABLE_SECTION, 0, .set = &asks_set},
    {"sessions", TABLE_SECTION, 0, .set = &sessions_set},
    {"listen", TABLE_SECTION, 0, .set = &listen_set},
    {"limits", TABLE_SECTION, 0, .set = &limits_set},
    {"exec", TABLE_SECTION, 0, .set = &exec_set},
    {"autonomous", TABLE_SECTION, 0, .set = &autonomous_set},
    {"audit", TABLE_SECTION, 0, .set = &audit_set},
    {"hooks", TABLE_SECTION, 0, .set = &hooks_set},
    {"agents", TABLE_NAMED, AT(agents), AT(n_agents), .set = &agent_set},
    {"notify", TABLE_ROWS, AT(notify), AT(n_notify), .set = &notify_set},
};
const struct table_set table_top = {top_keys, COUNT(top_keys), sizeof(struct config)};
