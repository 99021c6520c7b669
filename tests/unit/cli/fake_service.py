"""A service that answers what the contract says and remembers what it was asked. For tests only."""
import http.server
import json
import os
import socketserver
import sys
import threading
import urllib.parse

AGENT = "gh_" + "a" * 52
APPROVER = "gh_" + "b" * 52
SESSION = "ses_" + "0" * 20 + "sessionaaaaa"
DIGEST = "sha256-" + "1f3a90b2c4d5" + "0" * 52
DECISION_FIELDS = {"tool", "action", "target", "diff", "narration", "response_id", "mode", "deadline_s",
                   "wait_s", "parts", "arguments", "preview", "on_deadline", "detached"}


def approval(tail, **changes):
    item = {"id": "apr_" + "0" * (32 - len(tail)) + tail, "decision": "dec_" + "0" * 32,
            "session": SESSION, "agent": "claude-code", "title": "t", "state": "pending",
            "caller": "waiting", "tool": "run_command", "action": "execute",
            "target": {"program": "make", "args": ["all"], "cwd": "/w"}, "parts": [],
            "display": {"text": "make all", "hidden_characters": 0}, "preview": {"kind": "none"},
            "narration": "building", "why": "tier ask: no grant matches", "warning": None,
            "taint": None, "offered": ["allow", "allow_always", "deny"], "digest": DIGEST,
            "remaining_ms": 60000, "settled_at": None, "settled_by": None}
    item.update(changes)
    return item


def decision(verdict, by="rule", code="auto", **changes):
    item = {"id": "dec_" + "0" * 32, "session": SESSION, "decision": verdict, "tier": "ask", "by": by,
            "reason": "because", "code": code, "warning": None, "checkpoint": None, "approval": None}
    item.update(changes)
    return item


