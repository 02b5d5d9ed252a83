"""The generators: each makes one request, from the seed alone, that a server must survive.

``GENERATORS`` maps a name to a weight and a function. Functions get a random source and the corpus; what they
return must depend on nothing else, so that a finding can be repeated.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlencode

from .client import Request
from .corpus import OBJECT, TARGET, Corpus, any_name
from .mutation import KEYS, VALUES, encode, nested, places, put, spoil, spoil_text

LIMIT: Final = 3 * 1024 * 1024
JSON: Final = (("Accept", "application/json"), ("Content-Type", "application/json"))
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
TYPES: Final = (
    *PATCHES,
    *(
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/cbor",
        "",
        "x",
    ),
    *("text/plain", "application/json;charset=latin-1", "APPLICATION/JSON", "application/apply-patch+cbor"),
)
ENVELOPE: Final = b"k8s\x00"


def headers(content_type: str, accept: str = "application/json") -> tuple[tuple[str, str], ...]:
    return (("Accept", accept), ("Content-Type", content_type))


def mutated(rng: random.Random, corpus: Corpus) -> Request:
    """A valid request with a few changes in its body."""
    template = rng.choice(corpus.bodies)
    body = encode(spoil(template.document, rng, rng.choice([1, 1, 1, 2, 3])))
    return template.request("mutated", body)


def mistyped(rng: random.Random, corpus: Corpus) -> Request:
    """One value of a valid write replaced, at any depth."""
    template = rng.choice(corpus.writes)
    document = json.loads(json.dumps(template.document))
    place = rng.choice(list(places(document)))
    return template.request("mistyped", encode(put(document, place, rng.choice(VALUES))))


def misdirected(rng: random.Random, corpus: Corpus) -> Request:
    """The body of one request sent to the path of another, or with another method or content type."""
    template, other = rng.choice(corpus.writes), rng.choice(corpus.templates)
    method = rng.choice([other.method, "POST", "PUT", "PATCH", "DELETE", "GET"])
    path = other.path + rng.choice(
        ["", "", "", "/", "/status", "/scale", "/nosuch", "/eviction", "/binding", "/token"]
    )
    return Request("misdirected", method, path, headers(rng.choice(TYPES)), template.data)


def malformed_json(rng: random.Random, corpus: Corpus) -> Request:
    template = rng.choice(corpus.writes)
    return template.request("malformed_json", spoil_text(template.data, rng))


def malformed_yaml(rng: random.Random, corpus: Corpus) -> Request:
    template = rng.choice([each for each in corpus.writes if each.method == "POST"])
    data = rng.choice(
        [
            spoil_text(template.data, rng),
            b"a: &a [x]\nb: *nosuch\n",
            b"!!python/object/apply:os.system [id]\n",
            b"<<: [1, 2]\n",
            b"a: !!binary '*'\n",
            b"? {a: b}\n: c\n",
            b"a: b: c\n\t- d\n",
            b"--- 1\n--- 2\n",
            b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {a: 1, a: 2, ~: x, true: y}\n",
            b"%YAML 9.9\n---\na: 1\n",
            "\ufeffkind: ConfigMap\n".encode("utf-16"),
        ]
    )
    return template.request("malformed_yaml", data, content_type="application/yaml")


def yaml_bomb(rng: random.Random, corpus: Corpus) -> Request:
    """Aliases that expand to gigabytes; upstream counts them and refuses."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    text = "\n".join(["apiVersion: v1", "kind: ConfigMap", "metadata: {name: bomb}", *lines]) + "\n"
    if rng.random() < 0.5:
        path = f"{corpus.core}/configmaps/bomb?fieldManager=f"
        return Request("yaml_bomb", "PATCH", path, headers("application/apply-patch+yaml"), text.encode())
    return Request(
        "yaml_bomb", "POST", f"{corpus.core}/configmaps", headers("application/yaml"), text.encode()
    )


