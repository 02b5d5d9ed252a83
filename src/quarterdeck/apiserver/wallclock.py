"""The server's date.

It is the system's, unless the event loop keeps a date of its own (virtual time): then the dates in objects
move with everything else that waits on that loop.
"""

from __future__ import annotations

import asyncio
import time


def now() -> float:
    """Seconds since 1970."""
    try:
        date = getattr(asyncio.get_running_loop(), "date", None)
    except RuntimeError:
        date = None
    return time.time() if date is None else float(date().timestamp())
