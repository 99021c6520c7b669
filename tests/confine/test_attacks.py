#!/usr/bin/env python3
"""Attempts against the real program and the real kernel: a table (attempt, expected with namespaces,
expected without), in both modes, as root and as nobody. S82 is scenario 82, B125 a field case; they
are listed in why-not.txt when they are tested elsewhere or not here.

"any" without namespaces is what the confiner reports as lost in that mode."""
import functools
import hashlib
import os
import pty
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import world  # noqa: E402

NO = "EACCES EPERM ENOENT EROFS EBUSY EXDEV"

# (case, attempt, with namespaces, without). {w} {out} {ro} {base} {victim} {port} stand for the world's.
ROWS = [
    ("B133 descriptors", "fds", "ok", "ok"),
    ("S82 read inside", "read {w}/ok", "ok", "ok"),
    ("S82 write inside", "write {w}/plain/ok", "ok", "ok"),
    ("S82 read outside", "read {out}/file", "ENOENT", "EACCES"),
    ("S82 write outside", "write {out}/file", "ENOENT", "EACCES"),
    ("S82 create outside", "create {out}/new", "ENOENT", "EACCES"),
    ("S82 list outside", "list {out}", "ENOENT", "EACCES"),
    ("S82 program", "exec /bin/true", "ok", "ok"),
    ("S82 read system", "read /etc/passwd", "ok", "ok"),
    ("S82 write system", "write /etc/passwd", "EROFS EACCES", "EACCES"),
    ("S82 create system", "create /usr/new", "EROFS", "EACCES"),
    ("S82 extra read root", "read {ro}/file", "ok", "ok"),
    ("S82 write extra read root", "write {ro}/file", "EROFS", "EACCES"),
    ("S82 create in extra read root", "create {ro}/new", "EROFS", "EACCES"),
    ("S82 shadow", "read /etc/shadow", "EACCES", "EACCES"),
    ("S83 read", "read {w}/.env", "EACCES", "EACCES"),
    ("S83 write", "write {w}/.env", "EACCES", "EACCES"),
    ("S83 truncate", "truncate {w}/.env", "EINVAL EACCES EROFS", "EACCES"),
    ("S83 nested", "read {w}/sub/.env", "EACCES", "EACCES"),
    ("S83 sibling", "read {w}/ok", "ok", "ok"),
    ("S83 in read root", "read {ro}/.env", "EACCES", "EACCES"),
    ("S83 denied folder", "read {w}/secrets/key", "ENOENT EACCES", "EACCES"),
    ("S83 create in denied folder", "create {w}/secrets/new", "EROFS EACCES", "EACCES"),
    ("S83 by O_PATH", "opath {w}/.env", "EACCES", "EACCES"),
    ("S83 by /proc/self/cwd", "read /proc/self/cwd/.env", "EACCES", "EACCES"),
    ("S83 by /proc/self/root", "read /proc/self/root{w}/.env", "EACCES", "EACCES"),
    ("S83 by /proc/1/root", "read /proc/1/root{w}/.env", "EACCES EPERM", "EACCES EPERM"),
    ("S83 by /proc/1/cwd", "read /proc/1/cwd/.env", "EACCES EPERM", "EACCES EPERM"),
    ("S83 by ..", "read {w}/plain/../.env", "EACCES", "EACCES"),
    ("S83 by handle", "handle {w}/.env", "EPERM", "EPERM"),
    ("S83 execute", "exec {w}/.env", "EACCES", "EACCES"),
    ("S84 list", "list {w}", "ok", "ok"),
    ("S84 create", "mknod {w}/made", "ok", "ok"),
    ("S84 folder", "mkdir {w}/made-dir", "ok", "ok"),
    ("S84 rm in the root", "unlink {w}/made", "ok", "EACCES"),
    ("S84 rmdir in the root", "rmdir {w}/made-dir", "ok", "EACCES"),
    ("S85 mv .env", "rename {w}/.env {w}/x", "EBUSY", "EACCES EXDEV"),
    ("S85 mv .env deeper", "rename {w}/.env {w}/plain/x", "EBUSY", "EACCES EXDEV"),
    ("S85 rm .env", "unlink {w}/.env", "EBUSY", "EACCES"),
    ("S85 replace .env", "rename {w}/plain/ok {w}/.env", "EBUSY", "EACCES EXDEV"),
    ("S85 exchange .env", "exchange {w}/ok {w}/.env", "EBUSY", "EACCES EXDEV"),
    ("S85 mv secrets", "rename {w}/secrets {w}/s2", "EBUSY", "EACCES EXDEV"),
    ("S85 mv what holds .env", "rename {w}/sub {w}/sub2", "EBUSY", "EACCES EXDEV"),
    ("S85 exchange what holds .env", "exchange {w}/sub {w}/plain", "EBUSY", "EACCES EXDEV"),
    ("S85 mv .git", "rename {w}/.git {w}/git2", "EBUSY", "EACCES EXDEV ok"),
    ("S85 link .env", "link {w}/.env {w}/y", "EXDEV", "EACCES ok"),
    ("S85 link .env deeper", "link {w}/.env {w}/plain/y", "EXDEV", "EACCES EXDEV"),
    ("S85 read that link", "read {w}/y", "ENOENT", "EACCES ENOENT"),
    ("S85 rmdir secrets", "rmdir {w}/secrets", "EBUSY", "EACCES"),
    ("S86 link to a folder outside", "read {w}/to-out/file", "ENOENT", "EACCES"),
    ("S86 write through it", "write {w}/to-out/file", "ENOENT", "EACCES"),
    ("S86 link to a file outside", "write {w}/to-file", "ENOENT", "EACCES"),
    ("S86 link to /", "read {w}/to-root{out}/file", "ENOENT", "EACCES"),
    ("S86 link to .env", "read {w}/plain/to-env", "EACCES", "EACCES"),
    ("S88 another name of .env", "read {w}/plain/alias", "EACCES", "EACCES"),
    ("S89 denied by a link", "read {w}/plain/real-secret", "EACCES", "EACCES"),
    ("S89 the link itself", "read {w}/plain/link-secret", "EACCES ENXIO ELOOP", "EACCES"),
    ("S91 /tmp of the host", "read {base}/OUT/file", "ENOENT", "EACCES"),
    ("S91 planted in /tmp", "read {planted}", "ENOENT", "EACCES"),
    ("S93 user namespaces by setsid child", "own_child", "ok", "ok"),
    ("S96 kill", "kill {victim} 9", "ESRCH", "EPERM"),
    ("S96 stop", "kill {victim} 19", "ESRCH", "EPERM"),
    ("B130 tgkill", "tgkill {victim}", "ESRCH", "EPERM"),
    ("B130 pidfd", "pidfd {victim}", "ESRCH EINVAL", "EPERM"),
    ("B130 prlimit", "prlimit {victim}", "ESRCH", "EPERM"),
    ("B130 renice", "renice {victim}", "ESRCH", "EPERM"),
    ("B130 keeper", "kill 1 9", "EPERM", "EPERM"),
    ("B130 own child", "own_child", "ok", "ok"),
    ("B125 link outside", "link {out}/secret {w}/l1", "ENOENT", "EACCES EXDEV"),
    ("B125 link read-only", "link {ro}/file {w}/l2", "EXDEV EROFS", "EACCES EXDEV"),
    ("B125 by descriptor", "link_fd {ro}/file {w}/l3", "EXDEV EROFS", "EACCES EXDEV"),
    ("B125 by empty path", "link_empty {ro}/file {w}/l4", "EXDEV EROFS ENOENT", "EACCES EXDEV ENOENT"),
    ("B125 outside by descriptor", "link_fd {out}/secret {w}/l5", "ENOENT", "EACCES EXDEV"),
    ("B152 link inside", "link {w}/plain/ok {w}/plain/ok2", "ok", "ok"),
    ("chmod outside", "chmod {out}/file", "ENOENT", "any"),
    ("chmod read root", "chmod {ro}/file", "EROFS", "any"),
    ("chown read root", "chown {ro}/file", "EROFS", "any"),
    ("times of read root", "utime {ro}/file", "EROFS", "any"),
    ("xattr of read root", "xattr {ro}/file", "EROFS", "any"),
    ("chmod system", "chmod /usr/bin/env", "EROFS", "any" if os.geteuid() == 0 else "EPERM"),
    ("chmod .env", "chmod {w}/.env", "EROFS", "any"),
    ("xattr of .env", "xattr {w}/.env", "EROFS EPERM", "any"),
    ("character device", "chardev {w}/plain/dev", "EPERM EACCES", "EACCES EPERM"),
    ("block device", "blockdev {w}/plain/dev", "EPERM EACCES", "EACCES EPERM"),
    ("kernel log", "read /dev/kmsg", "ENOENT", "EACCES EPERM"),
    ("kernel memory", "read /proc/kcore", "EACCES EPERM ENOENT", "EACCES EPERM ENOENT"),
    ("disk", "read {disk}", "ENOENT", "EACCES EPERM ENOENT"),
    ("/proc/sys", "write /proc/sys/kernel/core_pattern", "EROFS EACCES", "EACCES"),
    ("sysrq", "write /proc/sysrq-trigger", "EROFS EACCES EPERM ENOENT", "EACCES EPERM ENOENT"),
    ("/sys", "write /sys/fs/cgroup/cgroup.procs", "EROFS EACCES ENOENT", "EACCES ENOENT"),
    ("keeper's memory", "read /proc/1/mem", "EACCES EPERM EIO", "EACCES EPERM"),
    ("keeper's environment", "read /proc/1/environ", "EACCES EPERM", "EACCES EPERM"),
    ("keeper's descriptors", "read /proc/1/fd/0", "EACCES EPERM", "EACCES EPERM"),
    ("environment outside", "read /proc/{victim}/environ", "ENOENT", "EACCES EPERM"),
    ("memory outside", "read /proc/{victim}/mem", "ENOENT", "EACCES EPERM"),
    ("the covered place", "list /proc/f", "ENOENT", "ENOENT"),
    ("the covered place by ..", "chdir_up /proc ../proc/o", "ENOENT", "ENOENT"),
    ("root listing", "create /new", "EROFS", "EACCES"),
    ("null", "write /dev/null", "ok", "ok"),
    ("random", "read /dev/urandom", "ok", "ok"),
    ("chmod null", "chmod /dev/null", "EROFS", "any" if os.geteuid() == 0 else "EPERM"),
    ("B131 shm", "create /dev/shm/x", "ok", "EACCES"),
    ("B132 families", "families", "ok", "ok"),
    ("B132 netlink route", "socket 16 3 0", "ok", "ok"),
    ("B132 netlink audit", "socket 16 3 9", "EPERM", "EPERM"),
    ("B132 vsock", "socket 40 1 0", "EPERM", "EPERM"),
    ("B132 alg", "socket 38 5 0", "EPERM", "EPERM"),
    ("B132 packet", "socket 17 3 0", "EPERM", "EPERM"),
    ("B132 raw", "socket 2 3 1", "EPERM", "EPERM"),
    ("B129 outside", "unix {out}/s.sock", "ENOENT", "EPERM"),
    ("B129 outside datagram", "unix {out}/s.sock dgram", "ENOENT", "EPERM"),
    ("B129 in /tmp", "unix {base}/t.sock", "ENOENT", "EPERM"),
    ("B129 inside", "unix {w}/s.sock", "ok", "EPERM"),
    ("S92 abstract", "abstract confine-test-{port}", "EPERM", "EPERM"),
    ("S92 stream pair", "pair 1", "ok", "ok"),
    ("S92 seqpacket pair", "pair 5", "ok", "ok"),
    ("S92 datagram pair", "pair 2", "ok", "EPERM"),
    ("S94 setsid", "setsid", "ok", "EPERM"),
    ("S94 setpgid", "setpgid", "ok", "EPERM"),
    ("network", "tcp {port}", "ok", "ok"),
    ("B122 guard", "write {w}/.git/config", "EROFS", "any"),
    ("B122 hook", "create {w}/.git/hooks/post-commit", "EROFS", "any"),
    ("B122 replace the configuration", "rename {w}/plain/ok2 {w}/.git/config", "EBUSY EXDEV", "any"),
    ("B122 agent settings", "write {w}/.mcp.json", "EROFS", "any"),
    ("S83 still whole", "read {w}/.env", "EACCES", "EACCES"),
]

