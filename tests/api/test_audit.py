"""The record of decisions: rows, filters, pages, export, verification, tampering, secrets."""

import hashlib
import json
import os
import shutil
import sqlite3
import struct
import subprocess
import unittest
from urllib.parse import quote

import gh
from gh import Case, Held, Service, close_checked, until

HOSTILE = 'rm x\x1b[2K\rls\x07\x08 \x1b]8;;http://e\x1b\\l\x1b]52;c;QQ==\x07 \u009b31m \u202egpj.exe " \' \\ </script>\n{"seq":1}\n'
COLUMNS = ["seq", "at_ms", "part", "kind", "session", "ref", "tool", "action", "decision", "by", "code", "mode",
           "principal", "peer", "agent", "trace_id", "hash", "body"]


TEXTS = ["kind", "session", "ref", "tool", "action", "decision", "by", "code", "mode", "principal", "peer", "agent",
         "trace_id", "body"]


def chain_hash(gateway, previous, row):
    """The hash of a row behind the one before it, from the description of the form alone."""
    def text(value):
        data = value.encode()
        return struct.pack("<q", len(data)) + data
    data = text("gatehouse audit row 1") + text(gateway)
    data += b"".join(struct.pack("<q", row[k]) for k in ("seq", "at_ms", "part"))
    data += b"".join(text(row[k]) for k in TEXTS)
    return hashlib.sha256(previous + data).digest()


def read_anchor(folder):
    with open(os.path.join(folder, "audit.anchor")) as f:
        return json.loads(f.read().rstrip("\0 \n"))


def rewrite(folder, change, from_seq=1, with_anchor=False):
    """What somebody who may write the folder can do: change rows and recompute every hash behind them."""
    anchor = read_anchor(folder)
    previous = bytes(32)
    db = sqlite3.connect(os.path.join(folder, "store.db"))
    db.row_factory = sqlite3.Row
    with db:
        for row in [dict(r) for r in db.execute("SELECT * FROM audit ORDER BY seq")]:
            if row["seq"] >= from_seq:
                change(row)
                row["hash"] = chain_hash(anchor["gateway"], previous, row)
                names = [k for k in row if k != "seq"]
                sets = ",".join(f'"{k}"=?' for k in names)
                db.execute(f"UPDATE audit SET {sets} WHERE seq=?", [row[k] for k in names] + [row["seq"]])
            previous = row["hash"]
    db.close()
    if with_anchor:
        path = os.path.join(folder, "audit.anchor")
        size = os.path.getsize(path)
        with open(path, "w") as f:
            f.write(json.dumps({**anchor, "hash": previous.hex()}).ljust(size - 1) + "\n")


def get(service, path, token="approver"):
    return service.call("GET", path, token=token)


def export(service, query=""):
    reply = get(service, "/v1/audit/export" + query)
    assert reply.status == 200, reply
    assert reply.headers["Content-Type"] == "application/x-ndjson", reply.headers
    return reply.body


