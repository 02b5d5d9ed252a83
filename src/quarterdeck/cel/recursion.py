"""Room on the Python stack for deeply nested expressions.

Upstream admits 250 levels of nesting, each of which needs several Python frames here. Python-to-Python calls
take no C stack, so a higher limit is safe; it is raised only while a deep expression is being worked on.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_FRAMES: Final = 20_000
_lock = threading.Lock()
_users = 0
_before = 0


@contextmanager
def stack_room(needed: bool) -> Iterator[None]:
    """Raise the recursion limit for the body when `needed`."""
    global _users, _before
    if not needed:
        yield
        return
    with _lock:
        _users += 1
        if _users == 1:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, _FRAMES))
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and sys.getrecursionlimit() == max(_before, _FRAMES):
                _restore()


def _restore() -> None:
    try:
        sys.setrecursionlimit(_before)
    except RecursionError:  # this thread is deeper than the old limit; the next user restores it
        return
