"""A word that the runner does not know is refused wherever it stands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.case import CaseFailure
from tests.harness.words import Named, Tagged, refuse_unknown, unknown_words, words

TABLE = words(
    "object",
    pods=[words("name", state=frozenset({"Pending", "Running"}), gpu=words("quota"))],
    expected=Named(words("state", "node")),
    steps=[Tagged("op", {"wait": words("seconds"), "stop": words()})],
)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"pods": None},
        {"pods": [{"name": "a", "state": "Pending", "gpu": {"quota": 1}}]},
        {"expected": {"any-name": {"state": "Bound"}}},
        {"steps": [{"op": "wait", "seconds": 1}, {"op": "stop"}]},
        {"object": {"whatever": [1, {"deep": None}]}},
    ],
)
def test_what_the_table_has_is_in_order(value: Any) -> None:
    refuse_unknown(value, TABLE, "given")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"pod": []}, "given.pod is not understood"),
        ({"pods": [{"name": "a"}, {"name": "b", "gpus": 1}]}, "given.pods[1](b).gpus is not understood"),
        ({"pods": [{"gpu": {"qouta": 1}}]}, "given.pods[0].gpu.qouta is not understood"),
        (
            {"pods": [{"name": "a", "state": "Runing"}]},
            "given.pods[0](a).state: 'Runing' is not understood (one of Pending, Running)",
        ),
        ({"expected": {"a": {"sate": "Bound"}}}, "given.expected.a.sate is not understood"),
        ({"steps": [{"op": "stop", "seconds": 1}]}, "given.steps[0].seconds is not understood"),
        ({"steps": [{"op": "jump"}]}, "given.steps[0]: op 'jump' is not understood"),
        ({"steps": [{"seconds": 1}]}, "given.steps[0]: op None is not understood"),
        ({"pods": {"name": "a"}}, "given.pods: expected a list, found {'name': 'a'}"),
        ({"expected": ["a"]}, "given.expected: expected an object, found ['a']"),
        ({"pods": [{"gpu": 1}]}, "given.pods[0].gpu: expected an object, found 1"),
        ({"pods": [{"state": ["Pending"]}]}, "given.pods[0].state: ['Pending'] is not understood"),
    ],
)
def test_anything_else_is_named_with_its_place(value: Any, told: str) -> None:
    (line,) = unknown_words(value, TABLE, "given")
    assert line.startswith(told)


def test_all_of_them_are_told_at_once() -> None:
    with pytest.raises(CaseFailure) as failure:
        refuse_unknown({"a": 1, "pods": [{"b": 2}]}, TABLE, "given")
    assert len(failure.value.lines) == 2
