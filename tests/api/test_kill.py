"""SIGKILL and SIGTERM in the middle of the work: what was answered is kept, nothing is answered twice."""

import http.client
import json
import os
import random
import shutil
import signal
import sqlite3
import threading
import time
import unittest

from gh import Held, Service, close_checked, until

ROUNDS = 3 * max(1, int(os.environ.get("GH_REPEAT", "1")))
CLIENTS = 4


class Asker(threading.Thread):
    """One client that asks on a kept connection until the service is gone, and remembers every answer."""

    def __init__(self, service, session, number):
        super().__init__(daemon=True)
        self.service, self.session, self.number = service, session, number
        self.answers = {}
        self.refused = 0
        self.problem = None
        self.start()

    def run(self):
        connection = self.service.connection(timeout=60)
        try:
            for i in range(100000):
                self.ask(connection, i)
        except (OSError, http.client.HTTPException):
            pass  # the service is gone, with or without half an answer: nothing was promised
        except Exception as e:
            self.problem = e
        finally:
            connection.close()

    def ask(self, connection, i):
        kind = i % 3
        body = {"tool": "read_file", "action": "read", "target": {"path": f"f{i}"}}
        if kind == 1:
            body["target"]["path"] = ".env"
        elif kind == 2:
            body = {"tool": "patch_file", "parts": [{"action": "write", "target": {"path": f"{self.number}-{i}-{k}"}}
                                                    for k in range(2)]}
        reply = self.service.on(connection, "POST", f"/v1/sessions/{self.session}/decisions", body)
        if reply.status in (429, 503):
            self.refused += 1
            return
        assert reply.status in (200, 202), reply
        answer = reply.json
        assert answer["id"] not in self.answers, "an id was given twice"
        self.answers[answer["id"]] = answer


def open_record(state):
    db = sqlite3.connect(f"file:{state}/store.db?mode=ro", uri=True)
    db.row_factory = sqlite3.Row
    return db


class KillCase(unittest.TestCase):
    def setUp(self):
        self.s = Service(config={"asks": {"max_pending": 20000, "max_pending_per_session": 20000}})
        self.addCleanup(close_checked, self.s)

    def end(self):
        code = self.s.stop()
        self.assertEqual(code, 0, self.s.log()[-3000:])

    def check_record(self):
        """With the service down: whole, without gaps and doubles, and SQLite finds no fault."""
        verified = self.s.cli("audit", "verify", "--json")
        self.assertEqual((verified.returncode, json.loads(verified.stdout)["ok"]), (0, True), verified.stdout)
        db = open_record(self.s.state)
        try:
            self.assertEqual([r[0] for r in db.execute("PRAGMA integrity_check")], ["ok"])
            low, high, n, unique = db.execute("SELECT min(seq),max(seq),count(*),count(DISTINCT seq) FROM audit").fetchone()
            self.assertEqual((low, high, unique), (1, n, n), "gaps or doubles")
            rows = {}
            for row in db.execute("SELECT ref,part,decision,by,code FROM audit WHERE kind='decision' ORDER BY seq"):
                rows.setdefault(row["ref"], []).append((row["part"], row["decision"], row["by"], row["code"]))
            approvals = {row["id"]: (row["state"], row["ref"])
                         for row in db.execute("SELECT id,state,ref FROM doc WHERE kind=2")}
        finally:
            db.close()
        return rows, approvals

    def check_answers(self, answers, rows):
        for id, answer in answers.items():
            self.assertIn(id, rows, f"an answer that was given is not recorded: {answer}")
            first = rows[id][:len(answer["parts"])]
            self.assertEqual([r[0] for r in first], list(range(len(answer["parts"]))), id)
            self.assertEqual({r[1] for r in first}, {answer["decision"]}, id)
            self.assertEqual({r[2] for r in first}, {answer["by"] or ""}, id)

    def run_clients(self, at_answers):
        """Ask from several threads; end_it when `at_answers` were received."""
        sessions = [self.s.session(working_dir=self.s.project) for _ in range(CLIENTS)]
        askers = [Asker(self.s, session, i) for i, session in enumerate(sessions)]
        until(lambda: sum(len(a.answers) for a in askers) >= at_answers or not any(a.is_alive() for a in askers),
              "so many answers", seconds=120)
        return askers

    def join(self, askers):
        answers = {}
        for asker in askers:
            asker.join(60)
            self.assertFalse(asker.is_alive(), "a client hangs on a service that is gone")
            if asker.problem:
                raise asker.problem
            self.assertEqual(asker.refused, 0, "refused while it ran")
            answers.update(asker.answers)
        return answers

    def check_pending(self, answers, approvals):
        """Every question that was put is kept or decided, and the kept ones can be answered."""
        open_ones = [a for a in answers.values() if a["decision"] == "ask"]
        for answer in open_ones:
            self.assertEqual(approvals[answer["approval"]], ("pending", answer["id"]), answer)
        for answer in open_ones[:3]:
            kept = self.s.approval(answer["approval"])
            self.assertEqual((kept["state"], kept["decision"]), ("pending", answer["id"]), kept)
            reply = self.s.answer(answer["approval"], "allow")
            self.assertEqual((reply.status, reply.json["state"]), (200, "allowed"), reply)
            got = self.s.call("GET", f"/v1/sessions/{answer['session']}/decisions/{answer['id']}")
            self.assertEqual((got.json["decision"], got.json["by"]), ("allow", "person"), got)
        return len(open_ones)

    def end_sessions(self):
        for session in self.s.call("GET", "/v1/sessions?state=active").json["items"]:
            self.s.call("DELETE", "/v1/sessions/" + session["id"])


