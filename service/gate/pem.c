/* A certificate is public. Denying it breaks TLS and teaches nobody anything. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "gate/rules_impl.h"

enum { MAX_PEM_BYTES = 64 << 10 };

static const char *const public_labels[] = {"CERTIFICATE", "X509 CRL", "PUBLIC KEY"};

/* The whole file, NUL-terminated, or NULL when it is missing, special, too large or binary. */
static char *read_text(const char *path)
{
    struct stat st;
    /* looked at first: opening a device or a pipe can have effects */
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > MAX_PEM_BYTES) {
        return NULL;
    }
    gh_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    gh_autofree char *text = malloc(MAX_PEM_BYTES + 2);
    if (fd < 0 || text == NULL) {
        return NULL;
    }
    size_t len = 0;
    ssize_t n = 1;
    while (n > 0 && len <= MAX_PEM_BYTES) {
        n = read(fd, text + len, MAX_PEM_BYTES + 1 - len);
        len += n > 0 ? (size_t)n : 0;
    }
    text[len] = '\0';
    return n == 0 && strlen(text) == len ? gh_steal(&text) : NULL;
}

/* True when the line is "-----<word> <public label>-----"; `label` gets which. */
static bool is_boundary(const char *line, size_t len, const char *word, const char **label)
{
    for (size_t i = 0; i < sizeof public_labels / sizeof *public_labels; i++) {
        size_t word_len = strlen(word);
        size_t label_len = strlen(public_labels[i]);
        if (len == word_len + label_len + 5 && memcmp(line, word, word_len) == 0 &&
            memcmp(line + word_len, public_labels[i], label_len) == 0 &&
            memcmp(line + len - 5, "-----", 5) == 0) {
            *label = public_labels[i];
            return true;
        }
    }
    return false;
}

static bool is_base64(const char *line, size_t len)
{
    return strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") >= len;
}

/* Strict on purpose: text beside the blocks could be anything, so only blanks and comments pass. */
static bool is_public(const char *text)
{
    const char *open = NULL; /* label of the block we are in */
    int n_blocks = 0;
    while (*text != '\0') {
        size_t full = strcspn(text, "\n");
        size_t len = full;
        while (len > 0 && strchr(" \t\r", text[len - 1]) != NULL) {
            len--;
        }
        const char *label = NULL;
        if (open == NULL && is_boundary(text, len, "-----BEGIN ", &label)) {
            open = label;
        } else if (open != NULL && is_boundary(text, len, "-----END ", &label) && label == open) {
            open = NULL;
            n_blocks++;
        } else if (open != NULL ? !is_base64(text, len) : len > 0 && text[0] != '#') {
            return false;
        }
        text += full;
        text += *text == '\n' ? 1 : 0;
    }
    return open == NULL && n_blocks > 0;
}

bool rule_pem_is_public(const char *path)
{
    gh_autofree char *text = read_text(path);
    return text != NULL && is_public(text);
}
