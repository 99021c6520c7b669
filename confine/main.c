/* gatehouse-confine: run one command confined, in whoever's process tree it is started. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>

#include "order.h"

enum { EXIT_USAGE = 2, EXIT_REFUSED = 126, EXIT_NO_PROGRAM = 127 };

static int usage(void)
{
    fputs("usage: gatehouse-confine [OPTION…] -- CMD…\n"
          "       gatehouse-confine --plan FILE\n\n"
          "  --write DIR      may be written (default: the working directory)\n"
          "  --read DIR       may be read\n"
          "  --deny WHAT      a path, or a name pattern anywhere below those\n"
          "  --network WORD   unrestricted, none, loopback, tcp:PORT,…\n"
          "  --namespaces WORD, --unix-sockets WORD, --leave-group WORD\n"
          "                   auto, off, require; no, yes, contained\n"
          "  --cwd DIR, --cache DIR, --tmp DIR, --env K=V, --inherit-env yes, --share-tmp yes,\n"
          "  --protect-git no, --allow-ptrace yes, --require no, --own-session yes\n"
          "  --explain        print what is granted, denied and masked, and why; run nothing\n\n"
          "The command's exit code is passed on, 128+N for signal N; 126: not run.\n",
          stderr);
    return EXIT_USAGE;
}

static int complain(const struct confine_err *err)
{
    fprintf(stderr, "gatehouse-confine: %s\n", err->detail);
    return err->code == CONFINE_E_EXEC && err->sys_errno == ENOENT ? EXIT_NO_PROGRAM : EXIT_REFUSED;
}

/* The first signal is passed on (one from a terminal has reached the command by itself); the
 * second ends it. */
static void pass_signal(int signals, struct confine_child *child, int *n_signals)
{
    struct signalfd_siginfo info;
    if (read(signals, &info, sizeof info) != (ssize_t)sizeof info) {
        return;
    }
    if (++*n_signals > 1) {
        confine_kill(child);
    } else if (info.ssi_code <= 0) {
        confine_signal(child, (int)info.ssi_signo);
    }
}

static int wait_for(struct confine_child *child, int signals)
{
    struct confine_result result;
    struct confine_err err;
    int n_signals = 0;
    for (;;) {
        struct pollfd fds[2] = {{.fd = child->line, .events = POLLIN},
                                {.fd = signals, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR) {
            return EXIT_REFUSED;
        }
        if (fds[1].revents != 0) {
            pass_signal(signals, child, &n_signals);
        }
        if (fds[0].revents != 0) {
            break;
        }
    }
    if (confine_wait(child, -1, &result, &err) != CONFINE_OK) {
        return complain(&err);
    }
    return WIFEXITED(result.status) ? WEXITSTATUS(result.status) : 128 + WTERMSIG(result.status);
}

static int run_plan(struct confine *engine, const struct order *order)
{
    struct confine_plan *plan = NULL;
    struct confine_child child;
    struct confine_err err;
    if (confine_plan_new(engine, &order->spec, &plan, &err) != CONFINE_OK) {
        return complain(&err);
    }
    if (order->explain) {
        confine_plan_explain(plan, stdout);
        confine_plan_free(plan);
        return 0;
    }
    /* Blocked before the start: none may end this program and leave its folder behind. */
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    int signals = signalfd(-1, &mask, SFD_CLOEXEC);
    enum confine_code code = confine_spawn(plan, &child, &err);
    confine_plan_free(plan);
    int status = code == CONFINE_OK ? wait_for(&child, signals) : complain(&err);
    if (code == CONFINE_OK) {
        confine_child_fini(&child);
    }
    close(signals);
    return status;
}

static int run(struct order *order)
{
    struct confine *engine = NULL;
    struct confine_err err;
    char *tmp = NULL;
    if (confine_new(&engine, &err) != CONFINE_OK) {
        return complain(&err);
    }
    if (!order->spec.share_system_tmp && order->tmp == NULL &&
        confine_tmp_new(&tmp, &err) == CONFINE_OK) {
        order->spec.tmp_dir = tmp;
    }
    int status = run_plan(engine, order);
    if (tmp != NULL) {
        confine_tmp_remove(tmp);
        free(tmp);
    }
    confine_free(engine);
    return status;
}

int main(int argc, char **argv)
{
    confine_auto(order_fini) struct order order;
    struct confine_err err;
    order_init(&order);
    if (argc == 3 && strcmp(argv[1], "--plan") == 0) {
        enum confine_code code = order_read(&order, argv[2], time(NULL), &err);
        return code == CONFINE_OK ? run(&order) : (complain(&err), EXIT_REFUSED);
    }
    if (!order_parse(&order, argv + 1)) {
        return usage();
    }
    order_seal(&order);
    return run(&order);
}
