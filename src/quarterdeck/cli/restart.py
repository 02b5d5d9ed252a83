"""The processes beside a cluster's server: started again when they end, and stopped by the server alone."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from typing import Final

_FIRST: Final = 1.0
_LONGEST: Final = 30.0
_LASTING: Final = 60.0
"""Seconds after which a process that ends is no longer one that does not start."""


def leave_signals_to_server() -> None:
    """Take no notice of what asks a process to end, in such a process itself.

    It may be sent to the whole group, as by Ctrl-C, or to all processes of a service; the server stops the
    others in order. They end with it anyway.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def ending(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"has ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class Restarts:
    """Says that a process has ended, and waits: longer each time if it does not last."""

    def __init__(self, what: str) -> None:
        self._what: Final = what
        self._delay = 0.0
        self._begun = 0.0

    def begin(self) -> None:
        """The process is started now."""
        self._begun = asyncio.get_running_loop().time()

    async def pause(self, how: str) -> None:
        """Wait until it is to be started again; ``how`` it ended."""
        has_lasted = asyncio.get_running_loop().time() - self._begun >= _LASTING
        self._delay = _FIRST if has_lasted or not self._delay else min(self._delay * 2, _LONGEST)
        text = f"quarterdeck: {self._what} {how}; it is started again in {self._delay:.0f} s"
        with suppress(OSError):  # whoever would read it may be gone
            print(text, file=sys.stderr, flush=True)
        await asyncio.sleep(self._delay)
