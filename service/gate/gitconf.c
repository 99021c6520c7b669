#include "gate/gitconf.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fs.h"

/* Git itself gives up below ten levels of includes. */
enum { MAX_CONFIG_BYTES = 16 << 20, MAX_DEPTH = 10 };

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
    struct gitconf *out; /* borrowed */
    int depth;
};

static enum gh_code read_file(struct parser *p, const char *file, struct gh_err *err);

void gitconf_fini(struct gitconf *conf)
{
    seen_names_fini(&conf->hooks);
    seen_names_fini(&conf->files);
    seen_stamps_fini(&conf->stamps);
    *conf = (struct gitconf){0};
}

static enum gh_code no_memory(struct gh_err *err)
{
    return gh_fail(err, GH_NOMEM, "There is not enough memory to read git's configuration.");
}

/* "[core]", "[include]", "[includeIf "condition"]". Returns behind the "]", or where the line
 * ends. A condition may hold a "]" of its own. */
static const char *read_header(const char *at, enum section *ret)
{
    size_t len = strcspn(at, " \t\"]\r\n");
    const char *end = at + len;
    bool has_sub = *end != ']';
    *ret = SECTION_OTHER;
    if (!has_sub && len == 4 && strncasecmp(at, "core", 4) == 0) {
        *ret = SECTION_CORE;
    } else if ((!has_sub && len == 7 && strncasecmp(at, "include", 7) == 0) ||
               (has_sub && len == 9 && strncasecmp(at, "includeif", 9) == 0)) {
        *ret = SECTION_INCLUDE;
    }
    for (bool is_quoted = false; *end != '\0' && *end != '\n' && (is_quoted || *end != ']');
         end++) {
        is_quoted = is_quoted != (*end == '"');
        end += is_quoted && *end == '\\' && end[1] != '\0' && end[1] != '\n' ? 1 : 0;
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
            at += *at == '\r' && at[1] == '\n' ? 1 : 0;
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
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    if (*name == '\0') {
        return GH_OK;
    }
    if (strncmp(name, "~/", 2) == 0 && p->home != NULL) {
        gh_buf_printf(&path, "%s%s", p->home, name + 1);
    } else if (*name == '~' || *name == '%') { /* another home, or where git is installed */
        p->out->is_cut = true;
        return GH_OK;
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
    if (!is_setting(at, SECTION_CORE, "hookspath")) {
        return GH_OK;
    }
    if (p->out->hooks.n >= GITCONF_MAX_HOOKS) {
        p->out->is_cut = true;
        return GH_OK;
    }
    return seen_names_add(&p->out->hooks, gh_buf_str(&at->value)) ? GH_OK : no_memory(err);
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

/* The text of a file that git would read too; *ret stays NULL when there is none. Links are
 * followed as git does: dotfile managers link ~/.gitconfig. */
static enum gh_code load(struct gitconf *out, const char *file, char **ret, struct gh_err *err)
{
    gh_autofree char *real = realpath(file, NULL);
    size_t len = 0;
    if (real == NULL) {
        out->is_cut = out->is_cut || (errno != ENOENT && errno != ENOTDIR);
        return GH_OK;
    }
    if (strcmp(real, "/dev/null") == 0) {
        return GH_OK;
    }
    enum gh_code code = gh_fs_read(AT_FDCWD, real, MAX_CONFIG_BYTES - out->bytes, ret, &len, NULL);
    if (code == GH_NOMEM) {
        return no_memory(err);
    }
    out->bytes += len;
    out->is_cut = out->is_cut || (code != GH_OK && code != GH_NOT_FOUND) ||
                  (code == GH_OK && strlen(*ret) != len);
    return GH_OK;
}

static enum gh_code parse_text(struct parser *p, const char *file, const char *text,
                               struct gh_err *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* a byte order mark, which git skips */
    bool has_mark = strncmp(text, mark, sizeof mark - 1) == 0;
    return parse(p, file, text + (has_mark ? sizeof mark - 1 : 0), err);
}

/* Each file once: what it says does not depend on who names it. */
static enum gh_code read_file(struct parser *p, const char *file, struct gh_err *err)
{
    gh_autofree char *text = NULL;
    if (seen_names_has(&p->out->files, file)) {
        return GH_OK;
    }
    if (p->depth > MAX_DEPTH || p->out->files.n >= GITCONF_MAX_FILES) {
        p->out->is_cut = true;
        return GH_OK;
    }
    if (!seen_names_add(&p->out->files, file) || !seen_stamps_add(&p->out->stamps, file)) {
        return no_memory(err);
    }
    GH_TRY(load(p->out, file, &text, err));
    return text != NULL ? parse_text(p, file, text, err) : GH_OK;
}

enum gh_code gitconf_read(const char *file, const char *home, struct gitconf *ret,
                          struct gh_err *err)
{
    struct parser p = {.home = home, .out = ret};
    return read_file(&p, file, err);
}

enum gh_code gitconf_parse(const char *file, const char *text, const char *home,
                           struct gitconf *ret, struct gh_err *err)
{
    struct parser p = {.home = home, .out = ret};
    return parse_text(&p, file, text, err);
}
