"""Events of the scheduler, without saying the same thing every second.

A cycle finds the same groups unschedulable as the one before. An event is recorded when there is something
new to say about an object, and otherwise at most every few minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from quarterdeck.api import Resource
from quarterdeck.client.clock import Clock
from quarterdeck.runtime.contract import Recorder

PERIOD: Final = 300.0
"""Seconds after which the same is said again."""
ACTION: Final = "Scheduling"


class SchedulingEvents:
    """Records events about pods and pod groups."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder: Final = recorder
        self._clock: Final = clock
        self._said: dict[tuple[str, str], tuple[str, float]] = {}
        self._swept = clock.monotonic()

    def tell(
        self,
        about: Resource,
        type: Literal["Normal", "Warning"],
        reason: str,
        note: str,
        *,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Record an event about something that happened."""
        self._recorder.event(about, type, reason, ACTION, note, annotations=annotations)

    def repeat(self, about: Resource, type: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        """Record an event about something that goes on, unless the same was said lately."""
        slot, now = (about.metadata.uid, reason), self._clock.monotonic()
        if now - self._swept > PERIOD:
            self._swept = now
            self._said = {known: said for known, said in self._said.items() if now < said[1]}
        said, until = self._said.get(slot, ("", 0.0))
        if said == note and now < until:
            return
        self._said[slot] = (note, now + PERIOD)
        self.tell(about, type, reason, note)
