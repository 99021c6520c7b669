/* test_origin: Host, Origin and Fetch Metadata, and whose connection it is. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/origin.h"
#include "base/auto.h"

static const char *const hosts[] = {"gate.example", "10.0.0.7", "[fd00::1]", NULL};
static const char *const origins[] = {"https://gate.example", "http://10.0.0.7:8080", "null", "*",
                                      NULL};

static const struct {
    const char *host;
    enum gh_code want;
} host_cases[] = {
    {"localhost", GH_OK},
    {"localhost:7717", GH_OK},
    {"localhost:1", GH_OK},
    {"127.0.0.1", GH_OK},
    {"127.0.0.1:65535", GH_OK},
    {"[::1]", GH_OK},
    {"[::1]:7717", GH_OK},
    {"LocalHost:7717", GH_HOST_REFUSED},
    {"gate.example", GH_OK},
    {"gate.example:443", GH_OK},
    {"GATE.example", GH_OK},
    {"10.0.0.7:80", GH_OK},
    {"[fd00::1]:80", GH_OK},
    {NULL, GH_HOST_REFUSED},
    {"", GH_HOST_REFUSED},
    {":7717", GH_HOST_REFUSED},
    {" localhost", GH_HOST_REFUSED},
    {"localhost ", GH_HOST_REFUSED},
    {"localhost.", GH_HOST_REFUSED},
    {"localhost.:7717", GH_HOST_REFUSED},
    {"localhost:", GH_HOST_REFUSED},
    {"localhost:x", GH_HOST_REFUSED},
    {"localhost:77 17", GH_HOST_REFUSED},
    {"localhost:-1", GH_HOST_REFUSED},
    {"localhost:123456", GH_HOST_REFUSED},
    {"localhost:1:2", GH_HOST_REFUSED},
    {"localhost:1@evil.example", GH_HOST_REFUSED},
    {"localhost@evil.example", GH_HOST_REFUSED},
    {"user@localhost", GH_HOST_REFUSED},
    {"localhost/x", GH_HOST_REFUSED},
    {"localhost#", GH_HOST_REFUSED},
    {"localhost,evil.example", GH_HOST_REFUSED},
    {"evil.example", GH_HOST_REFUSED},
    {"evil.example:7717", GH_HOST_REFUSED},
    {"evil.localhost", GH_HOST_REFUSED},
    {"localhost.evil.example", GH_HOST_REFUSED},
    {"evil.localhost.example", GH_HOST_REFUSED},
    {"127.0.0.1.nip.io", GH_HOST_REFUSED},
    {"127.0.0.2", GH_HOST_REFUSED},
    {"127.1", GH_HOST_REFUSED},
    {"0.0.0.0", GH_HOST_REFUSED},
    {"2130706433", GH_HOST_REFUSED},
    {"0x7f.0.0.1", GH_HOST_REFUSED},
    {"::1", GH_HOST_REFUSED},
    {"[::1", GH_HOST_REFUSED},
    {"[::1]7717", GH_HOST_REFUSED},
    {"[::1]]", GH_HOST_REFUSED},
    {"[::1%lo]", GH_HOST_REFUSED},
    {"[0:0:0:0:0:0:0:1]", GH_HOST_REFUSED},
    {"[::ffff:127.0.0.1]", GH_HOST_REFUSED},
    {"[", GH_HOST_REFUSED},
    {"gate.example.", GH_HOST_REFUSED},
    {"x.gate.example", GH_HOST_REFUSED},
    {"null", GH_HOST_REFUSED},
    {"*", GH_HOST_REFUSED},
};

START_TEST(hosts_are_known_names)
{
    struct origin_input input = {.host = host_cases[_i].host, .allowed_hosts = hosts};
    const char *cors = "x";
    struct gh_err err = {0};
    ck_assert_msg(origin_check(&input, &cors, &err) == host_cases[_i].want, "%s",
                  input.host != NULL ? input.host : "(none)");
    ck_assert_ptr_null(cors);
    if (host_cases[_i].want != GH_OK) {
        ck_assert_ptr_nonnull(strstr(err.detail, "listen.allowed_hosts"));
        ck_assert_ptr_null(strstr(err.detail, "evil"));
    }
}
END_TEST

START_TEST(a_long_host_is_refused)
{
    char host[5000];
    memset(host, 'a', sizeof host);
    memcpy(host, "localhost:", 10);
    host[sizeof host - 1] = '\0';
    struct origin_input input = {.host = host};
    const char *cors = NULL;
    struct gh_err err = {0};
    ck_assert_int_eq(origin_check(&input, &cors, &err), GH_HOST_REFUSED);
}
END_TEST

static const struct {
    const char *host;
    const char *origin;
    enum gh_code want;
    const char *cors;
} origin_cases[] = {
    {"localhost:7717", NULL, GH_OK, NULL},
    {"localhost:7717", "http://localhost:7717", GH_OK, NULL},
    {"127.0.0.1:9999", "http://127.0.0.1:9999", GH_OK, NULL}, /* a tunnel's port */
    {"[::1]:7717", "http://[::1]:7717", GH_OK, NULL},
    {"localhost", "http://localhost", GH_OK, NULL},
    {"localhost:7717", "https://gate.example", GH_OK, "https://gate.example"},
    {"gate.example", "http://10.0.0.7:8080", GH_OK, "http://10.0.0.7:8080"},
    {"localhost:7717", "", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "null", GH_ORIGIN_REFUSED, NULL}, /* even when configured */
    {"localhost:7717", "*", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "https://evil.example", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "http://localhost:3000", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "http://localhost", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "https://localhost:7717", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "http://127.0.0.1:7717", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "http://localhost.evil.example:7717", GH_ORIGIN_REFUSED, NULL},
    {"localhost:9999", "http://localhost.evil.example:9999", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "http://localhost:7717/", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "http://localhost:7717 http://evil.example", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "http://x@localhost:7717", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "localhost:7717", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "file://", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "https://gate.example.evil.example", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "https://gate.example:443", GH_ORIGIN_REFUSED, NULL},
    {"localhost:7717", "https://GATE.example", GH_ORIGIN_REFUSED, NULL},
    {"evil.example", "http://evil.example", GH_HOST_REFUSED, NULL}, /* rebound */
    {"evil.example:7717", "https://gate.example", GH_HOST_REFUSED, NULL},
};

