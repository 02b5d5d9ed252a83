"""Leader election on the loop of the test, so that it runs on virtual time.

A manager normally campaigns on a thread of its own, which virtual time cannot reach. ``LoopElector`` is the
same election on the loop of whoever runs it::

    link = cluster.link(name="a's lease")
    manager = cluster.manager(elector=LoopElector(link, LeaderElection(name="crew", namespace="default")))
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from quarterdeck.client.clock import Clock
from quarterdeck.runtime.election import LeaderElection, LeaderElector
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.testing.link import Link


class LoopElector:
    """An ``Elector`` over a link of its own."""

    def __init__(
        self, link: Link, options: LeaderElection, *, seed: int = 0, clock: Clock | None = None
    ) -> None:
        self.link: Final = link
        self.elector: Final = LeaderElector(
            link.client,
            options,
            clock=clock if clock is not None else LoopClock(),
            rng=random.Random(f"{seed} {options.identity}"),  # noqa: S311  jitter, no secret
        )

    def may_write(self) -> bool:
        """Whether a write sent now is safe."""
        return self.elector.may_write()

    def check(self) -> None:
        """The liveness check of the election."""
        self.elector.check()

    async def run(
        self, on_started: Callable[[], Awaitable[None]], on_stopped: Callable[[], Awaitable[None]]
    ) -> None:
        """Campaign until cancelled; returns when the Lease is lost."""
        try:
            await self.elector.acquire()
            await on_started()
            await self.elector.renew()
        except asyncio.CancelledError:
            if self.elector.options.release_on_cancel:
                await self.elector.release()
            raise
        await on_stopped()
