/* fuzz: any bytes as a configuration file. Whatever is accepted must be shown as JSON without its
 * secrets, and its bounds must hold. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct config *config)
{
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    config_json(config, &out);
    gh_assert(!out.failed && out.len > 0 && out.data[0] == '{');
    gh_assert(config->asks.timeout_s >= 1 && config->asks.timeout_s <= config->asks.max_timeout_s);
    gh_assert(config->limits.body_mib >= 1 && config->limits.body_mib <= 64);
    for (size_t i = 0; config->permissions.deny_paths[i] != NULL; i++) {
        gh_assert(config->permissions.deny_paths[i][0] != '\0');
    }
    for (size_t i = 0; i < config->permissions.n_allowed_commands; i++) {
        gh_assert(config->permissions.allowed_commands[i].program[0] != '\0');
    }
    struct config_tcp tcp;
    if (config->listen.tcp[0] != '\0' && !config->listen.allow_non_loopback) {
        gh_assert(config_tcp_parse(config->listen.tcp, false, &tcp, NULL) == GH_OK);
        gh_assert(tcp.is_loopback);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *config = NULL;
    struct gh_err err = {0};
    if (config_parse("fuzz.yaml", (const char *)data, size, &config, &err) == GH_OK) {
        check(config);
        config_free(config);
    } else {
        gh_assert(err.detail[0] != '\0');
    }
    return 0;
}
