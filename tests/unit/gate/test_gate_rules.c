/* test_gate_rules: the deny list, compiled and matched. */
#include "gate/rules.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "gate/rules_impl.h"
#include "tree.h"

static void free_rules(struct gate_rules **rules)
{
    gate_rules_free(*rules);
}

static struct gate_rules_input input_for(const char *const *entries)
{
    return (struct gate_rules_input){.home = "/home/u",
                                     .config_dir = "/c/gatehouse",
                                     .state_dir = "/s/gatehouse",
                                     .entries = entries};
}

static struct gate_rules *make(const char *const *entries)
{
    struct gate_rules_input input = input_for(entries);
    struct gate_rules *rules = NULL;
    struct gh_err err = {0};
    ck_assert_msg(gate_rules_new(&input, &rules, &err) == GH_OK, "%s", err.detail);
    return rules;
}

/* A set without the built-in entries. */
static struct gate_rules *make_bare(const char *const *entries, size_t n)
{
    struct gate_rules *rules = NULL;
    struct gh_err err = {0};
    ck_assert_msg(gate_rules_extend(NULL, "/w", entries, n, &rules, &err) == GH_OK, "%s",
                  err.detail);
    return rules;
}

/* Scenarios 4 to 6, B006, and every component instead of the last. */
START_TEST(entries_match_by_component)
{
    static const char *const entries[] = {".env",   "/home/u/.ssh", "*.pem",
                                          "sec?et", "[ab].x",       "{one,two}.txt"};
    gh_auto(free_rules) struct gate_rules *rules = make_bare(entries, 6);
    static const char *const denied[] = {
        "/a/.env",          "/b/c/.env",     "/b/.env/inside", "/home/u/.ssh",
        "/home/u/.ssh/id",  "/x/server.pem", "/x/d.pem/below", "/secret",
        "/x/sec\303\251et", "/q/a.x",        "/q/two.txt",
    };
    static const char *const free_paths[] = {
        "/a/.env.example",
        "/a/.env-backup",
        "/home/u/.ssh-backup/x",
        "/home/u",
        "/x/pem",
        "/a/.ENV",
        "/",
        "/home/u/.sshx",
        "/q/c.x",
        "/q/three.txt",
        "/x/server.pem2",
    };
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++) {
        ck_assert_msg(gate_rules_denies(rules, denied[i]) != NULL, "%s", denied[i]);
    }
    for (size_t i = 0; i < sizeof free_paths / sizeof *free_paths; i++) {
        ck_assert_msg(gate_rules_denies(rules, free_paths[i]) == NULL, "%s", free_paths[i]);
    }
    ck_assert_str_eq(gate_rules_denies(rules, "/home/u/.ssh/id"), "/home/u/.ssh");
}
END_TEST

START_TEST(built_in_entries_are_there_and_fold_case)
{
    gh_auto(free_rules) struct gate_rules *rules = make(NULL);
    static const char *const denied[] = {
        "/home/u/.ssh/id_rsa",
        "/home/u/.SSH/config",
        "/home/u/.aws/credentials",
        "/home/u/.gnupg",
        "/home/u/.netrc",
        "/home/u/.docker/config.json",
        "/home/u/.kube/config",
        "/home/u/.npmrc",
        "/home/u/.pypirc",
        "/home/u/.config/gcloud/x",
        "/home/u/.azure/x",
        "/home/u/.cargo/credentials.toml",
        "/home/u/.config/gh/hosts.yml",
        "/c/gatehouse/x",
        "/s/gatehouse/audit",
        "/p/.env",
        "/p/.ENV",
        "/p/.env.local",
        "/p/.env.example",
        "/p/id_rsa",
        "/p/ID_ED25519",
        "/p/server.pem",
        "/p/server.KEY",
        "/etc/shadow",
        "/etc/shadow-",
        "/etc/gshadow",
        "/etc/sudoers",
        "/etc/sudoers.d/x",
        "/etc/ssl/private/k",
        "/etc/ssh/ssh_host_rsa_key",
    };
    static const char *const free_paths[] = {
        "/home/u/.docker",
        "/home/u/.cargo/config.toml",
        "/home/u/.config",
        "/p/.envrc",
        "/p/env",
        "/etc/passwd",
        "/p/shadow",
        "/p/etc/shadow.c",
        "/etc/ssh/ssh_host_rsa_key.pub",
        "/etc/ssh/sshd_config",
        "/home/user/.ssh/x",
        "/p/id_rsa.pub",
        "/p/key",
        "/c/gatehouse2",
        "/x/etc/shadow",
        "/abc/shadow",
    };
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++) {
        ck_assert_msg(gate_rules_denies(rules, denied[i]) != NULL, "%s", denied[i]);
    }
    for (size_t i = 0; i < sizeof free_paths / sizeof *free_paths; i++) {
        ck_assert_msg(gate_rules_denies(rules, free_paths[i]) == NULL, "%s", free_paths[i]);
    }
}
END_TEST

