/* glob: name patterns, one path component at a time.
 *
 * `*` any run, `?` one character, `[a-z]` `[!a-z]` classes, `{a,b}` alternatives, `\x` x itself.
 * A character is a UTF-8 sequence, or one byte where the text is not UTF-8. Pure; threads: any.
 */
#ifndef GH_GATE_GLOB_H
#define GH_GATE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

enum { GATE_GLOB_MAX_ALTERNATIVES = 256 };

/* True when every class and brace is closed and nothing ends in a lone backslash. */
bool gate_glob_is_valid(const char *pattern);

/* Call `fn` for each pattern that the braces stand for (the text itself when there are none).
 * False when there are more than GATE_GLOB_MAX_ALTERNATIVES, memory ran out, or `fn` said false. */
bool gate_glob_expand(const char *pattern, bool (*fn)(const char *pattern, void *cookie),
                      void *cookie);

/* Match the whole name (`len` bytes); the pattern is valid and has no braces left that mean
 * alternatives. `is_folded`: ASCII letters match in either case. */
bool gate_glob_match(const char *pattern, const char *name, size_t len, bool is_folded);

#endif
