"""The status of pools, and nobody else writes it.

A pool is looked at when one of its Subnets comes, goes or changes its spec, when its own spec changes,
when a child pool comes, goes or moves, when somebody asks for it over HTTP, and every ten minutes one
pool in turn; after an error with the back-off of the design. The calculation reads the table, so a look
costs the same for ten members and for a million.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from time import perf_counter
from typing import Any, Final

from quarterdeck.api import Key, to_dict
from quarterdeck.client import Backoff, MergePatch
from quarterdeck.client.clock import Clock
from quarterdeck.errors import Conflict, NotFound, QuarterdeckError, ignore_not_found
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.index import PARENT
from quarterdeck.operators.ipam.logic.facts import Member, version_number
from quarterdeck.operators.ipam.logic.poolstate import PoolState
from quarterdeck.operators.ipam.logic.statuscalc import PoolStatus, pool_status, shortened
from quarterdeck.operators.ipam.types import Subnet, SubnetPool
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.source import ChannelSource, FunctionSource, SourceContext, TimerSource
from quarterdeck.runtime.queue.ratelimit import BucketLimiter, ExponentialLimiter, LargestLimiter, RateLimiter
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Requeue, Result
from quarterdeck.wire.patch import merge_patch
from quarterdeck.wire.timeslice import TimeSlice

from .audit import Auditor
from .poolevents import OWN_EVENTS, PoolFeed, SubnetFeed
from .rush import GATHERING, WINDOW
from .shared import LOADING_TIMEOUT, SharedState
from .subnet import SUBNET_EVENTS

TIMEOUT: Final = 90.0
"""Seconds one reconcile may take."""
NAMED: Final = 10
"""Holders of blocks that are named in a condition."""
TO_FORCE: Final = (
    f"Delete these first; or remove the finalizer {names.FINALIZER} to force it:"
    " their addresses then stay taken until they are gone"
)
RETRY: Final = Backoff(steps=5, base=0.05, factor=2.0, jitter=0.1)


class PoolStatusReconciler(Reconciler[SubnetPool]):
    """Computes the status and writes it if it differs."""

    def __init__(self, shared: SharedState, auditor: Auditor) -> None:
        self._shared: Final = shared
        self._auditor: Final = auditor
        self._random: Final = random.Random()  # noqa: S311  jitter, no secret
        self._written: Final[dict[Key, float]] = {}

    async def reconcile(self, ctx: Context[SubnetPool]) -> Result | None:
        """Look at one pool."""
        with self._shared.metrics.pool_reconcile():
            shared = self._shared
            shared.take_pool(ctx.obj)
            await self._settle(ctx)
            wait = self._remaining(ctx.key)
            if wait > 0:
                return Requeue(after=wait, reason="interval")
            state = shared.table.state(ctx.key)
            assert state is not None
            has_status = False
            if ctx.key in shared.forced:
                await self._auditor.audit(state)
                shared.forced.discard(ctx.key)
                has_status = not state.has_news
            if state.is_behind:
                await self._rebuild(state)
            await self._write(ctx, has_status=has_status)
            return None

    async def _settle(self, ctx: Context[SubnetPool]) -> None:
        """If the cache is older than the table, it is late; or the server was restored to that state."""
        state = self._shared.table.state(ctx.key)
        known = state.facts if state is not None else None
        if known is not None and known.version > version_number(ctx.obj.metadata.resource_version):
            with ignore_not_found():
                found = await ctx.client.get(SubnetPool, ctx.key.name, ctx.key.namespace)
                self._shared.take_pool(found, is_certain=True)

    async def deleted(self, ctx: DeleteContext) -> None:
        """Forget a pool that is gone."""
        with self._shared.metrics.pool_reconcile():
            self._shared.table.drop_pool(ctx.key)
            self._shared.metrics.forget_pool(ctx.key)
            self._shared.forced.discard(ctx.key)
            self._written.pop(ctx.key, None)

    def _remaining(self, key: Key) -> float:
        """Seconds to wait before this pool's status is written again."""
        last = self._written.get(key)
        if last is None:
            return 0.0
        since = asyncio.get_running_loop().time() - last
        if since < GATHERING and self._shared.rush.gathers(key):
            return max(WINDOW, self._shared.settings.status_interval - since)
        return self._shared.settings.status_interval - since

    async def _rebuild(self, state: PoolState) -> None:
        started, turn = perf_counter(), TimeSlice()
        for _ in state.rebuild():
            await turn.end()
        self._shared.metrics.rebuilds.observe(perf_counter() - started)
        self._shared.indexed(state)

    async def _write(self, ctx: Context[SubnetPool], *, has_status: bool) -> None:
        """Write the status on what the pool is now; on a conflict read again, and compute again.

        ``has_status``: an audit expects it to be written already. If it is not, somebody else changed it.
        """
        metrics, key, started = self._shared.metrics, ctx.key, perf_counter()
        delays = RETRY.delays(self._random)
        pool, has_sent = ctx.obj, False
        try:
            while True:
                state = self._shared.table.state(key)
                if state is None or state.facts is None:
                    return
                revision = state.revision
                status = self._status(ctx, state, pool)
                changes = status_patch(pool, status)
                if changes:
                    has_sent = True
                    try:
                        await ctx.client.status.patch(pool, MergePatch(changes))
                    except Conflict:
                        metrics.pool_status_conflict(key)
                        delay = next(delays, None)
                        if delay is None:
                            raise
                        await asyncio.sleep(delay)
                        pool = await ctx.client.get(SubnetPool, key.name, key.namespace)
                        self._shared.take_pool(pool)
                        continue
                    metrics.pool_status_written(key, "success", perf_counter() - started)
                    if has_status:
                        metrics.drift.labelled(key.namespace, key.name).inc()
                    self._written[key] = asyncio.get_running_loop().time()
                state.confirmed = revision
                self._show(ctx, status)
                return
        except NotFound:
            return
        except QuarterdeckError:
            if has_sent:
                metrics.pool_status_written(key, "failure", perf_counter() - started)
            raise

    def _status(self, ctx: Context[SubnetPool], state: PoolState, pool: SubnetPool) -> PoolStatus:
        assert state.facts is not None
        parent = state.facts.parent
        above = self._shared.table.state(Key(ctx.key.namespace, parent)) if parent else None
        return pool_status(
            state,
            pool.status.conditions,
            now=ctx.now(),
            has_parent=not parent or (above is not None and above.facts is not None),
            limits=self._shared.settings.limits,
            overlapping=self._shared.table.neighbours.contested(ctx.key),
            held_by=self._held_by(state) if pool.metadata.is_deleting else "",
        )

    def _held_by(self, state: PoolState) -> str:
        """What a pool that is being deleted waits for; nothing, if it may go."""
        held = [f"child pool {child.name}" for child in state.children.values()]
        some = itertools.islice(state.members.values(), NAMED)
        held += [f"{each.network} by {self._holder(each)}" for each in some]
        held += [f"{each.network} by a claim under way" for each in state.reservations.values()]
        if not held:
            return ""
        more = len(state.members) - NAMED
        words = [*sorted(held), *([f"{more} more Subnets"] if more > 0 else [])]
        return f"in use: {shortened(words, 2 * NAMED)}. {TO_FORCE}"

    def _holder(self, member: Member) -> str:
        entry = self._shared.subnet_entry(member.key)
        owners = entry.owner_references if entry is not None else ()
        claims = [owner.name for owner in owners if owner.kind == "SubnetClaim"]
        return f"SubnetClaim {', '.join(claims)}" if claims else f"Subnet {member.name}"

    def _show(self, ctx: Context[SubnetPool], status: PoolStatus) -> None:
        taken = status.addresses - status.free_addresses
        self._shared.metrics.pool_measured(
            ctx.key,
            status.free or {},
            status.allocated,
            taken / status.addresses if status.addresses else 0.0,
            ctx.now().timestamp(),
        )


