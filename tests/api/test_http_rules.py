"""Rules that hold for many routes: idempotency keys, cursors, limits, waits, trace ids, where tokens may stand."""

import json
import os
import re
import sqlite3
import stat
import subprocess
import threading
import time
import unittest

import gh
from raw import get, post, talk

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class WithService(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = gh.Service().start()
        cls.addClassCleanup(cls.service.close)


class Idempotency(WithService):
    def setUp(self):
        self.session = self.service.session()
        self.path = f"/v1/sessions/{self.session}/decisions"
        self.addCleanup(self.service.call, "DELETE", f"/v1/sessions/{self.session}")
        self.key = {"Idempotency-Key": self.id()}

    def ask(self, path="a", token="agent", at=None, headers=None, **fields):
        body = {"tool": "write_file", "action": "write", "target": {"path": path}, **fields}
        return self.service.call("POST", at or self.path, body, token=token, headers=headers or self.key)

    def test_session(self):
        """contract 1: the same key and body answer the same session; another body is 422."""
        body = {"working_dir": self.service.project, "title": "one"}
        first = self.service.call("POST", "/v1/sessions", body, headers=self.key)
        again = self.service.call("POST", "/v1/sessions", body, headers=self.key)
        self.assertEqual((first.status, again.status), (201, 200))
        self.assertEqual(first.json["id"], again.json["id"])
        other = self.service.call("POST", "/v1/sessions", {**body, "title": "two"}, headers=self.key)
        self.assertEqual((other.status, other.json["code"]), (422, "idempotency_key_reused"))
        self.service.call("DELETE", "/v1/sessions/" + first.json["id"])
        self.assertEqual(self.service.call("POST", "/v1/sessions", body, headers=self.key).json["state"], "ended")

    def test_present_state(self):
        """contract 1: a replay answers the present state of what was made, and makes nothing."""
        first = self.ask()
        again = self.ask()
        self.assertEqual((first.status, again.status), (202, 202))
        self.assertEqual(first.json["id"], again.json["id"])
        self.assertEqual(again.headers["Location"], "/v1/approvals/" + first.json["approval"])
        self.assertEqual(len(self.service.call("GET", "/v1/approvals?state=pending&session=" + self.session).json["items"]), 1)
        self.service.answer(first.json["approval"], "allow")
        later = self.ask()
        self.assertEqual((later.status, later.json["id"], later.json["decision"]), (200, first.json["id"], "allow"))
        rows = [r for r in self.service.audit(ref=first.json["id"]) if r["kind"] == "decision"]
        self.assertEqual(len(rows), 2, "asked, and settled; the replays left no row")

    def test_other_body(self):
        """contract 1: another body with the same key is 422 and asks nobody."""
        self.ask("a")
        for other in (self.ask("b"), self.ask("a", narration="n"), self.ask("a", wait_s=0)):
            self.assertEqual((other.status, other.json["code"]), (422, "idempotency_key_reused"))
        self.assertEqual(len(self.service.call("GET", "/v1/approvals?state=pending&session=" + self.session).json["items"]), 1)

    def test_settled_at_once(self):
        """contract 1: a decision by rule is replayed too."""
        first, again = self.ask(".env"), self.ask(".env")
        self.assertEqual((first.status, again.status, first.json), (200, 200, again.json))

    def test_replay_waits(self):
        """contract 1: a replay is held for its own wait_s, beside the first."""
        held = gh.Held(self.ask, wait_s=100)
        approval = gh.until(lambda: self.service.call("GET", "/v1/approvals?state=pending&session=" + self.session).json["items"])[0]
        second = gh.Held(self.ask, wait_s=100)
        time.sleep(0.2)
        self.assertTrue(held.is_alive() and second.is_alive())
        self.service.answer(approval["id"], "deny")
        for reply in (held.result(), second.result()):
            self.assertEqual((reply.status, reply.json["decision"]), (200, "deny"))

    def test_scope(self):
        """contract 1: the scope is token and path: elsewhere, and for others, the key is free."""
        first = self.ask().json["id"]
        other_session = self.service.session()
        elsewhere = self.ask(at=f"/v1/sessions/{other_session}/decisions")
        self.assertNotEqual(elsewhere.json["id"], first)
        token = self.service.add_token("second-" + self._testMethodName, "agent")
        body = {"working_dir": self.service.project}
        mine = self.service.call("POST", "/v1/sessions", body, headers=self.key)
        theirs = self.service.call("POST", "/v1/sessions", body, token=token, headers=self.key)
        self.assertEqual((mine.status, theirs.status), (201, 201))
        self.assertNotEqual(mine.json["id"], theirs.json["id"])
        self.assertEqual(self.ask(token=token).status, 404, "another's session, whatever the key")

    def test_bad_keys(self):
        """contract 1: a key has 1 to 255 characters."""
        for key in ("", "x" * 256):
            reply = self.ask(headers={"Idempotency-Key": key})
            self.assertEqual(reply.status, 400, reply)
        self.assertEqual(self.ask(headers={"Idempotency-Key": "x" * 255}).status, 202)

    def test_failed_request_frees_the_key(self):
        """contract 1: a request that made nothing does not use the key up."""
        self.assertEqual(self.ask("a", mode="act").status, 422)
        self.assertEqual(self.ask("a").status, 202)

    def test_in_progress(self):
        """contract 1: while the first is not done yet, the second gets 409 with Retry-After; then the key works."""
        statuses = []
        for attempt in range(20):
            key = {"Idempotency-Key": f"{self.id()}-{attempt}"}
            database = sqlite3.connect(os.path.join(self.service.state, "store.db"), isolation_level=None, timeout=20)
            database.execute("BEGIN IMMEDIATE")  # the service cannot commit now
            held = [gh.Held(self.ask, f"p{attempt}", headers=key) for _ in range(2)]
            try:
                gh.until(lambda: any(not h.is_alive() for h in held), "one is answered")
            finally:
                database.execute("ROLLBACK")
                database.close()
            replies = sorted((h.result() for h in held), key=lambda r: r.status)
            statuses.append([r.status for r in replies])
            if statuses[-1] == [202, 409]:
                break
        self.assertEqual(statuses[-1], [202, 409], statuses)
        self.assertEqual(replies[1].json["code"], "idempotency_in_progress")
        self.assertGreaterEqual(int(replies[1].headers["Retry-After"]), 1)
        self.assertEqual(self.ask(f"p{attempt}", headers=key).json["id"], replies[0].json["id"])

    def test_many_at_once(self):
        """contract 1: of many with one key exactly one object comes."""
        for attempt in range(10):
            key = {"Idempotency-Key": f"{self.id()}-{attempt}"}
            held = [gh.Held(self.ask, f"m{attempt}", headers=key) for _ in range(12)]
            replies = [h.result() for h in held]
            self.assertLessEqual({r.status for r in replies}, {202, 409})
            self.assertEqual(len({r.json["id"] for r in replies if r.status == 202}), 1)

    def test_survives_a_restart(self):
        """contract 1: keys are kept over a restart, for 24 h."""
        with gh.Service() as service:
            body = {"working_dir": service.project}
            session = service.call("POST", "/v1/sessions", body, headers=self.key).json["id"]
            call = {"tool": "write_file", "action": "write", "target": {"path": "a"}}
            path = f"/v1/sessions/{session}/decisions"
            decision = service.call("POST", path, call, headers=self.key).json["id"]
            self.assertEqual(service.stop(), 0)
            service.start()
            self.assertEqual(service.call("POST", "/v1/sessions", body, headers=self.key).json["id"], session)
            self.assertEqual(service.call("POST", path, call, headers=self.key).json["id"], decision)
            self.assertEqual(service.call("POST", path, {**call, "narration": "x"}, headers=self.key).status, 422)


class Lists(WithService):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sessions = [cls.service.session(title=str(i)) for i in range(23)]
        cls.approvals = [cls.service.write(cls.sessions[0], f"f{i}").json["approval"] for i in range(23)]
        for approval in cls.approvals[:7]:
            cls.service.answer(approval, "deny")

    def walk(self, path, limit):
        items, cursor, pages = [], None, 0
        while True:
            mark = "&" if "?" in path else "?"
            page = self.service.call("GET", f"{path}{mark}limit={limit}" + (f"&cursor={cursor}" if cursor else ""), token="approver")
            self.assertEqual(page.status, 200, page)
            self.assertLessEqual(len(page.json["items"]), limit)
            items += page.json["items"]
            cursor = page.json["next_cursor"]
            pages += 1
            if cursor is None:
                return items
            self.assertLess(pages, 2000, "no end")

    def test_pages(self):
        """contract 1: pages of any size give every item once, in one order, and end with a null cursor."""
        for path, least in (("/v1/sessions", 23), ("/v1/sessions?state=active", 23), ("/v1/approvals?state=pending", 16),
                            ("/v1/approvals", 23), ("/v1/approvals?state=denied,pending", 23), ("/v1/audit?kind=decision", 30),
                            ("/v1/audit?kind=decision&order=oldest", 30)):
            whole = [i.get("id") or i["seq"] for i in self.walk(path, 1000)]
            self.assertGreaterEqual(len(whole), least, path)
            self.assertEqual(len(whole), len(set(whole)))
            for limit in (1, 2, 7, len(whole), len(whole) - 1, len(whole) + 1):
                with self.subTest(path=path, limit=limit):
                    self.assertEqual([i.get("id") or i["seq"] for i in self.walk(path, limit)], whole)

    def test_no_empty_last_page(self):
        """contract 1: next_cursor is null where nothing follows."""
        for path in ("/v1/sessions", "/v1/approvals?state=pending", "/v1/approvals", "/v1/approvals?state=denied", "/v1/audit"):
            with self.subTest(path=path):
                mark = "&" if "?" in path else "?"
                n = len(self.walk(path, 1000))
                page = self.service.call("GET", f"{path}{mark}limit={n}", token="approver").json
                self.assertEqual((len(page["items"]), page["next_cursor"]), (n, None))

    def test_order(self):
        """contract 1: ids sort by creation."""
        self.assertEqual(self.sessions, sorted(self.sessions))
        self.assertEqual(self.approvals, sorted(self.approvals))
        self.assertEqual([i["id"] for i in self.walk("/v1/approvals?state=pending", 1000)], self.approvals[7:])

    def test_limits(self):
        """contract 1: a limit is 1 to 1000, in digits."""
        for path in ("/v1/sessions", "/v1/approvals", "/v1/approvals?state=pending", "/v1/audit"):
            mark = "&" if "?" in path else "?"
            for value in ("0", "1001", "-1", "abc", "1.5", "1e2", "0x10", "", "+5", "%205", "5%20", "99999999999999999999", "5,6"):
                with self.subTest(path=path, value=value):
                    reply = self.service.call("GET", f"{path}{mark}limit={value}", token="approver")
                    self.assertIn((reply.status, value), ((422, value), (200, "")), reply)
            for value in ("1", "1000"):
                self.assertEqual(self.service.call("GET", f"{path}{mark}limit={value}", token="approver").status, 200)

    def test_cursors(self):
        """contract 1: a cursor that was not given out is 400."""
        for path in ("/v1/sessions", "/v1/approvals", "/v1/approvals?state=pending", "/v1/audit"):
            mark = "&" if "?" in path else "?"
            for value in ("x", "ses_", "apr_0", "s", "s-1", "s1x", "1", "-1", "'%20OR%201=1", "%00", "ses_" + "z" * 500, "null",
                          "s99999999999999999999"):
                with self.subTest(path=path, value=value):
                    reply = self.service.call("GET", f"{path}{mark}cursor={value}", token="approver")
                    self.assertEqual(reply.status, 400, reply)

    def test_ended_sessions_are_kept(self):
        """contract 3: ended sessions stay in the list over a restart, and when there are many."""
        with gh.Service() as service:
            sessions = [service.session(title=str(i)) for i in range(4)]
            for session in sessions[:3]:
                service.call("DELETE", "/v1/sessions/" + session)
            for _ in range(2):
                for query, ids in (("?state=ended", sessions[:3]), ("?state=active", sessions[3:]), ("", sessions),
                                   ("?state=ended&limit=3", sessions[:3])):
                    page = service.call("GET", "/v1/sessions" + query).json
                    self.assertEqual(([s["id"] for s in page["items"]], page["next_cursor"]), (ids, None), query)
                first = service.call("GET", "/v1/sessions?limit=2").json
                self.assertEqual([s["state"] for s in first["items"]], ["ended", "ended"])
                rest = service.call("GET", "/v1/sessions?limit=2&cursor=" + first["next_cursor"]).json
                self.assertEqual([s["id"] for s in rest["items"]], sessions[2:])
                self.assertEqual(service.stop(), 0)
                service.start()

    def test_agents_see_their_own(self):
        """contract 2: an agent's pages are full of its own, not full of holes."""
        token = self.service.add_token("lister", "agent")
        session = self.service.session(token=token)
        mine = [self.service.write(session, f"f{i}", token=token).json["approval"] for i in range(5)]
        for approval in mine:
            self.service.answer(approval, "deny")
        for i in range(12):
            self.service.answer(self.service.write(self.sessions[1], f"g{i}").json["approval"], "deny")
        page = self.service.call("GET", "/v1/approvals?state=denied&limit=5", token=token).json
        self.assertEqual([a["id"] for a in page["items"]], mine[::-1])
        self.assertIsNone(page["next_cursor"])


class Waits(WithService):
    BAD = ("-1", "-0.1", "120.01", "121", "1e9", "abc", "nan", "inf", "-inf", "infinity", "5s", "0x10", "+5", "%205", "5%20", "1,5",
           "99999999999999999999", "5;6", "1e1", "0x1p2")

    def test_bounds(self):
        """contract 1: wait_s is 0 to 120 wherever it stands, in plain digits; anything else is 422."""
        session = self.service.session()
        decision = self.service.decide(session, "read_file", "read", {"path": "a"}).json["id"]
        apr = self.service.write(session, "b").json["approval"]
        self.service.answer(apr, "deny")
        for path in (f"/v1/sessions/{session}/decisions/{decision}", "/v1/approvals/" + apr, "/v1/approvals?state=pending",
                     "/v1/approvals", "/v1/events?after=x"):
            mark = "&" if "?" in path else "?"
            for value in self.BAD:
                with self.subTest(path=path, value=value):
                    reply = self.service.call("GET", f"{path}{mark}wait_s={value}", headers={"Accept": "application/json"})
                    self.assertEqual((reply.status, reply.json.get("code")), (422, "invalid"), reply)
            for value in ("0", "0.0", "0.5", "1", "120", "120.0"):
                reply = self.service.call("GET", f"{path}{mark}wait_s={value}", headers={"Accept": "application/json"}, timeout=10)
                self.assertEqual(reply.status, 200, f"{path} {value} {reply}")

    def test_in_bodies(self):
        """contract 1: wait_s of a decision is a JSON number from 0 to 120."""
        session = self.service.session()
        call = {"tool": "read_file", "action": "read", "target": {"path": "a"}}
        for value in (-1, -0.001, 120.001, 121, 1e18, "5", True, [5], {}):
            self.assertEqual(self.service.call("POST", f"/v1/sessions/{session}/decisions", {**call, "wait_s": value}).status, 422, value)
        for value in (0, 0.5, 120, None):
            self.assertEqual(self.service.call("POST", f"/v1/sessions/{session}/decisions", {**call, "wait_s": value}).status, 200, value)
        for value in ("NaN", "Infinity", "1e999"):
            raw = json.dumps({**call, "wait_s": 7}).replace("7", value).encode()
            self.assertIn(self.service.call("POST", f"/v1/sessions/{session}/decisions", raw=raw).status, (400, 422), value)

    def test_a_wait_ends_by_itself(self):
        """contract 5: a held request that ends unsettled gets what is so: 202, 200 or 304."""
        session = self.service.session()
        reply = self.service.write(session, "a", wait_s=0.3)
        self.assertEqual(reply.status, 202)
        decision, approval = reply.json["id"], reply.json["approval"]
        self.assertEqual(self.service.call("GET", f"/v1/sessions/{session}/decisions/{decision}?wait_s=0.3").status, 202)
        seen = self.service.call("GET", f"/v1/approvals/{approval}?wait_s=0.3")
        self.assertEqual(seen.json["state"], "pending")
        self.assertEqual(self.service.call("GET", f"/v1/approvals/{approval}?wait_s=0.3", headers={"If-None-Match": seen.headers["ETag"]}).status, 304)
        page = self.service.call("GET", "/v1/events?wait_s=0.3", headers={"Accept": "application/json"}).json
        self.assertEqual(page["items"], [])


class Tracing(WithService):
    def test_trace_id(self):
        """contract 1: the trace id of a traceparent stands in problems, audit and log; a bad one is replaced."""
        good = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        reply = self.service.call("GET", "/v1/sessions/ses_no", headers=good)
        self.assertEqual(reply.json["trace_id"], TRACE)
        session = self.service.session()
        decision = self.service.call("POST", f"/v1/sessions/{session}/decisions", {
            "tool": "read_file", "action": "read", "target": {"path": "a"}}, headers=good)
        self.assertEqual(decision.status, 200)
        rows = self.service.audit(ref=decision.json["id"])
        self.assertEqual([row["trace_id"] for row in rows], [TRACE])
        self.service.call("GET", "/v1/status", token="gh_wrong", headers=good)
        gh.until(lambda: any(row["trace_id"] == TRACE for row in self.service.audit(kind="auth")), "the audit of the refusal")
        self.assertIn(TRACE, self.service.log())

    def test_bad_trace_ids(self):
        """contract 1: an invalid traceparent gets a fresh id, never an error or an echo."""
        seen = set()
        for value in ("", "x", f"00-{TRACE.upper()}-00f067aa0ba902b7-01", f"00-{'0' * 32}-00f067aa0ba902b7-01", f"00-{TRACE}-{'0' * 16}-01",
                      f"ff-{TRACE}-00f067aa0ba902b7-01", f"00-{TRACE[:-1]}-00f067aa0ba902b7-01", f"00-{TRACE}-00f067aa0ba902b7",
                      f"00-{TRACE}-00f067aa0ba902b7-01-extra", "a" * 500):
            reply = self.service.call("GET", "/v1/sessions/ses_no", headers={"traceparent": value})
            self.assertEqual(reply.status, 404)
            self.assertRegex(reply.json["trace_id"], "^[0-9a-f]{32}$")
            self.assertNotEqual(reply.json["trace_id"], TRACE, value)
            seen.add(reply.json["trace_id"])
        self.assertEqual(len(seen), 10)


class TokenPlaces(WithService):
    def test_only_the_header(self):
        """B084: a token in the query, a cookie, another header or Basic is none, on every route."""
        document = self.service.call("GET", "/openapi.json").json
        secret = self.service.approver
        for path, item in document["paths"].items():
            for method in set(item) & {"get", "put", "post", "patch", "delete"}:
                if item[method].get("security") == []:
                    continue
                url = re.sub(r"\{[^}]*\}", "x", path)
                for name in ("token", "access_token", "api_key", "authorization", "key", "code"):
                    reply = self.service.call(method.upper(), f"{url}?{name}={secret}", {}, token=None)
                    self.assertEqual(reply.status, 401, f"{method} {url} {name}")
                for headers in ({"Cookie": "token=" + secret}, {"X-Api-Key": secret}, {"Authorization": "Basic " + secret},
                                {"Authorization": "Token " + secret}, {"Proxy-Authorization": "Bearer " + secret},
                                {"X-Authorization": "Bearer " + secret}):
                    reply = self.service.call(method.upper(), url, {}, token=None, headers=headers)
                    self.assertIn(reply.status, (401, 429), f"{method} {url} {headers}")
        self.assertNotIn(secret, self.service.log())
        export = self.service.call("GET", "/v1/audit/export", token="approver").body
        for known in (secret, self.service.agent):
            self.assertNotIn(known, export)
            self.assertNotIn(known, self.service.call("GET", "/metrics", token="approver").body)
            self.assertNotIn(known, self.service.call("GET", "/v1/tokens", token="approver").body)
            self.assertNotIn(known, self.service.call("GET", "/v1/config", token="approver").body)

    def test_headers_that_keep_it(self):
        """B084: nothing is cached and nothing is referred."""
        for path in ("/v1/status", "/v1/tokens", "/healthz", "/nope"):
            reply = self.service.call("GET", path)
            self.assertEqual(reply.headers["Referrer-Policy"], "no-referrer")
            self.assertEqual(reply.headers["Cache-Control"], "no-store")
        page = self.service.call("GET", "/", token=None)
        self.assertEqual(page.headers["Referrer-Policy"], "no-referrer")
        self.assertIn(page.headers["Cache-Control"], ("no-store", "no-cache"))

    def test_login_code_is_for_one_instance(self):
        """F07: a code is spent once, dies within 60 s, and is worth nothing elsewhere or to another token."""
        made = self.service.call("POST", "/v1/login/codes", {"role": "approver"}, token="approver").json
        ends = time.mktime(time.strptime(made["expires_at"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        self.assertLessEqual(ends - time.time(), 61)
        with gh.Service() as other:
            self.assertEqual(other.call("POST", "/v1/login", {"code": made["code"]}, token=None).status, 401)
        self.assertEqual(self.service.call("GET", "/v1/status", token=made["code"]).status, 401)
        self.assertEqual(self.service.call("POST", "/v1/login", {"code": made["code"].upper()}, token=None).status, 401)
        for _ in range(1):
            login = self.service.call("POST", "/v1/login", {"code": made["code"]}, token=None)
            self.assertEqual(login.status, 200)
        self.assertEqual(self.service.call("POST", "/v1/login", {"code": made["code"]}, token=None).status, 401)
        ends = time.mktime(time.strptime(login.json["expires_at"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        self.assertLessEqual(ends - time.time(), 12 * 3600 + 1, "no lasting token comes out of the API")


class TokenFiles(unittest.TestCase):
    def modes(self, service):
        found = {}
        for folder, _, names in os.walk(service.state):
            for path in [folder] + [os.path.join(folder, name) for name in names]:
                found[os.path.relpath(path, service.state)] = stat.S_IMODE(os.lstat(path).st_mode)
        return found

    def test_modes_under_umask_0(self):
        """B085: under umask 000 every file is 0600 in folders of 0700, and the socket 0600."""
        service = gh.Service()
        self.addCleanup(service.close)
        service.start(preexec_fn=lambda: os.umask(0))
        service.add_token("more", "viewer")
        service.session()
        for path, mode in self.modes(service).items():
            self.assertEqual(mode & 0o077, 0, f"{path} {oct(mode)}")
        self.assertEqual(stat.S_IMODE(os.stat(service.socket).st_mode) & 0o077, 0)
        self.assertEqual(self.modes(service)["tokens"], 0o700)
        self.assertEqual(self.modes(service)["tokens/agent.token"], 0o600)

    def spoil(self, change):
        service = gh.Service()
        self.addCleanup(service.close)
        service.start()
        self.assertEqual(service.stop(), 0)
        change(os.path.join(service.state, "tokens", "approver.token"), os.path.join(service.state, "tokens", "approver.json"))
        service.start(wait=False)
        code = service.process.wait(60)
        self.assertNotEqual(code, 0, "it started")
        self.assertIn("approver", service.log())
        service.process = None

    def test_loosened_record_is_refused(self):
        """B085: a token record that others may read stops the start, and the file is named."""
        self.spoil(lambda secret, record: os.chmod(record, 0o644))

    def test_linked_record_is_refused(self):
        """B085: a token record that became a link stops the start."""
        def change(secret, record):
            os.rename(record, record + ".moved")
            os.symlink(record + ".moved", record)
        self.spoil(change)

    def test_loosened_secret_is_refused_by_the_client(self):
        """B085: the command line does not use a secret that others may read or that is a link."""
        with gh.Service() as service:
            secret = os.path.join(service.state, "tokens", "approver.token")
            os.chmod(secret, 0o644)
            done = service.cli("pending")
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertIn("approver.token", done.stderr)
            os.chmod(secret, 0o600)
            os.rename(secret, secret + ".moved")
            os.symlink(secret + ".moved", secret)
            self.assertNotEqual(service.cli("pending").returncode, 0)

    def test_no_secret_in_processes(self):
        """B085: no token in the arguments or the environment of any process of ours, ever sampled."""
        with gh.Service() as service:
            secrets = [service.agent, service.approver]
            hits, seen, over = [], set(), threading.Event()

            def sample():
                while not over.is_set():
                    for pid in filter(str.isdigit, os.listdir("/proc")):
                        for name in ("cmdline", "environ"):
                            try:
                                with open(f"/proc/{pid}/{name}", "rb") as f:
                                    text = f.read()
                            except OSError:
                                continue
                            if service.state.encode() in text:
                                seen.add(pid)
                            hits.extend((pid, name) for secret in secrets if secret.encode() in text)
                    time.sleep(0.005)

            sampler = threading.Thread(target=sample, daemon=True)
            sampler.start()
            session = service.session()
            for i in range(15):
                service.cli("status")
                service.cli("pending")
                service.cli("scan", "--session", session, input="text")
                secrets.append(service.cli("token", "add", f"t{i}", "--role", "viewer").stdout.strip())
            over.set()
            sampler.join(30)
            self.assertEqual(hits, [])
            self.assertGreater(len(seen), 5, "the sampler saw our processes")


if __name__ == "__main__":
    unittest.main()
