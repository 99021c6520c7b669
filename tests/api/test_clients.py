"""Small clients that follow the documents alone: curl and Python, against a real service."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import gh
from gh import Case, until

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


class Clients(Case):
    CONFIG = {"permissions": {"allowed_commands": [{"name": "true", "program": "true", "args": ["x y", "$z"]}]}}

    def each(self):
        yield "ask.py", [sys.executable, os.path.join(HERE, "clients", "ask.py")]
        if shutil.which("curl") is None:
            print("ask.sh is left out: there is no curl")
            return
        yield "ask.sh", ["bash", os.path.join(HERE, "clients", "ask.sh")]

    def env(self):
        return {**self.s.env(), "http_proxy": "http://127.0.0.1:1", "no_proxy": "127.0.0.1"}

    def start(self, command, *words, folder=None, state=None):
        process = subprocess.Popen([*command, state or self.s.state, *words], cwd=folder or self.folder(), env=self.env(),
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def question(self):
        return until(self.s.pending, "the question")[0]

    def test_approved(self):
        """B089: a client that knows the documents finds the service, asks, waits, and is answered through the CLI."""
        for name, command in self.each():
            with self.subTest(client=name):
                asking = self.start(command, "make", "a b", '"; rm -rf $HOME\n', "--flag")
                approval = self.question()
                self.assertEqual(approval["target"]["args"], ["a b", '"; rm -rf $HOME\n', "--flag"])
                done = self.s.cli("approve", approval["id"], "--digest", approval["digest"])
                self.assertEqual(done.returncode, 0, done)
                out, err = asking.communicate(timeout=90)
                self.assertEqual((asking.returncode, out.split(":")[0], err), (0, "allow", ""))

    def test_denied(self):
        """B089, B045: a person's no is 3 with the feedback, a time that ran out is 4, and they read differently."""
        for name, command in self.each():
            with self.subTest(client=name):
                asking = self.start(command, "make", "deny")
                self.assertEqual(self.s.cli("deny", self.question()["id"], "--feedback", "not today").returncode, 0)
                out, _ = asking.communicate(timeout=90)
                self.assertEqual(asking.returncode, 3)
                self.assertIn("not today", out)

    def test_expired(self):
        """B045: nobody answered: exit 4."""
        s = gh.Service(config={"asks": {"timeout_s": 2}})
        self.addCleanup(gh.close_checked, s)
        s.start()
        for name, command in self.each():
            with self.subTest(client=name):
                asking = self.start(command, "make", folder=s.project, state=s.state)
                out, _ = asking.communicate(timeout=90)
                self.assertEqual(asking.returncode, 4, out)
                self.assertIn("nobody answered", out)

    def test_at_once(self):
        """B089: what a rule decides is answered at once: a seed allows, an invisible program is refused."""
        for name, command in self.each():
            with self.subTest(client=name):
                self.assertEqual(self.start(command, "true", "x y", "$z").wait(60), 0)
                self.assertEqual(self.s.pending(), [])
                self.assertEqual(self.start(command, "\u200b").wait(60), 1)

    def test_refused(self):
        """B089: no service, no token or a folder that may not be a session's: not 0, and a word why."""
        for name, command in self.each():
            with self.subTest(client=name):
                asking = self.start(command, "make", state=os.path.join(self.s.root, "nothing"))
                _, err = asking.communicate(timeout=60)
                self.assertIn(asking.returncode, (1, 5))
                self.assertTrue(err)
                asking = self.start(command, "make", folder="/")
                _, err = asking.communicate(timeout=60)
                self.assertEqual(asking.returncode, 1)
                self.assertTrue(err)

    def test_restart(self):
        """contract 3: a client that reads run.json anew goes on over a restart; the kept question is answered."""
        s = gh.Service()
        self.addCleanup(gh.close_checked, s)
        s.start()
        session = s.session()
        ask = s.run(session, "make").json
        self.assertEqual(s.stop(), 0)
        s.start()
        self.assertEqual(s.answer(ask["approval"], "allow").status, 200)
        answer = s.call("GET", f"/v1/sessions/{session}/decisions/{ask['id']}?wait_s=50")
        self.assertEqual(answer.json["decision"], "allow")


class Readme(Case):
    """What README.md shows is run as it stands, with the address and folders of the test's service."""

    def snippet(self, language, start):
        with open(os.path.join(ROOT, "README.md")) as f:
            text = f.read()
        for block in re.findall(rf"```{language}\n(.*?)```", text, re.S):
            if start in block:
                return block
        self.fail("README.md has no such example any more: " + start)

    def localised(self, text):
        text = text.replace("http://127.0.0.1:7717", f"http://127.0.0.1:{self.s.port}")
        text = text.replace("~/.local/state/gatehouse", self.s.state)
        return text.replace("~/demo", os.path.join(self.s.root, "demo"))

    def test_curl(self):
        """B089: the five minutes with curl, from asking to allow, and the silent denial."""
        if shutil.which("curl") is None:
            self.skipTest("there is no curl")
        script = self.localised(self.snippet("sh", "as() {"))
        done = subprocess.run(["bash", "-e", "-c", script], env=self.s.env(), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(done.returncode, 0, done)
        answers = [json.loads(x) for x in done.stdout.splitlines() if x.startswith("{")]
        self.assertEqual([a.get("decision") for a in answers if a.get("id", "").startswith("dec_")], ["ask", "allow", "deny"])
        self.assertEqual(answers[-1]["code"], "deny_path")

    def test_python(self):
        """B089: the example with Python's standard library waits for the person and ends as the person says."""
        script = self.localised(self.snippet("python", "urllib.request"))
        for decision, code in (("allow", 0), ("deny", 1)):
            asking = subprocess.Popen([sys.executable, "-c", script], cwd=self.folder(), env=self.s.env(), text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.s.answer(until(self.s.pending, "the question")[0]["id"], decision)
            _, err = asking.communicate(timeout=60)
            self.assertEqual(asking.returncode, code, err)
            self.assertEqual("refused: " in err, decision == "deny")

    def test_token_commands(self):
        """README: the commands for more tokens work as they are written."""
        script = self.snippet("sh", "gatehouse token add ci")
        home = os.path.join(self.s.root, "bin")
        os.makedirs(home)
        os.symlink(gh.BIN, os.path.join(home, "gatehouse"))
        env = {**self.s.env(), "PATH": home + ":" + os.environ["PATH"], "XDG_STATE_HOME": os.path.join(self.s.root, "xdg")}
        os.makedirs(env["XDG_STATE_HOME"])
        done = subprocess.run(["bash", "-e", "-c", script], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"(?m)^gh_[0-9a-z]{52}$")
        self.assertIn("ci", done.stdout)


if __name__ == "__main__":
    unittest.main()
