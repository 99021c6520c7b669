#include "base/id.h"

#include <sodium.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";

bool gh_id_init(void)
{
    return sodium_init() >= 0;
}

void gh_id_new(const char prefix[4], char out[GH_ID])
{
    static atomic_ullong last; /* the only state: newest (ms << 16 | counter) given out */
    unsigned long long floor = (unsigned long long)gh_clock_wall_ms() << 16;
    unsigned long long seen = atomic_load(&last);
    unsigned long long stamp = 0;
    do {
        stamp = seen + 1 > floor ? seen + 1 : floor;
    } while (!atomic_compare_exchange_weak(&last, &seen, stamp));

    unsigned char raw[20];
    for (int i = 0; i < 8; i++) {
        raw[i] = (unsigned char)(stamp >> (56 - 8 * i));
    }
    randombytes_buf(raw + 8, sizeof raw - 8);

    memcpy(out, prefix, 3);
    out[3] = '_';
    for (size_t i = 0; i < 32; i++) {
        size_t bit = i * 5;
        unsigned pair =
            (unsigned)raw[bit / 8] << 8 | (bit / 8 + 1 < sizeof raw ? raw[bit / 8 + 1] : 0);
        out[4 + i] = digits[pair >> (11 - bit % 8) & 31];
    }
    out[36] = '\0';
}

bool gh_id_valid(const char *text, const char prefix[4])
{
    return strlen(text) == 36 && strncmp(text, prefix, 3) == 0 && text[3] == '_' &&
           strspn(text + 4, digits) == 32;
}

void gh_id_random(void *out, size_t len)
{
    randombytes_buf(out, len);
}

void gh_id_sha256(const void *data, size_t len, unsigned char out[GH_SHA256])
{
    crypto_hash_sha256(out, data, len);
}

void gh_id_sha256_2(const void *a, size_t a_len, const void *b, size_t b_len,
                    unsigned char out[GH_SHA256])
{
    crypto_hash_sha256_state state;
    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, a, a_len);
    crypto_hash_sha256_update(&state, b, b_len);
    crypto_hash_sha256_final(&state, out);
}

bool gh_id_sha256_fd(int fd, size_t max, unsigned char out[GH_SHA256])
{
    crypto_hash_sha256_state state;
    crypto_hash_sha256_init(&state);
    char chunk[16384];
    size_t total = 0;
    for (;;) {
        ssize_t n = pread(fd, chunk, sizeof chunk, (off_t)total);
        if (n < 0) {
            return false;
        }
        if (n == 0) {
            break;
        }
        total += (size_t)n;
        if (total > max) {
            return false;
        }
        crypto_hash_sha256_update(&state, (unsigned char *)chunk, (unsigned long long)n);
    }
    crypto_hash_sha256_final(&state, out);
    return true;
}

void gh_id_hex(const unsigned char digest[GH_SHA256], char out[GH_HEX])
{
    sodium_bin2hex(out, GH_HEX, digest, GH_SHA256);
}

bool gh_id_unhex(const char *hex, unsigned char out[GH_SHA256])
{
    size_t n = 0;
    return hex != NULL && strlen(hex) == GH_HEX - 1 &&
           sodium_hex2bin(out, GH_SHA256, hex, GH_HEX - 1, NULL, &n, NULL) == 0 && n == GH_SHA256;
}

bool gh_id_equal(const void *a, const void *b, size_t len)
{
    return sodium_memcmp(a, b, len) == 0;
}
