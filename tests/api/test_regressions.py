"""Faults that were found once and must not come back: tickets, modes, tokens, cards, limits."""

import json
import os
import signal
import socket
import time
import unittest

from gh import Case, Held, Service, close_checked, is_sanitized, save, until
from raw import Talk, read_all
from test_events import Stream


def write_part(path, new=None):
    part = {"action": "write", "target": {"path": path}}
    return part if new is None else {**part, "diff": {"new": new}}


class RegressionCase(Case):
    def ask(self, session, token="agent", headers=None, **body):
        return self.s.call("POST", f"/v1/sessions/{session}/decisions", body, token=token, headers=headers)

    def mode_of(self, session):
        return self.s.call("GET", "/v1/sessions/" + session).json["mode"]

    def tickets(self, session):
        items = self.s.call("GET", f"/v1/sessions/{session}/grants").json["items"]
        return [grant for grant in items if grant["once"]]

    def resident_mib(self):
        with open(f"/proc/{self.s.process.pid}/status") as f:
            return next(int(line.split()[1]) >> 10 for line in f if line.startswith("VmRSS"))

    def refused(self, reply, status, code):
        self.assertEqual((reply.status, reply.json["code"]), (status, code), reply)

    def waited(self, answer, decision, code, by):
        """What the decision is once it is settled."""
        settled = self.decision_of(answer).json
        self.assertEqual((settled["decision"], settled["code"], settled["by"]), (decision, code, by), settled)
        return settled


class Tickets(RegressionCase):
    def test_parts_use_it_once(self):
        """A one-shot ticket for a call of several parts, one of them always allowed, serves one call (contract 5)"""
        session = self.open()
        self.grant(session, "write_file", "write", {"path": "a"}, diff={"new": "x"})
        call = {"tool": "write_file", "parts": [write_part("a", "x"), write_part("b", "y")],
                "deadline_s": 1, "on_deadline": "ticket"}
        first = self.ask(session, wait_s=30, **call)
        approval = self.denied(first, "ticket", by="timeout")["approval"]
        self.assertEqual(self.settle(approval)["state"], "allowed")
        self.assertEqual(len(self.tickets(session)), 1)
        self.allowed(self.ask(session, **call), "approved", by="grant")
        self.assertEqual(self.tickets(session), [])
        for _ in range(3):
            self.asked(self.ask(session, **call))

    def test_extend_leaves_the_deadline(self):
        """Extending the approval never moves the caller's own deadline (contract 5 and 6)"""
        session = self.open(ask_timeout_s=3)  # it would end before the deadline
        answer = self.s.write(session, "a", deadline_s=5, on_deadline="ticket").json
        path = f"/v1/approvals/{answer['approval']}/extend"
        extended = self.s.call("POST", path, {"seconds": 300}, token="approver")
        self.assertEqual(extended.status, 200, extended)
        self.waited(answer, "deny", "ticket", "timeout")
        card = self.s.approval(answer["approval"])
        self.assertEqual((card["state"], card["caller"]), ("pending", "gone"))
        self.assertGreater(card["remaining_ms"], 60000)
        self.assertEqual(self.settle(answer["approval"])["state"], "allowed")
        self.waited(answer, "deny", "ticket", "timeout")
        self.assertEqual([g["hits"] for g in self.tickets(session)], [0])


class PlanRelease(RegressionCase):
    """An approver put the folder's last session in plan; only an approver releases it (contract 3)."""

    def setUp(self):
        self.other = self.open()
        bound = self.open(working_dir=self.w)
        self.assertEqual(self.patch(bound, mode="plan").json["mode"], "plan")

    def newest(self):
        return self.mode_of(self.open(working_dir=self.w))

    def test_agents_own_plan(self):
        """An agent that tightens another session of the folder releases nothing"""
        self.assertEqual(self.newest(), "plan")
        self.assertEqual(self.patch(self.other, token="agent", mode="plan").status, 200)
        self.assertEqual(self.newest(), "plan")

    def test_agents_title(self):
        """An agent that renames another session of the folder releases nothing"""
        self.assertEqual(self.patch(self.other, token="agent", title="z").json["mode"], "act")
        self.assertEqual(self.newest(), "plan")

    def test_agents_end(self):
        """Sessions of the folder that end release nothing"""
        self.assertEqual(self.s.call("DELETE", "/v1/sessions/" + self.other).status, 200)
        self.assertEqual(self.newest(), "plan")

    def test_an_approver_releases(self):
        """An approver that takes a session out of plan releases its folder"""
        session = self.open(working_dir=self.w)
        self.assertEqual(self.mode_of(session), "plan")
        self.assertEqual(self.patch(session, mode="act").json["mode"], "act")
        self.assertEqual(self.newest(), "act")


