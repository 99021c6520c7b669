/* fuzz_json: the request body parser and the JSON string writer.
 *
 * Invariants: what parses has a canonical form that parses to the same canonical form; any bytes
 * written as a JSON string parse again (NUL excepted, which the parser refuses).
 */
#include <stdint.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_canonical(const char *data, size_t size)
{
    gh_auto(gh_json_freep) struct json_t *value = NULL;
    gh_auto(gh_json_freep) struct json_t *again = NULL;
    gh_auto(gh_buf_fini) struct gh_buf one = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf two = GH_BUF_INIT;
    struct gh_err err = {0};
    if (gh_json_parse(data, size, &value, &err) != GH_OK) {
        gh_assert(err.code == GH_BAD_JSON && err.detail[0] != '\0');
        return;
    }
    gh_json_canonical(value, &one);
    gh_assert(!one.failed);
    gh_assert(gh_json_parse(one.data, one.len, &again, &err) == GH_OK);
    gh_json_canonical(again, &two);
    gh_assert(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
}

static void check_string(const char *data, size_t size)
{
    gh_auto(gh_json_freep) struct json_t *value = NULL;
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    struct gh_err err = {0};
    gh_buf_putc(&text, '[');
    gh_buf_json(&text, data, size);
    gh_buf_putc(&text, ']');
    if (size == 0 || memchr(data, '\0', size) == NULL) {
        gh_assert(gh_json_parse(text.data, text.len, &value, &err) == GH_OK);
        gh_assert(gh_json_text(gh_json_at(value, 0)) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_canonical((const char *)data, size);
    check_string((const char *)data, size);
    return 0;
}
