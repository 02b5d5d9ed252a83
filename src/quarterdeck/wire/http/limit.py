"""How much a connection may cost, and how long it may take."""

from typing import Final

import msgspec

KIB: Final = 1024
MIB: Final = 1024 * KIB

LINGER: Final = 0.5
"""Seconds to wait for a peer that still sends after its last answer: a reset would take the answer away."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a server takes from a peer it does not know. The defaults are those of Go's server."""

    head: int = MIB + 4 * KIB
    """Bytes of request line and headers; more is answered 431 while it is being read."""
    discard: int = 256 * KIB
    """Bytes of an unwanted body that are read and thrown away to keep a connection; more costs it."""
    idle: float = 180.0
    """Seconds that a connection may wait between requests, or for more of a body."""
    head_time: float = 32.0
    """Seconds from the first byte of a head to its last."""
    unsent: int = 256 * KIB
    """Bytes of answers that wait for a slow reader; while there are more, no request is looked at."""
    unsent_stream: int = 64 * KIB
    """Bytes of a stream that wait for a slow reader before it is told to wait: there may be many of them."""
