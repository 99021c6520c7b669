#include "auth/origin.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define MAX_HOST 300 /* bytes of a Host or Origin header that is looked at */

/* The length of the host in HOST or HOST:PORT, 0 when it is neither. Only the end is looked at: the
 * host itself must equal a known name letter by letter. */
static size_t host_length(const char *text)
{
    size_t len = strnlen(text, MAX_HOST);
    if (len == 0 || len == MAX_HOST) {
        return 0;
    }
    size_t host = text[0] == '[' ? strcspn(text, "]") + 1 : strcspn(text, ":");
    if (host >= len) {
        return host == len ? len : 0;
    }
    size_t digits = text[host] == ':' ? strspn(text + host + 1, "0123456789") : 0;
    return digits > 0 && digits <= 5 && host + 1 + digits == len ? host : 0;
}

/* Configured names mean the same in either case. */
static bool is_name(const char *host, size_t len, const char *name)
{
    return strlen(name) == len && strncasecmp(host, name, len) == 0;
}

static bool is_host_allowed(const char *host, const char *const *allowed)
{
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]", NULL};
    size_t len = host != NULL ? host_length(host) : 0;
    for (size_t i = 0; len > 0 && own[i] != NULL; i++) {
        /* No client of ours spells them otherwise; who does is looking for a gap. */
        if (strlen(own[i]) == len && strncmp(host, own[i], len) == 0) {
            return true;
        }
    }
    for (size_t i = 0; len > 0 && allowed != NULL && allowed[i] != NULL; i++) {
        if (is_name(host, len, allowed[i])) {
            return true;
        }
    }
    return false;
}

/* A page of ours, whatever port it was reached through: through a tunnel the Host carries the
 * tunnel's port, as the origin does. Host was checked before, so a rebound name does not get here.
 */
static bool is_own_origin(const char *origin, const char *host)
{
    return strncmp(origin, "http://", 7) == 0 && strcasecmp(origin + 7, host) == 0;
}

/* The configured origin that `origin` is, or NULL. */
static const char *find_origin(const char *origin, const char *const *allowed)
{
    if (strcmp(origin, "null") == 0 || strcmp(origin, "*") == 0) {
        return NULL;
    }
    for (size_t i = 0; allowed != NULL && allowed[i] != NULL; i++) {
        if (strcmp(origin, allowed[i]) == 0) {
            return allowed[i];
        }
    }
    return NULL;
}

static bool is_text(const char *value, const char *want)
{
    return value != NULL && strcmp(value, want) == 0;
}

/* Fetch Metadata: a browser's word on where a request comes from, sent where Origin is not. A page
 * of a configured origin is cross-site by nature, and has said its name in Origin. */
static bool is_site_allowed(const struct origin_input *input, bool is_configured)
{
    const char *site = input->fetch_site;
    if (site == NULL || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0) {
        return true;
    }
    if (strcmp(site, "cross-site") != 0 && strcmp(site, "same-site") != 0) {
        return false;
    }
    bool is_visit = input->is_page && is_text(input->fetch_mode, "navigate") &&
                    is_text(input->fetch_dest, "document");
    return is_configured || is_visit;
}

enum gh_code origin_check(const struct origin_input *input, const char **ret_cors,
                          struct gh_err *err)
{
    const char *cors = NULL;
    *ret_cors = NULL;
    if (!is_host_allowed(input->host, input->allowed_hosts)) {
        return gh_fail(err, GH_HOST_REFUSED,
                       "This name is not one the service answers to; listen.allowed_hosts in the "
                       "configuration adds names.");
    }
    if (input->origin != NULL && !is_own_origin(input->origin, input->host)) {
        cors = find_origin(input->origin, input->allowed_origins);
        if (cors == NULL) {
            return gh_fail(err, GH_ORIGIN_REFUSED,
                           "Pages of this origin may not call the service; "
                           "listen.allowed_origins in the configuration adds origins.");
        }
    }
    if (!is_site_allowed(input, cors != NULL)) {
        return gh_fail(err, GH_ORIGIN_REFUSED,
                       "The browser says that another site's page sent this request.");
    }
    *ret_cors = cors;
    return GH_OK;
}

bool origin_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0) {
        return true;
    }
    if (inet_pton(AF_INET, host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, host, &v6) != 1) {
        return false;
    }
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}
