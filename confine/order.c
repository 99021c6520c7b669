#include "order.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "sha256.h"

enum { MOST_BYTES = 4 << 20, MOST_AHEAD_S = 15 * 60 };

static void add_name(struct order *order, const char *name, bool built_in)
{
    size_t at = built_in ? order->n_built_in++ : order->names.n;
    util_strs_take(&order->names, util_dup(name));
    char *last = order->names.all[order->names.n - 1];
    memmove(order->names.all + at + 1, order->names.all + at,
            (order->names.n - 1 - at) * sizeof *order->names.all);
    order->names.all[at] = last;
}

void order_init(struct order *order)
{
    static const char *const names[] = {".env", ".env.*", "id_rsa", "id_ed25519"};
    *order = (struct order){0};
    confine_spec_init(&order->spec);
    for (int i = 0; i < 3; i++) {
        order->spec.stdio[i] = i;
    }
    add_name(order, "*.pem", true);
    add_name(order, "*.key", true);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        add_name(order, names[i], false);
    }
}

void order_fini(struct order *order)
{
    util_strs_fini(&order->argv);
    util_strs_fini(&order->write);
    util_strs_fini(&order->read);
    util_strs_fini(&order->deny);
    util_strs_fini(&order->env);
    util_strs_fini(&order->names);
    free(order->compiled);
    free(order->cwd);
    free(order->cache);
    free(order->tmp);
}

/* ---- settings ---- */

/* An absolute path, a relative one below the working directory of this process. */
static char *absolute(const char *path)
{
    if (path[0] == '/') {
        return util_dup(path);
    }
    confine_autofree char *here = getcwd(NULL, 0);
    return util_format("%s/%s", here == NULL ? "" : here, path);
}

static bool choose(const char *value, const char *const *words, int *ret)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(value, words[i]) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

static bool set_opt_in(enum confine_opt_in *opt, const char *value)
{
    static const char *const words[] = {"no", "yes", "contained", NULL};
    int i;
    if (!choose(value, words, &i)) {
        return false;
    }
    *opt = (enum confine_opt_in)i;
    return true;
}

static bool set_flag(bool *flag, const char *value)
{
    static const char *const words[] = {"no", "yes", NULL};
    int i;
    if (!choose(value, words, &i)) {
        return false;
    }
    *flag = i == 1;
    return true;
}

/* "tcp:443,8080" */
static bool set_ports(struct order *order, const char *value)
{
    order->spec.n_tcp_ports = 0;
    while (*value != '\0') {
        char *end;
        unsigned long port = strtoul(value, &end, 10);
        if (end == value || port == 0 || port > 65535 || (*end != ',' && *end != '\0') ||
            order->spec.n_tcp_ports == sizeof order->ports / sizeof *order->ports) {
            return false;
        }
        order->ports[order->spec.n_tcp_ports++] = (uint16_t)port;
        value = end + (*end == ',');
    }
    order->spec.network = CONFINE_NET_TCP;
    return true;
}

static bool set_network(struct order *order, const char *value)
{
    static const char *const words[] = {"unrestricted", "none", "loopback", NULL};
    int i;
    if (strncmp(value, "tcp:", 4) == 0) {
        return set_ports(order, value + 4);
    }
    if (!choose(value, words, &i)) {
        return false;
    }
    order->spec.network = (enum confine_network)i;
    return true;
}

static bool set_namespaces(struct order *order, const char *value)
{
    static const char *const words[] = {"auto", "off", "require", NULL};
    int i;
    if (!choose(value, words, &i)) {
        return false;
    }
    order->spec.namespaces = (enum confine_namespaces)i;
    return true;
}

static bool set_deny(struct order *order, const char *value)
{
    if (value[0] == '\0') {
        return false;
    }
    if (strchr(value, '/') == NULL) {
        add_name(order, value, false);
    } else {
        util_strs_take(&order->deny, absolute(value));
    }
    return true;
}

