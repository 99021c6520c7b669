"""Decisions that wait for a person, and the approvals they become: contract 5 and 6."""

import os
import re
import time
import unittest

from gh import Case, Held, Reply, git, save, until

ALONE = {"autonomous": {"allowed_agents": ["agent"]},
         "permissions": {"allowed_commands": [{"name": "t", "program": "id"}]}}


class Scenarios(Case):
    def test_nothing_answers(self):
        """S48: whatever keeps an answer from coming is a deny: gone, cancelled, unknown word, ended"""
        session = self.open()
        connection = self.s.connection()
        secret = {"Authorization": "Bearer " + self.s.agent, "Content-Type": "application/json"}
        connection.request("POST", f"/v1/sessions/{session}/decisions",
                           b'{"tool":"write_file","action":"write","target":{"path":"gone"},"wait_s":100}', secret)
        gone = until(lambda: self.pending_of(session), "it waits")[0]
        until(lambda: self.s.approval(gone["id"])["caller"] == "waiting", "it is held")
        connection.close()

        asked = self.s.write(session, "cancelled").json
        held = Held(self.decision_of, asked)
        self.assertEqual(self.s.call("DELETE", "/v1/approvals/" + asked["approval"]).json["state"], "cancelled")
        self.denied(held.result(), "cancelled", "ask", "system")

        asked = self.s.write(session, "unknown word").json
        for word in ("yes", "ALLOW", "", None, 1, "reject_always", "allow "):
            self.assertIn(self.s.answer(asked["approval"], word).status, (400, 422), word)
        self.assertEqual(self.s.approval(asked["approval"])["state"], "pending")

        until(lambda: self.s.approval(gone["id"])["caller"] in ("gone",), "seen to be gone")
        until(lambda: self.s.approval(gone["id"])["state"] == "cancelled", "given up", 60)
        card = self.s.approval(gone["id"])
        self.assertEqual((card["code"], card["by"], card["settled_by"]), ("agent_gone", "system", None))
        self.s.call("DELETE", "/v1/sessions/" + session)
        self.denied(self.decision_of(asked), "cancelled")

    def test_race(self):
        """S49: of many answers at once exactly one wins, and everybody is told which"""
        for round in range(5):
            session = self.open()
            asked = self.s.write(session, "a").json
            digest = self.s.approval(asked["approval"])["digest"]
            words = ["allow", "deny"] * 10
            many = [Held(self.s.answer, asked["approval"], w, digest) for w in words]
            replies = [m.result() for m in many]
            state = self.s.approval(asked["approval"])["state"]
            won = {"allowed": "allow", "denied": "deny"}[state]
            for word, reply in zip(words, replies):
                self.assertEqual(reply.status, 200 if word == won else 409, (state, word, reply))
                if reply.status == 409:
                    self.assertEqual(reply.json["code"], "already_settled")
                    self.assertIn(state, reply.json["detail"])
                    self.assertIn("approver", reply.json["detail"])
            answer = self.decision_of(asked).json
            self.assertEqual((answer["decision"], answer["by"]), (won, "person"))
            rows = [r for r in self.s.audit(session=session) if r["kind"] == "approval" and r["code"] != "late"]
            self.assertEqual(len(rows), 1, rows)

    def test_wrong_ids(self):
        """S50: an answer to another id, with another digest or in broken JSON is ignored"""
        session = self.open()
        one, two = (self.s.write(session, p).json["approval"] for p in ("a", "b"))
        digest = self.s.approval(two)["digest"]
        self.assertEqual(self.s.answer("apr_" + "0" * 32, "allow", digest).status, 404)
        self.assertEqual(self.s.answer("nonsense", "allow", digest).status, 404)
        self.assertEqual(self.s.answer(one, "allow", digest).status, 412)
        path = f"/v1/approvals/{one}/decision"
        match = {"If-Match": f'"{self.s.approval(one)["digest"]}"'}
        for raw in (b'{"decision":"allow"', b"[]", b"", b'{"decision":"allow"} x', b"\xff",
                    b'{"decision":"allow","decision":"deny"}', b'{"decision":"allow","schema":2}'):
            reply = self.s.call("PUT", path, token="approver", raw=raw, headers=match)
            self.assertIn(reply.status, (400, 422), (raw, reply))
        for id in (one, two):
            self.assertEqual(self.s.approval(id)["state"], "pending")

    def test_binary(self):
        """S51: a write without a text diff is asked like any other, with no preview"""
        session = self.open()
        with open(self.at("x.bin"), "wb") as f:
            f.write(b"\x00\xff" * 100)
        card = self.s.approval(self.asked(self.s.write(session, "x.bin")))
        self.assertEqual((card["preview"]["kind"], card["preview"]["files"]), ("none", []))
        card = self.s.approval(self.asked(self.s.decide(session, "delete_file", "delete", {"path": "x.bin"})))
        self.assertTrue(card["preview"]["files"][0]["binary"], card["preview"])

    def test_no_files(self):
        """S52: an ask leaves no file in the project, and garbage there answers nothing"""
        session = self.open()
        asked = self.s.write(session, "a").json
        save(self.at(asked["approval"] + "-response.json"), '{"decision":"allow"}')
        self.assertEqual(self.s.approval(asked["approval"])["state"], "pending")
        self.assertEqual(os.listdir(self.w), [asked["approval"] + "-response.json"])

    def test_newline(self):
        """S53: a second command behind a newline is visible, and a script is one quoted word"""
        session = self.open()
        card = self.s.approval(self.asked(self.s.shell(session, "echo a\nrm b")))
        self.assertEqual(card["display"]["words"], ["sh", "-c", "'echo a\nrm b'"])
        self.assertEqual(card["display"]["text"].split("\n"), ["sh -c 'echo a", "rm b'"])
        card = self.s.approval(self.asked(self.s.run(session, "echo", "a b", "", "x;y", "it's", "plain")))
        words = card["display"]["words"]
        self.assertEqual((words[0], words[1], words[2], words[3], words[5]), ("echo", "'a b'", "''", "'x;y'", "plain"))


