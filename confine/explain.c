#include <string.h>

#include "plan.h"

static const char *const right_words[] = {[TREES_READ] = "read+exec",
                                          [TREES_WRITE] = "write",
                                          [TREES_DEVICE] = "device",
                                          [TREES_TERMINAL] = "terminal"};

static void print_path(FILE *out, const char *path)
{
    for (; *path != '\0'; path++) {
        unsigned char c = (unsigned char)*path;
        fprintf(out, c < 0x20 || c == 0x7f || c == '\\' ? "\\x%02x" : "%c", c);
    }
}

static void print_row(FILE *out, const char *what, const char *path, const char *why)
{
    fprintf(out, "%-10s ", what);
    print_path(out, path);
    fprintf(out, "  (%s)\n", why);
}

static void print_denied(const struct confine_plan *plan, FILE *out)
{
    for (size_t i = 0; i < plan->trees.n_denied; i++) {
        const struct trees_denied *one = &plan->trees.denied[i];
        print_row(out, "deny", one->path, one->why);
    }
    for (size_t i = 0; i < plan->guards.n; i++) {
        print_row(out, plan->namespaces ? "read-only" : "unguarded", plan->guards.all[i],
                  "makes git or an agent run programs");
    }
}

static void print_masks(const struct confine_plan *plan, FILE *out)
{
    for (size_t i = 0; plan->namespaces && i < plan->place.n; i++) {
        const struct place_step *step = &plan->place.all[i];
        bool pin = strncmp(step->to, "proc/", 5) == 0;
        if (step->kind == PLACE_MASK && !pin) {
            const char *why = strcmp(step->from, PLACE_STUB_FILE) == 0 ? "by a socket of mode 000"
                              : strcmp(step->from, PLACE_STUB_OPEN) == 0
                                  ? "by an empty folder"
                                  : "by a closed folder: git tracks files below it";
            print_row(out, "mask", step->to, why);
        } else if (step->kind == PLACE_MASK) {
            const char *path = strchr(step->to + 5, '/');
            print_row(out, "pin", path == NULL ? "" : path, "holds what is denied or guarded");
        } else if (step->kind == PLACE_TWIN) {
            print_row(out, "mask", step->to, "by a twin of mode 000: git tracks it");
        } else if (step->kind == PLACE_TEXT) {
            print_row(out, "copy", step->to, "read-only, with lines that name the masks to git");
        }
    }
}

void confine_plan_explain(const struct confine_plan *plan, FILE *out)
{
    static const char *const levels[] = {"full", "partial", "none"};
    static const char *const methods[] = {"none", "masked", "carved"};
    static const char *const networks[] = {"unrestricted", "none", "loopback", "tcp_ports"};
    const struct confine_report *r = &plan->report;
    fprintf(out,
            "enforcement %s, Landlock ABI %d, seccomp %s, namespaces %s, denied entries %s, "
            "network %s, local sockets %s\n",
            levels[r->enforcement], r->landlock_abi, r->seccomp ? "yes" : "no",
            r->namespaces ? "yes" : "no", methods[r->deny_method], networks[r->network],
            r->unix_sockets ? "yes" : "no");
    for (size_t i = 0; i < r->n_lost; i++) {
        fprintf(out, "%-10s %s\n", "lost", r->lost[i]);
    }
    for (size_t i = 0; i < plan->trees.n; i++) {
        print_row(out, right_words[plan->trees.all[i].right], plan->trees.all[i].path,
                  plan->trees.all[i].reason);
    }
    print_denied(plan, out);
    print_masks(plan, out);
}
