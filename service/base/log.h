/* log: one event a line on stderr: time, level, event name, key=value fields.
 *
 * Values may come from hostile text: quotes, control bytes and everything that is not printable
 * ASCII are written as escapes, so a value can forge no field and no line. Never pass a secret.
 * The level is the one writable static of this module. Threads: any.
 */
#ifndef GH_BASE_LOG_H
#define GH_BASE_LOG_H

enum gh_log_level { GH_LOG_DEBUG = 0, GH_LOG_INFO, GH_LOG_WARN, GH_LOG_ERROR };

/* Lines below `level` are dropped. */
void gh_log_level(enum gh_log_level level);

/* Write one line: pairs of key and value (const char *, NULL value is written as "-"), ended by a
 * NULL key. errno is kept. */
void gh_log(enum gh_log_level level, const char *event, ...) __attribute__((sentinel));

#endif
