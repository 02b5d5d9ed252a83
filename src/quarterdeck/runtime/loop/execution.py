"""Blocking calls, which must not run on the event loop, in threads.

The pool is bounded and made on first use. Log fields and other context variables travel into threads.
"""

import asyncio
import contextvars
import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_THREADS: Final = 16


class Execution:
    """The threads of one manager: ``threads`` calls at once, plain ``def`` reconcilers included."""

    def __init__(self, *, threads: int = DEFAULT_THREADS) -> None:
        self._max_threads: Final = threads
        self._threads: Executor | None = None

    async def run_blocking(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function in a thread; cancellation does not stop the thread."""
        return await self.submit(function, *args, **kwargs)

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "asyncio.Future[T]":
        """Begin a blocking function in a thread.

        A plain future, no task: an exit that the function raises ends who waits for it, not the loop.
        """
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor  # late: most programs block nowhere

            self._threads = ThreadPoolExecutor(self._max_threads, thread_name_prefix="quarterdeck")
        context = contextvars.copy_context()
        call = functools.partial(context.run, functools.partial(function, *args, **kwargs))
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def aclose(self) -> None:
        """End the pool; waits for what runs, gives up what is only queued."""
        pool, self._threads = self._threads, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)


def call_from_thread(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop and wait for it, from another thread."""
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
