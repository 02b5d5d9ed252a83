"""SIGINT and SIGTERM: the first stops gently, the second ends the process at once."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class _Installed:
    """Signals belong to the process, so this is one of the few things there is one of."""

    active = False


@contextmanager
def stop_on_signals(
    stop: Callable[[], None], *, end_now: Callable[[int], object] = os._exit
) -> Iterator[None]:
    """Call ``stop`` at the first signal, ``end_now(1)`` at the second; may be installed once at a time."""
    if _Installed.active:
        raise RuntimeError("signal handlers are installed already: run one manager per process")
    loop = asyncio.get_running_loop()
    asked = False

    def handle() -> None:
        nonlocal asked
        if asked:
            end_now(1)
            return
        asked = True
        stop()

    _Installed.active = True
    for number in SIGNALS:
        loop.add_signal_handler(number, handle)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        _Installed.active = False
