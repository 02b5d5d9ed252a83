"""Comparing objects, field sets of objects, and the laws that tie merge, compare and field sets together."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.apiserver.apply import custom_model, fieldset
from quarterdeck.apiserver.apply.compare import TypedError, compare, field_set, same_value, whole
from quarterdeck.apiserver.apply.merge import merge, remove_items

from .apply_scenario import FREE, INTEGER, STRING, atomic, keyed, mapping, setlist, struct

MODEL = custom_model(
    struct(
        spec=struct(
            num=INTEGER,
            map=mapping(STRING),
            atomic=atomic(mapping(STRING)),
            set=setlist(STRING),
            list=keyed("name", name=STRING, value=INTEGER, set=setlist(STRING)),
            struct=struct(x=STRING, y=struct(z=STRING)),
            free=FREE,
        )
    )
)
NAMES = st.sampled_from("abc")
SET = st.lists(NAMES, unique=True, max_size=3)
ITEM = st.fixed_dictionaries({"name": NAMES}, optional={"value": st.integers(0, 2), "set": SET})
FREE_VALUE = st.recursive(
    st.sampled_from([1, True, "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, min_size=1, max_size=2),
    max_leaves=4,
)
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "num": st.integers(0, 2),
        "map": st.dictionaries(NAMES, NAMES, max_size=2),
        "atomic": st.dictionaries(NAMES, NAMES, max_size=2),
        "set": SET,
        "list": st.lists(ITEM, unique_by=lambda item: item["name"], max_size=3),
        "struct": st.fixed_dictionaries(
            {}, optional={"x": NAMES, "y": st.fixed_dictionaries({}, optional={"z": NAMES})}
        ),
        "free": st.dictionaries(NAMES, FREE_VALUE, max_size=2),
    },
)
OBJECT = SPEC.map(lambda spec: {"spec": spec})


def shown(fields: fieldset.FieldSet) -> list[str]:
    return [fieldset.render(path) for path in fieldset.paths(fields)]


@given(OBJECT)
def test_an_object_does_not_differ_from_itself(obj: dict[str, Any]) -> None:
    assert compare(MODEL, obj, {"spec": dict(obj["spec"])}).is_same


@given(OBJECT, OBJECT)
def test_comparing_the_other_way_round_swaps_added_and_removed(old: Any, new: Any) -> None:
    there, back = compare(MODEL, old, new), compare(MODEL, new, old)
    assert (there.added, there.modified, there.removed) == (back.removed, back.modified, back.added)


@given(OBJECT, OBJECT)
def test_no_path_is_in_two_of_the_sets(old: Any, new: Any) -> None:
    added, modified, removed = (set(fieldset.paths(fields)) for fields in compare(MODEL, old, new))
    assert not added & modified
    assert not added & removed


@given(OBJECT)
def test_the_field_set_is_part_of_what_is_added_to_nothing(obj: Any) -> None:
    stated = field_set(MODEL, obj)
    assert fieldset.difference(stated, compare(MODEL, {}, obj).added) == {}


@given(OBJECT, OBJECT)
def test_merging_changes_nothing_that_the_configuration_does_not_state(live: Any, config: Any) -> None:
    merged = merge(MODEL, live, config)
    changed = compare(MODEL, live, merged)
    stated = whole(MODEL.root, config)
    assert changed.removed == {} or "f:free" in changed.removed.get("f:spec", {})
    assert fieldset.difference(fieldset.union(changed.added, changed.modified), stated) == {}


@given(OBJECT, OBJECT)
def test_merging_twice_is_merging_once(live: Any, config: Any) -> None:
    once = merge(MODEL, live, config)
    assert merge(MODEL, once, config) == once


@given(OBJECT)
def test_removing_everything_leaves_nothing(obj: Any) -> None:
    assert remove_items(MODEL, obj, {"f:spec": {}}) is None


@given(OBJECT)
def test_removing_nothing_leaves_everything(obj: Any) -> None:
    assert remove_items(MODEL, obj, {}) is obj


@pytest.mark.parametrize(
    ("old", "new", "added", "modified", "removed"),
    [
        ({}, {"num": 1}, [".spec.num"], [], []),
        ({"num": 1}, {"num": 2}, [], [".spec.num"], []),
        (
            {"map": {"a": "1", "b": "1"}},
            {"map": {"b": "2", "c": "1"}},
            [".spec.map.c"],
            [".spec.map.b"],
            [".spec.map.a"],
        ),
        ({"atomic": {"a": "1"}}, {"atomic": {"b": "1"}}, [], [".spec.atomic"], []),
        ({"set": ["a", "b"]}, {"set": ["b", "c"]}, ['.spec.set[="c"]'], [], ['.spec.set[="a"]']),
        ({"set": ["a", "b"]}, {"set": ["b", "a"]}, [], [], []),
        ({"set": []}, {"set": None}, [], [".spec.set"], []),
        ({"map": {}}, {"map": {"a": "1"}}, [".spec.map.a"], [], []),
        ({"struct": {"x": "1"}}, {"struct": {}}, [], [], [".spec.struct.x"]),
        (
            {},
            {"list": [{"name": "a", "set": ["x"]}]},
            [
                ".spec.list",
                '.spec.list[name="a"]',
                '.spec.list[name="a"].name',
                '.spec.list[name="a"].set',
                '.spec.list[name="a"].set[="x"]',
            ],
            [],
            [],
        ),
        ({"free": {"x": 1}}, {"free": {"x": True}}, [], [".spec.free.x"], []),
        ({"free": {"x": 1}}, {"free": {"x": 1.0}}, [], [], []),
        ({"free": {"x": {"y": 1}}}, {"free": {"x": None}}, [], [], [".spec.free.x.y"]),
    ],
)
def test_differences(old: Any, new: Any, added: list[str], modified: list[str], removed: list[str]) -> None:
    found = compare(MODEL, {"spec": old}, {"spec": new})
    assert (shown(found.added), shown(found.modified), shown(found.removed)) == (added, modified, removed)


@pytest.mark.parametrize(
    "spec",
    [{"unknown": 1}, {"map": []}, {"set": {}}, {"set": [None]}, {"list": [{"value": 1}]}, {"list": "x"}],
)
def test_what_does_not_fit_is_an_error(spec: Any) -> None:
    with pytest.raises(TypedError):
        compare(MODEL, {}, {"spec": spec})


def test_values_are_the_same_as_json() -> None:
    assert same_value({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]})
    assert not same_value([1], [True])
    assert not same_value({"a": None}, {})
    assert not same_value({"a": 0}, {"a": False})
    assert not same_value([], {})


@pytest.mark.parametrize(
    ("live", "applied", "merged"),
    [
        ("abcd", "abcd", "abcd"),
        ("abcd", "dcba", "dcba"),
        ("abcd", "ac", "abcd"),
        ("abcd", "ca", "bcda"),
        ("", "ab", "ab"),
        ("ab", "", "ab"),
        ("ab", "cd", "abcd"),
        ("bd", "abcde", "abcde"),
        ("abcd", "axcy", "abxcdy"),
        ("abc", "xcy", "abxcy"),
        ("abcde", "edxa", "bcedxa"),
    ],
)
def test_the_order_of_merged_items(live: str, applied: str, merged: str) -> None:
    result = merge(MODEL, {"spec": {"set": list(live)}}, {"spec": {"set": list(applied)}})
    assert "".join(result["spec"]["set"]) == merged
