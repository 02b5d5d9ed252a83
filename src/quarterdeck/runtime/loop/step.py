"""Steps that nobody waits for once something else has happened."""

import asyncio
from collections.abc import Awaitable


async def unless(event: asyncio.Event, step: Awaitable[object]) -> None:
    """Take a step, but give it up when the event happens; raises what the step raises."""
    tasks = [asyncio.ensure_future(step), asyncio.ensure_future(event.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if not tasks[0].cancelled():
        tasks[0].result()
