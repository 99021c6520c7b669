#include "http/inner.h"

#include <string.h>
#include <strings.h>

/* Fields that mean something here and are defined once: a second one would leave it to each reader
 * which counts. */
enum single {
    ONE_HOST = 0,
    ONE_LENGTH,
    ONE_CODING,
    ONE_EXPECT,
    ONE_TYPE,
    ONE_AUTH,
    ONE_ORIGIN,
    ONE_SITE,
    ONE_MATCH,
    ONE_KEY,
    N_SINGLES
};

static const struct {
    const char *name;
    size_t len;
} singles[N_SINGLES] = {
    [ONE_HOST] = {"Host", 4},
    [ONE_LENGTH] = {"Content-Length", 14},
    [ONE_CODING] = {"Transfer-Encoding", 17},
    [ONE_EXPECT] = {"Expect", 6},
    [ONE_TYPE] = {"Content-Type", 12},
    [ONE_AUTH] = {"Authorization", 13},
    [ONE_ORIGIN] = {"Origin", 6},
    [ONE_SITE] = {"Sec-Fetch-Site", 14},
    [ONE_MATCH] = {"If-Match", 8},
    [ONE_KEY] = {"Idempotency-Key", 15},
};

struct scan {
    const char *value[N_SINGLES]; /* NULL: not sent */
    const char *wrong;            /* what is wrong, or NULL */
    const char *next;             /* where the next line must begin */
};

enum http_method http_head_method(const char *name)
{
    static const struct {
        const char *name;
        enum http_method method;
    } methods[] = {{"GET", HTTP_GET},        {"POST", HTTP_POST},     {"HEAD", HTTP_HEAD},
                   {"PUT", HTTP_PUT},        {"DELETE", HTTP_DELETE}, {"PATCH", HTTP_PATCH},
                   {"OPTIONS", HTTP_OPTIONS}};
    for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++) {
        if (strcmp(name, methods[i].name) == 0) {
            return methods[i].method;
        }
    }
    return HTTP_OTHER;
}

/* RFC 9110's token. */
static bool is_token(const char *s, size_t len)
{
    static const bool odd[128] = {
        ['!'] = true,  ['#'] = true, ['$'] = true, ['%'] = true, ['&'] = true,
        ['\''] = true, ['*'] = true, ['+'] = true, ['-'] = true, ['.'] = true,
        ['^'] = true,  ['_'] = true, ['`'] = true, ['|'] = true, ['~'] = true};
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        bool alnum = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        if (c >= 128 || (!alnum && !odd[c])) {
            return false;
        }
    }
    return len > 0;
}

static bool is_text(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

static enum MHD_Result look(void *cookie, enum MHD_ValueKind kind, const char *name,
                            size_t name_len, const char *value, size_t len)
{
    (void)kind;
    struct scan *scan = cookie;
    if (value == http_no_cookie) {
        return MHD_YES;
    }
    if (name != scan->next) {
        scan->wrong = "the header lines are not plain";
        return MHD_NO;
    }
    scan->next = value + len + 2;
    if (!is_token(name, name_len)) {
        scan->wrong = "a header name has a character that is not allowed";
        return MHD_NO;
    }
    if (!is_text(value, len)) {
        scan->wrong = "a header value has a control byte";
        return MHD_NO;
    }
    for (size_t i = 0; i < N_SINGLES; i++) {
        if (singles[i].len != name_len || strcasecmp(singles[i].name, name) != 0) {
            continue;
        }
        if (scan->value[i] != NULL) {
            scan->wrong = "a header that may stand once stands twice";
            return MHD_NO;
        }
        scan->value[i] = value;
    }
    return MHD_YES;
}

static bool parse_length(const char *text, uint64_t *ret)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 18 || text[n] != '\0') {
        return false;
    }
    *ret = strtoull(text, NULL, 10);
    return true;
}

/* One way to tell where the body ends. */
static enum gh_code check_framing(struct http_exchange *x, const struct scan *scan, bool is_11,
                                  uint64_t *ret_length, struct gh_err *err)
{
    const char *coding = scan->value[ONE_CODING];
    const char *length = scan->value[ONE_LENGTH];
    *ret_length = 0;
    if (coding != NULL && length != NULL) {
        return gh_fail(err, GH_BAD_REQUEST, "Content-Length and Transfer-Encoding together");
    }
    if (coding != NULL && (strcasecmp(coding, "chunked") != 0 || !is_11)) {
        return gh_fail(err, GH_BAD_REQUEST, "this Transfer-Encoding is not taken");
    }
    if (length != NULL && !parse_length(length, ret_length)) {
        return gh_fail(err, GH_BAD_REQUEST, "Content-Length is no number");
    }
    x->has_body = coding != NULL || *ret_length > 0;
    return GH_OK;
}

/* Look at all lines. The library hands out C strings that lie in the buffer the request was read
 * to, so what it hides shows as a gap: a NUL, a bare LF, a folded line (which it glues to the
 * *name*), or an empty name (which it takes for the end of the head, and reads on from there as the
 * body). */
static void scan_lines(const struct http_exchange *x, const char *version, struct scan *scan)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const char *end = x->method_name + (info != NULL ? info->header_size : 0);
    scan->next = version + strlen(version) + 2;
    MHD_get_connection_values_n(x->mhd, MHD_HEADER_KIND, look, scan);
    if (scan->wrong == NULL && scan->next + 2 != end) {
        scan->wrong = "the header lines are not plain";
    }
}

/* The request line is "METHOD TARGET VERSION", one blank each, no NUL. */
static bool is_plain_line(const struct http_exchange *x, const char *version)
{
    return x->raw_target == x->method_name + strlen(x->method_name) + 1 &&
           version == x->raw_target + x->target_len + 1 &&
           is_token(x->method_name, strlen(x->method_name));
}

enum gh_code http_head_check(struct http_exchange *x, const char *version, struct gh_err *err)
{
    struct scan scan = {0};
    uint64_t length = 0;
    bool is_11 = strcmp(version, "HTTP/1.1") == 0;
    x->has_body = true; /* until it is known: a refusal closes */
    x->closing = true;
    if (x->refused != GH_OK) {
        return gh_fail(err, (enum gh_code)x->refused, "the request target is not acceptable");
    }
    if (!is_plain_line(x, version) || (!is_11 && strcmp(version, "HTTP/1.0") != 0)) {
        return gh_fail(err, GH_BAD_REQUEST, "the request line is not acceptable");
    }
    scan_lines(x, version, &scan);
    if (scan.wrong != NULL) {
        return gh_fail(err, GH_BAD_REQUEST, "%s", scan.wrong);
    }
    GH_TRY(check_framing(x, &scan, is_11, &length, err));
    x->announced = length;
    x->closing = x->has_body;
    const char *expect = scan.value[ONE_EXPECT];
    if (expect != NULL && strcasecmp(expect, "100-continue") != 0) {
        return gh_fail(err, GH_EXPECTATION, "only 100-continue can be expected");
    }
    return GH_OK;
}
