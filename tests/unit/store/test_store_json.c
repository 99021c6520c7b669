/* An audit row as JSON: the form of lists and of the export. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "scene.h"

static struct scene scene;

static void setup(void)
{
    scene = scene_new();
    scene_open(&scene);
}

static void teardown(void)
{
    scene_end(&scene);
}

static bool to_json(const struct store_audit_row *row, void *cookie)
{
    store_audit_json(row, cookie);
    return true;
}

static void commit_row(const struct store_audit *row)
{
    struct store_txn *txn = store_txn_new();
    store_txn_audit(txn, row);
    ck_assert_int_eq(store_commit_wait(scene.store, &txn, NULL), GH_OK);
}

static struct json_t *only_row_as_json(struct gh_buf *out)
{
    struct store_audit_filter filter = {0};
    ck_assert_int_eq(store_audit_list(scene.store, &filter, to_json, out, NULL), GH_OK);
    ck_assert_ptr_null(strchr(gh_buf_str(out), '\n'));
    struct json_t *value = NULL;
    ck_assert_int_eq(gh_json_parse(out->data, out->len, &value, NULL), GH_OK);
    return value;
}

START_TEST(json_has_every_member)
{
    struct scene_space space;
    struct store_audit row = scene_row(5, &space);
    row.agent = "bad\n\"agent\"\x1b[31m";
    commit_row(&row);
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    gh_auto(gh_json_freep) struct json_t *json = only_row_as_json(&out);
    static const char *const names[] = {"seq",   "gateway",  "at",   "kind",      "session",
                                        "ref",   "part",     "tool", "action",    "decision",
                                        "by",    "code",     "mode", "principal", "peer",
                                        "agent", "trace_id", "body", "hash",      NULL};
    ck_assert_int_eq(gh_json_only(json, "", names, NULL), GH_OK);
    ck_assert_uint_eq(gh_json_len(json), sizeof names / sizeof names[0] - 1);
    ck_assert_int_eq(gh_json_number(gh_json_get(json, "seq"), 0), 1);
    ck_assert_int_eq(gh_json_number(gh_json_get(json, "part"), 0), 2);
    ck_assert_str_eq(gh_json_text(gh_json_get(json, "at")), "2023-11-14T22:13:20.005Z");
    ck_assert_str_eq(gh_json_text(gh_json_get(json, "agent")), row.agent);
    ck_assert_str_eq(gh_json_text(gh_json_get(gh_json_get(json, "body"), "target")), "/tmp/file-5");
    ck_assert_int_eq(strncmp(gh_json_text(gh_json_get(json, "gateway")), "gw_", 3), 0);
    ck_assert_uint_eq(strlen(gh_json_text(gh_json_get(json, "hash"))), 64);
}
END_TEST

static const char *const odd_bodies[] = {"", "text", "{\"a\":1},\"forged\":{}", "{\n}", "{", "[1]"};

START_TEST(body_that_is_no_object_forges_nothing)
{
    struct scene_space space;
    struct store_audit row = scene_row(5, &space);
    row.body = odd_bodies[_i];
    commit_row(&row);
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    gh_auto(gh_json_freep) struct json_t *json = only_row_as_json(&out);
    ck_assert_str_eq(gh_json_text(gh_json_get(json, "body")), row.body);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store_json");
    TCase *tests = tcase_create("json");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, json_has_every_member);
    tcase_add_loop_test(tests, body_that_is_no_object_forges_nothing, 0,
                        (int)(sizeof odd_bodies / sizeof odd_bodies[0]));
    suite_add_tcase(suite, tests);
    return scene_main(suite);
}
