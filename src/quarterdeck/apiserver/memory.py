"""Memory that is free, but not yet the system's again.

The C library keeps what was freed in the middle of its heap. After a burst of large buffers that can be most
of what a process has; here it is asked to give it back.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None  # not glibc: others do it by themselves, or not at all
    return found


def give_back() -> None:
    """Takes some milliseconds for each hundred megabytes."""
    trim = _trim()
    if trim is not None:
        trim(0)