class AuditRows(Case):
    def rows(self, **filters):
        reply = get(self.s, "/v1/audit?limit=1000&" + "&".join(f"{k}={quote(str(v), safe='')}"
                                                               for k, v in filters.items()))
        self.assertEqual(reply.status, 200, reply)
        return reply.json["items"]

    def test_silent_allow_is_a_row(self):
        """behaviour 1.11, contract 10: an allow nobody saw is one row, with who, where and what."""
        session = self.open()
        for tool, action, target in (("read_file", "read", {"path": "a.txt"}),
                                     ("set_tasks", "internal", {"description": "tasks"})):
            answer = self.allowed(self.s.decide(session, tool, action, target), code="auto", by="rule")
            rows = self.rows(ref=answer["id"])
            self.assertEqual(len(rows), 1, rows)
            row = rows[0]
            self.assertEqual([row[k] for k in ("kind", "session", "part", "tool", "action", "decision", "by", "code",
                                               "mode")],
                             ["decision", session, 0, tool, action, "allow", "rule", "auto", "act"])
            self.assertTrue(row["principal"].startswith("agent (tok_"), row)
            self.assertTrue(row["peer"].startswith("127.0.0.1:"), row)
            self.assertTrue(row["gateway"].startswith("gw_"), row)
            self.assertRegex(row["hash"], "^[0-9a-f]{64}$")
            self.assertEqual(row["body"]["id"], answer["id"])
            self.assertEqual(row["body"]["target"], answer["target"])

    def test_one_row_a_part(self):
        """contract 5, 10: a decision of three parts is three rows, numbered, with one id."""
        session = self.open()
        parts = [{"action": "write", "target": {"path": f"f{i}"}} for i in range(2)]
        parts.append({"action": "write", "target": {"path": ".env"}})
        reply = self.s.call("POST", f"/v1/sessions/{session}/decisions", {"tool": "patch_file", "parts": parts})
        answer = self.denied(reply, code="deny_path")
        rows = sorted(self.rows(ref=answer["id"]), key=lambda r: r["part"])
        self.assertEqual([r["part"] for r in rows], [0, 1, 2])
        self.assertEqual({r["decision"] for r in rows}, {"deny"})
        self.assertEqual(len({r["seq"] for r in rows}), 3)

    def test_ask_and_answer(self):
        """contract 10, B045: asked, answered, and who answered; an expired one names nobody."""
        session = self.open()
        first = self.s.write(session, "a.txt")
        self.settle(self.asked(first), "deny", feedback="not that one")
        rows = sorted(self.rows(ref=first.json["id"]), key=lambda r: r["seq"])
        self.assertEqual([(r["decision"], r["by"], r["code"]) for r in rows],
                         [("ask", "", "asked"), ("deny", "person", "denied_by_person")])
        self.assertTrue(rows[1]["principal"].startswith("approver ("), rows)
        settled = self.rows(ref=first.json["approval"], kind="approval")
        self.assertEqual([r["body"]["state"] for r in settled], ["denied"])
        self.assertEqual(settled[0]["body"]["feedback"], "not that one")
        late = self.s.session(working_dir=self.folder(), ask_timeout_s=1)
        second = self.s.write(late, "b.txt")
        answer = self.decision_of(second.json)
        self.assertEqual((answer.json["decision"], answer.json["by"], answer.json["code"]), ("deny", "timeout", "expired"))
        row = [r for r in self.rows(ref=second.json["id"]) if r["decision"] == "deny"][0]
        self.assertEqual((row["by"], row["code"]), ("timeout", "expired"))
        self.assertNotIn("approver", row["principal"])
        self.assertIsNone(self.s.approval(second.json["approval"])["settled_by"])

    def test_explain_is_no_row(self):
        """contract 5: explain=true records nothing."""
        session = self.open()
        before = get(self.s, "/v1/status").json["store"]["audit_rows"]
        reply = self.s.call("POST", f"/v1/sessions/{session}/decisions?explain=true",
                            {"tool": "read_file", "action": "read", "target": {"path": "a"}})
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(get(self.s, "/v1/status").json["store"]["audit_rows"], before)

    def test_exact_text(self):
        """B062, B158: control bytes and invisible characters are kept exactly; a line stays a line."""
        session = self.open()
        long_path = "d/" * 1000 + "end"
        self.s.call("POST", f"/v1/sessions/{session}/decisions",
                    {"tool": "x", "action": "network", "target": {"description": HOSTILE}})
        asked = self.s.shell(session, HOSTILE)
        read = self.s.decide(session, "read_file", "read", {"path": long_path})
        row = [r for r in self.rows(session=session) if r["ref"] == asked.json["id"]][0]
        body = row["body"].get("answer", row["body"])
        self.assertEqual(body["target"], asked.json["target"])
        self.assertIn(HOSTILE, body["target"]["args"])
        row = self.rows(ref=read.json["id"])[0]
        self.assertTrue(json.dumps(row).count("d/") >= 1000)
        text = export(self.s, f"?session={session}")
        lines = text.split("\n")
        self.assertEqual(lines.pop(), "")
        rows = [json.loads(line) for line in lines]
        self.assertEqual([r["seq"] for r in rows], sorted(r["seq"] for r in rows))
        self.assertIn(asked.json["id"], [r["ref"] for r in rows])
        for line in lines:
            self.assertFalse([c for c in line if ord(c) < 0x20], line)

    def test_filters(self):
        """contract 10: session, action, decision, by, tool, ref, kind, text, since, until."""
        one, two = self.open(), self.open()
        self.s.decide(one, "read_file", "read", {"path": "100%_sure.txt"})
        self.s.decide(one, "read_file", "read", {"path": ".env"})
        self.s.decide(two, "grep", "read", {"path": "100xxsure.txt"})
        self.s.write(two, "w.txt")
        rows = self.rows(session=one, kind="decision")
        self.assertEqual([r["session"] for r in rows], [one] * 2)
        self.assertEqual([r["decision"] for r in self.rows(session=one, decision="deny")], ["deny"])
        self.assertEqual([r["tool"] for r in self.rows(session=two, tool="grep")], ["grep"])
        self.assertEqual([r["action"] for r in self.rows(session=two, action="write")], ["write"])
        self.assertEqual(len(self.rows(session=one, by="rule")), 2)
        self.assertEqual(len(self.rows(session=one, by="person")), 0)
        self.assertEqual(len(self.rows(text="100%_sure", kind="decision")), 1)
        self.assertEqual(len(self.rows(text="100xxsure", kind="decision")), 1)
        self.assertEqual({r["session"] for r in self.rows(kind="session", session=two)}, {two})
        both = sorted(self.rows(session=one), key=lambda r: r["seq"])
        at = both[-1]["at"]
        self.assertTrue(all(r["at"] >= at for r in self.rows(session=one, since=at)))
        self.assertIn(both[-1]["seq"], [r["seq"] for r in self.rows(session=one, since=at)])
        self.assertTrue(all(r["at"] < at for r in self.rows(session=one, until=at)))
        self.assertEqual(self.rows(session="ses_nothere"), [])
        self.assertEqual(self.rows(text="' OR 1=1 --"), [])

    def test_bad_filters(self):
        """contract 1: a filter that is none is refused, not ignored."""
        for query in ("since=yesterday", "until=2026-13-01T00:00:00Z", "limit=0", "limit=1001", "limit=x",
                      "cursor=x", "cursor=s-1", "cursor=s99999999999999999999"):
            reply = get(self.s, "/v1/audit?" + query)
            self.assertEqual(reply.status, 400 if query.startswith("cursor") else 422, (query, reply))

    def test_pages_while_rows_are_added(self):
        """contract 1: a cursor neither repeats nor loses a row that was there, whatever is added meanwhile."""
        session = self.open()
        for i in range(25):
            self.s.decide(session, "read_file", "read", {"path": f"p{i}"})
        for order in ("newest", "oldest"):
            wanted = [r["seq"] for r in self.rows(session=session)]
            seen, cursor = [], ""
            while cursor is not None:
                reply = get(self.s, f"/v1/audit?session={session}&limit=4&order={order}" + cursor)
                page = reply.json
                self.assertLessEqual(len(page["items"]), 4)
                seen += [r["seq"] for r in page["items"]]
                if len(seen) < 40:
                    self.s.decide(session, "read_file", "read", {"path": "more"})
                cursor = page["next_cursor"] and "&cursor=" + quote(page["next_cursor"])
            self.assertEqual(len(seen), len(set(seen)), order)
            self.assertEqual(seen, sorted(seen, reverse=order == "newest"))
            self.assertLessEqual(set(wanted), set(seen), order)

    def test_last_page_has_no_cursor(self):
        """contract 1: next_cursor is null when the page is the last, also when it is exactly full."""
        session = self.open()
        for i in range(3):
            self.s.decide(session, "read_file", "read", {"path": f"p{i}"})
        path = f"/v1/audit?session={session}&kind=decision&limit="
        self.assertIsNone(get(self.s, path + "3").json["next_cursor"])
        page = get(self.s, path + "2").json
        self.assertIsNotNone(page["next_cursor"])
        rest = get(self.s, path + "2&cursor=" + page["next_cursor"]).json
        self.assertEqual((len(rest["items"]), rest["next_cursor"]), (1, None))

    def test_export_is_the_list(self):
        """contract 10: the export holds the same rows as the list, oldest first; hashes follow the columns."""
        session = self.open()
        for i in range(5):
            self.s.decide(session, "read_file", "read", {"path": f"p{i}"})
        rows = [json.loads(line) for line in export(self.s, f"?session={session}").splitlines()]
        self.assertEqual(rows, self.rows(session=session)[::-1])
        self.assertEqual(list(rows[0]), ["seq", "gateway", "at", "kind", "session", "ref", "part", "tool", "action",
                                         "decision", "by", "code", "mode", "principal", "peer", "agent", "trace_id",
                                         "body", "hash"])

    def test_whole_export_is_contiguous(self):
        """B156: numbers without gaps or doubles in the whole export; the newest hash is the one verify names."""
        session = self.open()
        self.s.decide(session, "read_file", "read", {"path": "x"})
        seqs = [json.loads(line)["seq"] for line in export(self.s).splitlines()]
        self.assertEqual(seqs, list(range(1, len(seqs) + 1)))
        found = get(self.s, "/v1/audit/verify").json
        self.assertEqual((found["ok"], found["bad_seq"], found["reason"]), (True, None, None))
        last = [r for r in self.rows(order="oldest") if r["seq"] == found["last_seq"]][0]
        self.assertEqual(last["hash"], found["last_hash"])

    def test_who_asked(self):
        """B158: peer, credential, user agent of each; over the socket too; hostile agents stay one line."""
        other = self.s.add_token("other", "agent")
        hostile = 'evil"\'\\ \t<b> {"seq":1} \xe9'
        mine = self.open()
        theirs = self.s.session(token=other, working_dir=self.folder())
        a = self.s.decide(mine, "read_file", "read", {"path": "a"}).json["id"]
        b = self.s.call("POST", f"/v1/sessions/{theirs}/decisions",
                        {"tool": "read_file", "action": "read", "target": {"path": "b"}}, token=other,
                        headers={"User-Agent": hostile.encode("latin-1")}).json["id"]
        c = self.s.call("POST", f"/v1/sessions/{mine}/decisions",
                        {"tool": "read_file", "action": "read", "target": {"path": "c"}}, unix=True,
                        headers={"User-Agent": "plain/1.0"}).json["id"]
        row_a, row_b, row_c = (self.rows(ref=x)[0] for x in (a, b, c))
        self.assertTrue(row_a["principal"].startswith("agent ("))
        self.assertTrue(row_b["principal"].startswith("other ("))
        self.assertNotEqual(row_a["principal"], row_b["principal"])
        self.assertIn('evil"', row_b["agent"])
        self.assertEqual(row_c["agent"], "plain/1.0")
        self.assertIn(str(os.getuid()), row_c["peer"])
        self.assertNotEqual(row_a["peer"], row_c["peer"])
        lines = export(self.s, f"?session={theirs}").splitlines()
        self.assertTrue(all(json.loads(line) for line in lines))

    def test_trace(self):
        """contract 1: the caller's trace id stands in the row, and in a problem's body."""
        trace = "0af7651916cd43dd8448eb211c80319c"
        header = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
        session = self.open()
        reply = self.s.call("POST", f"/v1/sessions/{session}/decisions",
                            {"tool": "read_file", "action": "read", "target": {"path": "t"}}, headers=header)
        self.assertEqual(self.rows(ref=reply.json["id"])[0]["trace_id"], trace)
        self.assertEqual(self.s.call("GET", "/v1/sessions/ses_none", headers=header).json["trace_id"], trace)

    def test_refused_logins_are_rows(self):
        """B158, B072: a wrong token, a wrong role, a foreign Host and a wrong login code are recorded with the peer."""
        wrong = "gh_" + "0" * 52
        before = {r["seq"] for r in self.rows(kind="auth")}
        self.assertEqual(self.s.call("GET", "/v1/status", token=wrong).status, 401)
        self.assertEqual(self.s.call("POST", "/v1/login", {"code": "nope"}, token=None).status, 401)

        def fresh():
            rows = [r for r in self.rows(kind="auth") if r["seq"] not in before]
            return rows if len(rows) >= 2 else None
        rows = until(fresh, "two rows")
        self.assertEqual({r["code"] for r in rows}, {"unauthorized"})
        self.assertEqual({r["body"]["path"] for r in rows}, {"/v1/status", "/v1/login"})
        self.assertTrue(all(r["peer"].startswith("127.0.0.1") for r in rows), rows)
        self.assertNotIn(wrong, json.dumps(rows))

    def test_roles(self):
        """contract 2: a viewer reads the record, an agent and a metrics token do not."""
        viewer, metrics = self.s.add_token("viewer1", "viewer"), self.s.add_token("metrics1", "metrics")
        for path in ("/v1/audit", "/v1/audit/verify", "/v1/audit/export"):
            self.assertEqual(get(self.s, path, viewer).status, 200, path)
            self.assertEqual(get(self.s, path, "agent").status, 403, path)
            self.assertEqual(get(self.s, path, metrics).status, 403, path)
            self.assertEqual(self.s.call("DELETE", path, token="approver").status, 405, path)

    def test_verify_while_written(self):
        """contract 10: verification beside asks that are being recorded finds nothing wrong."""
        session = self.open()
        writers = [Held(lambda: [self.s.decide(session, "read_file", "read", {"path": f"v{i}"}).status
                                 for i in range(60)]) for _ in range(3)]
        for _ in range(10):
            found = get(self.s, "/v1/audit/verify").json
            self.assertTrue(found["ok"], found)
        for writer in writers:
            self.assertEqual(set(writer.result()), {200})

    def test_cli(self):
        """contract 10: `audit verify`, `audit export`, `audit` with filters through the program."""
        session = self.open()
        self.s.decide(session, "read_file", "read", {"path": "cli.txt"})
        self.s.decide(session, "read_file", "read", {"path": ".env"})
        self.assertEqual(self.s.cli("audit", "verify").returncode, 0)
        found = json.loads(self.s.cli("audit", "verify", "--json").stdout)
        self.assertTrue(found["ok"])
        listed = json.loads(self.s.cli("audit", "--session", session, "--decision", "deny", "--json").stdout)
        self.assertEqual([r["decision"] for r in listed["items"]], ["deny"])
        lines = self.s.cli("audit", "export", "--session", session).stdout.splitlines()
        self.assertEqual([json.loads(x)["session"] for x in lines], [session] * len(lines))
        self.assertEqual([json.loads(x) for x in lines], self.rows(session=session)[::-1])


