/* test_gate_decide: the decision function against a second one, written down as the table of
 * behaviour 1.8, over every combination of its inputs; and the golden matrix. */
#include "gate/decide.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"

enum { N_FLAGS = 11 };

static struct gate_case make_case(int action, int form, int mode, unsigned flags)
{
    return (struct gate_case){
        .action = (enum gate_action)action,
        .form = (enum gate_form)form,
        .mode = (enum gate_mode)mode,
        .is_plan_call = flags & 1,
        .is_tainted = flags >> 1 & 1,
        .is_known_tool = flags >> 2 & 1,
        .is_denied = flags >> 3 & 1,
        .is_git_metadata = flags >> 4 & 1,
        .is_gate_config = flags >> 5 & 1,
        .is_inside = flags >> 6 & 1,
        .runs_later = flags >> 7 & 1,
        .is_cached = flags >> 8 & 1,
        .is_seeded = flags >> 9 & 1,
        .has_ticket = flags >> 10 & 1,
    };
}

/* What stands in a cell of the table. */
enum cell {
    NO,     /* deny */
    YES,    /* allow */
    CACHED, /* allow-always on a cache hit, else ask */
    ASKS,   /* ask every time */
    EXACT,  /* allow-always on a cache hit, else deny */
};

enum column { COL_ACT, COL_PLAN, COL_CLEAN, COL_TAINTED, N_COLUMNS };
enum place { ANYWHERE, INSIDE, OUTSIDE };

struct row {
    enum gate_action action;
    enum gate_form form;
    enum place place;
    enum cell cells[N_COLUMNS];
};

/* act, plan, autonomous clean, autonomous tainted */
static const struct row table[] = {
    {GATE_READ, GATE_PATH, ANYWHERE, {YES, YES, YES, YES}},
    {GATE_READ, GATE_DESCRIPTION, ANYWHERE, {YES, YES, YES, YES}},
    {GATE_INTERNAL, GATE_DESCRIPTION, ANYWHERE, {YES, YES, YES, YES}},
    {GATE_INTERNAL, GATE_PATH, ANYWHERE, {YES, YES, YES, YES}},
    {GATE_WRITE, GATE_PATH, INSIDE, {CACHED, NO, YES, NO}},
    {GATE_WRITE, GATE_PATH, OUTSIDE, {CACHED, NO, NO, NO}},
    {GATE_DELETE, GATE_PATH, INSIDE, {CACHED, NO, YES, NO}},
    {GATE_DELETE, GATE_PATH, OUTSIDE, {CACHED, NO, NO, NO}},
    {GATE_MOVE, GATE_MOVE_PATHS, INSIDE, {CACHED, NO, YES, NO}},
    {GATE_MOVE, GATE_MOVE_PATHS, OUTSIDE, {CACHED, NO, NO, NO}},
    {GATE_EXECUTE, GATE_COMMAND, ANYWHERE, {CACHED, NO, EXACT, NO}},
    {GATE_NETWORK, GATE_DESCRIPTION, ANYWHERE, {YES, NO, YES, NO}},
    {GATE_INTERACT, GATE_DESCRIPTION, ANYWHERE, {YES, NO, NO, NO}},
    {GATE_MCP_TOOL, GATE_DESCRIPTION, ANYWHERE, {CACHED, NO, NO, NO}},
    {GATE_MEMORY, GATE_DESCRIPTION, ANYWHERE, {ASKS, NO, NO, NO}},
    {GATE_PERSISTENT_MEMORY, GATE_DESCRIPTION, ANYWHERE, {CACHED, NO, NO, NO}},
};

static enum column column_of(const struct gate_case *c)
{
    if (c->mode == GATE_PLAN || c->is_plan_call) {
        return COL_PLAN;
    }
    if (c->mode == GATE_ACT) {
        return COL_ACT;
    }
    return c->is_tainted ? COL_TAINTED : COL_CLEAN;
}

static bool changes_files(const struct gate_case *c)
{
    return c->action == GATE_WRITE || c->action == GATE_DELETE || c->action == GATE_MOVE;
}

static const struct row *row_of(const struct gate_case *c)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct row *row = &table[i];
        bool fits = row->place == ANYWHERE || (row->place == INSIDE) == c->is_inside;
        if (row->action == c->action && row->form == c->form && fits) {
            return row;
        }
    }
    return NULL;
}