def malformed_protobuf(rng: random.Random, corpus: Corpus) -> Request:
    path, method = f"{corpus.core}/configmaps", "POST"
    good = rng.choice(corpus.protobuf)
    data = rng.choice(
        [
            lambda: spoil_text(good, rng),
            lambda: ENVELOPE + spoil_text(good[4:], rng),
            lambda: ENVELOPE + rng.randbytes(rng.randrange(200)),
            lambda: rng.randbytes(rng.randrange(200)),
            lambda: ENVELOPE,
            lambda: b"",
            # a length that says more than there is, and a varint without end
            lambda: ENVELOPE + b"\x12\xff\xff\xff\xff\x7f",
            lambda: ENVELOPE + b"\x08" + b"\xff" * 50,
            lambda: _envelope("v1", "ConfigMap", b"\x0b" * 5000),
            lambda: _envelope("v1", "Nosuch", b""),
            lambda: _envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", _recursion(5000)),
        ]
    )()
    if b"CustomResourceDefinition" in data:
        path = CRDS
    return Request("malformed_protobuf", method, path, headers("application/vnd.kubernetes.protobuf"), data)


def _envelope(version: str, kind: str, raw: bytes) -> bytes:
    meta = _field(1, version.encode()) + _field(2, kind.encode())
    return ENVELOPE + _field(1, meta) + _field(2, raw)


def _field(number: int, data: bytes) -> bytes:
    length, size = b"", len(data)
    while size >= 0x80:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def _recursion(depth: int) -> bytes:
    """A message in a message in a message: a JSON schema's ``not``."""
    data = b""
    for _ in range(depth):
        data = b"\xea\x01" + _field(1, data)[1:]
    return _field(2, _field(7, _field(4, _field(1, data))))


def oversized(rng: random.Random, corpus: Corpus) -> Request:
    size = rng.choice([LIMIT + 1, LIMIT + 100_000])
    document = {"metadata": {"name": "big"}, "data": {"k": ""}}
    body = encode(document)
    body = body[:-3] + b"x" * (size - len(body)) + body[-3:]
    method, path, kind = rng.choice(
        [
            ("POST", f"{corpus.core}/configmaps", "application/json"),
            ("PUT", f"{corpus.core}/configmaps/a", "application/json"),
            ("PATCH", f"{corpus.core}/configmaps/a", "application/merge-patch+json"),
            ("POST", corpus.targets, "application/json"),
            ("DELETE", f"{corpus.core}/configmaps/nosuch", "application/json"),
        ]
    )
    return Request("oversized", method, path, headers(kind), body, expect=(413,))


def almost_oversized(rng: random.Random, corpus: Corpus) -> Request:
    """As large as allowed: read, understood, and refused for its meaning or stored."""
    value = "x" * (LIMIT - 500)
    spec = rng.choice(
        [{"slow": value}, {"slower": "a" * (LIMIT - 500)}, {"cel": "a" * 90_000}, {"free": {"a": value}}]
    )
    document = {**OBJECT, "metadata": {"generateName": "big-"}, "spec": spec}
    return Request("almost_oversized", "POST", corpus.targets, JSON, encode(document))


