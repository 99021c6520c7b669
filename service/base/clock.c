#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"

static int64_t read_ms(clockid_t id)
{
    struct timespec now = {0};
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t gh_clock_boot_ms(void)
{
    return read_ms(CLOCK_BOOTTIME);
}

int64_t gh_clock_wall_ms(void)
{
    return read_ms(CLOCK_REALTIME);
}

void gh_clock_format(int64_t wall_ms, char out[GH_CLOCK_TEXT])
{
    time_t secs = (time_t)(wall_ms / 1000);
    struct tm tm = {0};
    gmtime_r(&secs, &tm);
    size_t n = strftime(out, GH_CLOCK_TEXT - 6, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, GH_CLOCK_TEXT - n, ".%03dZ", (int)(wall_ms % 1000));
}

/* ".250" at *text, or nothing. Returns milliseconds and moves *text past it. */
static int64_t parse_fraction(const char **text)
{
    if (**text != '.') {
        return 0;
    }
    int64_t ms = 0;
    int digits = 0;
    for ((*text)++; **text >= '0' && **text <= '9'; (*text)++, digits++) {
        if (digits < 3) {
            ms = ms * 10 + (**text - '0');
        }
    }
    for (; digits < 3; digits++) {
        ms *= 10;
    }
    return ms;
}

int64_t gh_clock_parse(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (rest == NULL) {
        return -1;
    }
    int64_t ms = parse_fraction(&rest);
    int64_t secs = (int64_t)timegm(&tm);
    if (strcmp(rest, "Z") == 0 || strcmp(rest, "z") == 0) {
        return secs * 1000 + ms;
    }
    int hours = 0;
    int minutes = 0;
    char end = '\0';
    if ((*rest != '+' && *rest != '-') ||
        sscanf(rest + 1, "%2d:%2d%c", &hours, &minutes, &end) != 2) {
        return -1;
    }
    int offset_s = hours * 3600 + minutes * 60;
    return (secs - (*rest == '+' ? offset_s : -offset_s)) * 1000 + ms;
}

void gh_clock_boot_id(char out[GH_BOOT_ID])
{
    snprintf(out, GH_BOOT_ID, "unknown");
    gh_autoclose int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    char text[GH_BOOT_ID] = {0};
    ssize_t n = read(fd, text, sizeof text - 1);
    if (n >= 36) {
        text[36] = '\0';
        memcpy(out, text, 37);
    }
}
