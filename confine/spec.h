/* spec: the one contract of the confiner: plan, spawn, wait, kill.
 *
 *   struct confine *engine;          once a process: what the kernel can do, filters, scan cache
 *   confine_new(&engine, &err);
 *   struct confine_plan *plan;       once a command: looks at the file system as it is now
 *   confine_plan_new(engine, &spec, &plan, &err);
 *   struct confine_child child;      runs it
 *   confine_spawn(plan, &child, &err);
 *   confine_plan_free(plan);         may be at once
 *   confine_wait(&child, 300000, &result, &err);
 *   confine_child_fini(&child);      kills what is left, reaps
 *
 * Fallible functions return enum confine_code and fill the caller's struct confine_err last.
 * Each command has a keeper, a process that shares the caller's memory (not its descriptors) until
 * the command has ended, and that ends with the caller however that ends. No SIGCHLD comes of it.
 *
 * Strings of a spec are borrowed until confine_plan_new returns. Paths are absolute. Out of memory
 * aborts the process: a service that aborts denies. Threads: an engine any, plans and children one
 * at a time.
 */
#ifndef GH_CONFINE_SPEC_H
#define GH_CONFINE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum confine_code {
    CONFINE_OK = 0,
    CONFINE_E_SPEC,    /* the spec makes no sense: relative path, cwd outside every grant, ... */
    CONFINE_E_ENFORCE, /* cannot be enforced as asked (EACCES): nothing ran */
    CONFINE_E_FILES,   /* out of descriptors (EMFILE): nothing ran, whatever enforcement says */
    CONFINE_E_APPLY,   /* the child could not confine itself (EPERM): nothing ran */
    CONFINE_E_EXEC,    /* the program could not be started: sys_errno says why */
    CONFINE_E_SYSTEM,  /* no process, no pipe, ... */
    CONFINE_E_TIMEOUT, /* confine_wait only: still running */
};

struct confine_err {
    enum confine_code code;
    int sys_errno;    /* 0: none */
    char detail[256]; /* one sentence */
};

enum confine_opt_in { CONFINE_NO, CONFINE_YES, CONFINE_CONTAINED };
enum confine_network { CONFINE_NET_OPEN, CONFINE_NET_NONE, CONFINE_NET_LOOPBACK, CONFINE_NET_TCP };
enum confine_namespaces { CONFINE_NS_AUTO, CONFINE_NS_OFF, CONFINE_NS_REQUIRE };
enum confine_session { CONFINE_OWN_SESSION, CONFINE_KEEP_SESSION };
enum confine_level { CONFINE_FULL, CONFINE_PARTIAL, CONFINE_UNENFORCED };
enum confine_deny_method { CONFINE_DENY_NONE, CONFINE_DENY_MASKED, CONFINE_DENY_CARVED };

/* A denied name: a glob (star, ?, [..], {a,b}) over one component, compared by bytes. */
struct confine_name {
    const char *glob;
    bool built_in; /* *.pem, *.key: public PEM content and package folders are exempt */
};

struct confine_spec {
    const char *const *argv; /* NULL-terminated; argv[0] is searched in the built PATH */
    const char *cwd;         /* absolute; inside a grant */
    const char *const *env;  /* "K=V", NULL-terminated or NULL: on top of the base set */
    bool inherit_env;        /* base set = the whole environment of this process, less the scrub */
    bool pass_gatehouse;     /* GATEHOUSE_* of `env` are passed (an agent's own run) */
    int stdio[3];            /* borrowed descriptors; -1: /dev/null */
    const char *home;        /* NULL: the operating system's idea */

    const char *const *write_roots; /* NULL-terminated lists; NULL is empty */
    const char *const *read_roots;  /* extra ones, scanned for denied names */
    const char *const *deny_paths;  /* absolute */
    const struct confine_name *deny_names;
    size_t n_deny_names;
    const char *tmp_dir;   /* private, exists, 0700; NULL: no writable temp, TMPDIR removed */
    const char *cache_dir; /* private, exists; NULL: none */

    enum confine_opt_in allow_unix_sockets;
    enum confine_opt_in allow_leaving_process_group;
    bool share_system_tmp;
    bool allow_ptrace; /* inside the own domain only; ignored without Landlock */
    bool protect_git;
    bool require_enforcement;
    enum confine_network network;
    const uint16_t *tcp_ports; /* for CONFINE_NET_TCP */
    size_t n_tcp_ports;
    enum confine_namespaces namespaces;
    enum confine_session session; /* KEEP: the terminal stays usable (tools in the foreground) */
};

