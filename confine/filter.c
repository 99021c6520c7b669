#include "filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kernel.h"
#include "util.h"

/* EPERM whatever the arguments are. By name: libseccomp knows what an architecture lacks. */
static const char *const never[] = {
    "process_vm_readv",
    "process_vm_writev",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "mount",
    "umount",
    "umount2",
    "reboot",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "pivot_root",
    "swapon",
    "swapoff",
    "acct",
    "bpf",
    "perf_event_open",
    "keyctl",
    "add_key",
    "request_key",
    "userfaultfd",
    "unshare",
    "setns",
    "personality",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "move_mount",
    "open_tree",
    "mount_setattr",
    /* ours: these read through masks, change what everybody shares or reach into others */
    "open_by_handle_at",
    "name_to_handle_at",
    "chroot",
    "pidfd_getfd",
    "process_madvise",
    "kcmp",
    "fanotify_init",
    "clock_settime",
    "clock_settime64",
    "settimeofday",
    "adjtimex",
    "clock_adjtime",
    "clock_adjtime64",
    "stime",
    "sethostname",
    "setdomainname",
    "iopl",
    "ioperm",
    "modify_ldt",
    "quotactl",
    "quotactl_fd",
    "vhangup",
    "lookup_dcookie",
    "syslog",
    "nfsservctl",
    "migrate_pages",
    "move_pages",
    "uselib",
    "_sysctl",
    "ustat",
    "sysfs",
    "vm86",
    "vm86old",
};

static const unsigned namespaces[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWNET,   CLONE_NEWPID,
                                      CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};

#ifdef __s390x__
enum { CLONE_FLAGS = 1 };
#else
enum { CLONE_FLAGS = 0 };
#endif

static const uint64_t LOW = 0xffffffff; /* the kernel takes an int: what is above must not count */
static const uint32_t REFUSE = SCMP_ACT_ERRNO(EPERM);

/* Rules add up to one sum of failures: libseccomp's codes are negative. */
static int deny_if(scmp_filter_ctx ctx, int call, unsigned arg, uint64_t value)
{
    return seccomp_rule_add(ctx, REFUSE, call, 1, SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, LOW, value));
}

static int deny_calls(scmp_filter_ctx ctx, unsigned wish)
{
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        int call = seccomp_syscall_resolve_name(never[i]);
        if (call != __NR_SCMP_ERROR && call >= 0 && seccomp_rule_add(ctx, REFUSE, call, 0) != 0) {
            return -1;
        }
    }
    int bad = seccomp_rule_add(ctx, REFUSE, SYS_open_tree_attr, 0);
    if ((wish & FILTER_PTRACE) == 0) {
        bad |= seccomp_rule_add(ctx, REFUSE, SCMP_SYS(ptrace), 0);
    }
    if ((wish & FILTER_LEAVE) == 0) {
        bad |= seccomp_rule_add(ctx, REFUSE, SCMP_SYS(setsid), 0);
        bad |= seccomp_rule_add(ctx, REFUSE, SCMP_SYS(setpgid), 0);
    }
    if ((wish & FILTER_PLAIN) != 0) {
        bad |= seccomp_rule_add(ctx, REFUSE, SCMP_SYS(prlimit64), 1, SCMP_A0(SCMP_CMP_NE, 0, 0));
        bad |= seccomp_rule_add(ctx, REFUSE, SCMP_SYS(setpriority), 1, SCMP_A1(SCMP_CMP_NE, 0, 0));
    }
    /* its flags sit in memory a filter cannot read; libraries fall back to clone */
    bad |= seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
        bad |= seccomp_rule_add(
            ctx, REFUSE, SCMP_SYS(clone), 1,
            SCMP_CMP(CLONE_FLAGS, SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]));
    }
    bad |= deny_if(ctx, SCMP_SYS(ioctl), 1, TIOCSTI);
    bad |= deny_if(ctx, SCMP_SYS(ioctl), 1, TIOCLINUX);
    return bad;
}