struct count {
    const char *entry;
    int n_all;
    int n_entry;
    char source[32];
    char note[128];
    char resolved[256];
};

static void count_one(const struct gate_rule_info *info, void *cookie)
{
    struct count *count = cookie;
    count->n_all++;
    if (strcmp(info->entry, count->entry) == 0) {
        count->n_entry++;
        snprintf(count->source, sizeof count->source, "%s", info->source);
        snprintf(count->note, sizeof count->note, "%s", info->note);
        snprintf(count->resolved, sizeof count->resolved, "%s", info->resolved);
    }
}

static struct count find(const struct gate_rules *rules, const char *entry)
{
    struct count count = {.entry = entry};
    gate_rules_each(rules, count_one, &count);
    return count;
}

struct denials {
    const char *wanted; /* path or name */
    int n;
    struct gate_denial found;
};

static void look_at_denial(const struct gate_denial *denial, void *cookie)
{
    struct denials *all = cookie;
    const char *text = denial->path != NULL ? denial->path : denial->name;
    ck_assert((denial->path == NULL) != (denial->name == NULL));
    if (strcmp(text, all->wanted) == 0) {
        all->n++;
        all->found = *denial;
    }
}

static struct denials denial_of(const struct gate_rules *rules, const char *wanted)
{
    struct denials all = {.wanted = wanted};
    gate_rules_denials(rules, look_at_denial, &all);
    return all;
}

/* A confiner gets what denies, in its own terms, and nothing that never matches. */
START_TEST(denials_are_listed_for_a_confiner)
{
    static const char *const entries[] = {"/own/secret", "*.tok", "[", "**/NAME", NULL};
    gh_auto(free_rules) struct gate_rules *rules = make(entries);
    ck_assert_int_eq(denial_of(rules, "/own/secret").n, 1);
    ck_assert_int_eq(denial_of(rules, "/home/u/.ssh").n, 1);
    ck_assert_int_eq(denial_of(rules, "NAME").n, 1);
    ck_assert_int_eq(denial_of(rules, "[").n, 0);
    struct denials own = denial_of(rules, "*.tok");
    ck_assert_int_eq(own.n, 1);
    ck_assert(!own.found.is_folded && !own.found.is_key_files && own.found.dir == NULL);
    ck_assert(denial_of(rules, ".env").found.is_folded);
    ck_assert(denial_of(rules, "*.pem").found.is_key_files);
    ck_assert_str_eq(denial_of(rules, "shadow*").found.dir, "/etc");
}
END_TEST

