/* buf: a growable byte string and a JSON writer on top of it.
 *
 * Running out of memory sets `failed` and turns further puts into no-ops, so a caller checks once
 * at the end. The data is always NUL-terminated. Threads: one at a time.
 */
#ifndef GH_BASE_BUF_H
#define GH_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct gh_buf {
    char *data;  /* heap, or NULL while empty */
    size_t len;  /* bytes used, without the NUL */
    size_t cap;  /* bytes allocated */
    bool failed; /* memory ran out; the content is not to be used */
};

#define GH_BUF_INIT ((struct gh_buf){NULL, 0, 0, false})

/* Free the content; the buffer is empty and usable again. */
void gh_buf_fini(struct gh_buf *buf);

/* Make room for `more` bytes at once. */
void gh_buf_room(struct gh_buf *buf, size_t more);

/* Append `len` bytes (copied). */
void gh_buf_put(struct gh_buf *buf, const void *data, size_t len);

/* Append a NUL-terminated string (copied). */
void gh_buf_puts(struct gh_buf *buf, const char *text);

/* Append one byte. */
void gh_buf_putc(struct gh_buf *buf, char c);

/* Append formatted text. */
void gh_buf_printf(struct gh_buf *buf, const char *fmt, ...) GH_PRINTF(2, 3);

/* The content as a string ("" while empty); borrowed until the next change. */
const char *gh_buf_str(const struct gh_buf *buf);

/* Take the content; owned by caller, freed with free. NULL when memory ran out. */
char *gh_buf_take(struct gh_buf *buf);

/* Append `text` as a JSON string with quotes. Invalid UTF-8 becomes U+FFFD. */
void gh_buf_json(struct gh_buf *buf, const char *text, size_t len);

/* A JSON writer: places commas, nothing else. `key` is NULL inside arrays and for the top value.
 * A NULL string value writes null. */
struct gh_jw {
    struct gh_buf *buf; /* borrowed for the writer's life */
    bool comma;         /* the next value needs a comma before it */
};

void gh_jw_obj(struct gh_jw *w, const char *key); /* open an object */
void gh_jw_end(struct gh_jw *w);                  /* close an object */
void gh_jw_arr(struct gh_jw *w, const char *key); /* open an array */
void gh_jw_arr_end(struct gh_jw *w);              /* close an array */
void gh_jw_str(struct gh_jw *w, const char *key, const char *value);
void gh_jw_strn(struct gh_jw *w, const char *key, const char *value, size_t len);
void gh_jw_int(struct gh_jw *w, const char *key, int64_t value);
void gh_jw_bool(struct gh_jw *w, const char *key, bool value);
void gh_jw_null(struct gh_jw *w, const char *key);
void gh_jw_raw(struct gh_jw *w, const char *key, const char *json); /* finished JSON, copied */
void gh_jw_time(struct gh_jw *w, const char *key, int64_t wall_ms); /* RFC 3339; null when < 0 */

#endif
