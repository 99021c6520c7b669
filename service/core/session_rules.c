#include <string.h>

#include "base/auto.h"
#include "core/state.h"

static bool is_in_list(const struct json_t *list, const char *entry)
{
    for (size_t i = 0; i < gh_json_len(list); i++) {
        const char *text = gh_json_text(gh_json_at(list, i));
        if (text != NULL && strcmp(text, entry) == 0) {
            return true;
        }
    }
    return false;
}

/* The session's deny list and the request's, as one JSON array; *ret_grew when they differ. */
static char *join_rules(const struct session *session, const char *const *entries, size_t n_entries,
                        bool *ret_grew)
{
    gh_auto(gh_json_freep) struct json_t *list = NULL;
    struct gh_err err;
    struct gh_buf text = GH_BUF_INIT;
    struct gh_jw w = {&text, false};
    if (gh_json_parse(session->deny_json, strlen(session->deny_json), &list, &err) != GH_OK) {
        return NULL;
    }
    gh_jw_arr(&w, NULL);
    for (size_t i = 0; i < gh_json_len(list); i++) {
        gh_jw_str(&w, NULL, gh_json_text(gh_json_at(list, i)));
    }
    for (size_t i = 0; i < n_entries; i++) {
        if (!is_in_list(list, entries[i])) {
            gh_jw_str(&w, NULL, entries[i]);
            *ret_grew = true;
        }
    }
    gh_jw_arr_end(&w);
    return gh_buf_take(&text);
}

bool session_add_rules_locked(struct core *core, struct session *session,
                              const char *const *entries, size_t n_entries, bool *ret_grew,
                              struct gh_err *err)
{
    char *joined = join_rules(session, entries, n_entries, ret_grew);
    char *before = session->deny_json;
    if (joined == NULL) {
        gh_fail(err, GH_NOMEM, "There is not enough memory for the session.");
        return false;
    }
    if (!*ret_grew) {
        free(joined);
        return true;
    }
    session->deny_json = joined;
    if (session_rebase_locked(core, session, core->policy, err) != GH_OK) {
        session->deny_json = before;
        free(joined);
        return false;
    }
    free(before);
    ask_sweep_locked(core, session);
    return true;
}
