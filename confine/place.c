#include "place.h"

#include <linux/mount.h>
#include <string.h>
#include <sys/stat.h>

static const uint64_t WRITABLE = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
static const uint64_t READABLE = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY;
static const uint64_t DEVICE = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY;

/* Takes `from` and `to`. */
static struct place_step *add(struct place *place, enum place_kind kind, char *from, char *to)
{
    util_grow(&place->all, place->n, &place->room, sizeof *place->all);
    place->all[place->n] = (struct place_step){.kind = kind, .from = from, .to = to};
    return &place->all[place->n++];
}

static bool has_folder(const struct place *place, const char *to)
{
    for (size_t i = 0; i < place->n; i++) {
        if (place->all[i].kind == PLACE_FOLDER && strcmp(place->all[i].to, to) == 0) {
            return true;
        }
    }
    return false;
}

/* The folders above `to`, and `to` itself where `whole`. */
static void add_folders(struct place *place, const char *to, bool whole)
{
    for (const char *p = to;; p++) {
        if (*p != '/' && *p != '\0') {
            continue;
        }
        if (*p == '\0' && !whole) {
            return;
        }
        char *part = util_format("%.*s", (int)(p - to), to);
        if (has_folder(place, part)) {
            free(part);
        } else {
            add(place, PLACE_FOLDER, NULL, part);
        }
        if (*p == '\0') {
            return;
        }
    }
}

static void add_link(struct place *place, const char *to, const char *target)
{
    add_folders(place, to, false);
    add(place, PLACE_LINK, util_dup(target), util_dup(to));
}

/* The tree around this one, itself left out. */
static const struct trees_one *around(const struct trees *trees, const struct trees_one *tree)
{
    const struct trees_one *best = NULL;
    for (size_t i = 0; i < trees->n; i++) {
        const struct trees_one *one = &trees->all[i];
        if (one != tree && util_below(tree->path, one->path) &&
            (best == NULL || strlen(one->path) > strlen(best->path))) {
            best = one;
        }
    }
    return best;
}

static bool needs_bind(const struct trees *trees, const struct trees_one *tree)
{
    const struct trees_one *outer = around(trees, tree);
    return outer == NULL || (outer->right == TREES_READ && tree->right != TREES_READ);
}

static void add_tree(struct place *place, const struct trees_one *tree)
{
    static const uint64_t attrs[] = {[TREES_READ] = READABLE,
                                     [TREES_WRITE] = WRITABLE,
                                     [TREES_DEVICE] = DEVICE,
                                     [TREES_TERMINAL] = DEVICE};
    struct stat st;
    if (fstat(tree->fd, &st) != 0) {
        return;
    }
    add_folders(place, tree->path + 1, tree->folder);
    if (!tree->folder) {
        add(place, PLACE_FILE, NULL, util_dup(tree->path + 1));
    }
    struct place_step *step =
        add(place, PLACE_BIND, util_dup(tree->path), util_dup(tree->path + 1));
    step->attr = attrs[tree->right];
    step->dev = st.st_dev;
    step->ino = st.st_ino;
}

static int compare_trees(const void *a, const void *b)
{
    const struct trees_one *const *x = a, *const *y = b;
    return strcmp((*x)->path, (*y)->path);
}

/* A link, unless something is or leads there already. Steps are taken while the old root is still
 * the root, so none may lead through a link made by another. */
static void add_alias(struct place *place, const struct place_wish *wish, const char *path,
                      const char *target)
{
    confine_autofree char *real = util_resolve_parent(path);
    bool taken = strcmp(real, path) != 0 || trees_of(wish->trees, path) != NULL ||
                 (wish->home != NULL && util_below(wish->home, path));
    for (size_t i = 0; i < wish->trees->n; i++) {
        taken |= util_below(wish->trees->all[i].path, path);
    }
    if (!taken) {
        add_link(place, path + 1, target);
    }
}

/* Outer trees first. */
static void add_trees(struct place *place, const struct place_wish *wish)
{
    const struct trees *trees = wish->trees;
    confine_autofree const struct trees_one **sorted = util_alloc(trees->n, sizeof *sorted);
    for (size_t i = 0; i < trees->n; i++) {
        sorted[i] = &trees->all[i];
    }
    qsort(sorted, trees->n, sizeof *sorted, compare_trees);
    for (size_t i = 0; i < trees->n; i++) {
        bool is_tmp = wish->tmp != NULL && strcmp(sorted[i]->path, wish->tmp) == 0;
        if (!is_tmp && needs_bind(trees, sorted[i])) {
            add_tree(place, sorted[i]);
        }
    }
    for (size_t i = 0; i < trees->n_links; i++) {
        add_alias(place, wish, trees->links[i].path, trees->links[i].target);
    }
    add_alias(place, wish, "/var/tmp", "/tmp");
}

