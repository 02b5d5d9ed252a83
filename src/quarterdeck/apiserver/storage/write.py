"""A write that waits for its batch, and a batch that waits for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .bucket import Bucket
from .entry import Entry, Event
from .error import WriteConflict
from .row import Row


@dataclass(slots=True, eq=False)
class Write:
    """One change of one key."""

    bucket: Bucket
    namespace: str
    name: str
    expected: int
    value: bytes
    future: asyncio.Future[Entry]
    """Answered when it is durable."""
    labels: Mapping[str, str] | None = None
    fields: Mapping[str, str] | None = None
    mark: object = None
    is_delete: bool = False


@dataclass(slots=True, eq=False)
class Batch:
    """Writes that become durable together, and what becomes of each then."""

    rows: list[Row] = field(default_factory=list)
    events: list[tuple[Bucket, Event]] = field(default_factory=list)
    accepted: list[tuple[asyncio.Future[Entry], Entry]] = field(default_factory=list)
    refused: list[tuple[asyncio.Future[Entry], WriteConflict]] = field(default_factory=list)

    def answer(self) -> None:
        """It is durable: tell those who wait."""
        for future, entry in self.accepted:
            if not future.done():
                future.set_result(entry)
        for future, conflict in self.refused:
            if not future.done():
                future.set_exception(conflict)

    def futures(self) -> Iterator[asyncio.Future[Entry]]:
        for future, _ in (*self.accepted, *self.refused):
            yield future
