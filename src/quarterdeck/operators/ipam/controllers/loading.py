"""Bringing the table up to date before the first allocation of a term of leadership.

The cache may be behind: what another leader created a moment ago is perhaps not in it. So Subnets and
pools are listed from the server, and what the lists have goes into the table by the same rule as events
do: newer states win. What the table had and the lists do not is gone, unless it is younger than the
list.

Where nobody is elected, the term began with the process. If the first list of the cache had everything that
was written before (a streamed list has), there is nothing to be found out by another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Final

import msgspec

from quarterdeck.api.codec import decode
from quarterdeck.client import Client
from quarterdeck.errors import Gone, QuarterdeckError
from quarterdeck.operators.ipam.logic.facts import Member, version_number
from quarterdeck.operators.ipam.types import Subnet, SubnetPool
from quarterdeck.runtime.cache.shard import Shard
from quarterdeck.runtime.controller.source import SourceContext
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.loop.backoff import EndlessBackoff

from .shared import SharedState

PAGE_SIZE: Final = 1000
FEED_PACE: Final = 0.02
"""Seconds between two looks at how far the feeds are."""
_log: Final = get_logger(__name__)


class TermSource:
    """A source that enqueues nothing: it holds its controller back until the table is fit."""

    name: Final = "consistent list"

    def __init__(
        self, shared: SharedState, client: Client, *, is_fed: Callable[[], bool], is_elected: bool
    ) -> None:
        """``is_fed`` says whether the table has all that the cache has."""
        self._shared: Final = shared
        self._client: Final = client
        self._is_fed: Final = is_fed
        self._is_elected: Final = is_elected

    async def run(self, context: SourceContext) -> None:
        """List, then wait until cancelled; the table is not fit any more after that."""
        informer = context.cache.informer(Subnet)
        await informer.wait_synced()
        while not self._is_fed():
            # What the feeds bring shares its texts with the cache, and the list then has next to no news.
            await context.clock.sleep(FEED_PACE)
        backoff = EndlessBackoff(base=0.1, cap=10.0, jitter=0.1, clock=context.clock, rng=context.rng)
        while not (self._is_current(context) or await self._load(context)):
            await context.clock.sleep(backoff.next())
        self._shared.table.neighbours.open()
        self._shared.ready.set()
        context.synced()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._shared.ready.clear()

    def _is_current(self, context: SourceContext) -> bool:
        """Whether the cache has all that was there when the term began."""
        if self._is_elected:
            return False
        informers = (context.cache.informer(SubnetPool), context.cache.informer(Subnet))
        return all(shard.began_current for each in informers for shard in each.statistics().shards)

    async def _load(self, context: SourceContext) -> bool:
        started = perf_counter()
        try:
            for shard in context.cache.informer(SubnetPool).shards:
                await self._load_pools(shard.namespace)
            for shard in context.cache.informer(Subnet).shards:
                await self._load_subnets(shard)
        except QuarterdeckError as error:
            if isinstance(error, Gone):
                self._shared.metrics.skipped_pages.inc()
            _log.warning("cannot list the pools and their Subnets yet", error)
            return False
        self._shared.metrics.rebuilds.observe(perf_counter() - started)
        return True

    async def _load_pools(self, namespace: str) -> None:
        async for page in self._client.pages(SubnetPool, namespace=namespace, limit=PAGE_SIZE):
            for pool in page:
                self._shared.take_pool(pool)

    async def _load_subnets(self, shard: Shard) -> None:
        shared, listed, news, version = self._shared, set[str](), list[Member](), ""
        async for page in self._client.raw_pages(Subnet, namespace=shard.namespace, limit=PAGE_SIZE):
            shared.metrics.list_pages.inc()
            version = version or page.metadata.resource_version
            for item in page.items:
                seen = decode(item, _Seen).metadata
                known = shared.table.member(seen.uid)
                if known is None or known.version != version_number(seen.resource_version):
                    known = shared.take_subnet(Subnet.from_bytes(bytes(item)))
                    if known is not None:
                        news.append(known)
                if known is not None:
                    listed.add(known.uid)
        limit = version_number(version)
        for member in [each for each in shared.table.members() if each.uid not in listed]:
            if member.version <= limit and shard.namespace in ("", member.namespace):
                shared.table.drop_subnet(member.uid)

        def sweep() -> None:
            """The cache is past the list now: what the list had for news and it does not have is deleted."""
            for member in news:
                entry = shard.store.get(member.namespace, member.name)
                if entry is None or entry.uid != member.uid:
                    shared.table.drop_subnet(member.uid)

        shard.when_version(version, sweep)


class _SeenMeta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Seen(msgspec.Struct):
    """What tells whether the table has this state of a Subnet already; a million others it has."""

    metadata: _SeenMeta
