"""Operations: metrics, log, readiness, discovery, notification of the manager, status."""

import json
import os
import re
import resource
import socket
import stat
import subprocess
import time
import unittest

import gh
from gh import Case, Service, close_checked, until

NAMES = {
    "gatehouse_decisions_total": ("counter", {"outcome", "by"}),
    "gatehouse_approvals_total": ("counter", {"outcome"}),
    "gatehouse_approvals_pending": ("gauge", set()),
    "gatehouse_approval_oldest_pending_seconds": ("gauge", set()),
    "gatehouse_sessions_active": ("gauge", set()),
    "gatehouse_tainted_sessions": ("gauge", set()),
    "gatehouse_events_clients": ("gauge", set()),
    "gatehouse_events_total": ("counter", set()),
    "gatehouse_events_dropped_total": ("counter", set()),
    "gatehouse_auth_failures_total": ("counter", set()),
    "gatehouse_audit_append_errors_total": ("counter", set()),
    "gatehouse_audit_rows_total": ("counter", set()),
    "gatehouse_audit_last_append_timestamp_seconds": ("gauge", set()),
    "gatehouse_store_commits_total": ("counter", set()),
    "gatehouse_store_writable": ("gauge", set()),
    "gatehouse_config_last_reload_success": ("gauge", set()),
    "gatehouse_config_last_reload_timestamp_seconds": ("gauge", set()),
    "gatehouse_http_requests_total": ("counter", {"route", "method"}),
    "gatehouse_requests_refused_total": ("counter", {"reason"}),
    "gatehouse_build_info": ("gauge", {"version"}),
    "process_cpu_seconds_total": ("counter", set()),
    "process_resident_memory_bytes": ("gauge", set()),
}
LOG_LINE = re.compile(r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (debug|info|warn|error) [a-z0-9_]+'
                      r'( [a-z0-9_]+="([^"\\\x00-\x1f\x7f-\xff]|\\["\\]|\\x[0-9a-f]{2})*")*$')


def parse(text):
    """The Prometheus text format, strictly: {(name, labels): value}, {name: type}."""
    samples, types, helps = {}, {}, set()
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in helps, line
            helps.add(name)
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types and kind in ("counter", "gauge", "histogram"), line
            types[name] = kind
            continue
        found = re.fullmatch(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)', line)
        assert found, line
        name, labels, value = found.groups()
        assert name in types and name in helps, line
        pairs = tuple(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))
        assert (name, pairs) not in samples, "twice: " + line
        samples[(name, pairs)] = float(value)
    return samples, types


