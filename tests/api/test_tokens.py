"""Tokens: made, listed, revoked, expiring, with and without the service; roles; the rate limit."""

import calendar
import json
import os
import re
import stat
import subprocess
import sys
import time
import unittest

import gh
from gh import Case, Held, Service, close_checked, until

TOKEN = re.compile(r"^gh_[0-9a-z]{52}$")


def age(state, name, **fields):
    """Rewrite fields of a token's record as the service would, in one step."""
    path = os.path.join(state, "tokens", name + ".json")
    with open(path) as f:
        record = json.load(f)
    record.update(fields)
    with open(path + ".new", "w", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
        f.write(json.dumps(record))
    os.rename(path + ".new", path)


def refused(service, name, secret, path="/v1/sessions"):
    """Wait until the service knows that the token is no longer valid; then it is 401, at the first try."""
    def is_over():
        token = [t for t in service.tokens() if t["name"] == name]
        now = service.call("GET", "/v1/status", token="approver").json["now"]
        return not token or token[0]["revoked_at"] or (token[0]["expires_at"] or "9") < now
    until(is_over, "the token's end is known")
    reply = service.call("GET", path, token=secret)
    assert reply.status == 401, reply


class Offline(unittest.TestCase):
    def setUp(self):
        self.s = Service()
        open(self.s.log_path, "w").close()
        self.addCleanup(close_checked, self.s)

    def add(self, *words):
        done = self.s.cli("token", "add", *words)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout

    def test_without_a_service(self):
        """decisions, 'Configuration and start': tokens are made, listed and revoked before a service ever ran."""
        out = self.add("ci", "--role", "agent")
        self.assertRegex(out, r"\Agh_[0-9a-z]{52}\n\Z")
        gone = self.add("gone", "--role", "viewer").strip()
        self.assertEqual(self.s.cli("token", "revoke", "gone").returncode, 0)
        listed = {t["name"]: t for t in json.loads(self.s.cli("token", "list", "--json").stdout)["items"]}
        self.assertEqual(listed["ci"]["role"], "agent")
        self.assertIsNone(listed["ci"]["revoked_at"])
        self.assertIsNotNone(listed["gone"]["revoked_at"])
        self.s.start()
        self.assertEqual(self.s.call("GET", "/v1/sessions", token=out.strip()).status, 200)
        self.assertEqual(self.s.call("GET", "/v1/sessions", token=gone).status, 401)

    def test_first_start(self):
        """F20, contract 2: the first start makes one agent's and one approver's token, private, of 256 bits."""
        self.s.start()
        folder = os.path.join(self.s.state, "tokens")
        self.assertEqual(sorted(n for n in os.listdir(folder) if not n.startswith(".")),
                         ["agent.json", "agent.token", "approver.json", "approver.token"])
        self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
        secrets = []
        for name in os.listdir(folder):
            info = os.lstat(os.path.join(folder, name))
            self.assertTrue(stat.S_ISREG(info.st_mode))
            self.assertEqual((stat.S_IMODE(info.st_mode), info.st_uid, info.st_nlink), (0o600, os.getuid(), 1), name)
            if name.endswith(".token"):
                with open(os.path.join(folder, name)) as f:
                    secrets.append(f.read())
        self.assertTrue(all(re.fullmatch(r"gh_[0-9a-z]{52}\n?", secret) for secret in secrets), secrets)
        self.assertNotEqual(secrets[0], secrets[1])
        first = secrets
        self.assertEqual(self.s.stop(), 0)
        self.s.start()
        self.assertEqual({self.s.agent, self.s.approver}, {secret.strip() for secret in first}, "kept over a restart")

    def test_records_hold_no_secret(self):
        """F20: a record holds a hash alone; a token is shown once and lies in no file."""
        secret = self.add("ci", "--role", "agent").strip()
        for folder, _, names in os.walk(self.s.state):
            for name in names:
                with open(os.path.join(folder, name), "rb") as f:
                    self.assertFalse(secret.encode() in f.read(), name)
        self.assertNotIn(secret, self.s.cli("token", "list").stdout + self.s.cli("token", "list", "--json").stdout)

    def test_unlike(self):
        """F20: a hundred tokens have nothing in common."""
        secrets = [self.add(f"t{i}", "--role", "agent").strip()[3:] for i in range(20)]
        self.assertEqual(len({s[:12] for s in secrets}), 20)
        self.assertEqual(len({s[-12:] for s in secrets}), 20)

    def test_usage(self):
        """decisions, Exit codes: wrong names, roles and times are 2 (or 1 for a name in use); nothing is made."""
        self.add("taken", "--role", "agent")
        for words in (["add"], ["add", "x"], ["add", "x", "--role", "admin"], ["add", "x", "--role", "agent", "--expires", "soon"],
                      ["add", "x", "--role", "agent", "--expires", "-1"], ["revoke"], ["bogus"], ["add", "x", "y", "--role", "agent"]):
            done = self.s.cli("token", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), (words, done))
        for name in ("../x", "a/b", ".hidden", "", "x" * 65, "tok_" + "0" * 32, "a b", "é"):
            done = self.s.cli("token", "add", name, "--role", "agent")
            self.assertIn(done.returncode, (1, 2), (name, done))
            self.assertEqual(done.stdout, "")
        self.assertEqual(self.s.cli("token", "add", "taken", "--role", "viewer").returncode, 1)
        self.assertEqual(self.s.cli("token", "revoke", "nobody").returncode, 1)
        names = {t["name"] for t in json.loads(self.s.cli("token", "list", "--json").stdout)["items"]}
        self.assertLessEqual(names, {"taken", "agent", "approver"})

    def test_at_the_same_time(self):
        """B159: many processes add tokens at once: every one is there, no record is torn."""
        running = [subprocess.Popen([gh.BIN, "token", "add", f"p{i}", "--role", "agent", "--state-dir", self.s.state],
                                    env=self.s.env(), stdout=subprocess.PIPE, text=True) for i in range(12)]
        secrets = [p.communicate()[0].strip() for p in running]
        self.assertEqual([p.returncode for p in running], [0] * 12)
        self.s.start()
        for secret in secrets:
            self.assertEqual(self.s.call("GET", "/v1/sessions", token=secret).status, 200)


