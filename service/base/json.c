#include "base/json.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The parser recurses once a level, so the depth is bounded before it sees the text. */
static bool too_deep(const char *data, size_t len)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > GH_JSON_DEPTH) {
                return true;
            }
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return false;
}

enum gh_code gh_json_parse(const char *data, size_t len, struct json_t **ret, struct gh_err *err)
{
    if (too_deep(data, len)) {
        return gh_fail(err, GH_BAD_JSON, "The JSON is nested deeper than %d levels.",
                       GH_JSON_DEPTH);
    }
    json_error_t at;
    json_t *value = json_loadb(data, len, JSON_REJECT_DUPLICATES, &at);
    if (value == NULL) {
        if (json_error_code(&at) == json_error_out_of_memory) {
            return gh_fail(err, GH_NOMEM, "There is not enough memory to read the body.");
        }
        /* jansson's text may quote the input; the place alone is enough and never hostile. */
        return gh_fail(err, GH_BAD_JSON, "The body is not valid JSON (line %d, column %d).",
                       at.line, at.column);
    }
    *ret = value;
    return GH_OK;
}

void gh_json_free(struct json_t *value)
{
    json_decref(value);
}

void gh_json_freep(struct json_t **value)
{
    json_decref(*value);
    *value = NULL;
}

/* "/a/b" + key with RFC 6901 escapes; control bytes never reach an error text raw. */
static void pointer_of(const char *at, const char *key, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s/", at);
    for (; *key != '\0' && n + 3 < size; key++) {
        if (*key == '~' || *key == '/') {
            out[n++] = '~';
            out[n++] = *key == '~' ? '0' : '1';
        } else {
            out[n++] = (unsigned char)*key < 0x20 || *key == 0x7F ? '?' : *key;
        }
    }
    if (n < size) {
        out[n] = '\0';
    }
}

static enum gh_code bad_field(struct gh_err *err, const char *at, const char *key, const char *what)
{
    char pointer[160];
    pointer_of(at, key, pointer, sizeof pointer);
    return gh_fail_at(err, GH_INVALID, pointer, "The field must be %s.", what);
}

enum gh_code gh_json_only(const struct json_t *value, const char *at, const char *const names[],
                          struct gh_err *err)
{
    if (!json_is_object(value)) {
        return gh_fail_at(err, GH_INVALID, at, "A JSON object is needed here.");
    }
    const char *key = NULL;
    json_t *member = NULL;
    json_object_foreach((json_t *)value, key, member)
    {
        size_t i = 0;
        while (names[i] != NULL && strcmp(names[i], key) != 0) {
            i++;
        }
        if (names[i] == NULL) {
            char pointer[160];
            pointer_of(at, key, pointer, sizeof pointer);
            return gh_fail_at(err, GH_UNKNOWN_FIELD, pointer, "This field is not known here.");
        }
    }
    return GH_OK;
}

/* The member, NULL when absent or null. Fails when it is needed and missing. */
static enum gh_code member_of(const struct json_t *obj, const char *at, const char *key,
                              enum gh_need need, const json_t **ret, struct gh_err *err)
{
    const json_t *value = json_object_get(obj, key);
    *ret = json_is_null(value) ? NULL : value;
    if (*ret == NULL && need == GH_NEED) {
        return bad_field(err, at, key, "present");
    }
    return GH_OK;
}

enum gh_code gh_json_str(const struct json_t *obj, const char *at, const char *key,
                         enum gh_need need, size_t max, const char **ret, struct gh_err *err)
{
    const json_t *value = NULL;
    GH_TRY(member_of(obj, at, key, need, &value, err));
    if (value == NULL) {
        return GH_OK;
    }
    if (!json_is_string(value)) {
        return bad_field(err, at, key, "a string");
    }
    if (json_string_length(value) > max) {
        char what[64];
        snprintf(what, sizeof what, "at most %zu bytes long", max);
        return bad_field(err, at, key, what);
    }
    *ret = json_string_value(value);
    return GH_OK;
}

