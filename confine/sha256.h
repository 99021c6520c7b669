/* sha256: the digest of a plan file, so that this program needs no library for it. */
#ifndef GH_CONFINE_SHA256_H
#define GH_CONFINE_SHA256_H

#include <stddef.h>

/* The digest of n bytes as 64 lower-case hexadecimal digits and a NUL. */
void sha256_hex(const void *bytes, size_t n, char ret[65]);

#endif
