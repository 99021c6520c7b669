/* clock: two clocks that never share a variable.
 *
 * Deadlines live on CLOCK_BOOTTIME (it runs through a suspend, so a sleeping laptop's prompts
 * expire); wall time is for display and the audit only. All in milliseconds. Threads: any.
 */
#ifndef GH_BASE_CLOCK_H
#define GH_BASE_CLOCK_H

#include <stdint.h>

#define GH_CLOCK_TEXT 32 /* bytes for gh_clock_format, with the NUL */
#define GH_BOOT_ID 40    /* bytes for gh_clock_boot_id, with the NUL */

/* Milliseconds since boot, suspend included. */
int64_t gh_clock_boot_ms(void);

/* Milliseconds since the Unix epoch. */
int64_t gh_clock_wall_ms(void);

/* Write `wall_ms` as RFC 3339 UTC with milliseconds. */
void gh_clock_format(int64_t wall_ms, char out[GH_CLOCK_TEXT]);

/* Parse RFC 3339 (offset or Z, fraction optional). Returns -1 when it is not one or lies before
 * 1970. */
int64_t gh_clock_parse(const char *text);

/* Write the kernel's boot id, or "unknown" (which equals no stored id) when it cannot be read. */
void gh_clock_boot_id(char out[GH_BOOT_ID]);

#endif
