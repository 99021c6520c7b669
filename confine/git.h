/* git: what makes git run programs, and which masked paths git tracks. */
#ifndef GH_CONFINE_GIT_H
#define GH_CONFINE_GIT_H

#include "trees.h"

struct git_place {
    char *top;    /* the folder that holds .git, or NULL: no repository */
    char *dir;    /* git dir */
    char *common; /* common dir; equal to `dir` but in a linked worktree */
    bool linked;  /* .git is a file */
};

/* Find the repository that holds `path`. Nothing of git is run. */
void git_find(struct git_place *git, const char *path);
void git_fini(struct git_place *git);

/* Paths to be read-only inside: configuration, hooks, included files, and the settings of agents
 * below `cwd`; only what exists. */
void git_guards(const struct git_place *git, const char *cwd, struct util_strs *guards);

/* Mark the denied entries that the index holds. */
void git_mark_tracked(const struct git_place *git, struct trees *trees);

#endif