START_TEST(origins_are_own_or_configured)
{
    struct origin_input input = {.host = origin_cases[_i].host,
                                 .origin = origin_cases[_i].origin,
                                 .allowed_hosts = hosts,
                                 .allowed_origins = origins};
    const char *cors = NULL;
    struct gh_err err = {0};
    ck_assert_msg(origin_check(&input, &cors, &err) == origin_cases[_i].want, "%s",
                  input.origin != NULL ? input.origin : "(none)");
    if (origin_cases[_i].cors != NULL) {
        ck_assert_str_eq(cors, origin_cases[_i].cors);
    } else {
        ck_assert_ptr_null(cors);
    }
    ck_assert_ptr_null(strstr(err.detail, "evil"));
}
END_TEST

static const struct {
    const char *site;
    const char *mode;
    const char *dest;
    bool is_page;
    const char *origin;
    enum gh_code want;
} site_cases[] = {
    {NULL, NULL, NULL, false, NULL, GH_OK},
    {"same-origin", "cors", "empty", false, NULL, GH_OK},
    {"same-origin", "cors", "empty", false, "http://localhost:7717", GH_OK},
    {"none", "navigate", "document", true, NULL, GH_OK},
    {"none", NULL, NULL, false, NULL, GH_OK},
    {"cross-site", "navigate", "document", true, NULL, GH_OK},
    {"same-site", "navigate", "document", true, NULL, GH_OK},
    {"cross-site", "navigate", "document", false, NULL, GH_ORIGIN_REFUSED},
    {"cross-site", "navigate", "iframe", true, NULL, GH_ORIGIN_REFUSED},
    {"cross-site", "no-cors", "image", true, NULL, GH_ORIGIN_REFUSED},
    {"cross-site", "no-cors", "document", true, NULL, GH_ORIGIN_REFUSED},
    {"cross-site", "navigate", NULL, true, NULL, GH_ORIGIN_REFUSED},
    {"cross-site", NULL, "document", true, NULL, GH_ORIGIN_REFUSED},
    {"cross-site", NULL, NULL, true, NULL, GH_ORIGIN_REFUSED},
    {"cross-site", "cors", "empty", false, NULL, GH_ORIGIN_REFUSED},
    {"same-site", "cors", "empty", false, NULL, GH_ORIGIN_REFUSED},
    {"same-site", "no-cors", "script", false, NULL, GH_ORIGIN_REFUSED},
    {"same-site", "cors", "empty", false, "http://localhost:7717", GH_ORIGIN_REFUSED},
    {"cross-site", "cors", "empty", false, "https://gate.example", GH_OK}, /* configured */
    {"cross-site", "cors", "empty", false, "https://evil.example", GH_ORIGIN_REFUSED},
    {"cross-site", "navigate", "document", true, "https://evil.example", GH_ORIGIN_REFUSED},
    {"", NULL, NULL, false, NULL, GH_ORIGIN_REFUSED},
    {"Same-Origin", NULL, NULL, false, NULL, GH_ORIGIN_REFUSED},
    {"same-origin, cross-site", NULL, NULL, false, NULL, GH_ORIGIN_REFUSED},
    {"unheard-of", "navigate", "document", true, NULL, GH_ORIGIN_REFUSED},
    {"unheard-of", "cors", "empty", false, "https://gate.example", GH_ORIGIN_REFUSED},
};

