"""The configuration: what stops the start and how it says so; addresses and sockets; what is shown of it."""

import json
import os
import socket
import subprocess
import unittest

import gh
from gh import Service, close_checked

# text, line, key, a word of the reason
WRONG = [
    ('permissions:\n  deny_paths:\n    - "a"\n    - ""\n', 4, "permissions.deny_paths[1]", "empty"),
    ('permissions:\n  deny_paths:\n    - ".."\n', 3, "permissions.deny_paths[0]", ".."),
    ('permissions:\n  deny_paths: ["/Usrs/me/.ssh", "~/.ssh",\n    "./.env"]\n', 3, "permissions.deny_paths[2]", "elative"),
    ('permissions:\n  deny_paths:\n    - "a/../b"\n', 3, "permissions.deny_paths[0]", ""),
    ('permissions:\n  deny_paths:\n    - "a/b*"\n', 3, "permissions.deny_paths[0]", ""),
    ("permissions:\n  deny_paths: 5\n", 2, "permissions.deny_paths", ""),
    ("permissions:\n  allowed_commands:\n    - name: x\n", 3, "permissions.allowed_commands[0].program", ""),
    ("permissions:\n  allowed_commands:\n    - {name: x, program: make, timeout_secs: -1}\n", 3,
     "permissions.allowed_commands[0].timeout_secs", "whole number"),
    ("asks:\n  timeout_s: abc\n", 2, "asks.timeout_s", "whole number"),
    ("asks:\n  timeout_s: 0\n", 2, "asks.timeout_s", "whole number"),
    ("asks:\n  timeout_s: -5\n", 2, "asks.timeout_s", "whole number"),
    ("asks:\n  timeout_s: 1e18\n", 2, "asks.timeout_s", "whole number"),
    ("asks:\n  timeout_s: 99999999999999999999\n", 2, "asks.timeout_s", "whole number"),
    ("asks:\n  timeout_s: 5\n  timeout_s: 6\n", 3, "asks.timeout_s", "twice"),
    ("asks:\n  # a remark\n\n  timeout: 5\n", 4, "asks.timeout", "no such key"),
    ("bogus: 1\n", 1, "bogus", "no such key"),
    ("asks: 3\n", 1, "asks", ""),
    ("listen:\n  tcp: 5\n", 2, "listen.tcp", "HOST:PORT"),
    ('listen:\n  tcp: "0.0.0.0:7717"\n', 2, "listen.tcp", "allow_non_loopback"),
    ("listen:\n  allow_non_loopback: maybe\n", 2, "listen.allow_non_loopback", ""),
    ("listen:\n  unix: relative.sock\n", 2, "listen.unix", ""),
    ("listen:\n  allowed_origins: ['*']\n", 2, "listen.allowed_origins[0]", ""),
    ("sessions:\n  allow_wide: [relative]\n", 2, "sessions.allow_wide[0]", ""),
    ("limits:\n  body_mib: 65\n", 2, "limits.body_mib", "64"),
    ("audit:\n  retain_days: -1\n", 2, "audit.retain_days", "whole number"),
    ("sandbox:\n  network: wide\n", 2, "sandbox.network", "unrestricted"),
    ("notify:\n  - url: ftp://x\n", 2, "notify[0].url", ""),
    ("a: [\n", None, "", "YAML"),
    ("\tasks: 1\n", 1, "", "YAML"),
    ('{"asks": {"timeout_s": true}}', 1, "asks.timeout_s", "whole number"),
]


class ConfigCase(unittest.TestCase):
    def service(self, **options):
        s = Service(**options)
        open(s.log_path, "w").close()
        self.addCleanup(close_checked, s)
        return s

    def refuse(self, s):
        s.start(wait=False)
        code = s.process.wait(60)
        s.process = None
        self.assertEqual(code, 1, s.log())
        self.assertFalse(os.path.exists(os.path.join(s.state, "run.json")))
        self.assertEqual(len(s.log().strip().splitlines()), 1, s.log())
        return s.log().strip()

    def started(self, s):
        s.start()
        reply = s.call("GET", "/healthz", token=None, unix=not s.port, headers={"Host": "localhost"})
        self.assertEqual(reply.status, 200)
        return s


