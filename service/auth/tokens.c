#include "auth/auth.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "auth/folder.h"
#include "base/auto.h"
#include "base/clock.h"

static enum gh_code check_new(const char *name, enum auth_role role, int64_t expires_ms,
                              struct gh_err *err)
{
    if (!record_name_valid(name)) {
        return gh_fail(err, GH_INVALID,
                       "A token's name has 1 to 64 letters, digits, dots, dashes or underscores, "
                       "and starts with a letter, digit or underscore.");
    }
    if (role < AUTH_AGENT || role > AUTH_METRICS) {
        return gh_fail(err, GH_INVALID, "A role is agent, viewer, approver or metrics.");
    }
    /* Our own clients take these by their name; with another role an agent's client would carry an
     * approver's secret. */
    if (record_is_own(name) && strcmp(name, auth_role_name(role)) != 0) {
        return gh_fail(err, GH_INVALID, "The token named %s must have that role.", name);
    }
    if (expires_ms < -1) {
        return gh_fail(err, GH_INVALID, "The time of expiry lies before 1970.");
    }
    return GH_OK;
}

/* The lock is held. The secret's file comes first: a crash between the two leaves a secret that
 * opens nothing, never a record whose secret is lost. */
static enum gh_code add_locked(const struct folder *folder, struct record *record,
                               char ret_secret[AUTH_SECRET], struct gh_err *err)
{
    const char *name = record->token.name;
    struct record old;
    enum gh_code code = folder_read(folder, name, &old, err);
    if (code == GH_OK && record_is_valid(&old, record->token.created_ms)) {
        return gh_fail(err, GH_CONFLICT, "A token named %s exists; revoke it first.", name);
    }
    if (code != GH_OK && code != GH_NOT_FOUND) {
        return code;
    }
    char secret[AUTH_SECRET];
    record_secret(secret, record->digest);
    if (record_is_own(name)) {
        GH_TRY(folder_check_secret(folder, name, err));
        GH_TRY(folder_write_secret(folder, name, secret, err));
    }
    GH_TRY(folder_write(folder, record, err));
    memcpy(ret_secret, secret, AUTH_SECRET);
    explicit_bzero(secret, sizeof secret);
    return GH_OK;
}

enum gh_code auth_tokens_add(const char *state_dir, const char *name, enum auth_role role,
                             int64_t expires_ms, bool is_login, char ret_secret[AUTH_SECRET],
                             struct auth_token *ret, struct gh_err *err)
{
    gh_auto(folder_close) struct folder folder = FOLDER_INIT;
    GH_TRY(check_new(name, role, expires_ms, err));
    GH_TRY(folder_open(state_dir, &folder, err));
    GH_TRY(folder_lock(&folder, err));
    struct record record = {.token = {.role = role,
                                      .created_ms = gh_clock_wall_ms(),
                                      .expires_ms = expires_ms,
                                      .revoked_ms = -1,
                                      .is_login = is_login}};
    gh_id_new("tok", record.token.id);
    snprintf(record.token.name, sizeof record.token.name, "%s", name);
    GH_TRY(add_locked(&folder, &record, ret_secret, err));
    if (ret != NULL) {
        *ret = record.token;
    }
    return GH_OK;
}

/* By id first: no name can look like an id. A garbage record beside it stops no revocation. */
static enum gh_code find_record(const struct folder *folder, const char *name_or_id,
                                struct record *ret, struct gh_err *err)
{
    if (record_name_valid(name_or_id)) {
        enum gh_code code = folder_read(folder, name_or_id, ret, err);
        return code != GH_NOT_FOUND
                   ? code
                   : gh_fail(err, GH_NOT_FOUND, "There is no token named %s.", name_or_id);
    }
    gh_auto(records_fini) struct records records = {NULL, 0, 0};
    if (gh_id_valid(name_or_id, "tok")) {
        GH_TRY(folder_read_all(folder, FOLDER_SKIP, &records, err));
    }
    for (size_t i = 0; i < records.n; i++) {
        if (strcmp(records.all[i].token.id, name_or_id) == 0) {
            *ret = records.all[i];
            return GH_OK;
        }
    }
    return gh_fail(err, GH_NOT_FOUND, "There is no such token.");
}

enum gh_code auth_tokens_revoke(const char *state_dir, const char *name_or_id, struct gh_err *err)
{
    gh_auto(folder_close) struct folder folder = FOLDER_INIT;
    struct record record;
    GH_TRY(folder_open(state_dir, &folder, err));
    GH_TRY(folder_lock(&folder, err));
    GH_TRY(find_record(&folder, name_or_id, &record, err));
    if (record.token.revoked_ms < 0) {
        record.token.revoked_ms = gh_clock_wall_ms();
        GH_TRY(folder_write(&folder, &record, err));
    }
    return record_is_own(record.token.name)
               ? folder_remove(&folder, record.token.name, ".token", err)
               : GH_OK;
}

enum gh_code auth_tokens_each(const char *state_dir,
                              void (*fn)(const struct auth_token *token, void *cookie),
                              void *cookie, struct gh_err *err)
{
    gh_auto(folder_close) struct folder folder = FOLDER_INIT;
    gh_auto(records_fini) struct records records = {NULL, 0, 0};
    GH_TRY(folder_open(state_dir, &folder, err));
    GH_TRY(folder_read_all(&folder, FOLDER_STRICT, &records, err));
    for (size_t i = 0; i < records.n; i++) {
        fn(&records.all[i].token, cookie);
    }
    return GH_OK;
}

/* A record that exists, revoked or not, is a decision: it is left alone. */
static enum gh_code prepare_own(const char *state_dir, const struct folder *folder,
                                enum auth_role role, struct gh_err *err)
{
    const char *name = auth_role_name(role);
    struct record record;
    GH_TRY(folder_check_secret(folder, name, err));
    enum gh_code code = folder_read(folder, name, &record, err);
    if (code != GH_NOT_FOUND) {
        return code;
    }
    char secret[AUTH_SECRET];
    code = auth_tokens_add(state_dir, name, role, -1, false, secret, NULL, err);
    explicit_bzero(secret, sizeof secret);
    return code == GH_CONFLICT ? GH_OK : code;
}

enum gh_code auth_tokens_prepare(const char *state_dir, struct gh_err *err)
{
    gh_auto(folder_close) struct folder folder = FOLDER_INIT;
    GH_TRY(folder_open(state_dir, &folder, err));
    GH_TRY(prepare_own(state_dir, &folder, AUTH_APPROVER, err));
    return prepare_own(state_dir, &folder, AUTH_AGENT, err);
}

enum gh_code auth_secret_read(const char *file, char ret_secret[AUTH_SECRET], struct gh_err *err)
{
    char text[256];
    size_t len = 0;
    GH_TRY(folder_read_file(AT_FDCWD, file, text, sizeof text, &len, err));
    len -= len > 0 && text[len - 1] == '\n' ? 1 : 0;
    bool is_valid = record_secret_valid(text, len);
    if (is_valid) {
        memcpy(ret_secret, text, len);
        ret_secret[len] = '\0';
    }
    explicit_bzero(text, sizeof text);
    return is_valid ? GH_OK : gh_fail(err, GH_IO, "%s does not hold a token.", file);
}
