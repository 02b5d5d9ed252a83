"""How long an evaluation may keep the event loop, and where it goes on when it takes longer.

Evaluations change nothing, so that one which turns out to be slow is simply begun again, in a thread. What
it asks of the server there is answered on the loop. It has to call `look_up` every now and then.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import perf_counter
from typing import Final, TypeVar

from quarterdeck.wire import wallclock

T = TypeVar("T")

SECONDS: Final = 0.01
"""What one evaluation may take on the loop."""


class _Turn(threading.local):
    ends: float | None = None
    loop: asyncio.AbstractEventLoop | None = None


class _Over(BaseException):  # nothing that absorbs errors of an evaluation may absorb this
    """The turn on the loop is over."""


_turn: Final = _Turn()


async def in_turns(evaluate: Callable[[], T]) -> T:
    """The result of `evaluate`, which may be called a second time, in a thread."""
    if wallclock.is_virtual():
        return evaluate()
    _turn.ends = perf_counter() + SECONDS
    try:
        return evaluate()
    except _Over:
        pass
    finally:
        _turn.ends = None
    return await asyncio.to_thread(_elsewhere, evaluate, asyncio.get_running_loop())


def _elsewhere(evaluate: Callable[[], T], loop: asyncio.AbstractEventLoop) -> T:
    _turn.loop = loop
    try:
        return evaluate()
    finally:
        _turn.loop = None


def ask(question: Callable[[], T]) -> T:
    """The answer to a question about the state of the server, which belongs to the loop."""
    loop = _turn.loop
    if loop is None:
        return question()
    answer: Future[T] = Future()

    def respond() -> None:
        try:
            answer.set_result(question())
        except Exception as error:  # noqa: BLE001 - it is raised where it was asked
            answer.set_exception(error)

    loop.call_soon_threadsafe(respond)
    return answer.result()


def look_up() -> None:
    """End the turn if it has lasted long enough."""
    ends = _turn.ends
    if ends is not None and perf_counter() > ends:
        raise _Over
