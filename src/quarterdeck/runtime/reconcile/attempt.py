"""Doing the same to many objects, some at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from quarterdeck.errors import QuarterdeckError

T = TypeVar("T")
_AT_ONCE: Final = 32


async def attempt_all(
    items: Sequence[T], action: Callable[[T], Awaitable[object]], *, at_once: int = _AT_ONCE
) -> list[QuarterdeckError | None]:
    """Do ``action`` with every item; returns the error of each, or ``None`` where it worked."""
    errors: list[QuarterdeckError | None] = [None] * len(items)
    todo = iter(enumerate(items))

    async def work() -> None:
        for place, item in todo:
            try:
                await action(item)
            except QuarterdeckError as error:
                errors[place] = error

    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, len(items))):
            group.create_task(work())
    return errors
