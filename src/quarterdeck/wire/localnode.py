"""What the API server and a node of this machine agree on: where they meet, which addresses pods have, and
how use is told."""

from __future__ import annotations

import hashlib
import ipaddress
from pathlib import Path
from typing import Final

import msgspec

POD_NETWORK: Final = ipaddress.IPv4Network("127.64.0.0/10")
"""Addresses of pods without a network of their own; the only loopback addresses that endpoints may have."""


class NodeUsage(msgspec.Struct, frozen=True):
    """What a node says of what is used there."""

    cpu: int = 0
    """Of the whole machine, in thousandths of a processor."""
    memory: int = 0
    """Of the whole machine, in bytes."""
    containers: tuple[tuple[str, str, int, int], ...] = ()
    """The pod's uid, the container, and the same two of everything that runs."""


def node_socket(folder: Path, node: str) -> Path:
    """The socket of a node. Its name is a digest: a node's own may be longer than the path of a socket."""
    return folder / f"{hashlib.sha256(node.encode()).hexdigest()[:16]}.sock"
