#include "base/clock.h"

#include <fcntl.h>
#include <stdbool.h>
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

/* `digits` digits at *text, at most `max`; moves *text past them. */
static bool take_number(const char **text, int digits, int max, int *ret)
{
    int value = 0;
    for (int i = 0; i < digits; i++, (*text)++) {
        if (**text < '0' || **text > '9') {
            return false;
        }
        value = value * 10 + (**text - '0');
    }
    *ret = value;
    return value <= max;
}

/* One of the two spellings of a letter or sign. */
static bool take_either(const char **text, char one, char other)
{
    if (**text != one && **text != other) {
        return false;
    }
    (*text)++;
    return true;
}

/* "2026-11-30T02:16:13" as seconds since the epoch. strptime takes too much (blanks, short numbers,
 * the 31st of February). */
static bool take_seconds(const char **text, int64_t *ret_s)
{
    struct tm tm = {0};
    if (!take_number(text, 4, 9999, &tm.tm_year) || !take_either(text, '-', '-') ||
        !take_number(text, 2, 12, &tm.tm_mon) || !take_either(text, '-', '-') ||
        !take_number(text, 2, 31, &tm.tm_mday) || !take_either(text, 'T', 't')) {
        return false;
    }
    tm.tm_year -= 1900;
    tm.tm_mon--;
    int month = tm.tm_mon;
    int day = tm.tm_mday;
    int64_t midnight_s = (int64_t)timegm(&tm);
    int hour = 0;
    int minute = 0;
    int second = 0;
    *ret_s = midnight_s;
    if (tm.tm_mon != month || tm.tm_mday != day || !take_number(text, 2, 23, &hour) ||
        !take_either(text, ':', ':') || !take_number(text, 2, 59, &minute) ||
        !take_either(text, ':', ':') || !take_number(text, 2, 60, &second)) {
        return false;
    }
    *ret_s += hour * 3600 + minute * 60 + second;
    return true;
}

/* ".250" at *text, or nothing. Digits behind the third are dropped. */
static bool take_fraction(const char **text, int64_t *ret_ms)
{
    *ret_ms = 0;
    if (!take_either(text, '.', '.')) {
        return true;
    }
    int digits = 0;
    int weight_ms = 100;
    for (; **text >= '0' && **text <= '9'; (*text)++, digits++, weight_ms /= 10) {
        *ret_ms += (int64_t)(**text - '0') * weight_ms;
    }
    return digits > 0;
}

/* "Z" or "+02:30" up to the end of the text. */
static bool take_offset(const char *text, int64_t *ret_s)
{
    *ret_s = 0;
    if (take_either(&text, 'Z', 'z')) {
        return *text == '\0';
    }
    bool is_east = *text == '+';
    int hours = 0;
    int minutes = 0;
    if (!take_either(&text, '+', '-') || !take_number(&text, 2, 23, &hours) ||
        !take_either(&text, ':', ':') || !take_number(&text, 2, 59, &minutes)) {
        return false;
    }
    *ret_s = (is_east ? 1 : -1) * (hours * 3600 + minutes * 60);
    return *text == '\0';
}

int64_t gh_clock_parse(const char *text)
{
    int64_t secs = 0;
    int64_t ms = 0;
    int64_t offset_s = 0;
    if (!take_seconds(&text, &secs) || !take_fraction(&text, &ms) ||
        !take_offset(text, &offset_s) || secs < offset_s) {
        return -1;
    }
    return (secs - offset_s) * 1000 + ms;
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