static void add_skeleton(struct place *place, const struct place_wish *wish)
{
    static const char *const folders[] = {"proc", "dev", "dev/pts", "dev/shm", "tmp", "var", "run"};
    static const char *const links[][2] = {
        {"dev/fd", "/proc/self/fd"},       {"dev/stdin", "/proc/self/fd/0"},
        {"dev/stdout", "/proc/self/fd/1"}, {"dev/stderr", "/proc/self/fd/2"},
        {"dev/ptmx", "pts/ptmx"},
    };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        add(place, PLACE_FOLDER, NULL, util_dup(folders[i]));
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        add_link(place, links[i][0], links[i][1]);
    }
    struct stat st;
    if (wish->tmp != NULL && lstat(wish->tmp, &st) == 0) {
        struct place_step *step = add(place, PLACE_BIND, util_dup(wish->tmp), util_dup("tmp"));
        step->attr = WRITABLE;
        step->dev = st.st_dev;
        step->ino = st.st_ino;
    }
    if (wish->home != NULL && wish->home[0] == '/' && wish->home[1] != '\0') {
        add_folders(place, wish->home + 1, true); /* after the folder for /tmp: it may lie there */
    }
}

/* ---- masks ---- */

static void add_mask(struct place *place, const struct trees_denied *one)
{
    place->n_masks++;
    if (S_ISDIR(one->mode)) {
        /* git would commit the deletion of tracked files below an empty folder it can read */
        add(place, PLACE_MASK, util_dup(one->tracked ? PLACE_STUB_CLOSED : PLACE_STUB_OPEN),
            util_dup(one->path + 1));
        return;
    }
    if (one->tracked && S_ISREG(one->mode)) {
        struct place_step *step =
            add(place, PLACE_TWIN, util_format("proc/t%zu", place->n), util_dup(one->path + 1));
        step->size = one->size;
        step->mtime_ns = one->mtime_ns;
        return;
    }
    add(place, PLACE_MASK, util_dup(PLACE_STUB_FILE), util_dup(one->path + 1));
}

static bool is_masked(const struct trees *trees, const struct trees_denied *one)
{
    return one->exists && trees_of(trees, one->path) != NULL;
}

/* Masked paths that git does not track stand in a copy of info/exclude, or "add -A" stages nothing.
 */
static void add_exclude(struct place *place, const struct place_wish *wish)
{
    size_t len = 0, top = strlen(wish->git->top);
    confine_autofree char *path = util_format("%s/info/exclude", wish->git->common);
    if (trees_of(wish->trees, path) == NULL) {
        return;
    }
    char *text = util_slurp(path, 1 << 20, &len);
    bool any = false;
    for (size_t i = 0; text != NULL && i < wish->trees->n_denied; i++) {
        const struct trees_denied *one = &wish->trees->denied[i];
        if (!is_masked(wish->trees, one) || one->tracked ||
            !util_below(one->path, wish->git->top) || strpbrk(one->path, "\n*?[\\") != NULL) {
            continue;
        }
        char *longer = util_format("%s%s%s\n", text, any ? "" : "\n", one->path + top);
        free(text);
        text = longer;
        any = true;
    }
    if (!any) {
        free(text);
        return;
    }
    add(place, PLACE_TEXT, util_format("proc/x%zu", place->n), util_dup(path + 1))->text = text;
}

/* With twins git must not look at inode and ctime. */
static bool add_config(struct place *place, const struct place_wish *wish, const char *guard)
{
    confine_autofree char *path = util_format("%s/config", wish->git->common);
    bool twins = false;
    for (size_t i = 0; i < wish->trees->n_denied; i++) {
        twins |= wish->trees->denied[i].tracked;
    }
    size_t len = 0;
    if (!twins || strcmp(path, guard) != 0) {
        return false;
    }
    confine_autofree char *text = util_slurp(path, 1 << 20, &len);
    if (text == NULL) {
        return false;
    }
    struct place_step *step =
        add(place, PLACE_TEXT, util_format("proc/x%zu", place->n), util_dup(path + 1));
    step->text = util_format("%s\n[core]\n\tcheckStat = minimal\n", text);
    return true;
}

