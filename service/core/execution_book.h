/* execution_book: what core keeps of the commands it runs (execution.h). Guarded by core's lock
 * unless a member says otherwise. Only for core's own files.
 */
#ifndef GH_CORE_EXECUTION_BOOK_H
#define GH_CORE_EXECUTION_BOOK_H

#include <stddef.h>

struct run;
struct execution;
struct execution_input;
struct kept;

struct execution_book {
    struct run *run;                /* owned; any thread */
    struct execution *first, *last; /* oldest first */
    size_t n_over;
    size_t bytes;                        /* output kept of those that are over */
    struct kept *kept_first, *kept_last; /* oldest first */
    size_t n_kept;
    char *scan_chunk; /* for the thread of run only; owned */
};

#endif
