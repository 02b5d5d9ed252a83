"""The event loop of one async test and of its fixtures, as the pytest plugin uses it."""

import asyncio
import inspect
from collections.abc import Callable, Generator
from typing import Any, Final, Literal

from quarterdeck.testing.clock import VirtualLoop
from quarterdeck.testing.leak import Leftovers, left_tasks

WORK_LIMIT: Final = 60.0
"""Seconds of the processor's time after which a test on virtual time counts as endless."""


class Run:
    """The event loop of one test: its fixtures are set up, it runs, and they are torn down on it."""

    def __init__(self, time: Literal["virtual", "real"], limit: float | None) -> None:
        """``limit``: seconds for the test; virtual time needs none: it tells when nothing can happen."""
        self._limit: Final = limit
        self._runner: Final = asyncio.Runner(loop_factory=_virtual_loop if time == "virtual" else _real_loop)
        self._before: Leftovers | None = None
        self._has_passed = False

    def test(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
        """Run the test itself."""
        self._before = Leftovers.now()
        self._runner.run(self._limited(function, arguments))
        self._has_passed = True

    async def _limited(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
        async with asyncio.timeout(self._limit):
            await function(**arguments)

    def fixture(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Generator[Any, None, None]:
        """Set up an async fixture, give its value, tear it down.

        All in one task, because task groups and time-outs must be left where they were entered.
        """
        loop = self._runner.get_loop()
        value, resume = loop.create_future(), asyncio.Event()
        task = loop.create_task(_live(function, arguments, value, resume), name="fixture")
        yield self._runner.run(_set_up(value, task))
        resume.set()
        self._runner.run(_tear_down(task))

    def close(self) -> list[str]:
        """End the loop; returns what the test left behind."""
        if not self._has_passed or self._before is None:
            self._runner.close()
            return []
        left = left_tasks(self._runner.get_loop())
        self._runner.close()
        return left + Leftovers.now().since(self._before)


def _virtual_loop() -> VirtualLoop:
    return VirtualLoop(work_limit=WORK_LIMIT)


def _real_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _live(
    function: Callable[..., Any],
    arguments: dict[str, Any],
    value: "asyncio.Future[Any]",
    resume: asyncio.Event,
) -> None:
    made = function(**arguments)
    if inspect.isawaitable(made):
        value.set_result(await made)
        return
    value.set_result(await anext(made))
    await resume.wait()
    async for _ in made:
        raise RuntimeError("an async fixture must yield once")


async def _set_up(value: "asyncio.Future[Any]", task: "asyncio.Task[None]") -> Any:
    await asyncio.wait((value, task), return_when=asyncio.FIRST_COMPLETED)
    if not value.done():
        await task
    return value.result()


async def _tear_down(task: "asyncio.Task[None]") -> None:
    await task