class Settling(Case):
    CONFIG = ALONE

    def put(self, approval, body=None, token="approver", raw=None, **headers):
        names = {k.replace("_", "-"): v for k, v in headers.items()}
        return self.s.call("PUT", f"/v1/approvals/{approval}/decision", body, token=token, raw=raw, headers=names)

    def test_order_of_checks(self):
        """404, 400 or 415 or 422 of the body, 428, 412, then the state: 410, 409, 422"""
        session = self.open(ask_timeout_s=1)
        expired = self.s.write(session, "a").json["approval"]
        session = self.open()
        memory = self.s.decide(session, "remember_preference", "memory", {"description": "x"}).json["approval"]
        pending = self.s.write(session, "b").json["approval"]
        denied = self.s.write(session, "c").json["approval"]
        cancelled = self.s.write(session, "d").json["approval"]
        self.settle(denied, "deny")
        self.s.call("DELETE", "/v1/approvals/" + cancelled)
        until(lambda: self.s.approval(expired)["state"] == "expired", "it expires")
        good = {"decision": "allow"}
        self.assertEqual(self.put("apr_" + "0" * 32, {"bad": 1}).status, 404)
        for approval in (expired, pending, denied, cancelled, memory):
            digest = f'"{self.s.approval(approval)["digest"]}"'
            self.assertEqual(self.put(approval, raw=b"x", Content_Type="text/plain").status, 415)
            self.assertEqual(self.put(approval, raw=b"{").status, 400)
            self.assertEqual(self.put(approval, {"decision": "x"}).status, 422)
            self.assertEqual(self.put(approval, {"decision": "x"}, If_Match='"sha256-0"').status, 422)
            self.assertEqual(self.put(approval, good).status, 428)
            for match in ('"sha256-' + "0" * 64 + '"', "*", '""', "W/" + digest, digest[:-2] + '"'):
                self.assertEqual(self.put(approval, good, If_Match=match).status, 412, match)
        match = lambda a: f'"{self.s.approval(a)["digest"]}"'
        self.assertEqual(self.put(expired, good, If_Match=match(expired)).status, 410)
        self.assertEqual(self.put(expired, {"decision": "deny"}, If_Match=match(expired)).status, 410)
        self.assertEqual(self.put(denied, good, If_Match=match(denied)).status, 409)
        self.assertEqual(self.put(cancelled, good, If_Match=match(cancelled)).status, 409)
        reply = self.put(memory, {"decision": "allow_always"}, If_Match=match(memory))
        self.assertEqual((reply.status, reply.json["code"]), (422, "not_offered"))
        self.assertEqual(self.put(pending, good, If_Match=match(pending)).status, 200)

    def test_replay(self):
        """The same answer again is 200 and changes nothing"""
        session = self.open()
        for word in ("allow", "deny", "allow_always"):
            asked = self.s.write(session, "r-" + word).json
            first = self.settle(asked["approval"], word)
            again = self.settle(asked["approval"], word)
            self.assertEqual((first["state"], first["settled_at"]), (again["state"], again["settled_at"]))
        self.assertEqual(len([r for r in self.s.audit(session=session) if r["kind"] == "approval"]), 3)

    def test_settled_card(self):
        """A settled card says what, who, when and by which way"""
        session = self.open()
        asked = self.s.write(session, "a").json
        card = self.settle(asked["approval"], "deny", feedback="use b")
        self.assertEqual((card["state"], card["by"], card["code"], card["settled_by"], card["feedback"], card["via"]),
                         ("denied", "person", "denied_by_person", "approver", "use b", "api"))
        self.assertRegex(card["settled_at"], r"Z$")
        answer = self.denied(self.decision_of(asked), "denied_by_person", "ask", "person")
        self.assertIn("use b", answer["reason"])

    def test_roles(self):
        """Only an approver answers and extends; the owner cancels; a viewer looks"""
        session = self.open()
        asked = self.s.write(session, "a").json["approval"]
        viewer = self.s.add_token("watch", "viewer")
        for token in ("agent", viewer, self.s.add_token("m", "metrics")):
            self.assertEqual(self.s.answer(asked, "deny", self.s.approval(asked)["digest"], token=token).status, 403)
            self.assertEqual(self.s.call("POST", f"/v1/approvals/{asked}/extend", {"seconds": 5}, token=token).status, 403)
        self.assertEqual(self.s.call("DELETE", "/v1/approvals/" + asked, token="approver").status, 403)
        self.assertEqual(self.s.approval(asked, token=viewer)["state"], "pending")
        self.assertEqual(self.s.call("DELETE", "/v1/approvals/" + asked).json["state"], "cancelled")
        self.assertEqual(self.s.call("DELETE", "/v1/approvals/" + asked).json["state"], "cancelled")

    def test_cancel_after_answer(self):
        """What was answered cannot be cancelled"""
        session = self.open()
        asked = self.s.write(session, "a").json["approval"]
        self.settle(asked, "allow")
        self.assertEqual(self.s.call("DELETE", "/v1/approvals/" + asked).status, 409)

    def test_always_once_only_for_all_parts(self):
        """allow_always of parts is offered only if for each, and stores one key a part"""
        session = self.open()
        parts = lambda *paths: self.s.call("POST", f"/v1/sessions/{session}/decisions", {
            "tool": "write_file", "parts": [{"action": "write", "target": {"path": p}} for p in paths]})
        asked = self.asked(parts("a", "b"))
        self.settle(asked, "allow_always")
        for path in ("a", "b"):
            self.allowed(self.s.write(session, path), "granted")
        self.allowed(parts("b", "a"), "granted")
        self.asked(parts("a", "c"))
        card = self.s.approval(self.asked(parts("a", "~/.bashrc")))
        self.assertEqual(card["offered"], ["allow", "deny"])

    def test_identical_asks(self):
        """An allow_always settles identical asks of the session by grant, and no others"""
        session = self.open()
        other = self.open(working_dir=self.w)
        same = [self.s.write(session, "a").json for _ in range(4)]
        different = self.s.write(session, "b").json
        foreign = self.s.write(other, "a").json
        held = [Held(self.decision_of, a) for a in same]
        self.settle(same[0]["approval"], "allow_always")
        answers = [self.allowed(h.result()) for h in held]
        self.assertEqual([a["by"] for a in answers], ["person"] + ["grant"] * 3)
        for one in same[1:]:
            card = self.s.approval(one["approval"])
            self.assertEqual((card["state"], card["by"], card["code"], card["settled_by"]),
                             ("allowed", "grant", "granted", None))
        for one in (different, foreign):
            self.assertEqual(self.s.approval(one["approval"])["state"], "pending")

    def test_feedback(self):
        """Feedback is cut between characters at a bound, and kept as it was"""
        session = self.open()
        asked = self.s.write(session, "a").json
        text = "\u20ac" * 20000
        card = self.settle(asked["approval"], "deny", feedback=text)
        self.assertTrue(text.startswith(card["feedback"]))
        self.assertGreater(len(card["feedback"]), 500)
        self.assertLess(len(card["feedback"]), 20000)
        answer = self.denied(self.decision_of(asked), "denied_by_person")
        self.assertIn(card["feedback"][:100], answer["reason"])
        self.assertIn(self.s.answer(asked["approval"], "deny", feedback=5).status, (400, 422))

    def test_allow_feedback(self):
        """A word with an allow reaches the agent as well"""
        session = self.open()
        asked = self.s.write(session, "a").json
        self.settle(asked["approval"], "allow", feedback="only this once")
        self.assertIn("only this once", self.allowed(self.decision_of(asked), "approved")["reason"])