/* Scenario 7. */
START_TEST(configured_entries_are_merged_without_duplicates)
{
    static const char *const entries[] = {"/own/secret", ".env", "~/.ssh", "/own/secret", NULL};
    gh_auto(free_rules) struct gate_rules *plain = make(NULL);
    gh_auto(free_rules) struct gate_rules *rules = make(entries);
    ck_assert_int_eq(find(rules, "").n_all, find(plain, "").n_all + 1);
    ck_assert_int_eq(find(rules, "/own/secret").n_entry, 1);
    ck_assert_str_eq(find(rules, "/own/secret").source, "configuration");
    ck_assert_str_eq(find(rules, "/own/secret").note, "matches nothing now");
    ck_assert_int_eq(find(rules, ".env").n_entry, 1);
    ck_assert_str_eq(find(rules, "~/.ssh").source, "built-in");
    ck_assert_str_eq(find(rules, "~/.ssh").resolved, "/home/u/.ssh");
    ck_assert_str_eq(find(rules, "shadow*").resolved, "/etc/shadow*");
    ck_assert_ptr_nonnull(gate_rules_denies(rules, "/own/secret/x"));
    static const char *const more[] = {"sub/dir", "~/other", "*.secret", ".env"};
    gh_auto(free_rules) struct gate_rules *session = NULL;
    ck_assert_int_eq(gate_rules_extend(rules, "/w", more, 4, &session, NULL), GH_OK);
    ck_assert_str_eq(gate_rules_denies(session, "/w/sub/dir/x"), "sub/dir");
    ck_assert_str_eq(gate_rules_denies(session, "/home/u/other"), "~/other");
    ck_assert_str_eq(gate_rules_denies(session, "/p/a.secret"), "*.secret");
    ck_assert_str_eq(gate_rules_denies(session, "/own/secret"), "/own/secret");
    ck_assert_str_eq(find(session, "sub/dir").source, "session");
    ck_assert_ptr_null(gate_rules_denies(rules, "/w/sub/dir"));
    ck_assert(gate_rules_is_global_git(session, "/home/u/.gitconfig"));
}
END_TEST

struct form {
    const char *entry;
    const char *denied; /* NULL: the entry is refused */
};

/* Entries of the configuration. */
static const struct form forms[] = {
    {"**/NAME", "/x/y/NAME/z"},
    {"**/**/NAME", "/NAME"},
    {"**/dir/**", "/q/dir/x"},
    {"**/*.cfg", "/q/a.cfg"},
    {"**/trail/", "/q/trail"},
    {"/a/b/**", "/a/b"},
    {"/a/b/**/**", "/a/b/c"},
    {"~/n/**", "/home/u/n/x"},
    {"/a/../b", "/b/x"},
    {"/a/b/", "/a/b"},
    {"C:\\x", "/q/C:x"},
    {"*", "/anything"},
    {"", NULL},
    {".", NULL},
    {"..", NULL},
    {"../", NULL},
    {"./", NULL},
    {"   ", NULL},
    {"\xe2\x80\x8b", NULL},
    {"./.env", NULL},
    {"secrets/", NULL},
    {"secrets/**", NULL},
    {"a/b", NULL},
    {"../x", NULL},
    {"/a/*/b", NULL},
    {"/a/*.pem", NULL},
    {"/a/{b,c}", NULL},
    {"/a/[b]", NULL},
    {"**/a/b", NULL},
    {"a/**/b", NULL},
    {"{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", NULL},
};

/* B027. */
START_TEST(entry_forms)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const char *const entries[] = {"ok", forms[i].entry, NULL};
        struct gate_rules_input input = input_for(entries);
        gh_auto(free_rules) struct gate_rules *rules = NULL;
        struct gh_err err = {0};
        enum gh_code code = gate_rules_new(&input, &rules, &err);
        if (forms[i].denied == NULL) {
            ck_assert_msg(code == GH_INVALID, "%s was taken", forms[i].entry);
            ck_assert_str_eq(err.pointer, "/1");
            ck_assert_ptr_null(rules);
        } else {
            ck_assert_msg(code == GH_OK, "%s: %s", forms[i].entry, err.detail);
            ck_assert_msg(gate_rules_denies(rules, forms[i].denied) != NULL, "%s", forms[i].entry);
        }
    }
}
END_TEST

