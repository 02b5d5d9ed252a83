"""What a test leaves behind: tasks, sockets, threads.

``Leftovers`` is a picture of the process; the difference of two is what leaked between them. Sockets are
known on Linux only, where the kernel lists them.
"""

import asyncio
import gc
import os
import threading
from pathlib import Path
from typing import Final, Self

import msgspec

from quarterdeck.errors import QuarterdeckError

_DESCRIPTORS: Final = Path("/proc/self/fd")


class Leak(QuarterdeckError, AssertionError):
    """Something was opened or started and never ended."""


class Leftovers(msgspec.Struct, frozen=True):
    """Sockets and threads that exist at one moment."""

    sockets: frozenset[str]
    threads: frozenset[threading.Thread]

    @classmethod
    def now(cls) -> Self:
        """What is there."""
        return cls(_open_sockets(), frozenset(threading.enumerate()))

    def since(self, before: Self) -> list[str]:
        """What was not there before, in words; what only waits for the collector does not count."""
        sockets, threads = self.sockets - before.sockets, self.threads - before.threads
        if sockets:
            gc.collect()
            sockets &= _open_sockets()
        found = [f"thread {thread.name}" for thread in threads if thread.is_alive()]
        return [*sorted(sockets), *sorted(found)]


def left_tasks(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Tasks of a loop that are not done, and where they wait."""
    lines = []
    for task in asyncio.all_tasks(loop):
        frames = task.get_stack(limit=1)
        where = f" at {frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else ""
        lines.append(f"task {task.get_name()}{where}")
    return sorted(lines)


def _open_sockets() -> frozenset[str]:
    if not _DESCRIPTORS.is_dir():
        return frozenset()
    found = []
    for entry in os.listdir(_DESCRIPTORS):
        try:
            target = os.readlink(_DESCRIPTORS / entry)
        except OSError:  # closed meanwhile, as is the descriptor of this very listing
            continue
        if target.startswith("socket:"):
            found.append(target)
    return frozenset(found)