class TaintOfAFolder(RegressionCase):
    def is_tainted(self, session):
        return self.s.call("GET", "/v1/sessions/" + session).json["tainted"]

    def test_another_session_keeps_it(self):
        """Clearing one session's taint leaves that of another in the folder, and what it hands on (contract 3)"""
        first = self.open()
        second = self.open(working_dir=self.w)
        for session in (first, second):
            self.taint(session)
        clear = self.s.call("DELETE", f"/v1/sessions/{first}/taint", token="approver")
        self.assertEqual(clear.status, 204, clear)
        self.assertEqual((self.is_tainted(first), self.is_tainted(second)), (False, True))
        third = self.open(working_dir=self.w)
        self.assertTrue(self.is_tainted(third))
        for session in (second, third):
            self.s.call("DELETE", f"/v1/sessions/{session}/taint", token="approver")
        self.assertFalse(self.is_tainted(self.open(working_dir=self.w)))


class RevokedTokens(RegressionCase):
    """A request whose body comes after its token was revoked is refused as if it came whole then (contract 2)."""

    def begin(self, token, method, path, body, *fields):
        """The head alone; the body is sent by finish()."""
        sock = socket.create_connection((self.s.host, self.s.port), 60)
        self.addCleanup(sock.close)
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Authorization: Bearer " + token,
                 "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close", *fields]
        sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + body[:1])
        return sock, body[1:]

    def finish(self, begun):
        sock, rest = begun
        sock.sendall(rest)
        answer = Talk(*read_all(sock))
        self.assertEqual((answer.status, json.loads(answer.final[0].body)["code"]), (401, "unauthorized"), answer)

    def revoke(self, name, secret):
        self.assertEqual(self.s.call("GET", "/v1/status", token=secret).status, 200)
        self.assertEqual(self.s.cli("token", "revoke", name).returncode, 0)
        until(lambda: all(t["revoked_at"] for t in self.s.tokens() if t["name"] == name), "it is revoked")
        until(lambda: self.s.call("GET", "/v1/status", token=secret).status == 401, "it is refused")

    def test_an_approver(self):
        """An allow on its way does not settle, and a stream on its way does not open"""
        boss = self.s.add_token("boss", "approver")
        answer = self.s.write(self.open(), "a").json
        path = f"/v1/approvals/{answer['approval']}/decision"
        match = f'If-Match: "{self.s.approval(answer["approval"])["digest"]}"'
        put = self.begin(boss, "PUT", path, b'{"decision":"allow"}', match)
        stream = self.begin(boss, "GET", "/v1/events", b"{}", "Accept: text/event-stream")
        poll = self.begin(boss, "GET", "/v1/events?wait_s=60", b"{}", "Accept: application/json")
        self.revoke("boss", boss)
        for begun in (put, stream, poll):
            self.finish(begun)
        card = self.s.approval(answer["approval"])
        self.assertEqual((card["state"], card["settled_by"]), ("pending", None))

    def test_an_agent(self):
        """Neither a decision nor one that would be held is made, and nothing is asked or recorded for it"""
        guest = self.s.add_token("guest", "agent")
        session = self.open(token=guest)
        path = f"/v1/sessions/{session}/decisions"
        read = {"tool": "read_file", "action": "read", "target": {"path": "a"}}
        held = {"tool": "write_file", **write_part("b"), "wait_s": 60}
        begun = [self.begin(guest, "POST", path, json.dumps(body).encode()) for body in (read, held)]
        self.revoke("guest", guest)
        for one in begun:
            self.finish(one)
        self.assertEqual(self.pending_of(session), [])
        self.assertEqual([r for r in self.s.audit(session=session) if r["kind"] == "decision"], [])

    def test_a_held_one(self):
        """What a token holds when it is revoked is answered 401 at once"""
        late = self.s.add_token("late", "agent")
        session = self.open(token=late)
        held = Held(self.s.write, session, "b", token=late, wait_s=100)
        until(lambda: self.pending_of(session), "it is held")
        self.assertEqual(self.s.cli("token", "revoke", "late").returncode, 0)
        self.refused(held.result(), 401, "unauthorized")


