"""The OpenAPI document against the running service: all of it is true, and nothing is left out."""

import json
import os
import re
import time
import unittest

import gh
from schema import KNOWN, Shared, examples_of, without_auth_rows

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROLES = ("agent", "viewer", "approver", "metrics")
TEXT_TYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json",
              "application/jsonp", "application/problem+json", "application/*", "*/*", "json", "")


def source(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def table():
    """The routes of service/api/routes.c -> {(method, path): (operation, roles)}"""
    text = source("service/api/routes.c")
    rows = re.findall(r'\{HTTP_(\w+),\s*((?:S|"[^"]*")(?:\s*"[^"]*")*),\s*([A-Z_| ]+),\s*"(\w+)",\s*\w+\}', text)
    sets = {"API_ANYONE": (), "API_AGENT": ("agent",), "API_VIEWER": ("viewer",), "API_APPROVER": ("approver",),
            "API_METRICS": ("metrics",), "API_READERS": ("agent", "viewer", "approver"),
            "API_PEOPLE": ("viewer", "approver"), "API_LARGE": ()}
    found = {}
    for method, path, who, operation in rows:
        path = "".join(re.findall(r'"([^"]*)"', path.replace("S", '"/v1/sessions/{id}"', 1) if path[0] == "S" else path))
        found[method, path] = (operation, {role for name in who.split("|") for role in sets[name.strip()]})
    return found, text.count("{HTTP_")


class TheDocument(Shared):
    def test_it_is_served_as_written(self):
        """contract 10: /openapi.yaml is the file, byte for byte, and /openapi.json says the same."""
        reply = self.service.call("GET", "/openapi.yaml")
        self.assertEqual(reply.body, source("api/openapi.yaml"))
        self.assertEqual(self.document.raw["openapi"], "3.1.0")
        try:
            import yaml
        except ImportError:
            self.skipTest("the comparison of both forms needs python3-yaml")
        self.assertEqual(yaml.load(reply.body, yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader),
                         self.document.raw)

    def test_no_aliases(self):
        """contract 10: the service converts plain YAML only."""
        text = re.sub(r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"", "", source("api/openapi.yaml"))
        self.assertEqual(re.findall(r"(?m)^[^#\n]*(?:[:\-\[,{]\s)[&*][A-Za-z_].*$", text), [])

    def test_version(self):
        """contract 10: the document has the version of the service."""
        self.assertEqual(self.document.raw["info"]["version"], self.service.call("GET", "/v1/status").json["version"])

    def test_same_routes_as_the_table(self):
        """F01: every route is documented, and every documented one exists, with its operation and roles."""
        routes, n_rows = table()
        self.assertEqual(len(routes), n_rows, "a row of the table was not understood")
        documented = {(o.method, o.path): (o.id, set(o.roles)) for o in self.document.operations}
        self.assertEqual(documented, routes)
        for operation in self.document.operations:
            self.assertEqual(operation.is_open, not operation.roles, operation)

    def test_references_and_ids(self):
        """contract 10: every $ref leads somewhere and stands alone; operation ids are unique."""
        used = set()

        def walk(node):
            if isinstance(node, dict):
                if "$ref" in node:
                    self.assertEqual(list(node), ["$ref"], "members beside a $ref are read differently by tools")
                    self.document.resolve(node)
                    used.add(node["$ref"])
                for value in node.values():
                    walk(value)
            elif isinstance(node, list):
                for value in node:
                    walk(value)

        walk(self.document.raw)
        for kind in ("schemas", "parameters", "responses", "headers"):
            for name in self.document.raw["components"][kind]:
                by_event = any(name in o.raw["responses"].get("200", {}).get("x-event-data", {}).values()
                               for o in self.document.operations)
                self.assertTrue(f"#/components/{kind}/{name}" in used or by_event, f"{kind}/{name} is not used")
        ids = [o.id for o in self.document.operations]
        self.assertEqual(len(ids), len(set(ids)))

    def test_schemas_are_plain(self):
        """contract 10: no schema has a word in it that is none of JSON Schema (a comma in plain YAML makes one)."""

        def walk(schema, where):
            if "$ref" in schema:
                return
            self.assertLessEqual(set(schema), KNOWN, where)
            for name, member in schema.get("properties", {}).items():
                walk(member, f"{where}/{name}")
            for i, choice in enumerate(schema.get("oneOf", [])):
                walk(choice, f"{where}/{i}")
            if "items" in schema:
                walk(schema["items"], where + "/items")

        for name, schema in self.document.raw["components"]["schemas"].items():
            walk(schema, name)
        for operation in self.document.operations:
            contents = [self.document.resolve(r).get("content", {}) for r in operation.responses.values()]
            contents += [operation.raw["requestBody"]["content"]] if operation.body is not None else []
            for content in contents:
                for media in content.values():
                    walk(media["schema"], str(operation))
            for parameter in operation.parameters:
                self.assertLessEqual(set(parameter), {"name", "in", "required", "schema", "description"})
                walk(parameter["schema"], f"{operation} {parameter['name']}")

    def test_parameters_of_paths(self):
        """contract 10: the variables of a path are its path parameters."""
        for operation in self.document.operations:
            declared = {p["name"] for p in operation.parameters if p["in"] == "path"}
            self.assertEqual(declared, set(re.findall(r"\{([^}]*)\}", operation.path)), operation)
            for parameter in operation.parameters:
                self.assertTrue(parameter.get("required") or parameter["in"] != "path")

    def test_examples_fit(self):
        """contract 10: every example fits its schema."""
        n = 0

        def look(media, where):
            nonlocal n
            for example in examples_of(media):
                self.assertEqual(self.document.check(example, media["schema"]), [], where)
                n += 1

        for operation in self.document.operations:
            if operation.body is not None:
                self.assertTrue(operation.body_examples, operation)
                look(operation.raw["requestBody"]["content"]["application/json"], operation)
            for status, response in operation.responses.items():
                for kind, media in response.get("content", {}).items():
                    look(media, f"{operation} {status}")
        self.assertGreater(n, 200)

    def test_every_operation_is_described(self):
        """contract 10: summary, tag, success, 401 or open, 403 and the rest for each operation."""
        tags = {tag["name"] for tag in self.document.raw["tags"]}
        for operation in self.document.operations:
            self.assertTrue(operation.raw["summary"], operation)
            self.assertEqual(len(set(operation.raw["tags"]) & tags), 1, operation)
            statuses = set(operation.responses)
            self.assertTrue(any(s.startswith("2") for s in statuses), operation)
            self.assertIn("default", statuses, operation)
            self.assertIn("403", statuses, operation)
            self.assertTrue(operation.is_open or "401" in statuses, operation)
            if operation.body is not None:
                self.assertLessEqual({"400", "413", "415", "422"}, statuses, operation)
                self.assertIs(operation.raw["requestBody"]["required"], True)
            if "{" in operation.path:
                self.assertIn("404", statuses, operation)

    def test_bodies_are_closed(self):
        """contract 1: every object of a request says that other fields are refused."""

        def walk(schema, where):
            schema = self.document.resolve(schema)
            types = schema.get("type", [])
            if types == "object" or "object" in types:
                self.assertIs(schema.get("additionalProperties"), False, where)
            for name, member in schema.get("properties", {}).items():
                walk(member, f"{where}/{name}")
            for choice in schema.get("oneOf", []):
                walk(choice, where)
            if "items" in schema:
                walk(schema["items"], where + "/0")

        for operation in self.document.operations:
            if operation.body is not None:
                walk(operation.body, str(operation))

    def test_codes(self):
        """contract 1: the problem codes are those of the one list, and so are the decision codes."""
        slugs = re.findall(r'^X\(\w+, \d+, "(\w+)"', source("service/base/err.def"), re.M)
        self.assertEqual(self.document.schema("ProblemCode")["enum"], slugs)
        reasons = source("service/gate/kinds.c").split("reasons[GATE_N_REASONS] = {")[1].split("\n};")[0]
        codes = re.findall(r"\[GATE_R_\w+\]\s*=\s*\{\s*\"(\w+)\"", reasons)
        self.assertEqual(set(self.document.schema("DecisionCode")["enum"]), set(codes))
        for name, array in (("Action", "action_names"), ("Mode", "mode_names"), ("Tier", "tier_names"),
                            ("Verdict", "decision_names"), ("By", "by_names")):
            words = re.findall(r'"(\w+)"', source("service/gate/kinds.c").split(array + "[")[1].split("};")[0])
            self.assertEqual(set(self.document.schema(name)["enum"]), set(words) - {"none"}, name)


class Access(Shared):
    def body_of(self, operation):
        return {} if operation.body is not None else None

    def test_no_token(self):
        """F01: without a token every route is 401 but the fixed exceptions."""
        open_ones = set()
        for operation in self.document.operations:
            reply = self.service.call(operation.method, operation.url(), self.body_of(operation), token=None)
            if operation.is_open:
                open_ones.add(operation.path)
                self.assertNotEqual(reply.status, 401 if operation.id != "login" else 0, reply)
                continue
            self.assert_problem(reply, 401, "unauthorized")
            self.assertEqual(reply.headers["WWW-Authenticate"], "Bearer")
        self.assertEqual(open_ones, {"/healthz", "/v1/login"})

    def test_no_token_any_method(self):
        """B071: every path with every method, without a token or with a cookie only, says nothing of what exists."""
        session = self.service.session()
        bodies = set()
        for operation in self.document.operations:
            for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO"):
                for value in ("ses_0", session):
                    reply = self.raw(method, operation.url(value), {"Cookie": "token=" + self.service.approver})
                    if operation.is_open:
                        continue
                    self.assertEqual(reply.status, 401, f"{method} {operation.path} {reply}")
                    bodies.add(re.sub(r'"trace_id":"\w+"', "", reply.body))
        self.assertEqual(len(bodies - {""}), 1)

    def test_unknown_paths_without_token(self):
        """F01: what does not exist is 401 without a token too."""
        for path in ("/v1/", "/v1/nope", "/v2/sessions", "/admin", "/v1/sessions/a/b/c/d"):
            self.assert_problem(self.service.call("GET", path, token=None), 401)
            self.assert_problem(self.service.call("GET", path), 404, "not_found")

    def test_garbage_tokens(self):
        """F01: a wrong, cut, doubled or misplaced token is none."""
        good = self.service.agent
        for value in ("Bearer", "Bearer ", good, "Basic " + good, "Bearer " + good[:-1], "Bearer " + good + "0",
                      f"Bearer {good} {good}", "Bearer " + good.upper() if good != good.upper() else "Bearer x"):
            reply = self.raw("GET", "/v1/status", {"Authorization": value})
            self.assertIn(reply.status, (401, 429), value)

    def test_wrong_roles(self):
        """F17: every role that x-roles does not name is 403, and the others are not."""
        for operation in self.document.operations:
            if operation.is_open:
                continue
            for role in ROLES:
                url = operation.url()
                if operation.id == "decide" and role != "agent":
                    url += "?explain=true"
                reply = self.service.call(operation.method, url, self.body_of(operation), token=self.tokens[role],
                                          headers={"Accept": "application/json"})
                if role in operation.roles:
                    self.assertNotIn(reply.status, (401, 403), f"{operation} {role} {reply}")
                else:
                    self.assert_problem(reply, 403, "forbidden")

    def test_only_agents_ask_for_real(self):
        """F17: people may explain, and get 403 for a real decision; a misspelt explain is refused."""
        session = self.service.session()
        call = {"tool": "write_file", "action": "write", "target": {"path": "a"}}
        path = f"/v1/sessions/{session}/decisions"
        for role in ("viewer", "approver"):
            self.assert_problem(self.service.call("POST", path, call, token=self.tokens[role]), 403, "forbidden")
            self.assert_problem(self.service.call("POST", path + "?explain=false", call, token=self.tokens[role]), 403)
            self.assertEqual(self.service.call("POST", path + "?explain=true", call, token=self.tokens[role]).status, 200)
        self.assert_problem(self.service.call("POST", path + "?explain=1", call), 422, "invalid")
        self.assertEqual(self.service.pending(), [])

    def test_things_of_another_agent(self):
        """contract 2: what belongs to another agent is 404, with every method."""
        other = self.service.add_token("other", "agent")
        session = self.service.session()
        decision = self.service.write(session, "theirs").json
        ids = {"id": session, "decision": decision["id"], "grant": "grt_0", "name": "mine"}
        bodies = {"changeSession": {"title": "x"}, "registerTool": {"action": "read"}, "scan": {"source": "a", "text": "b"},
                  "decide": {"tool": "read_file", "action": "read", "target": {"path": "a"}},
                  "reportOutcome": {"status": "ok"}, "execute": {"program": "true"}, "sendInput": {"data": "x"}}
        for operation in self.document.operations:
            if "agent" not in operation.roles or "{" not in operation.path:
                continue
            of_approval = operation.path.startswith("/v1/approvals")
            url = re.sub(r"\{(\w+)\}", lambda m: decision["approval"] if of_approval else ids[m[1]], operation.path)
            reply = self.service.call(operation.method, url, bodies.get(operation.id), token=other)
            self.assert_problem(reply, 404, "not_found")
        self.assertEqual(self.service.call("GET", "/v1/sessions", token=other).json["items"], [])
        self.assertEqual(self.service.call("GET", "/v1/approvals?state=pending", token=other).json["items"], [])
        self.assertEqual(self.service.call("GET", "/v1/approvals", token=other).json["items"], [])


class Bodies(Shared):
    """Every request body, at every level."""

    def setUp(self):
        self.session = self.service.session()
        self.pending = self.service.write(self.session, "pending").json
        self.addCleanup(self.service.call, "DELETE", f"/v1/sessions/{self.session}")
        decision = self.service.decide(self.session, "read_file", "read", {"path": "a"}).json["id"]
        self.running = self.service.call("POST", f"/v1/sessions/{self.session}/executions",
                                         {"program": "cat", "interactive": True}).json["id"]
        base = f"/v1/sessions/{self.session}"
        approval = "/v1/approvals/" + self.pending["approval"]
        call = {"tool": "write_file", "action": "write", "target": {"path": "a"}, "diff": {"old": "", "new": "x"}}
        command = {"tool": "run_command", "action": "execute", "target": {"program": "ls", "args": [], "cwd": "."}}
        shell = {"tool": "shell", "action": "execute", "target": {"shell": "ls"}}
        move = {"tool": "move_file", "action": "move", "target": {"from": "a", "to": "b"}}
        fetch = {"tool": "web_fetch", "action": "network", "target": {"description": "https://example.org"}}
        parts = {"tool": "patch_file", "parts": [{"action": "write", "target": {"path": "a"}, "diff": {"new": "x"}},
                                                 {"action": "write", "target": {"path": "b"}, "diff": {"new": "y"}}]}
        opening = {"agent": "a", "working_dir": self.service.project, "external": {"agent": "a", "id": "never"},
                   "client": {"pid": 1}}
        self.bodies = [
            ("openSession", "/v1/sessions", "agent", opening),
            ("changeSession", base, "agent", {"title": "x"}),
            ("registerTool", base + "/tools/fresh", "agent", {"action": "read"}),
            ("scan", base + "/scan", "agent", {"source": "a", "text": "b"}),
            ("execute", base + "/executions", "agent", {"program": "ls", "args": [], "cwd": ".", "stdin": "x",
                                                        "network": "none", "interactive": False, "detached": False,
                                                        "background": True, "timeout_s": 5, "tool": "run_command"}),
            ("execute", base + "/executions", "agent", {"shell": "ls"}),
            ("execute", base + "/executions", "agent", {"decision": "dec_" + 32 * "0"}),
            ("sendInput", f"/v1/executions/{self.running}/stdin", "agent", {"data": "x", "eof": False}),
            ("reportOutcome", f"{base}/decisions/{decision}/outcome", "agent", {"status": "ok"}),
            ("settleApproval", approval + "/decision", "approver", {"decision": "allow"}),
            ("extendApproval", approval + "/extend", "approver", {"seconds": 1}),
            ("createLoginCode", "/v1/login/codes", "approver", {"role": "viewer"}),
            ("login", "/v1/login", None, {"code": "x"}),
        ] + [("decide", base + "/decisions", "agent", body) for body in (call, command, shell, move, fetch, parts)]

    def test_all_bodies_are_here(self):
        """contract 1: this class looks at every operation with a body."""
        self.assertEqual({b[0] for b in self.bodies}, {o.id for o in self.document.operations if o.body is not None})
        for operation, _, _, body in self.bodies:
            self.assertEqual(self.document.check(body, self.document.by_id(operation).body), [])

    def levels(self, body, at=""):
        yield at
        for name, value in body.items():
            if isinstance(value, dict):
                yield from self.levels(value, f"{at}/{name}")
            elif isinstance(value, list):
                for i, item in enumerate(value):
                    if isinstance(item, dict):
                        yield from self.levels(item, f"{at}/{name}/{i}")

    def with_field(self, body, at, name):
        copy = json.loads(json.dumps(body))
        node = copy
        for step in at.split("/")[1:]:
            node = node[int(step)] if isinstance(node, list) else node[step]
        node[name] = 1
        return copy

    def send(self, operation, path, token, body, **more):
        headers = {"If-Match": '"sha256-' + 64 * "0" + '"'} if operation == "settleApproval" else {}
        headers.update(more.pop("headers", {}))
        return self.service.call(self.document.by_id(operation).method, path, body, token=token, headers=headers, **more)

    def test_unknown_fields(self):
        """contract 1: an unknown field at any level is 400 and named by its JSON Pointer; nothing happens."""
        before = without_auth_rows(self.service)
        for operation, path, token, body in self.bodies:
            for at in self.levels(body):
                for name, escaped in (("unexpected", "unexpected"), ("a/b~c", "a~1b~0c"), ("", ""), ("Tool", "Tool")):
                    with self.subTest(operation=operation, at=at, name=name):
                        reply = self.send(operation, path, token, self.with_field(body, at, name))
                        problem = self.assert_problem(reply, 400, "unknown_field")
                        self.assertEqual([e["pointer"] for e in problem["errors"]], [f"{at}/{escaped}"])
        self.assertEqual(without_auth_rows(self.service), before)

    def test_media_types(self):
        """F09: any type but application/json is 415 and nothing happens."""
        before = without_auth_rows(self.service)
        for operation, path, token, body in self.bodies:
            secret = {"agent": self.service.agent, "approver": self.service.approver}.get(token)
            data = json.dumps(body).encode()
            for kind in TEXT_TYPES + (None,):
                headers = {"Authorization": "Bearer " + secret} if secret else {}
                if kind is not None:
                    headers["Content-Type"] = kind
                with self.subTest(operation=operation, kind=kind):
                    reply = self.raw(self.document.by_id(operation).method, path, headers, data)
                    self.assert_problem(reply, 415, "unsupported_media_type")
        self.assertEqual(without_auth_rows(self.service), before)
        self.assertEqual(self.service.approval(self.pending["approval"])["state"], "pending")

    def test_media_type_with_charset(self):
        """F09: application/json with a charset, in any case, is taken."""
        for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"):
            reply = self.service.call("POST", f"/v1/sessions/{self.session}/scan", {"source": "a", "text": "b"},
                                      headers={"Content-Type": kind})
            self.assertEqual(reply.status, 200, kind)

    def test_not_json(self):
        """B088: what is no JSON object is 400 or 422 everywhere, and nothing happens."""
        before = without_auth_rows(self.service)
        broken = (b"", b"{", b"nul", b'{"a":1,"a":2}', b'{"a":"\xff"}', b'{"a":"\\ud800"}', b'{"a":"\\u0000"}',
                  b"{} x", b"\xef\xbb\xbf{}", b'{"a":' + b"[" * 500 + b"]" * 500 + b"}", b"{'a':1}", b'{"a":NaN}')
        for operation, path, token, _ in self.bodies:
            for data in broken:
                with self.subTest(operation=operation, data=data[:20]):
                    self.assert_problem(self.send(operation, path, token, None, raw=data), 400, "bad_json")
            for data in (b"[]", b'"x"', b"1", b"null", b"true"):
                with self.subTest(operation=operation, data=data):
                    reply = self.send(operation, path, token, None, raw=data)
                    self.assertIn(reply.status, (400, 422), reply)
                    self.assert_problem(reply, reply.status)
        self.assertEqual(without_auth_rows(self.service), before)

    def test_wrong_types(self):
        """contract 1: a field of a wrong type is 422 and named."""
        before = without_auth_rows(self.service)
        for operation, path, token, body in self.bodies:
            for name, value in body.items():
                for wrong in (True, [], {}, 7.5, "x\n") if name != "arguments" else ():
                    schema = self.document.resolve(self.document.by_id(operation).body)["properties"][name]
                    if not self.document.check(wrong, schema):
                        continue
                    with self.subTest(operation=operation, name=name, wrong=wrong):
                        reply = self.send(operation, path, token, {**body, name: wrong})
                        if (operation, name) == ("login", "code") and reply.status in (401, 429):
                            continue
                        problem = self.assert_problem(reply, 422)
                        self.assertTrue(problem["errors"][0]["pointer"].startswith("/" + name), problem)
        self.assertEqual(without_auth_rows(self.service), before)

    def test_missing_fields(self):
        """contract 1: a required field that is missing or null is 422 and named."""
        for operation, path, token, body in self.bodies:
            for name in self.document.resolve(self.document.by_id(operation).body).get("required", []):
                for left in ({k: v for k, v in body.items() if k != name}, {**body, name: None}):
                    with self.subTest(operation=operation, name=name):
                        problem = self.assert_problem(self.send(operation, path, token, left), 422, "invalid")
                        self.assertEqual(problem["errors"][0]["pointer"], "/" + name)

    def test_either_parts_or_target(self):
        """contract 5: a call has one form, and a target exactly one."""
        path = f"/v1/sessions/{self.session}/decisions"
        part = {"action": "write", "target": {"path": "a"}}
        for body in ({"tool": "patch_file", "parts": [part]}, {"tool": "patch_file", "parts": [part] * 257},
                     {"tool": "patch_file", "parts": [part, part], **part}, {"tool": "patch_file"},
                     {"tool": "patch_file", **part, "target": {}},
                     {"tool": "patch_file", "action": "write", "target": {"program": "ls"}},
                     {"tool": "x y", **part}, {"tool": "", **part}, {"tool": "write_file", "action": "read",
                                                                     "target": {"path": "a"}},
                     {"tool": "write_file", **part, "mode": "act"}, {"tool": "write_file", **part, "wait_s": 121},
                     {"tool": "write_file", **part, "wait_s": -1}, {"tool": "write_file", **part, "deadline_s": 0},
                     {"tool": "write_file", **part, "on_deadline": "ticket"}):
            with self.subTest(body=str(body)[:80]):
                self.assert_problem(self.service.call("POST", path, body), 422, "invalid")
        for target in ({"path": "a", "program": "b"}, {"path": "a", "description": "b"}, {"shell": "a", "program": "b"},
                       {"from": "a", "to": "b", "path": "c"}):
            reply = self.service.call("POST", path, {"tool": "t", "action": "write", "target": target})
            self.assertIn(reply.status, (400, 422), target)


class Reads(Shared):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.session = cls.service.session()
        cls.decision = cls.service.write(cls.session, "a", diff={"new": "x\n"}, detached=True).json
        cls.service.answer(cls.service.write(cls.session, "b").json["approval"], "allow_always")
        execution = cls.service.call("POST", f"/v1/sessions/{cls.session}/executions", {"program": "true"}).json
        cls.service.answer(execution["decision"]["approval"], "allow")
        cls.execution = execution["id"]
        cls.service.call("GET", f"/v1/executions/{cls.execution}?wait_s=50")

    def urls(self):
        for operation in self.document.operations:
            if operation.method == "GET":
                by_path = {"/v1/approvals": self.decision["approval"], "/v1/executions": self.execution}
                ids = {"id": by_path.get("/".join(operation.path.split("/")[:3]), self.session),
                       "decision": self.decision["id"]}
                yield operation, re.sub(r"\{(\w+)\}", lambda m: ids[m[1]], operation.path)

    def test_reads_change_nothing(self):
        """F14: every GET and HEAD three times: same state, same audit (but for auth rows)."""
        def state():
            approval = self.service.approval(self.decision["approval"])
            for moving in ("remaining_ms", "expires_at"):
                approval.pop(moving)
            return (without_auth_rows(self.service), approval, self.service.pending()[0]["digest"],
                    self.service.call("GET", f"/v1/sessions/{self.session}", token="approver").json,
                    self.service.call("GET", f"/v1/sessions/{self.session}/grants", token="approver").json)

        before = state()
        for operation, url in self.urls():
            for role in operation.roles or [None]:
                for method in ("GET", "HEAD") * 3:
                    reply = self.service.call(method, url, token=self.tokens.get(role), headers={"Accept": "application/json"})
                    self.assertIn(reply.status, (200, 202), f"{method} {url} {reply}")
        self.assertEqual(state(), before)

    def test_same_answer(self):
        """contract 6: the same GET twice is the same but for the time."""
        moving = ("remaining_ms", "uptime_s", "now")
        for path in (f"/v1/sessions/{self.session}", f"/v1/approvals/{self.decision['approval']}", "/v1/status",
                     "/v1/approvals?state=pending", "/v1/tokens", "/v1/config", "/v1/audit"):
            with self.subTest(path=path):
                texts = set()
                for _ in range(20):
                    text = self.service.call("GET", path, token="approver").body
                    texts.add(re.sub(r'"(%s)":("[^"]*"|\d+)' % "|".join(moving), "", text))
                    time.sleep(0.003)
                self.assertEqual(len(texts), 1)

    def test_head(self):
        """contract 1: HEAD is GET without the body."""
        for operation, url in self.urls():
            token = self.tokens[operation.roles[-1 if "approver" not in operation.roles else operation.roles.index("approver")]] \
                if operation.roles else None
            replies = [self.service.call(method, url, token=token, headers={"Accept": "application/json"})
                       for method in ("GET", "HEAD")]
            self.assertEqual(replies[1].body, "", url)
            self.assertEqual(replies[0].status, replies[1].status, url)
            for name in ("Content-Type", "ETag", "Location", "Cache-Control"):
                self.assertEqual(replies[0].headers[name], replies[1].headers[name], f"{url} {name}")
            if operation.id not in ("getStatus", "getMetrics", "exportAudit", "streamEvents", "followOutput"):
                self.assertEqual(replies[0].headers["Content-Length"], replies[1].headers["Content-Length"], url)

    def test_head_of_a_stream(self):
        """contract 10: HEAD of the event stream ends at once and opens nothing."""
        for _ in range(70):  # more than a token may have open
            reply = self.service.call("HEAD", "/v1/events", timeout=30)
            self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, "text/event-stream"))

    def test_method_not_allowed(self):
        """contract 1: 405 says in Allow what the path takes."""
        taken = {}
        for operation in self.document.operations:
            taken.setdefault(operation.path, set()).add(operation.method)
        for path, methods in taken.items():
            url = re.sub(r"\{(\w+)\}", "x", path)
            allowed = methods | ({"HEAD"} if "GET" in methods else set())
            for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} - allowed:
                reply = self.service.call(method, url)
                self.assertEqual(reply.status, 405, f"{method} {url} {reply}")
                self.assertEqual(set(reply.headers["Allow"].split(", ")), allowed, url)
                if method != "HEAD":
                    self.assert_problem(reply, 405, "method_not_allowed")


if __name__ == "__main__":
    unittest.main()