class Reading(Case):
    CONFIG = ALONE

    def test_card(self):
        """A card shows the whole action: parts, preview, display, narration as unverified text"""
        session = self.open(agent="claude-code")
        save(self.at("a.c"), "one\ntwo\n")
        reply = self.s.decide(session, "edit_file", "write", {"path": "a.c"},
                              diff={"old": "one\ntwo\n", "new": "one\n2\n"}, narration="fixes it",
                              arguments={"b": 1, "a": 2}, preview="a summary")
        card = self.s.approval(self.asked(reply))
        self.assertEqual((card["session"], card["decision"], card["agent"], card["tool"], card["action"]),
                         (session, reply.json["id"], "claude-code", "edit_file", "write"))
        self.assertEqual(card["target"], {"path": self.at("a.c")})
        self.assertEqual(card["parts"], [{"action": "write", "target": {"path": self.at("a.c")}, "warning": None}])
        file = card["preview"]["files"][0]
        self.assertEqual((card["preview"]["kind"], file["path"], file["added"], file["removed"], file["binary"]),
                         ("diff", "a.c", 1, 1, False))
        self.assertTrue(file["hunks"])
        self.assertEqual((card["preview"]["text"], card["narration"]), ("a summary", "fixes it"))
        self.assertEqual(card["display"]["text"], "write a.c")
        self.assertRegex(card["digest"], r"^sha256-[0-9a-f]{64}$")
        self.assertIsNone(card["warning"])
        self.assertTrue(card["why"])
        diff = self.s.call("GET", f"/v1/approvals/{card['id']}/diff", token="approver").json
        self.assertEqual(diff, {"parts": [{"path": self.at("a.c"), "old": "one\ntwo\n", "new": "one\n2\n"}]})

    def test_old_is_read_here(self):
        """The old text is read by the service; a request that says otherwise is marked"""
        session = self.open()
        save(self.at("a"), "true\n")
        card = self.s.approval(self.asked(self.s.write(session, "a", diff={"old": "false\n", "new": "x\n"})))
        self.assertEqual(card["warning"]["code"], "old_differs")
        os.symlink("a", self.at("link"))
        card = self.s.approval(self.asked(self.s.write(session, "link", diff={"old": "true\n", "new": "x\n"})))
        self.assertIsNone(card["warning"])
        self.assertEqual(card["target"], {"path": self.at("a")})

    def test_deleted_link(self):
        """A deleted link is the link itself: its own path, and never the text of what it leads to"""
        session = self.open()
        save(self.at("a"), "true\n")
        os.symlink("a", self.at("link"))
        for path in ("a", "link"):
            reply = self.s.decide(session, "delete_file", "delete", {"path": path})
            card = self.s.approval(self.asked(reply))
            self.assertEqual(card["target"], {"path": self.at(path)})
            self.assertEqual([file["path"] for file in card["preview"]["files"]], ["a"] if path == "a" else [])

    def test_digest(self):
        """The digest moves with what is decided, and not with narration or ids"""
        session = self.open()
        save(self.at("s.sh"), "echo A\n")
        ask = lambda **f: self.s.approval(self.asked(self.s.decide(
            session, "run_command", "execute", {"program": "sh", "args": ["s.sh"]}, **f)))["digest"]
        same = ask()
        self.assertEqual(same, ask(narration="x", response_id="r"))
        self.assertEqual(ask(arguments={"a": 1, "b": 2}), ask(arguments={"b": 2, "a": 1}))
        different = [same, ask(arguments={"a": 1}), ask(arguments={"a": 2}), ask(preview="p")]
        save(self.at("s.sh"), "echo B\n")
        different.append(ask())
        self.assertEqual(len(set(different)), len(different))
        write = lambda **f: self.s.approval(self.asked(self.s.write(session, "a", **f)))["digest"]
        texts = [write(), write(diff={"old": "", "new": "1"}), write(diff={"old": "", "new": "2"})]
        self.assertEqual(len(set(texts)), 3)
        save(self.at("a"), "now there")
        self.assertNotIn(write(diff={"old": "", "new": "1"}), texts)

    def test_long_poll_of_one(self):
        """GET of one with wait_s and If-None-Match: 304 when nothing changed, 200 at the change"""
        session = self.open()
        approval = self.s.write(session, "a").json["approval"]
        path = "/v1/approvals/" + approval
        first = self.s.call("GET", path, token="approver")
        etag = first.headers["ETag"]
        match = {"If-None-Match": etag}
        self.assertNotIn(first.json["digest"], etag)
        self.assertEqual(self.s.call("GET", path, token="approver", headers=match).status, 304)
        reply = self.s.call("GET", path + "?wait_s=0.3", token="approver", headers=match)
        self.assertEqual((reply.status, reply.body), (304, ""))
        held = Held(self.s.call, "GET", path + "?wait_s=100", token="approver", headers=match)
        self.settle(approval, "deny")
        reply = held.result()
        self.assertEqual((reply.status, reply.json["state"], reply.json["digest"]),
                         (200, "denied", first.json["digest"]))
        self.assertNotEqual(reply.headers["ETag"], etag)
        pending = "/v1/approvals/" + self.s.write(session, "b").json["approval"]
        for etag in ('"x"', "garbage", '"' + "0" * 16 + '-r1"', "*"):
            reply = self.s.call("GET", pending + "?wait_s=50", token="approver", headers={"If-None-Match": etag})
            self.assertEqual((reply.status, reply.json["state"]), (200, "pending"), etag)

    def test_long_poll_of_the_list(self):
        """GET of the list likewise; a change elsewhere does not end the wait of one session's list"""
        session = self.open()
        other = self.open()
        path = f"/v1/approvals?state=pending&session={session}"
        first = self.s.call("GET", path, token="approver")
        self.assertEqual(first.json, {"items": [], "next_cursor": None})
        match = {"If-None-Match": first.headers["ETag"]}
        self.assertEqual(self.s.call("GET", path, token="approver", headers=match).status, 304)
        held = Held(self.s.call, "GET", path + "&wait_s=100", token="approver", headers=match)
        self.asked(self.s.write(other, "x"))
        approval = self.asked(self.s.write(session, "a"))
        reply = held.result()
        self.assertEqual((reply.status, [a["id"] for a in reply.json["items"]]), (200, [approval]))
        match = {"If-None-Match": reply.headers["ETag"]}
        self.assertEqual(self.s.call("GET", path + "&wait_s=0.2", token="approver", headers=match).status, 304)
        held = Held(self.s.call, "GET", path + "&wait_s=100", token="approver", headers=match)
        self.settle(approval, "allow")
        self.assertEqual(held.result().json["items"], [])
        for etag in ('"x"', "garbage", '"' + "0" * 16 + '-1"', "*"):
            reply = self.s.call("GET", path + "&wait_s=50", token="approver", headers={"If-None-Match": etag})
            self.assertEqual(reply.status, 200, etag)

    def test_lists(self):
        """Lists by state, in pages; the agent's own only"""
        session = self.open()
        ids = [self.s.write(session, f"l{i}").json["approval"] for i in range(7)]
        self.settle(ids[0], "deny")
        self.settle(ids[1], "allow")
        found, cursor = [], ""
        while cursor is not None:
            page = self.s.call("GET", f"/v1/approvals?state=pending&session={session}&limit=2{cursor}").json
            found += [a["id"] for a in page["items"]]
            cursor = page["next_cursor"] and "&cursor=" + page["next_cursor"]
        self.assertEqual(found, ids[2:])
        settled, cursor = [], ""
        while cursor is not None:
            page = self.s.call("GET", f"/v1/approvals?state=denied,allowed&session={session}&limit=1{cursor}",
                               token="approver").json
            settled += [a["id"] for a in page["items"]]
            cursor = page["next_cursor"] and "&cursor=" + page["next_cursor"]
        self.assertEqual(settled, [ids[1], ids[0]])
        every = self.s.call("GET", f"/v1/approvals?session={session}&limit=1000").json["items"]
        self.assertEqual({a["id"] for a in every}, set(ids))
        for query in ("state=open", "limit=0", "limit=1001", "cursor=x", "wait_s=121", "wait_s=-1", "wait_s=x"):
            self.assertIn(self.s.call("GET", "/v1/approvals?" + query, token="approver").status, (400, 422), query)

    def test_head(self):
        """HEAD and GET change nothing, and HEAD has no body"""
        session = self.open()
        approval = self.s.write(session, "a").json["approval"]
        before = self.s.approval(approval)
        for path in ("/v1/approvals/" + approval, f"/v1/approvals/{approval}/decision", "/v1/approvals",
                     f"/v1/sessions/{session}"):
            self.assertEqual(self.s.call("HEAD", path, token="approver").body, "")
        after = self.s.approval(approval)
        self.assertEqual((before["state"], before["digest"]), (after["state"], after["digest"]))

    def test_callers(self):
        """caller is polling, waiting while held, gone after a break, polling when it comes back"""
        session = self.open()
        asked = self.s.write(session, "a").json
        caller = lambda: self.s.approval(asked["approval"])["caller"]
        self.assertEqual(caller(), "polling")
        connection = self.s.connection()
        path = f"/v1/sessions/{session}/decisions/{asked['id']}"
        connection.request("GET", path + "?wait_s=100", headers={"Authorization": "Bearer " + self.s.agent})
        until(lambda: caller() == "waiting", "held")
        connection.close()
        until(lambda: caller() == "gone", "seen to leave")
        self.assertEqual(self.s.call("GET", path).status, 202)
        self.assertEqual(caller(), "polling")
        time.sleep(11)  # longer than a broken caller has to come back: it came back
        self.assertEqual(self.s.approval(asked["approval"])["state"], "pending")

    def test_watchers_are_no_callers(self):
        """A person who polls and leaves does not make the agent gone"""
        session = self.open()
        asked = self.s.write(session, "a").json
        connection = self.s.connection()
        connection.request("GET", f"/v1/sessions/{session}/decisions/{asked['id']}?wait_s=100",
                           headers={"Authorization": "Bearer " + self.s.approver})
        time.sleep(0.3)
        self.assertEqual(self.s.approval(asked["approval"])["caller"], "polling")
        connection.close()
        time.sleep(0.3)
        self.assertEqual(self.s.approval(asked["approval"])["caller"], "polling")

    def test_detached(self):
        """A detached call is not given up when its caller breaks off"""
        session = self.open()
        connection = self.s.connection()
        connection.request("POST", f"/v1/sessions/{session}/decisions",
                           b'{"tool":"write_file","action":"write","target":{"path":"a"},"wait_s":100,"detached":true}',
                           {"Authorization": "Bearer " + self.s.agent, "Content-Type": "application/json"})
        card = until(lambda: self.pending_of(session), "it waits")[0]
        until(lambda: self.s.approval(card["id"])["caller"] == "waiting", "held")
        connection.close()
        until(lambda: self.s.approval(card["id"])["caller"] == "polling", "seen to leave")
        time.sleep(11)
        self.assertEqual(self.s.approval(card["id"])["state"], "pending")


