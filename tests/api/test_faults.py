"""What breaks under a running service, or before it starts: it denies, says so, and recovers by itself."""

import ctypes
import hashlib
import json
import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import unittest

import gh
from gh import Held, Service, close_checked, until

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_REC, MS_PRIVATE = 1, 32, 16384, 1 << 18
libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind, flags=0, data=None):
    if libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode() if data else None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)


def private_mounts():
    """A mount namespace of this process's own, so that no mount outlives it; None, or why there is none."""
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNS | (0 if uid == 0 else CLONE_NEWUSER)) != 0:
        return "this user may not mount anything here: " + os.strerror(ctypes.get_errno())
    if uid != 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open("/proc/self/" + name, "w") as f:
                f.write(text)
    try:
        mount("none", "/", "none", MS_REC | MS_PRIVATE)
    except OSError as e:
        return f"this user may not mount anything here: {e}"
    return None


def file_hash(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


class FaultCase(unittest.TestCase):
    def service(self, **options):
        s = Service(**options)
        self.addCleanup(close_checked, s)
        return s

    def refuse(self, s, preexec_fn=None):
        """It must not start: exit 1, one sentence, nothing left that says it runs."""
        s.start(wait=False, preexec_fn=preexec_fn)
        code = s.process.wait(60)
        s.process = None
        self.assertEqual(code, 1, s.log())
        return s.log()

    def ask(self, s, session, path="a"):
        return s.decide(session, "read_file", "read", {"path": path})

    def denied_503(self, reply):
        self.assertEqual(reply.status, 503, reply)
        body = reply.json
        self.assertEqual((body["code"], body["decision"]), ("audit_unavailable", "deny"), reply)
        self.assertTrue(body["reason"])
        self.assertNotIn("id", body)
        self.assertEqual(reply.headers["Content-Type"], "application/problem+json")

    def is_down(self, s):
        """Alive, and says that it cannot record."""
        self.assertEqual(s.call("GET", "/healthz", token=None).status, 200)
        ready = s.call("GET", "/readyz")
        self.assertEqual((ready.status, ready.json["store"]["writable"]), (503, False), ready)
        return ready.json

    def recovers(self, s, session):
        until(lambda: s.call("GET", "/readyz").status == 200, "ready again")
        self.assertEqual(self.ask(s, session).status, 200)
        found = s.call("GET", "/v1/audit/verify", token="approver").json
        self.assertTrue(found["ok"], found)

    def metric(self, s, name):
        text = s.call("GET", "/metrics", token="approver").body
        return float([line.split()[1] for line in text.splitlines() if line.startswith(name + " ")][0])

    def unwritable(self, s, session, pending, wreck, repair):
        """The whole walk: works, wrecked, denies everything, repaired, works."""
        self.assertEqual(self.ask(s, session).status, 200)
        recorded = s.call("GET", "/v1/status", token="approver").json["store"]["audit_rows"]
        wreck()
        for i in range(50):
            self.denied_503(self.ask(s, session))
        self.denied_503(s.write(session, "new.txt"))
        self.denied_503(s.answer(pending, "allow"))
        self.denied_503(s.answer(pending, "deny"))
        self.assertEqual(s.approval(pending)["state"], "pending")
        self.assertIn(s.call("POST", "/v1/sessions", {"agent": "a", "working_dir": s.project}).status, (503,))
        state = self.is_down(s)
        self.assertEqual(s.call("GET", "/v1/status", token="approver").json["store"]["audit_rows"], recorded)
        doctor = s.cli("doctor", "--json")
        self.assertEqual(doctor.returncode, 1, doctor.stdout)
        checks = {c["code"]: c for c in json.loads(doctor.stdout)["checks"]}
        self.assertEqual(checks["store"]["status"], "failed", checks["store"])
        self.assertTrue(checks["store"]["fix"])
        done = s.cli("ask", "--session", session, "read", "x")
        self.assertIn(done.returncode, (1, 3), done)
        repair()
        self.recovers(s, session)
        self.assertEqual(len(s.pending()), 1, "nothing that was refused left a question")
        answer = s.answer(pending, "allow")
        self.assertEqual((answer.status, answer.json["state"]), (200, "allowed"), answer)
        self.assertIsNotNone(state["store"]["reason"])
        return state


class Unwritable(FaultCase):
    def ready(self, **options):
        s = self.service(**options)
        s.start()
        session = s.session()
        pending = s.write(session, "w.txt").json["approval"]
        return s, session, pending

    def limit(self, s, size):
        resource.prlimit(s.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def test_file_size_limit(self):
        """B160: a file size limit reached: nothing is allowed, nothing is settled, all is well again afterwards."""
        s, session, pending = self.ready()
        self.unwritable(s, session, pending, lambda: self.limit(s, 0), lambda: self.limit(s, resource.RLIM_INFINITY))
        self.assertGreater(self.metric(s, "gatehouse_audit_append_errors_total"), 0)

    def test_held_caller_meets_it(self):
        """B160: a caller that waits while the store fails is never allowed by the failed answer."""
        s, session, pending = self.ready()
        held = Held(s.write, session, "held.txt", wait_s=60)
        until(lambda: len(s.pending()) == 2, "the held question")
        other = [a["id"] for a in s.pending() if a["id"] != pending][0]
        self.limit(s, 0)
        self.denied_503(s.answer(other, "allow"))
        self.assertTrue(held.is_alive(), "it waits on")
        self.limit(s, resource.RLIM_INFINITY)
        until(lambda: s.call("GET", "/readyz").status == 200, "ready again")
        self.assertEqual(s.answer(other, "deny").json["state"], "denied")
        self.assertEqual((held.result().json["decision"], held.result().json["by"]), ("deny", "person"))

    def test_expiry_meets_it(self):
        """B160, B046: a question whose time ends while the store fails is a deny, also when it recovers."""
        s, session, pending = self.ready(config={"asks": {"timeout_s": 2}})
        held = Held(s.write, session, "held.txt", wait_s=60)
        self.limit(s, 0)
        until(lambda: not held.is_alive() or s.approval(pending)["remaining_ms"] == 0, "its end")
        self.limit(s, resource.RLIM_INFINITY)
        until(lambda: s.call("GET", "/readyz").status == 200, "ready again")
        until(lambda: s.approval(pending)["state"] != "pending", "settled")
        self.assertEqual(s.approval(pending)["state"], "expired")
        reply = held.result()
        self.assertIn(reply.json["decision"], ("deny", "ask"), reply)
        self.assertNotEqual(s.answer(pending, "allow").status, 200)

    def test_database_moved(self):
        """B160: store.db renamed away under the service: denies; back in place: goes on."""
        s, session, pending = self.ready()
        path = os.path.join(s.state, "store.db")
        state = self.unwritable(s, session, pending, lambda: os.rename(path, path + ".away"),
                                lambda: os.rename(path + ".away", path))
        self.assertIn("store.db", state["detail"])

    def test_log_moved(self):
        """B160: the write-ahead log renamed away: as the database."""
        s, session, pending = self.ready()
        path = os.path.join(s.state, "store.db-wal")
        self.unwritable(s, session, pending, lambda: os.rename(path, path + ".away"),
                        lambda: os.rename(path + ".away", path))

    def test_database_deleted(self):
        """B160, B159: store.db deleted under the service: denies until a person acts; no new empty log appears."""
        s, session, pending = self.ready()
        for name in ("store.db", "store.db-wal", "store.db-shm"):
            os.unlink(os.path.join(s.state, name))
        self.denied_503(self.ask(s, session))
        self.is_down(s)
        self.assertEqual(s.stop(), 0)
        s.start()
        self.assertIn("audit.anchor", self.is_down(s)["detail"])
        self.assertEqual(s.call("POST", "/v1/sessions", {"agent": "a", "working_dir": s.project}).status, 503)
        self.assertEqual(s.cli("audit", "verify").returncode, 1)
        self.assertEqual(s.cli("doctor").returncode, 1)
        self.assertFalse(os.path.exists(os.path.join(s.state, "store.db")) and
                         os.path.getsize(os.path.join(s.state, "store.db")) > 0)
        self.assertEqual(s.stop(), 0)
        os.unlink(os.path.join(s.state, "audit.anchor"))  # a person accepts a new log
        s.start()
        self.assertEqual(self.ask(s, s.session()).status, 200)

    def test_database_replaced(self):
        """B160: another database in its place is not written to; the right one back: goes on."""
        s, session, pending = self.ready()
        path = os.path.join(s.state, "store.db")

        def swap():
            other = sqlite3.connect(os.path.join(s.root, "other.db"))
            other.execute("CREATE TABLE audit(seq INTEGER PRIMARY KEY)")
            other.commit()
            other.close()
            os.rename(path, path + ".away")
            os.rename(os.path.join(s.root, "other.db"), path)
            self.other = file_hash(path)

        def back():
            self.assertEqual(file_hash(path), self.other, "it was written to")
            os.rename(path + ".away", path)
        self.unwritable(s, session, pending, swap, back)

    def test_lock_held(self):
        """B159: another program holds SQLite's write lock: denies meanwhile, recovers when it lets go."""
        s, session, pending = self.ready()
        db = sqlite3.connect(os.path.join(s.state, "store.db"), isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        self.denied_503(self.ask(s, session))
        self.is_down(s)
        self.denied_503(s.answer(pending, "allow"))
        db.execute("ROLLBACK")
        db.close()
        self.recovers(s, session)
        self.assertEqual(s.answer(pending, "allow").json["state"], "allowed")

    def test_foreign_rows(self):
        """B155: rows that another program adds while it runs are not taken for the record's own."""
        s, session, pending = self.ready()
        db = sqlite3.connect(os.path.join(s.state, "store.db"), timeout=30)
        columns = [r[1] for r in db.execute("PRAGMA table_info(audit)") if r[1] != "seq"]
        names = ",".join(f'"{c}"' for c in columns)
        with db:
            db.execute(f"INSERT INTO audit(seq,{names}) SELECT max(seq)+1,{names} FROM audit")
        db.close()
        self.denied_503(self.ask(s, session))
        self.is_down(s)
        self.assertEqual(s.cli("audit", "verify").returncode, 1)

    def test_read_while_down(self):
        """B160: what was recorded can be read, exported and verified while nothing can be written."""
        s, session, pending = self.ready()
        n = len(s.audit())
        self.limit(s, 0)
        self.denied_503(self.ask(s, session))
        self.assertEqual(len(s.audit()), n)
        self.assertTrue(s.call("GET", "/v1/audit/verify", token="approver").json["ok"])
        self.assertEqual(s.call("GET", f"/v1/sessions/{session}").status, 200)
        self.assertEqual(len(s.pending()), 1)
        self.limit(s, resource.RLIM_INFINITY)
        self.recovers(s, session)

    def test_kill_while_down(self):
        """B160, B156: SIGKILL while nothing can be written loses nothing that was recorded."""
        s, session, pending = self.ready()
        self.limit(s, 0)
        self.denied_503(self.ask(s, session))
        s.kill()
        self.assertEqual(s.cli("audit", "verify").returncode, 0)
        s.start()
        self.assertEqual(s.approval(pending)["state"], "pending")
        self.recovers(s, session)

    def test_reload_while_down(self):
        """B160: SIGHUP while nothing can be written loosens nothing and kills nothing."""
        s, session, pending = self.ready(config={"asks": {"timeout_s": 100}})
        self.limit(s, 0)
        self.denied_503(self.ask(s, session))
        s.write_config({"permissions": {"deny_paths": ["w.txt"]}})
        s.process.send_signal(signal.SIGHUP)
        until(lambda: "reload" in s.log().split("ready")[-1] or s.process.poll() is not None or
              len(s.call("GET", "/v1/config", token="approver").body) > 0, "an answer")
        self.denied_503(self.ask(s, session))
        self.limit(s, resource.RLIM_INFINITY)
        self.recovers(s, session)
        self.assertNotEqual(s.answer(pending, "allow").status, 503)


class Descriptors(FaultCase):
    def test_descriptors_used_up(self):
        """B160: no descriptor left: no allow without its record, the service lives, and works again afterwards."""
        s = self.service()
        s.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)))
        session = s.session()
        answers, kept = [], []
        try:
            for _ in range(200):
                one = socket.create_connection((s.host, s.port), timeout=5)
                kept.append(one)
            for i in range(20):
                try:
                    reply = s.call("POST", f"/v1/sessions/{session}/decisions", {
                        "tool": "read_file", "action": "read", "target": {"path": f"n{i}"}}, timeout=0.3)
                    answers.append(reply)
                except OSError:
                    pass  # not taken, so not allowed
        finally:
            for one in kept:
                one.close()
        until(lambda: self.answers(s), "answers again", 60)
        self.recovers(s, session)
        refs = {r["ref"] for r in s.audit(kind="decision")}
        for reply in answers:
            self.assertTrue(reply.status != 200 or reply.json["id"] in refs, reply)
        self.assertIsNone(s.process.poll())

    def answers(self, s):
        try:
            return s.call("GET", "/healthz", token=None, timeout=2).status == 200
        except OSError:
            return False

    def test_descriptors_taken_away(self):
        """B160: the limit lowered below what is open: asks on a kept connection are recorded or denied."""
        s = self.service()
        s.start()
        session = s.session()
        connection = s.connection()
        s.on(connection, "GET", "/healthz")
        limits = resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE, (8, limits[1]))
        replies = [s.on(connection, "POST", f"/v1/sessions/{session}/decisions",
                        {"tool": "read_file", "action": "read", "target": {"path": f"n{i}"}}) for i in range(10)]
        replies.append(s.on(connection, "POST", f"/v1/sessions/{session}/decisions",
                            {"tool": "run_command", "action": "execute", "target": {"program": "true"}}))
        resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE, limits)
        connection.close()
        self.recovers(s, session)
        refs = {r["ref"] for r in s.audit(kind="decision")}
        for reply in replies:
            self.assertIn(reply.status, (200, 202, 500, 503), reply)
            if reply.status in (200, 202):
                self.assertIn(reply.json["id"], refs)


