"""A cluster as the runtime sees it: a client, a cache, and what belongs to them.

A manager has one cluster of its own; a ``ClusterProvider`` brings others that come and go. Keys carry the
cluster's name, contexts are bound to its client.
"""

import random
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Literal, NamedTuple, Protocol, Self

from quarterdeck.api import Scheme
from quarterdeck.client import Client, Config, Observer
from quarterdeck.client.clock import Clock
from quarterdeck.runtime.cache.cache import Cache
from quarterdeck.runtime.cache.options import CacheOptions
from quarterdeck.runtime.loop.clock import LoopClock


class Cluster:
    """Client and cache of one API server. The empty name is the manager's own cluster."""

    def __init__(
        self,
        client: Client,
        *,
        name: str = "",
        cache: CacheOptions | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        owns_client: bool = False,
    ) -> None:
        """``owns_client`` closes the client together with the cluster."""
        self.name: Final = name
        self.client: Final = client
        """Reads and writes the server; ``cache`` serves cached reads."""
        self.cache: Final = Cache(
            client,
            client.mapper,
            options=cache,
            scheme=client.scheme,
            clock=clock if clock is not None else LoopClock(),
            rng=rng,
        )
        self._owns_client: Final = owns_client

    @classmethod
    def connect(
        cls,
        config: Config,
        *,
        name: str = "",
        cache: CacheOptions | None = None,
        scheme: Scheme | None = None,
        observer: Observer | None = None,
    ) -> Self:
        """A cluster over HTTP."""
        client = Client.connect(config, scheme=scheme, observer=observer)
        return cls(client, name=name, cache=cache, owns_client=True)

    async def run(self) -> None:
        """Run the cache until cancelled."""
        await self.cache.run()

    async def aclose(self) -> None:
        """Close the connection, if it is ours."""
        if self._owns_client:
            await self.client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"Cluster({self.name!r})"


class ClusterEvent(NamedTuple):
    """A cluster that joins or leaves the fleet."""

    change: Literal["engaged", "disengaged"]
    cluster: Cluster


class ClusterProvider(Protocol):
    """Finds the clusters of a fleet."""

    def events(self) -> AsyncIterator[ClusterEvent]:
        """Clusters that join and leave, until cancelled. A name joins once before it leaves."""
        ...
