"""What a claim asks for, held against its pool; and the words for what becomes of it."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from quarterdeck.errors import QuarterdeckError
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.types import SubnetClaimSpec

from .facts import PoolFacts
from .network import InvalidCidr, Network, parse
from .poolstate import PoolState, Reservation


class Why(Enum):
    """Why a claim is refused; decides the event, the metric, and what the claim waits for."""

    NO_POOL = "no-pool"
    VALIDATION = "validation"
    EXHAUSTED = "exhausted"
    CONFLICT = "conflict"
    RETRIES = "max_retries"


_EVENTS: Final = {
    Why.VALIDATION: ("ValidationFailed", "Validation failed: {message}"),
    Why.EXHAUSTED: ("SubnetPoolExhausted", "Pool {pool} is exhausted for requested size"),
    Why.CONFLICT: ("AllocationConflict", "Allocation conflict: {message}"),
    Why.RETRIES: ("AllocationConflict", "Allocation conflict: {message}"),
}


class Refused(QuarterdeckError):
    """A claim cannot be granted as things are; the message is what its status says."""

    def __init__(self, why: Why, message: str, *, network: Network | None = None) -> None:
        super().__init__(message)
        self.why: Final = why
        self.message: Final = message
        self.network: Final = network
        """The block that was asked for, if it was a certain one."""

    def event(self, pool: str) -> tuple[str, str] | None:
        """Reason and text of the event; a missing pool is worth none."""
        found = _EVENTS.get(self.why)
        return None if found is None else (found[0], found[1].format(message=self.message, pool=pool))


class Request(msgspec.Struct, frozen=True):
    """A size, or a certain block of it."""

    size: int
    network: Network | None = None
    text: str = ""
    """The block as it was written."""


class Outcome(msgspec.Struct, frozen=True):
    """What the status of a claim says."""

    phase: str
    cidr: str = ""
    message: str = ""

    @property
    def condition(self) -> tuple[bool, str, str]:
        """Status, reason and message of ``Ready``."""
        if self.phase == names.BOUND:
            return True, "Allocated", f"CIDR {self.cidr} allocated"
        if self.phase == names.ERROR:
            return False, "Error", self.message
        return False, "Pending", "Allocation in progress"


def pool_missing(pool: str) -> Refused:
    """There is no such pool."""
    return Refused(Why.NO_POOL, f"Pool {pool} not found")


def pool_leaving(pool: str) -> Refused:
    """The pool is being deleted."""
    return Refused(Why.NO_POOL, f"Pool {pool} is being deleted")


def exhausted(pool: str, size: int) -> Refused:
    """No block of this size is free."""
    return Refused(
        Why.EXHAUSTED,
        f"Pool {pool} is exhausted: failed to find available CIDR of size /{size}: pool exhausted",
    )


def elsewhere(cluster_id: str, pool: str) -> Refused:
    """A Subnet of that name belongs to the cluster, in another pool."""
    return Refused(
        Why.CONFLICT, f"Existing allocation for ClusterID {cluster_id} found but in different pool: {pool}"
    )


def given_up(attempts: int) -> Refused:
    """Every block that was chosen turned out to be taken."""
    return Refused(Why.RETRIES, f"Failed to allocate CIDR after {attempts} retries due to conflicts")


def lost(cidr: str, network: Network) -> Refused:
    """The range that was bound cannot be had again."""
    return Refused(Why.CONFLICT, f"allocated CIDR {cidr} is no longer available", network=network)


def left_outside(cidr: str, pool: str) -> Refused:
    """The range of the pool is another one than when the block was bound."""
    return Refused(Why.CONFLICT, f"allocated CIDR {cidr} is outside pool {pool}")


def outlived(cidr: str, elder: Network | None, network: Network | None) -> Refused:
    """The Subnet that was bound overlaps an older one."""
    return Refused(
        Why.CONFLICT, f"allocated CIDR {cidr} overlaps with existing allocation {elder}", network=network
    )


def read_request(spec: SubnetClaimSpec, pool: PoolFacts) -> Request:
    """What a claim asks of a pool; raises ``Refused`` for what the pool does not allow."""
    if pool.network is None:
        raise Refused(Why.VALIDATION, pool.problem)
    if spec.requested_cidr:
        return _read_requested(spec.requested_cidr, pool, pool.network)
    size = spec.block_size or pool.usual_size
    if size < pool.smallest:
        raise Refused(Why.VALIDATION, f"blockSize {size} is smaller than pool minimum {pool.smallest}")
    if size > pool.largest:
        raise Refused(Why.VALIDATION, f"blockSize {size} is larger than pool maximum {pool.largest}")
    return Request(size)


def _read_requested(text: str, pool: PoolFacts, range_: Network) -> Request:
    try:
        network = parse(text)
    except InvalidCidr as error:
        raise Refused(Why.VALIDATION, f"invalid requested CIDR format: {error}") from error
    first = Network(network.address, network.width, network.width)
    if not range_.contains(first):
        raise Refused(Why.VALIDATION, f"requested CIDR {text} is outside pool {pool.cidr}")
    prefix = network.prefix
    limit = f"requested CIDR prefix length /{prefix} is"
    if pool.min_size and prefix < pool.min_size:
        raise Refused(Why.VALIDATION, f"{limit} smaller than pool minimum /{pool.min_size}")
    if pool.max_size and prefix > pool.max_size:
        raise Refused(Why.VALIDATION, f"{limit} larger than pool maximum /{pool.max_size}")
    return Request(prefix, network, text)


def choose(request: Request, state: PoolState, *, claim: str, cluster_id: str) -> Reservation:
    """The block to take from an indexed pool; raises ``Refused`` if there is none."""
    facts, free = state.facts, state.free
    assert facts is not None
    assert free is not None
    if request.network is None:
        found = free.best_fit if facts.strategy == names.BUDDY else free.lowest
        block = found(request.size)
        if block is None:
            raise exhausted(state.key.name, request.size)
        return Reservation(claim, cluster_id, block)
    network = request.network
    if not free.pool.contains(network):
        raise Refused(
            Why.CONFLICT,
            f"requested CIDR {request.text} is outside pool {facts.cidr} (last address outside pool)",
        )
    if not free.is_free(network):
        raise Refused(
            Why.CONFLICT,
            f"requested CIDR {request.text} overlaps with existing allocation {state.conflict(network)}",
            network=network,
        )
    return Reservation(claim, cluster_id, network)
