"""The commands as a person runs them: words, exit codes, output. test_commands.py PROGRAM"""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from fake_service import AGENT, APPROVER, DIGEST, SESSION, Service, approval, decision

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
COMMANDS = ("status open pending show approve deny extend cancel watch ask explain scan sessions mode "
            "taint grants audit token config doctor version help").split()
BAD_BYTES = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
HOSTILE = "x\x1b[2K\rls\x1b]8;;http://e\x07t\x1b]52;c;QQ==\x07\u009b31m\b\x7f\u202e\u2066"


class Case(unittest.TestCase):
    over = "unix"

    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="gh-cli-")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.state = os.path.join(self.root, "state")
        self.work = os.path.join(self.root, "work")
        os.mkdir(self.work)
        self.service = Service(self.state, self.over)
        self.model = self.service.model
        self.addCleanup(self.service.stop)
        self.env = {"PATH": os.environ["PATH"], "HOME": self.root, "XDG_RUNTIME_DIR": self.root,
                    "XDG_CONFIG_HOME": os.path.join(self.root, "config")}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]

    def command(self, *words):
        return [PROGRAM, *words, "--state-dir", self.state] if "--" not in words else \
            [PROGRAM, "--state-dir", self.state, *words]

    def run_cli(self, *words, code=0, stdin=b"", **env):
        done = subprocess.run(self.command(*words), input=stdin, capture_output=True, cwd=self.work,
                              env={**self.env, **env}, timeout=60, check=False)
        self.assertEqual(done.returncode, code, (words, done.stdout, done.stderr))
        for stream in (done.stdout, done.stderr):
            self.assertIsNone(BAD_BYTES.search(stream), stream)
        return done

    def text(self, *words, code=0, **more):
        return self.run_cli(*words, code=code, **more).stdout.decode()

    def complaint(self, *words, code, **more):
        return self.run_cli(*words, code=code, **more).stderr.decode()

    def json(self, *words, code=0, **more):
        return json.loads(self.text(*words, "--json", code=code, **more))

    def start(self, *words):
        child = subprocess.Popen(self.command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 cwd=self.work, env=self.env)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.stderr.close)
        return child


class Words(Case):
    def test_every_command_teaches_by_example(self):
        for name in COMMANDS:
            text = self.text(name, "--help")
            self.assertIn(f"gatehouse {name}", text)
            self.assertEqual(text, self.text("help", name))
            self.assertTrue(all(len(line) <= 90 for line in text.splitlines()), text)

    def test_the_list_names_every_command(self):
        for words in (("help",), ("--help",)):
            for name in (*COMMANDS, "serve"):
                self.assertRegex(self.text(*words), rf"(?m)^  {name} ")
        self.assertEqual(self.run_cli(code=2).stdout, b"")

    def test_serve_is_handed_on(self):
        self.assertTrue(self.text("serve").startswith("serve got 3 words, first --state-dir"))
        self.assertIn("run the service", self.text("help", "serve"))

    def test_usage_errors_are_2(self):
        for words in (("fly",), ("help", "fly"), ("show",), ("show", "a", "b"), ("status", "x"),
                      ("status", "--fly"), ("ask", "fly"), ("ask", "read"), ("ask", "--wait", "abc", "read", "a"),
                      ("ask", "--wait", "-1", "read", "a"), ("ask", "--wait", "1e18", "read", "a"),
                      ("mode", SESSION, "fly"), ("taint", "fly", SESSION), ("token", "fly"),
                      ("token", "add", "n"), ("token", "add", "n", "--role", "admin"),
                      ("token", "list", "x"), ("audit", "fly"), ("watch", "--count", "0"),
                      ("show", "short"), ("show", "../../etc"), ("sessions", "--state", "x"),
                      ("open", "--role", "admin"), ("open", "--via", "a/b")):
            self.complaint(*words, code=2)

    def test_hostile_words_come_back_neutral(self):
        self.assertIn("\\x1b", self.complaint("a\x1b[2J", code=2))
        self.assertIn("\\x1b", self.complaint("status", "--a\x1b[2J", code=2))

    def test_version(self):
        self.assertTrue(self.text("--version").startswith("gatehouse "))
        self.assertEqual(list(self.json("version")), ["version"])

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(self.command("status"), stdout=full, stderr=subprocess.PIPE,
                                  env=self.env, check=False, timeout=60)
        self.assertEqual(done.returncode, 1)