def deep(rng: random.Random, corpus: Corpus) -> Request:
    """Ten thousand levels where a value is expected."""
    inner = nested(rng.choice([200, 1000, 9_000, 10_001, 100_000]), rng.choice(["array", "object", "both"]))
    method, path, kind, body = rng.choice(
        [
            (
                "POST",
                f"{corpus.core}/configmaps",
                "application/json",
                b'{"metadata":{"name":"deep"},"data":%s}',
            ),
            ("POST", f"{corpus.core}/configmaps", "application/yaml", b"%s"),
            (
                "POST",
                corpus.targets,
                "application/json",
                b'{"apiVersion":"fuzz.example.com/v1","kind":"Target","metadata":{"name":"deep"},"spec":{"free":%s}}',
            ),
            ("PATCH", f"{corpus.targets}/a", "application/merge-patch+json", b'{"spec":{"free":{"x":%s}}}'),
            ("PATCH", f"{corpus.core}/pods/a", "application/strategic-merge-patch+json", b'{"spec":%s}'),
            (
                "PATCH",
                f"{corpus.core}/configmaps/a",
                "application/json-patch+json",
                b'[{"op":"add","path":"/data","value":%s}]',
            ),
            (
                "PATCH",
                f"{corpus.targets}/a?fieldManager=f&force=true",
                "application/apply-patch+yaml",
                b'{"apiVersion":"fuzz.example.com/v1","kind":"Target","metadata":{"name":"a"},"spec":{"free":%s}}',
            ),
            (
                "POST",
                CRDS,
                "application/json",
                b'{"metadata":{"name":"x"},"spec":{"versions":[{"schema":{"openAPIV3Schema":%s}}]}}',
            ),
            ("DELETE", f"{corpus.core}/configmaps/a", "application/json", b"%s"),
            (
                "PUT",
                f"{corpus.core}/configmaps/a",
                "application/json",
                b'{"metadata":{"name":"a","managedFields":[{"fieldsV1":%s}]}}',
            ),
        ]
    )
    return Request("deep", method, path, headers(kind), body % inner)


def selector(rng: random.Random, corpus: Corpus) -> Request:
    pieces = [
        "a",
        "b/c",
        "=",
        "==",
        "!=",
        "!",
        ",",
        "(",
        ")",
        " in ",
        " notin ",
        ">",
        "<",
        "\\",
        "1",
        "metadata.name",
    ]
    text = "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 12)))
    text = rng.choice(
        [text, text, text, text * 1000, "a in (" + ",".join(map(str, range(20000))) + ")", "\x00", "ä"]
    )
    name = rng.choice(["labelSelector", "fieldSelector"])
    path = rng.choice([f"{corpus.core}/configmaps", f"{corpus.core}/pods", corpus.targets, *corpus.lists])
    words = {name: text[:20000]} | rng.choice([{}, {}, {"watch": "1", "timeoutSeconds": "1"}])
    return Request(
        "selector", rng.choice(["GET", "GET", "GET", "DELETE"]), f"{path}?{urlencode(words)}", JSON
    )


def query(rng: random.Random, corpus: Corpus) -> Request:
    """Numbers, tokens and words in the query that are none."""
    numbers = ["", "0", "-1", "1", "abc", "1.5", "9" * 30, "0x1", " 1", "1e3", "true", "%00", str(2**63)]
    odd = [
        "",
        "x",
        "All",
        "all",
        "true",
        "1",
        "maybe",
        "\x00",
        "ä",
        "a" * 200,
        "[]",
        "Strict",
        "Orphan",
        "Exact",
    ]
    token = base64.urlsafe_b64encode(
        rng.choice(
            [
                b"",
                b"{}",
                b"[]",
                b"\xff",
                b'{"v":"meta.k8s.io/v1","rv":-1,"start":"../"}',
                b'{"v":"x","rv":"a"}',
                rng.randbytes(20),
            ]
        )
    ).decode()
    choices: dict[str, list[str]] = {
        "limit": numbers,
        "continue": [token, token.rstrip("="), *odd],
        "resourceVersion": [each for each in numbers if each != "9" * 30],
        "resourceVersionMatch": [*odd, "NotOlderThan"],
        "timeoutSeconds": ["0", "1", "-1", "abc", "1.5"],
        "watch": ["", "0", "false", "maybe", "1"],
        "sendInitialEvents": odd,
        "allowWatchBookmarks": odd,
        "dryRun": odd,
        "fieldManager": odd,
        "fieldValidation": odd,
        "force": odd,
        "gracePeriodSeconds": numbers,
        "propagationPolicy": odd,
        "orphanDependents": odd,
        "pretty": odd,
        "includeObject": odd,
    }
    names = rng.sample(list(choices), rng.choice([1, 1, 2, 3]))
    words = {name: rng.choice(choices[name]) for name in names}
    # A stream without an end would be no finding.
    if words.get("watch") is not None:
        words["timeoutSeconds"] = "1"
    template = rng.choice(corpus.templates)
    if template.method == "GET":
        template = rng.choice([each for each in corpus.templates if each.method == "GET"])
    return template.request("query", query={**template.query, **words})