/* Scenario 15, and homes that are not there. */
START_TEST(entries_that_cannot_match_are_kept_and_said)
{
    static const char *const entries[] = {"a[", "~bob", "~bob/x", "*.mine", NULL};
    gh_auto(free_rules) struct gate_rules *rules = make(entries);
    ck_assert_str_eq(find(rules, "a[").note, "never matches: bad pattern");
    ck_assert_ptr_null(gate_rules_denies(rules, "/x/a["));
    ck_assert_ptr_nonnull(gate_rules_denies(rules, "/x/y.mine"));
    ck_assert_int_eq(strncmp(find(rules, "~bob").note, "skipped", 7), 0);
    ck_assert_int_eq(strncmp(find(rules, "~bob/x").note, "skipped", 7), 0);
    struct gate_rules_input input = {.config_dir = "/c", .state_dir = "/s"};
    gh_auto(free_rules) struct gate_rules *homeless = NULL;
    ck_assert_int_eq(gate_rules_new(&input, &homeless, NULL), GH_OK);
    ck_assert_int_eq(strncmp(find(homeless, "~/.ssh").note, "skipped", 7), 0);
    ck_assert_ptr_nonnull(gate_rules_denies(homeless, "/p/.env"));
    ck_assert(!gate_rules_is_global_git(homeless, "/home/u/.gitconfig"));
    ck_assert_ptr_null(gate_rules_runs_later(homeless, "/home/u/.bashrc"));
}
END_TEST

/* Scenario 8: an entry counts where it is spelled and where it leads. */
START_TEST(entries_through_links)
{
    tree_begin();
    tree_dir("real/secret");
    tree_link("real", "link");
    tree_link("nowhere/yet", "dangling");
    tree_link("loop", "loop");
    const char *entries[] = {tree_at("link/secret"), tree_at("dangling"), NULL};
    gh_auto(free_rules) struct gate_rules *rules = make(entries);
    ck_assert_ptr_nonnull(gate_rules_denies(rules, tree_at("real/secret/x")));
    ck_assert_ptr_nonnull(gate_rules_denies(rules, tree_at("link/secret/x")));
    ck_assert_ptr_nonnull(gate_rules_denies(rules, tree_at("nowhere/yet")));
    ck_assert_ptr_nonnull(gate_rules_denies(rules, tree_at("dangling")));
    ck_assert_ptr_null(gate_rules_denies(rules, tree_at("real")));
    /* a built-in place that cannot be resolved counts as it is spelled */
    struct gate_rules_input input = {.config_dir = "/c", .state_dir = tree_at("loop/state")};
    gh_auto(free_rules) struct gate_rules *looped = NULL;
    ck_assert_int_eq(gate_rules_new(&input, &looped, NULL), GH_OK);
    ck_assert_ptr_nonnull(gate_rules_denies(looped, tree_at("loop/state/x")));
    tree_end();
}
END_TEST

#define CERT "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

START_TEST(public_key_files_are_exempt)
{
    tree_begin();
    tree_file("ca.pem", "# the root\n\n" CERT CERT);
    tree_file("crl.pem", "-----BEGIN X509 CRL-----\r\nMIIB\r\n-----END X509 CRL-----\r\n");
    tree_file("pub.key", "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----\n");
    tree_file("priv.pem", "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n");
    tree_file("both.pem", CERT "-----BEGIN RSA PRIVATE KEY-----\nM\n-----END RSA PRIVATE KEY-----");
    tree_file("beside.pem", CERT "hunter2\n");
    tree_file("inside.pem", "-----BEGIN CERTIFICATE-----\na b!\n-----END CERTIFICATE-----\n");
    tree_file("open.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n");
    tree_file("mixed.pem", "-----BEGIN CERTIFICATE-----\nM\n-----END PUBLIC KEY-----\n");
    tree_file("empty.pem", "");
    tree_file("comment.pem", "# nothing\n");
    tree_dir("folder.pem");
    tree_file("folder.pem/x", CERT);
    tree_file(".env", CERT);
    tree_file("id_rsa", CERT);
    gh_auto(free_rules) struct gate_rules *rules = make(NULL);
    static const char *const open_names[] = {"ca.pem", "crl.pem", "pub.key"};
    static const char *const shut[] = {"priv.pem",    "both.pem",   "beside.pem",   "inside.pem",
                                       "open.pem",    "mixed.pem",  "empty.pem",    "comment.pem",
                                       "missing.pem", "folder.pem", "folder.pem/x", ".env",
                                       "id_rsa"};
    for (size_t i = 0; i < sizeof open_names / sizeof *open_names; i++) {
        ck_assert_msg(gate_rules_denies(rules, tree_at(open_names[i])) == NULL, "%s",
                      open_names[i]);
    }
    for (size_t i = 0; i < sizeof shut / sizeof *shut; i++) {
        ck_assert_msg(gate_rules_denies(rules, tree_at(shut[i])) != NULL, "%s", shut[i]);
    }
    char *large = malloc(70000);
    ck_assert_ptr_nonnull(large);
    memset(large, '\n', 69999);
    memcpy(large, CERT, sizeof CERT - 1);
    large[69999] = '\0';
    tree_file("large.pem", large);
    free(large);
    ck_assert_ptr_nonnull(gate_rules_denies(rules, tree_at("large.pem")));
    tree_end();
}
END_TEST

