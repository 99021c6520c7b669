/* scan: denied names and hard-link aliases in the scanned trees (behaviour 5.5, 5.6).
 *
 * A folder is read again unless device, inode, mtime and ctime are what they were when it was read,
 * and it was two seconds old by then (coarse clocks). Links are never followed.
 */
#ifndef GH_CONFINE_SCAN_H
#define GH_CONFINE_SCAN_H

#include "names.h"
#include "trees.h"

struct scan_cache;

/* What earlier walks saw, for one engine. */
struct scan_cache *scan_cache_new(void);

/* NULL is fine. */
void scan_cache_free(struct scan_cache *cache);

/* Deny each entry of the scanned trees whose name matches. Threads: any, one after the other.
 * False: out of descriptors, so entries may have been missed. */
bool scan_names(struct scan_cache *cache, struct trees *trees, const struct names *names);

/* Deny each other name of a denied regular file in the scanned and writable trees. False as above.
 */
bool scan_aliases(struct trees *trees);

/* Does the file hold PEM blocks and no private key? */
bool scan_is_public_pem(const char *path);

#endif
