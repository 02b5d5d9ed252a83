"""Definitions of custom resources, their rules and patterns, and objects that make these work hard."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from .client import Request
from .corpus import OBJECT, TARGET, Corpus, any_name
from .media import CRDS, JSON, headers
from .mutation import encode, spoil


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
    nine = "[1,2,3,4,5,6,7,8,9]"
    makers: list[Callable[[], str]] = [
        lambda: (
            "".join(rng.choice(_CEL) + rng.choice(_OPERATORS) for _ in range(rng.randrange(1, 6))) + "true"
        ),
        lambda: "".join(
            rng.choice("abself.()[]{}'\"\\=!<>&|?:,0123 \n") for _ in range(rng.randrange(1, 60))
        ),
        lambda: "(" * 5000 + "true" + ")" * 5000,
        lambda: "!" * 5000 + "true",
        lambda: "-" * 5000 + "1 == 1",
        lambda: "[" * 2000 + "]" * 2000 + " == []",
        lambda: "self.b" + "".join(f".all(x{n}, self.b" for n in range(30)) + ".size() > 0" + ")" * 30,
        lambda: " || ".join(["self.a == 'x'"] * 2500),
        lambda: " + ".join(["self.a"] * 3000) + " == ''",
        lambda: "self" + ".a" * 5000,
        lambda: "true ? " * 3000 + "true" + " : false" * 3000,
        lambda: "'" + "a" * 100_000 + "' == self.a",
        lambda: "self.a.matches('" + "(" * 2000 + "a" + ")*" * 2000 + "')",
        lambda: "self.a.matches('a{1000}{1000}{1000}')",
        lambda: "lists.range(999999999).map(x, x).size() > 0",
        lambda: "".join(f"{nine}.map(x{n}, " for n in range(7)) + "x0" + ")" * 7 + ".size() > 0",
    ]
    rule = rng.choice(makers)()
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
    texts = [
        "(a+)+$",
        "^(a|a)*$",
        "(",
        "[",
        "*",
        "(?=a)",
        "(?<n>a)",
        r"\1",
        "a{99999}",
        "((a{100}){100}){100}",
    ]
    texts += [r"\p{Nosuch}", "[[:nosuch:]]", "(?P<a>x)(?P<a>y)", r"\C", r"[^\x00-\x{10FFFF}]"]
    texts += ["(" * 1500 + ")" * 1500, "a" * 50_000, "|" * 20_000, "x*" * 2000, "\x00"]
    text = rng.choice(texts)
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