class Finding(Case):
    def test_no_service_is_5(self):
        self.service.stop()
        for words in (("status",), ("pending",), ("ask", "read", "a"), ("show", "abcdefgh"), ("watch",),
                      ("scan", "/dev/null"), ("open",), ("audit",), ("explain", "read", "a")):
            self.assertIn("start it with: gatehouse serve", self.complaint(*words, code=5))

    def test_stale_run_file_is_5(self):
        self.service.put("run.json", json.dumps({"pid": 2 ** 31 - 1, "boot_id": "x",
                                                 "listen": "127.0.0.1:1", "socket": ""}))
        self.assertIn("gatehouse serve", self.complaint("status", code=5))
        self.assertEqual(self.model.seen, [])

    def test_dead_socket_is_5(self):
        self.service.server.shutdown()
        self.service.server.server_close()
        self.assertIn("gatehouse serve", self.complaint("status", code=5))

    def test_tokens_by_command(self):
        self.text("status")
        self.text("ask", "read", "a")
        self.assertEqual([r["role"] for r in self.model.seen], ["approver", "agent", "agent"])

    def test_rotated_token_is_a_clear_401(self):
        self.service.put("tokens/approver.token", "gh_" + "c" * 52 + "\n")
        text = self.complaint("status", code=1)
        self.assertIn("401 unauthorized", text)
        self.assertIn("tokens/", text)

    def test_url_and_token_of_the_environment(self):
        other = Service(os.path.join(self.root, "other"), "tcp")
        self.addCleanup(other.stop)
        url = {"GATEHOUSE_URL": f"http://127.0.0.1:{other.port}"}
        self.assertIn("GATEHOUSE_TOKEN", self.complaint("status", code=1, **url))
        self.assertEqual(other.model.seen, [])
        self.text("status", GATEHOUSE_TOKEN=APPROVER, **url)
        self.text("status", GATEHOUSE_TOKEN_FILE=os.path.join(other.state, "tokens/agent.token"), **url)
        self.assertEqual([r["role"] for r in other.model.seen], ["approver", "agent"])
        self.assertEqual(self.model.seen, [])


class OverTcp(Case):
    over = "tcp"

    def test_status(self):
        text = self.text("status")
        self.assertRegex(text, r"(?m)^version +0\.1\.0$")
        self.assertRegex(text, r"(?m)^store\.writable +true$")
        self.assertEqual(self.json("status")["uptime_s"], 5)
        self.assertTrue(self.model.seen[0]["headers"]["Host"].startswith("127.0.0.1:"))


