/* card: one approval as a person needs to see it: the exact action first, everything an agent
 * wrote neutralised, what is unverified last and marked. */
#ifndef GH_CLI_CARD_H
#define GH_CLI_CARD_H

#include "cli/out.h"

/* Draw the approval object of the API, whole: nothing is folded or cut. */
void cli_card(struct cli_out *out, const struct json_t *approval);

/* One target of the API on one line, neutralised: "src/a.c", "rm -rf 'a b'", "a -> b". */
void cli_target(struct gh_buf *out, const struct json_t *target);

/* The first hexadecimal digits of "sha256-...", at least 8 of them compared without case. False for
 * fewer than 8 or any difference. */
bool cli_digest_matches(const char *digest, const char *prefix);

/* The 12 digits people copy. */
void cli_digest_short(const char *digest, char ret[16]);

#endif