enum gh_code gh_json_int(const struct json_t *obj, const char *at, const char *key,
                         enum gh_need need, int64_t min, int64_t max, int64_t *ret,
                         struct gh_err *err)
{
    const json_t *value = NULL;
    GH_TRY(member_of(obj, at, key, need, &value, err));
    if (value == NULL) {
        return GH_OK;
    }
    int64_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < min || number > max) {
        char what[96];
        snprintf(what, sizeof what, "a whole number from %lld to %lld", (long long)min,
                 (long long)max);
        return bad_field(err, at, key, what);
    }
    *ret = number;
    return GH_OK;
}

enum gh_code gh_json_secs(const struct json_t *obj, const char *at, const char *key, int64_t min_ms,
                          int64_t max_ms, bool cap, int64_t *ret_ms, struct gh_err *err)
{
    const json_t *value = NULL;
    GH_TRY(member_of(obj, at, key, GH_OPTIONAL, &value, err));
    if (value == NULL) {
        return GH_OK;
    }
    double ms = json_number_value(value) * 1000.0;
    if (cap && ms > (double)max_ms) {
        ms = (double)max_ms;
    }
    if (!json_is_number(value) || !isfinite(ms) || ms < (double)min_ms || ms > (double)max_ms) {
        char what[96];
        snprintf(what, sizeof what, "a number of seconds from %g to %g", (double)min_ms / 1000.0,
                 (double)max_ms / 1000.0);
        return bad_field(err, at, key, what);
    }
    *ret_ms = (int64_t)ms;
    return GH_OK;
}

enum gh_code gh_json_bool(const struct json_t *obj, const char *at, const char *key, bool *ret,
                          struct gh_err *err)
{
    const json_t *value = NULL;
    GH_TRY(member_of(obj, at, key, GH_OPTIONAL, &value, err));
    if (value == NULL) {
        return GH_OK;
    }
    if (!json_is_boolean(value)) {
        return bad_field(err, at, key, "true or false");
    }
    *ret = json_is_true(value);
    return GH_OK;
}

enum gh_code gh_json_obj(const struct json_t *obj, const char *at, const char *key,
                         enum gh_need need, const struct json_t **ret, struct gh_err *err)
{
    const json_t *value = NULL;
    GH_TRY(member_of(obj, at, key, need, &value, err));
    if (value == NULL) {
        return GH_OK;
    }
    if (!json_is_object(value)) {
        return bad_field(err, at, key, "an object");
    }
    *ret = value;
    return GH_OK;
}

enum gh_code gh_json_arr(const struct json_t *obj, const char *at, const char *key,
                         enum gh_need need, size_t max, const struct json_t **ret,
                         struct gh_err *err)
{
    const json_t *value = NULL;
    GH_TRY(member_of(obj, at, key, need, &value, err));
    if (value == NULL) {
        return GH_OK;
    }
    if (!json_is_array(value) || json_array_size(value) > max) {
        char what[64];
        snprintf(what, sizeof what, "an array of at most %zu elements", max);
        return bad_field(err, at, key, what);
    }
    *ret = value;
    return GH_OK;
}

const struct json_t *gh_json_get(const struct json_t *obj, const char *key)
{
    return json_object_get(obj, key);
}

size_t gh_json_len(const struct json_t *value)
{
    return json_is_array(value) ? json_array_size(value) : json_object_size(value);
}

const struct json_t *gh_json_at(const struct json_t *arr, size_t i)
{
    return json_array_get(arr, i);
}

const char *gh_json_text(const struct json_t *value)
{
    return json_string_value(value);
}

int64_t gh_json_number(const struct json_t *value, int64_t fallback)
{
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

bool gh_json_true(const struct json_t *value)
{
    return json_is_true(value);
}

void gh_json_each(const struct json_t *obj,
                  void (*fn)(const char *key, const struct json_t *value, void *cookie),
                  void *cookie)
{
    const char *key = NULL;
    json_t *member = NULL;
    json_object_foreach((json_t *)obj, key, member)
    {
        fn(key, member, cookie);
    }
}

static int put_chunk(const char *data, size_t len, void *out)
{
    gh_buf_put(out, data, len);
    return 0;
}

void gh_json_canonical(const struct json_t *value, struct gh_buf *out)
{
    if (json_dump_callback(value, put_chunk, out,
                           JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) != 0) {
        out->failed = true;
    }
}
