"""What happened during a grove case, in the order in which it was stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.client import Client, WatchEvent
from quarterdeck.errors import ApiError, TransportError

__all__ = ["History", "Record"]

Json = dict[str, Any]

_KINDS: Final = (
    GroupVersionKind("", "v1", "Pod"),
    GroupVersionKind("scheduler.grove.io", "v1alpha1", "PodGang"),
    GroupVersionKind("grove.io", "v1alpha1", "PodCliqueSet"),
)
_PAUSE: Final = 0.01


class Record(msgspec.Struct, frozen=True):
    """One change."""

    version: int
    type: str
    """``ADDED``, ``MODIFIED`` or ``DELETED``."""
    kind: str
    document: Json

    @property
    def name(self) -> str:
        """Of the object."""
        return str(self.document["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Of the object."""
        return str(self.document["metadata"]["uid"])

    @property
    def labels(self) -> dict[str, str]:
        """Of the object."""
        found: dict[str, str] = self.document["metadata"].get("labels") or {}
        return found


class History:
    """Watches for the time of a case; what was seen is read only when a check asks for it."""

    def __init__(self, client: Client, version: str) -> None:
        """``version`` is where it begins."""
        self._client: Final = client
        self._begin: Final = version
        self._unread: list[tuple[str, str, DynamicObject]] = []
        self._records: list[Record] = []
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin."""
        self._tasks = [
            asyncio.create_task(self._follow(kind), name=f"history {kind.kind}") for kind in _KINDS
        ]

    async def stop(self) -> None:
        """End."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, kind: GroupVersionKind) -> None:
        version = self._begin
        while True:
            try:
                async with self._client.watch(kind, namespace="default", resource_version=version) as events:
                    async for event in events:
                        if isinstance(event, WatchEvent):
                            self._unread.append((kind.kind, event.type, event.object))
            except (ApiError, TransportError):
                pass
            await asyncio.sleep(_PAUSE)
            version = self._last(kind.kind) or version

    def _last(self, kind: str) -> str:
        return next((str(record.version) for record in reversed(self._read()) if record.kind == kind), "")

    def _read(self) -> list[Record]:
        for kind, type, seen in self._unread:
            document = seen.to_dict()
            version = int(document["metadata"]["resourceVersion"])
            self._records.append(Record(version, type, kind, document))
        self._unread.clear()
        return self._records

    def since(self, version: int = 0, kinds: Iterable[str] = ()) -> list[Record]:
        """What happened after a version, in order."""
        wanted = set(kinds)
        found = [
            record
            for record in self._read()
            if record.version > version and (not wanted or record.kind in wanted)
        ]
        return sorted(found, key=lambda record: record.version)
