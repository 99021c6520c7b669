#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "core/execution.h"
#include "core/state.h"

#define MAX_WAIT_MS 120000

bool query_wait_ms(struct http_exchange *x, int64_t *ret_ms, struct gh_err *err)
{
    const char *text = http_query(x, "wait_s");
    *ret_ms = 0;
    if (text == NULL) {
        return true;
    }
    char *end = NULL;
    double seconds = strtod(text, &end);
    bool is_plain = strspn(text, "0123456789.") == strlen(text) && text[0] != '.';
    if (text[0] == '\0' || !is_plain || *end != '\0' || seconds > 120.0) {
        gh_fail_at(err, GH_INVALID, "", "wait_s is a number of seconds from 0 to 120.");
        return false;
    }
    *ret_ms = (int64_t)(seconds * 1000.0);
    return true;
}

/* The last of the asker's holders left: it has its time to come back. */
static struct http_exchange *take_back_locked(struct core *core, struct wait *wait)
{
    struct ask *ask = wait->ask;
    struct execution *execution = wait->execution;
    bool was_holder = wait->is_holder;
    struct http_exchange *x = wait_take_locked(core, wait);
    if (was_holder && execution != NULL) {
        execution_hold_back_locked(execution);
    } else if (was_holder && ask != NULL) {
        ask_hold_back_locked(core, ask);
    }
    return x;
}

/* The client of a held request left. */
static void gone(struct http_exchange *x, void *cookie)
{
    (void)x;
    struct core *core = cookie;
    char number[24];
    pthread_mutex_lock(&core->lock);
    snprintf(number, sizeof number, "%p", (void *)x);
    struct wait *wait = gh_map_find(&core->waits, number);
    if (wait != NULL) {
        struct gh_buf none = GH_BUF_INIT;
        /* Nobody reads it; it ends the exchange. */
        http_reply(take_back_locked(core, wait), 204, &none, NULL, 0);
    }
    pthread_mutex_unlock(&core->lock);
}

static void link_wait(struct wait **list, struct wait *wait)
{
    wait->list = list;
    wait->prev = NULL;
    wait->next = *list;
    if (*list != NULL) {
        (*list)->prev = wait;
    }
    *list = wait;
}

bool wait_hold_locked(struct core *core, const struct wait *what, int64_t wait_ms,
                      struct wait **list)
{
    bool is_agent = what->who.role == AUTH_AGENT;
    if (core->is_stopping || stream_token_is_dropped_locked(core, what->who.id) ||
        (is_agent && core->n_agent_waits >= core->max_agent_waits)) {
        return false;
    }
    struct wait *wait = malloc(sizeof *wait);
    if (wait == NULL) {
        return false;
    }
    *wait = *what;
    /* The exchange lives until its reply, so its address names it for as long as it is held. */
    snprintf(wait->number, sizeof wait->number, "%p", (void *)wait->x);
    wait->due = (struct gh_due){.owner = wait, .kind = WAIT_DUE};
    if (!gh_map_put(&core->waits, wait->number, wait)) {
        free(wait);
        return false;
    }
    link_wait(list, wait);
    core->n_agent_waits += is_agent;
    clock_set_locked(core, &wait->due, gh_clock_boot_ms() + wait_ms);
    if (wait->is_holder && wait->execution != NULL) {
        execution_hold_locked(wait->execution);
    } else if (wait->is_holder) {
        wait->ask
            ->n_holders++; /* not a change of its revision, or every hold would end every poll */
    }
    http_watch(wait->x, gone, core);
    return true;
}

struct http_exchange *wait_take_locked(struct core *core, struct wait *wait)
{
    struct http_exchange *x = wait->x;
    clock_clear_locked(core, &wait->due);
    gh_map_remove(&core->waits, wait->number);
    core->n_agent_waits -= wait->who.role == AUTH_AGENT;
    if (wait->prev != NULL) {
        wait->prev->next = wait->next;
    } else {
        *wait->list = wait->next;
    }
    if (wait->next != NULL) {
        wait->next->prev = wait->prev;
    }
    if (wait->is_holder && wait->execution != NULL) {
        execution_let_go_locked(wait->execution);
    } else if (wait->is_holder) {
        wait->ask->n_holders--;
    }
    free(wait);
    return x;
}

/* Answer a held request with the present state. */
static void answer_wait(struct core *core, struct wait *wait)
{
    struct ask *ask = wait->ask;
    enum wait_kind kind = wait->kind;
    bool is_unchanged = wait->has_seen && ask != NULL && wait->seen == ask->revision;
    if (kind == WAIT_EXECUTION) {
        struct execution *execution = wait->execution;
        execution_reply_locked(execution, wait_take_locked(core, wait));
    } else if (kind == WAIT_EVENTS) {
        events_reply_locked(core, wait);
    } else if (kind == WAIT_LIST) {
        approvals_reply_locked(core, wait);
    } else if (kind == WAIT_DECISION) {
        ask_reply_decision(ask, wait_take_locked(core, wait));
    } else if (is_unchanged) {
        approval_not_modified(core, wait_take_locked(core, wait), ask->revision);
    } else {
        approval_reply_locked(core, ask, wait_take_locked(core, wait));
    }
}

void wait_due_locked(struct core *core, struct wait *wait)
{
    answer_wait(core, wait);
}

/* What happens in other sessions is no change of the list that it waits for. */
static bool is_list_changed(const struct core *core, const struct wait *wait)
{
    const struct session *session =
        wait->session[0] != '\0' ? gh_map_find(&core->sessions, wait->session) : NULL;
    return !wait->has_seen || wait->seen != (session != NULL ? session->revision : core->revision);
}

/* Answer those for whom something changed. */
void waits_wake_locked(struct core *core, struct wait **list)
{
    struct wait *next = NULL;
    for (struct wait *wait = *list; wait != NULL; wait = next) {
        next = wait->next;
        const struct ask *ask = wait->ask;
        bool is_ready =
            (wait->kind == WAIT_EXECUTION && wait->execution->is_final) ||
            wait->kind == WAIT_EVENTS || (wait->kind == WAIT_LIST && is_list_changed(core, wait)) ||
            (wait->kind == WAIT_DECISION && ask->is_answered) ||
            (wait->kind == WAIT_APPROVAL &&
             (wait->has_seen ? wait->seen != ask->revision : ask->state != ASK_PENDING));
        if (is_ready) {
            answer_wait(core, wait);
        }
    }
}

/* What was asked with a token may not be answered to whoever still holds it after its end: an allow
 * least of all. */
void waits_drop_locked(struct core *core, const char *token_id)
{
    struct gh_err err;
    size_t at = 0;
    gh_fail(&err, GH_UNAUTHORIZED, "The token was revoked or has expired.");
    for (struct wait *wait = gh_map_next(&core->waits, &at); wait != NULL;
         wait = gh_map_next(&core->waits, &at)) {
        if (strcmp(wait->who.id, token_id) == 0) {
            http_problem(take_back_locked(core, wait), &err, NULL);
            at = 0; /* the map has changed */
        }
    }
}
