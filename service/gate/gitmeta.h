/* gitmeta: is this path part of a repository's own state? (behaviour.md 1.5)
 *
 * Threads: any. Reads the file system, changes nothing, runs nothing.
 */
#ifndef GH_GATE_GITMETA_H
#define GH_GATE_GITMETA_H

#include <stdbool.h>

#include "base/err.h"

/* True when a component of the absolute path is ".git" in any spelling that some file system folds
 * to it: case, trailing dots and blanks, "git~1", ignorable Unicode, ADS suffixes. ".github",
 * ".gitignore", ".gitattributes", ".gitmodules" are not. */
bool gitmeta_is_git_name(const char *path);

/* Where the repository of a session keeps its state, outside ".git" names too. */
struct gitmeta_dirs {
    char *top;     /* work tree root, or NULL when there is none (no repository, or a bare one);
                      owned */
    char *git_dir; /* absolute, canonical; owned */
    char *common;  /* absolute, canonical; owned */
    char *hooks;   /* effective core.hooksPath, or NULL when it is the default; owned */
};
void gitmeta_dirs_fini(struct gitmeta_dirs *dirs);

/* Find the repository of `working_dir` (".git" folder or file, commondir, core.hooksPath from the
 * repository's and the global configuration, plain includes followed). No repository is not an
 * error: all NULL. Fails with GH_NOMEM. */
GH_MUST_USE enum gh_code gitmeta_find(const char *working_dir, const char *home,
                                      struct gitmeta_dirs *ret, struct gh_err *err);

/* True when `path` is a bare repository, or a folder inside the work tree that holds one of them:
 * moving or deleting it moves or deletes them, and something else can be put in its place. */
bool gitmeta_holds(const struct gitmeta_dirs *dirs, const char *path);

/* True when `path` is at or below one of them, or named like git metadata, or is one of git's own
 * names (config, hooks, objects, ...), or below it, in a bare repository (HEAD, objects/, refs/
 * beside each other). */
bool gitmeta_touches(const struct gitmeta_dirs *dirs, const char *path);

#endif