static bool set_list(struct order *order, const char *key, const char *value)
{
    const struct {
        const char *key;
        struct util_strs *list;
        bool path;
    } rows[] = {{"write", &order->write, true},
                {"read", &order->read, true},
                {"env", &order->env, false},
                {"arg", &order->argv, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(key, rows[i].key) == 0) {
            util_strs_take(rows[i].list, rows[i].path ? absolute(value) : util_dup(value));
            return true;
        }
    }
    return false;
}

static bool set_switch(struct order *order, const char *key, const char *value)
{
    const struct {
        const char *key;
        bool *flag;
    } rows[] = {
        {"share-tmp", &order->spec.share_system_tmp}, {"protect-git", &order->spec.protect_git},
        {"allow-ptrace", &order->spec.allow_ptrace},  {"require", &order->spec.require_enforcement},
        {"inherit-env", &order->spec.inherit_env},    {"own-session", &order->own_session}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(key, rows[i].key) == 0) {
            return set_flag(rows[i].flag, value);
        }
    }
    return false;
}

static bool set_path(char **at, const char *value)
{
    free(*at);
    *at = absolute(value);
    return true;
}

bool order_set(struct order *order, const char *key, const char *value)
{
    if (strcmp(key, "network") == 0) {
        return set_network(order, value);
    }
    if (strcmp(key, "namespaces") == 0) {
        return set_namespaces(order, value);
    }
    if (strcmp(key, "unix-sockets") == 0) {
        return set_opt_in(&order->spec.allow_unix_sockets, value);
    }
    if (strcmp(key, "leave-group") == 0) {
        return set_opt_in(&order->spec.allow_leaving_process_group, value);
    }
    if (strcmp(key, "deny") == 0) {
        return set_deny(order, value);
    }
    if (strcmp(key, "deny-built-in") == 0) {
        add_name(order, value, true);
        return true;
    }
    if (strcmp(key, "cwd") == 0) {
        return set_path(&order->cwd, value);
    }
    if (strcmp(key, "tmp") == 0) {
        return set_path(&order->tmp, value);
    }
    if (strcmp(key, "cache") == 0) {
        return set_path(&order->cache, value);
    }
    return set_list(order, key, value) || set_switch(order, key, value);
}

bool order_parse(struct order *order, char *const *words)
{
    for (; *words != NULL && strcmp(*words, "--") != 0; words++) {
        if (strcmp(*words, "--explain") == 0) {
            order->explain = true;
            continue;
        }
        if (strncmp(*words, "--", 2) != 0 || words[1] == NULL ||
            !order_set(order, *words + 2, words[1])) {
            return false;
        }
        words++;
    }
    while (*words != NULL && *++words != NULL) {
        util_strs_take(&order->argv, util_dup(*words));
    }
    if (order->argv.n == 0 && order->explain) {
        util_strs_take(&order->argv, util_dup("true"));
    }
    return order->argv.n > 0;
}

void order_seal(struct order *order)
{
    struct confine_spec *spec = &order->spec;
    if (order->cwd == NULL) {
        order->cwd = absolute(".");
    }
    if (order->write.n == 0) {
        util_strs_take(&order->write, util_dup(order->cwd));
    }
    order->compiled = util_alloc(order->names.n, sizeof *order->compiled);
    for (size_t i = 0; i < order->names.n; i++) {
        order->compiled[i] = (struct confine_name){order->names.all[i], i < order->n_built_in};
    }
    spec->argv = (const char *const *)order->argv.all;
    spec->cwd = order->cwd;
    spec->cache_dir = order->cache;
    spec->tmp_dir = order->tmp;
    spec->env = (const char *const *)order->env.all;
    spec->write_roots = (const char *const *)order->write.all;
    spec->read_roots = (const char *const *)order->read.all;
    spec->deny_paths = (const char *const *)order->deny.all;
    spec->deny_names = order->compiled;
    spec->n_deny_names = order->names.n;
    spec->tcp_ports = order->ports;
    spec->session = order->own_session ? CONFINE_OWN_SESSION : CONFINE_KEEP_SESSION;
}

/* ---- the file ---- */

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits);
}

