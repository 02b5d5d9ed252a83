"""What queues used in the past, fetched now and then: from Prometheus, or from what the cycles have seen.

A cycle never waits for it: it takes what was fetched last, as long as that is not too old. The URL is told
in logs without what may be secret in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from quarterdeck.api.codec import decode_json
from quarterdeck.client import HttpTransport
from quarterdeck.client.clock import Clock
from quarterdeck.errors import QuarterdeckError, SchemaError
from quarterdeck.operators.kai.logic.usage import (
    RESOURCES,
    Usage,
    UsageMemory,
    capacity_of,
    prometheus_query,
    usage_of,
)
from quarterdeck.operators.kai.settings import UsageSettings
from quarterdeck.runtime.log import get_logger
from quarterdeck.scheduler import CycleResult, Snapshot

PERIOD: Final = 1.0
"""Seconds between two looks whether something is to be fetched."""
_log: Final = get_logger(__name__)


class UsageSource:
    """The usage of queues, for one scheduler."""

    def __init__(self, settings: UsageSettings, clock: Clock) -> None:
        self._settings: Final = settings
        self._clock: Final = clock
        self._memory: Final = UsageMemory(settings)
        self._fetched: tuple[float, Usage] | None = None
        self._due = 0.0

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """The cluster with what queues used."""
        usage = self.current()
        if not usage:
            return snapshot
        queues = tuple(
            replace(queue, usage=usage[queue.name]) if queue.name in usage else queue
            for queue in snapshot.queues
        )
        return replace(snapshot, queues=queues)

    def current(self) -> Usage:
        """Parts of the cluster by queue; nothing if that is unknown or too old."""
        now = self._clock.time()
        if self._settings.client_type == "memory":
            return self._memory.usage(now)
        if self._fetched is None or now - self._fetched[0] > self._settings.staleness_period:
            return {}
        return self._fetched[1]

    def see(self, snapshot: Snapshot, result: CycleResult) -> None:
        """Remember what queues have after a cycle."""
        if self._settings.client_type != "memory":
            return
        allocated = {
            name: (float(share.allocated.cpu), float(share.allocated.memory), float(share.allocated.gpu))
            for name, share in result.queues.items()
        }
        nodes = [node.allocatable for node in snapshot.nodes if node.is_ready]
        total = (
            float(sum(each.cpu for each in nodes)),
            float(sum(each.memory for each in nodes)),
            float(sum(each.gpu for each in nodes)),
        )
        self._memory.see(self._clock.time(), allocated, total)

    async def fetch_if_due(self) -> None:
        """Ask Prometheus if the last answer is old enough."""
        settings, now = self._settings, self._clock.monotonic()
        if settings.client_type != "prometheus" or now < self._due:
            return
        self._due = now + settings.fetch_interval
        try:
            self._fetched = (self._clock.time(), await self._fetch())
        except QuarterdeckError as error:
            host = urlsplit(settings.connection_string).hostname
            _log.warning("usage of queues not fetched", error, server=host or "")

    async def _fetch(self) -> Usage:
        transport = HttpTransport(self._settings.connection_string, timeout=self._settings.query_timeout)
        now = self._clock.time()
        used: dict[str, list[float]] = {}
        try:
            for place, resource in enumerate(RESOURCES):
                capacity = capacity_of(await self._ask(transport, f"{resource}CapacityMetric", now))
                sums = usage_of(await self._ask(transport, f"{resource}AllocationMetric", now))
                for queue, amount in sums.items():
                    part = amount / capacity if capacity > 0 else 0.0
                    used.setdefault(queue, [0.0, 0.0, 0.0])[place] = part
        finally:
            await transport.aclose()
        return {queue: (parts[0], parts[1], parts[2]) for queue, parts in used.items()}

    async def _ask(self, transport: HttpTransport, metric: str, now: float) -> Mapping[str, Any]:
        query = prometheus_query(self._settings, metric, now)
        answer = await transport.request("GET", "/api/v1/query", query=query)
        if answer.status != 200:
            raise SchemaError(f"query of {metric}: the server answered {answer.status}")
        document: Mapping[str, Any] = decode_json(answer.body)
        return document


class UsageCollector:
    """Keeps the sources of all schedulers of the cluster up to date."""

    name: Final = "usage"

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._sources: dict[str, tuple[UsageSettings, UsageSource]] = {}

    def source(self, shard: str, settings: UsageSettings | None) -> UsageSource | None:
        """The source of a scheduler; the same as long as its settings are."""
        if settings is None:
            self._sources.pop(shard, None)
            return None
        known = self._sources.get(shard)
        if known is None or known[0] != settings:
            known = self._sources[shard] = (settings, UsageSource(settings, self._clock))
        return known[1]

    async def run(self) -> None:
        """Fetch what is due until cancelled."""
        while True:
            await asyncio.gather(*(source.fetch_if_due() for _, source in list(self._sources.values())))
            await self._clock.sleep(PERIOD)
