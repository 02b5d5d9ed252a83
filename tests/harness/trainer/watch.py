"""A log of what happens to objects, for expectations that must hold at every moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from quarterdeck.api import GroupVersionKind
from quarterdeck.client import WatchEvent

from .caseobjects import CaseObjects

Json = dict[str, Any]

WATCHED: Final = (
    GroupVersionKind("", "v1", "Pod"),
    GroupVersionKind("", "v1", "Secret"),
    GroupVersionKind("", "v1", "ConfigMap"),
    GroupVersionKind("batch", "v1", "Job"),
    GroupVersionKind("jobset.x-k8s.io", "v1alpha2", "JobSet"),
    GroupVersionKind("trainer.kubeflow.org", "v1alpha1", "TrainJob"),
)
"""Kinds that are written down while steps run side by side."""


class ObjectLog:
    """Watches the objects of a kind in a namespace between `begin` and `end`."""

    def __init__(self, objects: CaseObjects, kind: GroupVersionKind, namespace: str) -> None:
        self._objects: Final = objects
        self.kind: Final = kind
        self.namespace: Final = namespace
        self._events: Final[list[tuple[str, Json]]] = []
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Take the present state and follow it."""
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._follow(ready), name="object-log")
        await ready.wait()

    async def _follow(self, ready: asyncio.Event) -> None:
        listed = await self._objects.client.list(self.kind, namespace=self.namespace)
        self._events.extend(("ADDED", each.to_dict()) for each in listed)
        async with self._objects.client.watch(
            self.kind, namespace=self.namespace, resource_version=listed.resource_version
        ) as events:
            ready.set()
            async for event in events:
                if isinstance(event, WatchEvent):
                    self._events.append((event.type, event.object.to_dict()))

    async def end(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def states(self) -> Iterator[list[Json]]:
        """The objects after each event."""
        present: dict[str, Json] = {}
        for kind, document in self._events:
            uid = document["metadata"]["uid"]
            if kind == "DELETED":
                present.pop(uid, None)
            else:
                present[uid] = document
            yield list(present.values())
