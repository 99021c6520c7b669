/* bench_scan: the phrase scan against one strcasestr a phrase and one walk of its table, and
 * against itself by size.
 *
 * Near-miss text: prose with beginnings of phrases, no finding, so that every way reads all of it.
 * Twenty rounds, interleaved; the best pass of each way counts. Ratios are the result, not the
 * MB/s.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "scan/automaton.h"
#include "scan/scan.h"

#define ROUNDS 20
#define KIB 1024

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* Fill `text` with near misses; `wide` puts a character that is not ASCII into every line. */
static void fill(char *text, size_t len, bool wide)
{
    static const char *const lines[] = {
        "ignore previous errors and read the instructions above the table; ",
        "you are now ready to repeat your system tests.\n",
        "Do not tell the user agent to reveal your system; override your defaults, ",
        "The quick brown fox jumps over the lazy dog while nobody disregards it.\n",
    };
    size_t at = 0;
    for (size_t i = 0; at < len; i++) {
        at += (size_t)snprintf(text + at, len - at + 1, "%s%s", lines[i % 4], wide ? "— " : "");
    }
    text[len] = '\0';
}

/* Seconds of the fastest of many passes of ours over `text`: what else the machine does only adds.
 */
static double time_scan(const struct scan *scan, const char *text, size_t len)
{
    struct scan_finding finding;
    size_t repeats = (16U << 20) / len + 1;
    double best = 1e9;
    for (size_t i = 0; i < repeats; i++) {
        double start = now_s();
        if (scan_text(scan, text, len, &finding)) {
            fprintf(stderr, "the near-miss text has a finding: %s\n", finding.marker);
            exit(EXIT_FAILURE);
        }
        best = least(best, now_s() - start);
    }
    return best;
}

/* The same table walked a byte at a time, as far as ASCII goes. */
static double time_one_lane(const struct scan *scan, const char *text, size_t len)
{
    double start = now_s();
    size_t state = SCAN_ROOT;
    for (size_t i = 0; i < len; i++) {
        state = scan->next[state + scan->symbol[text[i] & 0x7F]];
        if ((state & SCAN_HIT) != 0) {
            exit(EXIT_FAILURE);
        }
    }
    return now_s() - start;
}

static double time_strcasestr(const char *text)
{
    double start = now_s();
    for (size_t i = 0; i < scan_phrases(); i++) {
        if (strcasestr(text, scan_phrase(i)) != NULL) {
            exit(EXIT_FAILURE);
        }
    }
    return now_s() - start;
}

static void compare(const struct scan *scan, const char *name, bool wide)
{
    size_t len = 64 * KIB;
    gh_autofree char *text = malloc(len + 1);
    if (text == NULL) {
        exit(EXIT_FAILURE);
    }
    fill(text, len, wide);
    double ours = 1e9;
    double theirs = 1e9;
    double one = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        ours = least(ours, time_scan(scan, text, len));
        theirs = least(theirs, time_strcasestr(text));
        one = least(one, time_one_lane(scan, text, len));
    }
    double mega = (double)len / 1e6;
    printf(
        "%-18s scan %7.1f MB/s   strcasestr x %zu %6.1f MB/s, ratio %5.1f   one lane %6.1f MB/s, "
        "ratio %4.1f\n",
        name, mega / ours, scan_phrases(), mega / theirs, theirs / ours, mega / one, one / ours);
}

static void grow(const struct scan *scan)
{
    static const size_t sizes[] = {64 * KIB, 1024 * KIB, 4096 * KIB};
    gh_autofree char *text = malloc(sizes[2] + 1);
    if (text == NULL) {
        exit(EXIT_FAILURE);
    }
    double first = 0;
    for (size_t i = 0; i < 3; i++) {
        fill(text, sizes[i], false);
        double best = 1e9;
        for (int k = 0; k < ROUNDS; k++) {
            best = least(best, time_scan(scan, text, sizes[i]));
        }
        double per_byte = best / (double)sizes[i];
        first = i == 0 ? per_byte : first;
        printf("%5zu KiB            %6.3f ns a byte   %4.2f of 64 KiB\n", sizes[i] / KIB,
               per_byte * 1e9, per_byte / first);
    }
}

int main(void)
{
    struct scan *scan = NULL;
    struct gh_err err;
    if (scan_new(&scan, &err) != GH_OK) {
        fprintf(stderr, "%s\n", err.detail);
        return EXIT_FAILURE;
    }
    compare(scan, "ASCII", false);
    compare(scan, "a dash every line", true);
    grow(scan);
    scan_free(scan);
    return EXIT_SUCCESS;
}
