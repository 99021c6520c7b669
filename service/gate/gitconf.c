#include "gate/gitconf.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fs.h"

enum { MAX_CONFIG_BYTES = 1 << 20, MAX_INCLUDES = 16, MAX_INCLUDE_DEPTH = 4 };

enum section { SECTION_OTHER = 0, SECTION_CORE, SECTION_INCLUDE };

/* A key of a section and its value. */
struct setting {
    enum section section;
    const char *key;
    size_t key_len;
    struct gh_buf value;
};

struct parser {
    const char *home;
    char **value; /* borrowed from the caller */
    int n_files;
    int depth;
};

static enum gh_code read_file(struct parser *p, const char *file, struct gh_err *err);

static enum gh_code no_memory(struct gh_err *err)
{
    return gh_fail(err, GH_NOMEM, "There is not enough memory to read git's configuration.");
}

/* "[core]", "[include]"; a sub-section makes it another one. Returns behind the "]". */
static const char *read_header(const char *at, enum section *ret)
{
    const char *end = at + strcspn(at, "]\n");
    size_t len = (size_t)(end - at);
    *ret = SECTION_OTHER;
    if (len == 4 && strncasecmp(at, "core", 4) == 0) {
        *ret = SECTION_CORE;
    } else if (len == 7 && strncasecmp(at, "include", 7) == 0) {
        *ret = SECTION_INCLUDE;
    }
    return *end == ']' ? end + 1 : end;
}

static char unescape(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    default:
        return c;
    }
}

/* A value with quotes, escapes, comments and continued lines. Returns behind it. */
static const char *read_value(const char *at, struct gh_buf *out)
{
    bool is_quoted = false;
    size_t solid = 0; /* trailing blanks outside quotes do not count */
    at += strspn(at, " \t");
    for (; *at != '\0' && (*at != '\n' || is_quoted); at++) {
        if (!is_quoted && (*at == '#' || *at == ';')) {
            at += strcspn(at, "\n");
            break;
        }
        if (*at == '"') {
            is_quoted = !is_quoted;
            solid = out->len;
            continue;
        }
        if (*at == '\\' && at[1] != '\0') {
            at++;
            if (*at == '\n') {
                continue;
            }
            gh_buf_putc(out, unescape(*at));
            solid = out->len;
            continue;
        }
        gh_buf_putc(out, *at);
        solid = is_quoted || !isspace((unsigned char)*at) ? out->len : solid;
    }
    if (out->data != NULL && !out->failed) {
        out->len = solid;
        out->data[solid] = '\0';
    }
    return at;
}

/* An included file: "~/" and relative to the file that names it. */
static enum gh_code include(struct parser *p, const char *file, const char *name,
                            struct gh_err *err)
{
    if (p->depth >= MAX_INCLUDE_DEPTH || p->n_files >= MAX_INCLUDES || *name == '\0') {
        return GH_OK;
    }
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    if (strncmp(name, "~/", 2) == 0 && p->home != NULL) {
        gh_buf_printf(&path, "%s%s", p->home, name + 1);
    } else if (*name == '/') {
        gh_buf_puts(&path, name);
    } else {
        const char *slash = strrchr(file, '/');
        gh_buf_put(&path, file, slash != NULL ? (size_t)(slash - file) + 1 : 0);
        gh_buf_puts(&path, name);
    }
    if (path.failed) {
        return no_memory(err);
    }
    p->depth++;
    enum gh_code code = read_file(p, gh_buf_str(&path), err);
    p->depth--;
    return code;
}

static bool is_setting(const struct setting *at, enum section section, const char *key)
{
    return at->section == section && at->key_len == strlen(key) &&
           strncasecmp(at->key, key, at->key_len) == 0;
}

static enum gh_code take(struct parser *p, const char *file, const struct setting *at,
                         struct gh_err *err)
{
    if (at->value.failed) {
        return no_memory(err);
    }
    if (is_setting(at, SECTION_INCLUDE, "path")) {
        return include(p, file, gh_buf_str(&at->value), err);
    }
    if (is_setting(at, SECTION_CORE, "hookspath")) {
        char *copy = strdup(gh_buf_str(&at->value));
        if (copy == NULL) {
            return no_memory(err);
        }
        free(*p->value);
        *p->value = copy;
    }
    return GH_OK;
}

static void fini_setting(struct setting *at)
{
    gh_buf_fini(&at->value);
}

static enum gh_code parse(struct parser *p, const char *file, const char *at, struct gh_err *err)
{
    enum section section = SECTION_OTHER;
    while (*at != '\0') {
        at += strspn(at, " \t\r\n");
        if (*at == '[') {
            at = read_header(at + 1, &section);
            continue;
        }
        gh_auto(fini_setting) struct setting one = {.section = section, .key = at};
        one.key_len = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
        at += one.key_len;
        at += strspn(at, " \t");
        if (one.key_len == 0 || *at != '=') { /* a comment, a bare key or something broken */
            at += strcspn(at, "\n");
            continue;
        }
        at = read_value(at + 1, &one.value);
        GH_TRY(take(p, file, &one, err));
    }
    return GH_OK;
}

/* Links are followed as git does: dotfile managers link ~/.gitconfig. */
static enum gh_code read_file(struct parser *p, const char *file, struct gh_err *err)
{
    gh_autofree char *real = realpath(file, NULL);
    gh_autofree char *text = NULL;
    size_t len = 0;
    p->n_files++;
    if (real == NULL) {
        return GH_OK;
    }
    enum gh_code code = gh_fs_read(AT_FDCWD, real, MAX_CONFIG_BYTES, &text, &len, NULL);
    if (code != GH_OK) {
        return code == GH_NOMEM ? no_memory(err) : GH_OK;
    }
    return parse(p, file, text, err);
}

enum gh_code gitconf_hooks_path(const char *file, const char *home, char **value,
                                struct gh_err *err)
{
    struct parser p = {.home = home, .value = value};
    return read_file(&p, file, err);
}
