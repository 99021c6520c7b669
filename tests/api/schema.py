"""The OpenAPI document as tests use it: its operations, and checks of values against its schemas.

The checker knows the part of JSON Schema that the document uses, and refuses the rest, so that a
keyword it does not know cannot pass unseen. It is strict where clients are told to be lenient: a
member that the document does not name is an error, since it should be documented.
"""

import re
import unittest

import gh

KNOWN = {"type", "properties", "required", "enum", "items", "oneOf", "additionalProperties", "pattern", "const",
         "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "description", "format", "default"}

TYPES = {
    "null": lambda v: v is None,
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "string": lambda v: isinstance(v, str),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
}
METHODS = ("get", "put", "post", "patch", "delete")


class Operation:
    def __init__(self, document, path, method, raw, shared):
        self.document, self.path, self.method, self.raw = document, path, method.upper(), raw
        self.id = raw["operationId"]
        self.roles = raw["x-roles"]
        self.is_open = raw.get("security") == []
        self.parameters = [document.resolve(p) for p in shared + raw.get("parameters", [])]
        self.pattern = re.compile("^" + re.sub(r"\{[^}]*\}", "[^/]+", path) + "$")

    def __repr__(self):
        return f"{self.method} {self.path}"

    @property
    def responses(self):
        return {status: self.document.resolve(r) for status, r in self.raw["responses"].items()}

    @property
    def body(self):
        """-> the schema of the request's body, or None"""
        if "requestBody" not in self.raw:
            return None
        return self.raw["requestBody"]["content"]["application/json"]["schema"]

    @property
    def body_examples(self):
        content = self.raw["requestBody"]["content"]["application/json"] if self.body is not None else {}
        return examples_of(content)

    def url(self, value="ses_0"):
        return re.sub(r"\{[^}]*\}", value, self.path)


def examples_of(media):
    found = [media["example"]] if "example" in media else []
    return found + [e["value"] for e in media.get("examples", {}).values()]


class Document:
    def __init__(self, raw):
        self.raw = raw
        self.operations = [
            Operation(self, path, method, item[method], item.get("parameters", []))
            for path, item in raw["paths"].items() for method in METHODS if method in item]

    def resolve(self, node):
        while isinstance(node, dict) and "$ref" in node:
            at = self.raw
            for step in node["$ref"].removeprefix("#/").split("/"):
                at = at[step]
            node = at
        return node

    def find(self, method, path):
        path = path.split("?")[0]
        method = "GET" if method == "HEAD" else method
        for operation in self.operations:
            if operation.method == method and operation.pattern.match(path):
                return operation
        return None

    def by_id(self, operation_id):
        return next(o for o in self.operations if o.id == operation_id)

    def schema(self, name):
        return self.raw["components"]["schemas"][name]

    # ---- values against schemas ----

    def check(self, value, schema, at=""):
        """-> a list of what is wrong"""
        schema = self.resolve(schema)
        unknown = set(schema) - KNOWN
        if unknown:
            raise AssertionError(f"the checker does not know {unknown}")
        wrong = []
        if "type" in schema:
            types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            if not any(TYPES[t](value) for t in types):
                return [f"{at}: {value!r:.80} is not {types}"]
        if "const" in schema and value != schema["const"]:
            wrong.append(f"{at}: {value!r:.80} is not {schema['const']!r}")
        if "enum" in schema and value not in schema["enum"]:
            wrong.append(f"{at}: {value!r:.80} is none of {schema['enum']}")
        if "oneOf" in schema:
            wrong += self.check_one_of(value, schema["oneOf"], at)
        for kind, checker in ((str, check_text), (list, self.check_array), (dict, self.check_object)):
            if isinstance(value, kind):
                wrong += checker(value, schema, at)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if value < schema.get("minimum", value) or value > schema.get("maximum", value):
                wrong.append(f"{at}: {value} is out of bounds")
        return wrong

    def check_one_of(self, value, choices, at):
        results = [self.check(value, choice, at) for choice in choices]
        n = sum(not wrong for wrong in results)
        if n == 1:
            return []
        return [f"{at}: {n} of oneOf fit: " + " | ".join("; ".join(w[:3]) for w in results)]

    def check_array(self, value, schema, at):
        wrong = []
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            wrong.append(f"{at}: {len(value)} items")
        if "items" in schema:
            for i, item in enumerate(value):
                wrong += self.check(item, schema["items"], f"{at}/{i}")
        return wrong

    def check_object(self, value, schema, at):
        wrong = [f"{at}/{name} is missing" for name in schema.get("required", []) if name not in value]
        properties = schema.get("properties", {})
        for name, member in value.items():
            if name in properties:
                wrong += self.check(member, properties[name], f"{at}/{name}")
            elif schema.get("additionalProperties", "oneOf" in schema or "type" not in schema) is not True:
                wrong.append(f"{at}/{name} is not documented")
        return wrong


def check_text(value, schema, at):
    wrong = []
    if "pattern" in schema and not re.search(schema["pattern"], value):
        wrong.append(f"{at}: {value!r:.80} does not match {schema['pattern']}")
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        wrong.append(f"{at}: {len(value)} characters")
    return wrong


# ---- for tests of the document ----

def without_auth_rows(service):
    return [row for row in service.audit() if row["kind"] != "auth"]


class Shared(unittest.TestCase):
    """A service for the whole class, with a token of every role."""

    @classmethod
    def setUpClass(cls):
        cls.service = gh.Service().start()
        cls.addClassCleanup(cls.service.close)
        cls.tokens = {"agent": cls.service.agent, "approver": cls.service.approver,
                      "viewer": cls.service.add_token("looker", "viewer"),
                      "metrics": cls.service.add_token("scraper", "metrics")}
        cls.document = Document(cls.service.call("GET", "/openapi.json").json)

    def raw(self, method, path, headers, body=None):
        """Exactly these headers (beside Host and the length)."""
        connection = self.service.connection(timeout=60)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return gh.Reply(answer.status, answer.headers, answer.read().decode("utf-8", "replace"))
        finally:
            connection.close()

    def assert_problem(self, reply, status, code=None):
        self.assertEqual(reply.status, status, reply)
        self.assertEqual(reply.headers["Content-Type"], "application/problem+json")
        problem = reply.json
        self.assertEqual(self.document.check(problem, self.document.schema("Problem")), [])
        self.assertEqual(problem["status"], status)
        self.assertEqual(problem["type"], "urn:gatehouse:problem:" + problem["code"])
        if code is not None:
            self.assertEqual(problem["code"], code, reply)
        return problem
