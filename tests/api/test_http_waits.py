"""Slow, many, long and ending connections: nothing is shut out, nothing is left without an answer."""

import os
import re
import resource
import select
import signal
import socket
import threading
import time
import unittest

import gh
from raw import Talk, dial, get, post, read_all, request, talk

_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))  # a thousand connections are ours to hold


class Slow(unittest.TestCase):
    """Clients that send or read next to nothing."""

    def setUp(self):
        self.service = gh.Service().start()
        self.addCleanup(self.service.close)
        self.session = self.service.session()

    def ask_until(self, done, n_least):
        """Whole asks, one after the other, until done(); the client gives each 20 s."""
        n = 0
        while n < n_least or not done():
            for token in ("agent", "approver"):
                self.assertEqual(self.service.call("GET", "/v1/status", token=token, timeout=20, unix=n % 2 == 1).status, 200)
            answer = self.service.call("POST", f"/v1/sessions/{self.session}/decisions",
                                       {"tool": "read_file", "action": "read", "target": {"path": "a"}}, timeout=20)
            self.assertEqual(answer.json["decision"], "allow")
            n += 1
        return n

    def drip(self, socks, data, give_up_s=90):
        """A byte a second to each until all are closed by the service; -> those that never were"""
        open_ones = dict.fromkeys(socks, 0)
        end = time.monotonic() + give_up_s
        while open_ones and time.monotonic() < end:
            for sock in list(open_ones):
                try:
                    sock.send(data[open_ones[sock] % len(data):][:1])
                    open_ones[sock] += 1
                except OSError:
                    del open_ones[sock]
            readable, _, _ = select.select([s for s in open_ones], [], [], 0) if open_ones else ([], [], [])
            for sock in readable:
                try:
                    if not sock.recv(4096):
                        del open_ones[sock]
                except OSError:
                    del open_ones[sock]
            time.sleep(1)
        return list(open_ones)

    def test_slow_heads_and_bodies(self):
        """B079: 300 connections that drip their head and 300 that drip a body end by themselves; asks go on."""
        heads = [dial(self.service, unix=i % 3 == 0) for i in range(300)]
        bodies = [dial(self.service, unix=i % 3 == 0) for i in range(300)]
        for sock in heads + bodies:
            self.addCleanup(sock.close)
            sock.setblocking(False)
        opening = post(f"/v1/sessions/{self.session}/scan", self.service.agent, b"").replace(
            b"Content-Length: 0", b"Content-Length: 4000000")
        for sock in bodies:
            sock.send(opening)
        left = []
        dripping = threading.Thread(target=lambda: left.extend(self.drip(heads + bodies, b"GET / HTTP/1.1\r\nX: ")), daemon=True)
        dripping.start()
        self.ask_until(lambda: not dripping.is_alive(), 20)
        self.assertEqual(len(left), 0, "some were never closed")

    def test_idle_connections(self):
        """F27: a thousand idle connections shut nobody out."""
        idle = []
        for i in range(1000):
            sock = dial(self.service, unix=i % 2 == 0)
            self.addCleanup(sock.close)
            idle.append(sock)
        self.ask_until(lambda: True, 30)

    def test_reader_that_never_reads(self):
        """F27: an event stream that is never read is dropped, and others go on."""
        sock = socket.socket()
        self.addCleanup(sock.close)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect((self.service.host, self.service.port))
        sock.sendall(request("GET", "/v1/events", [("Host", "localhost"), ("Authorization", "Bearer " + self.service.approver)]))
        reader = Events(self.service)
        self.addCleanup(reader.close)
        wide = self.service.session()
        for i in range(6000):
            self.service.call("PATCH", "/v1/sessions/" + wide, {"title": str(i) + "\u00e9" * 500})
            if i % 50 == 0 and self.metric("gatehouse_events_dropped_total") >= 1:
                break
        else:
            self.fail("the stream that is never read was kept")
        seen = len(reader.types)
        self.service.write(self.session, "after")
        gh.until(lambda: "approval.created" in reader.types[seen:], "the other stream goes on")

    def metric(self, name):
        text = self.service.call("GET", "/metrics", token="approver").body
        return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])


