/* id: unguessable identifiers that sort by creation time, SHA-256, and constant-time compare.
 *
 * An id is PREFIX_ and 32 base-32 digits: 48 bits of wall time in milliseconds, a 16-bit counter
 * within the process, 96 random bits. libsodium ends here. Threads: any.
 */
#ifndef GH_BASE_ID_H
#define GH_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GH_ID 40     /* bytes for an id with the NUL: "xxx_" + 32 */
#define GH_SHA256 32 /* bytes of a digest */
#define GH_HEX 65    /* bytes for a digest in hex, with the NUL */

/* Must succeed once before anything else here. Returns false when there is no random source. */
bool gh_id_init(void);

/* Write a fresh id with the three-letter prefix, for example "dec". */
void gh_id_new(const char prefix[4], char out[GH_ID]);

/* True when `text` has the form of an id with that prefix. */
bool gh_id_valid(const char *text, const char prefix[4]);

/* Fill with random bytes from the kernel. */
void gh_id_random(void *out, size_t len);

/* SHA-256 in one go. */
void gh_id_sha256(const void *data, size_t len, unsigned char out[GH_SHA256]);

/* SHA-256 of two pieces, one behind the other. */
void gh_id_sha256_2(const void *a, size_t a_len, const void *b, size_t b_len,
                    unsigned char out[GH_SHA256]);

/* SHA-256 of an open file from offset 0, at most `max` bytes. Returns false on a read error or when
 * the file is longer. */
bool gh_id_sha256_fd(int fd, size_t max, unsigned char out[GH_SHA256]);

/* Lower-case hex. */
void gh_id_hex(const unsigned char digest[GH_SHA256], char out[GH_HEX]);

/* The digest that `hex` (may be NULL) writes; false when it is none. */
bool gh_id_unhex(const char *hex, unsigned char out[GH_SHA256]);

/* Compare in constant time. */
bool gh_id_equal(const void *a, const void *b, size_t len);

#endif
