"""The clusters that a manager serves: its own, and those that providers bring."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from quarterdeck.errors import ConfigError
from quarterdeck.runtime.cache.cache import Cache
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.loop.clock import Clock
from quarterdeck.runtime.manager.cluster import Cluster, ClusterProvider

__all__ = ["Fleet"]

_SETTLE_PERIOD: Final = 0.02


class Fleet:
    """Clusters by name, their caches at work, and the controllers that each of them is served by."""

    def __init__(
        self,
        own: Cluster,
        controllers: Mapping[str, Controller[Any]],
        *,
        spawn: Callable[[Awaitable[None], str], asyncio.Task[None]],
        failed: Callable[[Exception], None],
        clock: Clock,
    ) -> None:
        """``own`` is the manager's cluster, ``failed`` is told of a cache that ends with an error."""
        self.clusters: Final[dict[str, Cluster]] = {own.name: own}
        self._controllers: Final = controllers
        self._providers: Final[list[ClusterProvider]] = []
        self._tasks: Final[dict[str, asyncio.Task[None]]] = {}
        self._spawn: Final = spawn
        self._failed: Final = failed
        self._clock: Final = clock
        self._runs = False
        self._follows = False

    def __iter__(self) -> Iterator[Cluster]:
        return iter(self.clusters.values())

    def caches_by_name(self) -> dict[str, Cache]:
        """The caches, as metrics call them."""
        return {name or "default": cluster.cache for name, cluster in self.clusters.items()}

    def start_caches(self) -> None:
        """Run the caches of all clusters, and from now on those of clusters that join."""
        self._runs = True
        for cluster in self:
            self._start_cache(cluster)

    async def wait_settled(self, timeout: float) -> None:
        """Wait until every informer is synced, or blocked by something that waiting does not cure."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not all(
                    informer.has_synced or informer.health.is_blocked
                    for cluster in self
                    for informer in cluster.cache.informers
                ):
                    await self._clock.sleep(_SETTLE_PERIOD)

    def add_provider(self, provider: ClusterProvider) -> None:
        """Serve the clusters that a provider finds."""
        self._providers.append(provider)
        if self._follows:
            self._spawn(self._follow(provider), "cluster provider")

    def follow_providers(self) -> None:
        """Let clusters join and leave."""
        self._follows = True
        for provider in self._providers:
            self._spawn(self._follow(provider), "cluster provider")

    async def engage(self, cluster: Cluster) -> None:
        """Serve one more cluster with every controller."""
        if cluster.name in self.clusters:
            raise ConfigError(f"cluster {cluster.name!r} is already engaged")
        self.clusters[cluster.name] = cluster
        if self._runs:
            self._start_cache(cluster)
        for controller in self._controllers.values():
            controller.engage(cluster.name, cluster.client, cluster.cache)

    async def disengage(self, name: str) -> None:
        """Stop serving a cluster; its queued keys are dropped, its cache ends."""
        cluster = self.clusters.pop(name, None)
        if cluster is None:
            return
        for controller in self._controllers.values():
            await controller.disengage(name)
        task = self._tasks.pop(name, None)
        if task is not None:
            await _cancelled([task])
        await cluster.aclose()

    async def stop_caches(self) -> None:
        """End the caches of all clusters."""
        await _cancelled(list(self._tasks.values()))

    def _start_cache(self, cluster: Cluster) -> None:
        self._tasks[cluster.name] = self._spawn(self._run_cache(cluster), f"cache {cluster.name}".strip())

    async def _run_cache(self, cluster: Cluster) -> None:
        try:
            await cluster.run()
        except Exception as error:  # noqa: BLE001  supervision point: the manager decides
            self._failed(error)

    async def _follow(self, provider: ClusterProvider) -> None:
        async for change, cluster in provider.events():
            if change == "engaged":
                await self.engage(cluster)
            else:
                await self.disengage(cluster.name)


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
