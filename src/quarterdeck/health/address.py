"""What can be wrong with address pools, their blocks and claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .examined import Examined
from .field import Json, condition
from .problem import Finding

_SERVED: Final = 60.0


def examine_pool(obj: Json) -> Iterator[Finding]:
    """A pool that is full, contradicts itself or cannot go."""
    pool = Examined("SubnetPool", obj)
    for kind, bad, situation, otherwise in (
        ("Exhausted", "True", "pool-exhausted", "it has no free block"),
        ("Consistent", "False", "pool-inconsistent", "its blocks contradict each other"),
        ("DeletionBlocked", "True", "deletion-blocked", "blocks of it are in use"),
    ):
        found = condition(obj, kind)
        if found.get("status") == bad:
            text = str(found.get("message") or otherwise)
            yield pool.found(situation, text, since=str(found.get("lastTransitionTime") or ""))


def examine_subnet(obj: Json) -> Iterator[Finding]:
    """A block that was not allocated."""
    subnet = Examined("Subnet", obj)
    if subnet.status.get("phase") == "Failed":
        yield subnet.found("subnet-failed", "it could not be allocated", is_dated=False)


def examine_claim(obj: Json) -> Iterator[Finding]:
    """A claim of a block."""
    yield from _claim(Examined("SubnetClaim", obj), obj)


def examine_pool_claim(obj: Json) -> Iterator[Finding]:
    """A claim of a pool."""
    yield from _claim(Examined("SubnetPoolClaim", obj), obj)


def _claim(claim: Examined, obj: Json) -> Iterator[Finding]:
    phase = str(claim.status.get("phase") or "Pending")
    told = str(claim.status.get("message") or "")
    taken = condition(obj, "NameTaken")
    if taken.get("status") == "True":
        yield claim.found("name-taken", str(taken.get("message") or "a name it needs is taken"))
    elif phase == "Error":
        yield claim.found("claim-error", told or "it cannot be served", is_dated=False)
    elif phase == "Pending":
        yield claim.found("claim-pending", told or "it has not been served", after=_SERVED)