class Metrics(Case):
    def metrics(self, token="approver"):
        reply = self.s.call("GET", "/metrics", token=token)
        self.assertEqual(reply.status, 200, reply)
        self.assertTrue(reply.headers["Content-Type"].startswith("text/plain; version=0.0.4"), reply.headers)
        return parse(reply.body)

    def value(self, name, **labels):
        return self.metrics()[0][(name, tuple(labels.items()))]

    def test_names_and_labels(self):
        """page-and-ops h: the names, their types, and labels from fixed sets."""
        samples, types = self.metrics()
        for name, (kind, labels) in NAMES.items():
            self.assertEqual(types.get(name), kind, name)
            found = [dict(pairs) for n, pairs in samples if n == name]
            self.assertTrue(found, name)
            self.assertTrue(all(set(f) == labels for f in found), (name, found[:2]))
        allowed = {"outcome": {"allow", "allow_always", "deny", "allowed", "allowed_always", "denied", "expired", "cancelled"},
                   "by": {"system", "rule", "grant", "person", "timeout"},
                   "reason": {"host", "origin", "content_type", "rate", "fetch_site"},
                   "method": {"GET", "POST", "PUT", "PATCH", "DELETE"}}
        for (name, pairs), _ in samples.items():
            for label, word in pairs:
                if label in allowed:
                    self.assertIn(word, allowed[label], name)

    def test_labels_do_not_grow(self):
        """page-and-ops h: whatever is asked for, by whatever name, there is no new series."""
        before = set(self.metrics()[0])
        session = self.open(title='x"} 1\n', agent="agent\n# HELP x")
        self.s.decide(session, 'tool"} 1\nx', "network", {"description": 'x"} 1\n'})
        self.s.call("GET", "/v1/none/of/this")
        self.s.call("GET", '/v1/sessions/x"}%0a1')
        self.s.call("BREW", "/v1/sessions")
        self.s.add_token('name.with-everything_1', "agent")
        self.assertEqual(set(self.metrics()[0]), before)

    def test_they_count(self):
        """page-and-ops h: decisions, approvals, requests, refusals and taint are counted when they happen."""
        session = self.open()
        before = self.metrics()[0]
        self.s.decide(session, "read_file", "read", {"path": "x"})
        self.s.decide(session, "read_file", "read", {"path": ".env"})
        one, two = self.s.write(session, "a").json["approval"], self.s.write(session, "b").json["approval"]
        self.assertEqual(self.value("gatehouse_approvals_pending"), before[("gatehouse_approvals_pending", ())] + 2)
        self.s.answer(one, "allow")
        self.s.answer(two, "deny")
        self.taint(session)
        self.s.call("GET", "/v1/status", headers={"Host": "evil.example"})
        self.s.call("GET", "/v1/status", headers={"Origin": "https://evil.example"})
        self.s.call("POST", "/v1/sessions", raw=b"{}", headers={"Content-Type": "text/plain"})
        after = self.metrics()[0]

        def grown(name, **labels):
            key = (name, tuple(labels.items()))
            return after[key] - before[key]
        self.assertEqual(grown("gatehouse_decisions_total", outcome="allow", by="rule"), 1)
        self.assertEqual(grown("gatehouse_decisions_total", outcome="deny", by="rule"), 1)
        self.assertEqual(grown("gatehouse_decisions_total", outcome="allow", by="person"), 1)
        self.assertEqual(grown("gatehouse_decisions_total", outcome="deny", by="person"), 1)
        self.assertEqual(grown("gatehouse_approvals_total", outcome="allowed"), 1)
        self.assertEqual(grown("gatehouse_approvals_total", outcome="denied"), 1)
        self.assertEqual(grown("gatehouse_tainted_sessions"), 1)
        self.assertEqual(grown("gatehouse_requests_refused_total", reason="host"), 1)
        self.assertEqual(grown("gatehouse_requests_refused_total", reason="origin"), 1)
        self.assertEqual(grown("gatehouse_requests_refused_total", reason="content_type"), 1)
        self.assertEqual(grown("gatehouse_http_requests_total", route="/v1/sessions/{id}/decisions", method="POST"), 4)
        self.assertGreaterEqual(grown("gatehouse_audit_rows_total"), 6)
        self.assertEqual(self.value("gatehouse_approvals_pending"), before[("gatehouse_approvals_pending", ())])
        self.assertLessEqual(abs(after[("gatehouse_audit_last_append_timestamp_seconds", ())] - time.time()), 600)

    def test_streams_are_counted(self):
        """page-and-ops h: open event streams are a gauge that falls again."""
        connection = self.s.connection()
        connection.request("GET", "/v1/events", headers={"Authorization": "Bearer " + self.s.approver})
        connection.getresponse()
        until(lambda: self.value("gatehouse_events_clients") == 1, "counted")
        connection.close()
        until(lambda: (self.open(), self.value("gatehouse_events_clients"))[1] == 0, "gone again")

    def test_who_reads_them(self):
        """contract 2: the metrics role reads /metrics and nothing else; nobody reads them without a token."""
        secret = self.s.add_token("scraper", "metrics")
        self.assertEqual(self.metrics(secret)[1], self.metrics()[1])
        self.assertEqual(self.s.call("GET", "/metrics", token=None).status, 401)
        self.assertEqual(self.s.call("GET", "/metrics", token="agent").status, 403)
        for path in ("/v1/status", "/v1/sessions", "/v1/approvals", "/v1/audit", "/v1/events", "/v1/config", "/v1/tokens"):
            self.assertEqual(self.s.call("GET", path, token=secret).status, 403, path)


