/* card: what a person sees of a call: digest, display, preview. Only for core's own files. Threads:
 * one at a time; reads the file system.
 */
#ifndef GH_CORE_CARD_H
#define GH_CORE_CARD_H

#include "base/id.h"
#include "core/call.h"

struct taint {
    char *source;  /* owned */
    char *marker;  /* owned */
    char *excerpt; /* owned; original text */
    size_t offset; /* bytes */
    int64_t at_ms; /* wall clock */
};

struct card {
    char digest[8 + GH_HEX];
    unsigned char operands[GH_SHA256];
    struct gh_buf fixed; /* approval members from "tool" to "digest" */
    struct gh_buf texts;
    bool may_remember;
};
void card_fini(struct card *card);

/* What a card needs of its session, copied under the lock. */
struct card_session {
    char id[GH_ID];
    bool is_known_tool;
    struct taint taint; /* empty when there is none; owned */
};
GH_MUST_USE enum gh_code card_make(const struct card_session *session, const struct place *place,
                                   const struct call *call, const struct judged *judged,
                                   struct card *ret, struct gh_err *err);
GH_MUST_USE enum gh_code card_operands(const struct place *place, const struct judged *judged,
                                       const struct call *call, unsigned char ret[GH_SHA256],
                                       struct gh_err *err);

#endif
