/* child_place: carries out the steps of a place in the keeper, between clone and exec. */
#ifndef GH_CONFINE_CHILD_PLACE_H
#define GH_CONFINE_CHILD_PLACE_H

#include "child.h"

/* Build the private root and enter it; 0 or -errno, and then *step is the index of the place's
 * step, or negative. The ids of a user namespace must be mapped. */
int child_place_enter(const struct child_job *job, int *step);

/* Make the new /proc read-only. */
int child_place_close_proc(void);

#endif