START_TEST(fetch_metadata_is_obeyed)
{
    struct origin_input input = {.host = "localhost:7717",
                                 .origin = site_cases[_i].origin,
                                 .fetch_site = site_cases[_i].site,
                                 .fetch_mode = site_cases[_i].mode,
                                 .fetch_dest = site_cases[_i].dest,
                                 .is_page = site_cases[_i].is_page,
                                 .allowed_hosts = hosts,
                                 .allowed_origins = origins};
    const char *cors = NULL;
    struct gh_err err = {0};
    ck_assert_msg(origin_check(&input, &cors, &err) == site_cases[_i].want, "case %d", _i);
    ck_assert(site_cases[_i].want == GH_OK || cors == NULL);
}
END_TEST

START_TEST(loopback_addresses)
{
    static const char *const loopback[] = {"127.0.0.1", "127.255.0.9",      "::1",  "localhost",
                                           "LOCALHOST", "::ffff:127.0.0.1", "[::1]"};
    static const char *const others[] = {"",           "128.0.0.1",
                                         "0.0.0.0",    "::",
                                         "::2",        "127.1",
                                         "127.0.0.1 ", "localhost.",
                                         "[::1",       "127.0.0.1.nip.io",
                                         "10.0.0.1",   "fe80::1",
                                         "::127",      "::ffff:10.0.0.1",
                                         "xlocalhost"};
    for (size_t i = 0; i < sizeof loopback / sizeof loopback[0]; i++) {
        ck_assert_msg(origin_is_loopback(loopback[i]), "%s", loopback[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ck_assert_msg(!origin_is_loopback(others[i]), "%s", others[i]);
    }
}
END_TEST

/* A connection over loopback: the listener's port and the client's. */
struct pair {
    int listener;
    int client;
    int server;
    unsigned short local;
    unsigned short peer;
};

static unsigned short port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    return ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                              : ((struct sockaddr_in6 *)&address)->sin6_port);
}

static bool pair_open(struct pair *pair, int family)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *address = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t len = family == AF_INET ? sizeof v4 : sizeof v6;
    pair->listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (pair->listener < 0 || bind(pair->listener, address, len) != 0) {
        return false;
    }
    ck_assert_int_eq(listen(pair->listener, 4), 0);
    pair->local = port_of(pair->listener);
    v4.sin_port = htons(pair->local);
    v6.sin6_port = htons(pair->local);
    pair->client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(pair->client, address, len), 0);
    pair->server = accept4(pair->listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(pair->server, 0);
    pair->peer = port_of(pair->client);
    return true;
}

