#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"

static _Atomic int floor_level = GH_LOG_INFO;

void gh_log_level(enum gh_log_level level)
{
    floor_level = (int)level;
}

static void put_value(struct gh_buf *line, const char *value)
{
    gh_buf_putc(line, '"');
    for (const unsigned char *s = (const unsigned char *)value; *s != '\0' && line->len < 4000;
         s++) {
        if (*s == '"' || *s == '\\') {
            gh_buf_printf(line, "\\%c", *s);
        } else if (*s < 0x20 || *s >= 0x7F) {
            gh_buf_printf(line, "\\x%02x", *s);
        } else {
            gh_buf_putc(line, (char)*s);
        }
    }
    gh_buf_putc(line, '"');
}

void gh_log(enum gh_log_level level, const char *event, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    if ((int)level < floor_level) {
        return;
    }
    int saved = errno;
    char now[GH_CLOCK_TEXT];
    gh_clock_format(gh_clock_wall_ms(), now);
    gh_auto(gh_buf_fini) struct gh_buf line = GH_BUF_INIT;
    gh_buf_printf(&line, "%s %s %s", now, names[level], event);

    va_list args;
    va_start(args, event);
    for (const char *key = va_arg(args, const char *); key != NULL;
         key = va_arg(args, const char *)) {
        const char *value = va_arg(args, const char *);
        gh_buf_printf(&line, " %s=", key);
        put_value(&line, value != NULL ? value : "-");
    }
    va_end(args);
    gh_buf_putc(&line, '\n');
    if (!line.failed) {
        gh_fs_write_all(STDERR_FILENO, line.data, line.len);
    }
    errno = saved;
}