/* The decision alone, from the table and the sentences around it. */
static enum gate_decision expected(const struct gate_case *c)
{
    const struct row *row = row_of(c);
    bool names_files = c->form == GATE_PATH || c->form == GATE_MOVE_PATHS;
    if (c->is_denied || (c->is_git_metadata && changes_files(c) && names_files) || row == NULL ||
        c->mode >= GATE_N_MODES) {
        return GATE_DENY;
    }
    enum column column = column_of(c);
    enum cell cell = row->cells[column];
    bool is_quiet = cell == YES && !changes_files(c);
    if (!c->is_known_tool && is_quiet) { /* nothing by itself: asks where somebody can be asked */
        cell = column == COL_ACT ? CACHED : NO;
    }
    if (changes_files(c) && c->is_gate_config) {
        cell = column == COL_ACT ? ASKS : NO;
    }
    if (changes_files(c) && c->runs_later && cell == CACHED) {
        cell = ASKS;
    }
    switch (cell) {
    case NO:
        return GATE_DENY;
    case YES:
        return GATE_ALLOW;
    case EXACT:
        return c->is_cached ? GATE_ALLOW_ALWAYS : GATE_DENY;
    case CACHED:
        if (c->is_cached) {
            return GATE_ALLOW_ALWAYS;
        }
        break;
    case ASKS:
        break;
    }
    return c->has_ticket ? GATE_ALLOW : GATE_ASK;
}

/* Which code a denial has, in the order that behaviour 1.4 and 1.7 give. */
static enum gate_reason expected_refusal(const struct gate_case *c)
{
    bool names_files = c->form == GATE_PATH || c->form == GATE_MOVE_PATHS;
    if (c->is_denied) {
        return GATE_R_DENY_PATH;
    }
    if (c->action == GATE_ACTION_NONE || c->form == GATE_FORM_NONE || c->action >= GATE_N_ACTIONS ||
        c->form >= GATE_N_FORMS || c->mode >= GATE_N_MODES) {
        return GATE_R_INTERNAL;
    }
    if (c->is_git_metadata && changes_files(c) && names_files) {
        return GATE_R_GIT_METADATA;
    }
    if (column_of(c) == COL_PLAN) {
        return GATE_R_PLAN_MODE;
    }
    if (column_of(c) == COL_ACT) {
        return GATE_R_INTERNAL;
    }
    bool needs_person = c->action == GATE_MCP_TOOL || c->action == GATE_MEMORY ||
                        c->action == GATE_PERSISTENT_MEMORY || c->action == GATE_INTERACT ||
                        c->action == GATE_READ || c->action == GATE_INTERNAL;
    if (needs_person || !gate_form_fits(c->action, c->form) ||
        (c->action == GATE_NETWORK && !c->is_known_tool)) {
        return GATE_R_AUTONOMOUS_REFUSED;
    }
    if (changes_files(c) && c->is_gate_config) {
        return GATE_R_GATE_CONFIGURATION;
    }
    if (c->is_tainted) {
        return GATE_R_TAINTED;
    }
    return changes_files(c) ? GATE_R_AUTONOMOUS_BOUNDARY : GATE_R_NOT_PREAPPROVED;
}

static void check_one(const struct gate_case *c)
{
    struct gate_verdict v = gate_decide(c);
    if (v.decision != expected(c) || (v.decision == GATE_DENY && v.reason != expected_refusal(c))) {
        ck_abort_msg("action %d form %d mode %d: got %d/%d", c->action, c->form, c->mode,
                     v.decision, v.reason);
    }
    bool never =
        c->action == GATE_MEMORY || (changes_files(c) && (c->is_gate_config || c->runs_later));
    ck_assert_int_eq(v.may_remember, v.decision == GATE_ASK && !never);
    ck_assert(!v.uses_ticket || (c->has_ticket && v.decision == GATE_ALLOW &&
                                 v.tier == GATE_TIER_ASK && c->mode == GATE_ACT));
    if (v.decision == GATE_ALLOW_ALWAYS) {
        ck_assert_int_eq(v.reason, c->is_seeded ? GATE_R_SEEDED : GATE_R_GRANTED);
        ck_assert_int_eq(v.by, GATE_BY_GRANT);
        ck_assert(c->is_cached && !never);
    }
    if (v.decision == GATE_ASK) {
        ck_assert_int_eq(v.tier, GATE_TIER_ASK);
        ck_assert_int_eq(v.reason, GATE_R_ASKED);
    }
}

