#include "http/inner.h"

#include <string.h>

#include "base/clock.h"
#include "base/id.h"

enum http_method http_method(const struct http_exchange *x)
{
    return (enum http_method)x->method;
}

const char *http_method_name(const struct http_exchange *x)
{
    return x->method_name;
}

const char *http_path(const struct http_exchange *x)
{
    return x->text;
}

void http_query_each(const struct http_exchange *x,
                     void (*fn)(const char *name, const char *value, void *cookie), void *cookie)
{
    const char *name = x->text + strlen(x->text) + 1;
    for (uint16_t i = 0; i < x->n_params; i++) {
        const char *value = name + strlen(name) + 1;
        fn(name, value, cookie);
        name = value + strlen(value) + 1;
    }
}

const char *http_query(const struct http_exchange *x, const char *name)
{
    const char *at = x->text + strlen(x->text) + 1;
    for (uint16_t i = 0; i < x->n_params; i++) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, name) == 0) {
            return value;
        }
        at = value + strlen(value) + 1;
    }
    return NULL;
}

const char *http_header(const struct http_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, name);
}

const char *http_body(const struct http_exchange *x, size_t *ret_len)
{
    if (ret_len != NULL) {
        *ret_len = x->body.len;
    }
    return gh_buf_str(&x->body);
}

void http_body_drop(struct http_exchange *x)
{
    gh_buf_fini(&x->body);
}

const char *http_trace_id(const struct http_exchange *x)
{
    /* Made when first asked for: most requests never need one. */
    struct http_exchange *own = (struct http_exchange *)x;
    if (own->trace[0] != '\0') {
        return own->trace;
    }
    const char *sent = http_header(x, "traceparent");
    if (sent == NULL || !http_target_trace(sent, own->trace)) {
        unsigned char digest[GH_SHA256] = {0};
        char hex[GH_HEX];
        gh_id_random(digest, 16);
        gh_id_hex(digest, hex);
        memcpy(own->trace, hex, 32);
        own->trace[32] = '\0';
    }
    return own->trace;
}

void http_allow_origin(struct http_exchange *x, const char *origin)
{
    x->origin = origin;
}

void http_refusal_header(struct http_exchange *x, const char *name, const char *value)
{
    x->refusal = (struct http_header){name, value};
}

void http_set_user(struct http_exchange *x, void *user, void (*fini)(void *user))
{
    x->user = user;
    x->fini = fini;
}

void *http_user(const struct http_exchange *x)
{
    return x->user;
}

void http_watch(struct http_exchange *x, http_gone_fn *gone, void *cookie)
{
    /* From now on two threads may ask at once: what is made on demand is made here. */
    (void)http_trace_id(x);
    (void)http_peer(x);
    x->watched_ms = gh_clock_boot_ms();
    x->gone_cookie = cookie;
    x->gone = gone;
    http_watch_add(x);
}