def crd(rng: random.Random, corpus: Corpus) -> Request:
    """A CRD with changes; it gets another name, so that the good ones stay."""
    document = json.loads(json.dumps(rng.choice([*corpus.fixtures, TARGET])))
    plural = f"f{rng.randrange(20)}s"
    document["metadata"]["name"] = f"{plural}.{document['spec']['group']}"
    document["spec"]["names"] = {"plural": plural, "kind": plural.title()}
    document["spec"] = spoil(document["spec"], rng, rng.choice([1, 1, 2, 4]))
    if rng.random() < 0.3:
        name = quote(document["metadata"]["name"])
        return Request("crd", rng.choice(["PUT", "DELETE"]), f"{CRDS}/{name}", JSON, encode(document))
    # Stored definitions cost memory and time in all later runs, so most are only tried.
    dry = "" if rng.random() < 0.1 else "?dryRun=All"
    return Request("crd", "POST", CRDS + dry, JSON, encode(document))


_CEL: Final = (
    *(
        "self",
        "oldSelf",
        "self.a",
        "self.b[0]",
        "has(self.a)",
        "1",
        "-9223372036854775808",
        "1u",
        "1.5",
        "'a'",
        "b'a'",
    ),
    *(
        "true",
        "null",
        "[1]",
        "{'a': 1}",
        "x",
        "type(self)",
        "duration('1h')",
        "timestamp('2026-01-01T00:00:00Z')",
    ),
    *(
        "self.a.matches('(a+)+$')",
        "self.b.all(x, x > 0)",
        "self.b.map(x, x)",
        "size(self.a)",
        "quantity('1')",
    ),
    *(
        "'a'.format([1])",
        "lists.range(1000000000)",
        "self.a.split('')",
        "self.a.replace('', 'aaaa')",
        "dyn(1)",
    ),
    *(
        "self.a + self.a",
        "url('http://a')",
        "ip('::1')",
        "optional.of(1)",
        "'\\ud800'",
        "self.?a.orValue('')",
    ),
)
_OPERATORS: Final = (
    *(" + ", " - ", " * ", " / ", " % ", " == ", " != ", " < ", " in ", " && ", " || "),
    " ? ",
    " : ",
    ".",
)


def cel(rng: random.Random, corpus: Corpus) -> Request:
    """Rules that do not compile, never end, or cost too much."""
    rule = rng.choice(
        [
            lambda: (
                "".join(rng.choice(_CEL) + rng.choice(_OPERATORS) for _ in range(rng.randrange(1, 6)))
                + "true"
            ),
            lambda: "".join(
                rng.choice("abself.()[]{}'\"\\=!<>&|?:,0123 \n") for _ in range(rng.randrange(1, 60))
            ),
            lambda: "(" * 5000 + "true" + ")" * 5000,
            lambda: "!" * 5000 + "true",
            lambda: "-" * 5000 + "1 == 1",
            lambda: "[" * 2000 + "]" * 2000 + " == []",
            lambda: "self.b" + "".join(f".all(x{n}, self.b" for n in range(30)) + ".size() > 0" + ")" * 30,
            lambda: " || ".join(["self.a == 'x'"] * 5000),
            lambda: " + ".join(["self.a"] * 3000) + " == ''",
            lambda: "self" + ".a" * 5000,
            lambda: "true ? " * 3000 + "true" + " : false" * 3000,
            lambda: "'" + "a" * 100_000 + "' == self.a",
            lambda: "self.a.matches('" + "(" * 2000 + "a" + ")*" * 2000 + "')",
            lambda: "self.a.matches('a{1000}{1000}{1000}')",
            lambda: "lists.range(999999999).map(x, x).size() > 0",
            lambda: (
                "[1,2,3,4,5,6,7,8,9].map(a, [1,2,3,4,5,6,7,8,9].map(b, [1,2,3,4,5,6,7,8,9].map(c, [1,2,3,4,5,6,7,8,9].map(d, [1,2,3,4,5,6,7,8,9].map(e, [1,2,3,4,5,6,7,8,9].map(f, [1,2,3,4,5,6,7,8,9].map(g, a))))))).size() > 0"
            ),
        ]
    )()
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [
            {"rule": rule, **rng.choice([{}, {"messageExpression": rule}, {"fieldPath": rule}])}
        ],
    }
    return _crd_with(rng, "cel", schema)


