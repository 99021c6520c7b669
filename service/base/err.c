#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    int status;
    const char *slug;
    const char *title;
} rows[GH_N_CODES] = {
    [GH_OK] = {200, "ok", "OK"},
#define X(name, status, slug, title) [GH_##name] = {status, slug, title},
#include "err.def"
#undef X
};

void gh_assert_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "assertion failed: %s (%s:%d)\n", cond, file, line);
    abort();
}

GH_PRINTF(4, 0)
static enum gh_code fail(struct gh_err *err, enum gh_code code, const char *pointer,
                         const char *fmt, va_list args)
{
    if (err != NULL) {
        err->code = code;
        vsnprintf(err->detail, sizeof err->detail, fmt, args);
        snprintf(err->pointer, sizeof err->pointer, "%s", pointer);
    }
    return code;
}

enum gh_code gh_fail(struct gh_err *err, enum gh_code code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail(err, code, "", fmt, args);
    va_end(args);
    return code;
}

enum gh_code gh_fail_at(struct gh_err *err, enum gh_code code, const char *pointer, const char *fmt,
                        ...)
{
    va_list args;
    va_start(args, fmt);
    fail(err, code, pointer, fmt, args);
    va_end(args);
    return code;
}

int gh_code_status(enum gh_code code)
{
    return rows[code].status;
}

const char *gh_code_slug(enum gh_code code)
{
    return rows[code].slug;
}

const char *gh_code_title(enum gh_code code)
{
    return rows[code].title;
}