class Reloads(RegressionCase):
    CONFIG = {"listen": {"allowed_hosts": ["box.test"]}}

    def setUp(self):
        self.reload(self.CONFIG)

    def reload(self, config):
        n = self.s.log().count("reloaded")
        self.s.write_config(config)
        self.s.process.send_signal(signal.SIGHUP)
        until(lambda: self.s.log().count("reloaded") > n, "it is reloaded")

    def test_a_folder_it_refuses(self):
        """A reload whose deny list refuses a session's folder ends the session (contract 3)"""
        kept = self.open()
        session = self.open()
        answer = self.s.write(session, "a").json
        self.reload({"permissions": {"deny_paths": [self.w]}})
        self.waited(answer, "deny", "cancelled", "system")
        self.assertEqual(self.s.approval(answer["approval"])["state"], "cancelled")
        self.assertEqual(self.s.call("GET", "/v1/sessions/" + session).json["state"], "ended")
        self.assertEqual(self.s.call("GET", "/v1/sessions/" + kept).json["state"], "active")
        self.refused(self.s.decide(session, "read_file", "read", {"path": "a"}), 409, "conflict")
        self.refused(self.patch(session, mode="act"), 409, "conflict")
        body = {"agent": "test", "working_dir": self.w}
        self.refused(self.s.call("POST", "/v1/sessions", body), 422, "working_dir_refused")
        rows = [(r["kind"], r["code"]) for r in self.s.audit(session=session)]
        self.assertEqual(rows.count(("session", "ended")), 1, rows)

    def test_allowed_hosts(self):
        """A reload takes the host names that are allowed, and takes them away (contract 2)"""
        def status(host):
            return self.s.call("GET", "/v1/status", headers={"Host": host}).status

        self.assertEqual((status("box.test"), status("new.test")), (200, 403))
        self.reload({"listen": {"allowed_hosts": ["new.test"]}})
        self.assertEqual((status("box.test"), status("new.test")), (403, 200))
        found = self.s.call("GET", "/v1/config", token="approver").json["config"]["listen"]["allowed_hosts"]
        self.assertEqual(found, ["new.test"])
        self.reload({})
        self.assertEqual((status("new.test"), status("localhost")), (403, 200))


class Operands(RegressionCase):
    """What a command names is what a person saw, or it is denied (contract 6, digest)."""

    def changed(self, change, *call, **fields):
        """Ask, change, allow: the person's answer stands, the call is Deny."""
        session = self.open(working_dir=self.w)
        answer = self.s.decide(session, *call, **fields)
        approval = self.asked(answer)
        change()
        card = self.settle(approval)
        self.assertEqual((card["state"], card["settled_by"]), ("allowed", "approver"), card)
        return self.waited(answer.json, "deny", "operand_changed", "system")

    def command(self, change, program, *args, **target):
        target = {"program": program, "args": list(args), **target}
        return self.changed(change, "run_command", "execute", target)

    def relink(self, name, target):
        if os.path.lexists(self.at(name)):
            os.unlink(self.at(name))
        os.symlink(target, self.at(name))

    def setUp(self):
        self.w = self.folder()

    def test_program(self):
        """B024: a link that is the program leads to another one"""
        self.relink("tool", "/usr/bin/true")
        self.command(lambda: self.relink("tool", "/usr/bin/env"), "./tool")

    def test_link_that_leads_outside(self):
        """B024: a link among the words leads to another file, whose content is not hashed"""
        out = self.folder()
        for name in ("a.sh", "b.sh"):
            save(os.path.join(out, name), "same\n")
        self.relink("l.sh", os.path.join(out, "a.sh"))
        self.command(lambda: self.relink("l.sh", os.path.join(out, "b.sh")), "sh", "l.sh")

    def test_content(self):
        """B024: a script's content changes, however it is spelt"""
        for i, word in enumerate(("s.sh", "./s.sh", self.at("s.sh"))):
            save(self.at("s.sh"), "echo good\n")
            self.command(lambda: save(self.at("s.sh"), f"echo {i}\n"), "sh", word)

    def test_appears_or_goes(self):
        """B024: a word that names no file names one at the allow, or the other way round"""
        self.command(lambda: save(self.at("m.sh"), "x"), "sh", "m.sh")
        self.command(lambda: os.unlink(self.at("m.sh")), "sh", "m.sh")

    def test_folder(self):
        """B024: the folder it would run in is another one, with the same files"""
        for name in ("one", "two"):
            save(self.at(name, "s.sh"), "same\n")
        self.relink("cw", "one")
        self.command(lambda: self.relink("cw", "two"), "sh", "s.sh", cwd="cw")

    def test_edited_file(self):
        """B024: a file that was edited after its diff was shown is not overwritten"""
        save(self.at("t.txt"), "old\n")
        self.changed(lambda: save(self.at("t.txt"), "a person's own edit\n"), "write_file", "write",
                     {"path": "t.txt"}, diff={"new": "new\n"})

    def test_folder_of_a_write(self):
        """B024: a link on the way of a write leads elsewhere"""
        for name in ("one", "two"):
            os.makedirs(self.at(name))
        self.relink("pl", "one")
        self.changed(lambda: self.relink("pl", "two"), "write_file", "write", {"path": "pl/x"})

    def test_what_the_gate_refuses_now(self):
        """What the gate refuses at the allow is cancelled with the refusing tier's code: 409 (contract 6)"""
        os.makedirs(self.at("one"))
        os.makedirs(self.at(".git"))
        os.makedirs(self.at("mv"))
        session = self.open(working_dir=self.w)
        self.relink("pl", "one")
        into_git = self.s.write(session, "pl/x").json
        with_env = self.s.decide(session, "move_file", "move", {"from": "mv", "to": "mv2"}).json
        self.relink("pl", ".git")
        save(self.at("mv", ".env"))
        for answer, code in ((into_git, "git_metadata"), (with_env, "deny_path")):
            self.refused(self.s.answer(answer["approval"], "allow"), 409, "already_settled")
            self.waited(answer, "deny", code, "system")
            self.assertEqual(self.s.approval(answer["approval"])["state"], "cancelled")

    def test_unchanged(self):
        """Nothing changed: the allow is an allow"""
        save(self.at("s.sh"), "echo good\n")
        self.relink("l.sh", "s.sh")
        session = self.open(working_dir=self.w)
        for call in (("sh", "l.sh"), ("sh", "./s.sh"), ("./s.sh",)):
            answer = self.s.run(session, *call)
            self.settle(self.asked(answer))
            self.waited(answer.json, "allow", "approved", "person")


