/* gitname: is a name one that some file system takes for ".git"? */
#include <stdint.h>
#include <string.h>

#include "gate/gitmeta.h"

struct range {
    uint32_t first;
    uint32_t last;
};

/* Characters that case-folding and normalising file systems ignore in names (HFS+, ext4 with
 * casefold): Unicode's Default_Ignorable_Code_Point. */
static const struct range ignorable[] = {
    {0xad, 0xad},       {0x34f, 0x34f},     {0x61c, 0x61c},   {0x115f, 0x1160}, {0x17b4, 0x17b5},
    {0x180b, 0x180f},   {0x200b, 0x200f},   {0x202a, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164},
    {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0}, {0xfff0, 0xfff8}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

/* The code point at `at` and its length; anything that is not UTF-8 is one byte, itself. */
static uint32_t decode(const unsigned char *at, size_t left, size_t *ret_len)
{
    size_t n = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : at[0] >= 0xc2 ? 2 : 1;
    uint32_t c = n == 1 ? at[0] : at[0] & (0xffU >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if (i >= left || (at[i] & 0xc0) != 0x80) {
            *ret_len = 1;
            return at[0];
        }
        c = c << 6 | (at[i] & 0x3f);
    }
    *ret_len = n;
    return c;
}

static bool is_ignorable(uint32_t c)
{
    for (size_t i = 0; i < sizeof ignorable / sizeof *ignorable; i++) {
        if (c >= ignorable[i].first && c <= ignorable[i].last) {
            return true;
        }
    }
    return false;
}

enum { LONGEST_SPELLING = 6 }; /* "git~1", and one more to tell that there is more */

/* The name as such a file system would see it: folded, ignorables and what follows ":" or "\"
 * removed, then trailing dots and blanks. Returns the length; cut, since only short names count. */
static size_t reduce(const char *name, size_t len, char out[LONGEST_SPELLING])
{
    size_t n = 0;
    size_t n_solid = 0; /* without trailing dots and blanks */
    size_t step = 1;
    for (size_t at = 0; at < len && n_solid < LONGEST_SPELLING; at += step) {
        uint32_t c = decode((const unsigned char *)name + at, len - at, &step);
        if (c == ':' || c == '\\') {
            break;
        }
        if (c >= 0x80 && is_ignorable(c)) {
            continue;
        }
        bool is_solid = c != ' ' && c != '.' && c != '\t';
        if (n < LONGEST_SPELLING) {
            char plain = c < 0x80 ? (char)c : '?';
            out[n] = c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : plain;
        }
        n++;
        n_solid = is_solid ? n : n_solid;
    }
    return n_solid;
}

static bool is_git(const char *name, size_t len)
{
    char plain[LONGEST_SPELLING];
    size_t n = reduce(name, len, plain);
    if (n == 4) {
        return memcmp(plain, ".git", 4) == 0;
    }
    /* the short names of ".git" where those are made */
    return n == 5 && memcmp(plain, "git~", 4) == 0 && plain[4] >= '1' && plain[4] <= '9';
}

bool gitmeta_is_git_name(const char *path)
{
    while (*path != '\0') {
        path += strspn(path, "/");
        size_t len = strcspn(path, "/");
        unsigned char first = (unsigned char)*path;
        bool may_be = first == '.' || first == 'g' || first == 'G' || first >= 0x80;
        if (may_be && is_git(path, len)) {
            return true;
        }
        path += len;
    }
    return false;
}
