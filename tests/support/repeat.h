/* repeat: how many times longer than in CI a repeating test runs (GH_REPEAT, default 1). */
#ifndef GH_TESTS_SUPPORT_REPEAT_H
#define GH_TESTS_SUPPORT_REPEAT_H

#include <stdlib.h>

/* GH_REPEAT, 1 to 1000. */
static inline int gh_test_repeat(void)
{
    const char *text = getenv("GH_REPEAT");
    long n = text != NULL ? strtol(text, NULL, 10) : 1;
    return n < 1 ? 1 : n > 1000 ? 1000 : (int)n;
}

#endif