static void add_guards(struct place *place, const struct place_wish *wish)
{
    for (size_t i = 0; i < wish->guards->n; i++) {
        const char *path = wish->guards->all[i];
        const struct trees_one *tree = trees_of(wish->trees, path);
        if (tree == NULL || tree->right != TREES_WRITE || trees_covered(wish->trees, path)) {
            continue;
        }
        if (wish->git->top == NULL || !add_config(place, wish, path)) {
            add(place, PLACE_GUARD, NULL, util_dup(path + 1))->attr = MOUNT_ATTR_RDONLY;
        }
    }
}

/* ---- pins ---- */

/* The folders between a writable tree and `path`, each once. */
static void collect_above(const struct trees *trees, const char *path, struct util_strs *pins)
{
    const struct trees_one *tree = trees_of(trees, path);
    if (tree == NULL || tree->right != TREES_WRITE || !tree->folder) {
        return;
    }
    confine_autofree char *at = util_dup(path);
    for (;;) {
        char *cut = strrchr(at, '/');
        *cut = '\0';
        if (strlen(at) <= strlen(tree->path)) {
            return;
        }
        for (size_t i = pins->n; i > 0; i--) {
            if (strcmp(pins->all[i - 1], at) == 0) {
                return; /* and so is all above it */
            }
        }
        util_strs_take(pins, util_dup(at));
    }
}

static void add_shadow(struct place *place, const struct trees_one *tree,
                       const struct util_strs *pins, const struct trees *trees)
{
    struct stat st;
    bool bound = false;
    char name[32] = "";
    if (tree->right != TREES_WRITE) {
        return;
    }
    for (size_t i = 0; i < pins->n; i++) {
        if (trees_of(trees, pins->all[i]) != tree || fstat(tree->fd, &st) != 0) {
            continue;
        }
        if (!bound) {
            snprintf(name, sizeof name, "proc/%zu", place->n);
            add(place, PLACE_FOLDER, NULL, util_dup(name));
            struct place_step *step = add(place, PLACE_BIND, util_dup(tree->path), util_dup(name));
            step->attr = READABLE;
            step->dev = st.st_dev;
            step->ino = st.st_ino;
            bound = true;
        }
        add(place, PLACE_MASK, util_dup(PLACE_STUB_OPEN),
            util_format("%s%s", name, pins->all[i] + strlen(tree->path)));
        place->n_pins++;
    }
}

static void add_pins(struct place *place, const struct place_wish *wish)
{
    confine_auto(util_strs_fini) struct util_strs pins = {0};
    for (size_t i = 0; i < wish->trees->n_denied; i++) {
        if (is_masked(wish->trees, &wish->trees->denied[i])) {
            collect_above(wish->trees, wish->trees->denied[i].path, &pins);
        }
    }
    for (size_t i = 0; i < wish->guards->n; i++) {
        collect_above(wish->trees, wish->guards->all[i], &pins);
    }
    for (size_t i = 0; i < wish->trees->n; i++) {
        add_shadow(place, &wish->trees->all[i], &pins, wish->trees);
    }
}

enum confine_code place_plan(struct place *place, const struct place_wish *wish,
                             struct confine_err *err)
{
    *place = (struct place){0};
    for (size_t i = 0; i < wish->trees->n; i++) {
        const char *path = wish->trees->all[i].path;
        if (strcmp(path, "/") == 0 || util_below(path, "/proc")) {
            return util_fail(err, CONFINE_E_SPEC, 0, "A private root cannot hold %s.", path);
        }
    }
    add_skeleton(place, wish);
    add_trees(place, wish);
    for (size_t i = 0; i < wish->trees->n_denied; i++) {
        if (is_masked(wish->trees, &wish->trees->denied[i])) {
            add_mask(place, &wish->trees->denied[i]);
        }
    }
    if (wish->git->top != NULL) {
        add_exclude(place, wish);
    }
    add_guards(place, wish);
    add_pins(place, wish);
    if (place->n_masks + place->n_pins > CONFINE_MAX_MASKS) {
        return util_fail(err, CONFINE_E_SPEC, 0, "There are %zu entries to mask, too many.",
                         place->n_masks + place->n_pins);
    }
    return CONFINE_OK;
}

void place_fini(struct place *place)
{
    for (size_t i = 0; i < place->n; i++) {
        free(place->all[i].from);
        free(place->all[i].to);
        free(place->all[i].text);
    }
    free(place->all);
    *place = (struct place){0};
}