def pattern(rng: random.Random, corpus: Corpus) -> Request:
    """Regular expressions that are wrong, huge, or slow to try."""
    text = rng.choice(
        [
            "(a+)+$", "^(a|a)*$", "(", "[", "*", "(?=a)", "(?<n>a)", "\\1", "a{99999}", "((a{100}){100}){100}", "\\p{Nosuch}",
            "[[:nosuch:]]", "(?P<a>x)(?P<a>y)", "\\C", "(" * 1500 + ")" * 1500, "a" * 50_000, "|" * 20_000, "[^\\x00-\\x{10FFFF}]", "x*" * 2000, "\x00",
        ]
    )  # fmt: skip
    schema = {
        "type": "object",
        "properties": {"p": {"type": "string", "pattern": text, "default": "a" * 5000 + "!"}},
    }
    return _crd_with(rng, "pattern", schema)


def _crd_with(rng: random.Random, kind: str, schema: dict[str, Any]) -> Request:
    document = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "probes.fuzz.example.com"},
        "spec": {
            "group": "fuzz.example.com",
            "scope": "Namespaced",
            "names": {"plural": "probes", "kind": "Probe"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    return Request(kind, "POST", f"{CRDS}?dryRun=All", JSON, encode(document))


def regex_input(rng: random.Random, corpus: Corpus) -> Request:
    """Values on which a backtracking engine would never come back."""
    size = rng.choice([30, 1000, 100_000])
    spec = rng.choice(
        [
            {"slow": "a" * size + "!"},
            {"slower": "a" * size + "!"},
            {"cel": "a" * min(size, 90_000) + "!"},
            {"list": [0] * rng.choice([1, 100, 100_000])},
            {"list": list(range(-1, 99))},
            {"set": [str(n) for n in range(size)]},
            {"set": ["a"] * size},
            {"keyed": [{"name": str(n % 7)} for n in range(min(size, 20_000))]},
            {"free": {str(n): n for n in range(min(size, 50_000))}},
            {"time": "9" * size},
            {"either": "9" * size},
        ]
    )
    document = {**OBJECT, "metadata": {"name": any_name(rng)}, "spec": spec}
    if rng.random() < 0.5:
        return Request("regex_input", "POST", f"{corpus.targets}?dryRun=All", JSON, encode(document))
    path = f"{corpus.targets}/{any_name(rng)}?fieldManager=f&force=true"
    return Request("regex_input", "PATCH", path, headers("application/apply-patch+yaml"), encode(document))


def json_patch(rng: random.Random, corpus: Corpus) -> Request:
    """Operations that are wrong, and copies that would double a document until memory ends."""
    paths = ["", "/", "/data", "/data/k", "/data/-", "/metadata", "/metadata/labels/a", "/x/y", "/data/~", "/data/~2", "/metadata/name", "/spec/containers/0", "/spec/containers/01", "/spec/containers/-1", "/spec/list/9999999999", "/a" * 5000]  # fmt: skip

    def operation() -> dict[str, Any]:
        step: dict[str, Any] = {
            "op": rng.choice(["add", "remove", "replace", "move", "copy", "test", "nosuch", ""])
        }
        step["path"] = rng.choice([*paths, *paths, None, 1])
        step |= rng.choice([{"value": rng.choice(VALUES)}, {"from": rng.choice(paths)}, {}])
        return step

    bomb = [{"op": "add", "path": "/spec/free/x", "value": "x" * 1000}]
    bomb += [{"op": "copy", "from": "/spec/free", "path": f"/spec/free/x{n}"} for n in range(60)]
    document = rng.choice(
        [
            lambda: [operation() for _ in range(rng.randrange(1, 4))],
            lambda: [operation() for _ in range(rng.randrange(1, 4))],
            lambda: bomb,
            lambda: [{"op": "test", "path": "/kind", "value": "x"}] * 10_001,
            lambda: rng.choice(VALUES),
        ]
    )()
    path = rng.choice(
        [
            f"{corpus.core}/configmaps/{any_name(rng)}",
            f"{corpus.targets}/{any_name(rng)}",
            f"{corpus.core}/pods/{any_name(rng)}",
        ]
    )
    return Request("json_patch", "PATCH", path, headers(PATCHES[0]), encode(document))


def merge_patch(rng: random.Random, corpus: Corpus) -> Request:
    """Merge, strategic and apply patches with directives and values that make no sense."""
    base = rng.choice(
        [
            {"data": {"k": "w"}, "metadata": {"labels": {"a": "b"}}},
            {"spec": {"containers": [{"name": "c", "image": "y:2"}]}, "metadata": {"finalizers": ["a.b/c"]}},
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "c"}],
                    "containers": [{"name": "c", "$patch": "delete"}],
                }
            },
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$retainKeys": ["name"]}},
            {
                "metadata": {
                    "managedFields": [
                        {
                            "manager": "m",
                            "operation": "Update",
                            "apiVersion": "v1",
                            "fieldsType": "FieldsV1",
                            "fieldsV1": {"f:data": {"f:k": {}}},
                        }
                    ]
                }
            },
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}]}},
            {"spec": {"replicas": 1, "keyed": [{"name": "a"}], "set": ["a"]}},
        ]
    )
    name = any_name(rng)
    collection = rng.choice([f"{corpus.core}/configmaps", f"{corpus.core}/pods", corpus.targets])
    kind = rng.choice(PATCHES[1:])
    if kind == PATCHES[3]:
        identity = {
            "configmaps": ("v1", "ConfigMap"),
            "pods": ("v1", "Pod"),
            "targets": ("fuzz.example.com/v1", "Target"),
        }
        version, word = identity[collection.rsplit("/", 1)[1]]
        base = {
            "apiVersion": version,
            "kind": word,
            **base,
            "metadata": {**base.get("metadata", {}), "name": name},
        }
    document = spoil(base, rng, rng.choice([0, 1, 1, 2]))
    words = {"fieldManager": rng.choice(["f", "g", "h"])} | rng.choice(
        [{}, {"force": "true"}, {"fieldValidation": "Strict"}]
    )
    if kind != PATCHES[3]:
        words.pop("force", None)
    path = f"{collection}/{name}{rng.choice(['', '', '/status', '/scale'])}?{urlencode(words)}"
    return Request("merge_patch", "PATCH", path, headers(kind), encode(document))


