/* words: what a text in the configuration may be. Each returns NULL when `text` is fine, else a
 * static sentence that says what is wrong. The texts themselves are never shown: they may be
 * secrets. Pure. Threads: any.
 */
#ifndef GH_CONFIG_WORDS_H
#define GH_CONFIG_WORDS_H

const char *words_deny(const char *text);       /* an entry of the deny list */
const char *words_path(const char *text);       /* absolute or below ~ */
const char *words_socket(const char *text);     /* a socket's path, or "" */
const char *words_ignore(const char *text);     /* a git ignore pattern */
const char *words_host(const char *text);       /* a host name or literal address, no port */
const char *words_origin(const char *text);     /* scheme://host[:port] */
const char *words_url(const char *text);        /* http or https */
const char *words_event(const char *text);      /* "approval.created", "session.*" */
const char *words_name(const char *text);       /* a command's name */
const char *words_token_name(const char *text); /* as auth's */
const char *words_program(const char *text);    /* not empty, no control characters */
const char *words_env(const char *text);        /* NAME=VALUE */

#endif
