"""What a grove case expects at some point, compared with what is there."""

from __future__ import annotations

from typing import Final

from .evidence import Check, Evidence, Json, Lines
from .objectcheck import OBJECT_CHECKS
from .podcheck import POD_CHECKS
from .recordcheck import RECORD_CHECKS

__all__ = ["CHECKS", "check"]

CHECKS: Final[dict[str, Check]] = {**POD_CHECKS, **OBJECT_CHECKS, **RECORD_CHECKS}


async def check(wanted: Json, evidence: Evidence) -> Lines:
    """All differences; empty when everything holds."""
    lines: Lines = []
    for word, value in wanted.items():
        lines += await CHECKS[word](value, evidence)
    return lines
