#include "scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

enum { MOST_NODES = 400000, MOST_PEM = 1 << 20, MOST_DEPTH = 512, SETTLED_S = 2 };

struct match {
    char *name;
    bool built_in;
};

struct node {
    char *name;
    dev_t dev;
    ino_t ino;
    struct timespec mtime, ctime;
    bool settled; /* may be believed as long as nothing of the above changed */
    struct node *kids;
    size_t n_kids, room_kids;
    struct match *matches;
    size_t n_matches, room_matches;
};

struct scan_cache {
    pthread_mutex_t lock;
    char *key;          /* the patterns that the roots were read for */
    struct node *roots; /* their names are whole paths */
    size_t n_roots, room_roots, n_nodes;
};

static void drop(struct scan_cache *cache, struct node *node)
{
    for (size_t i = 0; i < node->n_kids; i++) {
        drop(cache, &node->kids[i]);
    }
    for (size_t i = 0; i < node->n_matches; i++) {
        free(node->matches[i].name);
    }
    free(node->kids);
    free(node->matches);
    free(node->name);
    cache->n_nodes--;
}

static void drop_all(struct scan_cache *cache)
{
    for (size_t i = 0; i < cache->n_roots; i++) {
        drop(cache, &cache->roots[i]);
    }
    cache->n_roots = 0;
}

struct scan_cache *scan_cache_new(void)
{
    struct scan_cache *cache = util_alloc(1, sizeof *cache);
    pthread_mutex_init(&cache->lock, NULL);
    return cache;
}

void scan_cache_free(struct scan_cache *cache)
{
    if (cache != NULL) {
        drop_all(cache);
        pthread_mutex_destroy(&cache->lock);
        free(cache->roots);
        free(cache->key);
        free(cache);
    }
}

bool scan_is_public_pem(const char *path)
{
    size_t len = 0;
    confine_autofree char *text = util_slurp(path, MOST_PEM, &len);
    return text != NULL && memmem(text, len, "-----BEGIN", 10) != NULL &&
           memmem(text, len, "PRIVATE KEY", 11) == NULL;
}

/* ---- one walk ---- */

struct walk {
    struct scan_cache *cache;
    struct trees *trees;
    const struct names *names;
    time_t now_s;
    char path[4096]; /* of the folder at hand */
    size_t len;
    bool exhausted; /* a folder could not be read for want of descriptors */
};

static bool is_exhausted(int fd)
{
    return fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
}

static bool push(struct walk *w, const char *name, size_t *ret_old)
{
    size_t n = strlen(name);
    *ret_old = w->len;
    if (w->len + 1 + n >= sizeof w->path) {
        return false;
    }
    if (w->len == 0 || w->path[w->len - 1] != '/') {
        w->path[w->len++] = '/';
    }
    memcpy(w->path + w->len, name, n + 1);
    w->len += n;
    return true;
}

static void pop(struct walk *w, size_t old)
{
    w->len = old;
    w->path[old] = '\0';
}