START_TEST(every_combination_agrees_with_the_table)
{
    int n = 0;
    for (int action = 0; action <= GATE_N_ACTIONS; action++) {
        for (int form = 0; form <= GATE_N_FORMS; form++) {
            for (int mode = 0; mode <= GATE_N_MODES; mode++) {
                for (unsigned flags = 0; flags < 1U << N_FLAGS; flags++, n++) {
                    struct gate_case c = make_case(action, form, mode, flags);
                    check_one(&c);
                }
            }
        }
    }
    ck_assert_int_eq(n, (GATE_N_ACTIONS + 1) * (GATE_N_FORMS + 1) * (GATE_N_MODES + 1) << N_FLAGS);
}
END_TEST

START_TEST(what_means_nothing_is_denied)
{
    struct gate_case zero = {0};
    struct gate_verdict v = gate_decide(&zero);
    ck_assert_int_eq(v.decision, GATE_DENY);
    ck_assert_int_eq(v.reason, GATE_R_INTERNAL);
    struct gate_case wild = {.action = (enum gate_action) - 1,
                             .form = GATE_PATH,
                             .mode = GATE_ACT,
                             .is_known_tool = true};
    ck_assert_int_eq(gate_decide(&wild).decision, GATE_DENY);
    wild.action = (enum gate_action)9999;
    ck_assert_int_eq(gate_decide(&wild).decision, GATE_DENY);
}
END_TEST

START_TEST(explain_walks_to_the_deciding_tier_and_agrees)
{
    for (int action = 1; action < GATE_N_ACTIONS; action++) {
        for (int mode = 0; mode < GATE_N_MODES; mode++) {
            for (unsigned flags = 0; flags < 1U << N_FLAGS; flags += 7) {
                struct gate_case c = make_case(action, GATE_PATH, mode, flags);
                struct gate_step steps[GATE_N_TIERS];
                struct gate_verdict v;
                int n = gate_explain(&c, steps, &v);
                struct gate_verdict direct = gate_decide(&c);
                ck_assert_mem_eq(&v, &direct, sizeof v);
                ck_assert_int_ge(n, 1);
                for (int i = 0; i < n; i++) {
                    ck_assert_int_eq(steps[i].tier, i);
                    ck_assert_int_eq(steps[i].is_matched, i == n - 1);
                    ck_assert_uint_gt(strlen(steps[i].detail), 10);
                }
                ck_assert_int_eq(v.tier, n - 1);
            }
        }
    }
}
END_TEST

START_TEST(the_stricter_of_two)
{
    struct gate_verdict deny = {.decision = GATE_DENY};
    struct gate_verdict once = {.decision = GATE_ASK};
    struct gate_verdict ask = {.decision = GATE_ASK, .may_remember = true};
    struct gate_verdict allow = {.decision = GATE_ALLOW};
    struct gate_verdict always = {.decision = GATE_ALLOW_ALWAYS};
    const struct gate_verdict *order[] = {&deny, &once, &ask, &allow};
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            ck_assert_ptr_eq(gate_stricter(order[i], order[j]), order[j < i ? j : i]);
        }
    }
    ck_assert_ptr_eq(gate_stricter(&allow, &always), &allow);
    ck_assert_ptr_eq(gate_stricter(&always, &allow), &always);
}
END_TEST

/* Scenarios 28, 29, 33, 39, 42, 43, 44 in words. */
START_TEST(a_grant_sleeps_while_planning)
{
    struct gate_case c = {.action = GATE_WRITE,
                          .form = GATE_PATH,
                          .mode = GATE_PLAN,
                          .is_known_tool = true,
                          .is_cached = true,
                          .is_inside = true,
                          .has_ticket = true};
    ck_assert_int_eq(gate_decide(&c).reason, GATE_R_PLAN_MODE);
    c.mode = GATE_ACT;
    ck_assert_int_eq(gate_decide(&c).decision, GATE_ALLOW_ALWAYS);
    c.mode = GATE_AUTONOMOUS;
    c.is_plan_call = true;
    ck_assert_int_eq(gate_decide(&c).reason, GATE_R_PLAN_MODE);
}
END_TEST