enum { CONFINE_MAX_LOST = 16, CONFINE_MAX_MASKS = 4096 };

/* What was in force. Strings in `lost` are static. */
struct confine_report {
    enum confine_level enforcement;
    int landlock_abi; /* 0: none */
    bool seccomp;
    bool namespaces;
    enum confine_deny_method deny_method;
    enum confine_network network;
    bool unix_sockets; /* may be made */
    const char *lost[CONFINE_MAX_LOST + 1];
    size_t n_lost;
};

/* What the kernel can do, asked by doing it in a child. `why` is "" or one sentence. */
struct confine_kernel {
    int landlock_abi;
    bool landlock_denies; /* a child under an empty ruleset could not open a file */
    bool seccomp;
    bool namespaces;
    bool shadow_pins; /* an ancestor could not be renamed in a child */
    char why[256];
};

/* `status` is as wait(2) gives it. Times of the command and what it waited for. */
struct confine_result {
    int status;
    bool killed; /* by confine_kill, or because its keeper died */
    uint64_t cpu_us;
    uint64_t max_rss_kib;
};

/* `pid` is the keeper: init of the PID namespace, or guard of the tree. When `pidfd` is readable,
 * nothing the command started is alive (without namespaces: nothing the guard could find). */
struct confine_child {
    pid_t pid;
    int pidfd;
    int line; /* closing it kills everything; readable when the command has ended */
    struct confine_report report;
    void *stack; /* of the keeper, which shares this process's memory */
    bool over, reaped;
};

struct confine;
struct confine_plan;

/* Ask the kernel, compile the filters, open the system folders: before other threads start, or
 * where none calls getpwuid. To be freed with confine_free. Fails with E_SYSTEM. */
enum confine_code confine_new(struct confine **ret, struct confine_err *err);
void confine_free(struct confine *engine);

/* Borrowed from the engine. */
const struct confine_kernel *confine_kernel(const struct confine *engine);

/* Defaults: strict, contained opt-ins, enforcement required, git protected, stdio /dev/null. */
void confine_spec_init(struct confine_spec *spec);

/* Open what is granted, find what is denied, build rulesets and filters. To be freed with
 * confine_plan_free. Fails with E_SPEC, E_ENFORCE, E_FILES, E_SYSTEM. */
enum confine_code confine_plan_new(struct confine *engine, const struct confine_spec *spec,
                                   struct confine_plan **ret, struct confine_err *err);
void confine_plan_free(struct confine_plan *plan);

/* What would be in force. Borrowed. */
const struct confine_report *confine_plan_report(const struct confine_plan *plan);

/* Grants, denials, masks and why, one a line. */
void confine_plan_explain(const struct confine_plan *plan, FILE *out);

/* Start it; at most once a plan. *child is filled on success only. With namespaces `auto`, a root
 * that cannot be built falls back to the carve-out, reported. Fails with E_ENFORCE, E_FILES,
 * E_APPLY, E_EXEC, E_SYSTEM; nothing is left running then. */
enum confine_code confine_spawn(struct confine_plan *plan, struct confine_child *child,
                                struct confine_err *err);

/* Wait for the end of the command and of everything it started; -1 ms waits without limit. Fails
 * with E_TIMEOUT (still running), E_SYSTEM. Once it was OK, only confine_child_fini is left. */
enum confine_code confine_wait(struct confine_child *child, int timeout_ms,
                               struct confine_result *ret, struct confine_err *err);

/* SIGKILL to everything; confine_wait tells when it is over. Any number of times. */
void confine_kill(struct confine_child *child);

/* A signal to the command itself (SIGTERM, SIGINT, ...); 0 or -1 with errno. */
int confine_signal(const struct confine_child *child, int sig);

/* Kill what is left, reap, close. Taking a private root down takes the kernel about as long as
 * making it, and is waited for here. */
void confine_child_fini(struct confine_child *child);

/* A private 0700 folder below the system's temp folder; its path is written to *ret (malloc).
 * Fails with E_SYSTEM. */
enum confine_code confine_tmp_new(char **ret, struct confine_err *err);

/* Remove such a folder with what is in it, never following a link. */
void confine_tmp_remove(const char *path);

#endif