class Asking(Case):
    def ask_open(self, *later):
        self.model.first = decision("ask", approval="apr_" + "0" * 24 + "k3v9x2ab")
        self.model.later = list(later)

    def test_allow_is_0(self):
        self.assertTrue(self.text("ask", "read", "a.c").startswith("allowed (by rule, auto, tier ask)"))
        opened, asked = self.model.seen
        self.assertEqual(opened["body"], {"agent": "gatehouse-cli", "working_dir": self.work,
                                          "external": {"agent": "gatehouse-cli", "id": self.work}})
        self.assertEqual(asked["body"], {"tool": "read_file", "action": "read",
                                         "target": {"path": "a.c"}, "wait_s": 0})

    def test_deny_is_3(self):
        self.model.first = decision("deny", code="deny_path", tier="deny_list", reason=HOSTILE)
        text = self.text("ask", "read", ".env", code=3)
        self.assertTrue(text.startswith("denied: x\\x1b[2K"), text)
        self.assertIn("(by rule, deny_path, tier deny_list)", text)
        self.assertEqual(self.json("ask", "read", ".env", code=3)["reason"], HOSTILE)

    def test_a_person_allows_later(self):
        self.ask_open(decision("ask"), decision("allow_always", by="person", code="approved"))
        text = self.text("ask", "execute", "--", "rm", "-rf", "--json")
        self.assertTrue(text.startswith("allowed (by person, approved"), text)
        self.assertEqual(self.model.seen[1]["body"]["target"],
                         {"program": "rm", "args": ["-rf", "--json"]})
        polls = self.model.requests("GET", "/decisions/dec_")
        self.assertTrue(all(r["path"].endswith("?wait_s=50") for r in polls) and polls, polls)

    def test_silence_is_4_never_a_persons_no(self):
        for settled in (decision("deny", by="timeout", code="expired", reason="nobody answered"),
                        decision("deny", by="timeout", code="ticket")):
            self.ask_open(settled)
            text = self.text("ask", "delete", "a", code=4)
            self.assertTrue(text.startswith("timed out, so denied"), text)
            self.assertNotIn("person", text)

    def test_a_persons_no_is_3(self):
        self.ask_open(decision("deny", by="person", code="denied_by_person", reason="use build/"))
        self.assertIn("denied: use build/ (by person", self.text("ask", "delete", "a", code=3))

    def test_not_waiting_is_not_allowed(self):
        self.ask_open()
        self.assertIn("gatehouse show k3v9x2ab", self.text("ask", "--no-wait", "delete", "a", code=4))
        self.assertEqual(self.json("ask", "--no-wait", "delete", "a", code=4)["decision"], "ask")
        self.assertEqual(self.model.requests("DELETE", ""), [])

    def test_own_deadline_withdraws(self):
        self.ask_open("hold")
        text = self.text("ask", "--wait", "1", "delete", "a", code=4)
        self.assertTrue(text.startswith("timed out, so denied"), text)
        self.assertEqual(self.model.requests("POST", "/decisions")[0]["body"]["deadline_s"], 1)
        self.assertEqual(len(self.model.requests("DELETE", "/v1/approvals/apr_")), 1)
        self.text("ask", "--wait", "0", "delete", "a", code=4)
        self.assertEqual(len(self.model.requests("DELETE", "/v1/approvals/apr_")), 2)

    def test_interrupt_withdraws(self):
        self.ask_open("hold")
        child = self.start("ask", "delete", "a")
        self.assertTrue(self.model.held.wait(30))
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(30), 130)
        gone = self.model.requests("DELETE", "/v1/approvals/apr_" + "0" * 24 + "k3v9x2ab")
        self.assertEqual([r["role"] for r in gone], ["agent"])

    def test_a_restarted_service_is_asked_again(self):
        self.ask_open("hold")
        child = self.start("ask", "delete", "a")
        self.assertTrue(self.model.held.wait(30))
        self.model.later = [decision("allow", by="person", code="approved")]
        self.service.server.shutdown()
        self.service.server.server_close()
        os.remove(self.service.socket)
        self.model.stop.set()
        self.service.start()
        self.assertEqual(child.wait(60), 0)

    def test_new_file_sends_the_change(self):
        for name, data in (("old.c", "a\n"), ("new.c", "b\n")):
            with open(os.path.join(self.work, name), "w") as file:
                file.write(data)
        self.text("ask", "write", "old.c", "--new-file", "new.c", "--narration", "fix")
        body = self.model.seen[1]["body"]
        self.assertEqual(body["diff"], {"old": "a\n", "new": "b\n"})
        self.assertEqual(body["narration"], "fix")

    def test_named_session(self):
        self.text("ask", "--session", "sessionaaaaa", "--tool", "grep", "read", "a")
        self.assertIn(f"/v1/sessions/{SESSION}/decisions", self.model.seen[-1]["path"])
        self.assertEqual(self.model.requests("POST", "/v1/sessions")[0]["body"]["tool"], "grep")

    def test_problems_name_detail_code_and_what_to_do(self):
        self.service.put("tokens/agent.token", APPROVER + "\n")
        self.assertIn("(400 unknown_field)", self.complaint("ask", "read", "a", code=1))
        self.assertIn("cannot be used", self.complaint("ask", "--dir", "/nonexistent", "read", "a", code=2))

    def test_explain(self):
        text = self.text("explain", "read", ".env")
        self.assertRegex(text, r"(?m)^deny_list +yes +entry \\x1b\[2J\.env$")
        self.assertIn("The gate would say: deny", text)
        self.assertEqual(self.json("explain", "read", ".env")["would"], "deny")