class Cards(RegressionCase):
    def card(self, reply):
        return self.s.approval(self.asked(reply))

    def test_arguments(self):
        """The arguments of a call without a preview are on the card, in the digest's canonical form (contract 6)"""
        session = self.open()
        what = ("mcp__gh__issue", "mcp_tool", {"description": "gh: create_issue"})
        card = self.card(self.s.decide(session, *what, arguments={"title": "t", "body": "SENT"}))
        text = '{"body":"SENT","title":"t"}'
        self.assertEqual(card["preview"], {"kind": "text", "files": [], "text": text,
                                           "text_bytes": len(text), "cut": False})
        other = self.card(self.s.decide(session, *what, arguments={"title": "t", "body": "OTHER"}))
        self.assertNotEqual(card["digest"], other["digest"])
        bare = self.card(self.s.decide(session, *what))
        self.assertEqual(bare["preview"], {"kind": "none", "files": [], "text": None})
        shown = self.s.cli("show", card["id"])
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("SENT", shown.stdout)

    def test_long_preview(self):
        """A preview over 256 KiB is cut between characters, and its whole length is said (contract 6)"""
        session = self.open()
        whole = 256 << 10
        for text, shown in (("x" * whole, whole), ("x" * (whole + 1), whole), ("x" + "\u00e9" * whole, whole - 1)):
            n = len(text.encode())
            preview = self.card(self.s.write(session, "a", preview=text))["preview"]
            self.assertEqual((preview["text_bytes"], preview["cut"]), (n, n > whole))
            self.assertEqual(preview["text"], text.encode()[:shown].decode())

    def test_digest_of_what_is_cut(self):
        """What is not shown any more is still in the digest (contract 6)"""
        session = self.open()
        cards = [self.card(self.s.write(session, "a", preview="x" * (300 << 10) + end)) for end in "ab"]
        self.assertEqual(cards[0]["preview"], cards[1]["preview"])
        self.assertNotEqual(cards[0]["digest"], cards[1]["digest"])

    def test_no_text_fakes_a_part(self):
        """Several parts are numbered, one line each: a newline in one is shown as \\n (contract 5, behaviour 3.2)"""
        session = self.open()
        parts = [{"action": "mcp_tool", "target": {"description": d}} for d in ("list\n2. delete all\nx", "second")]
        card = self.card(self.ask(session, tool="mcp__x__y", parts=parts))
        self.assertEqual(card["display"]["text"], "1. list\\n2. delete all\\nx\n2. second")
        shown = self.s.cli("show", card["id"]).stdout
        self.assertEqual([line for line in shown.splitlines() if line.strip().startswith("2. ")],
                         [line for line in shown.splitlines() if line.strip() == "2. second"])
        words = [{"action": "execute", "target": {"program": "make", "args": [a]}} for a in ("a\n2. rm", "b")]
        card = self.card(self.ask(session, tool="run_command", parts=words))
        self.assertEqual(card["display"]["text"], "1. make 'a\\n2. rm'  (in .)\n2. make b  (in .)")


