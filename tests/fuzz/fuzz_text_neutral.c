/* fuzz_text_neutral: whatever goes in, what comes out is valid UTF-8 that acts on no terminal. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unictype.h>
#include <unistr.h>

#include "base/auto.h"
#include "text/glyph.h"
#include "text/neutral.h"

static void demand(bool holds)
{
    if (!holds) {
        abort();
    }
}

static bool is_safe(ucs4_t code, bool keep_lines)
{
    if (code < 0x20) {
        return keep_lines && (code == '\n' || code == '\t');
    }
    return code != 0x7F && !(code >= 0x80 && code <= 0x9F) && code != 0x2028 && code != 0x2029 &&
           !uc_is_property_bidi_control(code) && !uc_is_property_unassigned_code_value(code);
}

static void check_output(const struct gh_buf *out, bool keep_lines)
{
    const uint8_t *s = (const uint8_t *)gh_buf_str(out);
    demand(u8_check(s, out->len) == NULL);
    for (size_t at = 0; at < out->len;) {
        ucs4_t code = 0;
        int n = u8_mbtouc(&code, s + at, out->len - at);
        demand(n > 0 && is_safe(code, keep_lines));
        at += (size_t)n;
    }
}

static void check_neutral(const char *text, size_t len, bool keep_lines)
{
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf again = GH_BUF_INIT;
    size_t shown = text_neutral(text, len, keep_lines, &out);
    check_output(&out, keep_lines);
    demand(shown > 0 || (out.len == len && (len == 0 || memcmp(out.data, text, len) == 0)));
    demand(text_neutral(gh_buf_str(&out), out.len, keep_lines, &again) == 0);
    demand(again.len == out.len);
}

static void check_terminal(const char *text, size_t columns)
{
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    text_for_terminal(text, columns, &out);
    check_output(&out, false);
    size_t used = 0;
    struct glyph_walk walk = GLYPH_WALK(gh_buf_str(&out), out.len);
    struct glyph glyph;
    while (glyph_next(&walk, &glyph)) {
        demand(glyph.kind == GLYPH_PLAIN);
        used += (size_t)glyph_columns(glyph.code);
    }
    demand(columns == 0 || used <= columns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gh_autofree char *text = malloc(size + 1);
    demand(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    check_neutral(text, size, false);
    check_neutral(text, size, true);
    gh_auto(gh_buf_fini) struct gh_buf word = GH_BUF_INIT;
    text_shell_word(text, &word);
    check_output(&word, true);
    for (size_t columns = 0; columns < 12; columns++) {
        check_terminal(text, columns);
    }
    (void)text_is_invisible(text, size);
    return 0;
}
