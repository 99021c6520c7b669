/* report: notes on what is weaker than asked. */
#ifndef GH_CONFINE_REPORT_H
#define GH_CONFINE_REPORT_H

#include "spec.h"

/* Add a static sentence once; more than fit are dropped, the level is what counts. */
static inline void report_lose(struct confine_report *report, const char *what)
{
    for (size_t i = 0; i < report->n_lost; i++) {
        if (report->lost[i] == what) {
            return;
        }
    }
    if (report->n_lost < CONFINE_MAX_LOST) {
        report->lost[report->n_lost++] = what;
    }
}

#endif