class Times(Case):
    CONFIG = {"asks": {"max_timeout_s": 600}}

    def left_s(self, reply):
        card = self.s.approval(self.asked(reply))
        return card["remaining_ms"] / 1000

    def test_expiry(self):
        """Time-out is a deny of its own: state expired, by timeout, nobody named"""
        session = self.open(ask_timeout_s=1)
        asked = self.s.write(session, "a", wait_s=60)
        answer = self.denied(asked, "expired", "ask", "timeout")
        card = self.s.approval(answer["approval"])
        self.assertEqual((card["state"], card["by"], card["settled_by"], card["remaining_ms"]),
                         ("expired", "timeout", None, 0))

    def test_deadline_margin(self):
        """A caller's deadline ends the approval 5 s before, or a quarter before when it is short"""
        session = self.open(ask_timeout_s=300)
        for deadline, most in ((100, 95), (20, 15), (16, 12), (4, 3), (10**6, 300)):
            left = self.left_s(self.s.write(session, f"d{deadline}", deadline_s=deadline))
            self.assertLessEqual(left, most)
            self.assertGreater(left, most - 10)
        for bad in (0, -1, "x", 0.1):
            self.assertIn(self.s.write(session, "bad", deadline_s=bad).status, (400, 422), bad)

    def test_extend(self):
        """Extending moves the end, within the caller's deadline, and says so when it cannot"""
        session = self.open(ask_timeout_s=30)
        extend = lambda a, n: self.s.call("POST", f"/v1/approvals/{a}/extend", {"seconds": n}, token="approver")
        free = self.s.write(session, "free").json["approval"]
        before = self.s.approval(free)
        reply = extend(free, 300)
        self.assertEqual((reply.status, reply.json["state"]), (200, "pending"), reply)
        self.assertGreater(reply.json["remaining_ms"], before["remaining_ms"] + 250000)
        self.assertEqual(reply.json["digest"], before["digest"])
        bound = self.s.write(session, "bound", deadline_s=45).json["approval"]
        self.assertTrue(self.s.approval(bound)["extendable"])
        self.assertLessEqual(extend(bound, 300).json["remaining_ms"], 40000)
        self.assertFalse(self.s.approval(bound)["extendable"])
        reply = extend(bound, 300)
        self.assertEqual((reply.status, reply.json["code"]), (409, "conflict"))
        for n in (0, -5, "x", None, 10**9 * 10**9):
            self.assertIn(extend(free, n).status, (400, 422), n)
        self.settle(free, "deny")
        self.assertEqual(extend(free, 5).status, 409)
        self.assertEqual(extend("apr_" + "0" * 32, 5).status, 404)
        short = self.open(ask_timeout_s=1)
        gone = self.s.write(short, "x").json["approval"]
        until(lambda: self.s.approval(gone)["state"] == "expired", "it expires")
        self.assertEqual(extend(gone, 5).status, 410)

    def test_held(self):
        """A hold that ends unsettled is 202; a later one gets the answer; wait_s has bounds"""
        session = self.open()
        reply = self.s.write(session, "a", wait_s=0.2)
        approval = self.asked(reply)
        path = f"/v1/sessions/{session}/decisions/{reply.json['id']}"
        self.asked(self.s.call("GET", path + "?wait_s=0.2"))
        held = [Held(self.s.call, "GET", path + "?wait_s=100") for _ in range(3)]
        self.settle(approval, "allow")
        for one in held:
            self.allowed(one.result(), "approved", "ask", "person")
        self.allowed(self.s.call("GET", path), "approved")
        for bad in ("121", "-1", "x", "nan", "inf", "1e9"):
            self.assertIn(self.s.call("GET", path + "?wait_s=" + bad).status, (400, 422), bad)
        for bad in (121, -1, "x"):
            self.assertIn(self.s.write(session, "b", wait_s=bad).status, (400, 422), bad)

    def test_idempotent_ask(self):
        """A retry with the same key is the same ask, waits its own wait_s and sees the answer"""
        session = self.open()
        key = {"Idempotency-Key": "ask-1"}
        path = f"/v1/sessions/{session}/decisions"
        body = {"tool": "write_file", "action": "write", "target": {"path": "a"}, "wait_s": 0}
        first = self.s.call("POST", path, body, headers=key)
        again = self.s.call("POST", path, body, headers=key)
        self.assertEqual((again.status, again.json["id"]), (202, first.json["id"]))
        self.assertEqual(len(self.pending_of(session)), 1)
        self.settle(first.json["approval"], "allow")
        self.assertEqual(self.allowed(self.s.call("POST", path, body, headers=key))["id"], first.json["id"])
        self.assertEqual(self.s.call("POST", path, {**body, "wait_s": 1}, headers=key).status, 422)
        other = self.open()
        fresh = self.s.call("POST", f"/v1/sessions/{other}/decisions", body, headers=key)
        self.assertNotEqual(fresh.json["id"], first.json["id"])


