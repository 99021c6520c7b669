/* assets: the page's files, built into the program.
 *
 * One row a file, sorted by file name. What is not in the table does not exist: no path is ever
 * looked up on disk. Constant data; threads: any.
 */
#ifndef GH_API_ASSETS_H
#define GH_API_ASSETS_H

#include <stddef.h>

struct api_asset {
    const char *path;          /* as requested: "/" (index.html), "/app.js", ... */
    const char *type;          /* value of Content-Type */
    const unsigned char *data; /* `size` bytes and a NUL behind them */
    size_t size;               /* bytes */
    const char *etag;          /* entity tag with its quotes; moves with the content */
};

extern const struct api_asset api_assets[];
extern const size_t api_n_assets;

#endif
