"""Random UIDs of objects and requests, and generated names."""

from __future__ import annotations

import os
import random
from typing import Final

_drawn: list[str] = []
_NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED_BASE: Final = 58


def new_uid() -> str:
    """A random UUID (version 4), cheaper than `uuid.uuid4` by drawing entropy in bulk."""
    if not _drawn:
        raw = os.urandom(16 * 64).hex()
        for start in range(0, len(raw), 32):
            part = raw[start : start + 32]
            variant = "89ab"[int(part[16], 16) & 3]
            _drawn.append(f"{part[:8]}-{part[8:12]}-4{part[13:16]}-{variant}{part[17:20]}-{part[20:]}")
    return _drawn.pop()


def generate_name(base: str) -> str:
    """`base`, cut where it is too long, with five random characters."""
    suffix = "".join(random.choices(_NAME_ALPHABET, k=5))  # noqa: S311 - uniqueness, not secrecy
    return base[:_MAX_GENERATED_BASE] + suffix