class Answering(Case):
    def setUp(self):
        super().setUp()
        self.model.approvals = [
            approval("zzzzzzzzzzzzsame1111"), approval("k3v9x2ab"), approval("zzzzzzzzzzzzsame2222"),
            approval("0ldq0ldq", state="denied", settled_by="approver"),
            approval("h0st11e0", agent=HOSTILE, action="execute", narration=HOSTILE, title=HOSTILE,
                     why=HOSTILE, target={"program": HOSTILE, "args": [HOSTILE, "a b"]},
                     warning={"code": "c", "text": HOSTILE},
                     preview={"kind": "text", "text": HOSTILE})]

    def test_pending(self):
        lines = self.text("pending").splitlines()
        self.assertEqual(lines[0], "ID       LEFT   AGENT          ACTION   ! WHAT")
        self.assertEqual(lines[2], "k3v9x2ab 1m00s  claude-code    execute    make all")
        self.assertTrue(any(line.startswith("h0st11e0") and " ! " in line for line in lines), lines)
        self.assertFalse(any("0ldq0ldq" in line for line in lines))
        self.model.approvals = []
        self.assertEqual(self.text("pending"), "Nothing waits for an answer.\n")

    def test_json_is_exact_and_harmless(self):
        self.model.approvals = self.model.approvals[-1:]
        self.assertEqual(self.json("pending")["items"][0]["agent"], HOSTILE)
        self.assertEqual(self.json("show", "h0st11e0")["narration"], HOSTILE)

    def test_hostile_card_on_a_pipe(self):
        text = self.text("show", "h0st11e0")
        self.assertIn("$ 'x\\x1b[2K\\rls", text)
        self.assertLess(text.index("'a b'"), text.index("the agent says (unverified)"))
        self.assertIn("digest     1f3a90b2c4d5\n", text)

    def test_short_ids(self):
        self.assertIn("apr_" + "0" * 24 + "k3v9x2ab", self.text("show", "v9x2ab"))
        self.text("show", "apr_" + "0" * 24 + "k3v9x2ab")
        self.text("show", "SAME2222")
        self.assertIn("More than one", self.complaint("show", "zzzzzzzz", code=1))
        self.assertIn("No id", self.complaint("show", "notthere", code=1))
        self.assertIn("denied by approver", self.text("show", "0ldq0ldq"))

    def test_approve_needs_what_was_shown(self):
        self.assertIn("--digest", self.complaint("approve", "k3v9x2ab", code=2))
        self.complaint("approve", "k3v9x2ab", "--digest", "1f3a90b", code=2)
        self.assertIn("not what you saw", self.complaint("approve", "k3v9x2ab", "--digest", "deadbeef", code=1))
        self.assertEqual(self.model.requests("PUT", ""), [])
        self.assertEqual(self.text("approve", "k3v9x2ab", "--digest", "1f3a90b2"), "allowed: make all\n")
        put = self.model.requests("PUT", "/decision")[0]
        self.assertEqual((put["role"], put["headers"]["If-Match"], put["body"]),
                         ("approver", f'"{DIGEST}"', {"decision": "allow"}))

    def test_always_and_deny(self):
        self.text("approve", "k3v9x2ab", "--always", "--digest", "1f3a90b2c4d5")
        self.assertEqual(self.text("deny", "same1111", "--feedback", "no\nnever"), "denied: make all\n")
        bodies = [r["body"] for r in self.model.requests("PUT", "/decision")]
        self.assertEqual(bodies, [{"decision": "allow_always"}, {"decision": "deny", "feedback": "no\nnever"}])

    def test_lost_races_are_said(self):
        for problem, hint in (((409, "already_settled"), "settled it first"), ((410, "expired"), "expired"),
                              ((412, "digest_mismatch"), "not what you saw"), ((422, "not_offered"), "")):
            self.model.settle = problem
            text = self.complaint("approve", "k3v9x2ab", "--digest", "1f3a90b2", code=1)
            self.assertIn(f"Settled by somebody at some time. ({problem[0]} {problem[1]})", text)
            self.assertIn(hint, text)
            self.assertEqual(self.json("deny", "k3v9x2ab", code=1)["code"], problem[1])

    def test_extend_and_cancel(self):
        self.assertEqual(self.text("extend", "k3v9x2ab", "--seconds", "2m"), "3m00s left\n")
        self.assertEqual(self.text("cancel", "k3v9x2ab"), "cancelled\n")
        self.assertEqual(self.model.requests("DELETE", "/v1/approvals/")[0]["role"], "agent")

    def on_terminal(self, *words, answer, env=None):
        """Run on a pseudo-terminal, answer the question, return (exit code, output)."""
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(PROGRAM, self.command(*words), {**self.env, "TERM": "xterm", **(env or {})})
        output, is_answered = b"", False
        while True:
            ready, _, _ = select.select([fd], [], [], 30)
            try:
                data = os.read(fd, 4096) if ready else b""
            except OSError:
                data = b""
            if not data:
                break
            output += data
            if b"Type yes: " in output and not is_answered:
                os.write(fd, answer)
                is_answered = True
        os.close(fd)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output

    def test_terminal_shows_the_card_and_asks(self):
        code, output = self.on_terminal("approve", "k3v9x2ab", answer=b"yes\n")
        self.assertEqual(code, 0, output)
        self.assertLess(output.index(b"$ make all"), output.index(b"Type yes: "))
        self.assertEqual(len(self.model.requests("PUT", "/decision")), 1)

    def test_terminal_anything_else_decides_nothing(self):
        for answer in (b"y\n", b"\n", b"no\n", b"\x04"):
            code, output = self.on_terminal("approve", "k3v9x2ab", answer=answer)
            self.assertEqual(code, 1, output)
        self.assertEqual(self.model.requests("PUT", ""), [])

    def test_colours_are_ours_and_can_be_switched_off(self):
        _, bright = self.on_terminal("show", "h0st11e0", answer=b"")
        self.assertIn(b"\x1b[", bright)
        stripped = re.sub(rb"\x1b\[[0-9;]*m", b"", bright).replace(b"\r\n", b"\n")
        self.assertIsNone(BAD_BYTES.search(stripped), stripped)
        self.assertTrue(all(len(line.decode()) <= 80 for line in stripped.split(b"\n")), stripped)
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            _, plain = self.on_terminal("show", "h0st11e0", answer=b"", env=env)
            self.assertNotIn(b"\x1b", plain)