def target(rng: random.Random, corpus: Corpus) -> Request:
    """Custom resources with changes, by POST, PUT and apply."""
    name = any_name(rng)
    document = spoil({**OBJECT, "metadata": {"name": name}}, rng, rng.choice([1, 1, 2]))
    method, path, kind = rng.choice(
        [
            ("POST", f"{corpus.targets}?dryRun=All", "application/json"),
            ("PUT", f"{corpus.targets}/{name}", "application/json"),
            ("PATCH", f"{corpus.targets}/{name}?fieldManager=f&force=true", "application/apply-patch+yaml"),
            ("PUT", f"{corpus.targets}/{name}/status", "application/json"),
        ]
    )
    return Request("target", method, path, headers(kind), encode(document))


def path(rng: random.Random, corpus: Corpus) -> Request:
    """Paths that are long, strange, or only look like others."""
    pieces = ["api", "apis", "v1", "namespaces", corpus.namespace, "configmaps", "pods", "a", "..", ".", "", "%2e%2e", "%2F", "%00", "%zz", "%ff", "apps", "status", "openapi", "v3", "v2", "healthz", "watch", "é", "a" * 1000, "finalize", ";x=y", "*", "logs", "metrics", "version"]  # fmt: skip
    text = "/" + "/".join(rng.choice(pieces) for _ in range(rng.randrange(1, 10)))
    text = rng.choice(
        [
            text,
            text,
            text,
            "/" + "a" * 60_000,
            "/a" * 20_000,
            "/?" + "a=b&" * 10_000,
            "//",
            "/%",
            text + "?%",
            text + "?a=%zz",
        ]
    )
    return Request(
        "path",
        rng.choice(["GET", "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]),
        quote(text, safe="/%?=&;*~:+"),
        JSON,
    )


def accept(rng: random.Random, corpus: Corpus) -> Request:
    """Accept headers from pieces of real ones."""
    pieces = ["application/json", "application/yaml", "*/*", "application/vnd.kubernetes.protobuf", "as=Table", "v=v1", "g=meta.k8s.io", ";", ";", ",", "q=0.5", "q=x", "as=PartialObjectMetadata", "as=APIGroupDiscoveryList", "g=apidiscovery.k8s.io", "v=v2", "stream=watch", "", " ", "=", '"', "x" * 500]  # fmt: skip
    text = "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 9)))
    where = rng.choice(
        [
            *corpus.lists,
            "/api",
            "/apis",
            "/openapi/v3",
            "/openapi/v2",
            f"{corpus.core}/pods?watch=1&timeoutSeconds=1",
        ]
    )
    return Request("accept", "GET", where, (("Accept", text.strip()),))


def identity(rng: random.Random, corpus: Corpus) -> Request:
    """Impersonation headers and bearer tokens beside the certificate."""
    odd = [
        "",
        "alice",
        "system:anonymous",
        "system:serviceaccount:",
        "system:serviceaccount:a:b",
        "system:node:",
        "a" * 5000,
        "ä",
        "system:masters",
    ]
    names = ["Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-a%zz", "Impersonate-Extra-", "Impersonate-Extra-Scopes", "Authorization"]  # fmt: skip
    tokens = ["Bearer x", "Bearer ", "Basic YTpi", "bearer eyJhbGciOiJub25lIn0.e30.", "Bearer a.b.c", "Bearer " + "a" * 10_000, "Digest", "Bearer eyJhbGciOiJSUzI1NiJ9." + "e30." + "A" * 200]  # fmt: skip
    chosen = rng.sample(names, rng.randrange(1, 4))
    extra = tuple((name, rng.choice(tokens if name == "Authorization" else odd)) for name in chosen)
    return Request("identity", "GET", rng.choice([*corpus.lists, "/api", "/metrics"]), (*JSON, *extra))


def stranger(rng: random.Random, corpus: Corpus) -> Request:
    """No certificate and a bad token, or none: nothing but 401."""
    tokens = ["x", "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", "e30.e30.e30", "." * 500, "A" * 20_000, "eyJhbGciOiJIUzI1NiIsImtpZCI6IngifQ.e30.AAAA"]  # fmt: skip
    extra = rng.choice([(), (("Authorization", "Bearer " + rng.choice(tokens)),)])
    method = rng.choice(["GET", "POST", "DELETE"])
    where = rng.choice([f"{corpus.core}/configmaps", "/api", f"{corpus.core}/secrets"])
    return Request(
        "stranger", method, where, (*JSON, *extra), b"{}" if method == "POST" else b"", expect=(401,)
    )


def review(rng: random.Random, corpus: Corpus) -> Request:
    """Reviews, tokens, evictions and bindings: bodies that are not stored but worked on."""
    where, base = rng.choice(
        [
            ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "a"}}}),
            ("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"user": "a", "groups": ["b"], "nonResourceAttributes": {"path": "/x", "verb": "get"}}}),
            ("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}),
            ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "a.b.c", "audiences": ["x"]}}),
            ("/apis/authentication.k8s.io/v1/selfsubjectreviews", {"metadata": {}}),
            (f"{corpus.core}/serviceaccounts/default/token", {"spec": {"audiences": ["a"], "expirationSeconds": 600, "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "a"}}}),
            (f"{corpus.core}/pods/a/eviction", {"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": 0, "dryRun": ["All"]}}),
            (f"{corpus.core}/pods/b/binding", {"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n"}}),
        ]
    )  # fmt: skip
    return Request("review", "POST", where, JSON, encode(spoil(base, rng, rng.choice([1, 1, 2]))))


