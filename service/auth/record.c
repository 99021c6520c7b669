#include "auth/record.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"

#define LAST_MS 253402300799999 /* the end of the year 9999: what RFC 3339 can show */

static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
static const char name_bytes[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

static const struct {
    const char *name;
    enum auth_role role;
} roles[] = {
    {"agent", AUTH_AGENT},
    {"viewer", AUTH_VIEWER},
    {"approver", AUTH_APPROVER},
    {"metrics", AUTH_METRICS},
};

const char *auth_role_name(enum auth_role role)
{
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (roles[i].role == role) {
            return roles[i].name;
        }
    }
    return "none";
}

enum auth_role auth_role_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(roles[i].name, name) == 0) {
            return roles[i].role;
        }
    }
    return AUTH_NONE;
}

bool record_name_valid(const char *name)
{
    size_t len = strnlen(name, AUTH_NAME);
    return len > 0 && len < AUTH_NAME && strspn(name, name_bytes) == len && name[0] != '.' &&
           name[0] != '-' && !gh_id_valid(name, "tok");
}

bool record_is_own(const char *name)
{
    return strcmp(name, "agent") == 0 || strcmp(name, "approver") == 0;
}

bool record_is_valid(const struct record *record, int64_t now_ms)
{
    const struct auth_token *token = &record->token;
    return token->revoked_ms < 0 && (token->expires_ms < 0 || now_ms < token->expires_ms);
}

static void write_time(struct gh_jw *w, const char *key, int64_t ms)
{
    if (ms < 0) {
        gh_jw_null(w, key);
    } else {
        gh_jw_int(w, key, ms);
    }
}

void record_write(const struct record *record, struct gh_buf *out)
{
    char hex[GH_HEX];
    gh_id_hex(record->digest, hex);
    struct gh_jw w = {.buf = out};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "id", record->token.id);
    gh_jw_str(&w, "name", record->token.name);
    gh_jw_str(&w, "role", auth_role_name(record->token.role));
    gh_jw_str(&w, "sha256", hex);
    gh_jw_int(&w, "created_ms", record->token.created_ms);
    write_time(&w, "expires_ms", record->token.expires_ms);
    write_time(&w, "revoked_ms", record->token.revoked_ms);
    gh_jw_bool(&w, "login", record->token.is_login);
    gh_jw_end(&w);
    gh_buf_putc(out, '\n');
}

/* 64 lower-case hex digits. */
static bool read_hex(const char *text, unsigned char out[GH_SHA256])
{
    static const char hex[] = "0123456789abcdef";
    if (strlen(text) != GH_HEX - 1 || strspn(text, hex) != GH_HEX - 1) {
        return false;
    }
    for (size_t i = 0; i < GH_SHA256; i++) {
        out[i] = (unsigned char)((strchr(hex, text[2 * i]) - hex) << 4 |
                                 (strchr(hex, text[2 * i + 1]) - hex));
    }
    return true;
}

static enum gh_code read_fields(const struct json_t *json, struct record *record,
                                struct gh_err *err)
{
    static const char *const names[] = {"id",         "name",       "role",  "sha256", "created_ms",
                                        "expires_ms", "revoked_ms", "login", NULL};
    const char *id = NULL;
    const char *name = NULL;
    const char *role = NULL;
    const char *hex = NULL;
    struct auth_token *token = &record->token;
    GH_TRY(gh_json_only(json, "", names, err));
    GH_TRY(gh_json_str(json, "", "id", GH_NEED, GH_ID - 1, &id, err));
    GH_TRY(gh_json_str(json, "", "name", GH_NEED, AUTH_NAME - 1, &name, err));
    GH_TRY(gh_json_str(json, "", "role", GH_NEED, 16, &role, err));
    GH_TRY(gh_json_str(json, "", "sha256", GH_NEED, GH_HEX - 1, &hex, err));
    GH_TRY(gh_json_int(json, "", "created_ms", GH_NEED, 0, LAST_MS, &token->created_ms, err));
    GH_TRY(gh_json_int(json, "", "expires_ms", GH_OPTIONAL, 0, LAST_MS, &token->expires_ms, err));
    GH_TRY(gh_json_int(json, "", "revoked_ms", GH_OPTIONAL, 0, LAST_MS, &token->revoked_ms, err));
    GH_TRY(gh_json_bool(json, "", "login", &token->is_login, err));
    token->role = auth_role_find(role);
    if (!gh_id_valid(id, "tok") || !record_name_valid(name) || token->role == AUTH_NONE ||
        !read_hex(hex, record->digest)) {
        return gh_fail(err, GH_INVALID, "A field has a value that is not allowed.");
    }
    memcpy(token->id, id, strlen(id) + 1);
    memcpy(token->name, name, strlen(name) + 1);
    return GH_OK;
}

enum gh_code record_read(const char *file, const char *data, size_t len, struct record *ret,
                         struct gh_err *err)
{
    gh_auto(gh_json_freep) struct json_t *json = NULL;
    struct record record = {.token = {.expires_ms = -1, .revoked_ms = -1}};
    char expected[RECORD_FILE];
    enum gh_code code = gh_json_parse(data, len, &json, NULL);
    if (code == GH_OK) {
        code = read_fields(json, &record, NULL);
    }
    snprintf(expected, sizeof expected, "%s.json", record.token.name);
    /* A record under another name would be a second token that revoking the first leaves alive. */
    if (code == GH_OK && strcmp(expected, file) == 0) {
        *ret = record;
        return GH_OK;
    }
    if (code == GH_NOMEM) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory to read tokens/%s.", file);
    }
    return gh_fail(err, GH_IO, "tokens/%s is not a token record; restore it or take it away.",
                   file);
}

/* Five bits a digit, from `raw`, which has 5 * n bits or is padded with zeros. */
static void encode(const unsigned char *raw, size_t len, char *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t bit = i * 5;
        unsigned low = bit / 8 + 1 < len ? raw[bit / 8 + 1] : 0;
        unsigned pair = (unsigned)raw[bit / 8] << 8 | low;
        out[i] = digits[pair >> (11 - bit % 8) & 31];
    }
    out[n] = '\0';
}

void record_secret(char ret_secret[AUTH_SECRET], unsigned char ret_digest[GH_SHA256])
{
    unsigned char raw[32];
    gh_id_random(raw, sizeof raw);
    memcpy(ret_secret, "gh_", 3);
    encode(raw, sizeof raw, ret_secret + 3, SECRET_CHARS - 3);
    gh_id_sha256(ret_secret, SECRET_CHARS, ret_digest);
    explicit_bzero(raw, sizeof raw);
}

bool record_secret_valid(const char *text, size_t len)
{
    return len == SECRET_CHARS && memcmp(text, "gh_", 3) == 0 &&
           strspn(text + 3, digits) >= SECRET_CHARS - 3;
}

void record_random(char *out, size_t n)
{
    unsigned char raw[32];
    gh_assert(n * 5 <= sizeof raw * 8);
    gh_id_random(raw, sizeof raw);
    encode(raw, sizeof raw, out, n);
    explicit_bzero(raw, sizeof raw);
}
