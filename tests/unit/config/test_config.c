/* Tests of config: defaults, every key, files that are not safe to read. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fs.h"
#include "config/config.h"

static void free_configp(struct config **config)
{
    config_free(*config);
}

static struct config *parse_ok(const char *text)
{
    struct config *config = NULL;
    struct gh_err err = {0};
    enum gh_code code = config_parse("c.yaml", text, strlen(text), &config, &err);
    ck_assert_msg(code == GH_OK, "%s\nfor:\n%s", err.detail, text);
    return config;
}

START_TEST(defaults_are_the_safe_ones)
{
    static const char *const empty[] = {"", "# nothing\n", "---\n", "{}", "{ }\n"};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        gh_auto(free_configp) struct config *c = parse_ok(empty[i]);
        ck_assert(c->sandbox.require_enforcement);
        ck_assert_int_eq(c->sandbox.allow_unix_sockets, CONFIG_CONTAINED);
        ck_assert_int_eq(c->sandbox.allow_leaving_process_group, CONFIG_CONTAINED);
        ck_assert(!c->sandbox.share_system_tmp && c->sandbox.protect_git);
        ck_assert_str_eq(c->sandbox.network, "unrestricted");
        ck_assert_str_eq(c->sandbox.namespaces, "auto");
        ck_assert_uint_eq(c->sandbox.n_tcp_ports, 0);
        ck_assert(c->git.checkpoints && !c->git.require_checkpoint);
        ck_assert_int_eq(c->git.retain, 50);
        ck_assert_int_eq(c->git.max_file_mib, 64);
        ck_assert_int_eq(c->asks.timeout_s, 300);
        ck_assert_int_eq(c->asks.max_timeout_s, 86400);
        ck_assert_int_eq(c->asks.max_pending, 1024);
        ck_assert_int_eq(c->asks.max_pending_per_session, 64);
        ck_assert_str_eq(c->listen.tcp, "127.0.0.1:7717");
        ck_assert_ptr_null(c->listen.unix_path);
        ck_assert(!c->listen.allow_non_loopback);
        ck_assert_int_eq(c->limits.body_mib, 4);
        ck_assert_int_eq(c->limits.output_kib, 50);
        ck_assert_int_eq(c->exec.timeout_s, 300);
        ck_assert_int_eq(c->audit.retain_days, 0);
        ck_assert(c->hooks.rollback);
        ck_assert(c->permissions.deny_paths != NULL && c->permissions.deny_paths[0] == NULL);
        ck_assert(c->sandbox.extra_read_paths != NULL && c->sandbox.extra_read_paths[0] == NULL);
        ck_assert(c->git.ignore != NULL && c->sessions.allow_wide != NULL);
        ck_assert(c->listen.allowed_hosts != NULL && c->listen.allowed_origins != NULL);
        ck_assert(c->autonomous.allowed_agents != NULL);
        ck_assert_uint_eq(c->n_agents + c->n_notify + c->permissions.n_allowed_commands, 0);
    }
}
END_TEST

static const char whole_file[] =
    "permissions:\n"
    "  deny_paths: [/srv/secret, ~/.kube, '**/.env', '/data/**', '*.p12', 'id_*']\n"
    "  allowed_commands:\n"
    "    - name: tests\n"
    "      program: make\n"
    "      args: [check, -j2]\n"
    "      timeout_secs: 60\n"
    "      env: [CI=1, EMPTY=]\n"
    "    - {name: lint, program: /usr/bin/lint}\n"
    "sandbox:\n"
    "  require_enforcement: false\n"
    "  allow_unix_sockets: true\n"
    "  allow_leaving_process_group: off\n"
    "  share_system_tmp: yes\n"
    "  extra_read_paths: [/opt/sdk, ~/sdk]\n"
    "  network: tcp_ports\n"
    "  tcp_ports: [443, 22]\n"
    "  namespaces: require\n"
    "  protect_git: off\n"
    "git: {checkpoints: no, ignore: ['*.iso'], retain: 5, max_file_mib: 1, "
    "require_checkpoint: on}\n"
    "asks: {timeout_s: 10, max_timeout_s: 20, max_pending: 3, max_pending_per_session: 2}\n"
    "sessions: {allow_wide: [/srv]}\n"
    "listen:\n"
    "  tcp: '[::1]:0'\n"
    "  unix: /run/user/1/gh.sock\n"
    "  allowed_hosts: [gate.example, '[fd00::1]', 10.0.0.7]\n"
    "  allowed_origins: ['https://gate.example', 'http://10.0.0.7:8080', "
    "'vscode-webview://abc']\n"
    "  allow_non_loopback: true\n"
    "limits: {body_mib: 64, output_kib: 1}\n"
    "exec: {timeout_s: 86400}\n"
    "autonomous: {allowed_agents: [agent, ci-bot]}\n"
    "audit: {retain_days: 90}\n"
    "hooks: {rollback: false}\n"
    "agents:\n"
    "  claude: {rewrite: true, timeout_s: 120}\n"
    "  codex: {}\n"
    "notify:\n"
    "  - url: https://hooks.example/x\n"
    "    secret: s3cret-value\n"
    "    events: [approval.created, session.*]\n"
    "  - url: http://127.0.0.1:9000/\n";

START_TEST(every_key_is_read)
{
    gh_auto(free_configp) struct config *c = parse_ok(whole_file);
    gh_autofree char *home = gh_fs_home();
    ck_assert_ptr_nonnull(home);
    gh_autofree char *sdk = NULL;
    ck_assert_int_gt(asprintf(&sdk, "%s/sdk", home), 0);
    ck_assert_str_eq(c->permissions.deny_paths[1], "~/.kube");
    ck_assert_str_eq(c->permissions.deny_paths[5], "id_*");
    ck_assert_ptr_null(c->permissions.deny_paths[6]);
    ck_assert_uint_eq(c->permissions.n_allowed_commands, 2);
    const struct config_command *command = c->permissions.allowed_commands;
    ck_assert_str_eq(command[0].name, "tests");
    ck_assert_str_eq(command[0].args[1], "-j2");
    ck_assert_ptr_null(command[0].args[2]);
    ck_assert_int_eq(command[0].timeout_secs, 60);
    ck_assert_str_eq(command[0].env[1], "EMPTY=");
    ck_assert_str_eq(command[1].program, "/usr/bin/lint");
    ck_assert_int_eq(command[1].timeout_secs, 300);
    ck_assert(!c->sandbox.require_enforcement && c->sandbox.share_system_tmp);
    ck_assert_int_eq(c->sandbox.allow_unix_sockets, CONFIG_YES);
    ck_assert_int_eq(c->sandbox.allow_leaving_process_group, CONFIG_NO);
    ck_assert_str_eq(c->sandbox.extra_read_paths[1], sdk);
    ck_assert_uint_eq(c->sandbox.n_tcp_ports, 2);
    ck_assert_int_eq(c->sandbox.tcp_ports[1], 22);
    ck_assert(!c->sandbox.protect_git && !c->git.checkpoints && c->git.require_checkpoint);
    ck_assert_int_eq(c->git.retain, 5);
    ck_assert_int_eq(c->asks.max_pending_per_session, 2);
    ck_assert_str_eq(c->sessions.allow_wide[0], "/srv");
    ck_assert_str_eq(c->listen.tcp, "[::1]:0");
    ck_assert_str_eq(c->listen.unix_path, "/run/user/1/gh.sock");
    ck_assert_str_eq(c->listen.allowed_origins[2], "vscode-webview://abc");
    ck_assert_int_eq(c->limits.body_mib, 64);
    ck_assert_str_eq(c->autonomous.allowed_agents[1], "ci-bot");
    ck_assert_int_eq(c->audit.retain_days, 90);
    ck_assert(!c->hooks.rollback);
    ck_assert_uint_eq(c->n_agents, 2);
    ck_assert_str_eq(c->agents[0].name, "claude");
    ck_assert(c->agents[0].rewrite && !c->agents[1].rewrite);
    ck_assert_int_eq(c->agents[0].timeout_s, 120);
    ck_assert_int_eq(c->agents[1].timeout_s, 0);
    ck_assert_uint_eq(c->n_notify, 2);
    ck_assert_str_eq(c->notify[0].secret, "s3cret-value");
    ck_assert_str_eq(c->notify[0].events[1], "session.*");
    ck_assert_ptr_null(c->notify[1].secret);
    ck_assert_ptr_null(c->notify[1].events[0]);
}
END_TEST

START_TEST(json_is_yaml)
{
    gh_auto(free_configp) struct config *c =
        parse_ok("{\n\t\"asks\": {\"timeout_s\": 7},\r\n\t\"permissions\": {\"deny_paths\": "
                 "[\"\\/srv\\/a\", \"caf\\u00e9\"],\n\t\t\"allowed_commands\": []},\n"
                 "\t\"sandbox\": {\"protect_git\": false, \"allow_unix_sockets\": \"contained\"}\n"
                 "}\n");
    ck_assert_int_eq(c->asks.timeout_s, 7);
    ck_assert_str_eq(c->permissions.deny_paths[0], "/srv/a");
    ck_assert_str_eq(c->permissions.deny_paths[1], "caf\xc3\xa9");
    ck_assert(!c->sandbox.protect_git);
    ck_assert_int_eq(c->sandbox.allow_unix_sockets, CONFIG_CONTAINED);
}
END_TEST

START_TEST(ports_may_stand_below_network)
{
    static const char *const same[] = {
        "sandbox:\n  network: {tcp_ports: [443, 80]}\n",
        "sandbox:\n  tcp_ports: [443, 80]\n",
        "sandbox:\n  network: tcp_ports\n  tcp_ports: [443, 80]\n",
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        gh_auto(free_configp) struct config *c = parse_ok(same[i]);
        ck_assert_str_eq(c->sandbox.network, "tcp_ports");
        ck_assert_uint_eq(c->sandbox.n_tcp_ports, 2);
        ck_assert_int_eq(c->sandbox.tcp_ports[0], 443);
        ck_assert_int_eq(c->sandbox.tcp_ports[1], 80);
    }
}
END_TEST

START_TEST(good_deny_entries_pass)
{
    static const char *const good[] = {".env",  "*.pem", "/etc/x",   "~",     "~/.ssh", "**/.env",
                                       "/a/**", "~/**",  "**/*.key", "C:\\x", "a..b",   "/a/..b"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "permissions:\n  deny_paths: ['%s']\n", good[i]);
        gh_auto(free_configp) struct config *c = parse_ok(text);
        ck_assert_str_eq(c->permissions.deny_paths[0], good[i]);
    }
}
END_TEST

