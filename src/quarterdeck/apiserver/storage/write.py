"""A write that waits for its batch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from .bucket import Bucket
from .entry import Entry


@dataclass(slots=True, eq=False)
class Write:
    """One change of one key."""

    bucket: Bucket
    namespace: str
    name: str
    expected: int
    value: bytes
    future: asyncio.Future[Entry]
    """Answered when it is durable."""
    labels: Mapping[str, str] | None = None
    fields: Mapping[str, str] | None = None
    mark: object = None
    is_delete: bool = False
