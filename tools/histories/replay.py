"""What the real server answered once, compared with what ours answers now."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable

from tests.harness.hook import HookServer

from .compare import Verdict, compare
from .generate import has_restart
from .recording import Recorded
from .side import Ours
from .tell import tell

#: told to one server at the same time: while one waits for a webhook or for the clock, others go on
_AT_ONCE = 8
_NUMBERS = itertools.count(1)


async def replay(histories: Iterable[Recorded], hooks: HookServer) -> list[tuple[Recorded, Verdict]]:
    """Each history and how it differs, in no particular order."""
    alone: list[Recorded] = []
    together: list[Recorded] = []
    for each in histories:
        (alone if has_restart(each.steps) else together).append(each)
    found: list[tuple[Recorded, Verdict]] = []
    async with Ours() as ours:

        async def work(waiting: Iterable[Recorded]) -> None:
            for each in waiting:
                observed = await tell(ours, each.steps, f"h-{next(_NUMBERS)}", hooks)
                found.append((each, compare(each.steps, each.answers, observed, each.volatile)))

        await work(alone)
        waiting = iter(together)
        await asyncio.gather(*(work(waiting) for _ in range(_AT_ONCE)))
    return found
