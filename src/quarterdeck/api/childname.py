"""Deterministic names for objects made from other objects.

A child gets the same name every time it is computed, so that a retry after a crash finds what the first
try made. Names that would be too long are cut and get a hash of the full name.
"""

import hashlib
from typing import Final

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # upstream's: no vowels, no look-alikes


def child_name(*parts: str, limit: int = 63, digits: int = 8) -> str:
    """The parts joined by ``-``, cut to ``limit`` characters with a hash suffix where they do not fit.

    Equal parts give equal names; different parts that meet after cutting differ in the hash.

    >>> child_name("web", "0")
    'web-0'
    >>> len(child_name("a" * 80, "0"))
    63
    """
    name = "-".join(parts)
    if len(name) <= limit:
        return name
    suffix = _digest("\x00".join(parts).encode(), digits)
    head = name[: limit - digits - 1].rstrip("-.")
    return f"{head}-{suffix}"


def _digest(data: bytes, digits: int) -> str:
    number = int.from_bytes(hashlib.sha256(data).digest(), "big")
    out = []
    for _ in range(digits):
        number, index = divmod(number, len(_ALPHABET))
        out.append(_ALPHABET[index])
    return "".join(out)