# Refused calls: EPERM but for these.
CALLS = {"clone3": "ENOSYS", "memfd_create": "ok"}


def everywhere(test):
    """The test once as each user in each mode, each time in a fresh world."""
    @functools.wraps(test)
    def run(self):
        for user in world.USERS:
            for mode in world.modes(user):
                with self.subTest(user=user, mode=mode):
                    w = world.World(user)
                    try:
                        test(self, mode, w)
                    finally:
                        w.close()
    return run


class Attacks(unittest.TestCase):
    def setUp(self):
        self.listeners = []
        self.victims = []

    def tearDown(self):
        for one in self.listeners:
            one.close()
        for one in self.victims:
            one.kill()
            one.wait()

    def victim(self, user):
        """A process of the same user outside."""
        self.victims.append(subprocess.Popen(world.as_user(user) + ["sleep", "300"]))
        return self.victims[-1]

    def listen(self, family, address):
        self.listeners.append(world.Listener(family, address))
        return self.listeners[-1]

    def fill(self, w):
        for target, name in ((w.out, "to-out"), (w.out + "/file", "to-file"), ("/", "to-root"),
                             ("../.env", "plain/to-env"), (f"{w.w}/plain/real-secret", "plain/link-secret")):
            os.symlink(target, f"{w.w}/{name}")
        os.link(f"{w.w}/.env", f"{w.w}/plain/alias")
        w.put(f"{w.w}/plain/real-secret", world.SECRET)
        w.put(f"{w.w}/.mcp.json", "{}")
        w.give()
        tcp = self.listen(socket.AF_INET, ("127.0.0.1", 0))
        port = tcp.socket.getsockname()[1]
        inside = self.listen(socket.AF_UNIX, f"{w.w}/s.sock")
        outside = [self.listen(socket.AF_UNIX, f"{w.out}/s.sock"), self.listen(socket.AF_UNIX, f"{w.base}/t.sock"),
                   self.listen(socket.AF_UNIX, f"\0confine-test-{port}")]
        w.give()
        victim = self.victim(w.user)
        with open("/proc/mounts") as file:
            mounts = file.readlines()
        disk = next((line.split()[0] for line in mounts if line.startswith("/dev/")), "/dev/vda")
        names = {"w": w.w, "out": w.out, "ro": w.ro, "base": w.base, "victim": victim.pid, "port": port,
                 "disk": disk, "planted": w.base + "/OUT/dir/file"}
        return names, inside, outside, victim

    @everywhere
    def test_table(self, mode, w):
        names, inside, outside, victim = self.fill(w)
        lines = [row[1].format(**names) for row in ROWS]
        options = ["--read", w.ro, "--deny", f"{w.w}/secrets", "--deny", f"{w.w}/plain/link-secret"]
        got = w.attempts(mode, lines, options)
        for row, line in zip(ROWS, lines):
            wanted = row[2 if mode == "ns" else 3]
            with self.subTest(case=row[0], attempt=line):
                self.assertTrue(wanted == "any" or got[line] in wanted.split(), f"{got[line]}, not {wanted}")
        self.assertEqual([o.count for o in outside], [0, 0, 0])
        self.assertEqual(inside.count, 1 if mode == "ns" else 0)
        self.assertIsNone(victim.poll())
        self.assertEqual(os.getpriority(os.PRIO_PROCESS, victim.pid), os.getpriority(os.PRIO_PROCESS, 0))
        with open(f"{w.w}/.env") as file:
            self.assertEqual(file.read(), world.SECRET + "\n")
        with open(f"{w.out}/file") as file:
            self.assertEqual(file.read(), "fine\n")
        self.assert_still_hidden(w, mode, options)

    def assert_still_hidden(self, w, mode, options):
        """S85: nor in the next spawn, by any name that the first one left behind."""
        done = w.confined(mode, ["sh", "-c", f"cat -- {w.w}/.env {w.w}/y {w.w}/x {w.w}/*/* {w.w}/* 2>/dev/null; true"],
                          options)
        self.assertNotIn(world.SECRET, done.stdout)

    @everywhere
    def test_calls(self, mode, w):
        """S93, B131, B132: every call of 5.7, foreign conventions included."""
        done = w.confined(mode, [f"{w.w}/plain/attempts", "calls"])
        answers = dict(reversed(line.split("\t")) for line in done.stdout.splitlines())
        self.assertGreater(len(answers), 60)
        for name, got in answers.items():
            with self.subTest(call=name):
                self.assertEqual(got, CALLS.get(name, "EPERM"))

    @everywhere
    def test_s83_created_after_the_first_spawn(self, mode, w):
        w.confined(mode, ["true"])
        w.put(f"{w.w}/plain/.env.late", world.SECRET)
        w.give()
        self.assertNotIn(world.SECRET, w.confined(mode, ["cat", "plain/.env.late"]).stdout)

    @everywhere
    def test_s84_file_of_the_previous_command(self, mode, w):
        w.confined(mode, ["sh", "-c", "touch made; echo x > made"])
        done = w.confined(mode, ["sh", "-c", "echo later > made"])
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(f"{w.w}/made") as file:
            self.assertEqual(file.read(), "later\n")

    @everywhere
    def test_s87_swapped_while_planning(self, mode, w):
        """A folder that turns into a link to OUT and back, while commands start."""
        stop = threading.Event()

        def swap():
            while not stop.is_set():
                os.rename(f"{w.w}/plain", f"{w.w}/aside")
                os.symlink(w.out, f"{w.w}/plain")
                os.unlink(f"{w.w}/plain")
                os.rename(f"{w.w}/aside", f"{w.w}/plain")
        thread = threading.Thread(target=swap)
        thread.start()
        try:
            for _ in range(15):
                done = w.confined(mode, ["sh", "-c", f"cat plain/secret {w.out}/secret; echo x >> {w.out}/file"])
                self.assertNotIn(world.SECRET, done.stdout)
        finally:
            stop.set()
            thread.join()
        with open(f"{w.out}/file") as file:
            self.assertEqual(file.read(), "fine\n")

    @everywhere
    def test_s88_times_put_back(self, mode, w):
        before = os.stat(f"{w.w}/plain")
        w.put(f"{w.w}/plain/.env", world.SECRET)
        os.utime(f"{w.w}/plain", ns=(before.st_atime_ns, before.st_mtime_ns))
        w.give()
        self.assertNotIn(world.SECRET, w.confined(mode, ["cat", "plain/.env"]).stdout)

    @everywhere
    def test_s89_spellings(self, mode, w):
        os.symlink(w.w, f"{w.base}/link-to-w")
        os.symlink(f"{w.w}/secrets", f"{w.base}/link-to-secrets")
        for deny, cwd in (("W/secrets", w.w), (f"{w.base}/link-to-w/secrets", w.w),
                          (f"{w.base}/link-to-secrets", f"{w.base}/link-to-w")):
            done = w.confined(mode, ["cat", "secrets/key", "ok"], ["--deny", deny], cwd=cwd)
            self.assertEqual(done.stdout, "fine\n", (deny, cwd, done.stderr))

    @everywhere
    def test_s91_temporary_files(self, mode, w):
        done = w.confined(mode, ["sh", "-c", "echo x > $TMPDIR/f && cat $TMPDIR/f && echo $TMPDIR"])
        text, path = done.stdout.split()
        self.assertEqual(text, "x")
        if mode == "plain":
            self.assertFalse(os.path.exists(path))
            self.assertNotEqual(w.confined(mode, ["touch", "/tmp/confine-forbidden"]).returncode, 0)
        done = w.confined(mode, ["sh", "-c", "f=$(mktemp /tmp/confine-shared-XXXXXX) && echo $f"], ["--share-tmp", "yes"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.path.exists(done.stdout.strip()))
        os.unlink(done.stdout.strip())

    @everywhere
    def test_s92_s94_opt_ins(self, mode, w):
        """no is the manual's letter, with namespaces too; yes opens, abstract sockets outside stay shut."""
        listener = self.listen(socket.AF_UNIX, f"\0opt-in-{os.getpid()}-{mode}-{w.user}")
        name = listener.socket.getsockname()[1:].decode()
        lines = ["socket 1 1 0", "pair 2", "pair 1", f"abstract {name}", "setsid", "setpgid"]
        no = w.attempts(mode, lines, ["--unix-sockets", "no", "--leave-group", "no"])
        self.assertEqual(list(no.values()), ["EPERM", "EPERM", "ok", "EPERM", "EPERM", "EPERM"])
        yes = w.attempts(mode, lines, ["--unix-sockets", "yes", "--leave-group", "yes"])
        self.assertEqual(list(yes.values()), ["ok", "ok", "ok", "EPERM", "ok", "ok"])
        self.assertEqual(listener.count, 0)

    @everywhere
    def test_s98_b128_no_landlock(self, mode, w):
        """Kernels that refuse Landlock, in four ways: nothing runs; by explicit setting, filtered."""
        for call, number in (("landlock_create_ruleset", 38), ("landlock_create_ruleset", 95),
                             ("landlock_create_ruleset", 1), ("landlock_restrict_self", 1), ("seccomp", 1)):
            prefix = [f"{w.w}/plain/attempts", "block", call, str(number)]
            done = w.confined("plain", ["touch", f"{w.out}/x"], prefix=prefix)
            with self.subTest(call=call, errno=number):
                self.assertEqual(done.returncode, 126, done.stderr)
                self.assertFalse(os.path.exists(f"{w.out}/x"))
        prefix = [f"{w.w}/plain/attempts", "block", "landlock_create_ruleset", "38"]
        got = w.attempts("plain", ["socket 1 1 0", "setsid"], ["--require", "no"], prefix=prefix)
        self.assertEqual(list(got.values()), ["EPERM", "EPERM"])

    def test_fallback_is_reported(self):
        """Namespaces refused by the kernel: auto falls back and says so, require does not run."""
        for user in world.USERS:
            w = world.World(user)
            self.addCleanup(w.close)
            for call in ("mount", "open_tree", "move_mount", "pivot_root"):
                prefix = [f"{w.w}/plain/attempts", "block", call, "1"]
                words = world.as_user(user) + prefix + [w.bin, "--write", w.w, "--cwd", w.w]
                env = w.environment()
                said = subprocess.run(words + ["--explain"], env=env, capture_output=True, text=True, check=True).stdout
                self.assertIn("namespaces no, denied entries carved", said)
                done = subprocess.run(words + ["--", "cat", f"{w.w}/.env"], env=env, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                done = subprocess.run(words + ["--namespaces", "require", "--", "true"], env=env, capture_output=True)
                self.assertEqual(done.returncode, 126)

    @everywhere
    def test_network(self, mode, w):
        """B140: none, loopback of its own, TCP ports."""
        one, two = (self.listen(socket.AF_INET, ("127.0.0.1", 0)) for _ in range(2))
        port, other = (x.socket.getsockname()[1] for x in (one, two))
        lines = [f"tcp {port}", f"tcp {other}", "tcp_self", "socket 2 2 0", "socket 10 1 0", "socket 16 3 0"]
        got = list(w.attempts(mode, lines, ["--network", "none"]).values())
        self.assertEqual(got, ["EPERM"] * 6)
        got = list(w.attempts(mode, lines, ["--network", f"tcp:{port}"]).values())
        self.assertEqual(got[:4], ["ok", "EACCES", "EACCES", "EPERM"])
        if mode == "ns":
            got = list(w.attempts(mode, lines, ["--network", "loopback"]).values())
            self.assertEqual(got[:4], ["ECONNREFUSED", "ECONNREFUSED", "ok", "ok"])
        else:
            self.assertEqual(w.confined(mode, ["true"], ["--network", "loopback"]).returncode, 126)

    @everywhere
    def test_b133_descriptors(self, mode, w):
        fds = [os.open(f"{w.out}/secret", os.O_RDONLY) for _ in range(50)]
        for fd in fds:
            os.set_inheritable(fd, True)
        done = w.confined(mode, ["ls", "/proc/self/fd"], pass_fds=fds)
        for fd in fds:
            os.close(fd)
        self.assertLessEqual(set(done.stdout.split()), set("0123"))

    @everywhere
    def test_b134_terminal(self, mode, w):
        """In the foreground of a terminal: nothing can be typed into it."""
        pid, master = pty.fork()
        if pid == 0:
            words = world.as_user(w.user) + [w.bin] + world.MODES[mode] + ["--write", w.w, "--cwd", w.w, "--",
                                           f"{w.w}/plain/attempts"]
            os.execvpe(words[0], words, w.environment())
        os.write(master, b"ioctl /dev/tty sti\nioctl /dev/tty linux\nioctl /nowhere sti\n\x04")
        text = b""
        try:
            while chunk := os.read(master, 4096):
                text += chunk
        except OSError:
            pass
        os.waitpid(pid, 0)
        os.close(master)
        answers = [line.split(b"\t")[0] for line in text.replace(b"\r", b"").split(b"\n") if b"\tioctl" in line]
        self.assertEqual(answers, [b"EPERM"] * 3, text)

    @everywhere
    def test_b136_b137_environment(self, mode, w):
        bad = {name: "leak" for name in (
            "OPENAI_API_KEY AWS_SECRET_ACCESS_KEY GITHUB_TOKEN DATABASE_URL SENTRY_DSN SLACK_WEBHOOK SSH_AUTH_SOCK "
            "DBUS_SESSION_BUS_ADDRESS NODE_OPTIONS PYTHONPATH BASH_ENV GIT_DIR GIT_CONFIG_GLOBAL "
            "GATEHOUSE_TOKEN XDG_RUNTIME_DIR").split()}
        for name in (".bashrc", ".profile", ".envrc"):
            w.put(f"{w.w}/{name}", f"export CANARY=leak; touch {w.w}/canary\n")
        w.give()
        done = w.confined(mode, ["sh", "-c", "env -0; echo [$CANARY]"], ["--env", "DISPLAY=leak", "--env", "K=V"], env=bad)
        self.assertNotIn("leak", done.stdout)
        for name in ("PATH=", "HOME=", "LANG=", "TERM=", "TMPDIR=", "K=V"):
            self.assertIn(name, done.stdout)
        self.assertFalse(os.path.exists(f"{w.w}/canary"))

    @everywhere
    def test_b148_nested(self, mode, w):
        """A second confiner inside: no namespaces there, Landlock up to the kernel's layers, then a refusal."""
        for depth, code in ((1, 0), (3, 0)):
            words = ["true"]
            for _ in range(depth):
                words = [f"{w.w}/plain/gatehouse-confine", "--write", w.w, "--"] + words
            subprocess.run(["cp", w.bin, f"{w.w}/plain/gatehouse-confine"], check=True)
            done = w.confined(mode, words)
            self.assertEqual(done.returncode, code, done.stderr)
        words = [f"{w.w}/plain/gatehouse-confine", "--write", w.w, "--", "cat", ".env"]
        self.assertNotIn(world.SECRET, w.confined(mode, words).stdout)

    @everywhere
    def test_b149_many(self, mode, w):
        os.mkdir(f"{w.w}/data")
        for i in range(2000):
            os.mkdir(f"{w.w}/data/{i}")
            w.put(f"{w.w}/data/{i}/.env", world.SECRET)
        w.give()
        done = w.confined(mode, ["sh", "-c", "cat data/*/.env data/1999/.env 2>/dev/null; echo hi"])
        self.assertEqual(done.stdout, "hi\n")
        done = w.confined(mode, ["sh", "-c", "cat data/*/.env 2>/dev/null; echo hi"], ["--deny", f"{w.w}/data"])
        self.assertEqual(done.stdout, "hi\n")

    @everywhere
    def test_packages(self, mode, w):
        """Public PEM files and package folders are not denied; keys are."""
        os.makedirs(f"{w.w}/node_modules/x")
        for name, text in (("cert.pem", "-----BEGIN CERTIFICATE-----\nx\n"),
                           ("mine.pem", "-----BEGIN RSA PRIVATE KEY-----\n" + world.SECRET),
                           ("a.key", world.SECRET), ("node_modules/x/test.key", "published"),
                           ("node_modules/x/.env", world.SECRET)):
            w.put(f"{w.w}/{name}", text)
        w.give()
        done = w.confined(mode, ["sh", "-c", "cat *.pem *.key node_modules/x/* node_modules/x/.env"])
        self.assertIn("CERTIFICATE", done.stdout)
        self.assertIn("published", done.stdout)
        self.assertNotIn(world.SECRET, done.stdout)

    @everywhere
    def test_ptrace_by_option(self, mode, w):
        script = "import ctypes; l = ctypes.CDLL(None, use_errno=True); l.ptrace.argtypes = [ctypes.c_long] * 4; " \
                 "print(l.ptrace(%d, %d, 0, 0))"
        done = w.confined(mode, ["/usr/bin/python3", "-c", script % (0, 0)], ["--allow-ptrace", "yes"])
        self.assertEqual(done.stdout, "0\n", done.stderr)
        done = w.confined(mode, ["/usr/bin/python3", "-c", script % (16, self.victim(w.user).pid)], ["--allow-ptrace", "yes"])
        self.assertEqual(done.stdout, "-1\n", done.stderr)

    @everywhere
    def test_exit_codes(self, mode, w):
        for words, code in ((["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["no-such-program"], 127),
                            ([f"{w.w}/ok"], 126), (["true"], 0)):
            self.assertEqual(w.confined(mode, words).returncode, code, words)
        self.assertEqual(w.confined(mode, ["true"], cwd=w.out).returncode, 126)
        self.assertEqual(w.confined(mode, ["true"], ["--nonsense", "x"]).returncode, 2)

    def plan_file(self, w, lines, seconds=60, mode=0o600):
        body = "gatehouse-plan 1\n" + "".join(f"{line}\n" for line in [f"expires {int(time.time()) + seconds}"] + lines)
        path = f"{w.base}/plan-{time.monotonic_ns()}"
        w.put(path, body + f"digest {hashlib.sha256(body.encode()).hexdigest()}\n")
        w.give()
        os.chmod(path, mode)
        return path

    @everywhere
    def test_plan_file(self, mode, w):
        """Applied in whoever's process tree: environment less the scrub, exit code passed, 126 when in doubt."""
        spaces = "off" if mode == "plain" else "require"
        lines = [f"cwd {w.w}", f"write {w.w}", f"deny {w.w}/secrets", f"namespaces {spaces}", "deny .env", "arg sh", "arg -c",
                 "arg cat ok .env secrets/key; echo $MINE [$SSH_AUTH_SOCK$GATEHOUSE_TOKEN]\\nexit 5"]
        env = w.environment(MINE="kept", SSH_AUTH_SOCK="leak", GATEHOUSE_TOKEN="leak")

        def run(path):
            return subprocess.run(world.as_user(w.user) + [w.bin, "--plan", path], env=env, capture_output=True, text=True, timeout=30)
        done = run(self.plan_file(w, lines))
        self.assertEqual((done.returncode, done.stdout), (5, "fine\nkept []\n"), done.stderr)
        touch = lines[:-1] + [f"arg touch {w.w}/plain/ran"]
        doubtful = [self.plan_file(w, touch, seconds=-1), self.plan_file(w, touch, seconds=3600),
                    self.plan_file(w, touch, mode=0o644), f"{w.base}/none", self.plan_file(w, touch + ["unknown x"]),
                    self.plan_file(w, [line for line in touch if not line.startswith("write")])]
        changed = self.plan_file(w, touch)
        with open(changed, "r+") as file:
            text = file.read().replace("plain", "plaim")
            file.seek(0)
            file.write(text)
        link = f"{w.base}/link-to-plan"
        os.symlink(self.plan_file(w, touch), link)
        for path in doubtful + [changed, link]:
            with self.subTest(path=path):
                self.assertEqual(run(path).returncode, 126)
        if os.geteuid() == 0 and w.user != "root":
            path = self.plan_file(w, touch)
            os.chown(path, 0, 0)
            self.assertEqual(run(path).returncode, 126)
        self.assertFalse(os.path.exists(f"{w.w}/plain/ran"))

    @everywhere
    def test_explain(self, mode, w):
        words = world.as_user(w.user) + [w.bin, "--explain", "--write", w.w, "--cwd", w.w] + world.MODES[mode]
        said = subprocess.run(words, env=w.environment(), capture_output=True, text=True, check=True).stdout
        for text in (f"write      {w.w}  (write root)", f"deny       {w.w}/.env  (name)", "read+exec  /usr  ("):
            self.assertIn(text, said)
        self.assertEqual("by a socket of mode 000" in said, mode == "ns")
        self.assertEqual("lost " in said, mode == "plain")

    @everywhere
    def test_b151_folder(self, mode, w):
        done = w.confined(mode, ["sh", "-c", f"touch ../x && touch {w.out}/x"], cwd=f"{w.w}/plain", write=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse(os.path.exists(f"{w.out}/x"))
        os.symlink(w.out, f"{w.w}/away")
        for cwd in (f"{w.w}/..", f"{w.w}-other", f"{w.w}/away", "/", f"{w.w}/ok", f"{w.w}/{'x' * 5000}"):
            self.assertNotEqual(w.confined(mode, ["true"], cwd=cwd).returncode, 0, cwd)


if __name__ == "__main__":
    unittest.main()