class Damaged(FaultCase):
    """The store changed while no service ran."""

    @classmethod
    def setUpClass(cls):
        cls.made = Service().start()
        session = cls.made.session()
        for i in range(30):
            cls.made.decide(session, "read_file", "read", {"path": f"some/longer/path/to/a/file/{i}"})
        cls.made.write(session, "w.txt")
        assert cls.made.stop() == 0
        cls.n_copies = 0

    @classmethod
    def tearDownClass(cls):
        close_checked(cls.made)

    def copy(self):
        """A service on a copy of the state."""
        type(self).n_copies += 1
        root = os.path.join(self.made.root, f"c{self.n_copies}")
        os.makedirs(root)
        shutil.copytree(self.made.state, os.path.join(root, "state"))
        s = Service(root=root)
        self.addCleanup(close_checked, s)
        return s

    def stays_damaged(self, s, name="store.db"):
        path = os.path.join(s.state, name)
        before = file_hash(path)
        s.start()
        ready = self.is_down(s)
        self.assertTrue(ready["store"]["damaged"], ready)
        reply = s.call("POST", "/v1/sessions", {"agent": "a", "working_dir": s.project})
        self.assertEqual((reply.status, reply.json["code"]), (503, "audit_unavailable"), reply)
        done = s.cli("doctor", "--json")
        self.assertEqual(done.returncode, 1, done)
        failed = [c["code"] for c in json.loads(done.stdout)["checks"] if c["status"] == "failed"]
        self.assertIn("store", failed)
        self.assertEqual(s.stop(), 0)
        self.assertEqual(file_hash(path), before, "the file was changed")
        self.assertIn("store_damaged", s.log())
        return ready

    def test_a_page_of_zeros(self):
        """B159: any page of zeros is found at the start; nothing is allowed, the file stays as it is."""
        size = os.path.getsize(os.path.join(self.made.state, "store.db"))
        pages = range(size // 4096)
        chosen = sorted({0, 1, len(pages) // 2, len(pages) - 1} | set(pages[2::max(1, len(pages) // 6)]))
        for page in chosen:
            s = self.copy()
            with open(os.path.join(s.state, "store.db"), "r+b") as f:
                f.seek(page * 4096)
                was = f.read(4096)
                f.seek(page * 4096)
                f.write(bytes(4096))
            with self.subTest(page=page):
                self.assertNotEqual(was, bytes(4096), "the page held something")
                self.stays_damaged(s)

    def test_truncated(self):
        """B159: a file cut short, or emptied, is found; no new log takes its place."""
        size = os.path.getsize(os.path.join(self.made.state, "store.db"))
        for keep in (size // 2 // 4096 * 4096, 100, 0):
            s = self.copy()
            os.truncate(os.path.join(s.state, "store.db"), keep)
            with self.subTest(keep=keep):
                self.stays_damaged(s)

    def test_not_a_database(self):
        """B159: text, another program's database, or a folder in its place."""
        s = self.copy()
        path = os.path.join(s.state, "store.db")
        with open(path, "w") as f:
            f.write("this is not a database\n" * 400)
        self.stays_damaged(s)
        s = self.copy()
        path = os.path.join(s.state, "store.db")
        os.unlink(path)
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE t(x)")
        db.commit()
        db.close()
        self.stays_damaged(s)

    def test_trigger(self):
        """B155: a trigger that would change rows as they are written is not tolerated."""
        s = self.copy()
        db = sqlite3.connect(os.path.join(s.state, "store.db"))
        db.execute("CREATE TRIGGER t AFTER INSERT ON audit BEGIN UPDATE audit SET decision='allow'; END")
        db.commit()
        db.close()
        self.stays_damaged(s)

    def test_half_a_record(self):
        """B156: half a record behind the log's end, as a torn write leaves it, is dropped; all else is kept."""
        s = self.copy()
        s.start()
        session = s.call("GET", "/v1/sessions").json["items"][0]["id"]
        ids = [self.ask(s, session, f"t{i}").json["id"] for i in range(3)]
        s.kill()
        wal = os.path.join(s.state, "store.db-wal")
        with open(wal, "r+b") as f:
            data = f.read()
            end = len(data.rstrip(b"\0"))
            f.seek(end + 4096)
            f.write(b"\x01" * 2000)
        s.start()
        refs = {r["ref"] for r in s.audit(kind="decision")}
        self.assertLessEqual(set(ids), refs)
        self.recovers(s, session)
        self.assertEqual(s.stop(), 0)
        self.assertEqual(s.cli("audit", "verify").returncode, 0)

    def test_shm_garbage(self):
        """B159: the shared index is made anew; garbage in it changes nothing."""
        s = self.copy()
        with open(os.path.join(s.state, "store.db-shm"), "wb") as f:
            f.write(os.urandom(32768))
        s.start()
        self.recovers(s, s.call("GET", "/v1/sessions").json["items"][0]["id"])

    def test_anchor_emptied(self):
        """B155: an anchor that was emptied hides a cut tail, so it is not taken for a new one."""
        s = self.copy()
        os.truncate(os.path.join(s.state, "audit.anchor"), 0)
        self.stays_damaged(s)

    def test_older_copy_put_back(self):
        """B155: yesterday's database under today's anchor is a cut tail: found, denied."""
        s = self.copy()
        old = os.path.join(s.root, "old.db")
        shutil.copy(os.path.join(s.state, "store.db"), old)
        s.start()
        session = s.call("GET", "/v1/sessions").json["items"][0]["id"]
        for i in range(3):
            self.ask(s, session)
        self.assertEqual(s.stop(), 0)
        for name in ("store.db-wal", "store.db-shm"):
            if os.path.exists(os.path.join(s.state, name)):
                os.unlink(os.path.join(s.state, name))
        shutil.copy(old, os.path.join(s.state, "store.db"))
        self.stays_damaged(s)


class Mounted(FaultCase):
    @classmethod
    def setUpClass(cls):
        cls.why_not = private_mounts()

    def setUp(self):
        if self.why_not:
            self.skipTest(self.why_not)

    def on_tmpfs(self, mib):
        s = self.service()
        place = os.path.join(s.root, "disk")
        os.makedirs(place)
        mount("tmpfs", place, "tmpfs", data=f"size={mib}m,mode=0700")
        self.addCleanup(lambda: libc.umount2(place.encode(), 2))
        s.state = os.path.join(place, "state")
        return s, place

    def fill(self, place):
        with open(os.path.join(place, "ballast"), "ab", buffering=0) as f:
            for size in (1 << 16, 4096, 512, 1):
                try:
                    while True:
                        f.write(b"x" * size)
                except OSError:
                    pass

    def test_full_disk(self):
        """B160: a full disk: no allow that is not recorded, 503 with a deny; space again: recovers by itself."""
        s, place = self.on_tmpfs(8)
        s.start()
        session = s.session()
        pending = s.write(session, "w.txt").json["approval"]
        allowed, denied = [], 0
        for i in range(4000):
            self.fill(place)
            reply = self.ask(s, session, "x" * 200 + str(i))
            if reply.status == 200:
                allowed.append(reply.json["id"])
            else:
                self.denied_503(reply)
                denied += 1
            if denied >= 50:
                break
        self.assertGreaterEqual(denied, 50)
        self.denied_503(s.answer(pending, "allow"))
        self.assertEqual(s.approval(pending)["state"], "pending")
        self.is_down(s)
        self.assertIn(s.cli("ask", "--session", session, "read", "x").returncode, (1, 3))
        doctor = s.cli("doctor")
        self.assertEqual(doctor.returncode, 1, doctor)
        self.assertIn("disk_space", doctor.stdout)
        os.unlink(os.path.join(place, "ballast"))
        self.recovers(s, session)
        self.assertEqual(s.answer(pending, "allow").json["state"], "allowed")
        self.assertEqual(s.stop(), 0)
        verified = s.cli("audit", "verify", "--json")
        self.assertEqual(verified.returncode, 0, verified)
        db = sqlite3.connect(f"file:{s.state}/store.db?mode=ro", uri=True)
        refs = {r[0] for r in db.execute("SELECT ref FROM audit WHERE kind='decision'")}
        self.assertEqual([r[0] for r in db.execute("PRAGMA integrity_check")], ["ok"])
        db.close()
        self.assertLessEqual(set(allowed), refs)

    def test_full_disk_at_the_start(self):
        """B160: started on a full disk it refuses or denies; with space it works, without a restart if it ran."""
        s, place = self.on_tmpfs(4)
        s.start()
        session = s.session()
        self.assertEqual(s.stop(), 0)
        self.fill(place)
        s.start(wait=False)
        until(lambda: s.process.poll() is not None or "ready" in s.log().split("stopping")[-1], "started or not")
        if s.process.poll() is not None:
            self.assertEqual(s.process.wait(), 1)
            self.assertRegex(s.log(), "No space|full|space")
            os.unlink(os.path.join(place, "ballast"))
            s.start()
        else:
            s.wait_ready()
            for _ in range(5):
                reply = self.ask(s, session)
                self.assertIn(reply.status, (200, 503), reply)
            os.unlink(os.path.join(place, "ballast"))
        self.recovers(s, session)

    def test_read_only_mount(self):
        """B160: a state folder that became read-only: it does not start, or starts denying; writable: works."""
        s, place = self.on_tmpfs(8)
        s.start()
        session = s.session()
        self.assertEqual(s.stop(), 0)
        mount("tmpfs", place, "tmpfs", MS_REMOUNT | MS_RDONLY)
        log = self.refuse(s)
        self.assertRegex(log, "(?i)read-only")
        mount("tmpfs", place, "tmpfs", MS_REMOUNT)
        s.start()
        self.recovers(s, session)


class Start(FaultCase):
    def test_second_service(self):
        """B156: a second service on one state folder refuses with exit 1; the first does not notice."""
        s = self.service()
        s.start()
        session = s.session()
        with open(os.path.join(s.state, "run.json")) as f:
            run = f.read()
        second = Service(state=s.state, home=s.home)
        self.addCleanup(close_checked, second)
        log = self.refuse(second)
        self.assertRegex(log, "(?i)another|already|runs|in use")
        with open(os.path.join(s.state, "run.json")) as f:
            self.assertEqual(f.read(), run)
        self.assertTrue(os.path.exists(s.socket))
        self.assertEqual(self.ask(s, session).status, 200)

    def test_many_at_once(self):
        """B156: of services started together on one folder exactly one runs."""
        s = self.service()
        all_of_them = [s]
        for _ in range(4):
            other = Service(state=s.state, home=s.home)
            self.addCleanup(close_checked, other)
            all_of_them.append(other)
        for one in all_of_them:
            one.start(wait=False)
        until(lambda: sum(one.process.poll() is None for one in all_of_them) == 1, "one is left", 60)
        for one in all_of_them:
            if one.process.poll() is None:
                one.wait_ready()
                self.assertEqual(one.call("GET", "/readyz").status, 200)
            else:
                self.assertEqual(one.process.wait(), 1)
                one.process = None

    def test_stale_run_json(self):
        """B089: run.json of a service that was killed, or garbage in it, stops nobody; the CLI says what is wrong."""
        s = self.service()
        s.start()
        s.kill()
        self.assertEqual(s.cli("status").returncode, 5)
        path = os.path.join(s.state, "run.json")
        for text in ("{", "", "null", '{"pid":"x"}', "\0" * 5000, '{"pid":1,"boot_id":"x","listen":"127.0.0.1:1"}'):
            with open(path, "w") as f:
                f.write(text)
            done = s.cli("status")
            self.assertIn(done.returncode, (1, 5), (text[:20], done))
            self.assertIn("gatehouse", done.stderr)
            self.assertNotEqual(s.cli("ask", "--no-wait", "read", "x").returncode, 0)
        s.start()
        self.assertEqual(s.cli("status").returncode, 0)
        os.chmod(path, 0o666)
        done = s.cli("status")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("run.json", done.stderr)
        self.assertEqual(s.cli("doctor").returncode, 1)

    def test_umask(self):
        """B085: started under umask 000 every file is 0600, every folder 0700, the socket closed to others."""
        s = self.service()
        s.start(preexec_fn=lambda: os.umask(0))
        self.ask(s, s.session())
        s.add_token("more", "agent")
        subprocess.run([gh.BIN, "token", "add", "wide", "--role", "agent", "--state-dir", s.state], env=s.env(),
                       check=True, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.umask(0))
        for folder, folders, names in os.walk(s.state):
            self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700, folder)
            for name in names:
                self.assertEqual(os.lstat(os.path.join(folder, name)).st_mode & 0o777, 0o600, name)
        self.assertEqual(os.stat(s.socket).st_mode & 0o077, 0)

    def test_open_state_folder(self):
        """F20: a state folder that others may enter is refused."""
        s = self.service()
        os.makedirs(s.state)
        os.chmod(s.state, 0o755)
        log = self.refuse(s)
        self.assertIn(s.state, log)
        self.assertEqual(os.listdir(s.state), [])

    def test_wide_token_files(self):
        """B085, F20: a token file or record that others may read is refused, with its name."""
        for name, mode in (("approver.json", 0o644), ("agent.json", 0o640), ("approver.token", 0o644),
                           ("agent.token", 0o604)):
            s = self.service()
            s.start()
            self.assertEqual(s.stop(), 0)
            os.chmod(os.path.join(s.state, "tokens", name), mode)
            with self.subTest(name=name):
                log = self.refuse(s)
                self.assertIn(name, log)
                self.assertEqual(os.stat(os.path.join(s.state, "tokens", name)).st_mode & 0o777, mode)

    def test_wide_token_folder(self):
        """F20: a tokens folder that others may enter is refused."""
        s = self.service()
        s.start()
        self.assertEqual(s.stop(), 0)
        os.chmod(os.path.join(s.state, "tokens"), 0o755)
        self.assertIn("tokens", self.refuse(s))

    def test_linked_token_files(self):
        """B085, F20: a token file that is a link is refused, whatever it leads to."""
        for name in ("approver.json", "approver.token"):
            s = self.service()
            s.start()
            self.assertEqual(s.stop(), 0)
            path = os.path.join(s.state, "tokens", name)
            os.rename(path, os.path.join(s.root, name))
            os.symlink(os.path.join(s.root, name), path)
            with self.subTest(name=name):
                self.assertIn(name, self.refuse(s))

    def test_loosened_while_running(self):
        """B085: a record loosened under a running service opens nothing any more; closed again it does."""
        s = self.service()
        s.start()
        secret = s.add_token("x", "viewer")
        path = os.path.join(s.state, "tokens", "x.json")
        os.chmod(path, 0o666)
        until(lambda: "x" not in [t["name"] for t in s.tokens()], "refused")
        self.assertEqual(s.call("GET", "/v1/status", token=secret).status, 401)
        os.chmod(path, 0o600)
        until(lambda: "x" in [t["name"] for t in s.tokens()], "taken again")
        self.assertEqual(s.call("GET", "/v1/status", token=secret).status, 200)

    def test_wide_token_file_of_the_client(self):
        """B085: the CLI does not use a token file that others may read, and says which."""
        s = self.service()
        s.start()
        path = os.path.join(s.state, "tokens", "approver.token")
        os.chmod(path, 0o644)
        done = s.cli("status")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("approver.token", done.stderr)
        self.assertEqual(s.cli("doctor").returncode, 1)
        os.chmod(path, 0o600)


class Signals(FaultCase):
    def test_reload(self):
        """decisions, Configuration: SIGHUP takes a good file whole; pending questions it refuses are cancelled."""
        s = self.service(config={"asks": {"timeout_s": 100}})
        s.start()
        session = s.session()
        one, two = (s.write(session, n).json["approval"] for n in ("secret.txt", "plain.txt"))
        s.write_config("permissions:\n  deny_paths:\n    - secret.txt\nasks:\n  timeout_s: 50\n")
        s.process.send_signal(signal.SIGHUP)
        until(lambda: s.approval(one)["state"] == "cancelled", "cancelled")
        self.assertEqual((s.approval(two)["state"], s.approval(one)["by"]), ("pending", "system"))
        self.assertEqual(s.write(session, "secret.txt").json["code"], "deny_path")
        self.assertEqual(s.call("GET", "/v1/config", token="approver").json["config"]["asks"]["timeout_s"], 50)
        self.assertEqual(self.metric(s, "gatehouse_config_last_reload_success"), 1)
        self.assertGreater(self.metric(s, "gatehouse_config_last_reload_timestamp_seconds"), 1.6e9)

    def test_bad_reload(self):
        """decisions, Configuration: SIGHUP with a bad file changes nothing, says why with its place, and is a metric."""
        s = self.service(config="permissions:\n  deny_paths:\n    - secret.txt\n")
        s.start()
        session = s.session()
        pending = s.write(session, "plain.txt").json["approval"]
        for bad in ("permissions:\n  deny_paths:\n    - \"\"\n", "bogus: 1\n", "asks:\n  timeout_s: none\n", "a: [\n"):
            s.write_config(bad)
            n = s.log().count("reload_refused")
            s.process.send_signal(signal.SIGHUP)
            until(lambda: s.log().count("reload_refused") > n, "refused")
            self.assertIn("config.yaml:", s.log().splitlines()[-1])
            self.assertEqual(s.write(session, "secret.txt").json["code"], "deny_path", bad)
            self.assertEqual(s.approval(pending)["state"], "pending")
            self.assertEqual(self.metric(s, "gatehouse_config_last_reload_success"), 0)
        os.unlink(s.config_path)
        s.process.send_signal(signal.SIGHUP)
        until(lambda: s.log().count("reload_refused") == 5, "a file that was named and is gone is no default")
        s.write_config("permissions:\n  deny_paths:\n    - secret.txt\n")
        s.process.send_signal(signal.SIGHUP)
        until(lambda: self.metric(s, "gatehouse_config_last_reload_success") == 1, "good again")
        self.assertEqual(s.approval(pending)["state"], "pending")

    def test_hangup_with_the_terminal(self):
        """decisions, Configuration: a service started on a terminal that goes away ends as on SIGTERM."""
        script = ("import os,pty,sys,signal,time\n"
                  "pid,fd=pty.fork()\n"
                  "if pid==0: os.execv(sys.argv[1],sys.argv[1:])\n"
                  "sys.stdin.readline()\n"
                  "os.close(fd)\n"
                  "_,status=os.waitpid(pid,0)\n"
                  "print(os.waitstatus_to_exitcode(status),flush=True)\n")
        s = self.service()
        command = s.command()
        open(s.log_path, "w").close()  # its words go to the terminal
        outer = subprocess.Popen([sys.executable, "-c", script, *command], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True, env=s.env(), cwd=s.root)
        path = os.path.join(s.state, "run.json")
        until(lambda: os.path.exists(path), "ready")
        outer.stdin.write("\n")
        outer.stdin.close()
        self.assertEqual(outer.stdout.readline().strip(), "0")
        outer.wait(60)
        outer.stdout.close()
        self.assertFalse(os.path.exists(path))

    def test_ends_by(self):
        """B078: SIGTERM and SIGINT end it with 0; run.json and the socket are gone; the same folder starts again."""
        s = self.service()
        for sig in (signal.SIGTERM, signal.SIGINT):
            s.start()
            self.assertEqual(s.stop(sig), 0)
            self.assertFalse(os.path.exists(os.path.join(s.state, "run.json")))
            self.assertFalse(os.path.exists(s.socket))

    def test_term_at_the_start(self):
        """B078: SIGTERM at any moment of the start ends it, with 0 or by the signal; the folder is whole."""
        s = self.service()
        for i in range(12):
            s.start(wait=False)
            time.sleep(0.004 * i)
            s.process.send_signal(signal.SIGTERM)
            self.assertIn(s.process.wait(60), (0, -signal.SIGTERM), s.log())
            s.process = None
        s.start()
        self.assertEqual(self.ask(s, s.session()).status, 200)


class Confidential(FaultCase):
    def test_store_is_out_of_reach(self):
        """B153: the gate denies every write, move and delete of the state folder's files, and records the tries."""
        s = self.service()
        s.start()
        session = s.session()
        names = ["store.db", "store.db-wal", "audit.anchor", "tokens/approver.token", "run.json", "tokens/x.json"]
        for name in names:
            path = os.path.join(s.state, name)
            for action, target in (("read", {"path": path}), ("write", {"path": path}), ("delete", {"path": path}),
                                   ("move", {"from": path, "to": "mine"}), ("move", {"from": "mine", "to": path})):
                reply = s.decide(session, "t", action, target)
                self.assertEqual((reply.status, reply.json["code"]), (200, "deny_path"), (action, name, reply))
        rows = s.audit(session=session, decision="deny")
        self.assertEqual(len(rows), 5 * len(names))
