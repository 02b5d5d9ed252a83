"""Lists of type set and map."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.apiserver.schema.keyedlist import duplicate_errors
from quarterdeck.apiserver.schema.structural import compile_schema

Json = dict[str, Any]
SET = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
MAP = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "l": SET}},
}
TWO_KEYS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": {"type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string"}}},
}


def errors(schema: Json, value: Any) -> list[str]:
    node = compile_schema({"type": "object", "properties": {"spec": schema}})
    return [str(error) for error in duplicate_errors({"spec": value}, node)]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (SET, ["a", "b"], []),
        (SET, ["a", "a"], ['spec[1]: Duplicate value: "a"']),
        # one report per value, at its second occurrence
        (SET, ["a", "b", "a", "b", "a"], ['spec[2]: Duplicate value: "a"', 'spec[3]: Duplicate value: "b"']),
        # 1, true and "1" are three values
        (SET, [1, True, "1", 1.0, None], []),
        (SET, [1.5, 1.5, None, None], ["spec[1]: Duplicate value: 1.5", "spec[3]: Duplicate value: null"]),
        (SET, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], ['spec[1]: Duplicate value: {"a":1,"b":2}']),
        (SET, "no list", []),
        (MAP, [{"name": "a"}, {"name": "b"}], []),
        (MAP, [{"name": "a", "x": 1}, {"name": "a"}], ['spec[1]: Duplicate value: {"name":"a"}']),
        (MAP, [{}, {"x": 1}, None], ["spec[1]: Duplicate value: {}"]),
        (MAP, [{"name": 1}, {"name": 1}], ['spec[1]: Duplicate value: {"name":1}']),
        (
            MAP,
            [{"name": "a"}, 5],
            ["spec[1]: Invalid value: 5: must be an object for an array of list-type map"],
        ),
        (MAP, [{"name": "a", "l": ["x", "x"]}], ['spec[0].l[1]: Duplicate value: "x"']),
        (TWO_KEYS, [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}], []),
        (
            TWO_KEYS,
            [{"port": 80, "protocol": "TCP"}, {"protocol": "TCP", "port": 80}],
            ['spec[1]: Duplicate value: {"port":80,"protocol":"TCP"}'],
        ),
        (TWO_KEYS, [{"port": 80}, {"port": 80}], ['spec[1]: Duplicate value: {"port":80}']),
        # entries of maps are addressed with brackets here
        (
            {"type": "object", "additionalProperties": SET},
            {"k": ["a", "a"]},
            ['spec[k][1]: Duplicate value: "a"'],
        ),
        ({"type": "array", "items": {"type": "string"}}, ["a", "a"], []),
    ],
)
def test_duplicates(schema: Json, value: Any, expected: list[str]) -> None:
    assert errors(schema, value) == expected
