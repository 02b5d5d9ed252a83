"""Making the Subnet of a reservation, whatever the API server answers.

A create that was refused is over. A create without a clear answer may still happen, so its reservation
stays and the same Subnet is tried again under the same name until a read by that name, or a clear answer,
settles it.
"""

from __future__ import annotations

from time import perf_counter
from typing import Final

from quarterdeck.api import ObjectMeta, set_controller_reference
from quarterdeck.api.label import check_label_value
from quarterdeck.errors import (
    AlreadyExists,
    ApiError,
    ConnectError,
    QuarterdeckError,
    TooManyRequests,
)
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.logic.facts import member_of
from quarterdeck.operators.ipam.logic.naming import collision_name, subnet_name
from quarterdeck.operators.ipam.logic.poolstate import Reservation
from quarterdeck.operators.ipam.metrics import IpamMetrics
from quarterdeck.operators.ipam.types import ClaimReference, Subnet, SubnetClaim, SubnetSpec
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.recording import NotLeading


class Unsettled(QuarterdeckError):
    """It is not known whether the Subnet was created."""


class Taken(QuarterdeckError):
    """Somebody else's Subnet is there already."""

    def __init__(self, subnet: Subnet) -> None:
        super().__init__(f"{subnet.metadata.name} is there already")
        self.subnet: Final = subnet


class SubnetMaker:
    """Creates Subnets for claims."""

    def __init__(self, metrics: IpamMetrics) -> None:
        self._metrics: Final = metrics

    async def make(self, ctx: Context[SubnetClaim], reservation: Reservation) -> Subnet:
        """The Subnet, made now or found to be ours.

        Raises ``Taken``, ``Unsettled``, or why it cannot be created.
        """
        pool = ctx.obj.spec.pool_ref if ctx.obj.spec else ""
        for name in (subnet_name(pool, reservation.network), collision_name(pool, reservation.network)):
            found = await self._create(ctx, name, reservation)
            if found is not None:
                return found
        raise Unsettled("both names of the Subnet belong to others")

    async def _create(self, ctx: Context[SubnetClaim], name: str, reservation: Reservation) -> Subnet | None:
        """The Subnet of this name; nothing if the name belongs to another block."""
        wanted, started = _subnet(ctx.obj, name, reservation), perf_counter()
        try:
            created = await ctx.client.create(wanted)
        except AlreadyExists as error:
            self._metrics.subnet_created("exists", perf_counter() - started)
            return await self._found(ctx, wanted, error)
        except QuarterdeckError as error:
            self._metrics.subnet_created("error", perf_counter() - started)
            if not may_have_happened(error):
                raise
            return await self._found(ctx, wanted, error)
        self._metrics.subnet_created("success", perf_counter() - started)
        return created

    async def _found(
        self, ctx: Context[SubnetClaim], wanted: Subnet, error: QuarterdeckError
    ) -> Subnet | None:
        try:
            present = await ctx.client.get(Subnet, wanted.metadata.name, wanted.metadata.namespace)
        except QuarterdeckError as trouble:
            raise Unsettled(f"creating {wanted.metadata.name}: {error}; reading it: {trouble}") from error
        ours, theirs = member_of(wanted), member_of(present)
        assert ours is not None
        if theirs is None or (theirs.pool, theirs.network) != (ours.pool, ours.network):
            return None
        if theirs.cluster_id != ours.cluster_id:
            raise Taken(present)
        return present


def may_have_happened(error: QuarterdeckError) -> bool:
    """Whether a write that ended like this may have taken effect, or still may."""
    if isinstance(error, ConnectError | NotLeading | TooManyRequests):
        return False
    if isinstance(error, ApiError):
        return error.code >= 500 or error.code == 409
    return True


def _subnet(claim: SubnetClaim, name: str, reservation: Reservation) -> Subnet:
    assert claim.spec
    cluster_id = claim.spec.cluster_id
    is_label = not check_label_value(cluster_id)
    metadata = ObjectMeta(
        name=name,
        namespace=claim.metadata.namespace,
        labels={names.CLUSTER_LABEL: cluster_id} if is_label else {},
    )
    return Subnet(
        metadata=set_controller_reference(claim, metadata),
        spec=SubnetSpec(
            pool_ref=claim.spec.pool_ref,
            cidr=str(reservation.network),
            cluster_id=cluster_id,
            claim_ref=ClaimReference(name=claim.metadata.name, uid=claim.metadata.uid),
        ),
    )
