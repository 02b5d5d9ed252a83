"""How long changes are gathered."""

from __future__ import annotations

from quarterdeck.api import Key
from quarterdeck.runtime.controller.gathering import Gathering


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def crowd(gathering: Gathering, count: int) -> list[float]:
    return [gathering(Key("default", f"object-{number}")) for number in range(count)]


def test_one_object_that_changes_is_looked_at_soon_however_often_it_changes() -> None:
    gathering = Gathering(0.1, clock=Clock())
    assert {gathering(Key("default", "only")) for _ in range(100)} == {0.1}


def test_in_a_crowd_every_object_waits_for_longer() -> None:
    clock = Clock()
    gathering = Gathering(0.1, longest=2.0, clock=clock)
    assert crowd(gathering, 17) == [0.1] * 16 + [2.0]
    clock.now += 1.2
    assert crowd(gathering, 1) == [2.0], "the next moment begins as the last one ended"


def test_a_crowd_is_over_when_few_objects_change_or_none() -> None:
    clock = Clock()
    gathering = Gathering(0.1, clock=clock)
    crowd(gathering, 50)
    clock.now += 1.2
    crowd(gathering, 3)
    clock.now += 1.2
    assert crowd(gathering, 1) == [0.1]
    crowd(gathering, 50)
    clock.now += 10.0
    assert crowd(gathering, 1) == [0.1]
