"""Names that say what an object is for: with them, creating something twice is an error, not a duplicate."""

from __future__ import annotations

from hashlib import sha1
from typing import Final

from .network import IPV6, Network

LIMIT: Final = 63


def subnet_name(pool: str, network: Network) -> str:
    """The name of the Subnet that an allocator makes: pool and canonical CIDR, or a hash where that is long.

    IPv6 addresses are written out: compressed, ``p``, ``1:2::/64`` and ``p-1``, ``2::/64`` would be one name.

    >>> from quarterdeck.operators.ipam.logic.network import parse
    >>> subnet_name("test-pool", parse("10.0.0.0/24"))
    'test-pool-10-0-0-0-24'
    """
    long = f"{pool}-{_spelled(network)}"
    return long if len(long) <= LIMIT else _hashed(pool, long)


def collision_name(pool: str, network: Network) -> str:
    """The name to take when another pool's Subnet has that one: no name contains the slash hashed here."""
    return _hashed(pool, f"{pool}/{network}")


def owned_name(owner: str, uid: str) -> str:
    """The name of what belongs to a SubnetPoolClaim (its internal claim, its child pool) or to a node.

    >>> owned_name("a" * 56 + ".example.com", "1")  # no part of a name begins or ends with a dash
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-356a1'
    """
    suffix = f"-{_digest(uid)[:5]}"
    return f"{owner[: LIMIT - len(suffix)].rstrip('.')}{suffix}"


def _spelled(network: Network) -> str:
    if network.width == IPV6:
        groups = "-".join(f"{network.address >> shift & 0xFFFF:04x}" for shift in range(112, -1, -16))
        return f"{groups}-{network.prefix}"
    return str(network).replace(".", "-").replace("/", "-")


def _hashed(pool: str, text: str) -> str:
    return f"{pool[:40]}-{_digest(text)[:16]}"


def _digest(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()
