"""Work that must not run on the event loop: blocking calls in threads, heavy computing in processes.

Both pools are bounded and made on first use. Log fields and other context variables travel into threads.
Processes get plain picklable arguments and know nothing of the program's state.
"""

import asyncio
import contextvars
import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["Execution"]

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_THREADS: Final = 16
DEFAULT_PROCESSES: Final = 2


class Execution:
    """The pools of one manager.

    - ``threads``: blocking calls at once, plain ``def`` reconcilers included; default 16.
    - ``processes``: heavy computations at once; default 2.
    """

    def __init__(self, *, threads: int = DEFAULT_THREADS, processes: int = DEFAULT_PROCESSES) -> None:
        self._max_threads: Final = threads
        self._max_processes: Final = processes
        self._threads: Executor | None = None
        self._processes: Executor | None = None

    async def run_blocking(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function in a thread; cancellation does not stop the thread."""
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor  # late: most programs block nowhere

            self._threads = ThreadPoolExecutor(self._max_threads, thread_name_prefix="quarterdeck")
        context = contextvars.copy_context()
        call = functools.partial(context.run, functools.partial(function, *args, **kwargs))
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def run_cpu(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in another process; function, arguments and result must be picklable."""
        if self._processes is None:
            import multiprocessing  # late: few programs compute that heavily
            from concurrent.futures import ProcessPoolExecutor

            # A fork would copy the event loop, its sockets and its locks.
            spawn = multiprocessing.get_context("spawn")
            self._processes = ProcessPoolExecutor(self._max_processes, mp_context=spawn)
        call = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._processes, call)

    async def aclose(self) -> None:
        """End the pools; waits for what runs in threads, gives up what is only queued."""
        pools = [pool for pool in (self._threads, self._processes) if pool is not None]
        self._threads = self._processes = None
        for pool in pools:
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)


def call_from_thread(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop and wait for it, from another thread."""
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
