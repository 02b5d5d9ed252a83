"""Defaults, nulls and numbers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from quarterdeck.apiserver.schema.defaulting import default
from quarterdeck.apiserver.schema.structural import compile_schema

Json = dict[str, Any]


def defaulted(schema: Json, spec: Any) -> Any:
    obj = {"spec": copy.deepcopy(spec)}
    default(obj, compile_schema({"type": "object", "properties": {"spec": schema}}))
    return obj.get("spec", "absent")


def struct(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


TEXT = {"type": "string"}
DEFAULTED = {"type": "string", "default": "d"}


@pytest.mark.parametrize(
    ("schema", "spec", "expected"),
    [
        (struct(a=DEFAULTED), {}, {"a": "d"}),
        (struct(a=DEFAULTED), {"a": "x"}, {"a": "x"}),
        (struct(a=DEFAULTED), {"a": ""}, {"a": ""}),
        # only where the parent exists, unless the parent has a default of its own
        (struct(o=struct(a=DEFAULTED)), {}, {}),
        (struct(o=struct(a=DEFAULTED)), {"o": {}}, {"o": {"a": "d"}}),
        (struct(o={**struct(a=DEFAULTED), "default": {}}), {}, {"o": {"a": "d"}}),
        # in items and map values
        ({"type": "array", "items": struct(a=DEFAULTED)}, [{}, {"a": "x"}], [{"a": "d"}, {"a": "x"}]),
        ({"type": "object", "additionalProperties": struct(a=DEFAULTED)}, {"k": {}}, {"k": {"a": "d"}}),
        # null: not nullable with and without a default, nullable
        (struct(a=DEFAULTED), {"a": None}, {"a": "d"}),
        (struct(a=TEXT), {"a": None}, {}),
        (struct(a={**TEXT, "nullable": True}), {"a": None}, {"a": None}),
        (struct(a={**DEFAULTED, "nullable": True}), {"a": None}, {"a": None}),
        (struct(a={**DEFAULTED, "nullable": True}), {}, {"a": "d"}),
        ({"type": "object", "additionalProperties": TEXT}, {"k": None}, {}),
        ({"type": "object", "additionalProperties": DEFAULTED}, {"k": None}, {"k": "d"}),
        ({"type": "array", "items": DEFAULTED}, [None, "x"], ["d", "x"]),
        ({"type": "array", "items": TEXT}, [None], [None]),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"a": None}, {"a": None}),
        # a null default is no default
        (struct(a={**TEXT, "default": None}), {}, {}),
        # numbers as they come back from storage
        (struct(a={"type": "integer"}), {"a": 1.0}, {"a": 1}),
        (struct(a={"type": "number"}), {"a": 2.0}, {"a": 2}),
        (struct(a={"type": "number"}), {"a": 2.5}, {"a": 2.5}),
        (struct(a={"x-kubernetes-int-or-string": True}), {"a": 80.0}, {"a": 80}),
        (struct(a={"type": "integer"}), {"a": 2**63}, {"a": float(2**63)}),
        ({"type": "array", "items": {"type": "integer"}}, [1.0, 2], [1, 2]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"k": 1.0}, {"k": 1}),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            {"a": [{"b": 1.0}]},
            {"a": [{"b": 1}]},
        ),
        ({"x-kubernetes-preserve-unknown-fields": True}, 1.0, 1),
        # wrong types are left for validation
        (struct(a=DEFAULTED), "x", "x"),
        (struct(o=struct(a=DEFAULTED)), {"o": [1]}, {"o": [1]}),
    ],
)
def test_defaults_nulls_and_numbers(schema: Json, spec: Any, expected: Any) -> None:
    result = defaulted(schema, spec)
    assert result == expected
    assert repr(result) == repr(expected)


def test_a_missing_spec_stays_missing() -> None:
    obj: Json = {}
    default(obj, compile_schema(struct(spec=struct(a=DEFAULTED))))
    assert obj == {}


def test_every_object_gets_its_own_copy_of_a_default() -> None:
    node = compile_schema(
        struct(spec={**struct(l={"type": "array", "items": TEXT}), "default": {"l": ["a"]}})
    )
    first: Json = {}
    second: Json = {}
    default(first, node)
    first["spec"]["l"].append("b")
    default(second, node)
    assert second == {"spec": {"l": ["a"]}}


def test_compiling_leaves_the_crd_untouched() -> None:
    schema = struct(a={"type": "number", "default": 1.0, "enum": [1.0]})
    before = repr(schema)
    compile_schema(schema)
    assert repr(schema) == before