START_TEST(tcp_is_taken_apart)
{
    struct config_tcp tcp;
    struct gh_err err;
    ck_assert_int_eq(config_tcp_parse("[::1]:0", false, &tcp, &err), GH_OK);
    ck_assert(tcp.is_v6 && tcp.is_loopback && tcp.port == 0 && strcmp(tcp.host, "::1") == 0);
    ck_assert_int_eq(config_tcp_parse("localhost:7717", false, &tcp, &err), GH_OK);
    ck_assert(!tcp.is_v6 && tcp.is_loopback && tcp.port == 7717);
    ck_assert_int_eq(config_tcp_parse("127.9.9.9:65535", false, &tcp, &err), GH_OK);
    ck_assert(tcp.is_loopback && tcp.port == 65535);
    ck_assert_int_eq(config_tcp_parse("0.0.0.0:1", true, &tcp, &err), GH_OK);
    ck_assert(!tcp.is_loopback);
    ck_assert_int_eq(config_tcp_parse("[::ffff:127.0.0.1]:1", false, &tcp, &err), GH_CONFIG);
    ck_assert_int_eq(config_tcp_parse("", true, &tcp, &err), GH_CONFIG);
    ck_assert_int_eq(config_tcp_parse("[", true, &tcp, &err), GH_CONFIG);
    ck_assert_int_eq(config_tcp_parse("]:1", true, &tcp, &err), GH_CONFIG);
}
END_TEST

