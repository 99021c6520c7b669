#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

enum confine_code util_fail(struct confine_err *err, enum confine_code code, int sys_errno,
                            const char *fmt, ...)
{
    if (err != NULL) {
        err->code = code;
        err->sys_errno = sys_errno;
        va_list args;
        va_start(args, fmt);
        vsnprintf(err->detail, sizeof err->detail, fmt, args);
        va_end(args);
    }
    return code;
}

void *util_alloc(size_t n, size_t size)
{
    void *p = calloc(n > 0 ? n : 1, size);
    if (p == NULL) {
        abort();
    }
    return p;
}

void util_grow(void *all, size_t n, size_t *room, size_t size)
{
    if (n < *room) {
        return;
    }
    size_t more = *room == 0 ? 8 : *room * 2;
    void *p = reallocarray(*(void **)all, more, size);
    if (p == NULL) {
        abort();
    }
    *(void **)all = p;
    *room = more;
}

char *util_dup(const char *text)
{
    char *copy = strdup(text);
    if (copy == NULL) {
        abort();
    }
    return copy;
}

char *util_format(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0) {
        abort();
    }
    va_end(args);
    return text;
}

void util_strs_take(struct util_strs *list, char *text)
{
    util_grow(&list->all, list->n + 1, &list->room, sizeof *list->all);
    list->all[list->n++] = text;
    list->all[list->n] = NULL;
}

void util_strs_fini(struct util_strs *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->all[i]);
    }
    free(list->all);
    *list = (struct util_strs){0};
}

bool util_below(const char *path, const char *root)
{
    size_t n = strlen(root);
    if (n == 1 && root[0] == '/') {
        return path[0] == '/';
    }
    return strncmp(path, root, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* Resolve the longest prefix that exists and keep the rest as text; "." and ".." in the rest are
 * taken by text, as they name nothing yet. */
char *util_resolve(const char *path)
{
    if (path[0] != '/') {
        return NULL;
    }
    char *whole = realpath(path, NULL);
    if (whole != NULL) {
        return whole;
    }
    confine_autofree char *head = util_dup(path);
    char *cut = strrchr(head, '/');
    while (cut > head && cut[1] == '\0') {
        *cut = '\0';
        cut = strrchr(head, '/');
    }
    if (cut == head) {
        return util_dup(head);
    }
    *cut = '\0';
    confine_autofree char *above = util_resolve(head);
    if (strcmp(cut + 1, ".") == 0) {
        return util_dup(above);
    }
    if (strcmp(cut + 1, "..") == 0) {
        char *up = strrchr(above, '/');
        up[up == above] = '\0';
        return util_dup(above);
    }
    return util_format("%s/%s", strcmp(above, "/") == 0 ? "" : above, cut + 1);
}

char *util_resolve_parent(const char *path)
{
    if (path[0] != '/') {
        return NULL;
    }
    confine_autofree char *head = util_dup(path);
    size_t n = strlen(head);
    while (n > 1 && head[n - 1] == '/') {
        head[--n] = '\0';
    }
    char *cut = strrchr(head, '/');
    if (cut[1] == '\0' || strcmp(cut + 1, ".") == 0 || strcmp(cut + 1, "..") == 0) {
        return util_resolve(head);
    }
    confine_autofree char *last = util_dup(cut + 1);
    cut[cut == head] = '\0';
    confine_autofree char *above = util_resolve(head);
    return util_format("%s/%s", strcmp(above, "/") == 0 ? "" : above, last);
}

char *util_slurp(const char *path, size_t most, size_t *ret_len)
{
    confine_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size > most) {
        return NULL;
    }
    size_t room = (size_t)st.st_size, n = 0;
    char *text = util_alloc(room + 1, 1);
    while (n < room) {
        ssize_t got = read(fd, text + n, room - n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        n += (size_t)got;
    }
    text[n] = '\0';
    *ret_len = n;
    return text;
}
