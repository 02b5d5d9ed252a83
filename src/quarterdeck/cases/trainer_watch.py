"""A log of what happens to pods, for expectations that must hold at every moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from quarterdeck.api.k8s import Pod
from quarterdeck.client import WatchEvent

from .trainer_world import World

Json = dict[str, Any]


class PodLog:
    """Watches the pods of a namespace between `begin` and `end`."""

    def __init__(self, world: World, namespace: str) -> None:
        self._world: Final = world
        self.namespace: Final = namespace
        self._events: Final[list[tuple[str, Json]]] = []
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Take the present state and follow it."""
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._follow(ready), name="pod-log")
        await ready.wait()

    async def _follow(self, ready: asyncio.Event) -> None:
        listed = await self._world.client.list(Pod, namespace=self.namespace)
        self._events.extend(("ADDED", pod.to_dict()) for pod in listed)
        async with self._world.client.watch(
            Pod, namespace=self.namespace, resource_version=listed.resource_version
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
        """The pods after each event."""
        pods: dict[str, Json] = {}
        for kind, pod in self._events:
            uid = pod["metadata"]["uid"]
            if kind == "DELETED":
                pods.pop(uid, None)
            else:
                pods[uid] = pod
            yield list(pods.values())
