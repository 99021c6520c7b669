/* rules_match: one pass over a path decides whether the deny list covers it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
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

enum { MAX_BELOW = 200000, MAX_BELOW_DEPTH = 128 };

/* A walk below a folder. `path` is where it stands; `other`, when set, is the same place below a
 * second root, where the folder is about to be moved to. */
struct below {
    const struct gate_rules *rules;
    struct gh_buf path;
    struct gh_buf other;
    bool has_other;
    int n_seen;
    int max_seen;
    int depth;
    bool is_cut;
    char *found; /* owned */
};

static bool check_here(struct below *b)
{
    const char *hit = NULL;
    if (b->path.failed || b->other.failed) {
        b->is_cut = true;
    } else if (gate_rules_denies(b->rules, gh_buf_str(&b->path)) != NULL) {
        hit = gh_buf_str(&b->path);
    } else if (b->has_other && gate_rules_denies(b->rules, gh_buf_str(&b->other)) != NULL) {
        hit = gh_buf_str(&b->other);
    }
    if (hit != NULL) {
        b->found = strdup(hit);
        b->is_cut = b->is_cut || b->found == NULL;
    }
    return b->found == NULL && !b->is_cut;
}

static void put_name(struct gh_buf *buf, const char *name)
{
    gh_buf_putc(buf, '/');
    gh_buf_puts(buf, name);
}

static void cut_back(struct gh_buf *buf, size_t len)
{
    if (buf->data != NULL && !buf->failed) {
        buf->len = len;
        buf->data[len] = '\0';
    }
}

static void close_dir(DIR **dir)
{
    if (*dir != NULL) {
        closedir(*dir);
    }
}

static void walk_below(struct below *b, int fd);

static void visit(struct below *b, int dir_fd, const struct dirent *entry)
{
    size_t len = b->path.len;
    size_t other_len = b->other.len;
    put_name(&b->path, entry->d_name);
    put_name(&b->other, entry->d_name);
    b->is_cut = b->is_cut || ++b->n_seen > b->max_seen;
    if (check_here(b) && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)) {
        int fd = openat(dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        /* what cannot be looked into cannot be cleared */
        if (fd >= 0) {
            walk_below(b, fd);
        } else if (errno != ENOTDIR && errno != ELOOP && errno != ENOENT) {
            b->is_cut = true;
        }
    }
    cut_back(&b->path, len);
    cut_back(&b->other, other_len);
}

/* Takes the descriptor. Recursion is bounded by MAX_BELOW_DEPTH. */
static void walk_below(struct below *b, int fd)
{
    gh_auto(close_dir) DIR *dir = fdopendir(fd);
    if (dir == NULL || b->depth >= MAX_BELOW_DEPTH) {
        b->is_cut = true;
        if (dir == NULL) {
            close(fd);
        }
        return;
    }
    b->depth++;
    while (b->found == NULL && !b->is_cut) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            b->is_cut = errno != 0;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            visit(b, dirfd(dir), entry);
        }
    }
    b->depth--;
}

char *rule_find_below(const struct gate_rules *rules, const char *dir, const char *to, int max,
                      bool *ret_cut)
{
    *ret_cut = false;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        *ret_cut = errno != ENOTDIR && errno != ELOOP && errno != ENOENT;
        return NULL;
    }
    struct below b = {.rules = rules, .has_other = to != NULL, .max_seen = max};
    gh_buf_puts(&b.path, strcmp(dir, "/") != 0 ? dir : "");
    gh_buf_puts(&b.other, to != NULL && strcmp(to, "/") != 0 ? to : "");
    walk_below(&b, fd);
    gh_buf_fini(&b.path);
    gh_buf_fini(&b.other);
    *ret_cut = b.is_cut;
    return b.found;
}

void gate_rules_denies_moved(const struct gate_rules *rules, const char *dir, const char *to,
                             char **ret, bool *ret_cut)
{
    *ret = rule_find_below(rules, dir, to, MAX_BELOW, ret_cut);
}

void gate_rules_denies_below(const struct gate_rules *rules, const char *dir, char **ret,
                             bool *ret_cut)
{
    *ret = rule_find_below(rules, dir, NULL, MAX_BELOW, ret_cut);
}