class Events:
    """Reads an event stream on a thread of its own."""

    def __init__(self, service, token="approver"):
        secret = {"approver": service.approver, "agent": service.agent}.get(token, token)
        self.connection = service.connection(timeout=None)
        self.connection.request("GET", "/v1/events", headers={"Authorization": "Bearer " + secret})
        self.answer = self.connection.getresponse()
        self.sock = self.connection.sock
        self.types, self.text, self.gaps, self.is_complete = [], "", [], None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        at = time.monotonic()
        try:
            while line := self.answer.readline():
                now = time.monotonic()
                self.gaps.append(now - at)
                at = now
                text = line.decode().rstrip("\n")
                self.text += text + "\n"
                if text.startswith("event: "):
                    self.types.append(text[7:])
            self.is_complete = True  # the last chunk was there, or readline would have raised
        except Exception:
            self.is_complete = False

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.thread.join(30)


class LongWait(unittest.TestCase):
    def test_no_long_silence(self):
        """B083: through the documented wait (50 s, chained) no silence on the wire is longer than 60 s."""
        with gh.Service() as service:
            session = service.session(ask_timeout_s=600)
            stream = Events(service)
            self.addCleanup(stream.close)
            with dial(service, timeout=100) as sock:
                begun = time.monotonic()
                body = b'{"tool":"write_file","action":"write","target":{"path":"a"},"deadline_s":600,"wait_s":50}'
                sock.sendall(post(f"/v1/sessions/{session}/decisions", service.agent, body))
                first = sock.recv(1)
                silence = time.monotonic() - begun
                self.assertTrue(first)
                waited = Talk(first + read_all(sock)[0], True)
            self.assertEqual(waited.status, 202, waited)
            self.assertLessEqual(silence, 60)
            approval = waited.final[0].get("Location")
            decision = service.call("GET", approval).json["decision"]
            held = gh.Held(service.call, "GET", f"/v1/sessions/{session}/decisions/{decision}?wait_s=50")
            service.answer(approval.rsplit("/", 1)[1], "allow")
            self.assertEqual(held.result().json["decision"], "allow")
            self.assertGreaterEqual(len(stream.gaps), 3)
            self.assertLessEqual(max(stream.gaps), 60)