START_TEST(off_switches_are_spelled_out)
{
    gh_auto(free_configp) struct config *c = parse_ok("listen: {tcp: ''}\n");
    ck_assert_str_eq(c->listen.tcp, "");
    gh_auto(free_configp) struct config *d = parse_ok("listen: {unix: ''}\n");
    ck_assert_str_eq(d->listen.unix_path, "");
    gh_auto(free_configp) struct config *e =
        parse_ok("listen: {tcp: '0.0.0.0:1', allow_non_loopback: true}\n");
    ck_assert_str_eq(e->listen.tcp, "0.0.0.0:1");
}
END_TEST

START_TEST(json_shows_all_but_secrets)
{
    gh_auto(free_configp) struct config *c = parse_ok(whole_file);
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    config_json(c, &out);
    const char *text = gh_buf_str(&out);
    ck_assert_ptr_null(strstr(text, "s3cret-value"));
    static const char *const parts[] = {
        "\"secret\":\"redacted\"",
        "\"secret\":null",
        "\"tcp_ports\":[443,22]",
        "\"agents\":{\"claude\":{\"rewrite\":true,\"timeout_s\":120},\"codex\":{",
        "\"allow_unix_sockets\":true",
        "\"deny_paths\":[\"/srv/secret\",",
        "\"listen\":{\"tcp\":\"[::1]:0\"",
        "\"args\":[\"check\",\"-j2\"]",
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        ck_assert_msg(strstr(text, parts[i]) != NULL, "%s is not in %s", parts[i], text);
    }
    /* What is shown is itself a configuration, but for the secrets that are null. */
    gh_auto(free_configp) struct config *plain = parse_ok("asks: {timeout_s: 9}");
    gh_auto(gh_buf_fini) struct gh_buf shown = GH_BUF_INIT;
    config_json(plain, &shown);
    ck_assert_ptr_nonnull(strstr(gh_buf_str(&shown), "\"timeout_s\":9"));
    ck_assert_ptr_nonnull(strstr(gh_buf_str(&shown), "\"unix\":null"));
}
END_TEST

