"""Makes a history that shows a difference shorter, by leaving out what it does not need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Json = dict[str, Any]


async def shrink(
    steps: list[Json], differs: Callable[[list[Json]], Awaitable[bool]], *, most_tries: int = 80
) -> list[Json]:
    """A part of the steps that still differs; parts are left out from large to small while tries remain.

    `differs` tells a part of the history to both servers anew. The whole history is known to differ.
    """
    kept, size, tries = steps, max(1, len(steps) // 2), 0
    while size >= 1 and tries < most_tries:
        start, has_shrunk = len(kept), False
        while start > 0 and tries < most_tries:  # from the end: later steps need earlier ones
            start = max(0, start - size)
            part = kept[:start] + kept[start + size :]
            if not part:
                continue
            tries += 1
            if await differs(part):
                kept, has_shrunk = part, True
        if size == 1 and not has_shrunk:
            break
        size = size if size == 1 else size // 2
    return kept