class Model:
    """What the fake answers with, and what it saw."""

    def __init__(self):
        self.seen = []
        self.first = decision("allow")
        self.later = []       # answers to polls, one each; the last stays
        self.approvals = []
        self.sessions = [{"id": SESSION, "agent": "x", "state": "active", "mode": "act",
                          "pending": 1, "tainted": True, "working_dir": "/w"}]
        self.settle = None    # (status, problem code) instead of settling
        self.events = []      # text of each connection to the stream
        self.finding_in = None
        self.version = "0.1.0"
        self.verify = {"ok": True, "checked": 3, "first_seq": 1, "last_seq": 3, "bad_seq": 0,
                       "reason": "", "last_hash": "00"}
        self.held = threading.Event()
        self.stop = threading.Event()

    def requests(self, method, part):
        return [r for r in self.seen if r["method"] == method and part in r["path"]]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model = None

    def log_message(self, *_):
        pass

    def address_string(self):
        return "local"

    def answer(self, status, body, kind="application/json", **headers):
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def problem(self, status, code, detail="It was refused."):
        self.answer(status, {"type": "about:blank", "title": "t", "status": status, "code": code,
                             "detail": detail, "trace_id": "0"}, "application/problem+json")

    def do_any(self):
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        url = urllib.parse.urlsplit(self.path)
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        role = {AGENT: "agent", APPROVER: "approver"}.get(token)
        seen = {"method": self.command, "path": self.path, "role": role, "headers": dict(self.headers),
                "body": json.loads(raw) if raw else None}
        self.model.seen.append(seen)
        if role is None:
            self.problem(401, "unauthorized", "A valid token is needed.")
        elif raw and self.headers.get("Content-Type") != "application/json":
            self.problem(415, "unsupported_media_type")
        else:
            self.route(seen, url.path.split("/")[1:], dict(urllib.parse.parse_qsl(url.query)))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_any

    def route(self, seen, parts, query):
        name = seen["method"].lower() + "_" + parts[-1]
        if len(parts) > 2 and parts[1] == "approvals" and len(parts) == 3:
            name = seen["method"].lower() + "_approval"
        if len(parts) > 3 and parts[3] == "decisions" and len(parts) == 5:
            name = "get_decision"
        if len(parts) == 5 and parts[3] == "grants":
            name = "delete_grant"
        if len(parts) == 3 and parts[1] == "sessions":
            name = seen["method"].lower() + "_session"
        getattr(self, name, lambda *_: self.problem(404, "not_found"))(seen, parts, query)

    def get_status(self, *_):
        self.answer(200, {"version": self.model.version, "uptime_s": 5,
                          "store": {"writable": True}, "listeners": [{"kind": "tcp"}]})

    def get_readyz(self, *_):
        self.answer(200, {"ready": True})

    def get_config(self, *_):
        self.answer(200, {"asks": {"timeout_s": 300}})

    def post_sessions(self, seen, *_):
        body = seen["body"]
        unknown = set(body) - {"agent", "working_dir", "external", "title", "mode"}
        if unknown or seen["role"] != "agent" or "Idempotency-Key" not in seen["headers"]:
            return self.problem(400, "unknown_field", str(unknown))
        return self.answer(201, {"id": SESSION, "working_dir": body["working_dir"], "mode": "act"})

    def get_sessions(self, _seen, _parts, query):
        items = [s for s in self.model.sessions if query.get("state") in (None, s["state"])]
        self.answer(200, {"items": items, "next_cursor": None})

    def get_session(self, *_):
        self.answer(200, {"id": SESSION, "working_dir": "/w", "mode": "act"})

    def patch_session(self, seen, *_):
        self.answer(200, {"id": SESSION, "mode": seen["body"]["mode"]})

    def delete_taint(self, *_):
        self.answer(200, {"tainted": False})

    def get_grants(self, *_):
        self.answer(200, {"items": [{"id": "grt_" + "0" * 24 + tail, "action": "write", "hits": 2,
                                     "target": {"path": "\x1b/a"}} for tail in ("first111", "second22")],
                          "next_cursor": None})

    def delete_grant(self, *_):
        self.send_response(204)
        self.end_headers()

    def post_decisions(self, seen, _parts, query):
        unknown = set(seen["body"]) - DECISION_FIELDS
        if unknown or "Idempotency-Key" not in seen["headers"]:
            return self.problem(400, "unknown_field", str(unknown))
        if query.get("explain") == "true":
            return self.answer(200, {"tiers": [{"tier": "deny_list", "matched": True,
                                                "detail": "entry \x1b[2J.env"}], "would": "deny"})
        waits = self.model.first["decision"] == "ask"
        return self.answer(202 if waits else 200, self.model.first)

    def get_decision(self, _seen, _parts, query):
        held = int(query["wait_s"])
        if held > 50:
            return self.problem(422, "invalid")
        self.model.held.set()
        answer = self.model.later.pop(0) if len(self.model.later) > 1 else self.model.later[0]
        if answer == "hold":
            self.model.stop.wait(min(held, 30))
            answer = decision("ask", approval=self.model.first["approval"])
        return self.answer(202 if answer["decision"] == "ask" else 200, answer)

    def get_approvals(self, _seen, _parts, query):
        items = [a for a in self.model.approvals if query.get("state") in (None, a["state"])]
        at = int(query.get("cursor", 0))
        more = at + 2 < len(items) and int(query["limit"]) == 1000
        self.answer(200, {"items": items[at:at + 2] if more or at else items,
                          "next_cursor": str(at + 2) if more else None})

    def find_approval(self, parts):
        return next((a for a in self.model.approvals if a["id"] == parts[2]), None)

    def get_approval(self, _seen, parts, _query):
        item = self.find_approval(parts)
        return self.answer(200, item) if item else self.problem(404, "not_found")

    def delete_approval(self, *_):
        self.answer(200, {"state": "cancelled"})

    def put_decision(self, seen, parts, _query):
        item = self.find_approval(parts)
        if seen["role"] != "approver":
            return self.problem(403, "forbidden")
        if "If-Match" not in seen["headers"]:
            return self.problem(428, "precondition_required")
        if seen["headers"]["If-Match"] != f'"{item["digest"]}"':
            return self.problem(412, "digest_mismatch")
        if self.model.settle:
            return self.problem(*self.model.settle, "Settled by somebody at some time.")
        item["state"] = {"allow": "allowed", "deny": "denied",
                         "allow_always": "allowed_always"}[seen["body"]["decision"]]
        return self.answer(200, item)

    def post_extend(self, seen, parts, _query):
        item = self.find_approval(parts)
        item["remaining_ms"] += seen["body"]["seconds"] * 1000
        self.answer(200, item)

    def get_events(self, _seen, _parts, _query):
        if not self.model.events:
            self.model.held.set()
            self.model.stop.wait(30)
            return None
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        text = self.model.events.pop(0)
        for i in range(0, len(text), 7):
            self.wfile.write(text[i:i + 7].encode())
            self.wfile.flush()
        return None

    def post_scan(self, seen, *_):
        at = seen["body"]["text"].find(self.model.finding_in) if self.model.finding_in else -1
        found = {"source": seen["body"]["source"], "marker": "ignore previous", "excerpt": "\x1b[2Jx",
                 "offset": at}
        self.answer(200, {"finding": found if at >= 0 else None, "tainted": at >= 0})

    def get_audit(self, *_):
        self.answer(200, {"items": [{"seq": 1, "at": "2025-01-01T00:00:00.000Z", "kind": "decision",
                                     "decision": "deny", "by": "rule", "action": "read",
                                     "body": {"target": {"path": "/w/\x1b[2J.env"}}}],
                          "next_cursor": "c1"})

    def get_export(self, *_):
        self.answer(200, '{"seq":1,"t":"\u009b31m\u202e"}\n{"seq":2}\n', "application/x-ndjson")

    def get_verify(self, *_):
        self.answer(200, self.model.verify)

    def post_codes(self, seen, *_):
        if seen["role"] != "approver":
            return self.problem(403, "forbidden")
        return self.answer(201, {"code": "c0dec0dec0dec0de", "expires_at": "2025-01-01T00:01:00.000Z"})


