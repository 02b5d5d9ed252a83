"""The face of the package: what the server asks for one CRD version."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.apiserver.schema.objectmeta import DecodeError
from quarterdeck.apiserver.schema.resource import ResourceSchema

Json = dict[str, Any]
STRING = {"type": "string"}


def struct(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def obj(**fields: Any) -> Json:
    return {"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "a"}, **fields}


def texts(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


EMBEDDED = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}


def test_unknown_fields_come_metadata_first_then_sorted_then_embedded_metadata() -> None:
    schema = ResourceSchema(struct(spec=struct(a=STRING, e=EMBEDDED)))
    document = {
        "zz": 1,
        "spec": {"z": 1, "b": {"x": 1}, "e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"foo": 1}}},
        "metadata": {"name": "a", "foo": 1, "bar": {}},
    }
    expected = ["metadata.bar", "metadata.foo", "spec.b", "spec.z", "zz", "spec.e.metadata.foo"]
    assert schema.decode(document) == expected
    assert document == {
        "spec": {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {}}},
        "metadata": {"name": "a"},
    }


def test_decoding_drops_nulls_that_may_not_be() -> None:
    document = obj(spec={"a": None, "b": None})
    ResourceSchema(struct(spec=struct(a=STRING, b={**STRING, "default": "d"}))).decode(document)
    assert document["spec"] == {"b": None}


@pytest.mark.parametrize("meta", [5, {"name": 5}, {"labels": {"a": 1}}])
def test_metadata_of_a_wrong_type_cannot_be_decoded(meta: Any) -> None:
    with pytest.raises(DecodeError, match="json: cannot unmarshal number into Go"):
        ResourceSchema(struct()).decode({"metadata": meta})


def test_without_a_schema_every_field_is_unknown() -> None:
    document = obj(spec={"a": 1})
    assert ResourceSchema(None).decode(document) == ["spec"]
    assert document == obj()


def test_errors_come_schema_first_then_scale_then_embedded_then_lists() -> None:
    schema = ResourceSchema(
        struct(
            spec=struct(
                replicas={"type": "integer", "minimum": 0},
                e=EMBEDDED,
                l={"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
            )
        ),
        scale={"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    )
    assert texts(
        schema.validate_create(obj(spec={"l": ["a", "a"], "e": {"kind": "Pod"}, "replicas": -1}))
    ) == [
        "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0",
        ".spec.replicas: Invalid value: -1: should be a non-negative integer",
        "spec.e.apiVersion: Required value",
        'spec.l[1]: Duplicate value: "a"',
    ]


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        (5, []),
        (-1, [".spec.replicas: Invalid value: -1: should be a non-negative integer"]),
        (2**31, [".spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647"]),
        (
            "x",
            [
                (
                    ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: "
                    "x is of the type string, expected int64"
                )
            ],
        ),
        (
            {"b": [1, None], "a": 1.5},
            [
                (
                    ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: "
                    "map[a:1.5 b:[1 <nil>]] is of the type map[string]interface {}, expected int64"
                )
            ],
        ),
    ],
)
def test_scale_paths_are_checked(replicas: Any, expected: list[str]) -> None:
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    schema = ResourceSchema(struct(spec=anything, status=anything), scale=scale)
    assert texts(schema.validate_create(obj(spec={"replicas": replicas}))) == expected
    # a write to /status does not look at the spec
    assert schema.validate_status_update(obj(spec={"replicas": replicas}), obj()) == []


def test_a_scale_path_through_something_else_than_an_object() -> None:
    scale = {"specReplicasPath": ".spec.a.b", "statusReplicasPath": ".status.replicas"}
    schema = ResourceSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, scale=scale)
    assert texts(schema.validate_create(obj(spec={"a": 5}))) == [
        (
            ".spec.a.b: Invalid value: 0: .spec.a.b accessor error: 5 is of the type int64, "
            "expected map[string]interface{}"
        )
    ]
    assert schema.validate_create(obj(spec={"a": None})) == []


def test_status_writes_only_look_at_the_status_and_name_fields_from_there() -> None:
    schema = ResourceSchema(struct(spec=STRING, status=struct(n={"type": "integer"})))
    assert texts(schema.validate_status_update(obj(spec=5, status={"n": "x"}), obj(spec=5))) == [
        'status.n: Invalid value: "string": n in body must be of type integer: "string"'
    ]
    assert schema.validate_status_update(obj(spec=5, status={"n": "x"}), obj(spec=5, status={"n": "x"})) == []


def test_old_duplicates_excuse_new_ones() -> None:
    schema = ResourceSchema(struct(spec={"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}))
    new = obj(spec=["a", "a"])
    assert texts(schema.validate_update(new, obj(spec=["a"]))) == ['spec[1]: Duplicate value: "a"']
    assert schema.validate_update(new, obj(spec=["b", "b"])) == []


def test_nothing_is_compiled_before_it_is_needed() -> None:
    schema = ResourceSchema(struct(spec=STRING))
    assert "node" not in vars(schema)
    schema.validate_create(obj(spec="x"))
    assert "node" in vars(schema)


def test_documents_nested_too_deeply_are_refused_or_followed() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = {"x": deep}
    document = obj(spec=deep)
    ResourceSchema(struct(spec={"type": "object", "x-kubernetes-preserve-unknown-fields": True})).decode(
        document
    )
    assert document["spec"] is deep
