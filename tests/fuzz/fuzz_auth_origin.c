/* fuzz: lines of hostile headers (Host, Origin, Sec-Fetch-Site, -Mode, -Dest, a token record). What
 * passes must be a known host and an own or configured origin, judged a second, dumber way. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "auth/origin.h"
#include "auth/record.h"
#include "base/auto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const hosts[] = {"gate.example", NULL};
static const char *const origins[] = {"https://gate.example", "null", NULL};

/* Cut the next line off; NULL when it is "-" or there is none. */
static const char *next_line(char **rest)
{
    char *line = strsep(rest, "\n");
    return line == NULL || strcmp(line, "-") == 0 ? NULL : line;
}

static bool starts_with_host(const char *host)
{
    static const char *const known[] = {"localhost", "127.0.0.1", "[::1]", "gate.example"};
    for (size_t i = 0; i < 4; i++) {
        size_t len = strlen(known[i]);
        const char *rest = host + len;
        if (strncasecmp(host, known[i], len) == 0 &&
            (rest[0] == '\0' || (rest[0] == ':' && rest[1] != '\0' &&
                                 strspn(rest + 1, "0123456789") == strlen(rest + 1)))) {
            return true;
        }
    }
    return false;
}

static void check_origin(const struct origin_input *input)
{
    const char *cors = NULL;
    struct gh_err err = {0};
    if (origin_check(input, &cors, &err) != GH_OK) {
        gh_assert(cors == NULL && err.detail[0] != '\0');
        return;
    }
    gh_assert(input->host != NULL && starts_with_host(input->host));
    gh_assert(input->origin == NULL || strcmp(input->origin, "null") != 0);
    gh_assert(cors == NULL || strcmp(cors, input->origin) == 0);
    gh_assert(input->origin == NULL || cors != NULL ||
              strcasecmp(input->origin + 7, input->host) == 0);
    gh_assert(input->fetch_site == NULL || strcmp(input->fetch_site, "cross-site") != 0 ||
              input->is_page || cors != NULL);
}

static void check_record(const char *text)
{
    struct record record;
    struct record again;
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    if (record_read("agent.json", text, strlen(text), &record, NULL) != GH_OK) {
        return;
    }
    record_write(&record, &out);
    gh_assert(record_read("agent.json", out.data, out.len, &again, NULL) == GH_OK);
    gh_assert(strcmp(record.token.id, again.token.id) == 0);
    gh_assert(record.token.role == again.token.role && record.token.role != AUTH_NONE);
    gh_assert(record.token.expires_ms == again.token.expires_ms);
    gh_assert(record.token.revoked_ms == again.token.revoked_ms);
    gh_assert(memcmp(record.digest, again.digest, GH_SHA256) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gh_autofree char *text = malloc(size + 1);
    if (text == NULL || !gh_id_init()) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    char *rest = text;
    struct origin_input input = {.allowed_hosts = hosts, .allowed_origins = origins};
    input.host = next_line(&rest);
    input.origin = next_line(&rest);
    input.fetch_site = next_line(&rest);
    input.fetch_mode = next_line(&rest);
    input.fetch_dest = next_line(&rest);
    input.is_page = size % 2 == 0;
    check_origin(&input);
    if (input.host != NULL) {
        (void)origin_is_loopback(input.host);
        (void)record_secret_valid(input.host, strlen(input.host));
    }
    if (rest != NULL) {
        check_record(rest);
    }
    return 0;
}