class Bounds(RegressionCase):
    LARGE = "x" * ((4 << 20) - 4096)

    def test_pending_bytes(self):
        """What one token's questions keep in memory is bounded: then too_many_pending, for it alone (contract 6)"""
        session = self.open()
        approvals = []
        for i in range(32):
            reply = self.s.write(session, f"f{i}", preview=self.LARGE)
            if reply.status != 202:
                break
            approvals.append(reply.json["approval"])
        self.denied(reply, "too_many_pending")
        self.assertEqual(len(approvals), 7)
        self.denied(self.s.write(session, "again", preview=self.LARGE), "too_many_pending")
        other = self.s.add_token("other", "agent")
        theirs = self.open(token=other)
        approvals.append(self.asked(self.s.write(theirs, "f", token=other, preview=self.LARGE)))
        self.assertEqual(self.s.call("DELETE", "/v1/approvals/" + approvals[0]).status, 200)
        approvals.append(self.asked(self.s.write(session, "again", preview=self.LARGE)))
        self.assertEqual({a["id"] for a in self.s.pending()}, set(approvals[1:]))

    @unittest.skipIf(is_sanitized(), "memory figures mean nothing with a sanitizer")
    def test_settled_bytes(self):
        """What is settled does not pile up in memory, and is still found (contract 6)"""
        token = self.s.add_token("many", "agent")
        session = self.open(token=token)
        new = "\n".join("y" * 2000 for _ in range(1000))
        ids, before = [], 0
        for i in range(18):
            reply = self.ask(session, token, tool="write_file", **write_part(f"f{i}", new))
            ids.append(self.asked(reply))
            self.assertEqual(self.s.call("DELETE", "/v1/approvals/" + ids[-1], token=token).status, 200)
            before = self.resident_mib() if i == 5 else before
        self.assertLess(self.resident_mib() - before, 24, "MiB for a dozen more of 2 MiB and more each")
        for approval in ids:
            self.assertEqual(self.s.approval(approval)["state"], "cancelled")


class Replay(RegressionCase):
    def test_too_much_is_one_resync(self):
        """A replay that is more than a stream may keep is one resync, and the stream goes on (contract 10)"""
        stream = Stream(self.s, self.s.approver)
        first = stream.next()[0]
        stream.close()
        session = self.open(title="t" * 1000)
        connection = self.s.connection()
        self.addCleanup(connection.close)
        for i in range(700):
            reply = self.s.on(connection, "PATCH", "/v1/sessions/" + session, {"title": f"{i}" + "\u00e9" * 500})
            self.assertEqual(reply.status, 200)
        for _ in range(3):
            again = Stream(self.s, self.s.approver, last_id=first)
            id, kind, data = again.next()
            self.assertEqual((kind, data), ("resync", {}))
            self.patch(session, title="next")
            self.assertEqual([e[2]["title"] for e in again.until("session.updated")], ["next"])
            again.close()
        some = Stream(self.s, self.s.approver, last_id=f"{id.rpartition('-')[0]}-{int(id.rpartition('-')[2]) - 20}")
        self.assertEqual(some.next()[1], "session.updated")
        some.close()
        before = self.resident_mib()
        for _ in range(50):  # nobody reads them
            unread = Stream(self.s, self.s.approver, last_id=first)
            self.addCleanup(unread.close)
        if not is_sanitized():
            self.assertLess(self.resident_mib() - before, 16, "MiB for fifty streams")

    def test_deny_list_is_in_no_event(self):
        """A session's deny list may be long: no event carries it, the session does (contract 10)"""
        stream = Stream(self.s, self.s.approver)
        self.addCleanup(stream.close)
        entries = [f"x{i:04}/" + "a" * 200 for i in range(500)]
        session = self.open(deny_paths=entries)
        events = stream.until("session.opened", id=session)
        self.assertLess(len(json.dumps(events[-1][2])), 4096)
        self.assertEqual(len(self.s.call("GET", "/v1/sessions/" + session).json["deny_paths"]), len(entries))


