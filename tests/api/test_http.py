"""The ground rules of HTTP and the defences at the edge, on raw sockets, over TCP and the unix socket."""

import json
import os
import re
import socket
import threading
import unittest

import gh
from raw import dial, get, post, read_all, request, talk, Talk

REFUSED = {400, 413, 414, 431, 501, 505}
FIXED = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
         "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"}
BOTH = (False, True)  # TCP, the unix socket
BAD_HOSTS = ("evil.example", "evil.example:7717", "evil.localhost.example", "127.0.0.1.nip.io", "localhost.", "LOCALHOST",
             "localhost.evil.example", "127.0.0.2", "127.1", "2130706433", "0x7f000001", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]",
             "::1", "localhost:", "localhost:80:80", "localhost:x", "localhost:123456", "localhost@evil.example",
             "evil.example@localhost", "localhost evil.example", "localhost,evil.example", "[::1", "localhost/", "", " ", "%6cocalhost")
GOOD_HOSTS = ("localhost", "127.0.0.1", "[::1]")
BAD_ORIGINS = ("https://evil.example", "http://evil.example", "null", "file://", "http://localhost.evil.example:9999",
               "https://localhost", "http://localhost:3000", "http://127.0.0.1", "http://localhost/", "http://localhost@evil.example",
               "localhost", "", "*", "http://LOCALHOST.", "chrome-extension://abc", "http://localhost, http://evil.example")


class Edge(unittest.TestCase):
    config = None

    @classmethod
    def setUpClass(cls):
        cls.service = gh.Service(config=cls.config).start()
        cls.addClassCleanup(cls.service.close)
        cls.session = cls.service.session()

    def setUp(self):
        self.before = self.state()

    def state(self):
        """What nothing here may change: sessions, approvals, and the audit but for its auth rows."""
        return ([row["seq"] for row in self.service.audit() if row["kind"] != "auth"],
                [s["id"] for s in self.service.call("GET", "/v1/sessions", token="approver").json["items"]])

    def talk(self, data, unix=False, timeout=60):
        result = talk(self.service, data, unix, timeout)
        for answer in result.answers:
            self.assert_safe(answer)
        return result

    def assert_safe(self, answer):
        """F02, F10, F12: headers that never come, and those that always do."""
        for name, value in answer.fields:
            self.assertFalse(name.lower().startswith("access-control-"), answer.fields)
            self.assertNotEqual(name.lower(), "set-cookie")
            self.assertNotIn("\r", value)
        if answer.status < 200 or answer.status >= 400 and answer.get("Content-Type") is None:
            return  # interim answers, and the library's own fixed texts
        for name, value in FIXED.items():
            self.assertEqual(answer.get(name), value, f"{answer} {name}")
        self.assertIn("frame-ancestors 'none'", answer.get("Content-Security-Policy"))

    def assert_refused(self, result, statuses):
        self.assertIsNotNone(result.status, result)
        self.assertIn(result.status, statuses, result)
        self.assertEqual(len(result.final), 1, result)

    def assert_unchanged(self):
        self.assertEqual(self.state(), self.before)