class Tickets(Case):
    """on_deadline: ticket."""

    def ask(self, session, **fields):
        return self.s.write(session, "a", deadline_s=1, on_deadline="ticket", **fields)

    def ticketed(self, session, **fields):
        answer = self.denied(self.ask(session, wait_s=30, **fields), "ticket", "ask", "timeout")
        card = self.s.approval(answer["approval"])
        self.assertEqual((card["state"], card["caller"]), ("pending", "gone"))
        return answer

    def grants(self, session):
        return self.s.call("GET", f"/v1/sessions/{session}/grants").json["items"]

    def test_once(self):
        """At the deadline deny "ticket"; a later allow is good for one identical call"""
        session = self.open()
        first = self.ticketed(session)
        self.settle(first["approval"], "allow")
        path = f"/v1/sessions/{session}/decisions/{first['id']}"
        self.denied(self.s.call("GET", path), "ticket", by="timeout")
        grant = self.grants(session)[0]
        self.assertEqual((grant["once"], grant["decision"], grant["by"]), (True, first["id"], "approver"))
        self.asked(self.s.write(session, "b"))
        answer = self.allowed(self.ask(session), "approved", "ask", "grant")
        self.assertEqual(answer["decision"], "allow")
        self.assertEqual(self.grants(session), [])
        self.asked(self.s.write(session, "a"))

    def test_life(self):
        """A ticket lives for 15 minutes"""
        session = self.open()
        self.settle(self.ticketed(session)["approval"], "allow")
        grant = self.grants(session)[0]
        stamp = lambda text: time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
        self.assertAlmostEqual(stamp(grant["expires_at"]) - stamp(grant["created_at"]), 900, delta=2)

    def test_two_at_once(self):
        """Of parallel calls exactly one gets the ticket"""
        for _ in range(5):
            session = self.open()
            self.settle(self.ticketed(session)["approval"], "allow")
            replies = [h.result() for h in [Held(self.s.write, session, "a") for _ in range(8)]]
            codes = [r.json["code"] if r.status == 200 else "asked" for r in replies]
            self.assertEqual(codes.count("approved"), 1, codes)
            self.assertTrue(set(codes) <= {"approved", "ticket_used", "asked"}, codes)

    def test_refused(self):
        """Tiers 1 to 5 and taint come before a ticket; a deny makes none; another digest has none"""
        session = self.open()
        self.settle(self.ticketed(session)["approval"], "deny")
        self.assertEqual(self.grants(session), [])
        self.settle(self.ticketed(session)["approval"], "allow")
        self.denied(self.s.write(session, "a", mode="plan"), "plan_mode")
        self.asked(self.s.write(session, "a", diff={"old": "", "new": "x"}))
        self.allowed(self.s.write(session, "a"), "approved")

    def test_always(self):
        """allow_always of a ticket's approval is a standing grant"""
        session = self.open()
        self.settle(self.ticketed(session)["approval"], "allow_always")
        for _ in range(2):
            self.allowed(self.s.write(session, "a"), "granted")

    def test_answered_in_time(self):
        """An answer before the deadline is the decision; no ticket is left"""
        session = self.open()
        asked = self.s.write(session, "a", deadline_s=100, on_deadline="ticket").json
        self.settle(asked["approval"], "allow")
        self.allowed(self.decision_of(asked), "approved", by="person")
        self.assertEqual(self.grants(session), [])

    def test_needs_deadline(self):
        """A ticket without a deadline, and another word, are refused"""
        session = self.open()
        self.assertIn(self.s.write(session, "a", on_deadline="ticket").status, (400, 422))
        self.assertIn(self.s.write(session, "a", on_deadline="allow", deadline_s=9).status, (400, 422))


