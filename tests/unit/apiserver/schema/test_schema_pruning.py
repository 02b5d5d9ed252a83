"""Pruning: what is dropped, what stays, and how it is named."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.apiserver.schema.pruning import prune, unknown_fields
from quarterdeck.apiserver.schema.structural import compile_schema

Json = dict[str, Any]
STRING = {"type": "string"}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}


def pruned(schema: Json, spec: Any) -> tuple[Any, list[str]]:
    node = compile_schema({"type": "object", "properties": {"spec": schema}})
    obj = {"spec": spec}
    found = unknown_fields(obj, node)
    assert prune(obj, node) == found
    return obj["spec"], found


@pytest.mark.parametrize(
    ("schema", "spec", "left", "unknown"),
    [
        ({"type": "object", "properties": {"a": STRING}}, {"b": 1, "a": "x"}, {"a": "x"}, ["spec.b"]),
        (
            {"type": "array", "items": {"type": "object", "properties": {"a": STRING}}},
            [{"z": 1}, {"a": ""}, {"y": {"x": 1}}],
            [{}, {"a": ""}, {}],
            ["spec[0].z", "spec[2].y"],
        ),
        # map values are pruned, map keys are not
        (
            {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": STRING}}},
            {"k": {"a": "", "b": 1}},
            {"k": {"a": ""}},
            ["spec.k.b"],
        ),
        ({"type": "object", "additionalProperties": True}, {"k": {"b": 1}}, {"k": {}}, ["spec.k.b"]),
        ({"type": "object", "additionalProperties": False}, {"k": [{"b": 1}]}, {"k": [{}]}, ["spec.k[0].b"]),
        # preserved, but specified fields are pruned again
        ({"type": "object", **PRESERVE}, {"a": {"b": [{"c": 1}]}}, {"a": {"b": [{"c": 1}]}}, []),
        (
            {
                "type": "object",
                **PRESERVE,
                "properties": {"a": {"type": "object", "properties": {"k": STRING}}},
            },
            {"a": {"k": "", "x": 1}, "b": {"x": 1}},
            {"a": {"k": ""}, "b": {"x": 1}},
            ["spec.a.x"],
        ),
        # items of a preserved list are preserved
        (
            {"type": "array", **PRESERVE, "items": {"type": "object", "properties": {"a": STRING}}},
            [{"b": 1}],
            [{"b": 1}],
            [],
        ),
        # a wrong type has no known field
        (STRING, {"a": 1, "b": [{"c": 1}]}, {}, ["spec.a", "spec.b"]),
        (STRING, [[{"c": 1}]], [[{}]], ["spec[0][0].c"]),
        ({"type": "object"}, {"a": 1, "B": 1}, {}, ["spec.B", "spec.a"]),
    ],
)
def test_unknown_fields_are_dropped_and_named(schema: Json, spec: Any, left: Any, unknown: list[str]) -> None:
    assert pruned(schema, spec) == (left, unknown)


def test_the_root_keeps_what_makes_it_an_object() -> None:
    obj = {"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "a", "x": 1}, "extra": 1}
    assert prune(obj, compile_schema({"type": "object"})) == ["extra"]
    assert obj == {"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "a", "x": 1}}


def test_the_root_may_be_preserved() -> None:
    obj = {"kind": "Thing", "extra": {"x": 1}}
    assert prune(obj, compile_schema({"type": "object", **PRESERVE})) == []
    assert obj == {"kind": "Thing", "extra": {"x": 1}}


def test_names_are_case_sensitive() -> None:
    assert pruned({"type": "object", "properties": {"size": {"type": "integer"}}}, {"Size": 1}) == (
        {},
        ["spec.Size"],
    )


def test_embedded_resources_keep_their_metadata() -> None:
    schema = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"spec": {"type": "object", "properties": {"a": STRING}}},
    }
    spec = {"apiVersion": "v1", "kind": "Pod", "metadata": {"x": 1}, "spec": {"b": 1}, "status": {}}
    left = {"apiVersion": "v1", "kind": "Pod", "metadata": {"x": 1}, "spec": {}}
    assert pruned(schema, spec) == (left, ["spec.spec.b", "spec.status"])


def test_unknown_data_of_any_depth_is_dropped() -> None:
    deep: Any = {"x": 1}
    for _ in range(50_000):
        deep = [deep]
    spec, unknown = pruned({"type": "object", "properties": {"a": STRING}}, {"a": deep})
    assert len(unknown) == 1
    assert list(spec) == ["a"]
