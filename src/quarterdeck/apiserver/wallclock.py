"""The server's date.

It is the system's, unless the event loop keeps a date of its own (virtual time): then the dates in objects
move with everything else that waits on that loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime


def now() -> float:
    """Seconds since 1970."""
    date = _virtual_date()
    return time.time() if date is None else float(date().timestamp())


def is_virtual() -> bool:
    """Whether time stands still while code runs."""
    return _virtual_date() is not None


def _virtual_date() -> Callable[[], datetime] | None:
    try:
        return getattr(asyncio.get_running_loop(), "date", None)
    except RuntimeError:
        return None
