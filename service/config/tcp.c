#include "config/config.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* The literal address or "localhost" alone: a name such as 127.0.0.1.nip.io is whatever a
 * stranger's name server says it is at the time. */
static bool is_loopback(const char *host, bool is_v6)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (is_v6) {
        return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
    }
    return strcmp(host, "localhost") == 0 ||
           (inet_pton(AF_INET, host, &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127);
}

static bool is_address(const char *host, bool is_v6)
{
    struct in6_addr space;
    return strcmp(host, "localhost") == 0 ||
           inet_pton(is_v6 ? AF_INET6 : AF_INET, host, &space) == 1;
}

/* Split at the last colon; brackets go around an IPv6 address and nothing else. */
static bool split(const char *text, struct config_tcp *tcp)
{
    const char *colon = strrchr(text, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - text);
    tcp->is_v6 = text[0] == '[';
    const char *host = text;
    if (tcp->is_v6) {
        if (len < 3 || text[len - 1] != ']') {
            return false;
        }
        host++;
        len -= 2;
    }
    if (len == 0 || len >= sizeof tcp->host) {
        return false;
    }
    memcpy(tcp->host, host, len);
    tcp->host[len] = '\0';
    size_t digits = strspn(colon + 1, "0123456789");
    if (digits == 0 || digits > 5 || colon[1 + digits] != '\0') {
        return false;
    }
    long port = strtol(colon + 1, NULL, 10);
    tcp->port = (uint16_t)port;
    return port <= 65535;
}

enum gh_code config_tcp_parse(const char *text, bool allow_non_loopback, struct config_tcp *ret,
                              struct gh_err *err)
{
    struct config_tcp tcp = {.port = 0};
    if (!split(text, &tcp) || !is_address(tcp.host, tcp.is_v6) ||
        (tcp.is_v6 && strcmp(tcp.host, "localhost") == 0)) {
        return gh_fail(err, GH_CONFIG,
                       "This must be HOST:PORT with a literal address or localhost, for example "
                       "127.0.0.1:7717 or [::1]:0.");
    }
    tcp.is_loopback = is_loopback(tcp.host, tcp.is_v6);
    if (!tcp.is_loopback && !allow_non_loopback) {
        return gh_fail(
            err, GH_CONFIG,
            "Others could reach this address; listen.allow_non_loopback: true allows it.");
    }
    *ret = tcp;
    return GH_OK;
}