class Sweeps(Case):
    CONFIG = ALONE

    def test_autonomous(self):
        """Switching to autonomous cancels everything that waits in the session, nothing elsewhere"""
        session, other = self.open(), self.open()
        waiting = [self.s.write(session, "a").json, self.s.run(session, "ls").json]
        kept = self.s.write(other, "a").json
        self.patch(session, mode="autonomous")
        for one in waiting:
            answer = self.decision_of(one).json
            self.assertEqual((answer["decision"], answer["by"], answer["code"]), ("deny", "system", "mode_changed"))
        self.assertEqual(self.s.approval(kept["approval"])["state"], "pending")

    def test_agent_tightens(self):
        """An agent that goes to plan mode cancels what that refuses"""
        session = self.open()
        one = self.s.write(session, "a").json
        self.patch(session, token="agent", mode="plan")
        self.denied(self.decision_of(one), "plan_mode", "plan_mode", "system")

    def test_taint_in_act(self):
        """Taint in act mode leaves asks as they are"""
        session = self.open()
        one = self.s.write(session, "a").json
        self.taint(session)
        self.assertEqual(self.s.approval(one["approval"])["state"], "pending")
        self.settle(one["approval"], "allow")

    def test_plan_call(self):
        """mode:"plan" judges this call alone"""
        session = self.open()
        self.denied(self.s.write(session, "a", mode="plan"), "plan_mode", "plan_mode", "rule")
        self.asked(self.s.write(session, "a"))
        self.allowed(self.s.decide(session, "read_file", "read", {"path": "a"}, mode="plan"), "auto")
        for word in ("act", "autonomous", "", 1):
            self.assertIn(self.s.write(session, "a", mode=word).status, (400, 422), word)

    def test_target_moves(self):
        """A target that leads elsewhere when it is allowed is not what was approved"""
        session = self.open()
        os.makedirs(self.at("one"))
        os.makedirs(self.at("two"))
        os.symlink("one", self.at("link"))
        asked = self.s.write(session, "link/x").json
        os.unlink(self.at("link"))
        os.symlink("two", self.at("link"))
        self.settle(asked["approval"], "allow")
        self.denied(self.decision_of(asked), "operand_changed", by="system")
        asked = self.s.write(session, "link/y").json
        os.unlink(self.at("link"))
        git_dir = self.at("three/.git")
        os.makedirs(git_dir)
        os.symlink(git_dir, self.at("link"))
        reply = self.s.answer(asked["approval"], "allow")
        self.assertEqual(reply.status, 409, reply)
        self.denied(self.decision_of(asked), "git_metadata", "git_metadata", "system")