class Framing(Edge):
    SMUGGLED = b'POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n' \
               b'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s'

    def smuggled(self):
        body = json.dumps({"working_dir": self.service.project, "title": "smuggled"}).encode()
        return self.SMUGGLED % (self.service.agent.encode(), len(body), body)

    def start(self, framing=b"", line=b"POST /v1/sessions/%s/scan HTTP/1.1"):
        return (line.replace(b"%s", self.session.encode()) + b"\r\nHost: localhost\r\nAuthorization: Bearer " +
                self.service.agent.encode() + b"\r\nContent-Type: application/json\r\n" + framing)

    def check(self, cases):
        """Each is refused once, the connection ends, and what follows is never a request."""
        for name, data in cases.items():
            for unix in (False, True):
                with self.subTest(case=name, unix=unix):
                    result = self.talk(data + self.smuggled(), unix)
                    self.assert_refused(result, REFUSED)
                    self.assertTrue(result.is_closed, result)
        self.assert_unchanged()
        self.assertEqual(self.service.call("GET", "/healthz").status, 200)

    def test_lengths(self):
        """B081: odd, doubled and contradicting lengths are refused, and the connection closed."""
        body = b'{"source":"a","text":"b"}'
        n = b"%d" % len(body)
        cases = {value: self.start(b"Content-Length: " + value + b"\r\n\r\n") + body
                 for value in (b"+25", b"0x19", b"-1", b"25, 25", b"5, 6", b"25 25", b"2 5", b"25x", b"", b"1e1", b"25;",
                               b"99999999999999999999", b"18446744073709551641", b"\xb2\xb5", b"25.0", b"25,")}
        cases["two lengths"] = self.start(b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n") + body
        cases["the same twice"] = self.start(b"Content-Length: " + n + b"\r\nContent-Length: " + n + b"\r\n\r\n") + body
        cases["length, coding"] = self.start(b"Content-Length: " + n + b"\r\nTransfer-Encoding: chunked\r\n\r\n") + b"0\r\n\r\n"
        cases["coding, length"] = self.start(b"Transfer-Encoding: chunked\r\nContent-Length: " + n + b"\r\n\r\n") + b"0\r\n\r\n"
        cases["blank before colon"] = self.start(b"Content-Length : " + n + b"\r\n\r\n") + body
        self.check(cases)

    def test_codings(self):
        """B081: a coding that is not just "chunked" is refused."""
        chunks = b'19\r\n{"source":"a","text":"b"}\r\n0\r\n\r\n'
        self.check({value: self.start(b"Transfer-Encoding: " + value + b"\r\n\r\n") + chunks
                    for value in (b"xchunked", b"chunked, chunked", b"gzip, chunked", b"identity", b"chunked;q=1", b"\x0bchunked",
                                  b"chunked, identity", b"\"chunked\"", b"")})
        self.check({"twice": self.start(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n") + chunks,
                    "1.0": self.start(b"Transfer-Encoding: chunked\r\n\r\n").replace(b"HTTP/1.1", b"HTTP/1.0", 1) + chunks})

    def test_chunks(self):
        """B081: odd chunk sizes and ends are refused."""
        body = b'{"source":"a","text":"b"}'
        head = self.start(b"Transfer-Encoding: chunked\r\n\r\n")
        self.check({size: head + size + b"\r\n" + body + b"\r\n0\r\n\r\n"
                    for size in (b"0x19", b"+19", b"-19", b"", b"g", b" 19", b"1 9", b"fffffffffffffffffff", b"19,")})
        self.check({"no end of chunk": head + b"19\r\n" + body + b"0\r\n\r\n"})

    def test_chunks_of_doubt(self):
        """F26: a bare LF or an extension in a chunk's line is refused, or is exactly one request."""
        body = b'{"source":"a","text":"b"}'
        head = self.start(b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        for data in (b"19\n" + body + b"\r\n0\r\n\r\n", b"19\r\n" + body + b"\n0\r\n\r\n", b"19;a=b\r\n" + body + b"\r\n0\r\n\r\n",
                     b'19;a="x\r\n0\r\n\r\n' + body + b"\r\n0\r\n\r\n", b"19\r\n" + body + b"\r\n0\r\nX: y\r\n\r\n",
                     b"19\r\n" + body + b"\r\n0\n\n", b"00000000019\r\n" + body + b"\r\n0\r\n\r\n"):
            for unix in BOTH:
                result = self.talk(head + data + self.smuggled(), unix)
                self.assertTrue(result.is_closed, result)
                self.assertLessEqual(len(result.final), 1, result)
                self.assertIn(result.status, REFUSED | {200, None}, result)
        self.assert_unchanged()

    def test_header_lines(self):
        """B081: NUL, folding, bare LF, bare CR, no colon, blanks in names: refused."""
        cases = {"NUL": b"X: a\0b\r\n", "NUL name": b"X\0: b\r\n", "fold": b"X: a\r\n b\r\n", "fold tab": b"X: a\r\n\tb\r\n",
                 "fold first": b" X: a\r\n", "no colon": b"garbage\r\n", "no name": b": x\r\n", "blank name": b"X y: z\r\n",
                 "blank before colon": b"X : z\r\n", "control": b"X: a\x01b\r\n", "bare CR": b"X: a\rb\r\n",
                 "bare LF": b"X: a\nTransfer-Encoding: chunked\r\n", "high name": b"X\xe9: a\r\n", "paren": b"X(: a\r\n",
                 "DEL": b"X: a\x7f\r\n", "CR CR": b"X: a\r\r\n"}
        self.check({name: self.start(line + b"Content-Length: 25\r\n\r\n") + b'{"source":"a","text":"b"}'
                    for name, line in cases.items()})

    def test_doubled_fields(self):
        """F26: fields that decide something may stand once."""
        token = self.service.agent.encode()
        for field in (b"Host: localhost", b"Authorization: Bearer " + token, b"Content-Type: application/json"):
            self.check({field[:20]: self.start(field + b"\r\nContent-Length: 25\r\n\r\n") + b'{"source":"a","text":"b"}'})
        for field in (b"Origin: http://localhost", b"If-Match: \"a\"", b"Idempotency-Key: a", b"Sec-Fetch-Site: none",
                      b"Expect: 100-continue"):
            line = field + b"\r\n" + field + b"\r\n"
            self.check({field[:20]: self.start(line + b"Content-Length: 25\r\n\r\n") + b'{"source":"a","text":"b"}'})

    def test_request_lines(self):
        """F26: a request line that is not plain is refused."""
        rest = b"\r\nHost: localhost\r\nAuthorization: Bearer " + self.service.agent.encode() + b"\r\n\r\n"
        for line in (b"GET  /healthz HTTP/1.1", b"GET /healthz  HTTP/1.1", b" GET /healthz HTTP/1.1", b"GET\t/healthz\tHTTP/1.1",
                     b"GET /healthz HTTP/2.0", b"GET /healthz HTTP/1.2", b"GET /healthz HTTP/1.", b"GET /healthz http/1.1",
                     b"GET /healthz HTTP/1.1 x", b"GET /healthz", b"GET", b"GET /heal thz HTTP/1.1", b"G\0T /healthz HTTP/1.1",
                     b"GET /healthz\0 HTTP/1.1", b"G\xc3\x89T /healthz HTTP/1.1", b"GET healthz HTTP/1.1", b"GET * HTTP/1.1",
                     b"GET http://localhost/healthz HTTP/1.1", b"GET http://evil.example/healthz HTTP/1.1",
                     b"CONNECT evil.example:443 HTTP/1.1", b"GET ?x HTTP/1.1", b"\x16\x03\x01\x02\x00 / HTTP/1.1"):
            for unix in BOTH:
                result = self.talk(line + rest + self.smuggled(), unix, timeout=30)
                self.assertLessEqual(len(result.final), 1, f"{line} {result}")
                self.assertIn(result.status, REFUSED | {None}, f"{line} {result}")
                self.assertTrue(result.is_closed, line)
        self.assert_unchanged()

    def test_pipelining(self):
        """F26: two requests at once get two answers, in order; a refused one ends the connection."""
        first = request("GET", "/healthz", [("Host", "localhost")])
        for unix in BOTH:
            result = self.talk(first + first + get("/v1/status", self.service.agent), unix)
            self.assertEqual([a.status for a in result.final], [200, 200, 200])
            self.assertEqual(result.final[0].body, b'{"status":"ok"}')
            self.assertIn(b"uptime_s", result.final[2].body)
            result = self.talk(first + self.start(b"Content-Length: +1\r\n\r\n") + self.smuggled(), unix)
            self.assertEqual([a.status for a in result.final], [200, 400])
        self.assert_unchanged()

    def test_refused_body_is_not_a_request(self):
        """F26: the body of a refused request never becomes the next request."""
        inner = self.smuggled()
        for head in (post("/v1/nope", self.service.agent, inner), post("/v1/status", self.service.agent, inner),
                     post(f"/v1/sessions/{self.session}/scan", None, inner), post("/v1/sessions", "gh_wrong", inner),
                     post("/v1/sessions", self.service.agent, inner, host="evil.example"),
                     post("/v1/sessions", self.service.agent, inner).replace(b"application/json", b"text/plain", 1)):
            for unix in BOTH:
                data = head.replace(b"Connection: close\r\n", b"", 1)
                result = self.talk(data + get("/healthz"), unix)
                self.assertLessEqual(len([a for a in result.final if a.status < 300]), 1, result)
                self.assertGreaterEqual(result.final[0].status, 400)
        self.assert_unchanged()

    def test_large_heads(self):
        """F26: heads beyond the limit are refused, whatever they are made of."""
        host = b"Host: localhost\r\n"
        for name, head in {"64 KiB line": b"X: " + b"a" * 65536 + b"\r\n", "1 MB line": b"X: " + b"a" * 1000000 + b"\r\n",
                           "100000 lines": b"X: y\r\n" * 100000, "long name": b"X" * 100000 + b": y\r\n",
                           "40 KiB cookie": b"Cookie: " + b"c" * 40960 + b"\r\n"}.items():
            for unix in BOTH:
                result = self.talk(b"GET /healthz HTTP/1.1\r\n" + host + head + b"\r\n", unix)
                self.assertIn(result.status, REFUSED | {None}, f"{name} {result}")
                self.assertTrue(result.is_closed)
        for target in ("/" + "a" * 9000, "/" + "a" * 100000, "/v1/audit?text=" + "a" * 9000, "/v1/audit?" + "a=b&" * 2000):
            for unix in BOTH:
                result = self.talk(get(target, self.service.approver), unix)
                self.assertIn(result.status, {400, 414, 431, None}, f"{target[:30]} {result}")
        self.assertEqual(self.service.call("GET", "/healthz").status, 200)

    def test_cookies(self):
        """contract 1: 16 KiB of foreign cookies do no harm, in one line or many."""
        small = [("Cookie", f"c{i}=" + "v" * 500) for i in range(30)]
        for unix in BOTH:
            for cookies in ([("Cookie", "; ".join(f"c{i}=" + "v" * 1000 for i in range(16)))], [("Cookie", "x" * 16384)], small):
                for target in ("/", "/healthz", "/v1/status"):
                    result = self.talk(get(target, self.service.agent, more=cookies), unix)
                    self.assertEqual(result.status, 200, f"{target} {result}")
                body = b'{"source":"a","text":"b"}'
                path = f"/v1/sessions/{self.session}/scan"
                self.assertEqual(self.talk(post(path, self.service.agent, body, more=cookies), unix).status, 200)

    def test_body_limits(self):
        """F28: a body over the limit is refused by its length, or when it gets there; below it is read."""
        limit = 4 << 20
        path = f"/v1/sessions/{self.session}/scan"
        for unix in BOTH:
            fits = b'{"source":"a","text":"' + b"x" * (limit - 24) + b'"}'
            self.assertEqual(len(fits), limit)
            self.assertEqual(self.talk(post(path, self.service.agent, fits), unix).status, 200)
            over = self.talk(post(path, self.service.agent, fits + b" "), unix)
            self.assertEqual((over.status, over.is_closed), (413, True))
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(fits[i:i + 65536]), fits[i:i + 65536]) for i in range(0, limit, 65536))
            chunked = self.start(b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
            self.assertEqual(self.talk(chunked + chunks + b"0\r\n\r\n", unix).status, 200)
            self.assertEqual(self.talk(chunked + chunks + b"1\r\n \r\n0\r\n\r\n", unix).status, 413)
            endless = self.talk(chunked + chunks * 8 + b"0\r\n\r\n", unix)
            self.assertIn(endless.status, (413, None), endless)


class Hosts(Edge):
    def test_bad_hosts(self):
        """F03: names that are not ours are refused on every route, with and without a token."""
        for unix in BOTH:
            for host in BAD_HOSTS:
                for target in ("/", "/app.js", "/healthz", "/v1/status", "/openapi.json", "/nope"):
                    result = self.talk(get(target, self.service.approver, host=host), unix)
                    self.assert_refused(result, {400, 403})
            for data in (get("/v1/status", self.service.approver, host=None),
                         get("/v1/status", self.service.approver, more=[("Host", "localhost")]),
                         get("/v1/status", self.service.approver, more=[("Host", "evil.example")]),
                         request("GET", "/v1/status", [("Authorization", "Bearer " + self.service.approver)], version="HTTP/1.0"),
                         get("http://evil.example/v1/status", self.service.approver),
                         get("http://localhost/v1/status", self.service.approver, host="evil.example")):
                self.assert_refused(self.talk(data, unix), {400, 403})
        self.assert_unchanged()

    def test_good_hosts(self):
        """F03: our names with any port work (a tunnel's port differs)."""
        for unix in BOTH:
            for host in GOOD_HOSTS:
                for port in ("", ":7717", ":1", ":65535", f":{self.service.port}"):
                    result = self.talk(get("/v1/status", self.service.agent, host=host + port), unix)
                    self.assertEqual(result.status, 200, host + port)

    def test_refusals_name_the_setting(self):
        """F03: the refusal says which setting adds a name, and never repeats the name."""
        result = self.talk(get("/v1/status", self.service.agent, host="evil.example"))
        self.assertIn(b"allowed_hosts", result.final[0].body)
        self.assertNotIn(b"evil", result.final[0].body)
        result = self.talk(get("/v1/status", self.service.agent, more=[("Origin", "http://evil.example")]))
        self.assertIn(b"allowed_origins", result.final[0].body)
        self.assertNotIn(b"evil", result.final[0].body)

    def test_foreign_origins(self):
        """F02: a foreign Origin is 403 for every method, and gets no CORS header."""
        for unix in BOTH:
            for origin in BAD_ORIGINS:
                for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
                    for target in ("/", "/healthz", "/v1/sessions", "/v1/events"):
                        more = [("Origin", origin), ("Access-Control-Request-Method", "POST"),
                                ("Access-Control-Request-Private-Network", "true")]
                        result = self.talk(get(target, self.service.agent, method=method, more=more), unix)
                        self.assertEqual(result.status, 403, f"{method} {target} {origin} {result}")
        self.assert_unchanged()

    def test_rebound_origin(self):
        """F04: an Origin that equals an evil Host is refused, since the Host is looked at by itself."""
        for unix in BOTH:
            for name in ("evil.example", "evil.example:7717", "127.0.0.1.nip.io"):
                data = get("/v1/status", self.service.agent, host=name, more=[("Origin", "http://" + name)])
                self.assertEqual(self.talk(data, unix).status, 403)

    def test_simple_posts(self):
        """B071: what a foreign page can send without a preflight does nothing."""
        body = json.dumps({"working_dir": self.service.project}).encode()
        for unix in BOTH:
            for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json"):
                for more in ([("Origin", "https://evil.example")], [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")],
                             [("Sec-Fetch-Site", "same-site")], [("Cookie", "token=" + self.service.agent)]):
                    headers = [("Host", "localhost"), ("Content-Type", kind), ("Content-Length", str(len(body)))]
                    result = self.talk(request("POST", "/v1/sessions", headers + more + [("Connection", "close")], body), unix)
                    self.assertIn(result.status, (401, 403), result)
        self.assert_unchanged()

    def test_fetch_metadata(self):
        """F13: another site's page may link to ours, and nothing else."""
        visit = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")]
        for unix in BOTH:
            self.assertEqual(self.talk(get("/", more=visit), unix).status, 200)
            for target in ("/app.js", "/style.css", "/healthz", "/v1/status"):
                self.assertEqual(self.talk(get(target, self.service.agent, more=visit), unix).status, 403, target)
            for mode, dest in (("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("navigate", "embed"),
                               ("no-cors", "script"), ("websocket", "websocket"), ("navigate", "")):
                more = [("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", mode), ("Sec-Fetch-Dest", dest)]
                self.assertEqual(self.talk(get("/", more=more), unix).status, 403, f"{mode} {dest}")
            for site, status in (("same-origin", 200), ("none", 200), ("cross-site", 403), ("same-site", 403), ("x", 403)):
                result = self.talk(get("/v1/status", self.service.agent, more=[("Sec-Fetch-Site", site)]), unix)
                self.assertEqual(result.status, status, site)

    def test_live_channel(self):
        """F11: the event stream asks for the same, and an upgrade never happens."""
        upgrade = [("Upgrade", "websocket"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("Sec-WebSocket-Version", "13")]
        for unix in BOTH:
            evil = [("Origin", "https://evil.example")]
            self.assertEqual(self.talk(get("/v1/events", self.service.agent, more=evil), unix).status, 403)
            self.assertEqual(self.talk(get("/v1/events"), unix).status, 401)
            for kind in ("websocket", "h2c", "TLS/1.0"):
                for target in ("/", "/v1/status", "/nope"):
                    more = [("Upgrade", kind)] + upgrade[1:]
                    data = get(target, self.service.agent, more=more).replace(b"Connection: close", b"Connection: Upgrade, close")
                    result = self.talk(data, unix)
                    self.assertNotEqual(result.answers[0].status, 101)
                    self.assertEqual(len(result.answers), 1)
                    result = self.talk(get(target, self.service.agent, more=more + evil), unix)
                    self.assertEqual(result.status, 403)
            result = self.talk(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", unix)
            self.assertIn(result.status, REFUSED | {None})

    def test_health_tells_nothing(self):
        """F10: the open health answer is constant: no version, no pid, no echo."""
        bodies = set()
        for unix in BOTH:
            for more in ([], [("Origin", "http://localhost")], [("User-Agent", "x<script>")], [("X-Forwarded-For", "1.2.3.4")]):
                for target in ("/healthz", "/healthz?token=x"):
                    answer = self.talk(get(target, more=more), unix).final[0]
                    bodies.add(answer.body)
                    for name, value in answer.fields:
                        self.assertNotIn(name.lower(), ("server", "x-powered-by"))
                        self.assertNotIn("script", value)
        self.assertEqual(bodies, {b'{"status":"ok"}'})
        self.assertEqual(self.service.call("GET", "/livez", token=None).status, 401)

    def test_page_and_assets(self):
        """F06, F30: the page has no secret in it, is not framed, and is not given to a foreign name."""
        secrets = [self.service.agent, self.service.approver]
        code = self.service.call("POST", "/v1/login/codes", {"role": "viewer"}, token="approver").json["code"]
        page = self.service.call("GET", "/", token=None)
        targets = {"/"} | set(re.findall(r'(?:href|src)="(/[^"]*)"', page.body))
        modules = list(targets)
        while modules:
            text = self.service.call("GET", modules.pop(), token=None).body
            new = {"/" + name for name in re.findall(r'from "\./([\w.-]+)"', text)} - targets
            targets |= new
            modules += new
        self.assertGreater(len(targets), 3)
        for target in sorted(targets):
            for unix in BOTH:
                answer = self.talk(get(target), unix).final[0]
                self.assertEqual(answer.status, 200, target)
                policy = answer.get("Content-Security-Policy")
                for rule in ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
                             "form-action 'none'", "script-src 'self'"):
                    self.assertIn(rule, policy)
                for secret in secrets + [code]:
                    self.assertNotIn(secret.encode(), answer.body)
                self.assertEqual(self.talk(get(target, host="evil.example"), unix).status, 403)
                self.assertEqual(self.talk(get(target, more=[("Origin", "http://evil.example")]), unix).status, 403)
                same = self.talk(get(target, more=[("If-None-Match", answer.get("ETag"))]), unix).final[0]
                self.assertEqual((same.status, same.body), (304, b""))


class Origins(Edge):
    config = {"listen": {"allowed_hosts": ["gate.example"], "allowed_origins": ["https://board.example"]}}

    def assert_safe(self, answer):
        """Here CORS headers are wanted."""

    def test_configured_host(self):
        """F03: a configured name works in any case with any port, and its neighbours do not."""
        for host, status in (("gate.example", 200), ("gate.example:8080", 200), ("GATE.example", 200), ("localhost", 200),
                             ("x.gate.example", 403), ("gate.example.evil", 403), ("gate.example.", 403)):
            self.assertEqual(self.talk(get("/v1/status", self.service.agent, host=host)).status, status, host)

    def test_configured_origin(self):
        """contract 2: a page of a configured origin may call, and its browser is told so."""
        more = [("Origin", "https://board.example"), ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "cors")]
        answer = self.talk(get("/v1/status", self.service.agent, more=more)).final[0]
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.get("Access-Control-Allow-Origin"), "https://board.example")
        self.assertIn("Origin", answer.get("Vary", ""))
        self.assertIsNone(answer.get("Access-Control-Allow-Credentials"))
        for data, status in ((get("/v1/status", more=more), 401), (get("/v1/nope", self.service.agent, more=more), 404),
                             (get("/v1/audit/export", self.service.approver, more=more), 200), (get("/healthz", more=more), 200)):
            answer = self.talk(data).final[0]
            self.assertEqual((answer.status, answer.get("Access-Control-Allow-Origin")), (status, "https://board.example"))
        without = self.talk(get("/v1/status", self.service.agent)).final[0]
        self.assertIsNone(without.get("Access-Control-Allow-Origin"))

    def test_preflight_of_configured_origin(self):
        """contract 2: its preflight is answered without a token, since browsers send none."""
        more = [("Origin", "https://board.example"), ("Access-Control-Request-Method", "PUT"),
                ("Access-Control-Request-Headers", "authorization, content-type, if-match")]
        answer = self.talk(get("/v1/approvals/apr_0/decision", method="OPTIONS", more=more)).final[0]
        self.assertIn(answer.status, (200, 204))
        self.assertEqual(answer.get("Access-Control-Allow-Origin"), "https://board.example")
        self.assertIn("PUT", answer.get("Access-Control-Allow-Methods", ""))
        allowed = answer.get("Access-Control-Allow-Headers", "").lower()
        for name in ("authorization", "content-type", "if-match"):
            self.assertIn(name, allowed)

    def test_other_origins(self):
        """F02: beside a configured origin, all others stay refused, and get no CORS header."""
        for origin in ("https://board.example.evil", "http://board.example", "https://board.example:444", "null",
                       "https://BOARD.example/", "https://evil.example"):
            answer = self.talk(get("/v1/status", self.service.agent, more=[("Origin", origin)])).final[0]
            self.assertEqual(answer.status, 403, origin)
            self.assertIsNone(answer.get("Access-Control-Allow-Origin"))


class Paths(Edge):
    ODD = ("/x/../v1/status", "//v1/status", "/v1//status", "/./v1/status", "/v1/./status", "/v1/../v1/status", "/v1/..;/status",
           "/V1/status", "/v1/Status", "/v1\\status", "/v1%5cstatus", "/v1/status%00", "/v1/status%00.js", "/v1/%2e%2e/v1/status",
           "/%2e/v1/status", "/v1/status/", "/v1/status/.", "/v1/status;x=1", "/v1/status.", "/v1/status%20", "/v1/status%09",
           "/v1/status%0d%0a", "/v1/status%", "/v1/status%zz", "/v1/status%2", "/v1/%252e%252e/status", "/v1/status%c0%ae",
           "/v1/status%ff", "/v1/status#x", "/v1/status/x", "/v1%2f%2fstatus", "/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd")

    def test_odd_paths(self):
        """F05: a path in disguise meets the same guard as the plain one, or is refused."""
        for unix in BOTH:
            for target in self.ODD:
                self.assert_refused(self.talk(get(target), unix), {400, 401})
                self.assert_refused(self.talk(get(target, self.service.approver), unix), {400, 404})
                self.assert_refused(self.talk(get(target, self.service.agent, more=[("Origin", "http://evil.example")]), unix), {400, 403})
                for method in ("PUT", "POST", "DELETE"):
                    self.assert_refused(self.talk(get(target, self.service.approver, method=method), unix), {400, 404, 405, 415})
        self.assert_unchanged()

    def test_encoded_plain_path(self):
        """F05: what decodes to a plain path is that path, with its guard."""
        for unix in BOTH:
            for target in ("/%76%31/status", "/v1/%73tatus", "/v1%2fstatus"):
                self.assertEqual(self.talk(get(target), unix).status, 401, target)
                self.assertIn(self.talk(get(target, self.service.agent), unix).status, (200, 400, 404), target)
                self.assertEqual(self.talk(get(target, self.service.agent, host="evil.example"), unix).status, 403)

    def test_asset_and_id_routes(self):
        """B087: no spelling of a path reaches a file, and none is a 500."""
        pieces = ("%2e%2e%2f", "..%2f", "..", "%252e%252e", "%00", "%c0%ae%c0%ae", "\\", "..\\", "a" * 8000, ";x=1", "x.", "", "%2f",
                  "~root", "$HOME", "%7e", "C:", "ses_%2e%2e")
        for unix in BOTH:
            for piece in pieces:
                for target in (f"/{piece}", f"/{piece}/etc/passwd", f"/app.js{piece}", f"/v1/sessions/{piece}", f"/v1/approvals/{piece}",
                               f"/v1/approvals/{piece}/diff", f"/v1/sessions/{self.session}/decisions/{piece}",
                               f"/v1/sessions/{self.session}/tools/{piece}/x"):
                    result = self.talk(get(target, self.service.approver), unix)
                    self.assertIn(result.status, (200, 400, 404, 414), f"{target[:60]} {result}")
                    self.assertNotIn(b"root:", result.final[0].body)
                    if result.status == 200:
                        self.assertIn(target, ("/", "/v1/sessions/", "/v1/approvals/", "/app.js"), result)
        self.assert_unchanged()

    def test_ids_of_others_and_odd_ids(self):
        """B087: ids have a fixed alphabet; anything else is simply not there."""
        for identity in ("ses_", "ses_0", "dec_" + "0" * 32, "ses_" + "0" * 200, self.session.upper(), self.session + "0", self.session[:-1],
                         "%73es_" + self.session[4:-1], "*", "%25", "%F0%9F%92%A9"):
            reply = self.service.call("GET", "/v1/sessions/" + identity, token="approver")
            self.assertEqual(reply.status, 404, identity)
            self.assertEqual(reply.json["code"], "not_found")

    def test_hostile_text_comes_back_as_text(self):
        """contract 1: nothing hostile is echoed into a problem but by pointer."""
        reply = self.service.call("POST", "/v1/sessions", {"<script>alert(1)</script>": 1})
        self.assertEqual(reply.headers["Content-Type"], "application/problem+json")
        self.assertEqual(reply.headers["X-Content-Type-Options"], "nosniff")
        for path in ("/v1/<script>", "/v1/%3Cscript%3E"):
            self.assertNotIn(b"script", talk(self.service, get(path, self.service.agent)).final[0].body)


class Json(Edge):
    def test_deep_and_wide(self):
        """B088: nesting, many keys, long numbers and strings get a clean 4xx; the service goes on."""
        path = f"/v1/sessions/{self.session}/scan"
        bodies = {
            "deep arrays": b'{"source":' + b"[" * 100000, "deep objects": b'{"a":' * 100000, "closed": b"[" * 100000 + b"]" * 100000,
            "keys": b"{" + b",".join(b'"k%d":1' % i for i in range(300000)) + b"}", "million": b"{" + b'"a":1,' * 1000000 + b"}",
            "50 MB": b'{"text":"' + b"x" * 50000000 + b'"}', "digits": b'{"source":' + b"9" * 3000000 + b"}",
            "more digits": b'{"source":' + b"9" * 10000000 + b"}", "exponent": b'{"source":1e999999999}', "minus": b'{"source":-}',
            "surrogate": b'{"source":"\\ud800","text":""}', "twice": b'{"source":"a","source":"b","text":"c"}',
            "bad utf-8": b'{"source":"\xc3\x28","text":"b"}', "overlong": b'{"source":"\xc0\xae","text":"b"}',
            "NUL": b'{"source":"a\\u0000b","text":"b"}', "raw NUL": b'{"source":"a\0b","text":"b"}', "empty": b"", "blank": b" ",
            "cut": b'{"source":"a', "control": b'{"source":"a\nb","text":"c"}',
        }
        for name, body in bodies.items():
            for unix in BOTH:
                result = self.talk(post(path, self.service.agent, body), unix)
                self.assert_refused(result, {400, 413, 422})
                self.assertEqual(json.loads(result.final[0].body)["status"], result.status, name)
        self.assert_unchanged()
        self.assertEqual(self.service.call("GET", "/healthz").status, 200)

    def test_depth_of_arguments(self):
        """F28: arguments may be nested, to a limit."""
        session = self.service.session()
        self.addCleanup(self.service.call, "DELETE", "/v1/sessions/" + session)
        for depth, status in ((10, 202), (60, 202), (70, 400), (5000, 400)):
            body = (b'{"tool":"write_file","action":"write","target":{"path":"a"},"arguments":' + b"[" * depth + b"]" * depth + b"}")
            path = f"/v1/sessions/{session}/decisions"
            self.assertEqual(self.talk(post(path, self.service.agent, body)).status, status, depth)

    def test_memory_comes_back(self):
        """B088: after a flood of large bodies the memory is not kept."""
        def resident_kib():
            with open(f"/proc/{self.service.process.pid}/status") as f:
                return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])

        with open(gh.BIN, "rb") as f:
            program = f.read()
        if b"__asan_init" in program or b"__tsan_init" in program:
            self.skipTest("a sanitizer keeps freed memory on purpose")
        path = f"/v1/sessions/{self.session}/scan"
        body = b"{" + b",".join(b'"k%d":1' % i for i in range(250000)) + b"}"
        self.talk(post(path, self.service.agent, body))
        first = resident_kib()
        for _ in range(40):
            self.assertEqual(self.talk(post(path, self.service.agent, body)).status, 400)
        self.assertLess(resident_kib(), first + 64 * 1024)


class Expectations(Edge):
    def head(self, length, expect="100-continue", token=None, path=None):
        return request("POST", path or f"/v1/sessions/{self.session}/scan", [
            ("Host", "localhost"), ("Authorization", "Bearer " + (token or self.service.agent)), ("Content-Type", "application/json"),
            ("Content-Length", str(length)), ("Expect", expect), ("Connection", "close")])

    def test_continue(self):
        """B082: 100 at once for what is wanted; then the answer to the body."""
        body = b'{"source":"a","text":"' + b"x" * 2000000 + b'"}'
        for unix in BOTH:
            with dial(self.service, unix) as sock:
                sock.sendall(self.head(len(body)))
                interim = sock.recv(25, socket.MSG_WAITALL)
                self.assertEqual(interim, b"HTTP/1.1 100 Continue\r\n\r\n")
                sock.sendall(body)
                self.assertEqual(Talk(*read_all(sock)).status, 200)

    def test_final_answer_without_the_body(self):
        """B082: what is refused by its head gets the final answer without a byte of the body."""
        for unix in BOTH:
            for data, status in ((self.head(2000000, token="gh_wrong"), {401, 429}), (self.head(2 << 30), {413}),
                                 (self.head(10, path="/v1/nope"), {404}), (self.head(10, expect="200-ok"), {417}),
                                 (self.head(10).replace(b"application/json", b"text/plain"), {415}),
                                 (self.head(10).replace(b"Host: localhost", b"Host: evil.example"), {403})):
                result = self.talk(data, unix)
                self.assert_refused(result, status)
                self.assertEqual(len(result.answers), 1, result)
                self.assertTrue(result.is_closed)

    def test_curl(self):
        """B082: curl, which asks before it sends large bodies, gets through."""
        import shutil
        import subprocess
        if shutil.which("curl") is None:
            self.skipTest("there is no curl")
        path = os.path.join(self.service.root, "body")
        with open(path, "wb") as f:
            f.write(b'{"source":"a","text":"' + b"x" * 2000000 + b'"}')
        for extra, status in (([], "200"), (["-H", "Authorization: Bearer gh_wrong"], "401")):
            headers = extra or ["-H", "Authorization: Bearer " + self.service.agent]
            for where in ([f"http://127.0.0.1:{self.service.port}"], ["--unix-socket", self.service.socket, "http://localhost"]):
                done = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", *headers, "-H", "Expect: 100-continue", "-H",
                                       "Content-Type: application/json", "--data-binary", "@" + path, *where[:-1],
                                       f"{where[-1]}/v1/sessions/{self.session}/scan"], capture_output=True, text=True, timeout=60)
                self.assertEqual(done.stdout, status, done.stderr)


