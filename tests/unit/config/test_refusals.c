/* Tests of config: what is refused, with file, line and key. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

/* What is refused: the text, and how the message starts. */
struct refusal {
    const char *text;
    const char *want;
};

#define DENY(entry) "permissions:\n  deny_paths:\n    - /ok\n    - " entry "\n"
#define DENY_AT "c.yaml:4: permissions.deny_paths[1]: "
#define LISTEN(line) "listen:\n  " line "\n"
#define SANDBOX(line) "sandbox:\n  " line "\n"
#define NOTIFY(lines) "notify:\n  - " lines "\n"
#define COMMAND(lines) "permissions:\n  allowed_commands:\n    - " lines "\n"
#define COMMAND_AT "c.yaml:3: permissions.allowed_commands"

static const struct refusal refusals[] = {
    /* structure */
    {"surprise: 1\n", "c.yaml:1: surprise: There is no such key."},
    {"asks:\n  timeout_s: 3\n  timeout: 3\n", "c.yaml:3: asks.timeout: There is no such key."},
    {"Asks: {}\n", "c.yaml:1: Asks: There is no such key."},
    {"agents:\n  claude:\n    colour: red\n",
     "c.yaml:3: agents.claude.colour: There is no such key."},
    {"agents:\n  Big Name: {}\n", "c.yaml:2: agents.Big?Name: An agent's name"},
    {"agents: [claude]\n", "c.yaml:1: agents: This must hold names"},
    {"agents:\n  claude: yes\n", "c.yaml:2: agents.claude: "},
    {"[1, 2]\n", "c.yaml:1: This must hold settings"},
    {"just words\n", "c.yaml:1: This must hold settings"},
    {"asks: 3\n", "c.yaml:1: asks: This must hold settings"},
    {"asks: [3]\n", "c.yaml:1: asks: This must hold settings"},
    {"asks:\n", "c.yaml:1: asks: This has no value"},
    {"asks:\n  timeout_s:\n", "c.yaml:2: asks.timeout_s: This has no value"},
    {"\nlisten:\n  unix: ~\n", "c.yaml:3: listen.unix: This has no value"},
    {"listen:\n  tcp: null\n", "c.yaml:2: listen.tcp: This has no value"},
    {"asks: {timeout_s: 3}\nasks: {timeout_s: 4}\n", "c.yaml:2: asks: This key is here twice."},
    {"asks: {timeout_s: 3,\n timeout_s: 4}\n", "c.yaml:2: asks.timeout_s: This key is here twice."},
    {"asks: {}\n---\nasks: {}\n", "c.yaml:2: A second document"},
    {"asks: &a {timeout_s: 3}\n", "c.yaml:1: asks: Anchors"},
    {"asks: {timeout_s: !!int '3'}\n", "c.yaml:1: asks.timeout_s: Anchors"},
    {"git: {ignore: [*a]}\n", "c.yaml:1: Anchors"},
    {"<<: *a\n", "c.yaml:1: Anchors"},
    {"? [a]\n: b\n", "c.yaml:1: A key must be a plain word."},
    {"asks: {timeout_s: [\n", "c.yaml:2: This is not YAML"},
    {"asks:\n\ttimeout_s: 3\n", "c.yaml:2: This is not YAML"},
    {"asks: \"\xff\"\n", "c.yaml:1: This is not YAML"},
    {"git:\n  ignore: [\"a\\0b\"]\n", "c.yaml:2: git.ignore: A value holds a NUL"},
    {"[[[[[[[[[[[[[[[[[[\n", "c.yaml:1: This is nested deeper"},
    {"a\x1b[31m\x07: 1\n", "c.yaml:1: This is not YAML"},
    {"a[1]: 1\n\"b[\": 2\n", "c.yaml:1: a[1]: There is no such key."},
    {"\"[\": 2\n", "c.yaml:1: [: There is no such key."},
    {"\"a\\e[31m\\nX\": 1\n", "c.yaml:1: a?[31m"},
    /* types */
    {"asks:\n  timeout_s: soon\n",
     "c.yaml:2: asks.timeout_s: This must be a whole number from 1 to 86400."},
    {"asks:\n  timeout_s: 3x\n", "c.yaml:2: asks.timeout_s: This must be a whole number"},
    {"asks:\n  timeout_s: 010\n", "c.yaml:2: asks.timeout_s: This must be a whole number"},
    {"asks:\n  timeout_s: 0x10\n", "c.yaml:2: asks.timeout_s: This must be a whole number"},
    {"asks:\n  timeout_s: 1.5\n", "c.yaml:2: asks.timeout_s: This must be a whole number"},
    {"asks:\n  timeout_s: '3'\n", "c.yaml:2: asks.timeout_s: This must be a whole number"},
    {"asks:\n  timeout_s: 99999999999999999999\n", "c.yaml:2: asks.timeout_s: This must be"},
    {"asks:\n  timeout_s: {}\n", "c.yaml:2: asks.timeout_s: This must be a whole number"},
    {"hooks:\n  rollback: maybe\n", "c.yaml:2: hooks.rollback: This must be true or false."},
    {"hooks:\n  rollback: 'true'\n", "c.yaml:2: hooks.rollback: This must be true or false."},
    {"hooks:\n  rollback: 1\n", "c.yaml:2: hooks.rollback: This must be true or false."},
    {"hooks:\n  rollback: contained\n", "c.yaml:2: hooks.rollback: This must be true or false."},
    {SANDBOX("allow_unix_sockets: 2"), "c.yaml:2: sandbox.allow_unix_sockets: This must be true, "},
    {SANDBOX("network: internet"), "c.yaml:2: sandbox.network: This must be one of unrestricted, "
                                   "none, loopback, tcp_ports."},
    {SANDBOX("namespaces: on"), "c.yaml:2: sandbox.namespaces: This must be one of auto, off, "},
    {SANDBOX("network: [443]"), "c.yaml:2: sandbox.network: "},
    {"git:\n  ignore: '*.iso'\n", "c.yaml:2: git.ignore: This must be a list"},
    {"git:\n  ignore:\n    - a\n    - {b: c}\n", "c.yaml:4: git.ignore[1]: This must be a list"},
    {"permissions:\n  allowed_commands: make\n",
     "c.yaml:2: permissions.allowed_commands: This must be a list"},
    {"notify: {url: 'http://x'}\n", "c.yaml:1: notify: This must be a list"},
    {"listen:\n  tcp: [a]\n", "c.yaml:2: listen.tcp: This must be a text"},
    /* bounds */
    {"asks:\n  timeout_s: 0\n", "c.yaml:2: asks.timeout_s: "},
    {"asks:\n  timeout_s: -5\n", "c.yaml:2: asks.timeout_s: "},
    {"asks:\n  max_timeout_s: 86401\n", "c.yaml:2: asks.max_timeout_s: "},
    {"asks:\n  timeout_s: 301\n  max_timeout_s: 300\n", "c.yaml:2: asks.timeout_s: "},
    {"asks:\n  max_timeout_s: 299\n", "c.yaml:2: asks.max_timeout_s: asks.timeout_s may not"},
    {"limits:\n  body_mib: 0\n", "c.yaml:2: limits.body_mib: "},
    {"limits:\n  body_mib: 65\n", "c.yaml:2: limits.body_mib: "},
    {"audit:\n  retain_days: -1\n", "c.yaml:2: audit.retain_days: "},
    {"exec:\n  timeout_s: 86401\n", "c.yaml:2: exec.timeout_s: "},
    {SANDBOX("tcp_ports: [443, 0]"), "c.yaml:2: sandbox.tcp_ports[1]: "},
    {SANDBOX("tcp_ports: [65536]"), "c.yaml:2: sandbox.tcp_ports[0]: "},
    {SANDBOX("tcp_ports: [https]"), "c.yaml:2: sandbox.tcp_ports: "},
    {SANDBOX("tcp_ports: []"), "c.yaml:2: sandbox.tcp_ports: Give at least one"},
    {SANDBOX("network: {}"), "c.yaml:2: sandbox.network: Give at least one"},
    {SANDBOX("network: {udp_ports: [1]}"), "c.yaml:2: sandbox.network.udp_ports: There is no such"},
    {SANDBOX("network: {tcp_ports: [0]}"), "c.yaml:2: sandbox.network.tcp_ports[0]: "},
    {SANDBOX("network: {tcp_ports: [1]}\n  tcp_ports: [2]"),
     "c.yaml:3: sandbox.tcp_ports: The ports are here twice."},
    {SANDBOX("network: tcp_ports"), "c.yaml:2: sandbox.network: This needs sandbox.tcp_ports."},
    {SANDBOX("network: none\n  tcp_ports: [443]"), "c.yaml:2: sandbox.network: With sandbox."},
    {SANDBOX("extra_read_paths: [sdk]"), "c.yaml:2: sandbox.extra_read_paths[0]: A path must"},
    {SANDBOX("extra_read_paths: [/a/../b]"), "c.yaml:2: sandbox.extra_read_paths[0]: A path may"},
    {"sessions:\n  allow_wide: ['']\n", "c.yaml:2: sessions.allow_wide[0]: A path must"},
    {"autonomous:\n  allowed_agents: [ci, '']\n", "c.yaml:2: autonomous.allowed_agents[1]: "},
    {"autonomous:\n  allowed_agents: [a b]\n", "c.yaml:2: autonomous.allowed_agents[0]: "},
    /* the deny list */
    {DENY("''"), DENY_AT "An empty entry"},
    {DENY("'..'"), DENY_AT "An entry may not"},
    {DENY("."), DENY_AT "An entry may not"},
    {DENY("/a/../b"), DENY_AT "An entry may not"},
    {DENY("~/.."), DENY_AT "An entry may not"},
    {DENY("./.env"), DENY_AT "A relative path"},
    {DENY("src/secret"), DENY_AT "A relative path"},
    {DENY("~other/x"), DENY_AT "A relative path"},
    {DENY("~other"), DENY_AT "Only ~ and ~/"},
    {DENY("src/**"), DENY_AT "A relative path"},
    {DENY("/a/*.pem"), DENY_AT "A path may not hold glob"},
    {DENY("/a/*/b"), DENY_AT "A path may not hold glob"},
    {DENY("/a/*/**"), DENY_AT "A path may not hold glob"},
    {DENY("/a?/**"), DENY_AT "A path may not hold glob"},
    {DENY("'/a/[b]'"), DENY_AT "A path may not hold glob"},
    {DENY("/a/**/b"), DENY_AT "A path may not hold glob"},
    {DENY("'**/a/b'"), DENY_AT "After **/ comes one name"},
    {DENY("'**/'"), DENY_AT "After **/ comes one name"},
    {DENY("'**/**'"), DENY_AT "After **/ comes one name"},
    {DENY("/**"), DENY_AT "A path may not hold glob"},
    /* commands */
    {COMMAND("{name: a}"), COMMAND_AT "[0].program: This is missing."},
    {COMMAND("{program: a}"), COMMAND_AT "[0].name: This is missing."},
    {COMMAND("{name: '', program: a}"), COMMAND_AT "[0].name: "},
    {COMMAND("{name: a, program: ''}"), COMMAND_AT "[0].program: This may not be empty"},
    {COMMAND("{name: a, program: \"x\\n\"}"), COMMAND_AT "[0].program: This may not"},
    {COMMAND("{name: a, program: b, shell: c}"), COMMAND_AT "[0].shell: There is no such key."},
    {COMMAND("{name: a, program: b, env: [X]}"), COMMAND_AT "[0].env[0]: An entry must be"},
    {COMMAND("{name: a, program: b, env: ['1X=2']}"), COMMAND_AT "[0].env[0]: An entry must be"},
    {COMMAND("{name: a, program: b, timeout_secs: 0}"), COMMAND_AT "[0].timeout_secs: "},
    {COMMAND("{name: a, program: b}\n    - {name: a, program: c}"),
     "c.yaml:4: permissions.allowed_commands[1].name: Another command has this name."},
    /* listening */
    {LISTEN("tcp: 0.0.0.0:7717"), "c.yaml:2: listen.tcp: Others could reach this address"},
    {LISTEN("tcp: '[::]:7717'"), "c.yaml:2: listen.tcp: Others could"},
    {LISTEN("tcp: 192.168.1.5:7717"), "c.yaml:2: listen.tcp: Others could"},
    {LISTEN("tcp: 127.0.0.1.nip.io:7717"), "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: 127.1:7717"), "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: 0x7f000001:7717"), "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: 127.0.0.1"), "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: '127.0.0.1:'"), "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: 127.0.0.1:65536"), "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: 127.0.0.1:-1"), "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: ':7717'"), "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: '::1:7717'"), "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: '[::1]'"), "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: '[127.0.0.1]:1'"), "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: '[localhost]:1'"), "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: '*:7717'"), "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: gate.example:7717\n  allow_non_loopback: true"),
     "c.yaml:2: listen.tcp: This must be HOST:PORT"},
    {LISTEN("tcp: ''\n  unix: ''"), "c.yaml:2: listen.tcp: With unix off"},
    {LISTEN("unix: run/gh.sock"), "c.yaml:2: listen.unix: A path must"},
    {LISTEN("allowed_hosts: ['*']"), "c.yaml:2: listen.allowed_hosts[0]: "},
    {LISTEN("allowed_hosts: ['*.example']"), "c.yaml:2: listen.allowed_hosts[0]: "},
    {LISTEN("allowed_hosts: ['a.example:80']"), "c.yaml:2: listen.allowed_hosts[0]: "},
    {LISTEN("allowed_hosts: [a.example.]"), "c.yaml:2: listen.allowed_hosts[0]: "},
    {LISTEN("allowed_hosts: [A.example]"), "c.yaml:2: listen.allowed_hosts[0]: "},
    {LISTEN("allowed_hosts: ['']"), "c.yaml:2: listen.allowed_hosts[0]: "},
    {LISTEN("allowed_origins: ['*']"), "c.yaml:2: listen.allowed_origins[0]: "},
    {LISTEN("allowed_origins: ['null']"), "c.yaml:2: listen.allowed_origins[0]: "},
    {LISTEN("allowed_origins: ['https://a.example/']"), "c.yaml:2: listen.allowed_origins[0]: "},
    {LISTEN("allowed_origins: ['https://*.example']"), "c.yaml:2: listen.allowed_origins[0]: "},
    {LISTEN("allowed_origins: ['https://u@a.example']"), "c.yaml:2: listen.allowed_origins[0]: "},
    {LISTEN("allowed_origins: ['https://a.example:']"), "c.yaml:2: listen.allowed_origins[0]: "},
    {LISTEN("allowed_origins: ['https://a:99999']"), "c.yaml:2: listen.allowed_origins[0]: "},
    {LISTEN("allowed_origins: ['https://[::1']"), "c.yaml:2: listen.allowed_origins[0]: "},
    {LISTEN("allowed_origins: ['a.example']"), "c.yaml:2: listen.allowed_origins[0]: "},
    {LISTEN("allowed_origins: ['HTTPS://a.example']"), "c.yaml:2: listen.allowed_origins[0]: "},
    /* webhooks */
    {NOTIFY("secret: x"), "c.yaml:2: notify[0].url: This is missing."},
    {NOTIFY("url: file:///etc/passwd"), "c.yaml:2: notify[0].url: A URL must start"},
    {NOTIFY("url: ftp://x/"), "c.yaml:2: notify[0].url: A URL must start"},
    {NOTIFY("url: 'http://'"), "c.yaml:2: notify[0].url: A URL must start"},
    {NOTIFY("url: 'http:///x'"), "c.yaml:2: notify[0].url: A URL must start"},
    {NOTIFY("url: \"http://x/\\r\\nA: b\""), "c.yaml:2: notify[0].url: A URL may not"},
    {NOTIFY("url: http://x/\n    secret: ''"), "c.yaml:3: notify[0].secret: "},
    {NOTIFY("url: http://x/\n    events: [everything]"), "c.yaml:3: notify[0].events[0]: "},
    {NOTIFY("url: http://x/\n    events: [approval.]"), "c.yaml:3: notify[0].events[0]: "},
};

START_TEST(refusals_name_file_line_and_key)
{
    const struct refusal *r = &refusals[_i];
    struct config *config = NULL;
    struct gh_err err = {0};
    enum gh_code code = config_parse("c.yaml", r->text, strlen(r->text), &config, &err);
    ck_assert_msg(code == GH_CONFIG, "accepted:\n%s", r->text);
    ck_assert_ptr_null(config);
    ck_assert_msg(strncmp(err.detail, r->want, strlen(r->want)) == 0,
                  "got:  %s\nwant: %s\nfor:\n%s", err.detail, r->want, r->text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config_refusals");
    TCase *tc = tcase_create("refusals");
    suite_add_tcase(suite, tc);
    tcase_add_loop_test(tc, refusals_name_file_line_and_key, 0,
                        (int)(sizeof refusals / sizeof refusals[0]));
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
