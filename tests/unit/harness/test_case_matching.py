"""What an expectation accepts and what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.matching import MISSING, json_equal, mismatches

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_characters="$")), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_every_value_matches_itself(value: object) -> None:
    assert mismatches(value, value) == []
    assert json_equal(value, value)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": {"$absent": True}}, {}),
        ({"a": {"$falsy": True}}, {"a": []}),
        ({"a": {"$falsy": True}}, {}),
        ({"a": {"$any": True}}, {"a": None}),
        ({"a": {"$regex": "^x"}}, {"a": "xy"}),
        ({"a": {"$contains": "b"}}, {"a": "abc"}),
        ({"a": {"$exact": {"x": 1}}}, {"a": {"x": 1}}),
        ({"a": {"$len": 2}}, {"a": [1, 2]}),
        ({"a": {"$includes": [{"n": 1}]}}, {"a": [{"n": 2}, {"n": 1, "m": 3}]}),
        ({"a": {"$excludes": [{"n": 1}]}}, {"a": [{"n": 2}]}),
        ({"a": {"$unordered": [{}, {"n": 1}]}}, {"a": [{"n": 1}, {"n": 2}]}),
        ({"a": {"$ref": "v"}}, {"a": 7}),
        ({"a": {"$notRef": "v"}}, {"a": 8}),
        ({"a": {"$ref": "#/components/x"}}, {"a": {"$ref": "#/components/x"}}),
        ([{"a": 1}], [{"a": 1, "b": 1}]),
    ],
)
def test_matching_values(expected: object, actual: object) -> None:
    assert mismatches(expected, actual, {"v": 7}) == []


@pytest.mark.parametrize(
    ("expected", "actual", "text"),
    [
        ({"a": 1}, {}, "a: expected 1, got nothing"),
        ({"a": True}, {"a": 1}, "a: expected true, got 1"),
        ({"a": {"b": "x"}}, {"a": {"b": "y"}}, 'a.b: expected "x", got "y"'),
        ({"a": {"$absent": True}}, {"a": None}, "a: expected nothing, got null"),
        ({"a": {"$any": True}}, {}, "a: expected a value, got nothing"),
        ({"a": {"$exact": {"x": 1}}}, {"a": {"x": 1, "y": 2}}, "a: expected exactly"),
        ([1], [1, 2], "expected 1 elements, got [1, 2]"),
        ([{"a": 1}], [{"a": 2}], "[0].a: expected 1, got 2"),
        ({"a": {"$unordered": [1, 1]}}, {"a": [1, 2]}, "a: expected in any order"),
        ({"a": {"$includes": [3]}}, {"a": [1, 2]}, "a: expected an element like 3"),
        ({"a": {"$excludes": [1]}}, {"a": [1, 2]}, "a: expected no element like 1"),
        ({"a": {"$ref": "v"}}, {"a": 8}, "a: expected 7 (saved as v)"),
        ({"a": {"$ref": "w"}}, {"a": 8}, "a: no variable w was saved"),
        ({"a": {"$soon": 1}}, {"a": 8}, "a: unknown matcher $soon"),
    ],
)
def test_mismatches_name_the_path(expected: object, actual: object, text: str) -> None:
    found = mismatches(expected, actual, {"v": 7})
    assert len(found) == 1
    assert text in found[0]


def test_missing_never_equals_anything() -> None:
    assert mismatches({"$exact": None}, MISSING) != []