class Wrong(ConfigCase):
    def test_refused_with_its_place(self):
        """B027, B046, decisions 'Configuration and start': what is wrong stops the start, with file, line and key."""
        s = self.service()
        for text, line, key, word in WRONG:
            s.write_config(text)
            open(s.log_path, "w").close()
            with self.subTest(text=text):
                log = self.refuse(s)
                self.assertTrue(log.startswith(f"gatehouse: {s.config_path}:"), log)
                if line is not None:
                    self.assertIn(f"config.yaml:{line}: ", log)
                self.assertIn(f" {key}: " if key else ": ", log)
                self.assertIn(word, log)

    def test_checked_by_the_client_as_well(self):
        """B027: `config --config` and `doctor --config` say the same without a start, exit 1."""
        s = self.service()
        for text, line, key, word in WRONG[::4]:
            s.write_config(text)
            with self.subTest(text=text):
                done = s.cli("config", "--config", s.config_path)
                self.assertEqual(done.returncode, 1, done)
                self.assertIn(key, done.stderr)
                doctor = json.loads(s.cli("doctor", "--config", s.config_path, "--json").stdout)
                found = {c["code"]: c for c in doctor["checks"]}["config"]
                self.assertEqual(found["status"], "failed")
                self.assertIn(key, found["evidence"])
                self.assertTrue(found["fix"])

    def test_unreadable(self):
        """decisions, 'Configuration and start': a named file that is missing, a folder or a stream stops the start."""
        s = self.service()
        s.write_config("{}")
        os.unlink(s.config_path)
        command = s.command() + ["--config", s.config_path]
        done = subprocess.run(command, env=s.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("config.yaml", done.stderr)
        os.makedirs(s.config_path)
        self.assertIn("config.yaml", self.refuse(s))
        os.rmdir(s.config_path)
        os.mkfifo(s.config_path)
        open(s.log_path, "w").close()
        self.assertIn("config.yaml", self.refuse(s))

    def test_large(self):
        """decisions, 'Configuration and start': an enormous file is refused, not read whole."""
        s = self.service(config="#" * (20 << 20))
        self.assertIn("config.yaml", self.refuse(s))

    def test_usage(self):
        """decisions, Exit codes: a wrong option of serve is 2 and changes nothing."""
        s = self.service()
        for words in (["--bogus"], ["extra"], ["--log-level", "loud"], ["--config"]):
            done = subprocess.run(s.command() + words, env=s.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 2, (words, done))
            self.assertIn("Usage", done.stderr)
        self.assertFalse(os.path.exists(s.state))


class Good(ConfigCase):
    def test_yaml_and_json(self):
        """decisions, Parts: YAML and JSON say the same; an empty file is the defaults."""
        seen = []
        for text in ("asks:\n  timeout_s: 77\npermissions:\n  deny_paths: [private]\n",
                     '{"asks": {"timeout_s": 77}, "permissions": {"deny_paths": ["private"]}}'):
            s = self.started(self.service(config=text))
            seen.append(s.call("GET", "/v1/config", token="approver").json["config"])
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[0]["asks"]["timeout_s"], 77)
        for text in ("", "# nothing\n", "{}"):
            s = self.started(self.service(config=text))
            self.assertEqual(s.call("GET", "/v1/config", token="approver").json["config"]["asks"]["timeout_s"], 300)

    def test_rules_are_listed(self):
        """B027: each deny entry is listed with what it resolves to and whether it matches anything now."""
        s = self.service(config='permissions:\n  deny_paths: ["/Usrs/me/.ssh", "~/.hidden", "**/.envrc", "keep/**"]\n')
        entry = s.home + "/there"
        os.makedirs(entry)
        s.write_config(json.dumps({"permissions": {"deny_paths": ["/Usrs/me/.ssh", "~/.hidden", "**/.envrc", entry]}}))
        self.started(s)
        listed = {r["entry"]: r for r in s.call("GET", "/v1/config", token="approver").json["deny_list"]}
        self.assertIn("matches nothing now", listed["/Usrs/me/.ssh"]["note"])
        self.assertTrue(listed["~/.hidden"]["resolved"].startswith("/"))
        self.assertEqual(listed["**/.envrc"]["resolved"], ".envrc")
        self.assertEqual(listed[entry]["note"], "")
        done = s.cli("doctor", "--rules", "--config", s.config_path, "--json")
        self.assertEqual(done.returncode, 0, done)
        rules = {r["entry"]: r for r in json.loads(done.stdout)["rules"]}
        for name in ("/Usrs/me/.ssh", "~/.hidden", "**/.envrc", entry):
            self.assertEqual(rules[name]["resolved"], listed[name]["resolved"], name)
            self.assertEqual(rules[name]["source"], listed[name]["source"], name)

    def test_redacted(self):
        """contract 10: the effective configuration shows no secret, not in JSON, text or the log."""
        s = self.started(self.service(config={"notify": [{"url": "https://example.invalid/h", "secret": "s3cr3t-w0rd"}]}))
        shown = s.call("GET", "/v1/config", token="approver")
        self.assertNotIn("s3cr3t", shown.body)
        self.assertEqual(shown.json["config"]["notify"][0]["url"], "https://example.invalid/h")
        self.assertNotIn("s3cr3t", s.cli("config").stdout + s.cli("config", "--config", s.config_path).stdout)
        self.assertNotIn("s3cr3t", s.log())
        self.assertEqual(s.call("GET", "/v1/config", token="agent").status, 403)

    def test_body_limit(self):
        """contract 1: limits.body_mib is in force."""
        s = self.started(self.service(config="limits:\n  body_mib: 1\n"))
        session = s.session()
        body = {"tool": "x", "action": "network", "target": {"description": "x" * (1 << 20)}}
        self.assertEqual(s.call("POST", f"/v1/sessions/{session}/decisions", body).status, 413)

    def test_ask_limits(self):
        """contract 5: the configured time-out holds, a longer wish is capped and the cap answered."""
        s = self.started(self.service(config="asks:\n  timeout_s: 7\n  max_timeout_s: 9\n"))
        reply = s.call("POST", "/v1/sessions", {"agent": "a", "working_dir": s.project})
        self.assertEqual(reply.json["ask_timeout_s"], 7)
        reply = s.call("POST", "/v1/sessions", {"agent": "a", "working_dir": s.project, "ask_timeout_s": 1000})
        self.assertEqual(reply.json["ask_timeout_s"], 9)
        for bad in (0, -1, "abc", 10 ** 18 * 100, None, True):
            reply = s.call("POST", "/v1/sessions", {"agent": "a", "working_dir": s.project, "ask_timeout_s": bad})
            if bad is not None:
                self.assertIn(reply.status, (400, 422), (bad, reply))


