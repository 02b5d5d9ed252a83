"""Embedded resources; the texts are those of kube-apiserver 1.36.3."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.apiserver.schema.objectmeta import DecodeError, coerce, embedded_errors, normalized
from quarterdeck.apiserver.schema.structural import compile_schema

Json = dict[str, Any]
EMBEDDED = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}
NODE = compile_schema(
    {
        "type": "object",
        "properties": {
            "e": EMBEDDED,
            "l": {"type": "array", "items": EMBEDDED},
            "m": {"type": "object", "additionalProperties": EMBEDDED},
        },
    }
)
POD = {"apiVersion": "v1", "kind": "Pod"}
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


@pytest.mark.parametrize(
    ("meta", "clean", "unknown"),
    [
        (None, {}, []),
        ({}, {}, []),
        ({"name": "a", "zz": 1, "foo": {"x": 1}}, {"name": "a"}, ["foo", "zz"]),
        ({"name": None, "labels": {}, "finalizers": []}, {}, []),
        ({"NAME": "x"}, {}, ["NAME"]),
        ({"creationTimestamp": None}, {}, []),
        (
            {"creationTimestamp": "2020-01-01T00:00:00+01:00"},
            {"creationTimestamp": "2019-12-31T23:00:00Z"},
            [],
        ),
        (
            {"ownerReferences": [{"name": "x", "foo": 1}]},
            {"ownerReferences": [{"apiVersion": "", "kind": "", "name": "x", "uid": ""}]},
            ["ownerReferences[0].foo"],
        ),
    ],
)
def test_metadata_goes_through_its_go_type(meta: Any, clean: Json, unknown: list[str]) -> None:
    assert normalized(meta) == (clean, unknown)


@pytest.mark.parametrize(
    ("meta", "text"),
    [
        (5, "json: cannot unmarshal number into Go value of type v1.ObjectMeta"),
        (True, "json: cannot unmarshal bool into Go value of type v1.ObjectMeta"),
        ([], "json: cannot unmarshal array into Go value of type v1.ObjectMeta"),
        ({"name": 5}, "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"),
        (
            {"labels": []},
            "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string",
        ),
    ],
)
def test_metadata_of_a_wrong_type_is_refused(meta: Any, text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        normalized(meta)
    assert str(caught.value) == text


def test_coercing_cleans_embedded_metadata_and_names_what_it_drops() -> None:
    obj = {
        "e": {**POD, "metadata": {"name": "a", "x": 1}},
        "l": [{**POD, "metadata": {"y": 1}}],
        "m": {"k": {**POD, "metadata": {"z": 1}}},
    }
    assert coerce(obj, NODE) == ["e.metadata.x", "l[0].metadata.y", "m[k].metadata.z"]
    assert obj == {
        "e": {**POD, "metadata": {"name": "a"}},
        "l": [{**POD, "metadata": {}}],
        "m": {"k": {**POD, "metadata": {}}},
    }


@pytest.mark.parametrize(
    ("embedded", "text"),
    [
        ({"apiVersion": 5}, "e.apiVersion: Invalid value: 5: must be a string"),
        (
            {**POD, "metadata": {"name": 5}},
            (
                'e.metadata: Invalid value: {"name":5}: '
                "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"
            ),
        ),
    ],
)
def test_coercing_stops_at_a_wrong_type(embedded: Json, text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        coerce({"e": embedded}, NODE)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("embedded", "expected"),
    [
        (POD, []),
        ({**POD, "metadata": {"name": "a", "labels": {"a": "b"}, "finalizers": ["x"]}}, []),
        ({}, ["e.apiVersion: Required value", "e.kind: Required value"]),
        (
            {"apiVersion": "", "kind": ""},
            [
                'e.apiVersion: Invalid value: "": must not be empty',
                'e.kind: Invalid value: "": must not be empty',
            ],
        ),
        (
            {"apiVersion": "a/b/c", "kind": "Pod"},
            ['e.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'],
        ),
        (
            {**POD, "metadata": {"name": "a/b"}},
            ["e.metadata.name: Invalid value: \"a/b\": may not contain '/'"],
        ),
        ({**POD, "metadata": {"namespace": "A_b"}}, [f'e.metadata.namespace: Invalid value: "A_b": {LABEL}']),
        (
            {**POD, "metadata": {"generation": -1}},
            ["e.metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
        ),
        ("no object", []),
    ],
)
def test_embedded_resources_are_validated(embedded: Any, expected: list[str]) -> None:
    assert [str(error) for error in embedded_errors({"e": embedded}, NODE)] == expected


def test_a_kind_may_be_in_mixed_case_only() -> None:
    [error] = embedded_errors({"e": {"apiVersion": "v1", "kind": "A_b"}}, NODE)
    assert str(error).startswith(
        'e.kind: Invalid value: "A_b": may have mixed case, but should otherwise match: a DNS-1035 label must'
    )