class Quiet(socketserver.ThreadingMixIn):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, client_address):
        """A client that leaves early breaks the pipe; anything else is a fault of the test."""
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
            super().handle_error(request, client_address)


class TcpServer(Quiet, http.server.HTTPServer):

    def server_bind(self):
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]


class UnixServer(Quiet, socketserver.UnixStreamServer):
    pass


class Service:
    """A state folder with run.json and tokens, and the fake behind it."""

    def __init__(self, state, over="unix"):
        self.state, self.model, self.over = state, Model(), over
        self.socket = os.path.join(state, "api.sock")
        os.makedirs(os.path.join(state, "tokens"), mode=0o700, exist_ok=True)
        os.chmod(state, 0o700)
        self.put("tokens/agent.token", AGENT + "\n")
        self.put("tokens/approver.token", APPROVER + "\n")
        self.start()

    def put(self, name, text):
        path = os.path.join(self.state, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)

    def start(self):
        handler = type("H", (Handler,), {"model": self.model})
        unix = self.over == "unix"
        old_mask = os.umask(0o177)
        self.server = UnixServer(self.socket, handler) if unix else TcpServer(("127.0.0.1", 0), handler)
        os.umask(old_mask)
        self.port = 7717 if unix else self.server.server_port
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot_id = file.read().strip()
        self.put("run.json", json.dumps({
            "pid": os.getpid(), "started_at": "2025-01-01T00:00:00.000Z", "boot_id": boot_id,
            "listen": f"127.0.0.1:{self.port}", "socket": self.socket if unix else ""}))
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def stop(self):
        self.model.stop.set()
        self.server.shutdown()
        self.server.server_close()
        for name in ("run.json", "api.sock"):
            if os.path.exists(os.path.join(self.state, name)):
                os.remove(os.path.join(self.state, name))
