#!/usr/bin/env python3
"""Nothing outlives a command (S95, S94, B142, B146): 40 daemons in sessions of their own that fork
themselves anew all the time, at the command's end, at a cancel, and when the program is killed."""
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import world  # noqa: E402

# Each daemon writes its marker again and again from a process that lives 50 ms at most.
REFORKER = r"""
import os, signal, sys, time
marker, n, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(s, signal.SIG_IGN)
for i in range(n):
    if os.fork() == 0:
        if mode == "sessions":
            os.setsid()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if os.fork() != 0:
                os._exit(0)
            with open(marker, "a") as f:
                f.write("x")
            time.sleep(0.05)
        os._exit(0)
time.sleep(0.3)
print("up", flush=True)
time.sleep(float(sys.argv[4]))
"""


def left(base):
    """Processes whose command line names the world."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if base.encode() in file.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            pass
    return found


class Survivors(unittest.TestCase):
    def everywhere(self, run):
        for user in world.USERS:
            for mode in world.modes(user):
                with self.subTest(user=user, mode=mode):
                    w = world.World(user)
                    try:
                        run(w, mode)
                    finally:
                        w.close()

    def start(self, w, mode, seconds, n=40):
        """The 40, up; in sessions where the mode lets them."""
        w.put(f"{w.w}/reforker.py", REFORKER)
        tmp = f"{w.base}/tmp"  # a killed program cannot remove its own
        os.mkdir(tmp, 0o700)
        w.give()
        kind = "sessions" if mode == "ns" else "group"
        words = (world.as_user(w.user) + [w.bin] + world.MODES[mode]
                 + ["--write", w.w, "--cwd", w.w, "--own-session", "yes", "--tmp", tmp, "--", "/usr/bin/python3",
                    f"{w.w}/reforker.py",
                    f"{w.w}/plain/marker", str(n), kind, str(seconds)])
        process = subprocess.Popen(words, env=w.environment(), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.assertEqual(process.stdout.readline(), b"up\n")
        self.assertGreater(os.path.getsize(f"{w.w}/plain/marker"), 0)
        return process

    def assert_all_dead(self, w):
        """Within a second nothing is left, and nothing writes any more."""
        end = time.monotonic() + 1
        while (alive := left(w.base)) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(alive, [])
        size = os.path.getsize(f"{w.w}/plain/marker")
        time.sleep(0.3)
        self.assertEqual(os.path.getsize(f"{w.w}/plain/marker"), size)

    def test_finish(self):
        def run(w, mode):
            process = self.start(w, mode, 0)
            self.assertEqual(process.wait(timeout=10), 0)
            process.stdout.close()
            self.assert_all_dead(w)
        self.everywhere(run)

    def test_cancelled(self):
        """The first signal goes to the command, which ignores it; the second ends everything."""
        def run(w, mode):
            process = self.start(w, mode, 30)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            self.assertIsNone(process.poll())
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=10), 128 + signal.SIGKILL)
            process.stdout.close()
            self.assert_all_dead(w)
        self.everywhere(run)

    def test_program_killed(self):
        def run(w, mode):
            process = self.start(w, mode, 30)
            process.kill()
            process.wait(timeout=10)
            process.stdout.close()
            self.assert_all_dead(w)
        self.everywhere(run)

    def test_s95_background(self):
        """The end of the command is the end, whatever holds its output open; a late writer never writes."""
        def run(w, mode):
            start = time.monotonic()
            done = w.confined(mode, ["sh", "-c", "(sleep 1; echo x > plain/late) & sleep 30 & echo hi"])
            self.assertEqual(done.stdout, "hi\n")
            self.assertLess(time.monotonic() - start, 20)
            time.sleep(max(0, start + 1.5 - time.monotonic()))
            self.assertFalse(os.path.exists(f"{w.w}/plain/late"))
        self.everywhere(run)

    def test_sessions_allowed_without_namespaces(self):
        """S94: with the opt-out a job in a session of its own is dead after the end all the same."""
        for user in world.USERS:
            w = world.World(user)
            self.addCleanup(w.close)
            done = w.confined("plain", ["sh", "-c", f"setsid sleep 77 {w.base} & sleep 0.1"], ["--leave-group", "yes"])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(left(w.base), [])

    def test_b146_numbers(self):
        """Many short runs with leftovers, several at once, beside sentinels: none of those dies."""
        sentinels = [subprocess.Popen(["sleep", "120"]) for _ in range(20)]
        w = world.World(world.USERS[-1])
        self.addCleanup(w.close)
        for _ in range(3):
            runs = [subprocess.Popen(world.as_user(w.user) + [w.bin] + world.MODES[mode]
                                     + ["--write", w.w, "--cwd", w.w, "--", "sh", "-c", "sleep 9 & sleep 9 & true"],
                                     env=w.environment()) for mode in world.modes(w.user) for _ in range(8)]
            self.assertEqual([r.wait(timeout=30) for r in runs], [0] * len(runs))
        alive = [s.poll() for s in sentinels]
        for s in sentinels:
            s.kill()
            s.wait()
        self.assertEqual(alive, [None] * 20)


if __name__ == "__main__":
    unittest.main()