static void pair_close(struct pair *pair)
{
    const int fds[] = {pair->listener, pair->client, pair->server};
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

START_TEST(the_clients_user_is_found)
{
    static const int families[] = {AF_INET, AF_INET6};
    for (int i = 0; i < 2; i++) {
        gh_auto(pair_close) struct pair pair = {-1, -1, -1, 0, 0};
        if (!pair_open(&pair, families[i])) {
            ck_assert_int_eq(families[i], AF_INET6);
            puts("the_clients_user_is_found: IPv6 part skipped, there is no ::1 here");
            continue;
        }
        unsigned uid = geteuid();
        ck_assert(origin_same_user(families[i], pair.peer, pair.local, uid));
        ck_assert(!origin_same_user(families[i], pair.peer, pair.local, uid + 1));
        int other = families[i] == AF_INET ? AF_INET6 : AF_INET;
        ck_assert(!origin_same_user(other, pair.peer, pair.local, uid));
        ck_assert(!origin_same_user(AF_UNIX, pair.peer, pair.local, uid));
        ck_assert(!origin_same_user(families[i], pair.local, pair.local, uid));
    }
}
END_TEST

START_TEST(a_mapped_client_is_found)
{
    gh_auto(pair_close) struct pair pair = {-1, -1, -1, 0, 0};
    ck_assert(pair_open(&pair, AF_INET));
    gh_autoclose int client = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(pair.local)};
    ck_assert_int_eq(inet_pton(AF_INET6, "::ffff:127.0.0.1", &address.sin6_addr), 1);
    if (client < 0 || connect(client, (struct sockaddr *)&address, sizeof address) != 0) {
        puts("a_mapped_client_is_found: skipped, there is no IPv6 here");
        return;
    }
    ck_assert(origin_same_user(AF_INET, port_of(client), pair.local, geteuid()));
    ck_assert(!origin_same_user(AF_INET6, port_of(client), pair.local, geteuid()));
}
END_TEST

START_TEST(another_users_client_is_not_ours)
{
    if (geteuid() != 0) {
        puts("another_users_client_is_not_ours: skipped, only root can make one");
        return;
    }
    gh_auto(pair_close) struct pair pair = {-1, -1, -1, 0, 0};
    ck_assert(pair_open(&pair, AF_INET));
    gh_autoclose int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(fchown(client, 4242, 4242), 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons(pair.local)};
    ck_assert_int_eq(connect(client, (struct sockaddr *)&address, sizeof address), 0);
    unsigned short port = port_of(client);
    ck_assert(!origin_same_user(AF_INET, port, pair.local, 0));
    ck_assert(origin_same_user(AF_INET, port, pair.local, 4242));
    /* Our own connection with the same two ports, elsewhere: it may not be borrowed. */
    gh_autoclose int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    gh_autoclose int place = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in there = {.sin_family = AF_INET,
                                .sin_addr = {htonl(INADDR_LOOPBACK + 1)},
                                .sin_port = htons(pair.local)};
    struct sockaddr_in from = {
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK + 1)}, .sin_port = htons(port)};
    ck_assert_int_eq(bind(place, (struct sockaddr *)&there, sizeof there), 0);
    ck_assert_int_eq(listen(place, 1), 0);
    ck_assert_int_eq(bind(other, (struct sockaddr *)&from, sizeof from), 0);
    ck_assert_int_eq(connect(other, (struct sockaddr *)&there, sizeof there), 0);
    ck_assert(!origin_same_user(AF_INET, port, pair.local, 0));
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

int main(void)
{
    Suite *suite = suite_create("auth_origin");
    TCase *tc = tcase_create("origin");
    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, hosts_are_known_names, 0, COUNT(host_cases));
    tcase_add_test(tc, a_long_host_is_refused);
    tcase_add_loop_test(tc, origins_are_own_or_configured, 0, COUNT(origin_cases));
    tcase_add_loop_test(tc, fetch_metadata_is_obeyed, 0, COUNT(site_cases));
    tcase_add_test(tc, loopback_addresses);
    tcase_add_test(tc, the_clients_user_is_found);
    tcase_add_test(tc, a_mapped_client_is_found);
    tcase_add_test(tc, another_users_client_is_not_ours);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
