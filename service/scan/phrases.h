/* phrases: the built-in list.
 *
 * Internal to scan. Each phrase is written in folded form: lower-case letters, apostrophes, single
 * blanks, and "." for any of . , : ; ! ? or the end of the text; it starts with a letter. The order
 * is the order of report.
 */
#ifndef GH_SCAN_PHRASES_H
#define GH_SCAN_PHRASES_H

#include <stddef.h>

#define SCAN_PHRASES 40
#define SCAN_PHRASE_MAX 48 /* longest, in bytes */

extern const char *const scan_phrase_list[SCAN_PHRASES];

#endif
