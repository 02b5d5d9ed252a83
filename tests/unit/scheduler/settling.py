"""Cycles one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from quarterdeck.scheduler import CycleResult, Settings, Snapshot, schedule
from quarterdeck.scheduler.decision import Bind, Evict
from quarterdeck.scheduler.plan import after

__all__ = ["after", "changes", "cycles"]


def cycles(snapshot: Snapshot, settings: Settings, count: int) -> Iterator[tuple[Snapshot, CycleResult]]:
    """Some cycles: each with what it saw."""
    for _ in range(count):
        result = schedule(snapshot, settings)
        yield snapshot, result
        snapshot = after(snapshot, result)


def changes(result: CycleResult) -> list[Bind | Evict]:
    """What a cycle does to pods."""
    return [each for each in result.decisions if isinstance(each, Bind | Evict)]
