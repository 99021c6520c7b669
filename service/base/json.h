/* json: strict reading of JSON that strangers send. jansson ends here.
 *
 * `struct json_t` is jansson's value, opaque outside json.c. `at` is the JSON Pointer of the object
 * that is read ("" for the body), used in errors. Getters leave *ret untouched when the field is
 * absent or null; with `GH_NEED` absence is an error (GH_INVALID). A wrong type is GH_INVALID.
 * Threads: a value belongs to one thread at a time.
 */
#ifndef GH_BASE_JSON_H
#define GH_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct json_t;

#define GH_JSON_DEPTH 64 /* deepest nesting taken */

enum gh_need { GH_OPTIONAL = 0, GH_NEED };

/* Parse a whole document: UTF-8, no duplicate keys, no NUL in strings, at most GH_JSON_DEPTH deep.
 * *ret is owned by caller (gh_json_free). Fails with GH_BAD_JSON or GH_NOMEM. */
GH_MUST_USE enum gh_code gh_json_parse(const char *data, size_t len, struct json_t **ret,
                                       struct gh_err *err);

/* Drop one reference; NULL is fine. */
void gh_json_free(struct json_t *value);

/* For gh_auto. */
void gh_json_freep(struct json_t **value);

/* Fails with GH_INVALID unless `value` is an object, with GH_UNKNOWN_FIELD (pointer set) when it
 * has a key that is not in the NULL-ended list `names`. */
GH_MUST_USE enum gh_code gh_json_only(const struct json_t *value, const char *at,
                                      const char *const names[], struct gh_err *err);

/* A string of at most `max` bytes; *ret is borrowed from `obj`. */
GH_MUST_USE enum gh_code gh_json_str(const struct json_t *obj, const char *at, const char *key,
                                     enum gh_need need, size_t max, const char **ret,
                                     struct gh_err *err);

/* An integer within [min, max]. */
GH_MUST_USE enum gh_code gh_json_int(const struct json_t *obj, const char *at, const char *key,
                                     enum gh_need need, int64_t min, int64_t max, int64_t *ret,
                                     struct gh_err *err);

/* A number of seconds (integer or real) within [min_ms, max_ms], as milliseconds. Larger than the
 * maximum is an error only when `cap` is false; otherwise it is capped. */
GH_MUST_USE enum gh_code gh_json_secs(const struct json_t *obj, const char *at, const char *key,
                                      int64_t min_ms, int64_t max_ms, bool cap, int64_t *ret_ms,
                                      struct gh_err *err);

/* A boolean. */
GH_MUST_USE enum gh_code gh_json_bool(const struct json_t *obj, const char *at, const char *key,
                                      bool *ret, struct gh_err *err);

/* An object; *ret is borrowed from `obj`. */
GH_MUST_USE enum gh_code gh_json_obj(const struct json_t *obj, const char *at, const char *key,
                                     enum gh_need need, const struct json_t **ret,
                                     struct gh_err *err);

/* An array of at most `max` elements; *ret is borrowed from `obj`. */
GH_MUST_USE enum gh_code gh_json_arr(const struct json_t *obj, const char *at, const char *key,
                                     enum gh_need need, size_t max, const struct json_t **ret,
                                     struct gh_err *err);

/* Any value of `obj`, or NULL; borrowed. */
const struct json_t *gh_json_get(const struct json_t *obj, const char *key);

/* Number of elements of an array or members of an object; 0 for anything else. */
size_t gh_json_len(const struct json_t *value);

/* Element `i`, borrowed; NULL when there is none. */
const struct json_t *gh_json_at(const struct json_t *arr, size_t i);

/* The text of a string value (borrowed, NUL-terminated, no NUL inside), or NULL for other types. */
const char *gh_json_text(const struct json_t *value);

/* The value of an integer, or `fallback` for other types. */
int64_t gh_json_number(const struct json_t *value, int64_t fallback);

/* True for JSON true only. */
bool gh_json_true(const struct json_t *value);

/* Call `fn` for each member; `key` and `value` are borrowed. */
void gh_json_each(const struct json_t *obj,
                  void (*fn)(const char *key, const struct json_t *value, void *cookie),
                  void *cookie);

/* Append the canonical form: sorted keys, no blanks, UTF-8. */
void gh_json_canonical(const struct json_t *value, struct gh_buf *out);

#endif
