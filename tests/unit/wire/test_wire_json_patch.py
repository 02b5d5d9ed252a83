"""JSON patch: what each operation does, what is refused, and that a diff leads where it should."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.errors import PatchError
from quarterdeck.wire.patch import OperationFailed, TestFailed, apply_json_patch, json_patch

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


@given(VALUES, VALUES)
def test_a_diff_applied_to_the_old_gives_the_new(old: Any, new: Any) -> None:
    before = copy.deepcopy((old, new))
    operations = json_patch({"x": old}, {"x": new})
    assert same(apply_json_patch({"x": old}, operations), {"x": new})
    assert (old, new) == before


@given(VALUES)
def test_equal_values_have_no_diff(value: Any) -> None:
    assert json_patch(value, copy.deepcopy(value)) == []


def test_a_diff_touches_only_what_differs() -> None:
    old = {"keep": 1, "list": [1, 2, 3, 4], "gone": 1, "deep": {"x": 1, "y": 1}}
    new = {"keep": 1, "list": [1, 9, 4], "deep": {"x": 2, "y": 1}, "a/b": None}
    assert json_patch(old, new) == [
        {"op": "remove", "path": "/gone"},
        {"op": "replace", "path": "/list/1", "value": 9},
        {"op": "remove", "path": "/list/2"},
        {"op": "replace", "path": "/deep/x", "value": 2},
        {"op": "add", "path": "/a~1b", "value": None},
    ]


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        ([1, 2, 3], [1, 3], [{"op": "remove", "path": "/1"}]),
        ([1, 3], [1, 2, 3], [{"op": "add", "path": "/1", "value": 2}]),
        ([1, 2, 3, 4], [1], [{"op": "remove", "path": f"/{place}"} for place in (3, 2, 1)]),
        (
            {"a/b": 1, "c~d": 2},
            {"a/b": 2},
            [{"op": "remove", "path": "/c~0d"}, {"op": "replace", "path": "/a~1b", "value": 2}],
        ),
        (1, 2, [{"op": "replace", "path": "", "value": 2}]),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": 1}, {"a": 1.0}, []),
    ],
)
def test_a_diff_is_small(before: Any, after: Any, operations: Any) -> None:
    assert json_patch(before, after) == operations


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
    assert same(apply_json_patch(document, [operation]), result)
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
def test_what_cannot_be_done_is_refused_and_named(operation: Json) -> None:
    with pytest.raises(OperationFailed) as caught:
        apply_json_patch({"a": 1, "l": [1, 2], "o": {"x": 1}, "n": None}, [operation])
    assert caught.value.operation is operation


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"op": "frobnicate", "path": "/a"}, "Unexpected kind: frobnicate"),
        ({"path": "/a"}, "Unexpected kind: unknown"),
        ({"op": "add", "value": 1}, "add operation failed to decode path: missing value"),
        (
            {"op": "move", "path": "/x"},
            "move operation failed to decode from: operation, missing from field: missing value",
        ),
        (
            {"op": "add", "path": "/no/x", "value": 1},
            'add operation does not apply: doc is missing path: "/no/x": missing value',
        ),
        (
            {"op": "remove", "path": "/no"},
            "error in remove for path: '/no': Unable to remove nonexistent key: no: missing value",
        ),
        (
            {"op": "remove", "path": "/l/7"},
            "error in remove for path: '/l/7': Unable to access invalid index: 7: invalid index referenced",
        ),
        (
            {"op": "add", "path": "/l/x", "value": 1},
            "error in add for path: '/l/x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            {"op": "replace", "path": "/l/9", "value": 1},
            "replace operation does not apply: doc is missing key: /l/9: missing value",
        ),
        (
            {"op": "copy", "from": "/no/x", "path": "/y"},
            "copy operation does not apply: doc is missing from path: /no/x: missing value",
        ),
        (
            {"op": "copy", "from": "/a", "path": "/no/y"},
            "copy operation does not apply: doc is missing destination path: /no/y: missing value",
        ),
    ],
)
def test_failures_are_told_in_the_words_of_the_library(operation: Json, message: str) -> None:
    with pytest.raises(OperationFailed) as caught:
        apply_json_patch({"a": 1, "l": [1, 2]}, [operation])
    assert str(caught.value) == message


def test_a_test_that_does_not_hold_is_told_apart() -> None:
    with pytest.raises(TestFailed, match="testing value /a failed: test failed"):
        apply_json_patch({"a": 1}, [{"op": "test", "path": "/a", "value": 2}])


def test_operations_apply_in_their_order() -> None:
    document = {"a": [1, 2], "b": {"c": 3}}
    result = apply_json_patch(
        document,
        [
            {"op": "test", "path": "/b/c", "value": 3},
            {"op": "add", "path": "/a/-", "value": 9},
            {"op": "move", "from": "/b/c", "path": "/d"},
            {"op": "copy", "from": "/a", "path": "/e"},
            {"op": "replace", "path": "/a/0", "value": {"x": 1}},
            {"op": "remove", "path": "/a/1"},
        ],
    )
    assert result == {"a": [{"x": 1}, 9], "b": {}, "d": 3, "e": [1, 2, 9]}
    assert document == {"a": [1, 2], "b": {"c": 3}}


def test_a_failing_operation_undoes_nothing_of_the_document() -> None:
    document = {"a": 1}
    with pytest.raises(PatchError):
        apply_json_patch(document, [{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/a"}])
    assert document == {"a": 1}


def test_the_value_of_an_operation_is_not_shared() -> None:
    operations: list[dict[str, Any]] = [
        {"op": "add", "path": "/x", "value": {}},
        {"op": "add", "path": "/x/y", "value": 1},
    ]
    assert apply_json_patch({}, operations) == {"x": {"y": 1}}
    assert operations[0]["value"] == {}


def test_copying_is_bounded() -> None:
    document = {"a": "x" * (1024 * 1024)}
    copies = [{"op": "copy", "from": "/a", "path": f"/c{number}"} for number in range(3)]
    apply_json_patch(document, copies[:2])
    with pytest.raises(PatchError):
        apply_json_patch(document, copies)
