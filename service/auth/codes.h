/* codes: one-time login codes. At most 8 open, 60 s each, kept as digests.
 *
 * Threads: any.
 */
#ifndef GH_AUTH_CODES_H
#define GH_AUTH_CODES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "auth/auth.h"

#define CODES_OPEN 8
#define CODES_LIFE_MS 60000
#define CODES_CHARS 26 /* 128 bits, five a digit */

struct code {
    unsigned char digest[GH_SHA256];
    enum auth_role role; /* AUTH_NONE: a free place */
    int64_t dies_ms;     /* boot clock */
};

struct codes {
    pthread_mutex_t lock;
    struct code all[CODES_OPEN];
};

/* Begin with no code open; end. */
void codes_init(struct codes *codes);
void codes_fini(struct codes *codes);

/* Make a code at `now_ms` (boot clock). Fails with GH_LIMIT when 8 are open. */
GH_MUST_USE enum gh_code codes_new(struct codes *codes, enum auth_role role, int64_t now_ms,
                                   char ret_code[40], struct gh_err *err);

/* Spend a code: its role, or AUTH_NONE when it is none that lives. */
enum auth_role codes_take(struct codes *codes, const char *code, int64_t now_ms);

#endif