START_TEST(secrets_are_not_in_messages)
{
    static const char *const texts[] = {
        "notify: [{url: 'http://x/', secret: [hunter2]}]",
        "notify: [{url: 'hunter2://x/'}]",
        "notify: [{url: 'http://x/', secret: \"hunter2\\n\"}]",
        "asks: {timeout_s: hunter2}",
        "hooks: {rollback: hunter2}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct config *config = NULL;
        struct gh_err err = {0};
        ck_assert_int_eq(config_parse("f", texts[i], strlen(texts[i]), &config, &err), GH_CONFIG);
        ck_assert_ptr_null(strstr(err.detail, "hunter2"));
    }
}
END_TEST

/* ---- files ---- */

struct room {
    char dir[64];
    char file[96];
};

static void enter_room(struct room *room)
{
    snprintf(room->dir, sizeof room->dir, "/tmp/test_config.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(room->dir));
    snprintf(room->file, sizeof room->file, "%s/config.yaml", room->dir);
}

static void leave_room(struct room *room)
{
    char link[96];
    snprintf(link, sizeof link, "%s/link", room->dir);
    unlink(link);
    unlink(room->file);
    rmdir(room->dir);
}

static void put_file(const char *path, const char *text, mode_t mode)
{
    unlink(path);
    gh_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert(gh_fs_write_all(fd, text, strlen(text)));
    ck_assert_int_eq(fchmod(fd, mode), 0);
}

START_TEST(missing_file_is_defaults_only_when_allowed)
{
    gh_auto(leave_room) struct room room;
    enter_room(&room);
    struct gh_err err = {0};
    gh_auto(free_configp) struct config *c = NULL;
    ck_assert_int_eq(config_load(room.file, false, &c, &err), GH_IO);
    ck_assert_ptr_null(c);
    ck_assert_int_eq(config_load(room.file, true, &c, &err), GH_OK);
    ck_assert_int_eq(c->asks.timeout_s, 300);
    gh_auto(free_configp) struct config *d = NULL;
    ck_assert_int_eq(config_load(NULL, true, &d, &err), GH_OK);
    gh_auto(free_configp) struct config *e = NULL;
    ck_assert_int_eq(config_load(NULL, false, &e, &err), GH_IO);
}
END_TEST

START_TEST(links_are_followed_but_not_into_nothing)
{
    gh_auto(leave_room) struct room room;
    enter_room(&room);
    char link[96];
    snprintf(link, sizeof link, "%s/link", room.dir);
    ck_assert_int_eq(symlink(room.file, link), 0);
    struct gh_err err = {0};
    gh_auto(free_configp) struct config *c = NULL;
    ck_assert_int_eq(config_load(link, true, &c, &err), GH_IO);
    put_file(room.file, "asks: {timeout_s: 5}\n", 0644);
    ck_assert_int_eq(config_load(link, true, &c, &err), GH_OK);
    ck_assert_int_eq(c->asks.timeout_s, 5);
}
END_TEST

START_TEST(unsafe_files_are_refused)
{
    gh_auto(leave_room) struct room room;
    enter_room(&room);
    struct gh_err err = {0};
    struct config *c = NULL;
    put_file(room.file, "asks: {timeout_s: 5}\n", 0664);
    ck_assert_int_eq(config_load(room.file, true, &c, &err), GH_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.detail, "chmod go-w"));
    put_file(room.file, "asks: {timeout_s: 5}\n", 0602);
    ck_assert_int_eq(config_load(room.file, true, &c, &err), GH_CONFIG);
    unlink(room.file);
    ck_assert_int_eq(config_load(room.dir, true, &c, &err), GH_CONFIG);
    ck_assert_int_eq(mkfifo(room.file, 0600), 0);
    ck_assert_int_eq(config_load(room.file, true, &c, &err), GH_CONFIG);
    char below[128];
    put_file(room.file, "", 0600);
    snprintf(below, sizeof below, "%s/x", room.file);
    ck_assert_int_eq(config_load(below, true, &c, &err), GH_IO);
    ck_assert_ptr_null(c);
}
END_TEST

