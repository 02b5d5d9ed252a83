"""The controllers of `quarterdeck.cluster` as one runnable."""

from __future__ import annotations

import asyncio

from quarterdeck.client import Client
from quarterdeck.cluster.garbage import GarbageCollector
from quarterdeck.cluster.namespace import NamespaceController
from quarterdeck.runtime.cache import Cache

__all__ = ["ClusterControllers"]


class ClusterControllers:
    """Runs until cancelled, on one client and one cache."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.cache = Cache(client, client.mapper)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.cache.run())
            group.create_task(GarbageCollector(self._client, self.cache, self._client.mapper).run())
            group.create_task(NamespaceController(self._client, self.cache, self._client.mapper).run())
