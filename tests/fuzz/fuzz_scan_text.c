/* fuzz_scan_text: the scan finds what a plain reading of its rules finds, at the same place.
 *
 * The reference folds the whole text first and then looks for one phrase after the other. Inputs
 * that start with an even byte are taken as they are; the others are spelled from pieces, since
 * random bytes would never make a phrase.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "scan/fold.h"
#include "scan/scan.h"

struct symbol {
    enum fold fold;
    size_t start, end; /* bytes of the original */
};

static void demand(bool holds)
{
    if (!holds) {
        abort();
    }
}

static bool is_escape(const char *text, size_t len, size_t at)
{
    return text[at] == '\\' && at + 1 < len && text[at + 1] != '\0' &&
           strchr("nrtNRT", text[at + 1]) != NULL;
}

/* Read one symbol of the original. */
static struct symbol read_symbol(const char *text, size_t len, size_t at)
{
    if (is_escape(text, len, at)) {
        return (struct symbol){FOLD_BLANK, at, at + 2};
    }
    uint32_t code = 0;
    size_t n = scan_decode((const unsigned char *)text + at, len - at, &code);
    enum fold fold = n > 0 ? scan_fold(code) : FOLD_OTHER;
    return (struct symbol){fold, at, at + (n > 0 ? n : 1)};
}

/* The folded text with the virtual stop at its end; owned by caller. */
static struct symbol *fold_all(const char *text, size_t len, size_t *ret_count)
{
    struct symbol *all = calloc(len + 1, sizeof *all);
    demand(all != NULL);
    size_t count = 0;
    for (size_t at = 0; at < len;) {
        struct symbol symbol = read_symbol(text, len, at);
        at = symbol.end;
        bool is_repeat = count > 0 && all[count - 1].fold == FOLD_BLANK;
        if (symbol.fold != FOLD_NOTHING && !(symbol.fold == FOLD_BLANK && is_repeat)) {
            all[count++] = symbol;
        }
    }
    all[count++] = (struct symbol){FOLD_STOP, len, len};
    *ret_count = count;
    return all;
}

static bool is_phrase_at(const struct symbol *at, size_t left, const char *phrase)
{
    for (size_t i = 0; phrase[i] != '\0'; i++) {
        if (i >= left || at[i].fold != scan_fold((unsigned char)phrase[i])) {
            return false;
        }
    }
    return true;
}

/* What scan_text should answer, excerpt aside. */
static bool expect(const char *text, size_t len, struct scan_finding *ret)
{
    size_t count = 0;
    gh_autofree struct symbol *all = fold_all(text, len, &count);
    for (size_t i = 0; i < scan_phrases(); i++) {
        const char *phrase = scan_phrase(i);
        for (size_t at = 0; at < count; at++) {
            if (is_phrase_at(all + at, count - at, phrase)) {
                ret->marker = phrase;
                ret->offset = all[at].start;
                ret->length = all[at + strlen(phrase) - 1].end - ret->offset;
                return true;
            }
        }
    }
    return false;
}

static void check_excerpt(const struct scan_finding *finding)
{
    size_t len = strnlen(finding->excerpt, sizeof finding->excerpt);
    demand(len < sizeof finding->excerpt);
    for (size_t at = 0; at < len;) {
        uint32_t code = 0;
        size_t n = scan_decode((const unsigned char *)finding->excerpt + at, len - at, &code);
        bool is_kept = code == '\n' || code == '\r' || code == '\t';
        demand(n > 0 && (is_kept || (code >= 0x20 && !(code >= 0x7F && code <= 0x9F))));
        at += n;
    }
}

/* Exactly `len` bytes on the heap, so that a read too far is seen. */
static void check(const struct scan *scan, const char *data, size_t len)
{
    gh_autofree char *text = malloc(len > 0 ? len : 1);
    demand(text != NULL);
    if (len > 0) {
        memcpy(text, data, len);
    }
    struct scan_finding expected;
    struct scan_finding actual;
    bool is_expected = expect(text, len, &expected);
    demand(scan_text(scan, text, len, &actual) == is_expected);
    if (is_expected) {
        demand(actual.marker == expected.marker);
        demand(actual.offset == expected.offset && actual.length == expected.length);
        check_excerpt(&actual);
    }
}

static const char *const pieces[] = {
    " ",
    "  \t\n",
    "\\n",
    "\\r\\t",
    "\\",
    "\xC2\xA0",
    "\u2003",
    "\u200b",
    "\u0301",
    "\ufe0f",
    "\u00ad",
    "\x01",
    "\xFF",
    "\xE2\x80",
    "中",
    "а",
    "е",
    "о",
    "\uff49",
    "\U0001D422",
    ".",
    ",",
    "!",
    "'",
    "\u2019",
    "i",
    "n",
    "g",
    "N",
    "r",
    "ignore",
    "IGNORE",
    "previous",
    "all",
    "your",
    "the",
    "above",
    "prior",
    "any",
    "forget",
    "disregard",
    "override",
    "instructions",
    "new",
    "system",
    "prompt",
    "reveal",
    "repeat",
    "you",
    "are",
    "now",
    "dan",
    "do",
    "not",
    "don",
    "t",
    "tell",
    "user",
    "about",
    "this",
    "safety",
    "rules",
    "reveal your",
    "ignore previous instructions",
    "new system prompt",
    "disable your safety rules",
};

static void spell(const uint8_t *data, size_t size, struct gh_buf *out)
{
    for (size_t i = 0; i < size; i++) {
        size_t pick = data[i] & 0x7F;
        size_t count = sizeof pieces / sizeof pieces[0];
        if (pick < count) {
            gh_buf_puts(out, pieces[pick]);
        } else {
            /* Long stretches, so that lanes and windows have seams everywhere. */
            const char *filler = pieces[pick % 8 == 0 ? 33 : pick % 4];
            for (size_t k = 0; k < 40U * (pick % 16) && out->len < 20000; k++) {
                gh_buf_puts(out, filler);
            }
        }
        if ((data[i] & 0x80) != 0) {
            gh_buf_putc(out, ' ');
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    static struct scan *scan; /* for the life of the program: compiling it is the slowest part */
    struct gh_err err;
    demand(scan != NULL || scan_new(&scan, &err) == GH_OK);
    if (data[0] % 2 == 0) {
        check(scan, (const char *)data, size);
        return 0;
    }
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    spell(data + 1, size - 1, &text);
    check(scan, gh_buf_str(&text), text.len);
    return 0;
}