START_TEST(another_users_file_is_refused)
{
    if (geteuid() != 0) {
        puts("another_users_file_is_refused: skipped, only root can give a file away");
        return;
    }
    gh_auto(leave_room) struct room room;
    enter_room(&room);
    struct gh_err err = {0};
    struct config *c = NULL;
    put_file(room.file, "asks: {timeout_s: 5}\n", 0600);
    ck_assert_int_eq(chown(room.file, 4242, 4242), 0);
    ck_assert_int_eq(config_load(room.file, true, &c, &err), GH_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.detail, "belongs to another user"));
}
END_TEST

START_TEST(huge_files_are_refused)
{
    gh_auto(leave_room) struct room room;
    enter_room(&room);
    put_file(room.file, "#", 0600);
    ck_assert_int_eq(truncate(room.file, (1 << 20) + 1), 0);
    struct gh_err err = {0};
    struct config *c = NULL;
    ck_assert_int_eq(config_load(room.file, true, &c, &err), GH_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.detail, "larger than"));
}
END_TEST

START_TEST(a_million_nodes_are_refused)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_buf_puts(&text, "git: {ignore: [");
    for (int i = 0; i < 300000; i++) {
        gh_buf_puts(&text, "a,");
    }
    gh_buf_puts(&text, "]}");
    struct gh_err err = {0};
    struct config *c = NULL;
    ck_assert_int_eq(config_parse("f", text.data, text.len, &c, &err), GH_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.detail, "larger than any configuration"));
}
END_TEST