static int open_folder(const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

static bool is_folder(int dir, const struct dirent *entry)
{
    if (entry->d_type != DT_UNKNOWN) {
        return entry->d_type == DT_DIR;
    }
    struct stat st;
    return fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* Take the node of that name out of the old ones, so that what is known below it stays. Folders are
 * mostly listed in one order, so the search goes on where the last one ended. */
static struct node take_known(struct node *old, size_t n, size_t *at, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        struct node *one = &old[(*at + i) % n];
        if (one->name != NULL && strcmp(one->name, name) == 0) {
            struct node found = *one;
            *one = (struct node){0};
            *at = (*at + i + 1) % n;
            return found;
        }
    }
    return (struct node){0};
}

static void note(struct walk *w, struct node *node, int dir, const struct dirent *entry,
                 struct node known)
{
    bool built_in;
    if (names_match(w->names, entry->d_name, &built_in)) {
        util_grow(&node->matches, node->n_matches, &node->room_matches, sizeof *node->matches);
        node->matches[node->n_matches++] = (struct match){util_dup(entry->d_name), built_in};
        /* a folder is denied whole; that a built-in name is exempt is judged at every walk */
    } else if (is_folder(dir, entry) && strcmp(entry->d_name, ".git") != 0) {
        util_grow(&node->kids, node->n_kids, &node->room_kids, sizeof *node->kids);
        if (known.name == NULL) {
            known.name = util_dup(entry->d_name);
            w->cache->n_nodes++;
        }
        node->kids[node->n_kids++] = known;
        return;
    }
    if (known.name != NULL) {
        drop(w->cache, &known);
    }
}

/* False: it could not be read, so what is noted is not to be believed. */
static bool read_again(struct walk *w, struct node *node)
{
    struct node *old = node->kids;
    size_t n_old = node->n_kids, at = 0;
    for (size_t i = 0; i < node->n_matches; i++) {
        free(node->matches[i].name);
    }
    node->kids = NULL;
    node->n_kids = node->room_kids = node->n_matches = 0;
    int fd = open_folder(w->path);
    w->exhausted |= is_exhausted(fd);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            note(w, node, fd, entry, take_known(old, n_old, &at, entry->d_name));
        }
    }
    if (dir != NULL) {
        closedir(dir);
    } else {
        util_auto_close(&fd);
    }
    for (size_t i = 0; i < n_old; i++) {
        if (old[i].name != NULL) {
            drop(w->cache, &old[i]);
        }
    }
    free(old);
    return dir != NULL;
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Bring the node up to date; false: it is no folder any more. */
static bool refresh(struct walk *w, struct node *node)
{
    struct stat st;
    if (lstat(w->path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        node->settled = false;
        return false;
    }
    if (!node->settled || st.st_dev != node->dev || st.st_ino != node->ino ||
        !same_time(st.st_mtim, node->mtime) || !same_time(st.st_ctim, node->ctime)) {
        bool was_read = read_again(w, node);
        node->dev = st.st_dev;
        node->ino = st.st_ino;
        node->mtime = st.st_mtim;
        node->ctime = st.st_ctim;
        time_t newest =
            st.st_mtim.tv_sec > st.st_ctim.tv_sec ? st.st_mtim.tv_sec : st.st_ctim.tv_sec;
        node->settled = was_read && newest + SETTLED_S < w->now_s;
    }
    return true;
}

static void deny_match(struct walk *w, const struct match *match, bool in_packages)
{
    size_t old;
    if ((match->built_in && in_packages) || !push(w, match->name, &old)) {
        return;
    }
    if (!match->built_in || !scan_is_public_pem(w->path)) {
        trees_deny_found(w->trees, w->path, match->built_in ? "built-in name" : "name");
    }
    pop(w, old);
}

static void walk_node(struct walk *w, struct node *node, bool in_packages, int depth)
{
    if (depth > MOST_DEPTH || !refresh(w, node)) {
        return;
    }
    for (size_t i = 0; i < node->n_matches; i++) {
        deny_match(w, &node->matches[i], in_packages);
    }
    for (size_t i = 0; i < node->n_kids; i++) {
        size_t old;
        struct node *kid = &node->kids[i];
        if (push(w, kid->name, &old)) {
            walk_node(w, kid, in_packages || names_is_package_folder(kid->name), depth + 1);
            pop(w, old);
        }
    }
}

/* ---- all roots ---- */

static struct node *root_of(struct scan_cache *cache, const char *path)
{
    for (size_t i = 0; i < cache->n_roots; i++) {
        if (strcmp(cache->roots[i].name, path) == 0) {
            return &cache->roots[i];
        }
    }
    util_grow(&cache->roots, cache->n_roots, &cache->room_roots, sizeof *cache->roots);
    cache->n_nodes++;
    cache->roots[cache->n_roots] = (struct node){.name = util_dup(path)};
    return &cache->roots[cache->n_roots++];
}

static char *key_of(const struct names *names)
{
    char *key = util_dup("");
    for (size_t i = 0; i < names->n; i++) {
        char *longer =
            util_format("%s%c%s/", key, names->all[i].built_in ? 'b' : 'c', names->all[i].glob);
        free(key);
        key = longer;
    }
    return key;
}

bool scan_names(struct scan_cache *cache, struct trees *trees, const struct names *names)
{
    if (names->n == 0) {
        return true;
    }
    pthread_mutex_lock(&cache->lock);
    char *key = key_of(names);
    if (cache->key == NULL || strcmp(key, cache->key) != 0 || cache->n_nodes > MOST_NODES) {
        drop_all(cache);
    }
    free(cache->key);
    cache->key = key;
    struct walk w = {.cache = cache, .trees = trees, .names = names, .now_s = time(NULL)};
    for (size_t i = 0; i < trees->n; i++) {
        if (!trees->all[i].scanned || !trees->all[i].folder) {
            continue;
        }
        w.len = 0;
        size_t old;
        if (push(&w, trees->all[i].path + 1, &old)) {
            walk_node(&w, root_of(cache, trees->all[i].path), false, 0);
        }
    }
    pthread_mutex_unlock(&cache->lock);
    return !w.exhausted;
}

/* ---- hard links ---- */

struct alias {
    dev_t dev;
    ino_t ino;
};

struct hunt {
    struct trees *trees;
    const struct alias *wanted;
    size_t n;
    struct util_strs found;
    bool exhausted;
};

static void hunt_folder(struct hunt *hunt, int fd, const char *path, int depth);

static void hunt_entry(struct hunt *hunt, int dir, const char *path, const char *name, int depth)
{
    struct stat st;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return;
    }
    confine_autofree char *child = util_format("%s/%s", strcmp(path, "/") == 0 ? "" : path, name);
    if (S_ISDIR(st.st_mode)) {
        int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        hunt_folder(hunt, openat(dir, name, flags), child, depth + 1);
        return;
    }
    for (size_t i = 0; i < hunt->n && st.st_nlink > 1; i++) {
        if (hunt->wanted[i].ino == st.st_ino && hunt->wanted[i].dev == st.st_dev) {
            util_strs_take(&hunt->found, util_dup(child));
            return;
        }
    }
}

