/* rules_match: one pass over a path decides whether the deny list covers it. */
#include <string.h>
#include <strings.h>

#include "gate/glob.h"
#include "gate/path.h"
#include "gate/rules_impl.h"

/* One component of the path that is matched. */
struct name {
    const char *path;
    size_t start; /* of the component */
    size_t len;
    uint32_t hash;
};

static const char *const package_folders[] = {"node_modules", "site-packages", "dist-packages",
                                              "vendor", "target"};

uint32_t rule_hash_path(const char *path)
{
    uint32_t hash = RULE_HASH_START;
    while (*path == '/' && path[1] != '\0') {
        uint32_t name = RULE_HASH_START;
        for (path++; *path != '\0' && *path != '/'; path++) {
            name = rule_hash_byte(name, (unsigned char)*path);
        }
        hash = rule_hash_join(hash, name);
    }
    return hash;
}

static bool is_same(const char *a, const char *b, size_t len, bool is_folded)
{
    if (!is_folded) {
        return memcmp(a, b, len) == 0;
    }
    for (size_t i = 0; i < len; i++) {
        if (rule_fold((unsigned char)a[i]) != rule_fold((unsigned char)b[i])) {
            return false;
        }
    }
    return true;
}

/* Below a package folder or a system folder: keys there come with packages. */
static bool is_packaged(const char *path, size_t len)
{
    if (strncmp(path, "/usr/", 5) == 0 || strncmp(path, "/etc/ssl/certs/", 15) == 0) {
        return true;
    }
    for (size_t at = 0; at < len;) {
        at++;
        size_t n = strcspn(path + at, "/");
        for (size_t i = 0; at + n < len && i < sizeof package_folders / sizeof *package_folders;
             i++) {
            if (strlen(package_folders[i]) == n && memcmp(path + at, package_folders[i], n) == 0) {
                return true;
            }
        }
        at += n;
    }
    return false;
}

static bool is_exempt(const struct rule_entry *entry, const struct name *name)
{
    if ((entry->flags & RULE_KEY_FILES) == 0) {
        return false;
    }
    bool is_last = name->path[name->start + name->len] == '\0';
    return is_packaged(name->path, name->start) || (is_last && rule_pem_is_public(name->path));
}

static bool matches(const struct rule_pattern *pattern, const struct name *name, bool is_folded)
{
    const char *text = name->path + name->start;
    size_t suffix_len = pattern->len - pattern->prefix_len;
    switch (pattern->kind) {
    case PATTERN_LITERAL:
        return name->len == pattern->len && is_same(text, pattern->text, name->len, is_folded);
    case PATTERN_AFFIX:
        return name->len >= pattern->len &&
               is_same(text, pattern->text, pattern->prefix_len, is_folded) &&
               is_same(text + name->len - suffix_len, pattern->text + pattern->prefix_len,
                       suffix_len, is_folded);
    case PATTERN_GLOB:
        return gate_glob_match(pattern->text, text, name->len, is_folded);
    }
    return true; /* not reached; closed if it were */
}

/* The entry of pattern `i` when it denies the name. */
static const struct rule_entry *try_pattern(const struct gate_rules *rules, int i,
                                            const struct name *name)
{
    const struct rule_pattern *pattern = &rules->patterns[i];
    const struct rule_entry *entry = &rules->entries[pattern->entry];
    if (!matches(pattern, name, (entry->flags & RULE_FOLDED) != 0)) {
        return NULL;
    }
    if (entry->dir != NULL && (strlen(entry->dir) != name->start - 1 ||
                               memcmp(entry->dir, name->path, name->start - 1) != 0)) {
        return NULL;
    }
    return is_exempt(entry, name) ? NULL : entry;
}

static const struct rule_entry *try_bucket(const struct gate_rules *rules, int head,
                                           const struct name *name)
{
    for (int i = head; i >= 0; i = rules->patterns[i].next) {
        const struct rule_entry *entry = try_pattern(rules, i, name);
        if (entry != NULL) {
            return entry;
        }
    }
    return NULL;
}

static const struct rule_entry *try_literals(const struct gate_rules *rules,
                                             const struct name *name)
{
    size_t mask = rules->literal_table.n_slots - 1;
    for (size_t at = name->hash & mask; rules->literal_table.n_slots > 0; at = (at + 1) & mask) {
        int i = rules->literal_table.slots[at];
        if (i < 0) {
            break;
        }
        if (rules->patterns[i].hash == name->hash) {
            const struct rule_entry *entry = try_pattern(rules, i, name);
            if (entry != NULL) {
                return entry;
            }
        }
    }
    return NULL;
}

static const struct rule_entry *try_name(const struct gate_rules *rules, const struct name *name)
{
    const char *text = name->path + name->start;
    const struct rule_entry *entry = try_literals(rules, name);
    if (entry == NULL) {
        unsigned char last = rule_fold((unsigned char)text[name->len - 1]);
        entry = try_bucket(rules, rules->by_last[last], name);
    }
    if (entry == NULL) {
        entry = try_bucket(rules, rules->by_first[rule_fold((unsigned char)text[0])], name);
    }
    return entry != NULL ? entry : try_bucket(rules, rules->any, name);
}

/* The entry whose path is the first `len` bytes of `path`. */
static const struct rule_entry *try_exact(const struct gate_rules *rules, const char *path,
                                          size_t len, uint32_t hash)
{
    size_t mask = rules->exact_table.n_slots - 1;
    for (size_t at = hash & mask; rules->exact_table.n_slots > 0; at = (at + 1) & mask) {
        int i = rules->exact_table.slots[at];
        if (i < 0) {
            break;
        }
        const struct rule_exact *exact = &rules->exacts[i];
        const struct rule_entry *entry = &rules->entries[exact->entry];
        if (exact->hash == hash && exact->len == len &&
            is_same(exact->path, path, len, (entry->flags & RULE_FOLDED) != 0)) {
            return entry;
        }
    }
    return NULL;
}

static const struct rule_entry *find_entry(const struct gate_rules *rules, const char *path)
{
    uint32_t hash = RULE_HASH_START;
    const struct rule_entry *entry = try_exact(rules, "/", 1, hash);
    for (size_t at = 0; entry == NULL && path[at] == '/' && path[at + 1] != '\0';) {
        struct name name = {path, at + 1, 0, RULE_HASH_START};
        for (at++; path[at] != '\0' && path[at] != '/'; at++) {
            name.hash = rule_hash_byte(name.hash, (unsigned char)path[at]);
        }
        name.len = at - name.start;
        hash = rule_hash_join(hash, name.hash);
        entry = try_exact(rules, path, at, hash);
        if (entry == NULL && name.len > 0) {
            entry = try_name(rules, &name);
        }
    }
    return entry;
}

const char *gate_rules_denies(const struct gate_rules *rules, const char *path)
{
    const struct rule_entry *entry = find_entry(rules, path);
    return entry != NULL ? entry->text : NULL;
}
