"""Patches: computed and applied."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.client import apply_json_patch, apply_merge_patch, json_patch, merge_patch
from quarterdeck.errors import SchemaError

scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab~/", max_size=2)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.text("abc", min_size=1, max_size=2), values, max_size=4)


def text(value: Any) -> str:
    """For comparing as JSON does: ``True`` is not ``1``."""
    return json.dumps(value, sort_keys=True)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


@given(values, values)
def test_json_patch_turns_one_document_into_the_other(before: Any, after: Any) -> None:
    kept = copy.deepcopy(before)
    result = apply_json_patch(before, json_patch(before, after))
    assert text(result) == text(after)
    assert text(before) == text(kept)


@given(values)
def test_equal_documents_need_no_patch(value: Any) -> None:
    assert json_patch(value, copy.deepcopy(value)) == []


@given(objects, objects)
def test_merge_patch_turns_one_document_into_the_other(before: Any, after: Any) -> None:
    patch = merge_patch(before, after)
    assert text(without_nulls(apply_merge_patch(before, patch))) == text(without_nulls(after))
    assert (patch == {}) == (text(without_nulls(before)) == text(without_nulls(after)))


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {}, {"a": None}),
        ({}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": None}, {}, {}),
    ],
)
def test_merge_patch_is_minimal(before: Any, after: Any, patch: Any) -> None:
    assert merge_patch(before, after) == patch


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        ([1, 2, 3], [1, 3], [{"op": "remove", "path": "/1"}]),
        ([1, 3], [1, 2, 3], [{"op": "add", "path": "/1", "value": 2}]),
        (
            {"a/b": 1, "c~d": 2},
            {"a/b": 2},
            [{"op": "remove", "path": "/c~0d"}, {"op": "replace", "path": "/a~1b", "value": 2}],
        ),
        (1, 2, [{"op": "replace", "path": "", "value": 2}]),
    ],
)
def test_json_patch_is_small(before: Any, after: Any, operations: Any) -> None:
    assert json_patch(before, after) == operations


def test_all_operations_apply() -> None:
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


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": True},
        {"op": "remove", "path": "/missing"},
        {"op": "replace", "path": "/missing", "value": 1},
        {"op": "add", "path": "/list/5", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "add", "path": "/missing/x", "value": 1},
        {"op": "move", "from": "/o", "path": "/o/x"},
        {"op": "frobnicate", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/a"},
    ],
)
def test_operations_that_cannot_apply_are_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="operation 0"):
        apply_json_patch({"a": 1, "list": [1], "o": {}}, [operation])
