"""Hooks for ``intercept``: single calls that fail, wait, or lose their answer.

    client = intercept(cluster.client, update=raise_once(Conflict), create=lose_answer())

For faults by chance or by the dozen, a ``FaultPlan`` is the better tool.
"""

import asyncio
from collections.abc import Callable

from quarterdeck.client import Call, Response
from quarterdeck.client.call import Interceptor, Proceed
from quarterdeck.errors import StreamClosed


def raise_times(count: int, make: Callable[[], BaseException]) -> Interceptor:
    """A hook that fails the first ``count`` calls and lets the others pass."""
    left = count

    async def hook(call: Call, proceed: Proceed) -> Response:
        nonlocal left
        if left > 0:
            left -= 1
            raise make()
        return await proceed(call)

    return hook


def lose_answer(count: int = 1) -> Interceptor:
    """A hook that carries out the first ``count`` calls and loses their answers."""
    left = count

    async def hook(call: Call, proceed: Proceed) -> Response:
        nonlocal left
        response = await proceed(call)
        if left > 0:
            left -= 1
            raise StreamClosed("the answer was lost")
        return response

    return hook


def delay(seconds: float) -> Interceptor:
    """A hook that holds every call back."""

    async def hook(call: Call, proceed: Proceed) -> Response:
        await asyncio.sleep(seconds)
        return await proceed(call)

    return hook
