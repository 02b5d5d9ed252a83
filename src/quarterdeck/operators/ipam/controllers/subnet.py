"""Subnets: their phase, and the way from a Subnet to its pool.

The phase is ``Failed`` for a Subnet whose pool is missing, that is not inside its pool, or that overlaps
an older Subnet; otherwise ``Allocated``. It follows the cause both ways. Nothing about pools is
calculated here: the mapper at the end says which pool a change concerns, and the PoolStatus controller
does the rest.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterable
from time import perf_counter
from typing import Any, Final

import msgspec

from quarterdeck.api import UNSET, Key, Time, to_dict
from quarterdeck.api.codec import decode
from quarterdeck.client import Backoff, Client, MergePatch
from quarterdeck.errors import Conflict, NotFound, QuarterdeckError, ignore_not_found
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.logic.facts import member_of
from quarterdeck.operators.ipam.metrics import IpamMetrics
from quarterdeck.operators.ipam.types import Subnet, SubnetStatus
from quarterdeck.runtime.cache.store import Change
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate, strict_generation_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result
from quarterdeck.wire.patch import merge_patch

from .shared import LOADING_TIMEOUT, SharedState, version_of

RETRY: Final = Backoff(steps=6, base=0.05, factor=2.0, jitter=0.1)
INDEXING: Final = 0.2
"""Seconds to wait for a pool that is being indexed."""
SUBNET_EVENTS: Final = strict_generation_changed
"""Creations, deletions, and updates of the spec."""
_log: Final = get_logger(__name__)
_EVENT_TYPES: Final = {
    Change.ADDED: "create",
    Change.UPDATED: "update",
    Change.DELETED: "delete",
    Change.GENERIC: "external",
}


class SubnetReconciler(Reconciler[Subnet]):
    """Keeps the phase."""

    def __init__(self, shared: SharedState) -> None:
        self._shared: Final = shared
        self._writer: Final = PhaseWriter(shared.metrics)

    async def reconcile(self, ctx: Context[Subnet]) -> Result | None:
        """Look at one Subnet."""
        member = self._shared.take_subnet(ctx.obj)
        if self._shared.table.differs(ctx.obj.metadata.uid, member):
            await self._settle(ctx)
        phase = self._shared.table.phase(self._shared.table.member(ctx.obj.metadata.uid))
        if phase is None:
            return Requeue(after=INDEXING, reason="indexing")
        if phase == names.ALLOCATED and not ctx.obj.status.phase:
            await self._shared.rush.give_way()
        await self._writer.write(ctx.client, ctx.obj, phase, now=ctx.now())
        return None

    async def _settle(self, ctx: Context[Subnet]) -> None:
        """The cache is late; or the server was restored, and has again what it had before."""
        with ignore_not_found():
            found = await ctx.client.get(Subnet, ctx.key.name, ctx.key.namespace)
            member = member_of(found)
            if member is not None and found.metadata.uid == ctx.obj.metadata.uid:
                self._shared.table.restore_subnet(member)


class PhaseWriter:
    """Writes the phase of a Subnet if it differs; conflicts are tried again, a Subnet that goes is let go."""

    def __init__(self, metrics: IpamMetrics) -> None:
        self._metrics: Final = metrics
        self._random: Final = random.Random()  # noqa: S311  jitter, no secret

    async def write(self, client: Client, subnet: Subnet, phase: str, *, now: Time) -> None:
        """One look, with its retries; raises what is neither a conflict nor the end of the Subnet."""
        started, retries = perf_counter(), 0
        delays = RETRY.delays(self._random)
        result = "error"
        try:
            while True:
                try:
                    result = await self._try(client, subnet, phase, now)
                    return
                except Conflict:
                    delay = next(delays, None)
                    if delay is None:
                        raise
                    retries += 1
                    await asyncio.sleep(delay)
                    subnet = await client.get(Subnet, subnet.metadata.name, subnet.metadata.namespace)
        except NotFound:
            result = "skipped_deleted"
        finally:
            self._metrics.subnet_status(result, perf_counter() - started, retries)

    async def _try(self, client: Client, subnet: Subnet, phase: str, now: Time) -> str:
        wanted = _with_phase(subnet.status, phase, now)
        if subnet.metadata.is_deleting:
            return "skipped_deleting"
        changes = merge_patch(to_dict(subnet.status), to_dict(wanted))
        if not changes:
            return "unchanged"
        version = subnet.metadata.resource_version
        patch: dict[str, Any] = {"metadata": {"resourceVersion": version}, "status": changes}
        await client.status.patch_raw(subnet, MergePatch(patch))
        return "success"


def _with_phase(status: SubnetStatus, phase: str, now: Time) -> SubnetStatus:
    first = phase == names.ALLOCATED and not status.allocated_at
    return status.evolve(phase=phase, allocated_at=now if first else status.allocated_at or UNSET)


class _SettledStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    allocated_at: str = ""


class _Settled(msgspec.Struct):
    """What tells whether a Subnet has its status: a fifth of the work of reading all of it."""

    status: _SettledStatus = _SettledStatus()


def unsettled(shared: SharedState) -> Predicate:
    """Of the Subnets that a start finds, maybe a million, those whose status is not what it should be."""

    def is_unsettled(event: ObjectEvent[Any]) -> bool:
        if not event.is_initial:
            return True
        entry = event.entry
        member = shared.table.member(entry.uid)
        if member is None or member.version != version_of(entry):
            member = shared.take_event(event)  # the PoolStatus controller has not, or has no longer, this one
        status = decode(entry.raw, _Settled).status
        is_whole = status.phase != names.ALLOCATED or bool(status.allocated_at)
        return not is_whole or status.phase != shared.table.phase(member)

    return Predicate("unsettled", create=is_unsettled)


def subnet_controller(shared: SharedState) -> Controller[Subnet]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=names.SUBNET_CONTROLLER)
        .for_(Subnet, predicates=[SUBNET_EVENTS, unsettled(shared)])
        .source(shared.subnets)
        .options(
            max_concurrent_reconciles=shared.settings.subnet_workers,
            cache_sync_timeout=LOADING_TIMEOUT,
            field_manager=names.FIELD_MANAGER,
        )
        .build(SubnetReconciler(shared))
    )


def parent_of(subnet: object) -> Key | None:
    """The pool of a Subnet; nothing for what is no Subnet, or has no namespace or pool."""
    if not isinstance(subnet, Subnet) or not subnet.metadata.namespace or not subnet.pool_ref:
        return None
    return Key(subnet.metadata.namespace, subnet.pool_ref)


class ParentPoolMapper:
    """From a change of a Subnet to the pools it concerns: that of the old state, and that of the new."""

    def __init__(self, metrics: IpamMetrics) -> None:
        self._metrics: Final = metrics

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        """At most two keys, each counted once; never raises."""
        try:
            states = (event.object, event.old_object)
            found = dict.fromkeys(key for key in map(parent_of, states) if key is not None)
        except (QuarterdeckError, AttributeError, TypeError, ValueError) as error:
            _log.error("mapping Subnet→Pool failed", error)
            return ()
        return self.count(event, found)

    def count(self, event: ObjectEvent[Any], found: Collection[Key]) -> Collection[Key]:
        """Count the keys that come of a change; returns them."""
        self._metrics.requeues.labelled(_EVENT_TYPES[event.change]).inc(len(found))
        return found