class Stopping(unittest.TestCase):
    """SIGTERM while much is held."""

    def start(self):
        self.service = gh.Service().start()
        self.addCleanup(self.service.close)
        service = self.service
        session = service.session()
        pending = [service.write(session, f"f{i}", detached=True).json for i in range(20)]
        path = f"/v1/sessions/{session}/decisions"
        etag = service.call("GET", "/v1/approvals?state=pending", token="approver").headers["ETag"]
        approver = [("If-None-Match", etag)]
        asks = [post(path, service.agent, b'{"tool":"write_file","action":"write","target":{"path":"g%d"},"wait_s":120}' % i)
                for i in range(15)]
        looks = [get(f"{path}/{p['id']}?wait_s=120", service.agent) for p in pending[:15]]
        looks += [get(f"/v1/approvals/{p['approval']}?wait_s=120", service.approver) for p in pending[10:20]]
        polls = [get("/v1/events?wait_s=120", service.approver, more=[("Accept", "application/json")]) for _ in range(5)]
        held = []
        for i, data in enumerate(asks + looks + polls):
            held.append(self.hold(data, i % 2 == 1))
        gh.until(lambda: len(service.pending()) == 35, "all asks are pending")
        # The polls of events were answered by the new asks; they and the lists come last.
        etag = service.call("GET", "/v1/approvals?state=pending", token="approver").headers["ETag"]
        lists = [get("/v1/approvals?state=pending&wait_s=120", service.approver, more=[("If-None-Match", etag)]) for _ in range(5)]
        held = held[:-5] + [self.hold(data, i % 2 == 1) for i, data in enumerate(polls + lists)]
        self.assertEqual(len(held), 50)
        streams = [Events(service) for _ in range(5)]
        gh.until(lambda: all(s.types == ["hello"] for s in streams), "the streams are open")
        gh.until(lambda: self.n_waiting() == 15 + 15, "the askers are seen to wait")
        return held, streams

    def n_waiting(self):
        return sum(a["caller"] == "waiting" for a in self.service.pending())

    def hold(self, data, unix):
        sock = dial(self.service, unix, timeout=120)
        self.addCleanup(sock.close)
        sock.sendall(data)
        return sock

    def check(self, held, streams, code):
        for sock in held:
            result = Talk(*read_all(sock))
            self.assertTrue(result.is_closed, result)
            self.assertEqual(len(result.final), 1, result)
            self.assertIn(result.status, (200, 202, 304), result)
            answer = result.final[0]
            self.assertEqual(result.rest, b"")
            if answer.status != 304:
                self.assertEqual(len(answer.body), int(answer.get("Content-Length")))
        for stream in streams:
            stream.thread.join(60)
            self.assertIs(stream.is_complete, True)
        self.assertEqual(code, 0, self.service.log()[-2000:])
        self.assertFalse(os.path.exists(os.path.join(self.service.state, "run.json")))
        self.assertNotIn("error", [line.split()[1] for line in self.service.log().splitlines() if len(line.split()) > 1])

    def test_sigterm(self):
        """B078: 50 that wait and 5 streams get complete answers at SIGTERM; exit 0."""
        held, streams = self.start()
        code = self.service.stop()
        self.check(held, streams, code)

    def test_sigterm_twice(self):
        """B078: the same with a second SIGTERM a moment later."""
        held, streams = self.start()
        process = self.service.process
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        self.check(held, streams, code)

    def test_kept_approvals_come_back(self):
        """B078: what was answered 202 because of the stop is there again after the start, and can be answered."""
        held, streams = self.start()
        before = {a["id"]: a["digest"] for a in self.service.pending()}
        code = self.service.stop()
        self.check(held, streams, code)
        self.service.start()
        after = {a["id"]: a["digest"] for a in self.service.pending()}
        self.assertEqual(after, before)
        for approval in after:
            self.assertEqual(self.service.answer(approval, "allow").json["state"], "allowed")

    def test_new_requests_while_stopping(self):
        """B078: a request on an open connection during the stop gets an answer or a clean close, never half of one."""
        service = gh.Service().start()
        self.addCleanup(service.close)
        socks = [dial(service, unix=i % 2 == 1) for i in range(20)]
        ping = request("GET", "/healthz", [("Host", "localhost")])
        for sock in socks:
            self.addCleanup(sock.close)
            sock.sendall(ping)
            sock.recv(65536)
        service.process.send_signal(signal.SIGTERM)
        for sock in socks:
            try:
                sock.sendall(ping)
            except OSError:
                continue
            result = Talk(*read_all(sock))
            self.assertTrue(result.is_closed)
            self.assertLessEqual(len(result.final), 1)
            self.assertIn(result.status, (200, 503, None))
        self.assertEqual(service.process.wait(60), 0)


class Departures(unittest.TestCase):
    def test_half_closed_and_reset(self):
        """F27: clients that leave in any way leave nothing behind."""
        with gh.Service() as service:
            session = service.session()
            base = len(os.listdir(f"/proc/{service.process.pid}/fd"))
            waiting = f"/v1/approvals?state=pending&wait_s=120"
            etag = service.call("GET", "/v1/approvals?state=pending", token="approver").headers["ETag"]
            for i in range(200):
                sock = dial(service, unix=i % 2 == 1)
                if i % 4 < 2:
                    sock.sendall(get(waiting, service.approver, more=[("If-None-Match", etag)]))
                else:
                    sock.sendall(request("GET", "/v1/events", [("Host", "localhost"), ("Authorization", "Bearer " + service.approver)]))
                    sock.recv(10)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                sock.close()
            gh.until(lambda: len(os.listdir(f"/proc/{service.process.pid}/fd")) <= base + 5, "descriptors are given back", 60)
            self.assertEqual(service.write(session, "a").status, 202)


if __name__ == "__main__":
    unittest.main()
