/* tree: a temporary folder tree for the gate's tests.
 *
 * Paths given to these functions are relative to the tree's root unless absolute. Every failure
 * ends the test.
 */
#ifndef TEST_GATE_TREE_H
#define TEST_GATE_TREE_H

/* Make the root under $TMPDIR (or /tmp); canonical; the same until tree_end. */
const char *tree_begin(void);
/* Remove it and all below. */
void tree_end(void);
/* root + "/" + path, in a ring of 16 static buffers. */
const char *tree_at(const char *path);
void tree_dir(const char *path);                      /* with parents */
void tree_file(const char *path, const char *text);   /* with parents */
void tree_link(const char *target, const char *path); /* with parents; `target` as it is */

#endif