class AuditSecrets(unittest.TestCase):
    def test_no_secret_anywhere(self):
        """F22, B084, F19: no token and no login code in state, log, audit, metrics or problem bodies."""
        s = Service(config={"notify": [{"url": "https://example.invalid/x", "secret": "hush-hush-secret-1"}]})
        self.addCleanup(close_checked, s)
        s.start()
        extra = s.add_token("extra", "agent")
        code = s.call("POST", "/v1/login/codes", {"role": "approver"}, token="approver").json["code"]
        login = s.call("POST", "/v1/login", {"code": code}, token=None).json["token"]
        unused = s.call("POST", "/v1/login/codes", {"role": "viewer"}, token="approver").json["code"]
        near = s.agent[:-1] + ("0" if s.agent[-1] != "0" else "1")
        secrets = [s.agent, s.approver, extra, login, code, unused, near, "hush-hush-secret-1"]
        bodies = []
        for secret in (s.agent, s.approver, extra, login, near):
            for path in ("/v1/status", "/v1/audit", "/v1/nothing", "/healthz", "/metrics", "/v1/events"):
                reply = s.call("GET", f"{path}?token={secret}&access_token={secret}", token=None)
                self.assertEqual(reply.status, 200 if path == "/healthz" else 401, (path, reply))
                bodies.append(str(reply.headers) + reply.body)
            for headers in ({"Authorization": "Basic " + secret}, {"X-Token": secret}, {"Cookie": "t=" + secret}):
                reply = s.call("GET", "/v1/status", token=None, headers=headers)
                self.assertEqual(reply.status, 401, headers)
                bodies.append(reply.body)
        bodies.append(s.call("POST", "/v1/login", {"code": login}, token=None).body)
        bodies.append(s.call("POST", "/v1/login", {"code": 1, "x": code}, token=None).body)
        session = s.session()
        bodies.append(s.decide(session, "read_file", "read", {"path": "x"}).body)
        for path in ("/v1/audit/export", "/v1/config", "/v1/tokens", "/v1/status", "/v1/events?wait_s=0"):
            bodies.append(s.call("GET", path, token="approver", headers={"Accept": "application/json, */*"}).body)
        bodies.append(s.call("GET", "/metrics", token=s.add_token("m", "metrics")).body)
        bodies += [s.cli(*c).stdout for c in (["token", "list"], ["config"], ["status"], ["doctor"], ["audit"])]
        s.stop()
        bodies.append(s.log())
        for secret in secrets:
            for body in bodies:
                self.assertFalse(secret in body, (secret, body[:300]))
        for folder, _, names in os.walk(s.state):
            for name in names:
                if name.endswith(".token"):
                    continue
                with open(os.path.join(folder, name), "rb") as f:
                    data = f.read()
                for secret in secrets:
                    self.assertFalse(secret.encode() in data, (secret, name))

    def test_query_tokens_are_nothing(self):
        """B084: a valid token in the query is no credential on any route, GET or POST."""
        with Service() as s:
            for method, path, body in (("POST", "/v1/sessions", {"agent": "a", "working_dir": s.project}),
                                       ("GET", "/v1/approvals", None), ("GET", "/readyz", None),
                                       ("GET", "/openapi.yaml", None), ("PUT", "/v1/approvals/x/decision", {})):
                for name in ("token", "access_token", "bearer", "Authorization"):
                    reply = s.call(method, f"{path}?{name}={s.approver}", body, token=None)
                    self.assertEqual(reply.status, 401, (method, path, reply))
                    self.assertNotIn(s.approver, reply.body)


