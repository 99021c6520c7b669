#include "names.h"

#include <string.h>

enum { MOST = 4096 }; /* expansions: braces multiply */

/* The place behind the class at `at` ("[...]"), or NULL when it does not end. */
static const char *class_end(const char *at)
{
    const char *p = at + 1;
    p += *p == '!' || *p == '^';
    p += *p == ']';
    while (*p != '\0' && *p != ']') {
        p++;
    }
    return *p == ']' ? p + 1 : NULL;
}

static bool class_has(const char *at, const char *end, unsigned char c)
{
    const char *p = at + 1;
    bool negated = *p == '!' || *p == '^', found = false;
    p += negated;
    for (; p < end - 1; p++) {
        unsigned char low = (unsigned char)*p, high = low;
        if (p[1] == '-' && p + 2 < end - 1) {
            high = (unsigned char)p[2];
            p += 2;
        }
        found |= c >= low && c <= high;
    }
    return found != negated;
}

/* Whether the one-character pattern at `glob` takes `c`; *ret_next is behind it. */
static bool takes(const char *glob, char c, const char **ret_next)
{
    if (c == '\0' || *glob == '\0') {
        return false;
    }
    *ret_next = glob + 1;
    if (*glob == '?') {
        return true;
    }
    if (*glob == '[') {
        const char *end = class_end(glob);
        *ret_next = end;
        return end != NULL && class_has(glob, end, (unsigned char)c);
    }
    if (*glob == '\\' && glob[1] != '\0') {
        *ret_next = glob + 2;
        return glob[1] == c;
    }
    return *glob == c;
}

/* Linear in practice: only the last star is gone back to. */
bool names_glob(const char *glob, const char *name)
{
    const char *star = NULL, *again = NULL;
    while (*name != '\0' || *glob != '\0') {
        const char *next;
        if (*glob == '*') {
            star = ++glob;
            again = name;
        } else if (takes(glob, *name, &next)) {
            glob = next;
            name++;
        } else if (star != NULL && *again != '\0') {
            glob = star;
            name = ++again;
        } else {
            return false;
        }
    }
    return true;
}

static bool is_sound(const char *glob)
{
    if (*glob == '\0' || strchr(glob, '/') != NULL) {
        return false;
    }
    for (const char *p = glob; *p != '\0'; p++) {
        if (*p == '\\' && p[1] != '\0') {
            p++;
        } else if (*p == '[') {
            const char *end = class_end(p);
            if (end == NULL) {
                return false;
            }
            p = end - 1;
        }
    }
    return true;
}

/* The end of the alternative at `p`: its comma or the brace that closes it, inner braces passed
 * over; NULL when none does. */
static const char *alternative_end(const char *p)
{
    int depth = 0;
    for (; *p != '\0'; p++) {
        if (depth == 0 && (*p == ',' || *p == '}')) {
            return p;
        }
        depth += (*p == '{') - (*p == '}');
    }
    return NULL;
}

static const char *closing_brace(const char *open)
{
    const char *p = open;
    do {
        p = alternative_end(p + 1);
    } while (p != NULL && *p == ',');
    return p;
}

/* Put the alternatives of the first braces in place, one pattern each, until none has any. */
static void expand(struct names *names, const char *glob, bool built_in)
{
    const char *open = strchr(glob, '{');
    const char *close = open == NULL ? NULL : closing_brace(open);
    if (++names->n_tried > MOST) {
        return;
    }
    if (close == NULL) {
        if (is_sound(glob)) {
            util_grow(&names->all, names->n, &names->room, sizeof *names->all);
            names->all[names->n++] = (struct names_one){util_dup(glob), built_in};
        }
        return;
    }
    for (const char *p = open; p != close;) {
        const char *end = alternative_end(p + 1);
        confine_autofree char *one = util_format("%.*s%.*s%s", (int)(open - glob), glob,
                                                 (int)(end - p - 1), p + 1, close + 1);
        expand(names, one, built_in);
        p = end;
    }
}

void names_compile(struct names *names, const struct confine_name *wish, size_t n)
{
    *names = (struct names){0};
    for (size_t i = 0; i < n; i++) {
        expand(names, wish[i].glob, wish[i].built_in);
    }
}

void names_fini(struct names *names)
{
    for (size_t i = 0; i < names->n; i++) {
        free(names->all[i].glob);
    }
    free(names->all);
    *names = (struct names){0};
}

bool names_match(const struct names *names, const char *name, bool *ret_built_in)
{
    bool found = false;
    *ret_built_in = true;
    for (size_t i = 0; i < names->n; i++) {
        if ((!found || *ret_built_in) && names_glob(names->all[i].glob, name)) {
            found = true;
            *ret_built_in &= names->all[i].built_in;
        }
    }
    return found;
}

bool names_is_package_folder(const char *name)
{
    static const char *const folders[] = {"node_modules", "site-packages", "dist-packages",
                                          "vendor", "target"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (strcmp(name, folders[i]) == 0) {
            return true;
        }
    }
    return false;
}
