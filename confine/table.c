#include "table.h"

#include <string.h>

struct row {
    const char *path, *reason;
    enum trees_right right;
};

/* Read and execute. "/lib" and the like are links on merged systems: then the link is made. */
static const struct row system_rows[] = {
    {"/usr", "programs and libraries", TREES_READ},
    {"/bin", "programs", TREES_READ},
    {"/sbin", "programs", TREES_READ},
    {"/lib", "libraries", TREES_READ},
    {"/lib32", "libraries", TREES_READ},
    {"/lib64", "the loader", TREES_READ},
    {"/etc", "users, names, certificates, configuration", TREES_READ},
    {"/opt", "toolchains installed by hand", TREES_READ},
    {"/nix/store", "Nix programs", TREES_READ},
    {"/var/lib/dpkg", "package queries", TREES_READ},
    {"/var/cache/man", "man", TREES_READ},
    {"/run/systemd/resolve", "the resolver's real file", TREES_READ},
    {"/run/resolvconf", "the resolver's real file", TREES_READ},
    {"/sys/devices/system/cpu", "processor count and topology", TREES_READ},
    {"/sys/devices/system/node", "memory topology", TREES_READ},
    {"/sys/kernel/mm/transparent_hugepage", "Go, Java and allocators ask", TREES_READ},
    {"/sys/fs/cgroup", "limits that runtimes obey", TREES_READ},
};

static const struct row device_rows[] = {
    {"/dev/null", "redirections", TREES_DEVICE},
    {"/dev/zero", "zeros", TREES_DEVICE},
    {"/dev/full", "tests of full disks", TREES_DEVICE},
    {"/dev/random", "random numbers", TREES_DEVICE},
    {"/dev/urandom", "random numbers; git's temporary names", TREES_DEVICE},
};

/* Without a /proc of its own: other processes' secrets stay behind Landlock's ptrace rule. */
static const struct row host_rows[] = {
    {"/proc", "/proc/self, ps, leak checkers", TREES_READ},
};

static const struct row home_rows[] = {
    {".cargo", "cargo and its registry", TREES_READ},
    {".rustup", "Rust toolchains", TREES_READ},
    {".gitconfig", "git is fatal on one it cannot read", TREES_READ},
    {".config/git", "git is fatal on one it cannot read", TREES_READ},
    {".local/bin", "programs of the user", TREES_READ},
    {".local/lib", "Python packages of the user", TREES_READ},
    {".local/share/mise", "version manager", TREES_READ},
    {".local/share/pnpm", "pnpm itself", TREES_READ},
    {".local/share/uv", "uv's Pythons", TREES_READ},
    {".nvm", "version manager", TREES_READ},
    {".fnm", "version manager", TREES_READ},
    {".volta", "version manager", TREES_READ},
    {".asdf", "version manager", TREES_READ},
    {".pyenv", "version manager", TREES_READ},
    {".rbenv", "version manager", TREES_READ},
    {".sdkman", "version manager", TREES_READ},
    {".deno", "Deno", TREES_READ},
    {".bun", "Bun", TREES_READ},
    {".nix-profile", "Nix programs", TREES_READ},
    {"go", "Go modules and programs", TREES_READ},
    {"sdk", "Go toolchains", TREES_READ},
};

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static enum confine_code grant_rows(struct trees *trees, const struct row *rows, size_t n,
                                    struct confine_err *err)
{
    for (size_t i = 0; i < n; i++) {
        struct trees_wish wish = {.right = rows[i].right, .reason = rows[i].reason};
        CONFINE_TRY(trees_grant(trees, rows[i].path, &wish, err));
    }
    return CONFINE_OK;
}

enum confine_code table_system(struct trees *trees, struct confine_err *err)
{
    CONFINE_TRY(grant_rows(trees, system_rows, COUNT(system_rows), err));
    return grant_rows(trees, device_rows, COUNT(device_rows), err);
}

enum confine_code table_grant(struct trees *trees, const char *home, const char *cwd, bool own_dev,
                              struct confine_err *err)
{
    if (!own_dev) {
        CONFINE_TRY(grant_rows(trees, host_rows, COUNT(host_rows), err));
    }
    bool planted = home != NULL && util_below(home, cwd);
    for (size_t i = 0; home != NULL && i < COUNT(home_rows); i++) {
        confine_autofree char *path = util_format("%s/%s", home, home_rows[i].path);
        struct trees_wish wish = {
            .right = TREES_READ, .reason = home_rows[i].reason, .nofollow = planted};
        CONFINE_TRY(trees_grant(trees, path, &wish, err));
    }
    return CONFINE_OK;
}

void table_deny(struct trees *trees, const char *home)
{
    static const char *const credentials[] = {".cargo/credentials", ".cargo/credentials.toml",
                                              ".config/git/credentials", ".git-credentials"};
    static const char *const secrets[] = {
        "/etc/shadow",
        "/etc/shadow-",
        "/etc/gshadow",
        "/etc/gshadow-",
        "/etc/sudoers",
        "/etc/sudoers.d",
        "/etc/ssl/private",
        "/etc/ssh/ssh_host_rsa_key",
        "/etc/ssh/ssh_host_ecdsa_key",
        "/etc/ssh/ssh_host_ed25519_key",
        "/etc/ssh/ssh_host_dsa_key",
    };
    for (size_t i = 0; home != NULL && i < COUNT(credentials); i++) {
        confine_autofree char *path = util_format("%s/%s", home, credentials[i]);
        if (access(path, F_OK) == 0) {
            trees_deny(trees, path, "credentials");
        }
    }
    for (size_t i = 0; i < COUNT(secrets); i++) {
        if (access(secrets[i], R_OK) == 0) { /* else its mode closes it already */
            trees_deny(trees, secrets[i], "the system's secrets");
        }
    }
}
