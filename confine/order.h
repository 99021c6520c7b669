/* order: what the program is told to do, on its command line or in a plan file.
 *
 * A plan file is lines "KEY VALUE"; in a value, \\ \n and \xHH stand for bytes:
 *
 *   gatehouse-plan 1
 *   expires 1767225600              seconds since 1970, at most 15 minutes ahead
 *   cwd PATH | write PATH | read PATH | deny PATH-OR-NAME | deny-built-in NAME
 *   cache PATH | tmp PATH | env K=V | network WORD | namespaces WORD | unix-sockets WORD
 *   leave-group WORD | share-tmp yes | protect-git no | allow-ptrace yes | require no
 *   arg TEXT                        one a word
 *   digest HEX                      last: SHA-256 of all bytes before this line
 */
#ifndef GH_CONFINE_ORDER_H
#define GH_CONFINE_ORDER_H

#include "util.h"

struct order {
    struct confine_spec spec; /* its lists point into what follows after order_seal */
    struct util_strs argv, write, read, deny, env;
    struct util_strs names;
    struct confine_name *compiled;
    size_t n_built_in; /* of `names`, the first ones */
    uint16_t ports[64];
    char *cwd, *cache, *tmp; /* tmp: an existing private folder, left as it is */
    bool explain, own_session;
};

/* The denied names and paths of the product's default list. */
void order_init(struct order *order);
void order_fini(struct order *order);

/* One setting; false when key or value is unknown. */
bool order_set(struct order *order, const char *key, const char *value);

/* "--KEY VALUE", "--explain", then "--" and the command, NULL-terminated. False: not understood. */
bool order_parse(struct order *order, char *const *words);

/* Point the spec at the lists. */
void order_seal(struct order *order);

/* Read and check a plan file at `now_s`. Fails with E_SPEC; nothing of it may be used then. */
enum confine_code order_read(struct order *order, const char *path, int64_t now_s,
                             struct confine_err *err);

#endif
