/* fuzz: any bytes as git's configuration. It ends, and its bounds hold. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "gate/gitconf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gh_auto(gitconf_fini) struct gitconf conf = {0};
    gh_autofree char *text = calloc(1, size + 1);
    gh_assert(text != NULL);
    memcpy(text, data, size);
    gh_assert(gitconf_parse("/nonexistent/.git/config", text, "/nonexistent", &conf, NULL) ==
              GH_OK);
    gh_assert(conf.hooks.n <= GITCONF_MAX_HOOKS);
    gh_assert(conf.files.n <= GITCONF_MAX_FILES && conf.files.n == conf.stamps.n);
    for (size_t i = 0; i < conf.files.n; i++) {
        gh_assert(conf.files.at[i][0] == '/');
    }
    return 0;
}
