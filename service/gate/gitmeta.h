/* gitmeta: is this path part of a repository's own state? (behaviour.md 1.5)
 *
 * Threads: any. Reads the file system, changes nothing, runs nothing.
 */
#ifndef GH_GATE_GITMETA_H
#define GH_GATE_GITMETA_H

#include <stdbool.h>

#include "base/err.h"
#include "gate/seen.h"

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
    struct seen_names hooks;   /* each folder that core.hooksPath may name, as spelled and as its
                                  links lead; empty when it is the default */
    struct seen_names files;   /* the configuration files, there or not, likewise */
    struct seen_stamps stamps; /* of all that was read, and of what was not there */
    bool is_cut; /* not all of the configuration could be read: a file named like a hook counts as
                    one, wherever it lies */
};
void gitmeta_dirs_fini(struct gitmeta_dirs *dirs);

/* Find the repository of `working_dir` (".git" folder or file, commondir) and every
 * core.hooksPath of its configuration and of the global one, with all includes, whatever their
 * conditions. No repository is not an error: top, git_dir and common are NULL. Fails with GH_NOMEM.
 */
GH_MUST_USE enum gh_code gitmeta_find(const char *working_dir, const char *home,
                                      struct gitmeta_dirs *ret, struct gh_err *err);

/* False when something that gitmeta_find read has changed since, or something that it missed has
 * come: then it has to run again. A few stats. */
bool gitmeta_is_fresh(const struct gitmeta_dirs *dirs);

/* True when `path` is a bare repository, or a folder that holds one of them: moving or deleting it
 * moves or deletes them, and something else can be put in its place. */
bool gitmeta_holds(const struct gitmeta_dirs *dirs, const char *path);

/* True when `path` is at or below one of them, or named like git metadata, or is one of git's own
 * names (config, hooks, objects, ...), or below it, in a bare repository or in a folder that this
 * name brings close to being one: HEAD, objects, refs and config make one together, in any order.
 */
bool gitmeta_touches(const struct gitmeta_dirs *dirs, const char *path);

/* True for a file named HEAD: no folder is a repository without one. Its other parts may be on
 * their way at the same moment, so that what lies beside it proves nothing. */
bool gitmeta_is_head(const char *path);

/* True when `path` belongs to the hooks folder of a repository other than the session's, one whose
 * work tree it lies in. `is_whole`: it may be a folder that is moved or deleted with all that is in
 * it; otherwise only files named like hooks are looked at, so that others cost nothing. */
bool gitmeta_is_nested_hook(const struct gitmeta_dirs *dirs, const char *path, const char *home,
                            bool is_whole);

#endif