class Running(Case):
    def test_added_while_running(self):
        """contract 2: a new token is known to the running service at once or within a second, and listed by the API."""
        secret = self.s.add_token("fresh", "viewer")
        listed = {t["name"]: t for t in self.s.call("GET", "/v1/tokens", token=secret).json["items"]}
        self.assertEqual((listed["fresh"]["role"], listed["fresh"]["login"]), ("viewer", False))
        self.assertTrue(listed["fresh"]["id"].startswith("tok_"))
        self.assertNotIn("sha256", listed["fresh"])
        self.assertEqual(self.s.call("GET", "/v1/tokens", token="agent").status, 403)

    def test_revoked(self):
        """contract 2: a revoked token is 401, its streams and held polls end, others' go on."""
        for role in ("viewer", "agent"):
            secret = self.s.add_token("gone-" + role, role)
            stream = self.s.connection()
            stream.request("GET", "/v1/events", headers={"Authorization": "Bearer " + secret})
            answer = stream.getresponse()
            self.assertEqual(answer.status, 200)
            others = self.s.connection()
            others.request("GET", "/v1/events", headers={"Authorization": "Bearer " + self.s.approver})
            kept = others.getresponse()
            held = [Held(self.s.call, "GET", "/v1/events?wait_s=120", None, secret, {"Accept": "application/json"}),
                    Held(self.s.call, "GET", "/v1/approvals?state=pending&wait_s=120", None, secret)]
            if role == "agent":
                session = self.s.session(token=secret, working_dir=self.folder())
                held.append(Held(self.s.write, session, "x", token=secret, wait_s=120))
                until(lambda: [a for a in self.s.pending() if a["session"] == session], "the question")
            self.assertEqual(self.s.cli("token", "revoke", "gone-" + role).returncode, 0)
            refused(self.s, "gone-" + role, secret)
            answer.read()  # comes back only when the stream is closed
            stream.close()
            for one in held:
                reply = one.result(30)
                self.assertIn(reply.status, (200, 401), reply)
                self.assertNotIn("allow", reply.body.split("reason")[0])
            self.open()
            line = kept.readline()
            self.assertTrue(line)
            others.close()

    def test_revoked_by_id(self):
        """contract 2: revoke takes the id too; a revoked name can be used again with another secret."""
        first = self.s.add_token("again", "viewer")
        id = [t["id"] for t in self.s.call("GET", "/v1/tokens", token="approver").json["items"] if t["name"] == "again"][0]
        self.assertEqual(self.s.cli("token", "revoke", id).returncode, 0)
        refused(self.s, "again", first)
        done = self.s.cli("token", "add", "again", "--role", "viewer")
        if done.returncode == 0:
            until(lambda: [t for t in self.s.tokens() if t["name"] == "again" and not t["revoked_at"]], "known")
            self.assertEqual(self.s.call("GET", "/v1/tokens", token=done.stdout.strip()).status, 200)
            self.assertEqual(self.s.call("GET", "/v1/tokens", token=first).status, 401)
        else:
            self.assertEqual(done.returncode, 1)

    def test_expiry(self):
        """contract 2: --expires is kept and shown; at its time the token is 401 and its stream ends."""
        secret = self.s.add_token("brief", "viewer", "--expires", "30d")
        token = [t for t in self.s.call("GET", "/v1/tokens", token="approver").json["items"] if t["name"] == "brief"][0]
        days = [calendar.timegm(time.strptime(token[k][:19], "%Y-%m-%dT%H:%M:%S")) for k in ("created_at", "expires_at")]
        self.assertEqual(days[1] - days[0], 30 * 86400)
        stream = self.s.connection()
        stream.request("GET", "/v1/events", headers={"Authorization": "Bearer " + secret})
        answer = stream.getresponse()
        age(self.s.state, "brief", expires_ms=int(time.time() * 1000) - 1)
        refused(self.s, "brief", secret)
        answer.read()
        stream.close()
        short = self.s.add_token("shorter", "viewer", "--expires", "2s")
        refused(self.s, "shorter", short)

    def test_roles(self):
        """contract 2: what each role may do, and 403 for what it may not."""
        tokens = {"agent": self.s.agent, "approver": self.s.approver, "viewer": self.s.add_token("rv", "viewer"),
                  "metrics": self.s.add_token("rm", "metrics")}
        session = self.open()
        pending = self.s.write(session, "x").json["approval"]
        everyone, people = {"agent", "viewer", "approver"}, {"viewer", "approver"}
        table = [("GET", "/v1/sessions", None, everyone), ("GET", "/v1/approvals", None, everyone),
                 ("GET", "/v1/audit", None, people), ("GET", "/v1/tokens", None, people),
                 ("GET", "/v1/config", None, people), ("GET", "/metrics", None, {"metrics", "approver", "viewer"}),
                 ("GET", "/v1/status", None, everyone), ("POST", "/v1/login/codes", {"role": "viewer"}, {"approver"}),
                 ("POST", "/v1/sessions", {"agent": "a", "working_dir": self.s.project}, {"agent"}),
                 ("PUT", f"/v1/approvals/{pending}/decision", {"decision": "x"}, {"approver"}),
                 ("DELETE", f"/v1/sessions/{session}/taint", None, {"approver"}),
                 ("POST", f"/v1/sessions/{session}/scan", {"source": "s", "text": "t"}, {"agent"})]
        for method, path, body, may in table:
            for role, secret in tokens.items():
                with self.subTest(method=method, path=path, role=role):
                    reply = self.s.call(method, path, body, token=secret)
                    if role in may:
                        self.assertNotIn(reply.status, (401, 403), reply)
                    else:
                        self.assertEqual((reply.status, reply.json["code"]), (403, "forbidden"), reply)
        self.assertEqual(self.s.call("GET", "/healthz", token=None).status, 200)
        self.assertEqual(self.s.approval(pending)["state"], "pending")

    def test_where_to_look(self):
        """B089: the 401 text says where the credential is; with it, it works."""
        reply = self.s.call("GET", "/v1/status", token=None)
        self.assertEqual(reply.status, 401)
        self.assertIn("tokens/approver.token", reply.json["detail"])
        self.assertIn("gatehouse token add", reply.json["detail"])
        self.assertIn("Bearer", reply.headers["WWW-Authenticate"])

    def test_rotation(self):
        """B089: the credential exchanged while a client runs: a clear 401, and it works after re-reading."""
        path = os.path.join(self.s.root, "client.token")
        with open(path, "w", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
            f.write(self.s.add_token("rot1", "agent"))
        env = {"GATEHOUSE_URL": f"http://{self.s.host}:{self.s.port}", "GATEHOUSE_TOKEN_FILE": path}
        folder = self.folder()
        self.assertEqual(self.s.cli("ask", "--dir", folder, "read", "x", env=env).returncode, 0)
        with open(path) as f:
            old = f.read()
        self.s.cli("token", "revoke", "rot1")
        refused(self.s, "rot1", old)
        done = self.s.cli("ask", "--dir", folder, "read", "x", env=env)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("token", done.stderr)
        self.assertNotIn(old, done.stderr)
        with open(path, "w") as f:
            f.write(self.s.add_token("rot2", "agent"))
        self.assertEqual(self.s.cli("ask", "--dir", folder, "read", "x", env=env).returncode, 0)


class Malformed(Case):
    def test_malformed_credentials(self):
        """contract 2, B084: what is not exactly a bearer token is 401, on TCP and on the socket."""
        secret = self.s.agent
        for value in ("", "Bearer", "Bearer ", "Bearer  " + secret[:-1], "Token " + secret, secret, "Basic " + secret,
                      "Bearer " + secret + "x", "Bearer " + secret[:-1], "Bearer " + secret.upper(),
                      "Bearer " + secret + "," + secret, "Bearer " + "x" * 6000):
            for unix in (False, True):
                reply = self.s.call("GET", "/v1/sessions", token=None, headers={"Authorization": value}, unix=unix)
                self.assertIn(reply.status, (401, 431), (value[:40], reply))
        self.assertEqual(self.s.call("GET", "/v1/sessions", token=None,
                                     headers={"Authorization": "bearer " + secret}).status, 200)

    def test_socket_gives_no_rights(self):
        """F14, contract 2: the same uid on the unix socket without a token is 401 everywhere but where nobody needs one."""
        for method, path in (("GET", "/v1/status"), ("GET", "/v1/audit"), ("POST", "/v1/sessions"), ("GET", "/readyz"),
                             ("PUT", "/v1/approvals/apr_x/decision"), ("GET", "/metrics"), ("POST", "/v1/login/codes")):
            reply = self.s.call(method, path, {} if method != "GET" else None, token=None, unix=True)
            self.assertEqual(reply.status, 401, (path, reply))
        self.assertEqual(self.s.call("GET", "/healthz", token=None, unix=True).status, 200)


class Limits(unittest.TestCase):
    def setUp(self):
        self.s = Service()
        self.addCleanup(close_checked, self.s)
        self.s.start()

    def flood(self, **options):
        """Wrong tokens until the limiter answers."""
        statuses = []
        for i in range(200):
            reply = self.s.call("GET", "/v1/status", token="gh_" + f"{i:052d}", **options)
            statuses.append(reply.status)
            if reply.status == 429:
                return statuses, reply
        raise AssertionError(f"never limited: {statuses}")

    def test_rate_limit(self):
        """F21: wrong tokens are slowed with 429 and Retry-After, counted and logged; a valid token works all the while."""
        statuses, reply = self.flood()
        self.assertEqual(set(statuses), {401, 429})
        self.assertGreaterEqual(len(statuses), 3, "a few mistakes are no attack")
        self.assertGreaterEqual(int(reply.headers["Retry-After"]), 1)
        self.assertEqual(reply.json["status"], 429)
        for token in ("agent", "approver"):
            self.assertEqual(self.s.call("GET", "/v1/status", token=token).status, 200)
        session = self.s.session()
        self.assertEqual(self.s.decide(session, "read_file", "read", {"path": "x"}).status, 200)
        text = self.s.call("GET", "/metrics", token="approver").body
        failures = float(re.search(r"^gatehouse_auth_failures_total (\S+)$", text, re.M).group(1))
        self.assertGreaterEqual(failures, len(statuses))
        self.assertGreaterEqual(float(re.search(r'^gatehouse_requests_refused_total\{reason="rate"\} (\S+)$', text, re.M).group(1)), 1)
        self.assertIn("auth_failed", self.s.log())
        self.assertLess(self.s.log().count("auth_failed"), 3 * len(statuses))

    def test_limited_peer_and_others(self):
        """F21: one peer over the limit does not limit another's wrong token, nor the socket's."""
        self.flood()
        reply = self.s.call("GET", "/v1/status", token="gh_" + "z" * 52, unix=True)
        self.assertEqual(reply.status, 401, reply)

    def test_limited_login(self):
        """F21, contract 2: wrong login codes count as failed authentications; a right one is refused no longer than that."""
        code = self.s.call("POST", "/v1/login/codes", {"role": "viewer"}, token="approver").json["code"]
        statuses = [self.s.call("POST", "/v1/login", {"code": f"{i:026d}"}, token=None).status for i in range(60)]
        self.assertEqual(set(statuses), {401, 429})
        self.assertEqual(self.s.call("GET", "/v1/status", token="approver").status, 200)
        reply = self.s.call("POST", "/v1/login", {"code": code}, token=None)
        self.assertIn(reply.status, (200, 429), reply)

    def test_limit_passes(self):
        """F21: the limit wears off by itself."""
        self.flood()
        until(lambda: self.s.call("GET", "/v1/status", token="gh_" + "y" * 52).status == 401, "401 again", 60)


class OtherUser(unittest.TestCase):
    def test_other_uid_signs_in(self):
        """contract 2, F07: a login code is worth nothing over TCP to another local user; the token files are shut to them."""
        if os.getuid() != 0:
            self.skipTest("only root can act as another user")
        import pwd
        nobody = pwd.getpwnam("nobody")
        s = Service()
        self.addCleanup(close_checked, s)
        s.start()
        code = s.call("POST", "/v1/login/codes", {"role": "approver"}, token="approver").json["code"]
        script = ("import http.client,json,sys\n"
                  "c=http.client.HTTPConnection(sys.argv[1],int(sys.argv[2]),timeout=30)\n"
                  "c.request('POST','/v1/login',json.dumps({'code':sys.stdin.read()}),{'Content-Type':'application/json'})\n"
                  "r=c.getresponse(); print(r.status, r.read().decode())\n")

        def as_nobody():
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
        done = subprocess.run(["/usr/bin/env", "-i", *self.python(), "-c", script, s.host, str(s.port)], input=code, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=as_nobody, cwd="/")
        if not done.stdout:
            self.skipTest("another user cannot run this Python: " + done.stderr[-200:])
        self.assertTrue(done.stdout.startswith("403 "), done)
        self.assertNotIn("token\":\"gh_", done.stdout)
        reply = s.call("POST", "/v1/login", {"code": code}, token=None)
        self.assertIn(reply.status, (200, 401), "spent or not, the owner decides")
        for path in (os.path.join(s.state, "tokens", "agent.token"), s.socket):
            readable = subprocess.run(["cat", path], preexec_fn=as_nobody, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertNotEqual(readable.returncode, 0, path)
        self.assertIn("403", done.stdout)
        rows = until(lambda: [r for r in s.audit(kind="auth") if r["code"] == "forbidden"], "the refused login's row")
        self.assertTrue(rows[0]["peer"].startswith("127.0.0.1"))

    @staticmethod
    def python():
        """A Python that another user can run, if there is one."""
        for path in ("/usr/bin/python3", sys.executable):
            if os.access(path, os.X_OK):
                return [path]
        return [sys.executable]