START_TEST(commands_in_autonomous_mode)
{
    struct gate_case c = {.action = GATE_EXECUTE,
                          .form = GATE_COMMAND,
                          .mode = GATE_AUTONOMOUS,
                          .is_known_tool = true,
                          .has_ticket = true};
    ck_assert_int_eq(gate_decide(&c).reason, GATE_R_NOT_PREAPPROVED);
    c.is_cached = c.is_seeded = true;
    struct gate_verdict v = gate_decide(&c);
    ck_assert_int_eq(v.decision, GATE_ALLOW_ALWAYS);
    ck_assert_int_eq(v.tier, GATE_TIER_AUTONOMOUS);
    ck_assert_int_eq(v.reason, GATE_R_SEEDED);
    c.is_tainted = true;
    ck_assert_int_eq(gate_decide(&c).reason, GATE_R_TAINTED);
    c.mode = GATE_ACT;
    ck_assert_int_eq(gate_decide(&c).decision, GATE_ALLOW_ALWAYS);
}
END_TEST

START_TEST(names_go_both_ways)
{
    enum gate_mode mode;
    for (int i = 1; i < GATE_N_ACTIONS; i++) {
        ck_assert_int_eq(gate_action_find(gate_action_name((enum gate_action)i)), i);
    }
    for (int i = 0; i < GATE_N_MODES; i++) {
        ck_assert(gate_mode_find(gate_mode_name((enum gate_mode)i), &mode));
        ck_assert_int_eq(mode, i);
    }
    static const char *const not_actions[] = {"", "none", "Read", "read ", "unknown"};
    for (size_t i = 0; i < sizeof not_actions / sizeof *not_actions; i++) {
        ck_assert_int_eq(gate_action_find(not_actions[i]), GATE_ACTION_NONE);
        ck_assert(!gate_mode_find(not_actions[i], &mode));
    }
    ck_assert_str_eq(gate_tier_name(GATE_N_TIERS), "unknown");
    ck_assert_str_eq(gate_by_name(GATE_BY_TIMEOUT), "timeout");
}
END_TEST

START_TEST(reasons_say_what_to_do)
{
    for (int i = 0; i < GATE_N_REASONS; i++) {
        enum gate_reason reason = (enum gate_reason)i;
        const char *text = gate_reason_text(reason);
        const char *hole = strchr(text, '%');
        ck_assert_int_eq(hole != NULL, gate_reason_takes_detail(reason));
        ck_assert(hole == NULL || (hole[1] == 's' && strchr(hole + 1, '%') == NULL));
        ck_assert_uint_gt(strlen(gate_reason_code(reason)), 3);
        ck_assert_uint_gt(strlen(text), 15);
        gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
        gate_reason_put(reason, "DETAIL%s", &out);
        ck_assert_int_eq(strstr(gh_buf_str(&out), "DETAIL%s") != NULL, hole != NULL);
    }
    ck_assert_str_eq(gate_reason_code((enum gate_reason)999), "internal");
}
END_TEST

struct scene {
    const char *name;
    unsigned flags;
};

/* One bit a flag, in the order of make_case. */
static const struct scene scenes[] = {
    {"inside", 1 << 2 | 1 << 6},
    {"outside", 1 << 2},
    {"tainted", 1 << 2 | 1 << 6 | 1 << 1},
    {"unknown_tool", 1 << 6},
    {"unknown_tool+cached", 1 << 6 | 1 << 8},
    {"plan_call", 1 << 2 | 1 << 6 | 1},
    {"denied", 1 << 2 | 1 << 6 | 1 << 3},
    {"git", 1 << 2 | 1 << 6 | 1 << 4},
    {"cached", 1 << 2 | 1 << 6 | 1 << 8},
    {"seeded", 1 << 2 | 1 << 6 | 1 << 8 | 1 << 9},
    {"seeded+tainted", 1 << 2 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 1},
    {"ticket", 1 << 2 | 1 << 6 | 1 << 10},
    {"ticket+cached", 1 << 2 | 1 << 6 | 1 << 8 | 1 << 10},
    {"config", 1 << 2 | 1 << 6 | 1 << 5},
    {"config+cached", 1 << 2 | 1 << 6 | 1 << 5 | 1 << 8},
    {"config+ticket", 1 << 2 | 1 << 6 | 1 << 5 | 1 << 10},
    {"later", 1 << 2 | 1 << 6 | 1 << 7},
    {"later+cached", 1 << 2 | 1 << 6 | 1 << 7 | 1 << 8},
};