class Explaining(Case):
    CONFIG = ALONE

    def explain(self, session, *what, token="agent", **fields):
        body = {"tool": what[0], "action": what[1], "target": what[2], **fields}
        return self.s.call("POST", f"/v1/sessions/{session}/decisions?explain=true", body, token=token)

    def test_walk(self):
        """explain walks the tiers to the one that decides"""
        session = self.open()
        reply = self.explain(session, "write_file", "write", {"path": ".env"})
        self.assertEqual((reply.status, reply.json["would"]), (200, "deny"))
        self.assertEqual([(t["tier"], t["matched"]) for t in reply.json["tiers"]], [("deny_list", True)])
        tiers = self.explain(session, "write_file", "write", {"path": "a"}).json["tiers"]
        self.assertEqual([t["tier"] for t in tiers], ["deny_list", "git_metadata", "auto_allow", "plan_mode",
                                                      "autonomous", "network_interact", "always_allow", "ask"])
        self.assertEqual([t["matched"] for t in tiers], [False] * 7 + [True])
        self.assertEqual(self.explain(session, "read_file", "read", {"path": "a"}).json["would"], "allow")
        self.assertEqual(self.explain(session, "run_command", "execute", {"program": "id"}).json["would"], "allow_always")

    def test_no_side_effect(self):
        """explain asks nobody, counts nothing, writes nothing"""
        session = self.open()
        rows = len(self.s.audit(session=session))
        for _ in range(25):
            self.assertEqual(self.explain(session, "write_file", "write", {"path": "a"}, response_id="r").status, 200)
            self.explain(session, "run_command", "execute", {"program": "id"})
            self.explain(session, "move_file", "move", {"from": "a", "to": "b"})
        self.assertEqual(self.pending_of(session), [])
        self.assertEqual(len(self.s.audit(session=session)), rows)
        grants = self.s.call("GET", f"/v1/sessions/{session}/grants").json["items"]
        self.assertEqual([g["hits"] for g in grants], [0])
        self.allowed(self.s.decide(session, "read_file", "read", {"path": "a"}, response_id="r"), "auto")

    def test_roles(self):
        """People may explain, and only explain"""
        session = self.open()
        viewer = self.s.add_token("watch", "viewer")
        for token in (viewer, "approver"):
            self.assertEqual(self.explain(session, "write_file", "write", {"path": "a"}, token=token).json["would"], "ask")
            self.assertEqual(self.s.write(session, "a", token=token).status, 403)


