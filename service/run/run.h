/* run: confined commands while they run. The confiner (confine/) ends here.
 *
 * One engine and one thread for all commands: it drains their output into bounded tails, feeds
 * their input, keeps their time and notices their end. A command is a job: run_spawn starts it,
 * run_watch hands it to the thread, `on_end` gives it back, run_job_free forgets it.
 *
 * Threads: any. Callbacks run on the thread of this module without its lock held. Lock order: the
 * caller's lock, then ours.
 */
#ifndef GH_RUN_RUN_H
#define GH_RUN_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct run;     /* the engine and its thread */
struct run_job; /* one command */

enum run_level { RUN_NONE = 0, RUN_PARTIAL, RUN_FULL };
enum run_opt_in { RUN_NO = 0, RUN_YES, RUN_CONTAINED };
enum run_network { RUN_NET_OPEN = 0, RUN_NET_TCP, RUN_NET_LOOPBACK, RUN_NET_NONE };
enum run_namespaces { RUN_NS_AUTO = 0, RUN_NS_OFF, RUN_NS_REQUIRE };
enum run_deny_method { RUN_DENY_NONE = 0, RUN_DENY_MASKED, RUN_DENY_CARVED };
enum run_stream { RUN_STDOUT = 0, RUN_STDERR };

enum {
    RUN_MAX_LOST = 16,
    RUN_MAX_INPUT = 1 << 20, /* bytes of input that wait for the command */
    RUN_MAX_CHUNK = 1 << 16, /* bytes that on_data gets at most */
};

/* What the kernel can do. `why` is "" or one sentence. */
struct run_abilities {
    int landlock_abi; /* 0: none */
    bool seccomp;
    bool namespaces;
    enum run_level enforcement; /* what a command gets at best */
    enum run_deny_method deny_method;
    char why[256];
};

/* What was in force for one command. Strings are static. */
struct run_report {
    enum run_level enforcement;
    enum run_deny_method deny_method;
    enum run_network network;
    int landlock_abi;
    bool seccomp;
    bool namespaces;
    const char *lost[RUN_MAX_LOST];
    size_t n_lost;
};

enum run_end { RUN_EXITED = 0, RUN_SIGNALED, RUN_TIMED_OUT, RUN_KILLED };

struct run_result {
    enum run_end end;
    int exit_code; /* RUN_EXITED */
    int signal;    /* RUN_SIGNALED */
    int64_t duration_ms;
    int64_t cpu_ms;
    int64_t max_rss_kib;
};

/* A denied name: a glob over one component. */
struct run_name {
    const char *glob;
    bool built_in; /* as confine_name: public PEM content and package folders are exempt */
};

/* A piece of output, `offset` bytes from the stream's start; `data` is borrowed for the call. */
typedef void run_data_fn(enum run_stream stream, const char *data, size_t len, uint64_t offset,
                         void *cookie);

/* The command and all it started are gone; called once, after the last on_data. The job is the
 * caller's again. */
typedef void run_end_fn(const struct run_result *result, void *cookie);

/* All borrowed until run_spawn returns, but for `cookie`. */
struct run_spec {
    const char *const *argv; /* NULL-ended; argv[0] is searched in the built PATH */
    const char *const *env;  /* "K=V", NULL-ended; on top of the built set */
    const char *cwd;         /* canonical, at or below a write root */
    const char *home;        /* or NULL */
    const char *const *write_roots;
    const char *const *read_roots;
    const char *const *deny_paths;
    const struct run_name *deny_names;
    size_t n_deny_names;
    const char *cache_dir; /* private, exists; or NULL */
    enum run_opt_in unix_sockets;
    enum run_opt_in leaving_group;
    bool share_system_tmp;
    bool protect_git;
    bool require_enforcement;
    enum run_network network;
    const uint16_t *tcp_ports;
    size_t n_tcp_ports;
    enum run_namespaces namespaces;
    const char *input; /* bytes for its standard input, or NULL */
    size_t input_len;
    bool is_interactive; /* its standard input stays open for run_input */
    int64_t timeout_ms;  /* from the start */
    size_t tail_bytes;   /* of each stream that are kept: the last ones */
    run_data_fn *on_data;
    run_end_fn *on_end;
    void *cookie; /* for both */
};

/* Ask the kernel, start the thread. *ret is owned by caller (run_free). Fails with GH_IO, GH_NOMEM.
 */
GH_MUST_USE enum gh_code run_new(struct run **ret, struct gh_err *err);

/* Start nothing more, kill everything, wait (at most `grace_ms`) for the ends of what is watched.
 */
void run_stop(struct run *run, int64_t grace_ms);

/* Kill what is left, wait for its end, free. No thread may be in run_spawn. NULL is fine. */
void run_free(struct run *run);

/* Borrowed from `run`. */
const struct run_abilities *run_abilities(const struct run *run);

/* Start a command. Looks at the file system for what is denied: blocks. *ret is owned by caller,
 * who calls run_watch next. Fails with GH_INVALID (it cannot run like that: no such program, ...),
 * GH_FORBIDDEN (it cannot be confined as required), GH_STOPPING, GH_BUSY (out of descriptors or
 * processes). Nothing runs then. */
GH_MUST_USE enum gh_code run_spawn(struct run *run, const struct run_spec *spec,
                                   struct run_job **ret, struct gh_err *err);

/* From here on the thread looks after it; `on_end` will come. */
void run_watch(struct run_job *job);

/* Kill it with all it started; on_end tells when it is over. Any number of times until then. */
void run_kill(struct run_job *job);

/* Queue bytes for its input, then its end when `is_end`. False: its input is closed, or more than
 * RUN_MAX_INPUT bytes would wait (then nothing is queued). */
GH_MUST_USE bool run_input(struct run_job *job, const char *data, size_t len, bool is_end);

/* Append the kept tail of a stream; how many bytes came before it is the result. */
uint64_t run_tail(struct run_job *job, enum run_stream stream, struct gh_buf *out);

/* What is in force. Borrowed from the job. */
const struct run_report *run_job_report(const struct run_job *job);

/* After on_end. */
void run_job_free(struct run_job *job);

#endif
