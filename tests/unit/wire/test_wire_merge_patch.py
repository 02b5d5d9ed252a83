"""Merge patch: null deletes, objects merge, the rest replaces."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.wire.patch import apply_merge_patch, merge_patch

Json = dict[str, Any]

NAMES = st.sampled_from("abc")


SCALARS = st.booleans() | st.integers(0, 2) | st.sampled_from("xy")
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=3)
PATCHES = st.dictionaries(
    NAMES,
    st.recursive(VALUES | st.none(), lambda inner: st.dictionaries(NAMES, inner, max_size=3)),
    max_size=3,
)


def same(left: Any, right: Any) -> bool:
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


@given(DOCUMENTS, DOCUMENTS)
def test_a_created_patch_leads_from_the_old_to_the_new(old: Json, new: Json) -> None:
    assert same(apply_merge_patch(old, merge_patch(old, new)), new)


@given(DOCUMENTS, PATCHES)
def test_neither_document_nor_patch_is_changed(document: Json, patch: Json) -> None:
    before = copy.deepcopy((document, patch))
    apply_merge_patch(document, patch)
    assert (document, patch) == before


@given(DOCUMENTS, PATCHES)
def test_patching_twice_is_patching_once(document: Json, patch: Json) -> None:
    once = apply_merge_patch(document, patch)
    assert same(apply_merge_patch(once, patch), once)


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": 1, "b": 2}, {"a": None, "c": 3}, {"b": 2, "c": 3}),
        ({"a": {"x": 1, "y": 1}}, {"a": {"x": None, "z": 1}}, {"a": {"y": 1, "z": 1}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"x": 1}}, {"a": 5}, {"a": 5}),
        ({"a": {"x": 1}}, {"a": None}, {}),
        ({}, {"a": None}, {}),
        ({}, {"a": {"x": None, "y": {"z": None}}}, {"a": {"y": {}}}),
        ({"a": 1}, {"a": {"x": None}}, {"a": {}}),
        ({"a": [1]}, {"a": [None, {"x": None}]}, {"a": [None, {}]}),
        ({"a": {"x": 1}}, {"a": [{"x": None}]}, {"a": [{"x": None}]}),
        ({"a": None}, {"a": {"x": 1}}, {"a": {"x": 1}}),
    ],
)
def test_patches(document: Json, patch: Json, result: Json) -> None:
    assert apply_merge_patch(document, patch) == result


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1, "b": {"x": 1, "y": 1}}, {"b": {"x": 2, "y": 1}}, {"a": None, "b": {"x": 2}}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": {"x": 1}}, {"a": {}}, {"a": {"x": None}}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 1.0}, {}),
        ({"a": None}, {}, {}),
        ({}, {"a": None}, {}),
        ({}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({"a": 1}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
    ],
)
def test_created_patches(old: Json, new: Json, patch: Json) -> None:
    assert merge_patch(old, new) == patch


@given(DOCUMENTS, PATCHES)
def test_a_patch_may_be_applied_again_whatever_becomes_of_the_result(document: Json, patch: Json) -> None:
    def scribble(node: Any) -> None:
        for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            scribble(item)
        if isinstance(node, dict | list):
            node.clear()

    before = copy.deepcopy(patch)
    first = apply_merge_patch(copy.deepcopy(document), patch)
    expected = copy.deepcopy(first)
    scribble(first)
    assert same(patch, before)
    assert same(apply_merge_patch(document, patch), expected)
