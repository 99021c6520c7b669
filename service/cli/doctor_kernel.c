#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "cli/doctor.h"

#define CLOCK_FLOOR_MS INT64_C(1735689600000)   /* 2025: older than this program */
#define CLOCK_CEILING_MS INT64_C(4102444800000) /* 2100 */
#define LANDLOCK_ASK_VERSION 1U                 /* the flag; landlock's header is confine's */
#define LANDLOCK_WANTED 3                       /* truncation is covered from here on */

void cli_probe_clock(struct cli_doctor *doctor)
{
    struct timex state = {0};
    char text[GH_CLOCK_TEXT];
    int64_t now_ms = gh_clock_wall_ms();
    bool is_sane = now_ms >= CLOCK_FLOOR_MS && now_ms < CLOCK_CEILING_MS;
    bool is_synced = adjtimex(&state) >= 0 && (state.status & STA_UNSYNC) == 0;
    gh_clock_format(now_ms, text);
    cli_doctor_add(doctor, is_sane ? CLI_H_OK : CLI_H_FAIL, "clock",
                   is_sane ? "" : "Set the clock: tokens expire by it.", "%s%s", text,
                   is_synced ? ", synchronised" : "");
}

/* A service that must confine and cannot would refuse to start; one that need not only says so. */
static enum cli_health missing_layer(const struct cli_doctor *doctor)
{
    return doctor->config != NULL && !doctor->config->sandbox.require_enforcement ? CLI_H_WARN
                                                                                  : CLI_H_FAIL;
}

void cli_probe_landlock(struct cli_doctor *doctor)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_ASK_VERSION);
    if (abi <= 0) {
        cli_doctor_add(doctor, missing_layer(doctor), "landlock",
                       "Use a kernel with Landlock and add it to the lsm= boot parameter.",
                       "not available: %s", strerror(errno));
        return;
    }
    cli_doctor_add(doctor, abi < LANDLOCK_WANTED ? CLI_H_WARN : CLI_H_OK, "landlock",
                   abi < LANDLOCK_WANTED ? "A newer kernel confines more." : "", "ABI %ld", abi);
}

/* The first line of a small file below /proc; "" when it cannot be read. */
static void read_proc(const char *path, char *ret, size_t size)
{
    gh_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);
    ret[n > 0 ? n : 0] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
}

void cli_probe_seccomp(struct cli_doctor *doctor)
{
    char actions[256];
    read_proc("/proc/sys/kernel/seccomp/actions_avail", actions, sizeof actions);
    if (strstr(actions, "errno") == NULL) {
        cli_doctor_add(doctor, missing_layer(doctor), "seccomp",
                       "Use a kernel with CONFIG_SECCOMP_FILTER.", "filters are not available");
    } else {
        cli_doctor_add(doctor, CLI_H_OK, "seccomp", "", "%s", actions);
    }
}

void cli_probe_namespaces(struct cli_doctor *doctor)
{
    static const struct {
        const char *path;
        const char *off; /* the value that forbids them */
    } switches[] = {{"/proc/sys/kernel/unprivileged_userns_clone", "0"},
                    {"/proc/sys/user/max_user_namespaces", "0"},
                    {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"}};
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        char value[32];
        read_proc(switches[i].path, value, sizeof value);
        if (strcmp(value, switches[i].off) == 0) {
            cli_doctor_add(doctor, CLI_H_WARN, "user_namespaces",
                           "Confinement then carves denied files out instead of masking them.",
                           "%s is %s", switches[i].path, value);
            return;
        }
    }
    if (access("/proc/self/ns/user", F_OK) != 0) {
        cli_doctor_add(doctor, CLI_H_WARN, "user_namespaces", "Use a kernel with CONFIG_USER_NS.",
                       "the kernel has none");
        return;
    }
    cli_doctor_add(doctor, CLI_H_OK, "user_namespaces", "", "no switch forbids them");
}
