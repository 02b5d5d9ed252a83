"""Patches of all four types that make no sense, or too much of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from .client import Request
from .corpus import Corpus, any_name
from .media import PATCHES, headers
from .mutation import VALUES, encode, spoil


def json_patch(rng: random.Random, corpus: Corpus) -> Request:
    """Operations that are wrong, and copies that would double a document until memory ends."""
    paths = [
        "/",
        "/data",
        "/data/k",
        "/data/-",
        "/metadata",
        "/metadata/labels/a",
        "/x/y",
        "/data/~",
        "/data/~2",
        "/metadata/name",
        "/spec/containers/0",
        "/spec/containers/01",
        "/spec/containers/-1",
        "/spec/list/9999999999",
        "",
        "/a" * 5000,
    ]

    def operation() -> dict[str, Any]:
        step: dict[str, Any] = {
            "op": rng.choice(["add", "remove", "replace", "move", "copy", "test", "nosuch", ""])
        }
        step["path"] = rng.choice([*paths, *paths, None, 1])
        step |= rng.choice([{"value": rng.choice(VALUES)}, {"from": rng.choice(paths)}, {}])
        return step

    bomb = [{"op": "add", "path": "/spec/free/x", "value": "x" * 1000}]
    bomb += [{"op": "copy", "from": "/spec/free", "path": f"/spec/free/x{n}"} for n in range(60)]
    makers: list[Callable[[], Any]] = [
        lambda: [operation() for _ in range(rng.randrange(1, 4))],
        lambda: [operation() for _ in range(rng.randrange(1, 4))],
        lambda: bomb,
        lambda: [{"op": "test", "path": "/kind", "value": "x"}] * 10_001,
        lambda: rng.choice(VALUES),
    ]
    document = rng.choice(makers)()
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
    base: dict[str, Any] = rng.choice(
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