EVENT = 'id: b-%d\nevent: approval.created\ndata: {"id":"apr_%032d","action":"write","target":{"path":"%s"}}\n\n'


class Watching(Case):
    def event(self, n, path="a"):
        return EVENT % (n, n, path)

    def test_count_ends_it(self):
        self.model.events = ["id: b-0\nevent: hello\ndata: {}\n\n" + self.event(1, "\\u001b[2Jx") + self.event(2) + self.event(3)]
        lines = self.text("watch", "--count", "2").splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r"^\d\d:\d\d:\d\d approval.created +0{7}1 write \\x1b\[2Jx$")

    def test_comes_back_with_the_last_id(self):
        self.model.events = [self.event(1) + "id: b-2\ndata: unfin", self.event(2), self.event(3)]
        lines = self.text("watch", "--count", "3", "--json").splitlines()
        self.assertEqual([json.loads(line)["id"] for line in lines], ["b-1", "b-2", "b-3"])
        streams = self.model.requests("GET", "/v1/events")
        self.assertEqual([r["headers"].get("Last-Event-ID") for r in streams], [None, "b-1", "b-2"])
        self.assertTrue(all(r["headers"]["Accept"] == "text/event-stream" for r in streams))

    def test_interrupt_ends_it(self):
        child = self.start("watch")
        self.assertTrue(self.model.held.wait(30))
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(30), 0)

    def test_a_refusal_is_not_retried(self):
        self.service.put("tokens/approver.token", AGENT[:-1] + "z\n")
        self.assertIn("401", self.complaint("watch", code=1))