class Log(unittest.TestCase):
    def test_lines(self):
        """page-and-ops h, B062: every line is one event in fixed form, hostile values escaped, no secret, one `ready`."""
        s = Service()
        self.addCleanup(close_checked, s)
        s.start()
        session = s.session(title="t\n2026-01-01T00:00:00.000Z info ready", agent='a" b="c\x1b[2J')
        s.shell(session, 'x\n2026-01-01T00:00:00.000Z info forged a="b"\x1b[31m')
        s.decide(session, "t\nool", "read", {"path": ".env\n2026 info ready"})
        s.decide(session, "read_file", "read", {"path": ".env"})
        for value in ("gh_" + "0" * 52, 'x"\\ y\t', "Bearer é".encode().decode("latin-1")):
            s.call("GET", "/v1/status", token=None, headers={"Authorization": "Bearer " + value})
        s.call("GET", "/v1/status", headers={"Host": 'evil"\\.example'})
        s.call("GET", "/v1/none%0aforged%1b[2J?x=%0a")
        s.call("POST", "/v1/login", {"code": 'c"\n'}, token=None)
        s.call("GET", "/v1/status", headers={"traceparent": 'x"y'})
        s.write_config("bogus: [\x01\n")
        s.process.send_signal(1)
        until(lambda: "reload" in s.log(), "the reload's line")
        self.assertEqual(s.stop(), 0)
        with open(s.log_path, "rb") as f:
            data = f.read()
        lines = data.decode("ascii").split("\n")
        self.assertEqual(lines.pop(), "")
        for line in lines:
            self.assertRegex(line, LOG_LINE)
        self.assertEqual(sum(" info ready " in line for line in lines), 1)
        self.assertEqual(sum(" info stopping " in line for line in lines), 1)
        self.assertNotIn(s.agent, data.decode())
        self.assertNotIn(s.approver, data.decode())

    def test_ready_line_is_true(self):
        """decisions: the ready line names the addresses, and when it is said they answer."""
        s = Service()
        self.addCleanup(close_checked, s)
        s.start(wait=False)
        line = until(lambda: [x for x in s.log().splitlines() if " info ready " in x], "the ready line")[0]
        fields = dict(re.findall(r'(\w+)="([^"]*)"', line))
        s.wait_ready()
        self.assertEqual(fields["listen"], f"{s.host}:{s.port}")
        self.assertEqual(fields["socket"], s.socket)
        self.assertEqual(fields["state"], s.state)
        self.assertEqual(s.call("GET", "/healthz", token=None).status, 200)

    def test_levels(self):
        """serve --log-level: warn is quiet at the start; denials stay in the record."""
        s = Service()
        self.addCleanup(close_checked, s)
        with open(s.log_path, "wb") as log:
            s.process = subprocess.Popen(s.command() + ["--log-level", "error"], env=s.env(), stdout=log, stderr=log)
        s.wait_ready()
        s.call("GET", "/v1/status", token="wrong")
        self.assertEqual(s.stop(), 0)
        self.assertEqual(s.log(), "")