/* Streams over IP only: every other type, the two flags aside. */
static int deny_other_ip(scmp_filter_ctx ctx, uint64_t family)
{
    int bad = 0;
    for (uint64_t type = 0; type < 16; type++) {
        if (type != SOCK_STREAM) {
            bad |= seccomp_rule_add(ctx, REFUSE, SCMP_SYS(socket), 2,
                                    SCMP_A0(SCMP_CMP_MASKED_EQ, LOW, family),
                                    SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, type));
        }
    }
    /* MPTCP and SCTP are streams too, which Landlock does not judge */
    bad |= seccomp_rule_add(ctx, REFUSE, SCMP_SYS(socket), 2,
                            SCMP_A0(SCMP_CMP_MASKED_EQ, LOW, family), SCMP_A2(SCMP_CMP_GT, 6, 0));
    for (uint64_t protocol = 1; protocol < 6; protocol++) {
        bad |= seccomp_rule_add(ctx, REFUSE, SCMP_SYS(socket), 2,
                                SCMP_A0(SCMP_CMP_MASKED_EQ, LOW, family),
                                SCMP_A2(SCMP_CMP_EQ, protocol, 0));
    }
    return bad;
}

static bool is_open_family(unsigned family, unsigned wish)
{
    switch (family) {
    case AF_UNIX:
        return (wish & FILTER_UNIX) != 0;
    case AF_INET:
    case AF_INET6:
    case AF_NETLINK:
        return (wish & FILTER_NO_IP) == 0;
    default:
        return false;
    }
}

static int deny_sockets(scmp_filter_ctx ctx, unsigned wish)
{
    enum { LAST = 63 };
    int bad = seccomp_rule_add(ctx, REFUSE, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_GT, LAST, 0));
    for (unsigned family = 0; family <= LAST; family++) {
        if (!is_open_family(family, wish)) {
            bad |= deny_if(ctx, SCMP_SYS(socket), 0, family);
        }
    }
    if ((wish & FILTER_NO_IP) == 0) {
        /* NETLINK_ROUTE, which is 0, lists interfaces; the other families configure the kernel */
        bad |= seccomp_rule_add(ctx, REFUSE, SCMP_SYS(socket), 2,
                                SCMP_A0(SCMP_CMP_MASKED_EQ, LOW, AF_NETLINK),
                                SCMP_A2(SCMP_CMP_NE, 0, 0));
        if ((wish & FILTER_TCP) != 0) {
            bad |= deny_other_ip(ctx, AF_INET);
            bad |= deny_other_ip(ctx, AF_INET6);
        }
    }
    if ((wish & FILTER_UNIX) == 0) {
        bad |= seccomp_rule_add(ctx, REFUSE, SCMP_SYS(socketpair), 2,
                                SCMP_A0(SCMP_CMP_MASKED_EQ, LOW, AF_UNIX),
                                SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, SOCK_DGRAM));
    }
    return bad;
}

static enum confine_code export(scmp_filter_ctx ctx, struct sock_fprog *ret,
                                struct confine_err *err) {
    confine_autoclose int fd = memfd_create("filter", MFD_CLOEXEC);
    if (fd < 0 || seccomp_export_bpf(ctx, fd) != 0){
        return util_fail(err,
                         errno == EMFILE || errno == ENFILE ? CONFINE_E_FILES : CONFINE_E_SYSTEM,
                         errno, "The filter could not be compiled.");}
off_t size = lseek(fd, 0, SEEK_END);
struct sock_filter *code = util_alloc((size_t)size, 1);
if (pread(fd, code, (size_t)size, 0) != size) {
    free(code);
    return util_fail(err, CONFINE_E_SYSTEM, errno, "The filter could not be read back.");
}
ret->filter = code;
ret->len = (unsigned short)((size_t)size / sizeof *code);
return CONFINE_OK;
}

enum confine_code filter_build(unsigned wish, struct sock_fprog *ret, struct confine_err *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    if (ctx == NULL) {
        return util_fail(err, CONFINE_E_SYSTEM, ENOMEM, "libseccomp does not start.");
    }
    /* The default for foreign conventions (x32, int 0x80) kills instead of refusing. */
    int bad = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, REFUSE);
    bad |= seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree */
    bad |= deny_calls(ctx, wish);
    bad |= deny_sockets(ctx, wish);
    enum confine_code code =
        bad != 0 ? util_fail(err, CONFINE_E_SYSTEM, 0, "A rule of the filter was refused.")
                 : export(ctx, ret, err);
    seccomp_release(ctx);
    return code;
}

bool filter_works(const struct sock_fprog *program)
{
    pid_t pid = vfork();
    if (pid == 0) {
        bool denied = KERNEL_5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                      KERNEL_3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program) == 0 &&
                      KERNEL_1(SYS_unshare, 0) == -EPERM;
        KERNEL_1(SYS_exit_group, denied ? 0 : 1);
    }
    int status = 1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}
