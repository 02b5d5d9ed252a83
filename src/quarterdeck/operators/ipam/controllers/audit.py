"""Audits: is what is known of a pool what the API server has, and its index what its members make of it?"""

from __future__ import annotations

from time import perf_counter
from typing import Final

from quarterdeck.client import Client
from quarterdeck.client.clock import Clock
from quarterdeck.operators.ipam.logic.audit import Difference, differences, rebuilding
from quarterdeck.operators.ipam.logic.facts import Member, member_of, version_number
from quarterdeck.operators.ipam.logic.poolstate import PoolState
from quarterdeck.operators.ipam.types import Subnet
from quarterdeck.runtime.log import get_logger
from quarterdeck.wire.timeslice import TimeSlice

from .loading import PAGE_SIZE
from .shared import SharedState

SECOND_LOOK: Final = 1.0
"""Seconds that a difference must outlast: the watch is hardly ever later."""
_log: Final = get_logger(__name__)


class Auditor:
    """Audits pools, one at a time per reconcile."""

    def __init__(self, shared: SharedState, client: Client, clock: Clock) -> None:
        self._shared: Final = shared
        self._client: Final = client
        self._clock: Final = clock

    async def audit(self, state: PoolState) -> None:
        """Compare, repair, and count what had to be repaired; raises if the list cannot be read."""
        drift = await self._compare(state)
        if drift:
            await self._clock.sleep(SECOND_LOOK)
            drift &= await self._compare(state)
        self._repair(drift)
        sound = await self._is_sound(state)
        if not sound:
            for _ in state.rebuild():
                pass
            self._shared.table.neighbours.look(state.key)
        if drift or not sound:
            key = state.key
            self._shared.metrics.drift.labelled(key.namespace, key.name).inc()
            _log.error(
                "what was known of a pool was wrong and is repaired",
                pool=str(key),
                subnets=len(drift),
                index=not sound,
            )

    async def _is_sound(self, state: PoolState) -> bool:
        if not state.is_indexed:
            return True
        started, turn, steps, facts = perf_counter(), TimeSlice(), rebuilding(state), state.facts
        while True:
            try:
                next(steps)
            except StopIteration as end:
                fresh: PoolState = end.value
                break
            await turn.end()
        self._shared.metrics.rebuilds.observe(perf_counter() - started)
        # A range that changed meanwhile is indexed anew anyway.
        return state.facts is not facts or state.is_sound(fresh)

    async def _compare(self, state: PoolState) -> set[Difference]:
        listed: list[Member] = []
        version = 0
        async for page in self._client.pages(Subnet, namespace=state.key.namespace, limit=PAGE_SIZE):
            self._shared.metrics.list_pages.inc()
            version = version or version_number(page.resource_version)
            found = (member_of(subnet) for subnet in page)
            listed += [each for each in found if each is not None and each.pool == state.key.name]
        return differences(state, listed, version)

    def _repair(self, drift: set[Difference]) -> None:
        table = self._shared.table
        for each in drift:
            table.drop_subnet(each.uid)
            if each.listed is not None:
                table.restore_subnet(each.listed)
