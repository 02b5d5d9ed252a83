"""Virtual time: an event loop whose clock jumps to the next timer instead of waiting for it.

``run(main())`` is ``asyncio.run`` on such a loop. Sleeps, time-outs and delayed calls take no wall time,
their order is exact, and a test that waits ten hours ends in a millisecond::

    async def test() -> None:
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(36_000)
        assert asyncio.get_running_loop().time() - started == 36_000

    run(test())

Rules:

- The clock moves only when every task waits: nothing is runnable and no socket is ready.
- While a thread works for the loop (``run_in_executor``, ``to_thread``) the clock stands still and the
  loop waits for the thread in real time, so that blocking calls do not race against timers.
- If nothing is runnable, nothing is scheduled and no thread or socket could wake the loop, the test hangs
  for good; that is reported as ``Deadlock`` with the waiting tasks instead of hanging.
- ``loop.date()`` is the virtual date; it starts at a fixed instant, so that texts made from it are stable.

It is not for code that talks to another process: real sockets answer in real time, and a timer may fire
"before" the answer. Pass ``real_sockets=True`` to let ready sockets have ``patience`` seconds of real time
before each jump.
"""

import asyncio
import contextvars
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from math import inf, nextafter, ulp
from time import thread_time
from typing import Any, Final, TypeVar

from quarterdeck.errors import QuarterdeckError

T = TypeVar("T")

EPOCH: Final = datetime(2030, 1, 1, tzinfo=UTC)
"""The virtual date at which every loop starts."""
_START: Final = 1000.0  # not 0: code that takes 0 for "never" should not pass by luck


class Deadlock(QuarterdeckError, RuntimeError):
    """Every task waits for something that can never happen."""


class Endless(QuarterdeckError, RuntimeError):
    """A test goes on and on, with or without time passing."""


class _JumpingSelector(selectors.DefaultSelector):
    """Turns waiting for a timer into moving the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.loop: VirtualLoop | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Ready sockets; if there are none, jump by ``timeout`` and return at once."""
        events = super().select(0)
        loop = self.loop
        if loop is not None and thread_time() > loop.work_deadline:
            raise Endless(f"still going on after {loop.time() - _START:.0f} virtual seconds")
        if events or loop is None or (timeout is not None and timeout <= 0):
            return events
        while loop.busy_threads:
            events = super().select(0.05)
            if events:
                return events
        events = super().select(loop.patience)
        if events:
            return events
        if timeout is None:
            # Only another thread could help now; give it a moment of real time.
            events = super().select(1.0)
            if not events:
                raise Deadlock(loop.describe_tasks())
            return events
        loop.advance(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on virtual time."""

    def __init__(self, *, patience: float = 0.0, work_limit: float = inf) -> None:
        """``work_limit``: seconds of the processor's time, which a busy machine does not shorten, after which
        ``Endless`` is raised."""
        self._virtual = _START
        self.work_deadline = thread_time() + work_limit
        self.patience = patience
        """Seconds of real time that sockets get before the clock jumps."""
        self._busy = 0
        selector = _JumpingSelector()
        super().__init__(selector)
        selector.loop = self
        self.advance(0.0)

    def time(self) -> float:
        """Virtual seconds."""
        return self._virtual

    def date(self) -> datetime:
        """The virtual date, in step with ``time()``."""
        return EPOCH + timedelta(seconds=self._virtual - _START)

    def advance(self, seconds: float) -> None:
        """Move the clock by hand; timers that become due run in the next turn.

        No timer is early, not even by a nanosecond as asyncio allows: two tasks that wait for the rest of
        an interval would find a rest for ever, because the clock stands still while one of them runs.
        """
        self._virtual += seconds
        self._clock_resolution = ulp(self._virtual)

    def call_later(  # type: ignore[override]  # typeshed ties the arguments to the callable
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As always, but whatever the delay, the clock has moved on by then.

        The rest of an interval may be less than the clock can count; who waits for it would wait for ever.
        """
        when = self._virtual + delay
        if delay > 0 and when <= self._virtual:
            when = nextafter(self._virtual, inf)
        return self.call_at(when, callback, *args, context=context)

    @property
    def busy_threads(self) -> int:
        """Calls that threads are working on for this loop."""
        return self._busy

    def run_in_executor(  # type: ignore[override]  # typeshed ties the arguments to the callable
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """As always, but the clock stands still until the result has arrived."""
        self._busy += 1
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._release)
        return future

    async def shutdown_default_executor(self, *limit: float | None) -> None:
        """As always, but the clock stands still until the threads have ended, not up to their time limit."""
        self._busy += 1
        try:
            await super().shutdown_default_executor(*limit)
        finally:
            self._busy -= 1

    def _release(self, _future: "asyncio.Future[Any]") -> None:
        self._busy -= 1

    def describe_tasks(self) -> str:
        """Which tasks wait, and where."""
        lines = ["nothing can wake these tasks:"]
        for task in asyncio.all_tasks(self):
            frames = task.get_stack(limit=1)
            where = f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else "?"
            lines.append(f"  {task.get_name()} at {where}")
        return "\n".join(lines)


def run(
    main: Coroutine[Any, Any, T],
    *,
    debug: bool | None = None,
    real_sockets: bool = False,
    work_limit: float = inf,
    context: contextvars.Context | None = None,
) -> T:
    """Run ``main`` to its end on a fresh virtual-time loop and return its result.

    ``work_limit`` is for what might never end: see ``VirtualLoop``.
    """

    def factory() -> VirtualLoop:
        return VirtualLoop(patience=0.05 if real_sockets else 0.0, work_limit=work_limit)

    with asyncio.Runner(debug=debug, loop_factory=factory) as runner:
        return runner.run(main, context=context)
