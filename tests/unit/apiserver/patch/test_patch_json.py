"""JSON patch: what each operation does, what is refused, and that a diff leads where it should."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.apiserver.patch import jsonpatch
from quarterdeck.apiserver.status import StatusError

Json = dict[str, Any]

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "a/b", "m~n"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "a/b", "m~n"]), inner)
    ),
    max_leaves=10,
)


def same(left: Any, right: Any) -> bool:
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


@settings(deadline=None)
@given(VALUES, VALUES)
def test_a_diff_applied_to_the_old_gives_the_new(old: Any, new: Any) -> None:
    before = copy.deepcopy((old, new))
    operations = jsonpatch.diff({"x": old}, {"x": new})
    assert same(jsonpatch.apply({"x": old}, operations), {"x": new})
    assert (old, new) == before


@settings(deadline=None)
@given(VALUES)
def test_equal_values_have_no_diff(value: Any) -> None:
    assert jsonpatch.diff(value, copy.deepcopy(value)) == []


def test_a_diff_touches_only_what_differs() -> None:
    old = {"keep": 1, "list": [1, 2, 3, 4], "gone": 1, "deep": {"x": 1, "y": 1}}
    new = {"keep": 1, "list": [1, 9, 4], "deep": {"x": 2, "y": 1}, "a/b": None}
    assert jsonpatch.diff(old, new) == [
        {"op": "remove", "path": "/gone"},
        {"op": "replace", "path": "/list/1", "value": 9},
        {"op": "remove", "path": "/list/2"},
        {"op": "replace", "path": "/deep/x", "value": 2},
        {"op": "add", "path": "/a~1b", "value": None},
    ]


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        (
            {"op": "add", "path": "/new", "value": 1},
            {"a": 1, "l": [1, 2], "o": {"x": 1}, "n": None, "new": 1},
        ),
        ({"op": "add", "path": "/a", "value": 2}, {"a": 2, "l": [1, 2], "o": {"x": 1}, "n": None}),
        ({"op": "add", "path": "/new"}, {"a": 1, "l": [1, 2], "o": {"x": 1}, "n": None, "new": None}),
        ({"op": "add", "path": "/l/-", "value": 3}, {"a": 1, "l": [1, 2, 3], "o": {"x": 1}, "n": None}),
        ({"op": "add", "path": "/l/0", "value": 3}, {"a": 1, "l": [3, 1, 2], "o": {"x": 1}, "n": None}),
        ({"op": "add", "path": "/l/2", "value": 3}, {"a": 1, "l": [1, 2, 3], "o": {"x": 1}, "n": None}),
        ({"op": "add", "path": "/l/-1", "value": 3}, {"a": 1, "l": [1, 2, 3], "o": {"x": 1}, "n": None}),
        ({"op": "add", "path": "/l/-2", "value": 3}, {"a": 1, "l": [1, 3, 2], "o": {"x": 1}, "n": None}),
        ({"op": "remove", "path": "/o/x"}, {"a": 1, "l": [1, 2], "o": {}, "n": None}),
        ({"op": "remove", "path": "/n"}, {"a": 1, "l": [1, 2], "o": {"x": 1}}),
        ({"op": "remove", "path": "/l/-1"}, {"a": 1, "l": [1], "o": {"x": 1}, "n": None}),
        ({"op": "replace", "path": "/a", "value": [1]}, {"a": [1], "l": [1, 2], "o": {"x": 1}, "n": None}),
        (
            {"op": "replace", "path": "/o/new", "value": 1},
            {"a": 1, "l": [1, 2], "o": {"x": 1, "new": 1}, "n": None},
        ),
        ({"op": "replace", "path": "/l/1", "value": 7}, {"a": 1, "l": [1, 7], "o": {"x": 1}, "n": None}),
        ({"op": "replace", "path": "", "value": {"z": 1}}, {"z": 1}),
        ({"op": "move", "from": "/o/x", "path": "/l/0"}, {"a": 1, "l": [1, 1, 2], "o": {}, "n": None}),
        (
            {"op": "copy", "from": "/o", "path": "/p"},
            {"a": 1, "l": [1, 2], "o": {"x": 1}, "n": None, "p": {"x": 1}},
        ),
        (
            {"op": "copy", "from": "/missing", "path": "/p"},
            {"a": 1, "l": [1, 2], "o": {"x": 1}, "n": None, "p": None},
        ),
        ({"op": "test", "path": "/o", "value": {"x": 1}}, {"a": 1, "l": [1, 2], "o": {"x": 1}, "n": None}),
        ({"op": "test", "path": "/missing"}, {"a": 1, "l": [1, 2], "o": {"x": 1}, "n": None}),
        ({"op": "test", "path": "/n", "value": None}, {"a": 1, "l": [1, 2], "o": {"x": 1}, "n": None}),
        # what stands before the first slash is not looked at
        ({"op": "add", "path": "ignored/a", "value": 2}, {"a": 2, "l": [1, 2], "o": {"x": 1}, "n": None}),
    ],
)
def test_operations(operation: Json, result: Json) -> None:
    document = {"a": 1, "l": [1, 2], "o": {"x": 1}, "n": None}
    before = copy.deepcopy(document)
    assert same(jsonpatch.apply(document, [operation]), result)
    assert document == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/missing"},
        {"op": "remove", "path": "/l/2"},
        {"op": "remove", "path": "/l/-3"},
        {"op": "remove", "path": "/l/x"},
        {"op": "add", "path": "/l/4", "value": 1},
        {"op": "add", "path": "/missing/x", "value": 1},
        {"op": "add", "path": "/n/x", "value": 1},
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "value": 1},
        {"op": "replace", "path": "/l/-", "value": 1},
        {"op": "replace", "path": "", "value": 5},
        {"op": "replace", "path": ""},
        {"op": "move", "from": "/missing", "path": "/x"},
        {"op": "move", "path": "/x"},
        {"op": "move", "from": "/o", "path": "/o/x"},
        {"op": "copy", "from": "/l/7", "path": "/x"},
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": True},
        {"op": "test", "path": "/a", "value": 1.0},
        {"op": "test", "path": "/a"},
        {"op": "test", "path": "/l/9", "value": None},
        {"op": "frobnicate", "path": "/a"},
        {"path": "/a", "value": 1},
    ],
)
def test_what_cannot_be_done_is_one_answer(operation: Json) -> None:
    with pytest.raises(StatusError) as caught:
        jsonpatch.apply({"a": 1, "l": [1, 2], "o": {"x": 1}, "n": None}, [operation])
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


def test_a_failing_operation_undoes_nothing_of_the_document() -> None:
    document = {"a": 1}
    with pytest.raises(StatusError):
        jsonpatch.apply(document, [{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/a"}])
    assert document == {"a": 1}


def test_the_value_of_an_operation_is_not_shared() -> None:
    operations = [{"op": "add", "path": "/x", "value": {}}, {"op": "add", "path": "/x/y", "value": 1}]
    assert jsonpatch.apply({}, operations) == {"x": {"y": 1}}
    assert operations[0]["value"] == {}


def test_copying_is_bounded() -> None:
    document = {"a": "x" * (1024 * 1024)}
    copies = [{"op": "copy", "from": "/a", "path": f"/c{number}"} for number in range(3)]
    jsonpatch.apply(document, copies[:2])
    with pytest.raises(StatusError):
        jsonpatch.apply(document, copies)


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
def test_malformed_bodies(body: bytes, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        jsonpatch.decode(body)
    assert (caught.value.code, caught.value.message) == (400, "error decoding patch: " + message)


def test_null_is_an_empty_patch() -> None:
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
    operations = [{"op": "test", "path": "/x"}, {"op": "add", "path": "/x", "value": 1, "foo": 1, "bar": 2}]
    assert jsonpatch.unknown_fields(operations) == [
        'json patch unknown field "[1].foo"',
        'json patch unknown field "[1].bar"',
    ]
