/* rules_impl: what a compiled set is made of. Only for the rules_*.c files. */
#ifndef GH_GATE_RULES_IMPL_H
#define GH_GATE_RULES_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gate/rules.h"

enum rule_source { RULE_BUILT_IN = 0, RULE_CONFIGURATION, RULE_SESSION };

enum {
    RULE_FOLDED = 1,    /* ASCII letters match in either case */
    RULE_KEY_FILES = 2, /* public content and package folders are exempt */
    RULE_BAD = 4,       /* not a pattern: never matches */
    RULE_SKIPPED = 8,   /* "~name", or "~" without a home: never matches */
};

struct rule_entry {
    char *text; /* as written; owned */
    enum rule_source source;
    unsigned flags;
    char *resolved;  /* absolute form or name pattern; owned */
    const char *dir; /* static: the pattern counts in exactly this folder; NULL: anywhere */
};

/* One absolute path of an entry (an entry has up to four spellings). */
struct rule_exact {
    char *path; /* owned */
    size_t len;
    uint32_t hash;
    int entry;
};

enum pattern_kind { PATTERN_LITERAL = 0, PATTERN_AFFIX, PATTERN_GLOB };

/* One name pattern, braces expanded. */
struct rule_pattern {
    char *text; /* LITERAL, AFFIX: escapes removed, the star taken out; owned */
    size_t len;
    size_t prefix_len; /* AFFIX: what stands before the star; the rest stands behind it */
    uint32_t hash;     /* LITERAL */
    enum pattern_kind kind;
    int entry;
    int next; /* in its bucket, or -1 */
};

/* Open addressing from a hash to an index; -1 is free. */
struct rule_table {
    int *slots;
    size_t n_slots; /* a power of two, or 0 */
};

/* A place that is guarded by its own name at or below it. */
struct rule_place {
    char *path; /* owned */
    size_t len;
    const char *reason; /* static, or NULL */
};

struct rule_places {
    struct rule_place *at;
    size_t n;
};

struct gate_rules {
    struct rule_entry *entries;
    size_t n_entries;
    struct rule_exact *exacts;
    size_t n_exacts;
    struct rule_pattern *patterns;
    size_t n_patterns;
    struct rule_table exact_table;
    struct rule_table literal_table;
    int by_last[256];         /* AFFIX with a suffix, by its last byte, folded */
    int by_first[256];        /* AFFIX with a prefix only, by its first byte, folded */
    int any;                  /* the other patterns */
    char *home;               /* for "~" in session entries; owned, or NULL */
    struct rule_places git;   /* the global git configuration */
    struct rule_places later; /* files that run code later */
    struct rule_places agent; /* agents' own folders in the home */
};

/* ASCII only: other letters have no case here. */
static inline unsigned char rule_fold(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c + ('a' - 'A')) : c;
}

#define RULE_HASH_START 2166136261U

/* Hashes fold case always, so that one pass serves entries of both kinds. */
static inline uint32_t rule_hash_byte(uint32_t hash, unsigned char c)
{
    return (hash ^ rule_fold(c)) * 16777619U;
}

/* The hash of a path from the hash of its parent and of its last component. */
static inline uint32_t rule_hash_join(uint32_t parent, uint32_t name)
{
    return (parent ^ name) * 2654435761U + 1;
}

/* The hash of a normalised absolute path. */
uint32_t rule_hash_path(const char *path);

/* True when a file holds PEM blocks of public kinds only. */
bool rule_pem_is_public(const char *path);

/* Fill git, later and agent from `input` (rules_names.c). */
GH_MUST_USE enum gh_code rule_places_fill(struct gate_rules *rules,
                                          const struct gate_rules_input *input, struct gh_err *err);
/* Copy them from another set. */
GH_MUST_USE enum gh_code rule_places_copy(struct gate_rules *rules, const struct gate_rules *from,
                                          struct gh_err *err);
void rule_places_free(struct gate_rules *rules);

#endif
