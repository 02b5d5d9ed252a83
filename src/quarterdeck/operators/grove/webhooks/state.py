"""What the webhooks read of the cluster."""

from __future__ import annotations

from typing import Final, Protocol

from quarterdeck.client import Client
from quarterdeck.errors import CacheError, NotFound
from quarterdeck.operators.grove.types import ClusterTopologyBinding, PodCliqueScalingGroup, PodCliqueSet
from quarterdeck.runtime.cache import Cache


class ClusterReader(Protocol):
    """Reads; nothing comes back for what does not exist."""

    async def pod_clique_set(self, name: str, namespace: str) -> PodCliqueSet | None: ...
    async def topology(self, name: str) -> ClusterTopologyBinding | None: ...
    async def scaling_group(self, name: str, namespace: str) -> PodCliqueScalingGroup | None: ...


class LiveReader:
    """Asks the server."""

    def __init__(self, client: Client) -> None:
        self._client: Final = client

    async def pod_clique_set(self, name: str, namespace: str) -> PodCliqueSet | None:
        """A set."""
        try:
            return await self._client.get(PodCliqueSet, name, namespace)
        except NotFound:
            return None

    async def topology(self, name: str) -> ClusterTopologyBinding | None:
        """A topology."""
        try:
            return await self._client.get(ClusterTopologyBinding, name)
        except NotFound:
            return None

    async def scaling_group(self, name: str, namespace: str) -> PodCliqueScalingGroup | None:
        """A group."""
        try:
            return await self._client.get(PodCliqueScalingGroup, name, namespace)
        except NotFound:
            return None


class SyncedReader:
    """Asks the cache for sets, which are many; where it does not know, the server has the last word."""

    def __init__(self, cache: Cache, live: LiveReader) -> None:
        self._cache: Final = cache
        self._live: Final = live

    async def pod_clique_set(self, name: str, namespace: str) -> PodCliqueSet | None:
        """A set."""
        informer = self._cache.informer(PodCliqueSet) if self._cache.has_informer(PodCliqueSet) else None
        if informer is not None and informer.has_synced:
            try:
                return await self._cache.get(PodCliqueSet, name, namespace)
            except (NotFound, CacheError):
                pass
        return await self._live.pod_clique_set(name, namespace)

    async def topology(self, name: str) -> ClusterTopologyBinding | None:
        """A topology: a set may be made right after it."""
        return await self._live.topology(name)

    async def scaling_group(self, name: str, namespace: str) -> PodCliqueScalingGroup | None:
        """A group: what counts is what is stored."""
        return await self._live.scaling_group(name, namespace)
