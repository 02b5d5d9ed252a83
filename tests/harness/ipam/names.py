"""The kinds of ipam, as cases and the server name them."""

from __future__ import annotations

from typing import Final

GROUP: Final = "plexaubnet.io"
RESOURCES: Final = {
    "SubnetPool": "subnetpools",
    "Subnet": "subnets",
    "SubnetClaim": "subnetclaims",
    "SubnetPoolClaim": "subnetpoolclaims",
}


def resource_of(name: str) -> str:
    """A resource as fault plans name it: ``subnets.plexaubnet.io``, ``events``."""
    return f"{name}.{GROUP}" if name in RESOURCES.values() else name
