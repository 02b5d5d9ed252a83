"""Sets of field paths: the algebra, the wire form, the order of paths."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.apiserver.apply import fieldset
from quarterdeck.apiserver.apply.fieldset import FieldSet

ELEMENTS = ["f:a", "f:b", 'k:{"n":1}', 'v:"x"', "i:0"]
PATHS = st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=3).map(tuple)
SETS = st.lists(PATHS, max_size=8).map(fieldset.from_paths)


def members(fields: FieldSet) -> set[tuple[str, ...]]:
    return set(fieldset.paths(fields))


def is_canonical(fields: FieldSet) -> bool:
    """No node that says only "." and, below the root, none that says nothing by accident."""
    return all(list(node) != ["."] and is_canonical(node) for node in fields.values())


@given(SETS, SETS)
def test_union_difference_and_intersection_are_those_of_the_members(left: FieldSet, right: FieldSet) -> None:
    operations: list[tuple[Callable[[FieldSet, FieldSet], FieldSet], set[tuple[str, ...]]]] = [
        (fieldset.union, members(left) | members(right)),
        (fieldset.difference, members(left) - members(right)),
        (fieldset.intersection, members(left) & members(right)),
    ]
    for operation, expected in operations:
        result = operation(left, right)
        assert members(result) == expected
        assert is_canonical(result)
        assert result == fieldset.from_paths(expected)


@given(SETS, SETS)
def test_recursive_difference_takes_everything_below_along(left: FieldSet, right: FieldSet) -> None:
    gone = members(right)
    expected = {path for path in members(left) if not any(path[:end] in gone for end in range(len(path) + 1))}
    assert fieldset.recursive_difference(left, right) == fieldset.from_paths(expected)


@given(SETS, SETS)
def test_no_operation_changes_its_arguments(left: FieldSet, right: FieldSet) -> None:
    before = repr((left, right))
    fieldset.union(left, right)
    fieldset.difference(left, right)
    fieldset.intersection(left, right)
    fieldset.recursive_difference(left, right)
    fieldset.leaves(left)
    assert repr((left, right)) == before


@given(SETS)
def test_the_wire_form_reads_back_as_the_same_set(fields: FieldSet) -> None:
    assert fieldset.decode(fields) == fields


@given(SETS)
def test_leaves_have_nothing_below(fields: FieldSet) -> None:
    every = members(fields)
    expected = {
        path for path in every if not any(other != path and other[: len(path)] == path for other in every)
    }
    assert members(fieldset.leaves(fields)) == expected


@given(SETS, PATHS)
def test_contains_tells_members(fields: FieldSet, path: tuple[str, ...]) -> None:
    assert fieldset.contains(fields, path) is (path in members(fields))
    assert not fieldset.contains(fields, ())


def test_difference_of_disjoint_sets_is_the_same_object() -> None:
    fields = fieldset.from_paths([("f:a", "f:b")])
    assert fieldset.difference(fields, {"f:c": {}}) is fields


def test_a_parent_does_not_take_its_children_along() -> None:
    fields: FieldSet = {"f:a": {".": {}, "f:b": {}}}
    assert fieldset.difference(fields, {"f:a": {}}) == {"f:a": {"f:b": {}}}


def test_paths_come_level_by_level_members_first() -> None:
    fields: FieldSet = {"f:b": {}, "f:a": {"f:z": {}, "f:c": {".": {}, "f:d": {}}}}
    assert [fieldset.render(path) for path in fieldset.paths(fields)] == [".b", ".a.c", ".a.z", ".a.c.d"]


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (None, {}),
        ({"f:a": None}, {"f:a": {}}),
        ({"f:a": {".": {}}}, {"f:a": {}}),
        ({"f:a": {"x:future": {}}}, {"f:a": {}}),
        ({"f:a": {".": {}, "v:1.0": {}, "v:1": {}}}, {"f:a": {".": {}, "v:1": {}}}),
    ],
)
def test_sets_of_clients_are_brought_into_one_form(sent: object, read: FieldSet) -> None:
    assert fieldset.decode(sent) == read


@pytest.mark.parametrize("sent", [[], "x", {"f:a": 1}, {"": {}}, {"f:a": {"v:{": {}}}])
def test_unreadable_sets_are_refused(sent: object) -> None:
    with pytest.raises(ValueError):
        fieldset.decode(sent)