class LateAllow(RegressionCase):
    def test_end_during_the_look(self):
        """An approval whose time ends while an allow still looks at the files is expired: 410 (contract 6)"""
        self.w = self.folder()
        for i in range(120):
            with open(self.at(str(i)), "wb") as f:
                f.truncate(1 << 20)
        session = self.open(working_dir=self.w, ask_timeout_s=4)
        call = ("cat", *[str(i) for i in range(120)])
        self.asked(self.s.run(session, *call))
        begun = time.monotonic()
        answer = self.s.run(session, *call).json
        look_s = time.monotonic() - begun
        card = self.s.approval(answer["approval"])
        # It would have to be five times as quick as a moment ago to be done before the end.
        time.sleep(max(0, card["remaining_ms"] / 1000 - look_s / 5))
        self.refused(self.s.answer(answer["approval"], "allow", card["digest"]), 410, "expired")
        settled = self.waited(answer, "deny", "expired", "timeout")
        self.assertEqual(self.s.approval(answer["approval"])["state"], "expired")
        self.assertGreaterEqual(settled["settled_at"], card["expires_at"][:-5])


class Small(RegressionCase):
    def test_body_limits(self):
        """Calls, texts and outcomes take the configured body, settings and answers 256 KiB: else 413 (contract 1)"""
        session = self.open()
        approval = self.asked(self.s.write(session, "a"))
        small = 256 << 10
        for method, path, token in (("PATCH", f"/v1/sessions/{session}", "agent"),
                                    ("PUT", f"/v1/approvals/{approval}/decision", "approver"),
                                    ("POST", f"/v1/approvals/{approval}/extend", "approver"),
                                    ("PUT", f"/v1/sessions/{session}/tools/x", "agent"),
                                    ("POST", "/v1/login/codes", "approver")):
            self.refused(self.s.call(method, path, raw=b" " * (small + 1), token=token), 413, "body_too_large")
            self.assertEqual(self.s.call(method, path, raw=b" " * small, token=token).status, 400, path)
        for path in (f"/v1/sessions/{session}/decisions", "/v1/sessions", f"/v1/sessions/{session}/scan"):
            self.assertEqual(self.s.call("POST", path, raw=b" " * (small + 1)).status, 400, path)
            self.refused(self.s.call("POST", path, raw=b" " * ((4 << 20) + 1)), 413, "body_too_large")

    def test_methods(self):
        """A method that a path does not take is 405 with Allow, whoever may use the others (contract 1)"""
        for token in ("agent", "approver"):
            reply = self.s.call("PUT", "/v1/sessions", {}, token=token)
            self.refused(reply, 405, "method_not_allowed")
            self.assertEqual(reply.headers["Allow"], "GET, HEAD, POST")

    def test_metrics_role(self):
        """The role metrics reads /metrics and nothing else: 403 (contract 2)"""
        token = self.s.add_token("scraper", "metrics")
        self.assertEqual(self.s.call("GET", "/metrics", token=token).status, 200)
        for path in ("/readyz", "/openapi.json", "/openapi.yaml", "/v1/status", "/v1/sessions", "/v1/tokens"):
            self.refused(self.s.call("GET", path, token=token), 403, "forbidden")


class StalledExport(unittest.TestCase):
    def test_sigterm(self):
        """B078: an export that nobody reads does not hold up the end of the service"""
        s = Service().start()
        self.addCleanup(close_checked, s)
        session = s.session()
        parts = [{"action": "read", "target": {"path": f"{i}/" + "/".join(["x" * 200] * 15)}} for i in range(256)]
        for _ in range(10):
            reply = s.call("POST", f"/v1/sessions/{session}/decisions", {"tool": "read_file", "parts": parts})
            self.assertEqual((reply.status, reply.json["decision"]), (200, "allow"))
        sock = socket.socket()
        self.addCleanup(sock.close)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(60)
        sock.connect((s.host, s.port))
        sock.sendall("GET /v1/audit/export HTTP/1.1\r\nHost: localhost\r\n"
                     f"Authorization: Bearer {s.approver}\r\n\r\n".encode())
        self.assertEqual(sock.recv(15), b"HTTP/1.1 200 OK")
        time.sleep(0.5)  # far more than it takes to fill what is kept for a reader
        process, begun = s.process, time.monotonic()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 0)
        self.assertLess(time.monotonic() - begun, 20, "3 s for what is under way, 3 s for connections, and room")


if __name__ == "__main__":
    unittest.main()
