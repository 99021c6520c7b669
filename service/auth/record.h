/* record: one token as it lies in the folder, NAME.json.
 *
 * Threads: any.
 */
#ifndef GH_AUTH_RECORD_H
#define GH_AUTH_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/auth.h"
#include "base/buf.h"

struct record {
    struct auth_token token;
    unsigned char digest[GH_SHA256]; /* of the secret's text */
};

#define RECORD_FILE (AUTH_NAME + 8) /* bytes of "NAME.json" or "NAME.token" with the NUL */
#define RECORD_BYTES 4096           /* largest record file */
#define SECRET_CHARS 55             /* "gh_" and 52 digits, without a NUL */

/* True for [A-Za-z0-9._-]{1,64} that does not start with '.' or '-' and does not look like an id.
 */
bool record_name_valid(const char *name);

/* True for the two tokens that our own clients use: they have a secret file beside the record. */
bool record_is_own(const char *name);

/* True when the token opens anything at `now_ms` (wall clock). */
bool record_is_valid(const struct record *record, int64_t now_ms);

/* Append the record as JSON. */
void record_write(const struct record *record, struct gh_buf *out);

/* Read what record_write made. Fails with GH_IO; `file` is named. */
GH_MUST_USE enum gh_code record_read(const char *file, const char *data, size_t len,
                                     struct record *ret, struct gh_err *err);

/* Make a secret of 256 random bits and its digest. */
void record_secret(char ret_secret[AUTH_SECRET], unsigned char ret_digest[GH_SHA256]);

/* True when the `len` bytes at `text`, a NUL-ended string, have the form of a secret. */
bool record_secret_valid(const char *text, size_t len);

/* Write `n` random digits and a NUL. */
void record_random(char *out, size_t n);

#endif
