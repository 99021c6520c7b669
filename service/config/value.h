/* value: from slots to a struct config and out of it, by the table.
 *
 * Threads: one at a time.
 */
#ifndef GH_CONFIG_VALUE_H
#define GH_CONFIG_VALUE_H

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"
#include "config/node.h"
#include "config/slots.h"

/* Fill a zeroed `config`: what the slots hold, checked, and defaults for the rest. On failure the
 * configuration is to be freed all the same. Fails with GH_CONFIG or GH_NOMEM. */
GH_MUST_USE enum gh_code value_fill(struct config *config, const struct nodes *nodes,
                                    const struct slots *slots, struct gh_err *err);

/* Free what value_fill made, not `config` itself. */
void value_free(struct config *config);

/* Append `config` as a JSON object. */
void value_json(const struct config *config, struct gh_buf *out);

#endif
