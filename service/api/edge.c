#include <stdlib.h>
#include <string.h>

#include "api/api.h"

static void free_words(const char *const *words)
{
    for (size_t i = 0; words != NULL && words[i] != NULL; i++) {
        free((void *)words[i]);
    }
    free((void *)words);
}

static void free_edge(struct api_edge *edge)
{
    free_words(edge->allowed_hosts);
    free_words(edge->allowed_origins);
    free(edge);
}

static const char *const *copy_words(char *const *words)
{
    size_t n = 0;
    while (words[n] != NULL) {
        n++;
    }
    const char **copy = calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy != NULL && i < n; i++) {
        copy[i] = strdup(words[i]);
        if (copy[i] == NULL) {
            free_words(copy);
            return NULL;
        }
    }
    return copy;
}

enum gh_code api_set_edge(struct api *api, const struct config *config, struct gh_err *err)
{
    struct api_edge *edge = calloc(1, sizeof *edge);
    if (edge == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the settings.");
    }
    edge->allowed_hosts = copy_words(config->listen.allowed_hosts);
    edge->allowed_origins = copy_words(config->listen.allowed_origins);
    edge->body_limit = (size_t)config->limits.body_mib << 20;
    if (edge->allowed_hosts == NULL || edge->allowed_origins == NULL) {
        free_edge(edge);
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the settings.");
    }
    edge->older = atomic_load(&api->edge);
    atomic_store(&api->edge, edge);
    return GH_OK;
}

void api_free_edges(struct api *api)
{
    struct api_edge *edge = atomic_load(&api->edge);
    while (edge != NULL) {
        struct api_edge *older = edge->older;
        free_edge(edge);
        edge = older;
    }
}
