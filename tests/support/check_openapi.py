#!/usr/bin/env python3
"""check_openapi.py OPENAPI URL TOKEN USER: asks each operation of a running SNAPT and holds the answers to the document.
An answer that differs, and an operation that has no example here, is told, and fails."""
import json
import sys
import time
import urllib.error
import urllib.request

KINDS = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}
BOOKING = "check-openapi-%s"


def is_a(value, kind):
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, KINDS[kind])


class Checker:
    def __init__(self, document, url, token, user):
        self.document, self.url, self.token, self.user = document, url.rstrip("/"), token, user
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

    def ask(self, method, path, body=None, key=None, token=None):
        headers = {"Authorization": "Bearer " + (token or self.token)}
        if key:
            headers["Idempotency-Key"] = key
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=25) as answer:
                return answer.status, answer.headers.get_content_type(), answer.read()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers.get_content_type(), answer.read()

    def check(self, method, path, want, query="", body=None, key=None):
        where = f"{method} {path}{query}"
        operation = self.document["paths"][path][method.lower()]
        real = path.replace("{user}", self.user).replace("{session}", "0" * 32)
        status, kind, text = self.ask(method, real + query, body, key)
        if status != want:
            self.faults.append(f"{where}: {status} instead of {want}: {text[:200]!r}")
            return
        responses = operation["responses"]
        described = self.resolve(responses.get(str(status), responses["default"]))["content"]
        if kind not in described:
            self.faults.append(f"{where}: {kind} is not described")
        elif kind.endswith("json"):
            self.compare(json.loads(text), described[kind]["schema"], where)

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
            ("GET", "/v1/nat", 200, "?ext=192.0.2.1:40000&at=" + str(int(time.time()))), ("GET", "/v1/nat", 422, "?ext=192.0.2.1"),
            ("GET", "/v1/nat", 404, "?ext=192.0.2.1:40000&at=1"), ("DELETE", "/v1/sessions/{session}", 404), ("GET", "/metrics", 200)]
        for example in examples:
            self.check(*example)
        asked = {(example[0].lower(), example[1]) for example in examples}
        for path, item in self.document["paths"].items():
            for method in item:
                if (method, path) not in asked:
                    self.faults.append(f"{method} {path}: no example here")
        return self.faults


def main():
    path, url, token, user, month = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        faults = Checker(json.load(file), url, token, user).run(month)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