START_TEST(package_folders_are_exempt_for_built_in_patterns_only)
{
    static const char *const own[] = {"*.key", NULL};
    gh_auto(free_rules) struct gate_rules *rules = make(NULL);
    gh_auto(free_rules) struct gate_rules *strict = make(own);
    static const char *const exempt[] = {
        "/p/node_modules/x/test.pem", "/p/lib/site-packages/certifi/cacert.pem",
        "/p/dist-packages/a.key",     "/p/vendor/a/b.pem",
        "/p/target/debug/x.key",      "/usr/share/ca/x.pem",
        "/etc/ssl/certs/x.pem",
    };
    for (size_t i = 0; i < sizeof exempt / sizeof *exempt; i++) {
        ck_assert_msg(gate_rules_denies(rules, exempt[i]) == NULL, "%s", exempt[i]);
    }
    static const char *const shut[] = {
        "/p/node_modules/x/.env",
        "/p/node_modules/id_rsa",
        "/p/my_node_modules/x.pem",
        "/p/x.pem/node_modules/y",
        "/usrx/a.pem",
        "/p/vendor.pem",
        "/etc/ssl/private/x.pem",
    };
    for (size_t i = 0; i < sizeof shut / sizeof *shut; i++) {
        ck_assert_msg(gate_rules_denies(rules, shut[i]) != NULL, "%s", shut[i]);
    }
    ck_assert_ptr_nonnull(gate_rules_denies(strict, "/p/node_modules/x/test.key"));
    ck_assert_ptr_null(gate_rules_denies(strict, "/p/node_modules/x/test.pem"));
}
END_TEST

/* Many entries of every kind: the tables find all of them. */
START_TEST(many_entries)
{
    enum { N = 400 };
    static char texts[N][32];
    const char *entries[N];
    static const char *const shapes[] = {"/many/p%d", "name%d", "*.suffix%d", "prefix%d*", "g?o%d"};
    static const char *const hits[] = {"/many/p%d/x", "/q/name%d/x", "/q/a.suffix%d",
                                       "/q/prefix%dx", "/q/gOo%d"};
    for (int i = 0; i < N; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(texts[i], sizeof texts[i], shapes[i % 5], i);
        entries[i] = texts[i];
    }
    gh_auto(free_rules) struct gate_rules *rules = make_bare(entries, N);
    for (int i = 0; i < N; i++) {
        char path[64];
        snprintf(path, sizeof path, hits[i % 5], i);
#pragma GCC diagnostic pop
        const char *entry = gate_rules_denies(rules, path);
        ck_assert_msg(entry != NULL, "%s", path);
        ck_assert_msg(strcmp(entry, texts[i]) == 0 || i % 5 == 3, "%s: %s", path, entry);
    }
    ck_assert_ptr_null(gate_rules_denies(rules, "/many/p1x/namex/a.suffix/g/go1"));
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("rules");
    tcase_add_test(tcase, entries_match_by_component);
    tcase_add_test(tcase, built_in_entries_are_there_and_fold_case);
    tcase_add_test(tcase, denials_are_listed_for_a_confiner);
    tcase_add_test(tcase, configured_entries_are_merged_without_duplicates);
    tcase_add_test(tcase, entry_forms);
    tcase_add_test(tcase, entries_that_cannot_match_are_kept_and_said);
    tcase_add_test(tcase, entries_through_links);
    tcase_add_test(tcase, public_key_files_are_exempt);
    tcase_add_test(tcase, package_folders_are_exempt_for_built_in_patterns_only);
    tcase_add_test(tcase, many_entries);
    Suite *suite = suite_create("gate_rules");
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