class Parts(Case):
    CONFIG = ALONE

    def post(self, session, parts, tool="patch_file", **fields):
        return self.s.call("POST", f"/v1/sessions/{session}/decisions", {"tool": tool, "parts": parts, **fields})

    def write(self, path, **fields):
        return {"action": "write", "target": {"path": path}, **fields}

    def test_strictest(self):
        """The strictest part decides, the first with it gives the reason; one row a part"""
        session = self.open("autonomous")
        reply = self.post(session, [self.write("a"), self.write("/etc/x"), self.write(".env"), self.write("b")])
        answer = self.denied(reply, "autonomous_boundary", "autonomous")
        self.assertEqual([p["decision"] for p in answer["parts"]], ["allow", "deny", "deny", "allow"])
        self.assertEqual([p["code"] for p in answer["parts"]], ["auto", "autonomous_boundary", "deny_path", "auto"])
        self.assertEqual(answer["target"], answer["parts"][1]["target"])
        rows = [r for r in self.s.audit(session=session) if r["kind"] == "decision"]
        self.assertEqual(sorted(r["part"] for r in rows), [0, 1, 2, 3])
        self.assertEqual(len({r["ref"] for r in rows}), 1)

    def test_one_card(self):
        """One approval shows all parts, and its digest covers them in order"""
        session = self.open()
        digest = lambda *paths: self.s.approval(self.asked(self.post(session, [self.write(p) for p in paths])))["digest"]
        card = self.s.approval(self.asked(self.post(session, [
            self.write("a", diff={"old": "", "new": "1\n"}), self.write("b", diff={"old": "", "new": "2\n"}),
            {"action": "delete", "target": {"path": "c"}}])))
        self.assertEqual([p["target"]["path"] for p in card["parts"]], [self.at(n) for n in "abc"])
        self.assertEqual([f["path"] for f in card["preview"]["files"]], ["a", "b"])
        self.assertEqual(card["display"]["text"], "1. write a\n2. write b\n3. delete c")
        self.assertNotEqual(digest("x", "y"), digest("y", "x"))
        self.assertEqual(digest("x", "y"), digest("x", "y"))

    def test_bounds(self):
        """2 to 256 parts, and not beside an action or target"""
        session = self.open("autonomous")
        self.allowed(self.post(session, [self.write(f"f{i}") for i in range(256)]), "auto")
        for parts in ([], [self.write("a")], [self.write(f"f{i}") for i in range(257)], "x", [1, 2],
                      [self.write("a"), {"action": "write"}], [self.write("a"), self.write("b", extra=1)]):
            self.assertIn(self.post(session, parts).status, (400, 422), str(parts)[:80])
        both = {"action": "write", "target": {"path": "a"}}
        self.assertIn(self.post(session, [self.write("a"), self.write("b")], **both).status, (400, 422))

    def test_simple_form(self):
        """The simple form answers one part"""
        session = self.open("autonomous")
        answer = self.allowed(self.s.write(session, "a"))
        self.assertEqual(answer["parts"], [{"action": "write", "target": {"path": self.at("a")}, "decision": "allow",
                                            "tier": "autonomous", "code": "auto"}])
        self.assertIsNone(answer["checkpoint"])
        self.assertEqual(answer["session"], session)


class Refused(Case):
    def test_bodies(self):
        """What is no call is refused, with the place"""
        session = self.open()
        good = {"tool": "write_file", "action": "write", "target": {"path": "a"}}
        path = f"/v1/sessions/{session}/decisions"
        for change, pointer in (({"actions": 1}, "/actions"), ({"tool": 5}, "/tool"), ({"action": "fly"}, "/action"),
                                ({"target": {"path": "a", "x": 1}}, "/target/x"), ({"target": []}, "/target"),
                                ({"diff": {"new": 5}}, "/diff/new"), ({"diff": {"neu": ""}}, "/diff/neu"),
                                ({"detached": "yes"}, "/detached"), ({"preview": {}}, "/preview"),
                                ({"narration": 1}, "/narration"), ({"response_id": 1}, "/response_id")):
            reply = self.s.call("POST", path, {**good, **change})
            self.assertIn(reply.status, (400, 422), (change, reply))
            self.assertEqual(reply.json["errors"][0]["pointer"], pointer, reply)
            self.assertEqual(reply.headers["Content-Type"], "application/problem+json")
            self.assertRegex(reply.json["trace_id"], "^[0-9a-f]{32}$")
        for raw in (b"", b"[]", b"null", b'"x"', b"{", b'{"tool":"\\ud800"}', b'{"a":' * 2000 + b"1" + b"}" * 2000):
            reply = self.s.call("POST", path, raw=raw)
            self.assertIn(reply.status, (400, 422), (raw[:30], reply))
        self.assertEqual(self.s.call("POST", path, raw=b"{}", headers={"Content-Type": "text/plain"}).status, 415)
        self.assertEqual(self.pending_of(session), [])

    def test_get_decision(self):
        """GET of a decision: the same object later; unknown ids and other sessions 404"""
        session = self.open()
        answer = self.s.decide(session, "read_file", "read", {"path": "a"}).json
        path = f"/v1/sessions/{session}/decisions/"
        for token in ("agent", "approver"):
            got = self.s.call("GET", path + answer["id"], token=token)
            self.assertEqual((got.status, got.json), (200, answer))
        other = self.open()
        for where in (path + "dec_" + "0" * 32, path + "x", f"/v1/sessions/{other}/decisions/{answer['id']}"):
            self.assertEqual(self.s.call("GET", where).status, 404, where)


if __name__ == "__main__":
    unittest.main()
