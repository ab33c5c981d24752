#!/usr/bin/env python3
"""check_openapi.py OPENAPI URL USER MONTH admin=TOKEN bill=TOKEN read=TOKEN self=TOKEN: asks each operation of a running SNAPT,
with a token of each scope, with a wrong one and without, and holds the answers to the document. `self` is of USER. An answer
that differs, and an operation that has no example here, is told, and fails."""
import concurrent.futures
import json
import re
import sys
import urllib.error
import urllib.request

KINDS = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}
BOOKING = "check-openapi-%s"
SCOPES = ["read", "bill", "admin"]  # each may what those before it may
CROWD, CROWDS = 16, 20


def is_a(value, kind):
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, KINDS[kind])


def allows(operation, scope):
    named = re.findall("any|read|bill|admin|self", operation["description"].removeprefix("Scope: "))
    least = [one for one in SCOPES if one in named]
    return "any" in named or scope in named or bool(least) and scope in SCOPES[SCOPES.index(least[0]):]


class Checker:
    def __init__(self, document, url, user, tokens):
        self.document, self.url, self.user, self.tokens = document, url.rstrip("/"), user, tokens
        self.faults = []

    def resolve(self, schema):
        while "$ref" in schema:
            node = self.document
            for part in schema["$ref"].split("/")[1:]:
                node = node[part]
            schema = node
        return schema

    def compare(self, value, schema, where):
        schema = self.resolve(schema)
        kinds = schema.get("type", [])
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if kinds and not any(is_a(value, kind) for kind in kinds):
            self.faults.append(f"{where}: {value!r} is no {' or '.join(kinds)}")
            return
        if "enum" in schema and value not in schema["enum"]:
            self.faults.append(f"{where}: {value!r} is none of {schema['enum']}")
        if isinstance(value, list):
            for i, item in enumerate(value):
                self.compare(item, schema.get("items", {}), f"{where}[{i}]")
        if isinstance(value, dict):
            known = schema.get("properties", {})
            others = schema.get("additionalProperties", False)
            for name in schema.get("required", []):
                if name not in value:
                    self.faults.append(f"{where}: {name} is missing")
            for name, item in value.items():
                if name in known:
                    self.compare(item, known[name], f"{where}.{name}")
                elif others is False:
                    self.faults.append(f"{where}: {name} is not described")
                elif others is not True:
                    self.compare(item, others, f"{where}.{name}")

    def ask(self, method, path, body=None, key=None, token=""):
        headers = {"Authorization": "Bearer " + token} if token else {}
        if key:
            headers["Idempotency-Key"] = key
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=25) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers, answer.read()

    def hold(self, where, operation, answer, wanted):
        status, headers, text = answer
        if status not in wanted:
            self.faults.append(f"{where}: {status} instead of {wanted}: {text[:200]!r}")
            return
        if (status == 401) != (headers["WWW-Authenticate"] == "Bearer"):
            self.faults.append(f"{where}: {status} with WWW-Authenticate: {headers['WWW-Authenticate']}")
        responses = operation["responses"]
        described = self.resolve(responses.get(str(status), responses["default"])).get("content", {})
        kind = headers.get_content_type()
        if status == 204:
            return
        if kind not in described:
            self.faults.append(f"{where}: {kind} is not described")
        elif kind.endswith("json"):
            value = json.loads(text)
            self.compare(value, described[kind]["schema"], where)
            if kind == "application/problem+json" and value.get("status") != status:
                self.faults.append(f"{where}: {status} says {value.get('status')}")

    def check(self, token, method, path, want, query="", body=None, key=None, user=None):
        operation = self.document["paths"][path][method.lower()]
        real = path.replace("{user}", user or self.user).replace("{session}", "0" * 32)
        name = next((scope for scope, one in self.tokens.items() if one == token), "a wrong token" if token else "no token")
        self.hold(f"{method} {path}{query} ({name})", operation, self.ask(method, real + query, body, key, token), [want])

    def check_scopes(self, examples):
        """The first example of each operation with all tokens; what is not allowed is not looked at further."""
        first = {}
        for example in examples:
            first.setdefault(example[:2], example)
        for (method, path), (_, _, want, *rest) in first.items():
            for scope, token in self.tokens.items():
                is_allowed = allows(self.document["paths"][path][method.lower()], scope)
                self.check(token, method, path, want if is_allowed else 403, *rest)
            for token in "", self.tokens["admin"][:-2] + "__", self.tokens["self"] + "A":
                self.check(token, method, path, 401, *rest)
            if "{user}" in path:
                self.check(self.tokens["self"], method, path, 403, *rest, user="nobody")
        for path in "/v1/usage", "/v1/records":
            self.check(self.tokens["self"], "GET", path, 200, f"?user={self.user}")
            self.check(self.tokens["self"], "GET", path, 403, "?user=nobody")

    def check_crowd(self):
        """More questions of one token than may be under way: a page of flows behind the first takes its time."""
        operation = self.document["paths"]["/v1/flows"]["get"]
        for _ in range(CROWDS):
            with concurrent.futures.ThreadPoolExecutor(CROWD) as pool:
                answers = list(pool.map(lambda _: self.ask("GET", "/v1/flows?after=64", token=self.tokens["read"]), range(CROWD)))
            for answer in answers:
                self.hold("GET /v1/flows of a crowd", operation, answer, [200, 503])
            if any(answer[0] == 503 for answer in answers):
                return
        self.faults.append("GET /v1/flows of a crowd: no 503")

    def run(self, month):
        examples = [
            ("GET", "/v1/me", 200), ("GET", "/v1/status", 200), ("GET", "/v1/sessions", 200), ("GET", "/v1/flows", 200),
            ("GET", "/v1/flows", 200, "?after=64"), ("GET", "/v1/flows", 400, "?after=x"),
            ("GET", "/v1/usage", 200), ("GET", "/v1/usage", 200, "?by=user,class,snapt,day,app&zone=Asia/Kathmandu"),
            ("GET", "/v1/usage", 400, "?by=nothing"), ("GET", "/v1/usage", 400, "?nothing=1"),
            ("GET", "/v1/records", 200), ("GET", "/v1/records", 200, "?limit=1"),
            ("GET", "/v1/records", 200, "?format=csv"), ("GET", "/v1/records", 422, "?limit=0"),
            ("GET", "/v1/sinks", 200), ("GET", "/v1/users", 200), ("GET", "/v1/users/{user}/balance", 200),
            ("GET", "/v1/users/{user}/statement", 200, f"?month={month}"),
            ("GET", "/v1/users/{user}/statement", 200, f"?month={month}&format=csv"),
            ("GET", "/v1/users/{user}/statement", 200, f"?month={month}&format=html"),
            ("GET", "/v1/users/{user}/statement", 422), ("GET", "/v1/users/{user}/quota", 200),
            ("PUT", "/v1/users/{user}/quota", 200, "", {"quota": "50GiB/month"}),
            ("PUT", "/v1/users/{user}/quota", 422, "", {"quota": "much"}),
            ("POST", "/v1/users/{user}/topups", 200, "", {"amount": "50"}, BOOKING % 1),
            ("POST", "/v1/users/{user}/topups", 200, "", {"amount": "50"}, BOOKING % 1),
            ("POST", "/v1/users/{user}/topups", 409, "", {"amount": "51"}, BOOKING % 1),
            ("POST", "/v1/users/{user}/topups", 400, "", {"amount": "51"}),
            ("POST", "/v1/users/{user}/adjustments", 200, "", {"debit": "0.25", "note": "n"}, BOOKING % 2),
            ("POST", "/v1/users/{user}/adjustments", 422, "", {}, BOOKING % 3),
            ("DELETE", "/v1/sessions/{session}", 404), ("GET", "/metrics", 200)]
        for example in examples:
            self.check(self.tokens["admin"], *example)
        self.check_scopes(examples)
        self.check_crowd()
        asked = {(example[0].lower(), example[1]) for example in examples}
        for path, item in self.document["paths"].items():
            for method in item:
                if (method, path) not in asked:
                    self.faults.append(f"{method} {path}: no example here")
        return self.faults


def main():
    path, url, user, month, *tokens = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        faults = Checker(json.load(file), url, user, dict(token.split("=", 1) for token in tokens)).run(month)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
