#include "tree.h"

#include <check.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[PATH_MAX];

const char *tree_begin(void)
{
    const char *tmp = getenv("TMPDIR");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/gate-test-XXXXXX", tmp != NULL && *tmp == '/' ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(path));
    ck_assert_ptr_nonnull(realpath(path, root));
    return root;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void tree_end(void)
{
    ck_assert_int_eq(nftw(root, remove_one, 32, FTW_DEPTH | FTW_PHYS), 0);
}

const char *tree_at(const char *path)
{
    static char ring[16][PATH_MAX];
    static unsigned at;
    char *out = ring[at++ % 16];
    int n = *path == '/' ? snprintf(out, PATH_MAX, "%s", path)
                         : snprintf(out, PATH_MAX, "%s/%s", root, path);
    ck_assert_int_lt(n, PATH_MAX);
    return out;
}

static void make_parents(const char *path)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    for (char *slash = strchr(copy + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        ck_assert(mkdir(copy, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
}

void tree_dir(const char *path)
{
    make_parents(tree_at(path));
    ck_assert(mkdir(tree_at(path), 0700) == 0 || errno == EEXIST);
}

void tree_file(const char *path, const char *text)
{
    make_parents(tree_at(path));
    FILE *file = fopen(tree_at(path), "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

void tree_link(const char *target, const char *path)
{
    make_parents(tree_at(path));
    ck_assert_int_eq(symlink(target, tree_at(path)), 0);
}