class Scanning(Case):
    def write(self, data):
        path = os.path.join(self.work, "f.md")
        with open(path, "wb") as file:
            file.write(data)
        return path

    def test_clean_is_0_found_is_3(self):
        self.model.finding_in = "EVIL"
        self.assertEqual(self.text("scan", self.write(b"fine\0\xff\n")), "Nothing found.\n")
        text = self.text("scan", "-", "--source", "web\x1b", stdin=b"an EVIL text", code=3)
        self.assertIn("offset     3\n", text)
        self.assertIn("source     web\\x1b\n", text)
        self.assertIn("excerpt    \\x1b[2Jx\n", text)
        self.assertEqual(self.json("scan", "-", stdin=b"EVIL", code=3)["tainted"], True)

    def test_long_texts_go_in_overlapping_pieces(self):
        size = 512 << 10
        self.model.finding_in = "EVIL"
        text = self.text("scan", self.write(b"a" * (2 * size - 2) + b"EVIL" + b"b" * size), code=3)
        self.assertIn(f"offset     {2 * size - 2}\n", text)
        pieces = self.model.requests("POST", "/scan")
        self.assertEqual(len(pieces), 3)
        self.assertTrue(all(len(r["body"]["text"]) <= size + 8192 for r in pieces))

    def test_a_missing_file_is_1(self):
        self.assertIn("cannot be opened", self.complaint("scan", "/nonexistent", code=1))


class Sessions(Case):
    def test_table(self):
        lines = self.text("sessions").splitlines()
        self.assertEqual(lines[1], "ionaaaaa active act        1    ! x              /w")
        self.assertEqual(self.json("sessions", "--state", "ended")["items"], [])

    def test_mode_taint_grants(self):
        self.text("mode", "sessionaaaaa", "plan")
        self.text("taint", "clear", SESSION)
        self.assertIn("first111 always 2     write    \\x1b/a\n", self.text("grants", "sessionaaaaa"))
        self.assertEqual(self.text("grants", "revoke", "sessionaaaaa", "second22"), "1 revoked.\n")
        self.assertEqual(self.json("grants", "revoke", "sessionaaaaa"), {"revoked": 2})
        sent = [(r["method"], r["path"]) for r in self.model.seen if r["method"] != "GET"]
        base = f"/v1/sessions/{SESSION}"
        first, second = (base + "/grants/grt_" + "0" * 24 + tail for tail in ("first111", "second22"))
        self.assertEqual(sent, [("PATCH", base), ("DELETE", base + "/taint"), ("DELETE", second),
                                ("DELETE", first), ("DELETE", second)])
        self.assertTrue(all(r["role"] == "approver" for r in self.model.seen))


