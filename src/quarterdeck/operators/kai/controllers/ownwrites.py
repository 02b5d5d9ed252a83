"""Waiting until the cache shows what the last cycle wrote.

A cycle decides on what the cache shows. One that did not see its predecessor's bind requests would give
the same pods other nodes.
"""

from __future__ import annotations

import asyncio
from typing import Final

from quarterdeck.api import Key, Resource
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.shard import Shard
from quarterdeck.runtime.cache.version import is_newer

TIMEOUT: Final = 5.0
"""Seconds after which a cycle begins anyway: a cache that is behind for so long has other trouble."""


class OwnWrites:
    """What was written and may not be in the cache yet."""

    def __init__(self, cache: Cache) -> None:
        self._cache: Final = cache
        self._versions: dict[Shard, str] = {}
        self._deletions: dict[tuple[Shard, Key], str] = {}

    def wrote(self, obj: Resource) -> None:
        """An object was written, and came back like this."""
        shard = self._shard(type(obj), obj.metadata.namespace)
        version = obj.metadata.resource_version
        if shard is not None and is_newer(version, self._versions.get(shard, "1")):
            self._versions[shard] = version

    def deleted(self, obj: Resource) -> None:
        """An object was deleted, or its deletion began."""
        shard = self._shard(type(obj), obj.metadata.namespace)
        if shard is not None:
            self._deletions[shard, obj.key] = obj.metadata.uid

    def _shard(self, kind: type[Resource], namespace: str) -> Shard | None:
        return self._cache.informer(kind).shard_for(namespace)

    async def wait_seen(self) -> bool:
        """Wait for the cache to catch up; returns whether it did in time."""
        waits = [shard.wait_version(version) for shard, version in self._versions.items()]
        waits += [_seen_deletion(shard, key, uid) for (shard, key), uid in self._deletions.items()]
        self._versions, self._deletions = {}, {}
        if not waits:
            return True
        try:
            async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as group:
                for wait in waits:
                    group.create_task(wait)
        except TimeoutError:
            return False
        return True


async def _seen_deletion(shard: Shard, key: Key, uid: str) -> None:
    def is_going(entry: Entry | None) -> bool:
        return entry is None or entry.uid != uid or entry.is_deleting

    reached = asyncio.Event()
    cancel = shard.when_entry(key.namespace, key.name, is_going, reached.set)
    try:
        await reached.wait()
    finally:
        cancel()