class Kill(KillCase):
    def test_kill_in_the_middle(self):
        """B156, B159: SIGKILL under load, again and again: answers are recorded, the chain goes on, questions are kept."""
        chance = random.Random(156)
        told, n_open = {}, 0
        self.s.start()
        for n in range(ROUNDS):
            askers = self.run_clients(chance.randrange(1, 120))
            self.s.kill()
            answers = self.join(askers)
            told.update(answers)
            rows, approvals = self.check_record()
            self.check_answers(answers, rows)
            self.s.start()
            self.assertEqual(self.s.call("GET", "/readyz").status, 200)
            self.assertTrue(self.s.call("GET", "/v1/audit/verify", token="approver").json["ok"])
            n_open += self.check_pending(answers, approvals)
            self.end_sessions()
        self.end()
        rows, _ = self.check_record()
        self.check_answers(told, rows)
        self.assertGreater(len(told), ROUNDS)
        print(f"{ROUNDS} kills, {len(told)} answers, {n_open} questions kept, {sum(map(len, rows.values()))} rows")

    def test_term_in_the_middle(self):
        """B156, contract 3: SIGTERM under load: exit 0, every whole answer recorded, questions kept."""
        chance = random.Random(3)
        self.s.start()
        for n in range(ROUNDS):
            askers = self.run_clients(chance.randrange(1, 120))
            self.end()
            self.assertFalse(os.path.exists(os.path.join(self.s.state, "run.json")))
            answers = {}
            for asker in askers:  # while it ends, it may refuse
                asker.join(60)
                self.assertFalse(asker.is_alive())
                if asker.problem:
                    raise asker.problem
                answers.update(asker.answers)
            rows, approvals = self.check_record()
            self.check_answers(answers, rows)
            self.s.start()
            self.check_pending(answers, approvals)
            self.end_sessions()
        self.end()

    def test_kill_with_readers(self):
        """B159: kills while others list, export and back up the store; no copy is malformed."""
        self.s.start()
        for n in range(ROUNDS):
            stop = threading.Event()

            def read(path):
                while not stop.is_set():
                    try:
                        self.s.call("GET", path, token="approver", timeout=60)
                    except (OSError, http.client.HTTPException):
                        return

            def back_up():
                while not stop.is_set():
                    source = sqlite3.connect(f"file:{self.s.state}/store.db?mode=ro", uri=True, timeout=30)
                    copy = sqlite3.connect(":memory:")
                    source.backup(copy)
                    result = copy.execute("PRAGMA integrity_check").fetchone()[0]
                    source.close()
                    copy.close()
                    assert result == "ok", result
            readers = [Held(read, "/v1/audit?limit=50"), Held(read, "/v1/audit/export"), Held(back_up)]
            askers = self.run_clients(60)
            self.s.kill()
            answers = self.join(askers)
            stop.set()
            for reader in readers:
                reader.result()
            rows, _ = self.check_record()
            self.check_answers(answers, rows)
            self.s.start()
            self.end_sessions()
        self.end()

    def test_kill_with_held_callers(self):
        """contract 3: a held caller of a killed service gets no allow; its question is kept and can be answered."""
        self.s.start()
        session = self.s.session()
        held = [Held(self.s.write, session, f"h{i}", wait_s=60, detached=True) for i in range(5)]
        until(lambda: len(self.s.pending()) == 5, "five questions")
        before = {a["id"]: (a["digest"], a["created_at"]) for a in self.s.pending()}
        left = {a["id"]: a["remaining_ms"] for a in self.s.pending()}
        self.s.kill()
        for one in held:
            with self.assertRaises((OSError, http.client.HTTPException)):
                one.result()
        self.s.start()
        self.assertEqual({a["id"]: (a["digest"], a["created_at"]) for a in self.s.pending()}, before)
        for a in self.s.pending():
            self.assertLess(a["remaining_ms"], left[a["id"]], "the deadline stays where it was")
        for id in before:
            self.assertEqual(self.s.answer(id, "deny").json["state"], "denied")
        self.end()
        self.check_record()

    def test_answers_survive(self):
        """B156: an answer that a person gave and saw confirmed holds after SIGKILL; the asker reads it."""
        self.s.start()
        session = self.s.session()
        for n in range(ROUNDS):
            ask = self.s.write(session, f"w{n}").json
            decision = ("allow", "deny", "allow_always")[n % 3]
            self.assertEqual(self.s.answer(ask["approval"], decision).status, 200)
            self.s.kill()
            self.s.start()
            got = self.s.call("GET", f"/v1/sessions/{session}/decisions/{ask['id']}").json
            self.assertEqual((got["decision"], got["by"]), (decision, "person"), got)
            again = self.s.answer(ask["approval"], "deny" if decision != "deny" else "allow")
            self.assertEqual(again.status, 409, again)
        self.end()

    def test_kill_at_the_start(self):
        """B156: SIGKILL at any moment of a first or second start leaves a state that starts, records and verifies."""
        begun = time.monotonic()
        self.s.start()
        whole_s = time.monotonic() - begun
        self.s.kill()
        chance = random.Random(7)
        for n in range(12 * ROUNDS):
            shutil.rmtree(self.s.state)
            for _ in range(chance.choice((1, 1, 2))):
                self.s.start(wait=False)
                time.sleep(chance.random() * whole_s)
                self.s.kill()
            self.s.start()
            ready = self.s.call("GET", "/readyz")
            self.assertEqual(ready.status, 200, ready.body)
            session = self.s.session()
            self.assertEqual(self.s.decide(session, "read_file", "read", {"path": "x"}).status, 200)
            self.s.kill()
            self.assertEqual(self.s.cli("audit", "verify").returncode, 0)


