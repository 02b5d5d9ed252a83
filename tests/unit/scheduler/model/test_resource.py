"""Amounts of resources."""

from __future__ import annotations

import pytest

from quarterdeck.api import Quantity
from quarterdeck.scheduler.resource import GPU, NOTHING, Resources, mig_gpus, resources_of


def test_amounts_are_added_and_taken_away_one_by_one() -> None:
    left = Resources(5, 7, 3, (("a", 2), ("b", 4)))
    right = Resources(1, 2, 0.5, (("b", 4), ("c", 1)))
    assert left + right == Resources(6, 9, 3.5, (("a", 2), ("b", 8), ("c", 1)))
    assert left - right == Resources(4, 5, 2.5, (("a", 2), ("c", -1)))


def test_nothing_changes_nothing() -> None:
    some = Resources(5, 7, 3, (("a", 2),))
    assert some + NOTHING == some - NOTHING == NOTHING + some == some
    assert some - some == NOTHING


def test_a_list_of_the_api_is_rounded_up_and_has_no_zeros() -> None:
    amounts = {"cpu": "1500u", "memory": "1500m", "pods": "9", GPU: "2", "b": "1", "a": "3", "none": "0"}
    found = resources_of({name: Quantity(text) for name, text in amounts.items()})
    assert found == Resources(2, 2, 2, (("a", 3), ("b", 1)))
    assert resources_of({}) == NOTHING


@pytest.mark.parametrize(
    ("scalars", "gpus"),
    [
        ((), 0),
        ((("nvidia.com/mig-1g.5gb", 1),), 1),
        ((("nvidia.com/mig-3g.20gb", 2), ("nvidia.com/mig-1g.5gb", 1)), 7),
        ((("nvidia.com/mig-xg.5gb", 1), ("example.com/mig-1g.5gb", 1)), 0),
    ],
)
def test_instances_of_gpus_count_by_their_slices(scalars: tuple[tuple[str, int], ...], gpus: int) -> None:
    assert mig_gpus(scalars) == gpus
