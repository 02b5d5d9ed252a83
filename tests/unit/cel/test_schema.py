"""CEL types out of schemas."""

from __future__ import annotations

import pytest

from quarterdeck.cel import DYN, CelCompileError, Environment, escape_name, type_from_schema
from quarterdeck.cel.type.schema import build_shape


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ({"type": "string"}, "string"),
        ({"type": "integer", "format": "int32"}, "int"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "bool"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "date"}, "timestamp"),
        ({"type": "string", "format": "duration"}, "duration"),
        ({"type": "string", "format": "byte"}, "bytes"),
        ({"type": "string", "format": "uuid"}, "string"),
        ({"x-kubernetes-int-or-string": True}, "dyn"),
        ({"type": "array", "items": {"type": "string"}}, "list(string)"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map(string, int)"),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, "selfType"),
        ({"type": "array", "items": {"type": "object"}}, "list(selfType.@idx)"),
    ],
)
def test_schema_nodes_have_types(schema: dict[str, object], name: str) -> None:
    assert str(type_from_schema(schema)) == name


@pytest.mark.parametrize(
    "schema",
    [
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
        {"type": "array"},
    ],
)
def test_data_without_a_type_is_invisible(schema: dict[str, object]) -> None:
    assert build_shape(schema) is None
    assert type_from_schema(schema) == DYN
    outer = type_from_schema({"type": "object", "properties": {"x": schema}})
    with pytest.raises(CelCompileError, match="undefined field 'x'"):
        Environment({"self": outer}).compile("has(self.x)")


def test_a_resource_root_shows_little_of_metadata() -> None:
    t = type_from_schema(
        {"type": "object", "properties": {"metadata": {"type": "object"}}}, is_resource_root=True
    )
    environment = Environment({"self": t})
    environment.compile("self.kind + self.apiVersion + self.metadata.name + self.metadata.generateName == ''")
    with pytest.raises(CelCompileError, match="undefined field 'labels'"):
        environment.compile("has(self.metadata.labels)")


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("namespace", "__namespace__"),
        ("int", "int"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("_a_", "_a_"),
        ("0a", None),
        ("", None),
        ("é", None),
        ("a b", None),
    ],
)
def test_property_names_are_escaped(name: str, escaped: str | None) -> None:
    assert escape_name(name) == escaped


def test_sizes_come_from_limits_or_from_the_request_size() -> None:
    shape = build_shape(
        {
            "type": "object",
            "required": ["a", "d"],
            "properties": {
                "a": {"type": "string", "maxLength": 3},
                "d": {"type": "integer", "default": 1},
                "e": {"type": "string", "enum": ["x", "yyyy"]},
                "l": {"type": "array", "items": {"type": "string"}},
                "m": {"type": "object", "additionalProperties": {"type": "boolean"}},
                "t": {"type": "string", "format": "date-time"},
            },
        }
    )
    assert shape is not None
    assert shape.fields is not None
    assert shape.min_size == 2 + len("a") + 2 + 4
    sizes = {name: field.max_elements for name, field in shape.fields.items()}
    assert sizes == {"a": 12, "d": 0, "e": 4, "l": (3 * 2**20 - 2) // 3, "m": (3 * 2**20 - 2) // 10, "t": 32}