class Hold(KillCase):
    def test_term_with_holds_and_streams(self):
        """B078, contract 3: SIGTERM with 50 held callers and 5 streams: whole answers, exit 0; a second TERM harms nothing."""
        for twice in (False, True):
            self.s.start()
            session = self.s.session()
            held = [Held(self.s.write, session, f"t{twice}{i}", wait_s=100) for i in range(50)]
            streams = []
            for _ in range(5):
                connection = self.s.connection()
                connection.request("GET", "/v1/events", headers={"Authorization": "Bearer " + self.s.approver})
                streams.append((connection, connection.getresponse()))
            until(lambda: len(self.s.pending()) == 50, "fifty questions")
            lists = [Held(self.s.call, "GET", "/v1/audit/export", token="approver"),
                     Held(self.s.call, "GET", "/v1/events?wait_s=100", token="approver",
                          headers={"Accept": "application/json"})]
            self.s.process.send_signal(signal.SIGTERM)
            if twice:
                threading.Event().wait(0.1)
                if self.s.process.poll() is None:
                    self.s.process.send_signal(signal.SIGTERM)
            for one in held:
                reply = one.result()
                self.assertEqual((reply.status, reply.json["decision"]), (202, "ask"), reply)
            for connection, stream in streams:
                stream.read()  # to its end
                connection.close()
            for one in lists:
                try:
                    self.assertIn(one.result().status, (200, 503))
                except (ConnectionError, http.client.HTTPException):
                    pass  # it came too late to be taken
            self.end()
            self.s.start()
            self.assertEqual(len(self.s.pending()), 50)
            for a in self.s.pending():
                self.s.answer(a["id"], "deny")
            self.end()
            self.check_record()