/* In place; false for an escape there is not, and for a NUL byte. */
static bool unescape(char *text)
{
    char *to = text;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p != '\\') {
            *to++ = *p;
            continue;
        }
        p++;
        if (*p == '\\' || *p == 'n') {
            *to++ = *p == 'n' ? '\n' : '\\';
        } else if (*p == 'x' && hex_digit(p[1]) >= 0 && hex_digit(p[2]) >= 0 &&
                   hex_digit(p[1]) + hex_digit(p[2]) > 0) {
            *to++ = (char)(hex_digit(p[1]) * 16 + hex_digit(p[2]));
            p += 2;
        } else {
            return false;
        }
    }
    *to = '\0';
    return true;
}

static enum confine_code refuse(struct confine_err *err, const char *why)
{
    return util_fail(err, CONFINE_E_SPEC, EACCES, "The plan file %s.", why);
}

static enum confine_code check_file(const char *path, struct confine_err *err)
{
    struct stat st;
    if (lstat(path, &st) != 0) {
        return refuse(err, "is not there");
    }
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1) {
        return refuse(err, "is no plain file of one name");
    }
    if (st.st_uid != geteuid()) {
        return refuse(err, "belongs to somebody else");
    }
    return (st.st_mode & 07777) == 0600 ? CONFINE_OK : refuse(err, "is not of mode 0600");
}

/* Cut the digest line off and check it. */
static enum confine_code check_digest(char *text, size_t len, struct confine_err *err)
{
    enum { LINE = 7 + 64 + 1 };
    char hex[65];
    if (len < LINE + 1 || strlen(text) != len || text[len - 1] != '\n') {
        return refuse(err, "is cut off");
    }
    char *line = text + len - LINE;
    if (line[-1] != '\n' || strncmp(line, "digest ", 7) != 0) {
        return refuse(err, "has no digest");
    }
    sha256_hex(text, len - LINE, hex);
    if (strncmp(line + 7, hex, 64) != 0) {
        return refuse(err, "was changed");
    }
    *line = '\0';
    return CONFINE_OK;
}

static enum confine_code check_expiry(const char *value, int64_t now_s, struct confine_err *err)
{
    char *end;
    errno = 0;
    long long expires = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || expires > now_s + MOST_AHEAD_S) {
        return refuse(err, "has no sound expiry");
    }
    return expires > now_s ? CONFINE_OK : refuse(err, "has expired");
}

static enum confine_code take_lines(struct order *order, char *text, int64_t now_s,
                                    struct confine_err *err)
{
    char *rest = NULL;
    char *line = strtok_r(text, "\n", &rest);
    bool dated = false;
    if (line == NULL || strcmp(line, "gatehouse-plan 1") != 0) {
        return refuse(err, "is of another kind");
    }
    while ((line = strtok_r(NULL, "\n", &rest)) != NULL) {
        char *value = strchr(line, ' ');
        if (value == NULL || !unescape(value + 1)) {
            return refuse(err, "has a line that cannot be read");
        }
        *value++ = '\0';
        if (strcmp(line, "expires") == 0) {
            CONFINE_TRY(check_expiry(value, now_s, err));
            dated = true;
        } else if (!order_set(order, line, value)) {
            return refuse(err, "has a setting that is not known");
        }
    }
    return dated ? CONFINE_OK : refuse(err, "never expires");
}

enum confine_code order_read(struct order *order, const char *path, int64_t now_s,
                             struct confine_err *err)
{
    CONFINE_TRY(check_file(path, err));
    size_t len = 0;
    confine_autofree char *text = util_slurp(path, MOST_BYTES, &len);
    if (text == NULL) {
        return refuse(err, "cannot be read");
    }
    CONFINE_TRY(check_digest(text, len, err));
    order->spec.inherit_env = true;
    CONFINE_TRY(take_lines(order, text, now_s, err));
    if (order->argv.n == 0 || order->cwd == NULL || order->write.n == 0) {
        return refuse(err, "lacks arg, cwd or write");
    }
    order_seal(order);
    return CONFINE_OK;
}
