/* scene: a store in a folder of its own, for one test. Everything here fails the test by itself. */
#ifndef GH_TEST_STORE_SCENE_H
#define GH_TEST_STORE_SCENE_H

#include <check.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct scene {
    char dir[64];
    struct store *store;
};

/* A fresh folder, nothing in it. */
struct scene scene_new(void);

/* Open and close the store. */
void scene_open(struct scene *scene);
void scene_close(struct scene *scene);
void scene_reopen(struct scene *scene);

/* Close and remove the folder. */
void scene_end(struct scene *scene);

/* A row that differs from others in all that `i` can reach; its ref is "dec_%06d". The strings
 * live in `space`. */
struct scene_space {
    char ref[32], body[64], session[32];
};
struct store_audit scene_row(int i, struct scene_space *space);

/* Commit rows `from` to `to`-1, one transaction each; all must become durable. */
void scene_add_rows(struct scene *scene, int from, int to);

/* Commit one row and return the outcome. */
enum gh_code scene_try_row(struct scene *scene, int i);

/* Run SQL on the database as another program would; foreign keys of safety are off. */
void scene_sql(const struct scene *scene, const char *sql);

/* The integer that SQL yields. */
int64_t scene_sql_int(const struct scene *scene, const char *sql);

/* The path of a file in the folder; overwritten by the next call but three. */
const char *scene_path(const struct scene *scene, const char *name);

struct store_health scene_health(const struct scene *scene);

/* Verify the running store, or the folder when it is closed. */
struct store_verify scene_verify(const struct scene *scene);

/* Wait (up to half a minute) until the store is, or is not, writable; or until it is damaged. */
void scene_await_writable(const struct scene *scene, bool is_writable);
void scene_await_damaged(const struct scene *scene);

/* Make or replace a file of the folder. */
void scene_write(const struct scene *scene, const char *name, const void *data, size_t len);

/* Overwrite bytes of a file. */
void scene_overwrite(const char *path, int64_t at, const void *data, size_t len);

/* The number in the environment variable GH_REPEAT, or `fallback`. */
int scene_repeat(int fallback);

/* Run the suite; the exit code. */
int scene_main(Suite *suite);

#endif
