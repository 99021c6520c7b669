/* The decoder of decision requests: no input may crash it, and what it takes is whole. */
#include <stdint.h>
#include <string.h>

#include "base/auto.h"
#include "core/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gh_auto(call_freep) struct call *call = NULL;
    struct gh_err err = {0};
    enum gh_code code = call_parse((const char *)data, size, &call, &err);
    gh_assert((code == GH_OK) == (call != NULL));
    if (call == NULL) {
        gh_assert(err.detail[0] != '\0');
        return 0;
    }
    gh_assert(call->n_parts >= 1 && call->n_parts <= 256);
    for (size_t i = 0; i < call->n_parts; i++) {
        const struct gate_target *target = &call->parts[i].target;
        gh_assert(call->parts[i].action != GATE_ACTION_NONE && target->form != GATE_FORM_NONE);
        gh_assert(target->form != GATE_COMMAND || target->program != NULL);
    }
    return 0;
}