class Listen(ConfigCase):
    def test_wide_is_refused(self):
        """B072, F15: an address beyond loopback, or a name that may become one, is refused by default."""
        for address in ("0.0.0.0:0", "[::]:0", "10.1.2.3:0", "192.168.1.1:0", "[fe80::1]:0", "[::ffff:127.0.0.1]:0",
                        "127.0.0.1.nip.io:0", "example.org:0", ":0", "0:0", "127.1:0", "2130706433:0", "127.0.0.1",
                        "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:x", "127.0.0.1:", "[::1]", "::1:0"):
            s = self.service(listen=address)
            with self.subTest(address=address):
                log = self.refuse(s)
                self.assertRegex(log, "allow_non_loopback|HOST:PORT")

    def test_wide_with_the_switch(self):
        """B072, F15: with the switch it starts, warns at every start, and still demands tokens and Host."""
        s = self.service(listen="0.0.0.0:0", config={"listen": {"allow_non_loopback": True}})
        for n in (1, 2):
            s.start()
            s.host = "127.0.0.1"
            self.assertEqual(s.log().count("warn listening_beyond_loopback"), n)
            self.assertEqual(s.call("GET", "/v1/status", token=None).status, 401)
            self.assertEqual(s.call("GET", "/v1/status", token="approver").status, 200)
            reply = s.call("GET", "/v1/status", token="approver", headers={"Host": "192.168.1.2"})
            self.assertEqual(reply.status, 403)
            checks = {c["code"]: c for c in json.loads(s.cli("doctor", "--json").stdout)["checks"]}
            self.assertEqual(checks["listeners"]["status"], "warning")
            self.assertEqual(s.stop(), 0)

    def test_loopback_forms(self):
        """contract 1: 127.0.0.1 and ::1 by default, also as localhost; run.json names what is open."""
        for address in ("127.0.0.1:0", "localhost:0", "127.0.0.2:0", "[::1]:0"):
            if address.startswith("[") and not os.path.exists("/proc/net/if_inet6"):
                continue
            with self.subTest(address=address):
                s = self.started(self.service(listen=address))
                self.assertNotIn("listening_beyond_loopback", s.log())
                s.stop()

    def test_default_is_loopback_only(self):
        """B072: by default nothing but loopback and the socket is open."""
        s = self.started(self.service())
        inodes = set()
        for name in os.listdir(f"/proc/{s.process.pid}/fd"):
            try:
                link = os.readlink(f"/proc/{s.process.pid}/fd/{name}")
            except OSError:
                continue
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
        open_on = []
        for table in ("tcp", "tcp6"):
            if not os.path.exists(f"/proc/net/{table}"):
                continue
            with open(f"/proc/net/{table}") as f:
                for line in f.readlines()[1:]:
                    fields = line.split()
                    if fields[3] == "0A" and fields[9] in inodes:
                        open_on.append(fields[1].split(":")[0])
        self.assertTrue(open_on)
        for address in open_on:
            self.assertIn(address, ("0100007F", "00000000000000000000000001000000"), open_on)

    def test_port_in_use(self):
        """decisions, 'Configuration and start': a port that is taken stops the start with the address."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            log = self.refuse(self.service(listen=f"127.0.0.1:{port}"))
            self.assertIn(str(port), log)
            self.assertIn("in use", log)

    def test_no_tcp(self):
        """decisions: listen "" is no TCP; the socket alone serves, and the CLI finds it."""
        s = self.service(listen="")
        s.start()
        self.assertEqual(s.call("GET", "/v1/status", token="approver", unix=True).status, 200)
        with open(os.path.join(s.state, "run.json")) as f:
            self.assertIsNone(json.load(f)["listen"])
        self.assertEqual(s.cli("status").returncode, 0)

    def test_no_socket(self):
        """decisions: --socket "" is no socket; the CLI finds TCP."""
        s = self.service()
        s.socket = ""
        s.start()
        with open(os.path.join(s.state, "run.json")) as f:
            self.assertIsNone(json.load(f)["socket"])
        self.assertEqual(s.cli("status").returncode, 0)

    def test_socket_paths(self):
        """decisions: a socket path the kernel cannot take, or in no folder, or where a file lies: refused, nothing lost."""
        s = self.service()
        s.socket = os.path.join(s.root, "x" * 120)
        self.assertIn("107", self.refuse(s))
        open(s.log_path, "w").close()
        s.socket = os.path.join(s.root, "nowhere", "s.sock")
        self.assertIn("nowhere", self.refuse(s))
        open(s.log_path, "w").close()
        s.socket = os.path.join(s.root, "precious")
        with open(s.socket, "w") as f:
            f.write("text")
        self.refuse(s)
        with open(s.socket) as f:
            self.assertEqual(f.read(), "text")

    def test_left_socket(self):
        """B078: a socket that a killed service left behind is taken over; a living one's is not."""
        s = self.service()
        s.start()
        s.kill()
        self.assertTrue(os.path.exists(s.socket))
        s.start()
        self.assertEqual(s.call("GET", "/healthz", token=None, unix=True).status, 200)
        other = self.service()
        other.socket = s.socket
        self.refuse(other)
        self.assertEqual(s.call("GET", "/healthz", token=None, unix=True).status, 200)

    def test_default_places(self):
        """decisions: without options everything lies in the XDG folders, private; run.json leads there."""
        s = self.service()
        runtime = os.path.join(s.root, "run")
        os.makedirs(runtime, mode=0o700)
        env = {**s.env(), "XDG_RUNTIME_DIR": runtime}
        os.makedirs(os.path.join(s.home, ".config", "gatehouse"))
        with open(os.path.join(s.home, ".config", "gatehouse", "config.yaml"), "w") as f:
            f.write('listen:\n  tcp: "127.0.0.1:0"\n')
        s.state = os.path.join(s.home, ".local", "state", "gatehouse")
        s.socket = os.path.join(runtime, "gatehouse", "api.sock")
        with open(s.log_path, "wb") as log:
            s.process = subprocess.Popen([gh.BIN, "serve"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        s.wait_ready()
        self.assertEqual(s.call("GET", "/readyz", unix=True).status, 200)
        for path in (s.state, os.path.dirname(s.socket)):
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o700, path)
        done = subprocess.run([gh.BIN, "status"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done)