class Relay:
    """A plain TCP relay on a port of its own, as a tunnel is one."""

    def __init__(self, service):
        self.service = service
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = dial(self.service)
            far.settimeout(None)
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    def pump(self, source, sink):
        try:
            while piece := source.recv(65536):
                sink.sendall(piece)
        except OSError:
            pass
        try:
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.listener.close()


class Tunnels(Edge):
    def test_relay(self):
        """B074: through a relay on another port the page's requests work: read, live, answer, sign in."""
        relay = Relay(self.service)
        self.addCleanup(relay.close)
        for name in ("localhost", "127.0.0.1"):
            host = f"{name}:{relay.port}"
            own = [("Origin", "http://" + host), ("Sec-Fetch-Site", "same-origin")]

            def through(data):
                return talk(self.service, data, port=relay.port).final[0]

            self.assertEqual(through(get("/", host=host)).status, 200)
            code = through(post("/v1/login/codes", self.service.approver, b'{"role":"approver"}', own, host)).body
            login = json.dumps({"code": json.loads(code)["code"]}).encode()
            answer = through(post("/v1/login", None, login, own, host))
            self.assertEqual(answer.status, 200, answer)
            token = json.loads(answer.body)["token"]
            with dial(self.service, port=relay.port) as stream:
                stream.sendall(request("GET", "/v1/events", [("Host", host), ("Authorization", "Bearer " + token)] + own))
                approval = self.service.write(self.session, "tunnelled").json["approval"]
                digest = self.service.approval(approval)["digest"]
                put = post(f"/v1/approvals/{approval}/decision", token, b'{"decision":"deny"}', own + [("If-Match", f'"{digest}"')],
                           host, method="PUT")
                self.assertEqual(through(put).status, 200)
                data = b""
                while b"approval.settled" not in data:
                    piece = stream.recv(65536)
                    self.assertTrue(piece, data)
                    data += piece
            for evil in (f"http://localhost.evil.example:{relay.port}", "http://evil.example", f"http://{name}:{relay.port + 1}"):
                self.assertEqual(through(get("/v1/status", token, host, [("Origin", evil)])).status, 403)

    def test_other_loopback_family(self):
        """B075: [::1] on the same port works, where there is IPv6."""
        try:
            sock = socket.create_connection(("::1", self.service.port), 30)
        except OSError as e:
            if "ddress" in str(e):
                self.skipTest(f"no IPv6 loopback: {e}")
            raise
        with sock:
            sock.sendall(get("/v1/status", self.service.agent, host=f"[::1]:{self.service.port}"))
            self.assertEqual(Talk(*read_all(sock)).status, 200)

    def test_v6_port_taken(self):
        """B075: where another program has the port on [::1], the address that is told is the v4 one, and works."""
        try:
            other = socket.create_server(("::1", 0), family=socket.AF_INET6)
        except OSError as e:
            self.skipTest(f"no IPv6 loopback: {e}")
        self.addCleanup(other.close)
        port = other.getsockname()[1]
        service = gh.Service(listen=f"127.0.0.1:{port}")
        self.addCleanup(service.close)
        service.start()
        self.assertEqual((service.host, service.port), ("127.0.0.1", port))
        self.assertEqual(service.call("GET", "/v1/status").status, 200)


if __name__ == "__main__":
    unittest.main()
