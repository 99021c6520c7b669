#include "gate/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"

enum { MAX_LINKS = 40 }; /* the kernel's own bound */

/* A path under construction: always absolute, no trailing slash; the root is the empty string. */
struct walk {
    char out[PATH_MAX];
    size_t len;
    char todo[2 * PATH_MAX]; /* what is still to be walked, filled from the end */
    size_t at;               /* start of the rest in todo */
    size_t own; /* bytes at the end of todo that come from the client, not from links */
    int links;
    const char *working_dir;
    char *leaf;          /* owned */
    struct gh_buf *hops; /* borrowed */
};

void gate_path_fini(struct gate_path *path)
{
    free(path->kernel);
    free(path->lexical);
    free(path->spelled);
    free(path->leaf);
    free(path->lexical_leaf);
    free(path->hops);
    *path = (struct gate_path){0};
}

bool gate_path_within(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    while (len > 0 && dir[len - 1] == '/') {
        len--;
    }
    return strncmp(path, dir, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

const char *gate_path_hop(const struct gate_path *path, const char *hop)
{
    if (path->hops == NULL) {
        return NULL;
    }
    const char *next = hop == NULL ? path->hops : hop + strlen(hop) + 1;
    return *next != '\0' ? next : NULL;
}

/* Make `text` absolute: "~", then the working directory. False when it becomes too long. */
static bool make_absolute(const char *text, const char *working_dir, const char *home,
                          char out[PATH_MAX])
{
    const char *base = NULL;
    if (text[0] == '~' && (text[1] == '\0' || text[1] == '/') && home != NULL && *home != '\0') {
        base = home;
        text++;
    } else if (text[0] != '/') {
        base = working_dir;
    }
    size_t base_len = base != NULL ? strlen(base) : 0;
    size_t text_len = strlen(text);
    if (base_len + 1 + text_len >= PATH_MAX) {
        return false;
    }
    if (base != NULL) {
        memcpy(out, base, base_len);
        out[base_len++] = '/';
    }
    memcpy(out + base_len, text, text_len + 1);
    return true;
}

/* Drop the last component of a path without trailing slash. */
static size_t drop_last(const char *path, size_t len)
{
    while (len > 0 && path[len - 1] != '/') {
        len--;
    }
    return len > 0 ? len - 1 : 0;
}

/* Remove "//", "." and "..", by text alone. Returns whether there was a "..". `out` holds
 * PATH_MAX bytes and `path` is shorter. */
static bool fold_lexically(const char *path, char *out)
{
    size_t len = 0;
    bool has_up = false;
    for (const char *at = path; *at != '\0';) {
        at += strspn(at, "/");
        size_t n = strcspn(at, "/");
        if (n == 2 && at[0] == '.' && at[1] == '.') {
            has_up = true;
            len = drop_last(out, len);
        } else if (n > 0 && !(n == 1 && at[0] == '.')) {
            out[len++] = '/';
            memcpy(out + len, at, n);
            len += n;
        }
        at += n;
    }
    if (len == 0) {
        out[len++] = '/';
    }
    out[len] = '\0';
    return has_up;
}

/* What one openat2 says about the links of a path. */
enum probe { PROBE_PLAIN, PROBE_STOPPED, PROBE_UNSURE };

/* PLAIN: every component exists and none is a link. STOPPED: no link up to the first component that
 * is missing or cannot be entered, so nothing further can be followed. */
static enum probe probe_links(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (fd >= 0) {
        close((int)fd);
        return PROBE_PLAIN;
    }
    return errno == ENOENT || errno == ENOTDIR ? PROBE_STOPPED : PROBE_UNSURE;
}

static bool is_digits(const char *text, size_t len)
{
    return len > 0 && strspn(text, "0123456789") >= len;
}

/* The part of a normalised path below /proc/<process>/ or /proc/<process>/task/<thread>/, or NULL.
 * `*ret_self` tells whether the process is "self". */
static const char *below_process(const char *path, bool *ret_self)
{
    if (strncmp(path, "/proc/", 6) != 0) {
        return NULL;
    }
    const char *at = path + 6;
    size_t len = strcspn(at, "/");
    *ret_self = len == 4 && memcmp(at, "self", 4) == 0;
    bool is_process =
        *ret_self || is_digits(at, len) || (len == 11 && memcmp(at, "thread-self", 11) == 0);
    if (!is_process || at[len] == '\0') {
        return NULL;
    }
    at += len + 1;
    if (strncmp(at, "task/", 5) == 0) {
        const char *thread = strchr(at + 5, '/');
        return thread != NULL ? thread + 1 : NULL;
    }
    return at;
}

static bool is_magic(const char *path)
{
    static const char *const names[] = {"cwd", "root", "exe", "fd", "map_files", "ns"};
    bool is_self;
    const char *rest = below_process(path, &is_self);
    for (size_t i = 0; rest != NULL && i < sizeof names / sizeof *names; i++) {
        size_t len = strlen(names[i]);
        if (strncmp(rest, names[i], len) == 0 && (rest[len] == '/' || rest[len] == '\0')) {
            return true;
        }
    }
    return rest == NULL && gate_path_within(path, "/proc/thread-self");
}

static enum gh_code refuse_magic(struct gh_err *err)
{
    return gh_fail(err, GH_INVALID,
                   "The path goes through a process's own links in /proc, which mean different "
                   "things to different programs.");
}

static enum gh_code refuse_long(struct gh_err *err)
{
    return gh_fail(err, GH_INVALID, "The path is longer than %d bytes.", PATH_MAX - 1);
}

/* Put `text` before what is still to be walked. */
static bool push_todo(struct walk *w, const char *text, size_t len)
{
    if (len + 1 > w->at) {
        return false;
    }
    w->todo[--w->at] = '/';
    w->at -= len;
    memcpy(w->todo + w->at, text, len);
    return true;
}

/* Replace what is built so far; `path` is normalised. */
static bool jump(struct walk *w, const char *path)
{
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/') {
        len--;
    }
    if (len >= sizeof w->out) {
        return false;
    }
    memcpy(w->out, path, len);
    w->out[len] = '\0';
    w->len = len;
    return true;
}

static bool is_on_procfs(const char *path, size_t len)
{
    char parent[PATH_MAX];
    memcpy(parent, path, len);
    parent[len] = '\0';
    struct statfs fs;
    return statfs(len > 0 ? parent : "/", &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* Note the link at `w->out` as crossed, and the first one with nothing behind it as the leaf. A
 * slash behind it makes the kernel, and with it many a tool that deletes, take what it leads to. */
static bool note_link(struct walk *w)
{
    gh_buf_put(w->hops, w->out, w->len + 1);
    if (w->todo[w->at] == '\0' && w->leaf == NULL) {
        w->leaf = strdup(w->out);
        return w->leaf != NULL;
    }
    return true;
}

/* `w->out` ends in the link whose text is `text`: go where it points. */
static enum gh_code follow(struct walk *w, const char *text, size_t len, struct gh_err *err)
{
    if (++w->links > MAX_LINKS) {
        return gh_fail(err, GH_INVALID, "The path has more than %d links.", MAX_LINKS);
    }
    if (!note_link(w)) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory to resolve the path.");
    }
    size_t parent = drop_last(w->out, w->len);
    bool is_self;
    const char *magic = below_process(w->out, &is_self);
    if (magic != NULL && is_self && (strcmp(magic, "cwd") == 0 || strcmp(magic, "root") == 0)) {
        return jump(w, magic[0] == 'c' ? w->working_dir : "/") ? GH_OK : refuse_long(err);
    }
    bool is_main_proc = parent == 5 && memcmp(w->out, "/proc", 5) == 0;
    if (!is_main_proc && is_on_procfs(w->out, parent)) {
        return refuse_magic(err);
    }
    if (!push_todo(w, text, len)) {
        return refuse_long(err);
    }
    w->len = text[0] == '/' ? 0 : parent;
    w->out[w->len] = '\0';
    return GH_OK;
}

/* Append one component, following it when it is a link. */
static enum gh_code enter(struct walk *w, const char *name, size_t len, struct gh_err *err)
{
    if (w->len + 1 + len >= sizeof w->out) {
        return refuse_long(err);
    }
    w->out[w->len++] = '/';
    memcpy(w->out + w->len, name, len);
    w->len += len;
    w->out[w->len] = '\0';
    if (strcmp(w->out, "/proc/self") == 0) {
        return GH_OK; /* its target is this process, not the client: kept as it is */
    }
    if (strcmp(w->out, "/proc/thread-self") == 0) {
        return refuse_magic(err);
    }
    char text[PATH_MAX];
    ssize_t n = readlink(w->out, text, sizeof text);
    if (n < 0) {
        return GH_OK; /* not a link, or not there: stays as written */
    }
    return (size_t)n < sizeof text ? follow(w, text, (size_t)n, err) : refuse_long(err);
}

static enum gh_code step(struct walk *w, struct gh_err *err)
{
    w->at += strspn(w->todo + w->at, "/");
    char name[PATH_MAX];
    size_t len = strcspn(w->todo + w->at, "/");
    if (len >= sizeof name) {
        return refuse_long(err);
    }
    memcpy(name, w->todo + w->at, len); /* following a link overwrites this part */
    w->at += len;
    if (len == 0 || (len == 1 && name[0] == '.')) {
        return GH_OK;
    }
    if (len == 2 && name[0] == '.' && name[1] == '.') {
        w->len = drop_last(w->out, w->len);
        w->out[w->len] = '\0';
        return GH_OK;
    }
    return enter(w, name, len, err);
}

/* Resolve the absolute `path` as the kernel would; ".." was or was not removed before. */
static enum gh_code walk_links(const char *path, struct walk *w, struct gh_err *err)
{
    size_t len = strlen(path);
    w->len = 0;
    w->out[0] = '\0';
    w->links = 0;
    w->at = sizeof w->todo - 1 - len;
    memcpy(w->todo + w->at, path, len + 1);
    while (w->todo[w->at] != '\0') {
        GH_TRY(step(w, err));
    }
    if (w->len == 0) {
        memcpy(w->out, "/", 2);
    }
    return is_magic(w->out) ? refuse_magic(err) : GH_OK;
}

static enum gh_code copy_to(char **ret, const char *text, struct gh_err *err)
{
    *ret = strdup(text);
    return *ret != NULL ? GH_OK
                        : gh_fail(err, GH_NOMEM, "There is not enough memory for the path.");
}

static void free_walk(struct walk **w)
{
    if (*w != NULL) {
        free((*w)->leaf);
        free(*w);
    }
}

static bool is_same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Both readings, component by component. */
static enum gh_code resolve_slowly(const char *path, const char *folded, const char *working_dir,
                                   struct gate_path *ret, struct gh_err *err)
{
    gh_auto(gh_buf_fini) struct gh_buf hops = GH_BUF_INIT;
    gh_auto(free_walk) struct walk *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory to resolve the path.");
    }
    w->working_dir = working_dir;
    w->hops = &hops;
    GH_TRY(walk_links(path, w, err));
    GH_TRY(copy_to(&ret->kernel, w->out, err));
    ret->leaf = gh_steal(&w->leaf);
    GH_TRY(walk_links(folded, w, err));
    if (strcmp(w->out, ret->kernel) != 0 || !is_same(w->leaf, ret->leaf)) {
        GH_TRY(copy_to(&ret->lexical, w->out, err));
        ret->lexical_leaf = gh_steal(&w->leaf);
    }
    if (hops.len > 0) {
        gh_buf_putc(&hops, '\0');
    }
    if (hops.failed) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory to resolve the path.");
    }
    ret->hops = hops.len > 0 ? gh_buf_take(&hops) : NULL;
    return strcmp(folded, ret->kernel) != 0 ? copy_to(&ret->spelled, folded, err) : GH_OK;
}

static enum gh_code resolve_into(const char *text, const char *working_dir, const char *home,
                                 struct gate_path *ret, struct gh_err *err)
{
    char path[PATH_MAX];
    char folded[PATH_MAX + 1];
    if (text[0] == '\0') {
        return gh_fail(err, GH_INVALID, "The path is empty.");
    }
    if (!make_absolute(text, working_dir, home, path)) {
        return refuse_long(err);
    }
    bool has_up = fold_lexically(path, folded);
    enum probe probe = probe_links(has_up ? path : folded);
    if (probe == PROBE_PLAIN || (probe == PROBE_STOPPED && !has_up)) {
        GH_TRY(is_magic(folded) ? refuse_magic(err) : GH_OK);
        return copy_to(&ret->kernel, folded, err);
    }
    return resolve_slowly(path, folded, working_dir, ret, err);
}

enum gh_code gate_path_resolve(const char *text, const char *working_dir, const char *home,
                               struct gate_path *ret, struct gh_err *err)
{
    *ret = (struct gate_path){0};
    enum gh_code code = resolve_into(text, working_dir, home, ret, err);
    if (code != GH_OK) {
        gate_path_fini(ret);
    }
    return code;
}
