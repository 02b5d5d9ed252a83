"""A write that waits for its batch, and a batch that waits for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from .bucket import Bucket
from .entry import Entry, Event
from .error import WriteConflict
from .row import Row


class Outcome(asyncio.Future[Entry]):
    """What becomes of a write.

    Who stops waiting takes the write back, unless it is on its way to the disk: then it is waited for, so
    that what was taken for it is kept until it is certain whether it is stored; see `decided` for the answer.
    """

    __slots__ = ("is_under_way",)

    def __init__(self) -> None:
        super().__init__()
        self.is_under_way = False

    def cancel(self, msg: Any | None = None) -> bool:
        return not self.is_under_way and super().cancel(msg)


outlives_cancellation: Final[ContextVar[bool]] = ContextVar("outlives_cancellation", default=False)
"""Set for a request, whose answer is wanted even if its time is up; who sets it sees to it that a
cancellation goes on when the answer is there."""


async def decided(outcome: Outcome) -> Entry:
    """What was stored, also for a request whose time is up, or whose client has gone, meanwhile."""
    try:
        return await outcome
    except asyncio.CancelledError:
        if not outlives_cancellation.get() or not outcome.done() or outcome.cancelled():
            raise
        return outcome.result()


@dataclass(slots=True, eq=False)
class Write:
    """One change of one key."""

    bucket: Bucket
    namespace: str
    name: str
    expected: int
    value: bytes
    outcome: Outcome
    """Known when it is durable."""
    labels: Mapping[str, str] | None = None
    fields: Mapping[str, str] | None = None
    mark: object = None
    is_delete: bool = False


@dataclass(slots=True, eq=False)
class Batch:
    """Writes that become durable together, and what becomes of each then."""

    rows: list[Row] = field(default_factory=list)
    events: list[tuple[Bucket, Event]] = field(default_factory=list)
    accepted: list[tuple[Outcome, Entry]] = field(default_factory=list)
    refused: list[tuple[Outcome, WriteConflict]] = field(default_factory=list)

    def answer(self) -> None:
        """It is durable: tell those who wait."""
        for outcome, entry in self.accepted:
            outcome.set_result(entry)
        for outcome, conflict in self.refused:
            outcome.set_exception(conflict)

    def outcomes(self) -> Iterator[Outcome]:
        for outcome, _ in (*self.accepted, *self.refused):
            yield outcome
