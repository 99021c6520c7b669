/* err: the one error convention.
 *
 * Fallible functions return enum gh_code and take a caller-owned struct gh_err last. On success it
 * is untouched; on failure it names the code, a sentence for a person and, for validation, the JSON
 * Pointer of the field. No heap, so it can report that there is no memory. Threads: any.
 */
#ifndef GH_BASE_ERR_H
#define GH_BASE_ERR_H

enum gh_code {
    GH_OK = 0,
#define X(name, status, slug, title) GH_##name,
#include "err.def"
#undef X
    GH_N_CODES
};

struct gh_err {
    enum gh_code code;
    char detail[320];  /* one sentence, UTF-8, never secret */
    char pointer[160]; /* JSON Pointer of the field, or "" */
};

#define GH_MUST_USE __attribute__((warn_unused_result))
#define GH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* The one macro with hidden control flow: hand a failure up unchanged. */
#define GH_TRY(call)                                                                               \
    do {                                                                                           \
        enum gh_code gh_try_code = (call);                                                         \
        if (gh_try_code != GH_OK) {                                                                \
            return gh_try_code;                                                                    \
        }                                                                                          \
    } while (0)

/* Stays on in release builds: a service that aborts denies. Never for what input can cause. */
#define gh_assert(cond)                                                                            \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            gh_assert_failed(#cond, __FILE__, __LINE__);                                           \
        }                                                                                          \
    } while (0)

/* Print the broken assertion to stderr and abort. */
void gh_assert_failed(const char *cond, const char *file, int line) __attribute__((noreturn));

/* Fill *err (may be NULL) and return `code`. The message is cut to fit. */
enum gh_code gh_fail(struct gh_err *err, enum gh_code code, const char *fmt, ...) GH_PRINTF(3, 4);

/* As gh_fail, for the field at JSON Pointer `pointer` (copied). */
enum gh_code gh_fail_at(struct gh_err *err, enum gh_code code, const char *pointer, const char *fmt,
                        ...) GH_PRINTF(4, 5);

/* The HTTP status of `code`; 200 for GH_OK. */
int gh_code_status(enum gh_code code);

/* The stable slug of `code`; "ok" for GH_OK. Static. */
const char *gh_code_slug(enum gh_code code);

/* The title of `code`. Static. */
const char *gh_code_title(enum gh_code code);

#endif
