"""Patches of requests: bodies that are none, and what clients are told about those that do not fit."""

import json
from typing import Any

import pytest

from quarterdeck.apiserver.registry.patch import jsonpatch, merge
from quarterdeck.apiserver.status import StatusError

Json = dict[str, Any]


def test_a_client_is_not_told_why_a_json_patch_cannot_be_applied() -> None:
    with pytest.raises(StatusError) as caught:
        jsonpatch.apply({"a": 1}, [{"op": "remove", "path": "/b"}])
    assert caught.value.to_status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "unexpected end of JSON input"),
        (b"", "unexpected end of JSON input"),
        (b"[] x", "invalid character 'x' after top-level value"),
        (b'{"op":"add"}', "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (b"[1]", "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (b'[{"op":1}]', "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
        (
            b'[{"op":"add","path":true}]',
            "json: cannot unmarshal bool into Go struct field jsonPatchOp.path of type string",
        ),
    ],
)
def test_bodies_that_are_no_json_patch(body: bytes, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        jsonpatch.decode(body)
    assert (caught.value.code, caught.value.message) == (400, "error decoding patch: " + message)


def test_null_is_an_empty_json_patch() -> None:
    assert jsonpatch.decode(b"null") == []


def test_ten_thousand_operations_are_enough() -> None:
    operation = {"op": "test", "path": "/x"}
    assert len(jsonpatch.decode(json.dumps([operation] * 10_000).encode())) == 10_000
    with pytest.raises(StatusError) as caught:
        jsonpatch.decode(json.dumps([operation] * 10_001).encode())
    assert (caught.value.code, caught.value.reason) == (413, "RequestEntityTooLarge")
    assert caught.value.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


def test_fields_that_no_operation_has_are_named() -> None:
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/x"},
        {"op": "add", "path": "/x", "value": 1, "foo": 1, "bar": 2},
    ]
    assert jsonpatch.unknown_fields(operations) == [
        'json patch unknown field "[1].foo"',
        'json patch unknown field "[1].bar"',
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "error decoding patch: unexpected end of JSON input"),
        (b"[]", "error decoding patch: json: cannot unmarshal array into Go value of type "),
        (b"1", "error decoding patch: json: cannot unmarshal number into Go value of type "),
        (b"null", "Invalid JSON Patch"),
    ],
)
def test_bodies_that_are_no_merge_patch(body: bytes, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        merge.decode(body)
    assert caught.value.code == 400
    assert caught.value.message == message + ("map[string]interface {}" if message.endswith(" ") else "")
