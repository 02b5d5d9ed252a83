"""How a pod occupies its node."""

from __future__ import annotations

from enum import Enum


class Hold(Enum):
    """The value names the account of a shared GPU."""

    RUNNING = "running"
    """Is there and stays."""
    LEAVING = "leaving"
    """Is there and terminates."""
    COMING = "coming"
    """Is promised the place."""

    __hash__ = object.__hash__