START_TEST(long_lists_and_texts_are_refused)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_buf_puts(&text, "git:\n  ignore:\n");
    for (int i = 0; i < 1025; i++) {
        gh_buf_puts(&text, "    - a\n");
    }
    struct gh_err err = {0};
    struct config *c = NULL;
    ck_assert_int_eq(config_parse("f", text.data, text.len, &c, &err), GH_CONFIG);
    ck_assert_msg(
        strncmp(err.detail, "f:1027: git.ignore[1024]: This must be a list of at most", 56) == 0,
        "%s", err.detail);
    char path[300];
    memset(path, 'x', sizeof path);
    memcpy(path, "listen:\n  unix: /", 17);
    path[299] = '\0';
    ck_assert_int_eq(config_parse("f", path, 299, &c, &err), GH_CONFIG);
    ck_assert_str_eq(err.detail, "f:2: listen.unix: This must be a text of at most 107 bytes.");
}
END_TEST

START_TEST(many_agents)
{
    for (int n = 64; n <= 65; n++) {
        gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
        gh_buf_puts(&text, "agents:\n");
        for (int i = 0; i < n; i++) {
            gh_buf_printf(&text, "  a%d: {timeout_s: %d}\n", i, i + 1);
        }
        struct gh_err err = {0};
        gh_auto(free_configp) struct config *c = NULL;
        enum gh_code code = config_parse("f", text.data, text.len, &c, &err);
        ck_assert_int_eq(code, n == 64 ? GH_OK : GH_CONFIG);
        if (n == 64) {
            ck_assert_str_eq(c->agents[63].name, "a63");
            ck_assert_int_eq(c->agents[63].timeout_s, 64);
        }
    }
}
END_TEST

START_TEST(deny_lines)
{
    gh_auto(leave_room) struct room room;
    enter_room(&room);
    put_file(room.file, "# top\npermissions:\n  deny_paths:\n    - /a\n\n    - /b\n", 0600);
    ck_assert_int_eq(config_deny_line(room.file, 0), 4);
    ck_assert_int_eq(config_deny_line(room.file, 1), 6);
    ck_assert_int_eq(config_deny_line(room.file, 2), 0);
    ck_assert_int_eq(config_deny_line("/nowhere/x", 0), 0);
    ck_assert_int_eq(config_deny_line(NULL, 0), 0);
}
END_TEST

START_TEST(long_file_names_do_not_hide_the_message)
{
    char name[1000];
    memset(name, 'd', sizeof name);
    snprintf(name + 980, 20, "/config.yaml");
    struct gh_err err = {0};
    struct config *c = NULL;
    ck_assert_int_eq(config_parse(name, "x: 1", 4, &c, &err), GH_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.detail, "/config.yaml:1: x: There is no such key."));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tc = tcase_create("config");
    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, defaults_are_the_safe_ones);
    tcase_add_test(tc, every_key_is_read);
    tcase_add_test(tc, json_is_yaml);
    tcase_add_test(tc, ports_may_stand_below_network);
    tcase_add_test(tc, good_deny_entries_pass);
    tcase_add_test(tc, tcp_is_taken_apart);
    tcase_add_test(tc, off_switches_are_spelled_out);
    tcase_add_test(tc, json_shows_all_but_secrets);
    tcase_add_test(tc, secrets_are_not_in_messages);
    tcase_add_test(tc, missing_file_is_defaults_only_when_allowed);
    tcase_add_test(tc, links_are_followed_but_not_into_nothing);
    tcase_add_test(tc, unsafe_files_are_refused);
    tcase_add_test(tc, another_users_file_is_refused);
    tcase_add_test(tc, huge_files_are_refused);
    tcase_add_test(tc, a_million_nodes_are_refused);
    tcase_add_test(tc, long_lists_and_texts_are_refused);
    tcase_add_test(tc, many_agents);
    tcase_add_test(tc, deny_lines);
    tcase_add_test(tc, long_file_names_do_not_hide_the_message);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
