"""Request bodies that are spoiled, unreadable, too large or too deep."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

from .client import Request
from .corpus import OBJECT, Corpus, any_name
from .media import CRDS, JSON, LIMIT, PATCHES, headers
from .mutation import KEYS, VALUES, encode, nested, places, put, spoil, spoil_text

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
    makers: list[Callable[[], bytes]] = [
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
    data = rng.choice(makers)()
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
