"""Claims: choose a block, make its Subnet, say so.

A block is reserved in the table before its Subnet is created, between two awaits, so no two claims get
the same addresses however many are under way. What was created is in the table before anything else
happens. A crash at any point is harmless: the next process finds the Subnet by its cluster ID and binds
the claim to it.

Refused claims wait: for their pool to appear or change, or for space, see ``logic.waiting``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import intern
from time import perf_counter
from typing import Any, Final

import msgspec

from quarterdeck.api import Key
from quarterdeck.api.codec import decode
from quarterdeck.client import Client
from quarterdeck.errors import NotFound, QuarterdeckError
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.index import OWNER, POOL_REF
from quarterdeck.operators.ipam.logic import claim as words
from quarterdeck.operators.ipam.logic.claim import Outcome, Refused, Request, Why, choose, read_request
from quarterdeck.operators.ipam.logic.facts import Member, member_of
from quarterdeck.operators.ipam.logic.naming import subnet_name
from quarterdeck.operators.ipam.logic.network import InvalidCidr, Network, parse
from quarterdeck.operators.ipam.logic.poolstate import PoolState, Reservation
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetClaimSpec
from quarterdeck.runtime.cache import owned_by
from quarterdeck.runtime.cache.store import Change
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import (
    Predicate,
    generation_changed,
    never,
    strict_generation_changed,
)
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Requeue, Result

from .adoption import adopt, drop_extras, give_up
from .announcement import Announcements
from .claimstatus import ClaimGone, ClaimStatusWriter
from .creation import SubnetMaker, Taken, Unsettled
from .loading import TermSource
from .shared import LOADING_TIMEOUT, SharedState
from .strict import StrictReservations

ATTEMPTS: Final = 65
UNSETTLED: Final = 1.0
"""Seconds until an unclear create is looked at again."""
BUSY: Final = 0.02
"""Seconds to wait for another claim of the same cluster."""
STALE: Final = 1.0
"""Seconds until a claim is looked at again that the cache shows and the server does not have."""
INDEXING: Final = 0.2


class CidrAllocator(Reconciler[SubnetClaim]):
    """Grants and refuses claims."""

    def __init__(
        self, shared: SharedState, recorder: Recorder, strict: StrictReservations | None = None
    ) -> None:
        self._shared: Final = shared
        self.announcements: Final = Announcements(recorder, shared.rush)
        self._strict: Final = strict
        self._maker: Final = SubnetMaker(shared.metrics)
        self._writer: Final = ClaimStatusWriter()
        self._ended: Final[dict[Key, str]] = {}
        """UIDs of claims that only the cache still has: garbage collection takes what is made for them."""
        self._unclear: Final[dict[Key, tuple[Key, Reservation]]] = {}
        """Reservations by claim whose creates had no clear answer."""

    async def reconcile(self, ctx: Context[SubnetClaim]) -> Result | None:
        """Look at one claim."""
        spec = ctx.obj.spec
        try:
            with self._shared.rush.claim(Key(ctx.key.namespace, spec.pool_ref if spec else "")):
                return await self._look(ctx)
        except ClaimGone:
            self._ended[ctx.key] = ctx.obj.metadata.uid
            self._shared.leave(ctx.key)
            return Requeue(after=STALE, reason="claim-gone")
        finally:
            self._shared.looked_at(ctx.key)

    async def deleted(self, ctx: DeleteContext) -> None:
        """A claim is gone: its reservation is settled, and whoever waits behind it moves up."""
        self._ended.pop(ctx.key, None)
        self._shared.leave(ctx.key)
        await self._settle(ctx.client, ctx.key)
        if self._strict is not None:
            await self._strict.tidy(ctx.client, ctx.key)

    async def _look(self, ctx: Context[SubnetClaim]) -> Result | None:
        claim = ctx.obj
        spec = claim.spec
        if not spec or claim.metadata.is_deleting:
            self._shared.leave(ctx.key)
            await self._settle(ctx.client, ctx.key)
            return None
        if self._ended.get(ctx.key) == claim.metadata.uid and not await _is_there(ctx):
            return Requeue(after=STALE, reason="claim-gone")
        pool = Key(ctx.key.namespace, spec.pool_ref)
        try:
            outcome = await self._decide(ctx, spec, pool)
        except Refused as refusal:
            await self._refuse(ctx, spec, pool, refusal)
            return None
        except Unsettled as error:
            ctx.log.warning("it is not known whether a Subnet was created", error)
            if not claim.status.allocated_cidr:
                await self._writer.write(ctx, Outcome(names.PENDING))
            return Requeue(after=UNSETTLED, reason="unsettled")
        self._shared.leave(ctx.key)
        if await self._writer.write(ctx, outcome):
            self.announcements.tell(
                claim, "Normal", "SubnetAllocated", f"Successfully allocated Subnet {outcome.cidr}"
            )
        if self._strict is not None and await self._strict.tidy(ctx.client, ctx.key):
            return Requeue(after=UNSETTLED, reason="reservation")
        return None

    async def _refuse(
        self, ctx: Context[SubnetClaim], spec: SubnetClaimSpec, pool: Key, refusal: Refused
    ) -> None:
        outcome = Outcome(names.ERROR, cidr=ctx.obj.status.allocated_cidr, message=refusal.message)
        if refusal.why is not Why.NO_POOL:
            self._shared.metrics.allocation(pool, str(spec.block_size or 24), refusal.why.value)
        if refusal.network is not None:
            self._shared.wait_for_space(ctx.obj, pool, refusal.network)
        elif refusal.why is Why.EXHAUSTED:
            self._shared.wait_for_space(ctx.obj, pool, self._wanted_size(spec, pool))
        else:
            self._shared.leave(ctx.key)
        is_news = await self._writer.write(ctx, outcome)
        event = refusal.event(pool.name)
        if is_news and event is not None:
            self.announcements.tell(ctx.obj, "Warning", *event)

    def _wanted_size(self, spec: SubnetClaimSpec, pool: Key) -> int:
        state = self._shared.table.state(pool)
        return spec.block_size or (state.facts.usual_size if state is not None and state.facts else 24)

    async def _decide(self, ctx: Context[SubnetClaim], spec: SubnetClaimSpec, pool: Key) -> Outcome:
        cidr = ctx.obj.status.allocated_cidr
        try:
            network = parse(cidr) if cidr else None
        except InvalidCidr:
            network = None
        if network is not None:
            return await self._keep(ctx, spec, pool, network)
        started = perf_counter()
        try:
            return await self._allocate(ctx, spec, pool)
        finally:
            self._shared.metrics.allocation_latency.observe(perf_counter() - started)

    async def _keep(
        self, ctx: Context[SubnetClaim], spec: SubnetClaimSpec, pool: Key, network: Network
    ) -> Outcome:
        """A claim that was bound stays at its block: nothing else is ever given to it."""
        cidr = ctx.obj.status.allocated_cidr
        member = self._member_of(ctx, spec, pool, network)
        if member is None:
            return await self._repair(ctx, spec, pool, network)
        state = self._shared.table.state(member.pool_key)
        if state is None or state.facts is None:
            raise words.pool_missing(member.pool)  # removed by force: the block stays its own
        if member.uid in state.outside:
            raise words.left_outside(cidr, state.facts.cidr)
        elder = state.elder(member)
        if elder is not None:
            raise words.outlived(cidr, elder.network, elder.network)
        await adopt(ctx, self._shared, member)
        await drop_extras(ctx, self._shared, network)
        return Outcome(names.BOUND, cidr)

    def _member_of(
        self, ctx: Context[SubnetClaim], spec: SubnetClaimSpec, pool: Key, network: Network
    ) -> Member | None:
        table = self._shared.table
        state = table.state(pool)
        found = state.of_cluster(spec.cluster_id) if state is not None else []
        # Pool or cluster ID of the claim may have been edited: then its Subnet is the one it owns.
        owned = [table.member(subnet.metadata.uid) for subnet in ctx.index(Subnet, owned_by(ctx.obj))]
        return next((each for each in [*found, *owned] if each is not None and each.network == network), None)

    async def _repair(
        self, ctx: Context[SubnetClaim], spec: SubnetClaimSpec, pool: Key, network: Network
    ) -> Outcome:
        """The Subnet of a bound claim is gone: make it again if its block is still free."""
        state, cidr = self._open(pool), ctx.obj.status.allocated_cidr
        claim = ctx.obj.metadata.uid
        if claim not in state.reservations and (state.free is None or not _is_free(state, network)):
            raise words.lost(cidr, network)
        if not await _is_there(ctx):
            # Most likely its Subnet went with it: garbage collection would take each new one, too.
            raise Requeue(after=STALE, reason="claim-gone")
        return await self._make(ctx, spec, pool, Request(network.prefix, network, cidr))

    async def _allocate(self, ctx: Context[SubnetClaim], spec: SubnetClaimSpec, pool: Key) -> Outcome:
        state = self._open(pool)
        assert state.facts is not None
        request = read_request(spec, state.facts)
        self._check_name(ctx, spec, pool)
        existing = await self._existing(ctx, spec, state, request)
        if existing is not None:
            return existing
        outcome = await self._make(ctx, spec, pool, request)
        size = spec.block_size or parse(outcome.cidr).prefix
        self._shared.metrics.allocation(pool, str(size), "success")
        return outcome

    def _open(self, pool: Key) -> PoolState:
        """The state of a pool that can be allocated from; raises ``Refused``, or asks to come back."""
        state = self._shared.table.state(pool)
        if state is None or state.facts is None:
            raise words.pool_missing(pool.name)
        if state.facts.is_deleting:
            raise words.pool_leaving(pool.name)
        if not state.facts.is_held:
            # It might be gone before its Subnet is there. The finalizer wakes this claim.
            raise Requeue(after=INDEXING, reason="unheld")
        if state.facts.network is not None and not (
            state.is_indexed and self._shared.table.neighbours.is_known(pool)
        ):
            raise Requeue(after=INDEXING, reason="indexing")
        return state

    def _check_name(self, ctx: Context[SubnetClaim], spec: SubnetClaimSpec, pool: Key) -> None:
        """Upstream once named Subnets after clusters: such a one in another pool is in the way."""
        entry = self._shared.subnet_entry(Key(ctx.key.namespace, spec.cluster_id))
        known = self._shared.table.member(entry.uid) if entry is not None else None
        if known is not None and known.cluster_id == spec.cluster_id and known.pool != pool.name:
            raise words.elsewhere(spec.cluster_id, known.pool)

    async def _existing(
        self, ctx: Context[SubnetClaim], spec: SubnetClaimSpec, state: PoolState, request: Request
    ) -> Outcome | None:
        """The block that the cluster has in this pool already."""
        for member in state.of_cluster(spec.cluster_id):
            if not state.is_good(member) or member.network is None:
                await give_up(ctx, self._shared, member)
                continue
            if request.network not in (None, member.network) or request.size != member.network.prefix:
                text = f"ClusterID {spec.cluster_id} already has {member.network} of this pool"
                self.announcements.tell(ctx.obj, "Warning", "ExistingAllocation", text)
            await adopt(ctx, self._shared, member)
            return Outcome(names.BOUND, str(member.network))
        return None

    async def _make(
        self, ctx: Context[SubnetClaim], spec: SubnetClaimSpec, pool: Key, request: Request
    ) -> Outcome:
        shared, uid = self._shared, ctx.obj.metadata.uid
        for attempt in range(1, ATTEMPTS + 1):
            reservation = await self._reserve(ctx, spec, pool, request)
            try:
                subnet = await self._maker.make(ctx, reservation)
            except Taken as taken:
                shared.take_subnet(taken.subnet)
                shared.table.cancel(pool, uid)
                shared.metrics.allocation_retry(attempt)
                continue
            except Unsettled:
                self._unclear[ctx.key] = (pool, reservation)
                raise
            except QuarterdeckError:
                shared.table.cancel(pool, uid)
                raise
            return await self._confirm(ctx, pool, subnet)
        raise words.given_up(ATTEMPTS)

    async def _reserve(
        self, ctx: Context[SubnetClaim], spec: SubnetClaimSpec, pool: Key, request: Request
    ) -> Reservation:
        """The claim's own reservation, if its outcome is still unclear; otherwise a new one."""
        uid, state = ctx.obj.metadata.uid, self._open(pool)
        pending = state.reservations.get(uid)
        if pending is not None and not pending.is_foreign:
            if pending.network == request.network or (
                request.network is None and pending.network.prefix == request.size
            ):
                return pending
            self._unclear[ctx.key] = (pool, pending)
            if await self._settle(ctx.client, ctx.key):
                raise Requeue(after=BUSY, reason="settled")
            state = self._open(pool)
        other = state.reservation_of_cluster(spec.cluster_id)
        if other is not None and other.claim != uid:
            raise Requeue(after=BUSY, reason="same-cluster")

        def pick() -> Reservation:
            return choose(request, self._open(pool), claim=uid, cluster_id=spec.cluster_id)

        if self._strict is not None:
            return await self._strict.reserve(ctx, pool, pick)
        reservation = pick()
        self._shared.table.reserve(pool, reservation)
        return reservation

    async def _settle(self, client: Client, claim: Key) -> bool:
        """Find out what became of a create without a clear answer; returns whether there is a Subnet."""
        if claim not in self._unclear:
            return False
        pool, reservation = self._unclear[claim]
        try:
            subnet = await client.get(Subnet, subnet_name(pool.name, reservation.network), claim.namespace)
        except NotFound:
            subnet = None
        del self._unclear[claim]
        member = member_of(subnet) if subnet is not None else None
        if member is None or (member.pool, member.network) != (pool.name, reservation.network):
            self._shared.table.cancel(pool, reservation.claim)
            return False
        self._shared.table.confirm(pool, reservation.claim, member)
        return True

    async def _confirm(self, ctx: Context[SubnetClaim], pool: Key, subnet: Subnet) -> Outcome:
        shared, member = self._shared, member_of(subnet)
        assert member is not None
        self._unclear.pop(ctx.key, None)
        shared.table.confirm(pool, ctx.obj.metadata.uid, member)
        shared.expect(member)
        if self._strict is not None:
            self._strict.created(ctx, pool, member)
        state = shared.table.state(pool)
        if state is None or not state.is_good(member):
            # Another allocator was active and its Subnet is older: this one was never bound, so it goes.
            await give_up(ctx, shared, member)
            raise Requeue(after=BUSY, reason="outlived")
        if not any(owner.uid == ctx.obj.metadata.uid for owner in subnet.metadata.owner_references):
            await adopt(ctx, shared, member)
        return Outcome(names.BOUND, str(member.network))