class Audit(Case):
    def test_list(self):
        text = self.text("audit", "list", "--decision", "deny", "--text", "a b&c", "--limit", "5")
        self.assertIn("2025-01-01T00:00:00 deny     rule    read     /w/\\x1b[2J.env\nmore: --cursor c1\n", text)
        self.assertEqual(self.model.seen[0]["path"], "/v1/audit?decision=deny&text=a%20b%26c&limit=5")

    def test_export_is_exact_and_harmless(self):
        rows = [json.loads(line) for line in self.text("audit", "export").splitlines()]
        self.assertEqual(rows, [{"seq": 1, "t": "\u009b31m\u202e"}, {"seq": 2}])

    def test_verify(self):
        self.assertTrue(self.text("audit", "verify").startswith("The record is unbroken.\n"))
        self.model.verify = {**self.model.verify, "ok": False, "bad_seq": 2, "reason": "hash differs"}
        text = self.text("audit", "verify", code=1)
        self.assertTrue(text.startswith("The record is BROKEN.\n"))
        self.assertIn("hash differs", text)

    def test_verify_without_a_service_reads_the_folder(self):
        self.service.stop()
        done = subprocess.run(self.command("audit", "verify"), capture_output=True, env=self.env,
                              check=False, timeout=60)
        self.assertIn(done.returncode, (0, 1))
        self.assertNotIn(b"not running", done.stderr)


class Tokens(Case):
    def test_add_list_revoke(self):
        secret = self.text("token", "add", "ci", "--role", "viewer", "--expires", "30d")
        self.assertRegex(secret, r"^gh_[0-9a-z]{40,60}\n$")
        self.service.stop()
        items = {t["name"]: t for t in self.json("token", "list")["items"]}
        self.assertEqual((items["ci"]["role"], items["ci"]["state"]), ("viewer", "valid"))
        self.assertNotIn(secret.strip(), json.dumps(items))
        self.assertRegex(self.text("token", "list"), r"(?m)^\w{8} viewer   valid   \S+ +ci$")
        self.complaint("token", "add", "ci", "--role", "viewer", code=1)
        self.text("token", "revoke", "ci")
        self.assertEqual(self.json("token", "list")["items"][0]["state"], "revoked")
        self.complaint("token", "revoke", "nobody", code=1)
        for folder, _, names in os.walk(os.path.join(self.state, "tokens")):
            for name in names:
                path = os.path.join(folder, name)
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600, path)
                with open(path) as file:
                    self.assertNotIn(secret.strip(), file.read())


class Opening(Case):
    URL = "http://127.0.0.1:7717/#code=c0dec0dec0dec0de"

    def browser(self, script):
        folder = os.path.join(self.root, "bin")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "xdg-open")
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        return {"PATH": folder + ":" + os.environ["PATH"], "DISPLAY": ":9"}

    def read(self, name):
        with open(os.path.join(self.root, name)) as file:
            return file.read()

    def test_prints_where_no_browser_opens(self):
        self.assertEqual(self.text("open"), self.URL + "\n")
        self.assertEqual(self.text("open", "--print", DISPLAY=":9"), self.URL + "\n")
        self.assertEqual(self.json("open")["url"], self.URL)
        self.assertIn("127.0.0.1:9000/#code=", self.text("open", "--via", "127.0.0.1:9000"))
        self.assertEqual(self.text("open", **self.browser("exit 3\n")), self.URL + "\n")

    def test_hands_over_a_private_file_and_no_secret(self):
        env = self.browser('tr "\\0" " " < /proc/$$/cmdline > "$HOME/argv"; env > "$HOME/env"\n'
                           'stat -c %a "$1" > "$HOME/mode"; cat "$1" > "$HOME/page"; ls -l /proc/self/fd | wc -l > "$HOME/fds"\n')
        self.assertEqual(self.text("open", GATEHOUSE_TOKEN=APPROVER, GATEHOUSE_TOKEN_FILE="/x", **env), "")
        read = {name: self.read(name) for name in ("argv", "env", "mode", "page")}
        self.assertNotIn("c0de", read["argv"])
        self.assertIn(os.path.join(self.root, "gatehouse/open.html"), read["argv"])
        self.assertNotIn("GATEHOUSE", read["env"])
        self.assertNotIn(APPROVER, read["env"])
        self.assertEqual(read["mode"], "600\n")
        self.assertIn(f"url={self.URL}", read["page"])
        self.assertEqual(os.stat(os.path.join(self.root, "gatehouse")).st_mode & 0o777, 0o700)