class Discovery(unittest.TestCase):
    def setUp(self):
        self.s = Service()
        open(self.s.log_path, "w").close()
        self.addCleanup(close_checked, self.s)

    def test_run_json(self):
        """decisions, 'Configuration and start': run.json, its content, its mode, and that it goes with the service."""
        s = self.s.start()
        path = os.path.join(s.state, "run.json")
        info = os.lstat(path)
        self.assertTrue(stat.S_ISREG(info.st_mode))
        self.assertEqual((stat.S_IMODE(info.st_mode), info.st_uid), (0o600, os.getuid()))
        with open(path) as f:
            run = json.load(f)
        with open("/proc/sys/kernel/random/boot_id") as f:
            boot = f.read().strip()
        self.assertEqual((run["pid"], run["listen"], run["socket"], run["boot_id"]),
                         (s.process.pid, f"127.0.0.1:{s.port}", s.socket, boot))
        self.assertRegex(run["started_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertNotIn(s.agent, json.dumps(run))
        self.assertEqual(s.stop(), 0)
        self.assertFalse(os.path.exists(path))

    def test_run_json_is_never_torn(self):
        """decisions: a reader sees run.json whole or not at all."""
        path = os.path.join(self.s.state, "run.json")
        for _ in range(5):
            self.s.start(wait=False)
            for _ in range(20000):
                try:
                    with open(path) as f:
                        text = f.read()
                except OSError:
                    continue
                self.assertEqual(json.loads(text)["pid"], self.s.process.pid)
                break
            self.s.wait_ready()
            self.assertEqual(self.s.stop(), 0)

    def notified(self, address, name):
        s = self.s
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(address)
            manager.settimeout(30)
            s.extra_env = {"NOTIFY_SOCKET": name}
            s.start()
            self.assertEqual(manager.recv(4096), b"READY=1\n")
            self.assertEqual(s.call("GET", "/healthz", token=None).status, 200)
            s.process.send_signal(1)
            self.assertTrue(manager.recv(4096).startswith(b"RELOADING=1\nMONOTONIC_USEC="))
            self.assertEqual(manager.recv(4096), b"READY=1\n")
            self.assertEqual(s.stop(), 0)
            self.assertEqual(manager.recv(4096), b"STOPPING=1\n")

    def test_notify(self):
        """decisions: sd_notify: READY when it accepts, RELOADING, STOPPING, over a path."""
        path = os.path.join(self.s.root, "notify")
        self.notified(path, path)

    def test_notify_abstract(self):
        """decisions: the same over an abstract name."""
        name = f"gatehouse-test-{os.getpid()}"
        self.notified("\0" + name, "@" + name)

    def test_notify_nobody(self):
        """decisions: a manager that is not there, or a name that cannot be, is no failure."""
        for name in ("/nonexistent/notify", "relative", "@" + "x" * 200, "", "vsock:1:2"):
            self.s.extra_env = {"NOTIFY_SOCKET": name}
            self.s.start()
            self.assertEqual(self.s.call("GET", "/healthz", token=None).status, 200)
            self.assertEqual(self.s.stop(), 0)


class Status(Case):
    def test_health_is_constant(self):
        """contract 10: healthz is the same for everybody, without a token."""
        bodies = {self.s.call("GET", "/healthz", token=t, unix=u).body for t in (None, "agent", "wrong") for u in (False, True)}
        self.assertEqual(bodies, {'{"status":"ok"}'})

    def test_ready(self):
        """contract 10: readyz says what it stands on; agents and people may ask."""
        self.assertEqual(self.s.call("GET", "/readyz", token=None).status, 401)
        for token in ("agent", "approver", self.s.add_token("v", "viewer")):
            reply = self.s.call("GET", "/readyz", token=token)
            self.assertEqual((reply.status, reply.json["status"]), (200, "ready"), reply)

    def test_status(self):
        """contract 10: version, uptime, listeners, the kernel's abilities and the store; what CLI and API say agrees."""
        status = self.s.call("GET", "/v1/status", token="approver").json
        self.assertRegex(status["version"], r"^\d+\.\d+\.\d+")
        self.assertEqual(status["listeners"], [f"127.0.0.1:{self.s.port}", self.s.socket])
        self.assertGreaterEqual(status["uptime_s"], 0)
        self.assertIsInstance(status["confinement"]["landlock_abi"], int)
        self.assertIsInstance(status["confinement"]["seccomp"], bool)
        self.assertEqual(status["store"]["writable"], True)
        self.assertEqual(status["you"], {"name": "approver", "role": "approver", "expires_at": None})
        shown = self.s.cli("status").stdout
        self.assertIn(status["version"], shown)
        self.assertIn(self.s.socket, shown)
        self.assertEqual(json.loads(self.s.cli("version", "--json").stdout)["version"], status["version"])

    def test_reads_change_nothing(self):
        """F14, contract 1: every GET of the OpenAPI document, three times, leaves record and state as they were."""
        session = self.open()
        asked = self.s.write(session, "x").json
        document = self.s.call("GET", "/openapi.json").json
        paths = [p for p, ways in document["paths"].items() if "get" in ways and p not in ("/v1/events",)]
        names = {"id": session, "decision": asked["id"], "name": "read_file", "approval": asked["approval"]}
        until(lambda: self.s.call("GET", "/v1/status", token="approver").json["pending"] >= 1, "the question")

        def state():
            status = self.s.call("GET", "/v1/status", token="approver").json
            return (status["store"]["audit_rows"], status["sessions"], status["pending"],
                    self.s.approval(asked["approval"])["state"])
        before = state()
        seen = set()
        for path in paths:
            for id in (session, asked["approval"]):
                filled = re.sub(r"\{(\w+)\}", lambda m: id if m.group(1) == "id" else names.get(m.group(1), "x"), path)
                for token in ("agent", "approver"):
                    for method in ("GET", "GET", "GET", "HEAD"):
                        seen.add(self.s.call(method, filled, token=token).status)
        self.assertEqual(state(), before)
        self.assertLessEqual(seen, {200, 202, 403, 404, 410}, seen)

    def test_start_is_measured(self):
        """perf: from exec to ready, and the memory it takes; told, not judged."""
        s = Service()
        self.addCleanup(close_checked, s)
        times = []
        for _ in range(3):
            begun = time.monotonic()
            s.start()
            times.append(round((time.monotonic() - begun) * 1000))
            with open(f"/proc/{s.process.pid}/status") as f:
                rss = re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)
            self.assertEqual(s.stop(), 0)
        print(f"start to ready {times} ms, resident {rss} KiB{', sanitized' if gh.is_sanitized() else ''}")

    def test_core_limit(self):
        """F22: no core file of the service, whose memory held tokens, is left behind by a crash in its folder."""
        s = Service()
        self.addCleanup(close_checked, s)
        s.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        s.kill()
        self.assertFalse([n for n in os.listdir(s.root) if n.startswith("core")])