def metadata(rng: random.Random, corpus: Corpus) -> Request:
    """Labels, annotations, names and owners beyond their limits."""
    extra: dict[str, Any] = rng.choice(
        [
            {"annotations": {"a": "x" * 262_145}},
            {"annotations": {f"a{n}": "x" for n in range(50_000)}},
            {"labels": {f"l{n}": "x" for n in range(20_000)}},
            {"labels": {rng.choice(KEYS): rng.choice(VALUES)}},
            {"name": rng.choice(VALUES)},
            {"generateName": rng.choice(VALUES)},
            {"namespace": rng.choice(VALUES)},
            {"finalizers": [rng.choice(VALUES)]},
            {
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Event",
                        "name": "a",
                        "uid": "u",
                        "controller": rng.choice(VALUES),
                    }
                ]
            },
            {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": str(n), "uid": str(n)} for n in range(5000)
                ]
            },
            {
                "managedFields": [
                    {"manager": rng.choice(VALUES), "operation": "Update", "fieldsV1": rng.choice(VALUES)}
                ]
            },
            {
                "uid": rng.choice(VALUES),
                "resourceVersion": rng.choice(VALUES),
                "generation": rng.choice(VALUES),
            },
            {"creationTimestamp": rng.choice(VALUES), "deletionTimestamp": rng.choice(VALUES)},
        ]
    )
    body = encode({"metadata": {"name": any_name(rng), **extra}, "data": {"k": "v"}})
    if rng.random() < 0.5:
        return Request("metadata", "POST", f"{corpus.core}/configmaps?dryRun=All", JSON, body)
    return Request("metadata", "PUT", f"{corpus.core}/configmaps/{any_name(rng)}", JSON, body)


Generator = Callable[[random.Random, Corpus], Request]

GENERATORS: Final[dict[str, tuple[int, Generator]]] = {
    "mutated": (14, mutated),
    "mistyped": (14, mistyped),
    "misdirected": (6, misdirected),
    "malformed_json": (5, malformed_json),
    "malformed_yaml": (3, malformed_yaml),
    "yaml_bomb": (1, yaml_bomb),
    "malformed_protobuf": (5, malformed_protobuf),
    "oversized": (1, oversized),
    "almost_oversized": (1, almost_oversized),
    "deep": (2, deep),
    "selector": (6, selector),
    "query": (8, query),
    "crd": (5, crd),
    "cel": (4, cel),
    "pattern": (2, pattern),
    "regex_input": (3, regex_input),
    "json_patch": (5, json_patch),
    "merge_patch": (8, merge_patch),
    "target": (5, target),
    "path": (5, path),
    "accept": (4, accept),
    "identity": (3, identity),
    "stranger": (1, stranger),
    "review": (3, review),
    "metadata": (4, metadata),
}
