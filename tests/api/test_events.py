"""Events: the stream, its replay, the long poll, and who sees what. Contract 10."""

import json
import time
import unittest

from gh import Case, Held, Service, close_checked, until


class Stream:
    """One open stream; events are read as they come."""

    def __init__(self, service, token, query="", last_id=None, timeout=60):
        self.connection = service.connection(timeout=timeout)
        headers = {"Authorization": "Bearer " + token, "Accept": "text/event-stream"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        self.connection.request("GET", "/v1/events" + query, headers=headers)
        self.answer = self.connection.getresponse()
        self.is_closed = False

    def next(self):
        """(id, type, data) of the next event, or None at the end of the stream."""
        fields = {}
        while True:
            line = self.answer.readline().decode()
            if not line:
                self.is_closed = True
                return None
            line = line.rstrip("\n")
            if line == "" and "event" in fields:
                return fields["id"], fields["event"], json.loads(fields["data"])
            name, _, value = line.partition(": ")
            if name in ("id", "event", "data"):
                fields[name] = value

    def until(self, type, **members):
        """Events up to the first of this type whose data has these members, that one last."""
        seen = []
        while True:
            event = self.next()
            assert event is not None, f"the stream ended before {type}: {seen}"
            seen.append(event)
            if event[1] == type and all(event[2].get(k) == v for k, v in members.items()):
                return seen

    def close(self):
        self.answer.close()
        self.connection.close()


class Streams(Case):
    def stream(self, token=None, query="", last_id=None):
        stream = Stream(self.s, token or self.s.approver, query, last_id)
        self.addCleanup(stream.close)
        return stream

    def test_live(self):
        """A stream says hello and then what happens, in order, with ids"""
        stream = self.stream()
        self.assertEqual(stream.answer.status, 200)
        self.assertTrue(stream.answer.headers["Content-Type"].startswith("text/event-stream"))
        self.assertEqual(stream.next()[1], "hello")
        session = self.open()
        approval = self.asked(self.s.write(session, "a"))
        self.settle(approval, "deny")
        seen = stream.until("decision.settled", approval=approval)
        types = [e[1] for e in seen if e[2].get("session", e[2].get("id")) == session]
        self.assertEqual(types, ["session.opened", "approval.created", "approval.settled", "decision.settled"])
        for id, _, data in seen:
            self.assertRegex(id, r"^[0-9a-f]+-\d+$")
        numbers = [int(e[0].split("-")[1]) for e in seen]
        self.assertEqual(numbers, sorted(set(numbers)))
        settled = [e for e in seen if e[1] == "approval.settled"][-1][2]
        self.assertEqual((settled["state"], settled["by"], settled["settled_by"]), ("denied", "person", "approver"))

    def test_types(self):
        """Every change has its event: sessions, decisions, taint"""
        stream = self.stream()
        session = self.open()
        self.s.decide(session, "read_file", "read", {"path": "a"})
        self.patch(session, mode="plan")
        self.taint(session)
        self.s.call("DELETE", f"/v1/sessions/{session}/taint", token="approver")
        self.s.call("DELETE", f"/v1/sessions/{session}")
        seen = stream.until("session.ended", id=session)
        types = [e[1] for e in seen if session in json.dumps(e[2])]
        self.assertEqual(types, ["session.opened", "decision.settled", "session.updated", "taint.found",
                                 "taint.cleared", "session.ended"])

    def test_replay(self):
        """B051: what was missed comes once and in order; an unknown id is one resync, never silence"""
        stream = self.stream()
        first = stream.next()[0]
        session = self.open()
        stream.until("session.opened", id=session)
        stream.close()
        created = self.asked(self.s.write(session, "a"))
        self.settle(created, "allow")
        short = self.open(ask_timeout_s=1)
        expired = self.denied(self.s.write(short, "b", wait_s=60), "expired")["approval"]
        again = self.stream(last_id=first)
        seen = again.until("decision.settled", approval=expired)
        self.assertEqual(seen[0][2]["id"], session)
        ids = [e[0] for e in seen]
        self.assertEqual(len(set(ids)), len(ids))
        for approval in (created, expired):
            kinds = [e[1] for e in seen if e[2].get("id") == approval]
            self.assertEqual(kinds, ["approval.created", "approval.settled"])
        run, number = ids[-1].split("-")
        for bad in ("garbage", "", "0" * len(run) + "-1", f"{run}-{int(number) + 10**6}", f"{run}--1",
                    f"{run}-99999999999999999999999", f"{run}-1x", "x" * 4000):
            stream = self.stream(last_id=bad)
            if stream.answer.status == 431:  # longer than a header may be
                continue
            self.assertEqual(stream.next()[1], "resync", bad)
        last = self.stream(last_id=ids[-1])
        self.open()
        self.assertEqual(last.next()[1], "session.opened")

    def test_replay_ends_in_the_truth(self):
        """B052: what opened and closed meanwhile is closed in the view that the replay builds"""
        stream = self.stream()
        last = stream.next()[0]
        stream.close()
        session = self.open(ask_timeout_s=1)
        approval = self.denied(self.s.write(session, "a", wait_s=60), "expired")["approval"]
        other = self.asked(self.s.write(session, "b"))
        self.s.call("DELETE", "/v1/approvals/" + other)
        view = set()
        for _, type, data in self.stream(last_id=last).until("approval.settled", id=other):
            if type == "approval.created":
                view.add(data["id"])
            elif type == "approval.settled":
                view.discard(data["id"])
        self.assertEqual(view, set())
        self.assertEqual(self.s.answer(approval, "allow").status, 410)
        self.assertEqual(self.s.answer(other, "allow").status, 409)

    def test_filter(self):
        """?session= shows that session's events only"""
        one, two = self.open(), self.open()
        stream = self.stream(query="?session=" + one)
        self.assertEqual(stream.next()[1], "hello")
        self.asked(self.s.write(two, "x"))
        approval = self.asked(self.s.write(one, "a"))
        self.assertEqual(stream.next()[2]["id"], approval)

    def test_agents(self):
        """An agent sees its own sessions' events only, in the stream, the replay and the poll"""
        other = self.s.add_token("other", "agent")
        stream = self.stream(token=other)
        first = stream.next()[0]
        mine = self.open()
        self.asked(self.s.write(mine, "a"))
        theirs = self.open(token=other)
        self.assertEqual(stream.next()[2]["id"], theirs)
        replayed = self.stream(token=other, last_id=first)
        self.assertEqual(replayed.next()[2]["id"], theirs)
        filtered = self.s.call("GET", f"/v1/events?after={first}&session={mine}", token=other,
                               headers={"Accept": "application/json"}).json
        self.assertEqual(filtered["items"], [])

    def test_revoked(self):
        """Revoking a token closes its streams within a second or so, and no other"""
        secret = self.s.add_token("short-lived", "viewer")
        stream, kept = self.stream(token=secret), self.stream()
        stream.next()
        kept.next()
        self.assertEqual(self.s.cli("token", "revoke", "short-lived").returncode, 0)
        begun = time.monotonic()
        self.assertIsNone(stream.next())
        self.assertLess(time.monotonic() - begun, 20)
        self.assertEqual(self.s.call("GET", "/v1/status", token=secret).status, 401)
        self.open()
        self.assertIsNotNone(kept.next())

    def test_heartbeat(self):
        """A silent stream has a heartbeat at most every 15 s"""
        stream = self.stream()
        stream.next()
        begun = time.monotonic()
        while True:
            line = stream.answer.readline()
            self.assertTrue(line)
            if line.startswith(b":"):
                break
        self.assertLess(time.monotonic() - begun, 20)

    def test_limit(self):
        """A token has at most 64 streams; closed ones make room"""
        secret = self.s.add_token("streamer", "viewer")
        streams = [self.stream(token=secret) for _ in range(64)]
        self.assertEqual({s.answer.status for s in streams}, {200})
        refused = self.stream(token=secret)
        self.assertEqual(refused.answer.status, 429)
        for stream in streams:
            stream.close()
        until(lambda: self.try_stream(secret), "there is room again")

    def try_stream(self, secret):
        stream = Stream(self.s, secret)
        status = stream.answer.status
        stream.close()
        return status == 200


class Polls(Case):
    def poll(self, query="", token="approver", **fields):
        return self.s.call("GET", "/v1/events?" + query, token=token, headers={"Accept": "application/json"})

    def test_poll(self):
        """The long poll gives the same events as JSON, held until there is one"""
        last = self.poll().json
        self.assertEqual(last["items"], [])
        held = Held(self.poll, f"wait_s=60&after={last['last_id']}")
        session = self.open()
        page = held.result().json
        self.assertEqual((page["items"][0]["type"], page["items"][0]["data"]["id"]), ("session.opened", session))
        self.assertEqual(page["items"][-1]["id"], page["last_id"])
        approval = self.asked(self.s.write(session, "a"))
        page = self.poll(f"wait_s=60&after={page['last_id']}").json
        self.assertEqual([(i["type"], i["data"]["id"]) for i in page["items"]], [("approval.created", approval)])
        empty = self.poll(f"wait_s=0.2&after={page['last_id']}").json
        self.assertEqual((empty["items"], empty["last_id"]), ([], page["last_id"]))

    def test_resync(self):
        """An unknown id in a poll is one resync with the id to go on from"""
        for bad in ("garbage", "0-1", "x" * 100):
            page = self.poll("wait_s=50&after=" + bad).json
            self.assertEqual([i["type"] for i in page["items"]], ["resync"], bad)
            self.assertEqual(self.poll("after=" + page["last_id"]).json["items"], [])

    def test_bounds(self):
        """wait_s has bounds here too"""
        for bad in ("121", "-1", "x"):
            self.assertIn(self.poll("wait_s=" + bad).status, (400, 422), bad)

    def test_roles(self):
        """A metrics token sees no events"""
        self.assertEqual(self.poll(token=self.s.add_token("m", "metrics")).status, 403)


class Many(Case):
    def test_forgotten(self):
        """B051: an id that is forgotten after very many events is a resync"""
        stream = Stream(self.s, self.s.approver)
        first = stream.next()[0]
        stream.close()
        session = self.open()
        connection = self.s.connection()
        for _ in range(8300):
            reply = self.s.on(connection, "POST", f"/v1/sessions/{session}/decisions",
                              {"tool": "set_tasks", "action": "internal", "target": {"description": "x"}})
            self.assertEqual(reply.status, 200)
        connection.close()
        stream = Stream(self.s, self.s.approver, last_id=first)
        self.assertEqual(stream.next()[1], "resync")
        stream.close()


class Restarted(unittest.TestCase):
    def test_other_run(self):
        """B051: an id from before a restart is a resync"""
        service = Service()
        self.addCleanup(close_checked, service)
        service.start()
        stream = Stream(service, service.approver)
        last = stream.next()[0]
        self.assertEqual(service.stop(), 0)
        self.assertIsNone(stream.next())
        stream.close()
        service.start()
        stream = Stream(service, service.approver, last_id=last)
        self.assertEqual(stream.next()[1], "resync")
        stream.close()


if __name__ == "__main__":
    unittest.main()
