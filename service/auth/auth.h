/* auth: who is asking. Tokens as files, roles, login codes, and a limiter for failures.
 *
 * Token records are files <state>/tokens/NAME.json (0600 in 0700): id, name, role, SHA-256 of the
 * secret, times, `login` for those made by a login code. The secret is shown once; only
 * approver.token and agent.token (written at first start) hold secrets, for our own clients. The
 * CLI changes the folder under a lock file; the service sees changes by inotify and reads again.
 * Contract, section 2. Threads: any.
 */
#ifndef GH_AUTH_AUTH_H
#define GH_AUTH_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"

enum auth_role { AUTH_NONE = 0, AUTH_AGENT, AUTH_VIEWER, AUTH_APPROVER, AUTH_METRICS };

#define AUTH_NAME 65   /* bytes of a token name with the NUL: [A-Za-z0-9._-]{1,64} */
#define AUTH_SECRET 64 /* bytes of a secret with the NUL: "gh_" and 256 bits in base 32 */

struct auth_token {
    char id[GH_ID]; /* "tok_..." */
    char name[AUTH_NAME];
    enum auth_role role;
    int64_t created_ms; /* wall clock */
    int64_t expires_ms; /* wall clock; -1: never */
    int64_t revoked_ms; /* wall clock; -1: not revoked */
    bool is_login;      /* made by a login code */
};

/* The word of the API for a role, static, and back. */
const char *auth_role_name(enum auth_role role);
enum auth_role auth_role_find(const char *name); /* AUTH_NONE when it is none */

/* ---- the token folder; used by the service and the CLI ---- */

/* Add a token. Writes its secret to `ret_secret`, once. A revoked or expired token of that name is
 * replaced. "agent" and "approver" must have the role of their name; their NAME.token is written
 * as well. `ret` may be NULL. Fails with GH_CONFLICT (the name is taken), GH_INVALID (name or
 * role), GH_IO (also: folder or file modes too wide), GH_BUSY (no descriptors left). */
GH_MUST_USE enum gh_code auth_tokens_add(const char *state_dir, const char *name,
                                         enum auth_role role, int64_t expires_ms, bool is_login,
                                         char ret_secret[AUTH_SECRET], struct auth_token *ret,
                                         struct gh_err *err);

/* Mark the token with this name or id revoked, and take its NAME.token away; nothing happens when
 * it is already. Fails with GH_NOT_FOUND, GH_IO. */
GH_MUST_USE enum gh_code auth_tokens_revoke(const char *state_dir, const char *name_or_id,
                                            struct gh_err *err);

/* Call `fn` for each record, sorted by id. Fails with GH_IO: a file with wrong owner, wider mode, a
 * link or garbage content is named and refused. */
GH_MUST_USE enum gh_code auth_tokens_each(const char *state_dir,
                                          void (*fn)(const struct auth_token *token, void *cookie),
                                          void *cookie, struct gh_err *err);

/* Make the folder, and approver.token and agent.token with their records when there is no record:
 * a revoked one is a decision and stays. Fails with GH_IO: wide modes, links, garbage. */
GH_MUST_USE enum gh_code auth_tokens_prepare(const char *state_dir, struct gh_err *err);

/* Read the secret in `file` (0600, ours, no link). Fails with GH_NOT_FOUND or GH_IO. */
GH_MUST_USE enum gh_code auth_secret_read(const char *file, char ret_secret[AUTH_SECRET],
                                          struct gh_err *err);

/* ---- the service's view ---- */

struct auth;

/* A token stopped being valid (revoked or expired): close what it holds open. Called on auth's own
 * thread within a second of the change. */
typedef void auth_dropped_fn(const char *token_id, void *cookie);

/* Load the folder and watch it. Dead records are removed in time: those of logins at once, others
 * 30 days later. A record that goes bad while the service runs costs its own token; when the folder
 * is moved or removed, no token is valid any more. `dropped` may be NULL. *ret is owned by caller
 * (auth_free). Fails as auth_tokens_each. */
GH_MUST_USE enum gh_code auth_new(const char *state_dir, auth_dropped_fn *dropped, void *cookie,
                                  struct auth **ret, struct gh_err *err);
void auth_free(struct auth *auth);

/* Check an Authorization header (NULL: none). `peer_key` is what failures are counted by.
 * On success *ret is a copy. Fails with GH_UNAUTHORIZED (says where our own clients find the
 * token) or GH_TOO_MANY (*ret_retry_s set): a valid token always passes. Without a header nothing
 * was guessed and nothing is counted. The first failure of a burst and the limit are logged. */
GH_MUST_USE enum gh_code auth_check(struct auth *auth, const char *authorization,
                                    const char *peer_key, struct auth_token *ret, int *ret_retry_s,
                                    struct gh_err *err);

/* Call `fn` for each token known now (no secrets). */
void auth_each(struct auth *auth, void (*fn)(const struct auth_token *token, void *cookie),
               void *cookie);

/* Number of wrong credentials and codes since the start. */
uint64_t auth_failures(struct auth *auth);

/* Make a login code: 128 bits, one use, 60 s, at most 8 open, for a viewer or an approver. Fails
 * with GH_LIMIT or GH_INVALID. */
GH_MUST_USE enum gh_code auth_code_new(struct auth *auth, enum auth_role role, char ret_code[40],
                                       int64_t *ret_expires_ms, struct gh_err *err);

/* Exchange a code for a login token (12 h). A wrong code counts as a failed check of `peer_key`.
 * Fails with GH_UNAUTHORIZED, GH_TOO_MANY, GH_IO. */
GH_MUST_USE enum gh_code auth_code_redeem(struct auth *auth, const char *code, const char *peer_key,
                                          char ret_secret[AUTH_SECRET], struct auth_token *ret,
                                          int *ret_retry_s, struct gh_err *err);

#endif
