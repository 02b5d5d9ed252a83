"""The one way in which anything of the runtime runs: a supervised loop.

Workers, handlers, sources, providers, campaigns and runnables are ``Loop``s. Each has an owner that starts
and ends it, and a declared policy for its failure:

- ``RESTART``: it is logged and counted, and runs again after a growing wait;
- ``ISOLATE``: it ends for good and is reported; everything else goes on;
- ``STOP``: its owner is told, and ends everything in order.

A failure is whatever comes out of it that its owner did not ask for. That includes what is no ``Exception``:
a ``CancelledError`` that user code got from a task of its own (it awaited one that somebody cancelled), a
``SystemExit``. Such a thing once ended a worker for ever while the process looked healthy. ``contained``
tells the owner's cancellation from a foreign one: only the former has been asked of the task itself. User
code may also cancel the very task that runs it; so that is never the owner's (``isolated``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Final, TypeVar

from quarterdeck.client.clock import Clock
from quarterdeck.errors import QuarterdeckError
from quarterdeck.runtime.log.field import FieldLogger, get_logger
from quarterdeck.runtime.loop.backoff import EndlessBackoff
from quarterdeck.runtime.loop.clock import LoopClock

T = TypeVar("T")
_log: Final = get_logger(__name__)
_FIRST_WAIT: Final = 0.1
_LONGEST_WAIT: Final = 30.0
_QUIET: Final = 120.0
"""Seconds without a failure after which the waits begin anew."""
END_TIMEOUT: Final = 30.0
"""Seconds that a cancelled loop has for its clean-up."""


class Stray(QuarterdeckError):
    """User code raised what is no error: a cancellation nobody asked for, or an exit; see the cause.

    Other errors of ours say what went wrong; this one counts as a panic, a bug in user code.
    """


def contained(raised: BaseException) -> Exception:
    """What user code raised, as an error to report; raises it again if it is not user code's.

    For ``except BaseException`` around calls of user code. The cancellation of the running task itself and
    the keyboard's interrupt go on.
    """
    if isinstance(raised, Exception):
        return raised
    if isinstance(raised, KeyboardInterrupt):
        raise raised
    if isinstance(raised, asyncio.CancelledError):
        if _is_ending():
            raise raised
        stray = Stray("it awaited a task that was cancelled (CancelledError)")
    else:
        stray = Stray(f"it raised {type(raised).__name__}: {raised}".rstrip(": "))
    stray.__cause__ = raised
    return stray


async def isolated(run: Awaitable[T], *, name: str | None = None) -> T:
    """Await user code in a task of its own; raises what it raises, as an error unless that is our own end.

    Whoever cancels that task has not cancelled this one: a hook that cancels the task it runs in, or a
    timeout of a library that leaves a cancellation behind.
    """

    async def outcome() -> T | _Raised:
        try:
            return await run
        except BaseException as raised:  # noqa: BLE001  an exit would end the event loop, not this task
            return _Raised(raised)

    task = asyncio.get_running_loop().create_task(outcome(), name=name)
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
    found = _Raised(asyncio.CancelledError()) if task.cancelled() else task.result()
    if not isinstance(found, _Raised):
        return found
    error = contained(found.error)
    if error is found.error:
        raise error
    raise error from found.error


class _Raised:
    """An exception as a result."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error: Final = error


class Policy(Enum):
    """What a failure means."""

    RESTART = "restart"
    ISOLATE = "isolate"
    STOP = "stop"


class Loop:
    """Something that runs until its owner ends it.

    ``failed`` is told every failure; of a loop that stops its owner nobody else tells.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[], Awaitable[None]],
        *,
        policy: Policy,
        failed: Callable[[Exception], None] | None = None,
        log: FieldLogger = _log,
        clock: Clock | None = None,
    ) -> None:
        self.name: Final = name
        self._run: Final = run
        self._policy: Final = policy
        self._failed: Final = failed
        self._log: Final = log
        self._clock: Final = clock if clock is not None else LoopClock()
        self._backoff: Final = EndlessBackoff(
            base=_FIRST_WAIT, cap=_LONGEST_WAIT, jitter=0.2, reset_after=_QUIET, clock=self._clock
        )
        self.is_alive = False
        """Whether it runs now; not while it waits before it runs again."""
        self.failures = 0
        self.last_error: Exception | None = None

    @property
    def is_down(self) -> bool:
        """Whether it has failed and does not run now."""
        return self.last_error is not None and not self.is_alive

    async def run(self) -> None:
        """Run it until it is done or cancelled; what fails is treated as the policy says."""
        while True:
            try:
                self.is_alive = True
                await isolated(self._run(), name=self.name)
                self.last_error = None
                return
            except Exception as raised:  # noqa: BLE001  supervision point
                error = raised
            finally:
                self.is_alive = False
            self.failures += 1
            self.last_error = error
            if self._failed is not None:
                self._failed(error)
            if _is_ending():  # it failed while it was ended: that is no reason to begin again
                self._log.error("loop failed at its end", error, loop=self.name)
                return
            if self._policy is Policy.STOP:
                return
            if self._policy is Policy.ISOLATE:
                self._log.error("loop failed and is left out", error, loop=self.name)
                return
            wait = self._backoff.next()
            self._log.error("loop failed, starting it again", error, loop=self.name, wait=round(wait, 3))
            await self._clock.sleep(wait)


def _is_ending() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def end_all(tasks: Iterable["asyncio.Future[T]"], *, timeout: float = END_TIMEOUT) -> None:
    """Cancel tasks and wait for them, but not for ever: who does not end is named and left behind."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=timeout)
    for task in late:
        name = task.get_name() if isinstance(task, asyncio.Task) else repr(task)
        _log.error("loop was cancelled and does not end", loop=name, waited=timeout)