async def _is_there(ctx: Context[SubnetClaim]) -> bool:
    """Whether the server has the claim, which the cache may show for a while after its end."""
    try:
        found = await ctx.client.get(SubnetClaim, ctx.key.name, ctx.key.namespace)
    except NotFound:
        return False
    return found.metadata.uid == ctx.obj.metadata.uid and not found.metadata.is_deleting


def _is_free(state: PoolState, network: Network) -> bool:
    return state.free is not None and state.free.pool.contains(network) and state.free.is_free(network)


def claim_controller(
    shared: SharedState,
    reconciler: CidrAllocator,
    *,
    client: Client,
    is_fed: Callable[[], bool],
    is_elected: bool,
) -> Controller[SubnetClaim]:
    """The controller, for ``manager.add``; it starts to work when the table is up to date.

    ``is_fed`` says whether the table has all that the cache has.
    """
    verbs = ("create", "delete", "patch")
    builder = (
        Builder(name=names.CLAIM_CONTROLLER)
        .for_(SubnetClaim, predicates=[generation_changed])
        .owns(Subnet, match_every_owner=True, predicates=[_SUBNET_LOST])
        .watches(SubnetClaim, to=PhaseCounter(shared))
        .source(TermSource(shared, client, is_fed=is_fed, is_elected=is_elected))
        .source(shared.claims)
        .source(reconciler.announcements)
        .indexes(SubnetClaim, POOL_REF)
        .indexes(Subnet, OWNER)
        .rbac(Rule(groups=(names.GROUP,), resources=("subnets",), verbs=verbs))
        .options(
            max_concurrent_reconciles=shared.settings.claim_workers,
            cache_sync_timeout=LOADING_TIMEOUT,
            field_manager=names.FIELD_MANAGER,
        )
    )
    if shared.settings.strict_allocation:
        builder.rbac(Rule(groups=(names.GROUP,), resources=("subnetpools",), verbs=("patch",)))
    return builder.build(reconciler)


_SUBNET_LOST: Final = Predicate(
    "subnet_lost",
    create=never,  # the allocator knows what it creates
    update=lambda event: strict_generation_changed(event),
    generic=never,
)


class _PhaseStatus(msgspec.Struct, frozen=True):
    phase: str = ""


class _Phase(msgspec.Struct):
    """What is counted; a claim's last state is read for nothing else."""

    status: _PhaseStatus = _PhaseStatus()


class PhaseCounter:
    """Counts claims by phase; enqueues nothing."""

    def __init__(self, shared: SharedState) -> None:
        self._shared: Final = shared
        self._phases: Final[dict[Key, str]] = {}

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        """No keys; the gauges are moved."""
        key = event.key
        before = self._phases.pop(key, None)
        after = None if event.change is Change.DELETED else decode(event.entry.raw, _Phase).status.phase
        if after is not None:
            self._phases[key] = intern(after)
        if before != after:
            self._shared.metrics.claim_moved(key.namespace, before, after)
        return ()
