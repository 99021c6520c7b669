/* documents: files built into the program beside the page. Constant; threads: any. */
#ifndef GH_API_DOCUMENTS_H
#define GH_API_DOCUMENTS_H

#include <stddef.h>

struct api_document {
    const unsigned char *data; /* `size` bytes */
    size_t size;               /* bytes */
};

extern const struct api_document api_openapi; /* api/openapi.yaml */

#endif
