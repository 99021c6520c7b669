"""A throw-away world for the confiner's tests: a git project W with a .env, a folder OUT outside,
and the real program run in it as root or as nobody."""
import ctypes
import functools
import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import unittest

BIN = os.environ.get("GH_CONFINE_BIN", "build")
USERS = ["root", "nobody"] if os.geteuid() == 0 else [pwd.getpwuid(os.geteuid()).pw_name]
MODES = {"ns": ["--namespaces", "require"], "plain": ["--namespaces", "off"]}
SECRET = "hunter2-canary"
TIMEOUT_S = 60


def as_user(user):
    """The words before a command that make it run as `user`."""
    if os.geteuid() != 0 or user == "root":
        return []
    who = pwd.getpwnam(user)
    return ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups", "--"]


# What a private root needs, tried without the program under test.
PIVOT = "mount -t tmpfs none . && cd \"$PWD\" && mkdir old && pivot_root . old"


def has_landlock():
    return ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1) > 0


@functools.cache
def modes(user):
    """The modes that the kernel lets this user have; a missing one is named once with its reason."""
    if not has_landlock():
        raise unittest.SkipTest("the kernel has no Landlock: commands are refused here")
    base = tempfile.mkdtemp(prefix="confine-probe-", dir="/var/tmp")
    os.chmod(base, 0o777)
    words = ["unshare", "--mount", "--pid", "--fork"] + ([] if user == "root" else ["--user", "--map-root-user"])
    done = subprocess.run(as_user(user) + words + ["sh", "-c", PIVOT], cwd=base, capture_output=True, text=True)
    os.rmdir(base)
    if done.returncode == 0:
        return MODES
    print(f"skipped: everything with namespaces as {user}: {done.stderr.strip()}", file=sys.stderr)
    return {"plain": MODES["plain"]}


def users_with_namespaces():
    return [user for user in USERS if "ns" in modes(user)]


class World:
    def __init__(self, user):
        self.user = user
        self.base = tempfile.mkdtemp(prefix="confine-world-", dir="/var/tmp")
        os.chmod(self.base, 0o755)
        self.w, self.out, self.ro = (os.path.join(self.base, n) for n in ("W", "OUT", "RO"))
        self.bin = os.path.join(self.base, "gatehouse-confine")
        shutil.copy(os.path.join(BIN, "gatehouse-confine"), self.bin)
        for folder in (self.w, self.out, self.ro, f"{self.w}/sub", f"{self.w}/secrets", f"{self.w}/plain",
                       f"{self.out}/dir"):
            os.mkdir(folder)
        shutil.copy(os.path.join(BIN, "attempts"), f"{self.w}/plain/attempts")
        for path in (f"{self.w}/.env", f"{self.w}/sub/.env", f"{self.w}/secrets/key", f"{self.out}/secret",
                     f"{self.ro}/.env"):
            self.put(path, SECRET + "\n")
        for path in (f"{self.w}/ok", f"{self.w}/plain/ok", f"{self.out}/file", f"{self.out}/dir/file", f"{self.ro}/file"):
            self.put(path, "fine\n")
        self.give()
        self.outside(["git", "init", "-q", self.w])
        self.outside(["git", "-C", self.w, "config", "user.email", "a@example.org"])
        self.outside(["git", "-C", self.w, "config", "user.name", "A"])

    def put(self, path, text):
        with open(path, "w") as file:
            file.write(text)

    def give(self):
        """Everything belongs to the user."""
        if os.geteuid() == 0:
            who = pwd.getpwnam(self.user)
            for folder, folders, files in os.walk(self.base):
                for name in [folder] + [os.path.join(folder, n) for n in folders + files]:
                    os.lchown(name, who.pw_uid, who.pw_gid)

    def environment(self, **more):
        home = os.path.join(self.base, "home")
        os.makedirs(home, exist_ok=True)
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": home, "LANG": "C.UTF-8"}
        return env | more

    def outside(self, argv, **kw):
        return subprocess.run(as_user(self.user) + argv, env=self.environment(), cwd=self.base, check=True,
                              capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, **kw)

    def confined(self, mode, argv, options=(), env=None, stdin="", cwd=None, prefix=(), write=True, **kw):
        """Run it confined in W; never raises for what the command does."""
        roots = ["--write", self.w] if write else []
        words = (as_user(self.user) + list(prefix) + [self.bin] + MODES[mode] + roots + ["--cwd", cwd or self.w]
                 + list(options) + ["--"] + list(argv))
        return subprocess.run(words, env=self.environment(**(env or {})), cwd=self.base, input=stdin,
                              capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, **kw)

    def attempts(self, mode, lines, options=(), **kw):
        """{line: result} of the attempts program run confined."""
        done = self.confined(mode, [f"{self.w}/plain/attempts"], options, stdin="\n".join(lines) + "\n", **kw)
        answers = [line.split("\t", 1) for line in done.stdout.splitlines()]
        if len(answers) != len(lines):
            raise AssertionError(f"{len(answers)} answers to {len(lines)} attempts: {done.stderr}")
        return {line: got for got, line in answers}

    def close(self):
        shutil.rmtree(self.base, ignore_errors=True)


class Listener:
    """Accepts on a local socket or a TCP port and counts."""

    def __init__(self, family, address):
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.bind(address)
        self.socket.listen(64)
        self.count = 0
        if family == socket.AF_UNIX and isinstance(address, str) and address[0] == "/":
            os.chmod(address, 0o777)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            self.count += 1
            peer.close()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def is_socket(path):
    return stat.S_ISSOCK(os.lstat(path).st_mode)