/* Takes the descriptor. */
static void hunt_folder(struct hunt *hunt, int fd, const char *path, int depth)
{
    hunt->exhausted |= is_exhausted(fd);
    DIR *dir = fd < 0 || depth > MOST_DEPTH ? NULL : fdopendir(fd);
    if (dir == NULL) {
        util_auto_close(&fd);
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        hunt_entry(hunt, fd, path, entry->d_name, depth);
    }
    closedir(dir);
}

bool scan_aliases(struct trees *trees)
{
    confine_autofree struct alias *wanted = util_alloc(trees->n_denied, sizeof *wanted);
    struct hunt hunt = {.trees = trees, .wanted = wanted};
    for (size_t i = 0; i < trees->n_denied; i++) {
        const struct trees_denied *one = &trees->denied[i];
        if (one->exists && S_ISREG(one->mode) && one->links > 1) {
            wanted[hunt.n++] = (struct alias){one->dev, one->ino};
        }
    }
    for (size_t i = 0; i < trees->n && hunt.n > 0; i++) {
        const struct trees_one *tree = &trees->all[i];
        if (tree->folder && (tree->scanned || tree->right == TREES_WRITE)) {
            hunt_folder(&hunt, open_folder(tree->path), tree->path, 0);
        }
    }
    for (size_t i = 0; i < hunt.found.n; i++) {
        trees_deny(trees, hunt.found.all[i], "another name of a denied file");
    }
    util_strs_fini(&hunt.found);
    return !hunt.exhausted;
}