def status_patch(pool: SubnetPool, status: PoolStatus) -> dict[str, Any]:
    """What to send: our fields only, with the version they were computed on; nothing if all are right."""
    old: dict[str, Any] = to_dict(pool.status)
    new = {
        **old,
        "observedGeneration": status.generation,
        "allocatedCount": status.allocated,
        "freeCountBySize": status.free or {},
        "allocatedCIDRs": status.cidrs or {},
        "conditions": to_dict(status.conditions),
    }
    for key in ("freeCountBySize", "allocatedCIDRs"):
        if not new[key]:
            del new[key]
    changes = merge_patch(old, new)
    if not changes:
        return {}
    return {"metadata": {"resourceVersion": pool.metadata.resource_version}, "status": changes}


def pool_status_limiter(clock: Clock | None = None) -> RateLimiter[Key]:
    """The design's limiter: 50 ms growing by half up to 30 s, and 100 retries at once, then 10 a second."""
    return LargestLimiter(
        ExponentialLimiter(0.05, 30.0, factor=1.5, jitter=0.0),
        BucketLimiter(10.0, 100, clock=clock),
    )


def pool_status_controller(shared: SharedState, reconciler: Reconciler[SubnetPool]) -> Controller[SubnetPool]:
    """The controller, for ``manager.add``."""

    async def begin(context: SourceContext) -> None:
        shared.open()  # before the feeds, which start after this source
        context.synced()
        await asyncio.get_running_loop().create_future()

    return (
        Builder(name=names.POOL_STATUS_CONTROLLER)
        .for_(SubnetPool, predicates=[OWN_EVENTS])
        .source(FunctionSource(begin, name="begin"))
        .watches(SubnetPool, to=PoolFeed(shared))
        .watches(Subnet, to=SubnetFeed(shared), predicates=[SUBNET_EVENTS])
        .source(ChannelSource(shared.trigger, name="external trigger"))
        .source(TimerSource(shared.settings.audit_period, shared.next_audit))
        .source(shared.pools)
        .indexes(SubnetPool, PARENT)
        .limiter(pool_status_limiter())
        .options(
            max_concurrent_reconciles=shared.settings.pool_status_workers,
            reconcile_timeout=TIMEOUT,
            cache_sync_timeout=LOADING_TIMEOUT,
            enable_warmup=True,
            field_manager=names.FIELD_MANAGER,
        )
        .build(reconciler)
    )
