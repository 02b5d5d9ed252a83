"""The four kinds, and their definitions."""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import Resource, crd

from .claim import SubnetClaim, SubnetClaimSpec, SubnetClaimStatus
from .pool import SubnetPool, SubnetPoolSpec, SubnetPoolStatus
from .poolclaim import SubnetPoolClaim, SubnetPoolClaimSpec, SubnetPoolClaimStatus
from .subnet import ClaimReference, Subnet, SubnetSpec, SubnetStatus

__all__ = [
    "KINDS",
    "ClaimReference",
    "Subnet",
    "SubnetClaim",
    "SubnetClaimSpec",
    "SubnetClaimStatus",
    "SubnetPool",
    "SubnetPoolClaim",
    "SubnetPoolClaimSpec",
    "SubnetPoolClaimStatus",
    "SubnetPoolSpec",
    "SubnetPoolStatus",
    "SubnetSpec",
    "SubnetStatus",
    "definitions",
]

KINDS: Final[tuple[type[Resource], ...]] = (SubnetPool, Subnet, SubnetClaim, SubnetPoolClaim)


def definitions() -> list[dict[str, Any]]:
    """The four CustomResourceDefinitions."""
    return [crd(kind) for kind in KINDS]