class Config(Case):
    def test_running_and_file(self):
        self.assertEqual(self.json("config")["asks"]["timeout_s"], 300)
        self.service.stop()
        self.assertRegex(self.text("config"), r"(?m)^asks\.timeout_s +300$")
        bad = os.path.join(self.work, "bad.yaml")
        with open(bad, "w") as file:
            file.write("asks:\n  timeout: 1\n")
        self.assertIn("bad.yaml:2", self.complaint("config", "--config", bad, code=1))


class Doctor(Case):
    def checks(self, *words, code=0):
        return {c["code"]: c for c in self.json("doctor", *words, code=code)["checks"]}

    def setUp(self):
        super().setUp()
        for name in ("agent", "approver"):
            os.remove(os.path.join(self.state, f"tokens/{name}.token"))
        secret = self.text("token", "add", "own", "--role", "approver")
        self.service.put("tokens/approver.token", APPROVER + "\n")
        self.assertTrue(secret)

    def test_codes_are_stable(self):
        checks = self.checks()
        for code in ("state_folder", "token_files", "config", "deny_rules", "disk_space", "clock", "discovery",
                     "listeners", "socket", "service", "version", "store", "audit_chain"):
            self.assertEqual(checks[code]["status"], "ok", checks[code])
        for code in ("landlock", "seccomp", "user_namespaces"):
            self.assertIn(checks[code]["status"], ("ok", "warning", "failed"))
        self.assertRegex(self.text("doctor"), r"(?m)^ok      state_folder +/")

    def test_changes_nothing(self):
        def snapshot():
            return {os.path.join(d, n): os.lstat(os.path.join(d, n)).st_mtime_ns
                    for d, dirs, names in os.walk(self.root) for n in dirs + names}
        before = snapshot()
        self.text("doctor")
        self.text("doctor", "--rules")
        self.assertEqual(before, snapshot())
        self.assertTrue(all(r["method"] == "GET" for r in self.model.seen))

    def test_faults_fail_and_say_what_to_do(self):
        os.chmod(os.path.join(self.state, "tokens/approver.token"), 0o644)
        checks = self.checks(code=1)
        self.assertEqual(checks["token_files"]["status"], "failed")
        self.assertIn("chmod", checks["token_files"]["fix"])
        self.assertNotIn(APPROVER, json.dumps(checks))
        os.chmod(self.state, 0o755)
        self.assertEqual(self.checks(code=1)["state_folder"]["status"], "failed")

    def test_warnings_fail_only_when_strict(self):
        self.model.version = "9.9.9"
        self.assertEqual(self.checks()["version"]["status"], "warning")
        self.checks("--strict", code=1)

    def test_without_a_service(self):
        self.service.stop()
        self.service.put("run.json", json.dumps({"pid": 2 ** 31 - 1, "boot_id": "x", "listen": "0.0.0.0:1"}))
        checks = self.checks("--quick", code=1)
        self.assertEqual(checks["discovery"]["status"], "warning")
        self.assertEqual(checks["service"]["status"], "failed")
        self.assertIn("gatehouse serve", checks["service"]["fix"])
        self.assertEqual(checks["audit_chain"]["status"], "skipped")

    def test_rules(self):
        os.makedirs(self.env["XDG_CONFIG_HOME"] + "/gatehouse", mode=0o700)
        with open(self.env["XDG_CONFIG_HOME"] + "/gatehouse/config.yaml", "w") as file:
            file.write('permissions: {deny_paths: ["~/private"]}\n')
        rules = self.json("doctor", "--rules")["rules"]
        self.assertIn("~/private", [r["entry"] for r in rules if r["source"] == "configuration"])
        self.assertTrue(any(r["source"] == "built-in" for r in rules))
        self.assertIn("~/private", self.text("doctor", "--rules"))


if __name__ == "__main__":
    unittest.main(verbosity=0)
