"""Signing in: one-time codes, what they give, and how long it lasts."""

import calendar
import json
import os
import time
import unittest

from gh import Case, Service, close_checked, until


def seconds(text):
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))


class Login(Case):
    def code(self, role="approver"):
        reply = self.s.call("POST", "/v1/login/codes", {"role": role}, token="approver")
        self.assertEqual(reply.status, 201, reply)
        return reply.json

    def login(self, code, **options):
        return self.s.call("POST", "/v1/login", {"code": code}, token=None, **options)

    def test_once(self):
        """F07, F19, contract 2: a code works once; what it gives has the role asked for and lives twelve hours."""
        for role in ("viewer", "approver"):
            made = self.code(role)
            self.assertRegex(made["code"], r"^[0-9a-z]{26}$")
            reply = self.login(made["code"])
            self.assertEqual(reply.status, 200, reply)
            self.assertEqual(reply.json["role"], role)
            now = seconds(self.s.call("GET", "/v1/status", token="approver").json["now"])
            self.assertLessEqual(abs(seconds(reply.json["expires_at"]) - now - 12 * 3600), 60)
            you = self.s.call("GET", "/v1/status", token=reply.json["token"]).json["you"]
            self.assertEqual((you["role"], you["expires_at"]), (role, reply.json["expires_at"]))
            self.assertEqual(self.login(made["code"]).status, 401)
            self.assertIn("no-store", reply.headers["Cache-Control"])
            self.assertIsNone(reply.headers["Set-Cookie"])

    def test_sixty_seconds(self):
        """F07: a code lives sixty seconds."""
        made = self.code()
        now = seconds(self.s.call("GET", "/v1/status", token="approver").json["now"])
        self.assertLessEqual(abs(seconds(made["expires_at"]) - now - 60), 5)
        self.login(made["code"])

    def test_roles(self):
        """contract 2: only an approver makes codes, and only for viewers and approvers."""
        viewer = self.s.add_token("lv", "viewer")
        for token in ("agent", viewer, None):
            self.assertIn(self.s.call("POST", "/v1/login/codes", {"role": "viewer"}, token=token).status, (401, 403))
        for role in ("agent", "metrics", "admin", "", None, 5):
            reply = self.s.call("POST", "/v1/login/codes", {"role": role}, token="approver")
            self.assertIn(reply.status, (400, 422), (role, reply))
        self.assertEqual(self.s.call("POST", "/v1/login/codes", {}, token="approver").status, 422)
        self.assertEqual(self.s.call("POST", "/v1/login/codes", {"role": "viewer", "x": 1}, token="approver").status, 400)

    def test_wrong_codes(self):
        """contract 2: a wrong code is 401, of whatever form; it counts as a failed authentication."""
        def failures():
            text = self.s.call("GET", "/metrics", token="approver").body
            return float([x for x in text.splitlines() if x.startswith("gatehouse_auth_failures_total ")][0].split()[1])
        before = failures()
        made = self.code()
        near = made["code"][:-1] + ("0" if made["code"][-1] != "0" else "1")
        self.assertEqual(self.login(near).status, 401)
        self.assertEqual(self.login(made["code"].upper() + " ").status, 401)
        self.assertEqual(failures(), before + 2)
        for body in ({"code": ""}, {"code": 5}, {}, {"code": "x", "role": "approver"}, {"code": "x" * 5000}):
            reply = self.s.call("POST", "/v1/login", body, token=None)
            self.assertIn(reply.status, (400, 401, 422), (body, reply))
        self.assertEqual(self.login(made["code"]).status, 200)

    def test_no_route_gives_a_lasting_token(self):
        """F07: a token in the query, GET or a role in the body give nothing; GET spends no code."""
        made = self.code("viewer")
        self.assertEqual(self.s.call("GET", "/v1/login?code=" + made["code"], token=None).status, 401)
        reply = self.s.call("POST", "/v1/login", {"code": made["code"], "expires": "never"}, token=None)
        self.assertEqual(reply.status, 400)
        self.assertEqual(self.login(made["code"]).json["role"], "viewer")
        self.assertEqual(self.s.call("POST", "/v1/tokens", {"name": "x", "role": "approver"}, token="approver").status, 405)

    def test_listed_and_revocable(self):
        """contract 2: a page's token is listed as one and can be revoked."""
        reply = self.login(self.code("viewer")["code"]).json
        listed = {t["name"]: t for t in self.s.call("GET", "/v1/tokens", token="approver").json["items"]}
        self.assertTrue(listed[reply["name"]]["login"])
        self.assertFalse(listed["approver"]["login"])
        self.assertEqual(self.s.cli("token", "revoke", reply["name"]).returncode, 0)
        until(lambda: [t for t in self.s.tokens() if t["name"] == reply["name"] and t["revoked_at"]] or
              reply["name"] not in [t["name"] for t in self.s.tokens()], "known")
        self.assertEqual(self.s.call("GET", "/v1/status", token=reply["token"]).status, 401)

    def test_over_the_socket(self):
        """contract 2: the unix socket takes a code as well."""
        self.assertEqual(self.login(self.code()["code"], unix=True).status, 200)

    def test_a_page_elsewhere(self):
        """F07, contract 2: a foreign page cannot redeem a code, even a right one; it stays usable."""
        made = self.code("viewer")
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                        {"Host": "evil.example"}):
            reply = self.login(made["code"], headers=headers)
            self.assertEqual(reply.status, 403, (headers, reply))
        self.assertEqual(self.login(made["code"]).status, 200)

    def test_recorded(self):
        """B158: codes made and signing in are rows with who and from where; no code stands in them."""
        made = self.code()
        self.login(made["code"])
        rows = until(lambda: [r for r in self.s.audit(kind="auth") if r["code"] == "login"], "the login's row")
        self.assertTrue(rows[0]["principal"].startswith("login-"))
        self.assertNotIn(made["code"], json.dumps(self.s.audit()))


class Codes(unittest.TestCase):
    def setUp(self):
        self.s = Service()
        self.addCleanup(close_checked, self.s)
        self.s.start()

    def test_at_most_eight(self):
        """contract 2: at most eight codes are open; a ninth is refused or takes the oldest's place, never more."""
        replies = [self.s.call("POST", "/v1/login/codes", {"role": "viewer"}, token="approver") for _ in range(12)]
        codes = [r.json["code"] for r in replies if r.status == 201]
        for reply in replies:
            self.assertIn(reply.status, (201, 429), reply)
        worked = [self.s.call("POST", "/v1/login", {"code": c}, token=None).status for c in codes]
        self.assertEqual(worked.count(200), 8, worked)

    def test_survives_a_restart(self):
        """contract 2: the page's token survives a restart, an open code does not; no code lies on disk."""
        def code():
            return self.s.call("POST", "/v1/login/codes", {"role": "approver"}, token="approver").json["code"]
        token = self.s.call("POST", "/v1/login", {"code": code()}, token=None).json["token"]
        unused = code()
        self.assertEqual(self.s.stop(), 0)
        for folder, _, names in os.walk(self.s.state):
            for name in names:
                with open(os.path.join(folder, name), "rb") as f:
                    data = f.read()
                self.assertFalse(unused.encode() in data or token.encode() in data, name)
        self.s.start()
        self.assertEqual(self.s.call("GET", "/v1/status", token=token).status, 200)
        self.assertEqual(self.s.call("POST", "/v1/login", {"code": unused}, token=None).status, 401)
