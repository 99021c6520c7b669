/* test_clock: the two clocks and their text form. */
#include "base/clock.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *name, *text;
    int64_t want_ms;
} texts[] = {
    {"epoch", "1970-01-01T00:00:00Z", 0},
    {"milliseconds", "2026-11-30T02:16:13.250Z", 1796004973250},
    {"one digit of fraction", "1970-01-01T00:00:01.5Z", 1500},
    {"more digits than we keep", "1970-01-01T00:00:01.123456789Z", 1123},
    {"small z", "1970-01-01T00:00:01z", 1000},
    {"east", "1970-01-01T02:30:00+02:30", 0},
    {"west", "1969-12-31T23:00:00-01:00", 0},
    {"leap day", "2024-02-29T00:00:00Z", 1709164800000},
    {"no zone", "2026-11-30T02:16:13", -1},
    {"only a date", "2026-11-30", -1},
    {"text behind", "2026-11-30T02:16:13Zx", -1},
    {"text behind the offset", "2026-11-30T02:16:13+01:00x", -1},
    {"half an offset", "2026-11-30T02:16:13+01", -1},
    {"month 13", "2026-13-01T00:00:00Z", -1},
    {"hour 25", "2026-01-01T25:00:00Z", -1},
    {"31st of February", "2026-02-31T00:00:00Z", -1},
    {"29th of February, no leap year", "2026-02-29T00:00:00Z", -1},
    {"month 0", "2026-00-01T00:00:00Z", -1},
    {"day 0", "2026-01-00T00:00:00Z", -1},
    {"minute 60", "2026-01-01T00:60:00Z", -1},
    {"leap second", "2016-12-31T23:59:60Z", 1483228800000},
    {"one digit month", "2026-1-01T00:00:00Z", -1},
    {"blank in front", " 2026-01-01T00:00:00Z", -1},
    {"blank inside", "2026-01-01T 0:00:00Z", -1},
    {"signs in the offset", "2026-01-01T00:00:00+-1:-1", -1},
    {"offset of a day", "2026-01-01T00:00:00+24:00", -1},
    {"empty fraction", "2026-01-01T00:00:00.Z", -1},
    {"before 1970", "1969-12-31T23:59:59Z", -1},
    {"before 1970 by its offset", "1970-01-01T00:59:59+01:00", -1},
    {"five digits of year", "12026-01-01T00:00:00Z", -1},
    {"words", "yesterday", -1},
    {"empty", "", -1},
};

START_TEST(texts_are_parsed_or_refused)
{
    int64_t got_ms = gh_clock_parse(texts[_i].text);
    ck_assert_msg(got_ms == texts[_i].want_ms, "%s: %lld", texts[_i].name, (long long)got_ms);
}
END_TEST

static const int64_t round_trips[] = {0, 1, 999, 1000, 1796004973250, 4102444799999};

START_TEST(format_and_parse_are_inverse)
{
    char text[GH_CLOCK_TEXT];
    gh_clock_format(round_trips[_i], text);
    ck_assert_uint_eq(strlen(text), strlen("2026-11-30T02:16:13.250Z"));
    ck_assert_int_eq(gh_clock_parse(text), round_trips[_i]);
}
END_TEST

START_TEST(the_local_zone_changes_nothing)
{
    char text[GH_CLOCK_TEXT];
    setenv("TZ", "Pacific/Auckland", 1);
    tzset();
    gh_clock_format(1796004973250, text);
    ck_assert_str_eq(text, "2026-11-30T02:16:13.250Z");
    ck_assert_int_eq(gh_clock_parse(text), 1796004973250);
}
END_TEST

START_TEST(boot_time_runs_forward)
{
    int64_t first_ms = gh_clock_boot_ms();
    ck_assert_int_gt(first_ms, 0);
    for (int i = 0; i < 1000; i++) {
        int64_t next_ms = gh_clock_boot_ms();
        ck_assert_int_ge(next_ms, first_ms);
        first_ms = next_ms;
    }
}
END_TEST

START_TEST(wall_time_is_the_system_s)
{
    int64_t before_ms = (int64_t)time(NULL) * 1000;
    int64_t now_ms = gh_clock_wall_ms();
    int64_t after_ms = ((int64_t)time(NULL) + 1) * 1000;
    /* time() may lag the fine clock by a tick. */
    ck_assert_int_ge(now_ms, before_ms);
    ck_assert_int_le(now_ms, after_ms + 1000);
}
END_TEST

START_TEST(the_boot_id_is_constant_and_a_uuid)
{
    char one[GH_BOOT_ID];
    char two[GH_BOOT_ID];
    gh_clock_boot_id(one);
    gh_clock_boot_id(two);
    ck_assert_str_eq(one, two);
    ck_assert_uint_eq(strlen(one), 36);
    ck_assert_uint_eq(strspn(one, "0123456789abcdef-"), 36);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("clock");
    TCase *t = tcase_create("clock");
    tcase_add_loop_test(t, texts_are_parsed_or_refused, 0, (int)(sizeof texts / sizeof texts[0]));
    tcase_add_loop_test(t, format_and_parse_are_inverse, 0,
                        (int)(sizeof round_trips / sizeof round_trips[0]));
    tcase_add_test(t, the_local_zone_changes_nothing);
    tcase_add_test(t, boot_time_runs_forward);
    tcase_add_test(t, wall_time_is_the_system_s);
    tcase_add_test(t, the_boot_id_is_constant_and_a_uuid);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
