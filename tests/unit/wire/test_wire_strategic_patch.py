"""Strategic merge with any schema: who goes first, what is shared, what cannot be merged."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.errors import PatchError
from quarterdeck.wire.patch import FieldRule, NestedList, strategic_merge

Json = dict[str, Any]


class Schema:
    """`items` merge by `name`, `words` are united, everything else is replaced."""

    def map_field(self, key: str) -> FieldRule:
        return FieldRule(self)

    def list_field(self, key: str) -> FieldRule:
        rules = {"items": FieldRule(self, "merge", "name"), "words": FieldRule(self, "merge")}
        return rules.get(key, FieldRule(self))


def merged(original: Json, patch: Json) -> Json:
    before = copy.deepcopy((original, patch))
    result = strategic_merge(original, patch, Schema())
    assert (original, patch) == before, "an argument was changed"
    return result


def items(names: str) -> list[Json]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("live", "patch", "result"),
    [
        ("ab", "x", "xab"),
        ("ab", "xy", "xyab"),
        ("ab", "bx", "abx"),
        ("ab", "ax", "axb"),
        ("ab", "xa", "xab"),
        ("ab", "xb", "xab"),
        ("abcd", "db", "acdb"),
        ("abcd", "dxb", "acdxb"),
        ("abc", "axb", "axbc"),
        ("", "ba", "ba"),
        ("ab", "", "ab"),
        ("ab", "xx", "xab"),
    ],
)
def test_items_of_the_patch_go_first_unless_an_old_neighbour_was_before_them(
    live: str, patch: str, result: str
) -> None:
    """The results are those of k8s.io/apimachinery's strategicpatch."""
    assert merged({"items": items(live)}, {"items": items(patch)}) == {"items": items(result)}
    # `words` are ordered by the same rule
    assert merged({"words": list(live)}, {"words": list(patch)}) == {"words": list(result)}


@pytest.mark.parametrize(
    ("live", "patch", "order", "result"),
    [
        ("ab", "x", "abx", "abx"),
        ("ab", "x", "axb", "axb"),
        ("abs", "x", "xba", "xbas"),
        ("sab", "x", "axb", "saxb"),
        ("abs", "", "ba", "bas"),
        ("ab", "", "xb", "ab"),
    ],
)
def test_set_element_order_decides_where_it_is_given(live: str, patch: str, order: str, result: str) -> None:
    change: Json = {"$setElementOrder/items": items(order)}
    if patch:
        change["items"] = items(patch)
    assert merged({"items": items(live)}, change) == {"items": items(result)}


def test_an_item_in_the_place_of_a_deleted_one_counts_as_one_that_was_there() -> None:
    change = {
        "$setElementOrder/items": items("c"),
        "items": [{"name": "c"}, {"name": "e", "$patch": "delete"}],
    }
    assert merged({"items": items("fe")}, change) == {"items": items("fc")}


def test_what_is_not_touched_is_shared_with_the_original_and_nothing_with_the_patch() -> None:
    original: Json = {"kept": {"a": 1}, "items": [{"name": "a", "deep": {"x": 1}}]}
    patch: Json = {"new": {"l": [1]}, "items": [{"name": "b", "deep": {}}]}
    result = merged(original, patch)
    assert result["kept"] is original["kept"]
    assert result["items"][1] is original["items"][0]
    result["new"]["l"].append(2)
    result["items"][0]["deep"]["y"] = 1
    assert patch == {"new": {"l": [1]}, "items": [{"name": "b", "deep": {}}]}


def test_numbers_and_texts_are_different_items() -> None:
    original = {"items": [{"name": 1, "n": 1}]}
    assert merged(original, {"items": [{"name": "1"}, {"name": True}, {"name": 1.0}]}) == {
        "items": [{"name": "1"}, {"name": True}, {"name": 1.0}, {"name": 1, "n": 1}]
    }


@pytest.mark.parametrize("patch", [{"words": [[1]]}, {"items": [["a"]]}])
def test_lists_of_lists_cannot_be_merged(patch: Json) -> None:
    with pytest.raises(NestedList):
        merged({"words": [["a"]], "items": [["b"]]}, patch)


def test_items_need_their_key() -> None:
    with pytest.raises(PatchError, match="does not contain declared merge key: name"):
        merged({"items": items("a")}, {"items": [{"x": 1}]})


_values = st.recursive(
    st.integers(0, 3) | st.sampled_from("xy"),
    lambda inner: (
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        | st.fixed_dictionaries({"words": st.lists(st.sampled_from("vwxyz"), unique=True, max_size=3)})
        | st.fixed_dictionaries(
            {
                "items": st.lists(
                    st.fixed_dictionaries({"name": st.sampled_from("pqrs"), "v": inner}),
                    unique_by=lambda item: str(item["name"]),
                    max_size=3,
                )
            }
        )
    ),
    max_leaves=8,
)
_documents = st.dictionaries(st.sampled_from("abc"), _values, max_size=3)


@given(_documents, _documents)
def test_merging_twice_is_merging_once(original: Json, patch: Json) -> None:
    once = merged(original, patch)
    assert merged(once, patch) == once


@given(_documents)
def test_an_empty_patch_changes_nothing(original: Json) -> None:
    assert merged(original, {}) == original
