"""Bringing the ledger up to date before the first allocation of a term of leadership.

The cache may be behind: what another leader created a moment ago is perhaps not in it. So Subnets and
pools are listed from the server, and what the lists have goes into the ledger by the same rule as events
do: newer states win. What the ledger had and the lists do not is gone, unless it is younger than the
list.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final

from quarterdeck.client import Client
from quarterdeck.errors import Gone, QuarterdeckError
from quarterdeck.operators.ipam.logic.facts import Member, version_number
from quarterdeck.operators.ipam.types import Subnet, SubnetPool
from quarterdeck.runtime.cache.shard import Shard
from quarterdeck.runtime.controller.source import SourceContext
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.loop.backoff import EndlessBackoff

from .office import Office

PAGE_SIZE: Final = 1000
_log: Final = get_logger(__name__)


class TermSource:
    """A source that enqueues nothing: it holds its controller back until the ledger is fit."""

    name: Final = "consistent list"

    def __init__(self, office: Office, client: Client) -> None:
        self._office: Final = office
        self._client: Final = client

    async def run(self, context: SourceContext) -> None:
        """List, then wait until cancelled; the ledger is not fit any more after that."""
        informer = context.cache.informer(Subnet)
        await informer.wait_synced()
        backoff = EndlessBackoff(base=0.1, cap=10.0, jitter=0.1, clock=context.clock, rng=context.rng)
        while not await self._load(context):
            await context.clock.sleep(backoff.next())
        self._office.ready.set()
        context.synced()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._office.ready.clear()

    async def _load(self, context: SourceContext) -> bool:
        started = perf_counter()
        try:
            for shard in context.cache.informer(SubnetPool).shards:
                await self._load_pools(shard.namespace)
            for shard in context.cache.informer(Subnet).shards:
                await self._load_subnets(shard)
        except QuarterdeckError as error:
            if isinstance(error, Gone):
                self._office.metrics.skipped_pages.inc()
            _log.warning("cannot list the pools and their Subnets yet", error)
            return False
        self._office.metrics.rebuilds.observe(perf_counter() - started)
        return True

    async def _load_pools(self, namespace: str) -> None:
        async for page in self._client.pages(SubnetPool, namespace=namespace, limit=PAGE_SIZE):
            for pool in page:
                self._office.take_pool(pool)

    async def _load_subnets(self, shard: Shard) -> None:
        office, listed, version = self._office, dict[str, Member](), ""
        async for page in self._client.pages(Subnet, namespace=shard.namespace, limit=PAGE_SIZE):
            office.metrics.list_pages.inc()
            version = version or page.resource_version
            for subnet in page:
                member = office.take_subnet(subnet)
                if member is not None:
                    listed[member.uid] = member
        limit = version_number(version)
        for member in [each for each in office.ledger.members() if each.uid not in listed]:
            if member.version <= limit and shard.namespace in ("", member.namespace):
                office.ledger.drop_subnet(member.uid)

        def sweep() -> None:
            """The cache is past the list now: what it does not have was deleted since."""
            for member in listed.values():
                entry = shard.store.get(member.namespace, member.name)
                if entry is None or entry.uid != member.uid:
                    office.ledger.drop_subnet(member.uid)

        shard.when_version(version, sweep)
