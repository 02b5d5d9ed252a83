"""Events about claims: told when no claim waits any more, and no faster than they are written."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Literal, NamedTuple

from quarterdeck.api import ObjectMeta
from quarterdeck.operators.ipam.types import SubnetClaim
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.source import SourceContext
from quarterdeck.runtime.event.recorder import EventRecorder

from .rush import ClaimRush

ACTION: Final = "Allocate"
MAX_WAITING: Final = 100_000
"""Events that wait at most, some 30 MB; what comes then goes to the recorder at once, room or not."""
PACE: Final = 0.05
"""Seconds until a recorder without room is asked again."""


class _Told(NamedTuple):
    name: str
    namespace: str
    uid: str
    version: str
    kind: Literal["Normal", "Warning"]
    reason: str
    note: str


class Announcements:
    """A source that enqueues nothing: it runs beside the controller of claims and tells what that says."""

    name: Final = "events of claims"

    def __init__(self, recorder: Recorder, rush: ClaimRush) -> None:
        self._recorder: Final = recorder
        self._rush: Final = rush
        self._waiting: Final[deque[_Told]] = deque()
        self._filled: Final = asyncio.Event()

    def tell(self, claim: SubnetClaim, kind: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        """An event about a claim, as it is now."""
        of = claim.metadata
        told = _Told(of.name, of.namespace, of.uid, of.resource_version, kind, reason, note)
        if len(self._waiting) >= MAX_WAITING:
            self._record(told)
            return
        self._waiting.append(told)
        self._filled.set()

    async def run(self, context: SourceContext) -> None:
        """Tell until cancelled, then what is left."""
        context.synced()
        try:
            while True:
                await self._filled.wait()
                self._filled.clear()
                while self._waiting:
                    await self._rush.give_way()
                    while not self._has_room():
                        await context.clock.sleep(PACE)
                    self._record(self._waiting.popleft())
        finally:
            while self._waiting:
                self._record(self._waiting.popleft())

    def _has_room(self) -> bool:
        return not isinstance(self._recorder, EventRecorder) or self._recorder.has_room

    def _record(self, told: _Told) -> None:
        metadata = ObjectMeta(
            name=told.name, namespace=told.namespace, uid=told.uid, resource_version=told.version
        )
        self._recorder.event(SubnetClaim(metadata=metadata), told.kind, told.reason, ACTION, told.note)