class AuditTamper(unittest.TestCase):
    """Changes to a copy of the record, made through SQLite, are found at their place."""

    @classmethod
    def setUpClass(cls):
        cls.s = Service().start()
        session = cls.s.session()
        for i in range(6):
            cls.s.decide(session, "read_file", "read", {"path": f"f{i}"})
        asked = cls.s.write(session, "w.txt", narration="why")
        cls.s.answer(asked.json["approval"], "allow", feedback="fine")
        cls.s.call("GET", "/v1/status", token="nobody")
        cls.s.write(session, ".env")
        until(lambda: cls.s.audit(kind="auth"), "the refused login's row")
        assert cls.s.stop() == 0
        cls.rows = cls.read(cls.s.state)
        cls.n_copies = 0

    @classmethod
    def tearDownClass(cls):
        close_checked(cls.s)

    @staticmethod
    def read(folder):
        db = sqlite3.connect(f"file:{folder}/store.db?mode=ro", uri=True)
        db.row_factory = sqlite3.Row
        rows = [dict(r) for r in db.execute("SELECT * FROM audit ORDER BY seq")]
        db.close()
        return rows

    def copy(self):
        type(self).n_copies += 1
        folder = os.path.join(self.s.root, f"copy{self.n_copies}")
        shutil.copytree(self.s.state, folder)
        os.chmod(folder, 0o700)
        return folder

    def change(self, folder, *statements):
        db = sqlite3.connect(os.path.join(folder, "store.db"))
        with db:
            for sql, values in statements:
                db.execute(sql, values)
        db.close()

    def verify(self, folder):
        done = self.run_verify(folder, "--json")
        return done.returncode, json.loads(done.stdout)

    def run_verify(self, folder, *options):
        return subprocess.run([gh.BIN, "audit", "verify", "--state-dir", folder, *options], env=self.s.env(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)

    def found(self, folder, bad_seq):
        code, body = self.verify(folder)
        self.assertEqual((code, body["ok"]), (1, False), body)
        self.assertEqual(body["bad_seq"], bad_seq, body)
        self.assertTrue(body["reason"], body)
        shutil.rmtree(folder)
        return body

    def test_clean(self):
        """B156: with the service down the record verifies by itself, exit 0."""
        code, body = self.verify(self.copy())
        self.assertEqual((code, body["ok"], body["checked"]), (0, True, len(self.rows)), body)
        self.assertEqual(body["last_hash"], self.rows[-1]["hash"].hex())

    def test_every_column(self):
        """B155: any column of any row changed by the least is found at that row."""
        self.assertEqual(sorted(self.rows[0]), sorted(COLUMNS))
        for i, column in enumerate(c for c in COLUMNS if c != "seq"):
            row = self.rows[(i * 5) % (len(self.rows) - 1)]
            old = row[column]
            if isinstance(old, bytes):
                new = bytes([old[0] ^ 1]) + old[1:]
            else:
                new = old + 1 if isinstance(old, int) else old + " "
            folder = self.copy()
            self.change(folder, (f'UPDATE audit SET "{column}"=? WHERE seq=?', (new, row["seq"])))
            with self.subTest(column=column, seq=row["seq"]):
                self.found(folder, row["seq"])

    def test_every_row(self):
        """B155: one character of each row's text flipped is found at that row."""
        for row in self.rows:
            folder = self.copy()
            body = row["body"]
            flipped = body[:-1] + ("]" if body[-1] == "}" else "}")
            self.change(folder, ("UPDATE audit SET body=? WHERE seq=?", (flipped, row["seq"])))
            with self.subTest(seq=row["seq"]):
                self.found(folder, row["seq"])

    def test_text_between_columns(self):
        """B155: text moved from one column to the next leaves the same letters and is found."""
        row = next(r for r in self.rows if r["tool"])
        folder = self.copy()
        self.change(folder, ("UPDATE audit SET tool=?, action=? WHERE seq=?",
                             (row["tool"] + row["action"], "", row["seq"])))
        self.found(folder, row["seq"])

    def test_swap(self):
        """B155: two rows that changed places are found at the first."""
        folder = self.copy()
        self.change(folder, ("UPDATE audit SET seq=-1 WHERE seq=3", ()), ("UPDATE audit SET seq=3 WHERE seq=5", ()),
                    ("UPDATE audit SET seq=5 WHERE seq=-1", ()))
        self.found(folder, 3)

    def test_duplicate(self):
        """B155: a row that stands there twice is found at its double."""
        folder = self.copy()
        columns = ",".join(f'"{c}"' for c in COLUMNS if c != "seq")
        self.change(folder, ("UPDATE audit SET seq=seq+1000 WHERE seq>4", ()),
                    (f"INSERT INTO audit(seq,{columns}) SELECT 5,{columns} FROM audit WHERE seq=4", ()),
                    ("UPDATE audit SET seq=seq-999 WHERE seq>1000", ()))
        self.found(folder, 5)

    def test_drop(self):
        """B155: a row that is missing from the middle is found at the gap, renumbered or not."""
        folder = self.copy()
        self.change(folder, ("DELETE FROM audit WHERE seq=4", ()))
        self.assertIn(self.verify(folder)[1]["bad_seq"], (4, 5))
        self.assertEqual(self.verify(folder)[0], 1)
        self.change(folder, ("UPDATE audit SET seq=seq+1000 WHERE seq>4", ()),
                    ("UPDATE audit SET seq=seq-1001 WHERE seq>1000", ()))
        self.found(folder, 4)

    def test_first_rows_gone(self):
        """B155: a beginning that was cut off without a `pruned` row is found."""
        folder = self.copy()
        self.change(folder, ("DELETE FROM audit WHERE seq<=2", ()))
        code, body = self.verify(folder)
        self.assertEqual((code, body["ok"]), (1, False), body)
        self.assertIn(body["bad_seq"], (1, 3))

    def test_cut_tail(self):
        """contract 10: a tail that was cut off is found by the anchor, by one row or by all of them."""
        for keep in (len(self.rows) - 1, 3, 0):
            folder = self.copy()
            self.change(folder, ("DELETE FROM audit WHERE seq>?", (keep,)))
            with self.subTest(keep=keep):
                self.found(folder, keep + 1)

    def test_insert_behind(self):
        """B155: a row that was added behind the last one by hand is found."""
        folder = self.copy()
        last = len(self.rows)
        columns = ",".join(f'"{c}"' for c in COLUMNS if c != "seq")
        self.change(folder, (f"INSERT INTO audit(seq,{columns}) SELECT {last + 1},{columns} FROM audit WHERE seq=2", ()))
        self.found(folder, last + 1)

    def test_hash_recomputed(self):
        """B155: a changed row whose hash was made to look right by itself breaks at that row or the next."""
        folder = self.copy()
        self.change(folder, ("UPDATE audit SET body='{}', hash=? WHERE seq=3", (hashlib.sha256(b"x").digest(),)))
        self.found(folder, 3)

    def test_rewritten_chain(self):
        """B155: every hash behind a change recomputed: the anchor tells; not when it was rewritten as well (stated)."""
        folder = self.copy()
        rewrite(folder, lambda row: None)
        self.assertEqual(self.verify(folder)[0], 0, "this test computes the hashes that the service computes")
        rewrite(folder, lambda row: row["seq"] == 4 and row.update(decision="allow", body="{}"), from_seq=4)
        code, body = self.verify(folder)
        self.assertEqual((code, body["bad_seq"]), (1, len(self.rows)), body)
        rewrite(folder, lambda row: None, with_anchor=True)
        self.assertEqual(self.verify(folder)[0], 0, "the chain has no key")
        self.assertNotEqual(self.verify(folder)[1]["last_hash"], self.rows[-1]["hash"].hex())

    def test_anchor(self):
        """contract 10: an anchor that is missing, damaged, of another record or ahead of the rows is not believed."""
        anchor = read_anchor(self.s.state)
        self.assertEqual(anchor["count"], len(self.rows))
        for change in ({"count": anchor["count"] + 1}, {"hash": "0" * 64}, {"gateway": "gw_other"}, None):
            folder = self.copy()
            with open(os.path.join(folder, "audit.anchor"), "w") as f:
                f.write("garbage" if change is None else json.dumps({**anchor, **change}))
            with self.subTest(change=change):
                done = self.run_verify(folder)
                self.assertEqual(done.returncode, 1, done)
                self.assertIn("anchor" if change is None else "BROKEN", done.stdout + done.stderr)
        folder = self.copy()
        os.unlink(os.path.join(folder, "audit.anchor"))
        done = self.run_verify(folder)
        self.assertEqual(done.returncode, 1, done)

    def test_service_says_so(self):
        """B155, B159: a service on a changed record denies everything, names the row, and touches nothing."""
        folder = self.copy()
        self.change(folder, ("UPDATE audit SET decision='allow' WHERE seq=?", (len(self.rows),)))
        with open(os.path.join(folder, "store.db"), "rb") as f:
            before = hashlib.sha256(f.read()).digest()
        s = Service(root=self.s.root, state=folder)
        s.log_path = folder + ".log"
        s.start()
        try:
            ready = s.call("GET", "/readyz", token="approver")
            self.assertEqual((ready.status, ready.json["store"]["damaged"]), (503, True), ready)
            self.assertIn(f"row {len(self.rows)}", ready.json["detail"])
            reply = s.call("POST", "/v1/sessions", {"agent": "a", "working_dir": s.project})
            self.assertEqual(reply.status, 503, reply)
            found = s.call("GET", "/v1/audit/verify", token="approver")
            self.assertEqual((found.status, found.json["bad_seq"]), (200, len(self.rows)), found)
            self.assertEqual(s.cli("audit", "verify").returncode, 1)
            self.assertEqual(s.cli("doctor").returncode, 1)
        finally:
            self.assertEqual(s.stop(), 0)
        with open(os.path.join(folder, "store.db"), "rb") as f:
            self.assertEqual(hashlib.sha256(f.read()).digest(), before)


class AuditRetention(unittest.TestCase):
    def test_pruned_prefix(self):
        """contract 10: old rows go as a whole prefix behind a chained `pruned` row; the rest verifies and goes on."""
        s = Service(config={"audit": {"retain_days": 2}})
        self.addCleanup(close_checked, s)
        s.start()
        session = s.session()
        ids = [s.decide(session, "read_file", "read", {"path": f"f{i}"}).json["id"] for i in range(9)]
        self.assertEqual(s.stop(), 0)

        def age(row):
            # Rows 1 to 5 are old, 6 is young, 7 is old again: the prefix ends before 6.
            row["at_ms"] -= 3 * 86400 * 1000 if row["seq"] in (1, 2, 3, 4, 5, 7) else 0
        rewrite(s.state, age, with_anchor=True)
        s.start()
        pruned = until(lambda: s.audit(kind="pruned"), "the pruned row")
        self.assertEqual(len(pruned), 1, pruned)
        self.assertEqual((pruned[0]["seq"], pruned[0]["body"]["through_seq"], pruned[0]["body"]["rows"]), (11, 5, 5))
        self.assertEqual([r["ref"] for r in s.audit(kind="decision", order="oldest")], ids[4:])
        found = get(s, "/v1/audit/verify").json
        self.assertEqual((found["ok"], found["first_seq"], found["last_seq"]), (True, 6, 11), found)
        self.assertEqual(s.decide(session, "read_file", "read", {"path": "on"}).status, 200)
        self.assertEqual(s.stop(), 0)
        self.assertEqual(s.cli("audit", "verify").returncode, 0)
        rewrite_is_found = os.path.join(s.root, "copy")
        shutil.copytree(s.state, rewrite_is_found)
        db = sqlite3.connect(rewrite_is_found + "/store.db")
        with db:
            db.execute("DELETE FROM audit WHERE seq=6")
        db.close()
        done = subprocess.run([gh.BIN, "audit", "verify", "--state-dir", rewrite_is_found], env=s.env(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1, "a prefix that no pruned row accounts for")

    def test_young_rows_stay(self):
        """contract 10: rows within retain_days stay, and with 0 all of them."""
        for days in (0, 1):
            s = Service(config={"audit": {"retain_days": days}})
            self.addCleanup(close_checked, s)
            s.start()
            session = s.session()
            s.decide(session, "read_file", "read", {"path": "f"})
            self.assertEqual(s.stop(), 0)
            if days == 0:
                rewrite(s.state, lambda row: row.update(at_ms=row["at_ms"] - 10 ** 11), with_anchor=True)
            s.start()
            s.decide(session, "read_file", "read", {"path": "g"})
            self.assertEqual([r["seq"] for r in s.audit(order="oldest")], [1, 2, 3])
            self.assertEqual(s.stop(), 0)
