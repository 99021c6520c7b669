/* Request targets and trace headers: whatever the bytes, the result is bounded, and what is taken
 * holds no segment that walks. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/inner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *path)
{
    if (path[0] != '/' || strstr(path, "//") != NULL || strstr(path, "/../") != NULL ||
        strstr(path, "/./") != NULL || strchr(path, '\\') != NULL || strchr(path, '\n') != NULL) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char trace[33];
    uint16_t n_params = 0;
    char *raw = malloc(size + 1);
    if (raw == NULL) {
        return 0;
    }
    memcpy(raw, data, size);
    raw[size] = '\0';
    size_t len = strlen(raw);
    char *out = malloc(http_target_room(raw, len));
    if (out != NULL && http_target_parse(raw, out, &n_params) == GH_OK) {
        check_path(out);
        const char *at = out;
        for (size_t i = 0; i < 2u * n_params + 1; i++) {
            at += strlen(at) + 1; /* each one ends inside the room, or the sanitizer tells */
        }
        if ((size_t)(at - out) > http_target_room(raw, len)) {
            abort();
        }
    }
    if (http_target_trace(raw, trace) && strlen(trace) != 32) {
        abort();
    }
    free(out);
    free(raw);
    return 0;
}
