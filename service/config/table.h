/* table: every key of the configuration, once: name, type, default, bounds, check.
 *
 * The schema for libcyaml, reading, freeing and showing all walk these rows.
 */
#ifndef GH_CONFIG_TABLE_H
#define GH_CONFIG_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum table_type {
    TABLE_BOOL = 0,
    TABLE_OPTIN,   /* true, false or contained */
    TABLE_WORD,    /* one of `words` */
    TABLE_INT,     /* within [min, max] */
    TABLE_TEXT,    /* at most `max` bytes */
    TABLE_LIST,    /* texts; at most `max` of them */
    TABLE_INTS,    /* numbers within [min, max] */
    TABLE_SECTION, /* keys of `set`, in the same structure */
    TABLE_ROWS,    /* a list of `set` */
    TABLE_NAMED    /* a mapping from names to `set`; the name is the row's first member */
};

struct table_set;

struct table_key {
    const char *name;
    enum table_type type;
    size_t offset;             /* of the value in the structure */
    size_t count_offset;       /* of the number of values: TABLE_INTS, ROWS, NAMED */
    int64_t fallback;          /* default of bools, opt-ins, numbers */
    const char *fallback_text; /* default of words and texts; NULL: none */
    int64_t min;
    int64_t max;
    const char *const *words; /* TABLE_WORD, NULL-ended */
    const struct table_set *set;
    const char *(*wrong)(const char *text); /* what is wrong with a text or list entry, or NULL */
    bool needed;                            /* must be there */
    bool secret;                            /* shown as "redacted" */
    bool is_path;                           /* a leading ~/ is the home folder */
};

struct table_set {
    const struct table_key *keys;
    size_t n;
    size_t row_bytes; /* of one row; 0 for sections */
};

/* The whole configuration. */
extern const struct table_set table_top;

#define TABLE_MAX_ROWS 64   /* commands, agents, notify targets */
#define TABLE_MAX_PORTS 256 /* sandbox.tcp_ports */

#endif
