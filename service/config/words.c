#include "config/words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define GLOB "*?[\\"
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define LETTERS LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static bool has_control(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            return true;
        }
    }
    return false;
}

/* True when one component of the path is "..". */
static bool has_dotdot(const char *text)
{
    for (const char *at = text; at != NULL; at = strchr(at, '/')) {
        at += *at == '/' ? 1 : 0;
        if (at[0] == '.' && at[1] == '.' && (at[2] == '\0' || at[2] == '/')) {
            return true;
        }
    }
    return false;
}

static bool is_anchored(const char *text)
{
    return text[0] == '/' || strcmp(text, "~") == 0 || strncmp(text, "~/", 2) == 0;
}

/* An entry with a slash: a place, DIR followed by two stars, or two stars followed by NAME. */
static const char *wrong_place(const char *text)
{
    size_t len = strlen(text);
    if (strncmp(text, "**/", 3) == 0) {
        bool is_name = text[3] != '\0' && strchr(text + 3, '/') == NULL;
        return is_name && strcmp(text + 3, "**") != 0 ? NULL
                                                      : "After **/ comes one name without a slash.";
    }
    if (!is_anchored(text)) {
        return "A relative path is not allowed; start it with / or ~/, or give a bare name.";
    }
    size_t plain = strcspn(text, GLOB);
    bool is_tree = len > 3 && strcmp(text + len - 3, "/**") == 0 && plain == len - 2;
    if (plain != len && !is_tree) {
        return "A path may not hold glob characters, except as **/NAME or DIR/**.";
    }
    return NULL;
}

const char *words_deny(const char *text)
{
    if (text[0] == '\0') {
        return "An empty entry denies nothing.";
    }
    if (strcmp(text, ".") == 0 || has_dotdot(text)) {
        return "An entry may not be \".\" or hold \"..\".";
    }
    if (strchr(text, '/') == NULL && strcmp(text, "~") != 0) {
        return text[0] == '~' ? "Only ~ and ~/ stand for a home folder." : NULL;
    }
    return wrong_place(text);
}

const char *words_path(const char *text)
{
    if (!is_anchored(text)) {
        return "A path must start with / or ~/.";
    }
    return has_dotdot(text) || has_control(text) ? "A path may not hold \"..\" or control bytes."
                                                 : NULL;
}

const char *words_socket(const char *text)
{
    return text[0] == '\0' ? NULL : words_path(text);
}

const char *words_ignore(const char *text)
{
    return text[0] == '\0' || has_control(text)
               ? "A pattern may not be empty or hold control bytes."
               : NULL;
}

/* A name or an IPv4 address in lower case: labels of letters, digits and '-'. */
static bool is_host_name(const char *text, size_t len)
{
    if (len == 0 || len > 253 || strspn(text, LOWER DIGITS "-.") < len) {
        return false;
    }
    size_t label = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '.' && label == 0) {
            return false;
        }
        label = text[i] == '.' ? 0 : label + 1;
    }
    return label > 0;
}

/* "[::1]". */
static bool is_host_v6(const char *text, size_t len)
{
    return len > 4 && len < 48 && text[0] == '[' && text[len - 1] == ']' &&
           strspn(text + 1, "0123456789abcdef:.") == len - 2;
}

const char *words_host(const char *text)
{
    size_t len = strlen(text);
    return is_host_name(text, len) || is_host_v6(text, len)
               ? NULL
               : "A host is a name or [address] in lower case, without a port; no wildcards.";
}

/* ":8080" or nothing. */
static bool is_port_part(const char *text)
{
    size_t digits = text[0] == ':' ? strspn(text + 1, DIGITS) : 0;
    return text[0] == '\0' || (digits > 0 && digits <= 5 && text[digits + 1] == '\0' &&
                               text[1] != '0' && strtol(text + 1, NULL, 10) <= 65535);
}

const char *words_origin(const char *text)
{
    static const char wrong[] =
        "An origin is exactly scheme://host[:port] in lower case; never * or null.";
    size_t scheme = strspn(text, LOWER DIGITS "+.-");
    if (scheme == 0 || strchr(LOWER, text[0]) == NULL || strncmp(text + scheme, "://", 3) != 0) {
        return wrong;
    }
    const char *host = text + scheme + 3;
    size_t len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (len > strlen(host) || (!is_host_name(host, len) && !is_host_v6(host, len))) {
        return wrong;
    }
    return is_port_part(host + len) ? NULL : wrong;
}

const char *words_url(const char *text)
{
    size_t skip = strncmp(text, "https://", 8) == 0 ? 8 : 7;
    bool is_http = skip == 8 || strncmp(text, "http://", 7) == 0;
    if (!is_http || text[skip] == '\0' || strchr("/?#:", text[skip]) != NULL) {
        return "A URL must start with http:// or https:// and name a host.";
    }
    return has_control(text) || strpbrk(text, " \"<>\\^`{|}") != NULL
               ? "A URL may not hold blanks, quotes or control bytes."
               : NULL;
}

const char *words_event(const char *text)
{
    static const char *const groups[] = {"approval.",   "decision.",  "session.",
                                         "checkpoint.", "execution.", "taint."};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        size_t len = strlen(groups[i]);
        const char *rest = text + len;
        if (strncmp(text, groups[i], len) == 0) {
            bool is_word = rest[0] != '\0' && strspn(rest, LOWER "_") == strlen(rest);
            return is_word || strcmp(rest, "*") == 0 ? NULL : "An event is GROUP.NAME or GROUP.*.";
        }
    }
    return "An event belongs to approval, decision, session, checkpoint, execution or taint.";
}

const char *words_name(const char *text)
{
    return text[0] == '\0' || has_control(text) ? "A name may not be empty or hold control bytes."
                                                : NULL;
}

const char *words_token_name(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= 64 && strspn(text, LETTERS DIGITS "._-") == len
               ? NULL
               : "A token's name has 1 to 64 letters, digits, dots, dashes or underscores.";
}

const char *words_program(const char *text)
{
    return text[0] == '\0' || has_control(text) ? "This may not be empty or hold control bytes."
                                                : NULL;
}

const char *words_env(const char *text)
{
    size_t name = strspn(text, LETTERS DIGITS "_");
    bool is_ok = name > 0 && strchr(DIGITS, text[0]) == NULL && text[name] == '=';
    return is_ok ? NULL : "An entry must be NAME=VALUE.";
}
