/* kernel: constants newer than Debian 12's headers, and system calls without the C library.
 *
 * The raw calls return -errno and touch neither errno nor any lock: they are what runs between
 * clone and exec, in memory shared with the caller.
 */
#ifndef GH_CONFINE_KERNEL_H
#define GH_CONFINE_KERNEL_H

#include <stdint.h>
#include <sys/syscall.h>

/* ---- Landlock ---- */

#define LANDLOCK_EXECUTE (1ull << 0)
#define LANDLOCK_WRITE_FILE (1ull << 1)
#define LANDLOCK_READ_FILE (1ull << 2)
#define LANDLOCK_READ_DIR (1ull << 3)
#define LANDLOCK_MAKE_CHAR (1ull << 6)
#define LANDLOCK_MAKE_DIR (1ull << 7)
#define LANDLOCK_MAKE_REG (1ull << 8)
#define LANDLOCK_MAKE_SOCK (1ull << 9)
#define LANDLOCK_MAKE_FIFO (1ull << 10)
#define LANDLOCK_MAKE_BLOCK (1ull << 11)
#define LANDLOCK_MAKE_SYM (1ull << 12)
#define LANDLOCK_TRUNCATE (1ull << 14)
#define LANDLOCK_IOCTL_DEV (1ull << 15)

#define LANDLOCK_TCP_BIND (1ull << 0)
#define LANDLOCK_TCP_CONNECT (1ull << 1)

enum { LANDLOCK_PATH_BENEATH = 1, LANDLOCK_PORT = 2, LANDLOCK_ASK_VERSION = 1 };

struct landlock_rules {
    uint64_t fs, net, scoped;
};
struct landlock_path {
    uint64_t access;
    int32_t fd;
} __attribute__((packed));
struct landlock_port {
    uint64_t access, port;
};

/* ---- system calls the headers lack ---- */

#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif

/* ---- raw calls ---- */

#if defined(__x86_64__)
/* One system call; -errno on failure. */
static inline long kernel_call6(long nr, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long ret;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}
/* clone(2) without the C library, whose own may be replaced by a sanitizer's: `start(arg)` on the
 * stack that ends at `top` (16-byte aligned). The process id, or -errno. */
static inline long kernel_clone(unsigned long flags, void *top, int *pidfd, int (*start)(void *),
                                void *arg)
{
    void **stack = (void **)top - 2;
    stack[0] = (void *)(uintptr_t)start;
    stack[1] = arg;
    register long r10 __asm__("r10") = 0;
    register long r8 __asm__("r8") = 0;
    long ret;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "pop %%rax\n\t"
                     "pop %%rdi\n\t"
                     "call *%%rax\n\t"
                     "mov %%eax, %%edi\n\t"
                     "mov $231, %%eax\n\t" /* exit_group */
                     "syscall\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(ret)
                     : "a"(SYS_clone), "D"(flags), "S"(stack), "d"(pidfd), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return ret;
}
#elif defined(__aarch64__)
/* As above. */
static inline long kernel_clone(unsigned long flags, void *top, int *pidfd, int (*start)(void *),
                                void *arg)
{
    void **stack = (void **)top - 2;
    stack[0] = (void *)(uintptr_t)start;
    stack[1] = arg;
    register long x8 __asm__("x8") = SYS_clone;
    register long x0 __asm__("x0") = (long)flags;
    register long x1 __asm__("x1") = (long)(uintptr_t)stack;
    register long x2 __asm__("x2") = (long)(uintptr_t)pidfd;
    register long x3 __asm__("x3") = 0;
    register long x4 __asm__("x4") = 0;
    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "ldp x1, x0, [sp], #16\n\t"
                     "blr x1\n\t"
                     "mov x8, #94\n\t" /* exit_group */
                     "svc 0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                     : "x30", "memory");
    return x0;
}

/* As above. */
static inline long kernel_call6(long nr, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
#error "raw system calls are written for x86_64 and aarch64"
#endif

#define KERNEL_ARG(x) ((long)(uintptr_t)(x))
#define KERNEL_1(nr, a) kernel_call6(nr, KERNEL_ARG(a), 0, 0, 0, 0, 0)
#define KERNEL_2(nr, a, b) kernel_call6(nr, KERNEL_ARG(a), KERNEL_ARG(b), 0, 0, 0, 0)
#define KERNEL_3(nr, a, b, c) kernel_call6(nr, KERNEL_ARG(a), KERNEL_ARG(b), KERNEL_ARG(c), 0, 0, 0)
#define KERNEL_4(nr, a, b, c, d)                                                                   \
    kernel_call6(nr, KERNEL_ARG(a), KERNEL_ARG(b), KERNEL_ARG(c), KERNEL_ARG(d), 0, 0)
#define KERNEL_5(nr, a, b, c, d, e)                                                                \
    kernel_call6(nr, KERNEL_ARG(a), KERNEL_ARG(b), KERNEL_ARG(c), KERNEL_ARG(d), KERNEL_ARG(e), 0)

#endif
