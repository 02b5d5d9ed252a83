"""Circles among cliques that start after each other."""

from __future__ import annotations

import pytest

from quarterdeck.operators.grove.logic.validation.dependency import cycles


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": []}, []),
        ({"a": ["a"]}, []),  # another rule
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, [{"a", "b", "c"}]),
        ({"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"], "e": ["a", "c"]}, [{"a", "b"}, {"c", "d"}]),
        ({"a": ["x"], "b": ["a"]}, []),
    ],
)
def test_circles_are_found(graph: dict[str, list[str]], expected: list[set[str]]) -> None:
    assert [set(each) for each in cycles(graph)] == expected


def test_a_long_chain_is_no_circle_and_does_not_exhaust_the_stack() -> None:
    chain = {f"c{i}": [f"c{i + 1}"] for i in range(5000)}
    assert cycles(chain) == []
    assert len(cycles({**chain, "c5000": ["c0"]})[0]) == 5001