static const char *const form_names[GATE_N_FORMS] = {"none", "path", "command", "move",
                                                     "description"};

static void print_verdict(const struct gate_verdict *v, struct gh_buf *out)
{
    gh_buf_printf(out, "%s %s %s %s%s%s\n", gate_decision_name(v->decision),
                  gate_tier_name(v->tier), gate_by_name(v->by), gate_reason_code(v->reason),
                  v->may_remember ? " may_remember" : "", v->uses_ticket ? " uses_ticket" : "");
}

/* How often each verdict is given over all inputs: a change anywhere moves a number. */
static void print_totals(struct gh_buf *out)
{
    static int totals[GATE_N_DECISIONS][GATE_N_REASONS];
    memset(totals, 0, sizeof totals);
    for (int action = 1; action < GATE_N_ACTIONS; action++) {
        for (int form = 1; form < GATE_N_FORMS; form++) {
            for (int mode = 0; mode < GATE_N_MODES; mode++) {
                for (unsigned flags = 0; flags < 1U << N_FLAGS; flags++) {
                    struct gate_case c = make_case(action, form, mode, flags);
                    struct gate_verdict v = gate_decide(&c);
                    totals[v.decision][v.reason]++;
                }
            }
        }
    }
    for (int d = 0; d < GATE_N_DECISIONS; d++) {
        for (int r = 0; r < GATE_N_REASONS; r++) {
            if (totals[d][r] > 0) {
                gh_buf_printf(out, "total %s %s %d\n", gate_decision_name((enum gate_decision)d),
                              gate_reason_code((enum gate_reason)r), totals[d][r]);
            }
        }
    }
}

static void print_matrix(struct gh_buf *out)
{
    for (int action = 1; action < GATE_N_ACTIONS; action++) {
        for (int form = 1; form < GATE_N_FORMS; form++) {
            for (int mode = 0; mode < GATE_N_MODES; mode++) {
                bool fits = gate_form_fits((enum gate_action)action, (enum gate_form)form);
                size_t n = fits ? sizeof scenes / sizeof *scenes : 1;
                for (size_t i = 0; i < n; i++) {
                    struct gate_case c = make_case(action, form, mode, scenes[i].flags);
                    struct gate_verdict v = gate_decide(&c);
                    gh_buf_printf(out, "%s %s %s %s: ", gate_action_name(c.action),
                                  form_names[form], gate_mode_name(c.mode), scenes[i].name);
                    print_verdict(&v, out);
                }
            }
        }
    }
    print_totals(out);
}

START_TEST(the_matrix_is_the_golden_one)
{
    gh_auto(gh_buf_fini) struct gh_buf now = GH_BUF_INIT;
    print_matrix(&now);
    const char *renew = getenv("GH_RENEW_GOLDEN");
    FILE *file = fopen(GH_MATRIX, renew != NULL ? "w+" : "r");
    ck_assert_msg(file != NULL, "%s cannot be opened", GH_MATRIX);
    if (renew != NULL) {
        fputs(gh_buf_str(&now), file);
        rewind(file);
    }
    char line[256];
    const char *at = gh_buf_str(&now);
    for (int n = 1; fgets(line, sizeof line, file) != NULL; n++) {
        size_t len = strcspn(at, "\n") + 1;
        ck_assert_msg(strlen(line) == len && memcmp(at, line, len) == 0,
                      "line %d: golden %s is now %.*s", n, line, (int)len, at);
        at += len;
    }
    ck_assert_msg(*at == '\0', "the matrix has more lines than the golden file: %s", at);
    fclose(file);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("decide");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, every_combination_agrees_with_the_table);
    tcase_add_test(tcase, what_means_nothing_is_denied);
    tcase_add_test(tcase, explain_walks_to_the_deciding_tier_and_agrees);
    tcase_add_test(tcase, the_stricter_of_two);
    tcase_add_test(tcase, a_grant_sleeps_while_planning);
    tcase_add_test(tcase, commands_in_autonomous_mode);
    tcase_add_test(tcase, names_go_both_ways);
    tcase_add_test(tcase, reasons_say_what_to_do);
    tcase_add_test(tcase, the_matrix_is_the_golden_one);
    Suite *suite = suite_create("gate_decide");
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
