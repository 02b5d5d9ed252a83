"""The clusters that a manager serves: its own, and those that providers bring."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from quarterdeck.client.clock import Clock
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.cache.cache import Cache
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.supervision import Loop, Policy, end_all
from quarterdeck.runtime.manager.cluster import Cluster, ClusterProvider

_SETTLE_PERIOD: Final = 0.02
_log: Final = get_logger(__name__)


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
        """``own`` is the manager's cluster; ``failed`` is told if its cache ends with an error."""
        self._own: Final = own
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
        """Wait until every informer of our own cluster is synced, or blocked by what waiting does not cure.

        The other clusters are not waited for: one that is away holds up nobody.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not all(
                    informer.has_synced or informer.health.is_blocked
                    for informer in self._own.cache.informers
                ):
                    await self._clock.sleep(_SETTLE_PERIOD)

    def add_provider(self, provider: ClusterProvider) -> None:
        """Serve the clusters that a provider finds."""
        self._providers.append(provider)
        if self._follows:
            self._start_following(provider)

    def follow_providers(self) -> None:
        """Let clusters join and leave."""
        self._follows = True
        for provider in self._providers:
            self._start_following(provider)

    def _start_following(self, provider: ClusterProvider) -> None:
        name = f"cluster provider {type(provider).__name__}"
        loop = Loop(name, lambda: self._follow(provider), policy=Policy.RESTART, clock=self._clock)
        self._spawn(loop.run(), name)

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
            await end_all([task])
        await cluster.aclose()

    async def stop_caches(self) -> None:
        """End the caches of all clusters."""
        await end_all(list(self._tasks.values()))

    def _start_cache(self, cluster: Cluster) -> None:
        is_own = cluster is self._own
        loop = Loop(
            f"cache {cluster.name}".strip(),
            cluster.run,
            policy=Policy.STOP if is_own else Policy.ISOLATE,
            failed=self._failed if is_own else None,
            clock=self._clock,
        )
        self._tasks[cluster.name] = self._spawn(loop.run(), loop.name)

    async def _follow(self, provider: ClusterProvider) -> None:
        """Let clusters join and leave; a provider that begins again tells those that are there once more."""
        async for change, cluster in provider.events():
            if change == "disengaged":
                await self.disengage(cluster.name)
            elif cluster.name in self.clusters:
                _log.info("a cluster that is engaged already was told again", cluster=cluster.name)
            else:
                await self.engage(cluster)
