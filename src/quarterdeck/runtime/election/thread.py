"""The election on a thread of its own.

Renewing shares nothing with reconciling: its own event loop, its own client, its own connection. A reconciler
that blocks the main loop for a few seconds therefore does not cost the Lease. It must not be kept for ever
on behalf of a process that does nothing, either: when the main loop has not answered for ``stall_limit``
seconds, the thread stops renewing and another replica takes over.

``ThreadedElector`` is the ``Elector`` of ``quarterdeck.runtime.contract``, ``ThreadedShardedElector`` its
``KeyElector``.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, TypeAlias

from quarterdeck.api import Key
from quarterdeck.api.k8s import Lease
from quarterdeck.client import Client, Config
from quarterdeck.client.config import user_agent
from quarterdeck.errors import QuarterdeckError
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.election.elector import LeaderElector, Tell
from quarterdeck.runtime.election.isolation import ElectionThread
from quarterdeck.runtime.election.options import LeaderElection
from quarterdeck.runtime.election.shard import ShardCallback, ShardedElector, shard_of
from quarterdeck.runtime.metrics import RuntimeMetrics

STOP_GRACE: Final = 5.0
"""Seconds beyond the renew deadline that the thread may take to end."""

Callback: TypeAlias = Callable[[], Awaitable[None]]
Connect: TypeAlias = Callable[[], Client]


class ElectionFailed(QuarterdeckError):
    """The election itself broke down (a bug, an impossible configuration), not the Lease."""


def election_client(config: Config, options: LeaderElection) -> Connect:
    """How the election's thread gets a client of its own."""

    def connect() -> Client:
        # No rate limit: it is there for reconciles, and must not cost the Lease.
        settings = config.evolve(
            user_agent=user_agent("leader-election"), timeout=options.request_timeout, qps=0.0
        )
        return Client.connect(settings)

    return connect


class ThreadedElector:
    """Campaigns on its own thread and calls back on the loop that runs it."""

    def __init__(
        self,
        options: LeaderElection,
        connect: Connect,
        *,
        recorder: Recorder | None = None,
        metrics: RuntimeMetrics | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """``connect`` is called on the thread; see ``election_client``."""
        self.options: Final = options.checked()
        self.identity: Final = self.options.identity
        self._connect: Final = connect
        self._recorder: Final = recorder
        self._metrics: Final = metrics.election(self.options.name) if metrics is not None else None
        self._random: Final = rng
        self._elector: LeaderElector | None = None

    @property
    def is_leader(self) -> bool:
        """Whether the Lease was won and not lost since."""
        return self._elector is not None and self._elector.is_leader

    @property
    def holder(self) -> str:
        """Who holds the Lease as far as we have seen."""
        return self._elector.holder if self._elector is not None else ""

    def may_write(self) -> bool:
        """Whether a write sent now is safe."""
        return self._elector is not None and self._elector.may_write()

    def check(self) -> None:
        """A liveness check: raises for a leader that is late beyond all measure."""
        if self._elector is not None:
            self._elector.check()

    async def run(self, on_started: Callback, on_stopped: Callback) -> None:
        """Campaign until cancelled; returns when the Lease is lost, after ``on_stopped``.

        Call it again to campaign again. Cancelled, it gives the Lease back if so configured: by then
        everything that leads must have stopped. Raises ``ElectionFailed`` and what ``on_started`` raises.
        """
        won: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        thread = ElectionThread(lambda: self._campaign(thread, won), lock=self.options.name)
        thread.start()
        try:
            await self._serve_term(thread, won, on_started)
            await on_stopped()
        finally:
            await asyncio.shield(thread.stop(self.options.renew_deadline + STOP_GRACE))

    async def _serve_term(
        self, thread: ElectionThread, won: asyncio.Future[None], on_started: Callback
    ) -> None:
        """From candidate to leader to loser; returns when the Lease is lost."""
        await asyncio.wait({won, thread.ended}, return_when=asyncio.FIRST_COMPLETED)
        if not won.done():
            raise ElectionFailed(f"leader election failed: {thread.error}") from thread.error
        starting = asyncio.ensure_future(on_started())
        try:
            await asyncio.wait({starting, thread.ended}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            await asyncio.shield(thread.ended)
        finally:
            if not starting.done():
                starting.cancel()
                await asyncio.wait({starting})

    async def _campaign(self, thread: ElectionThread, won: asyncio.Future[None]) -> None:
        """On the thread: from the beginning of a campaign to the loss of the Lease."""
        async with self._connect() as client:
            elector = self._elector = LeaderElector(
                client,
                self.options,
                tell=_teller(thread, self._recorder),
                metrics=self._metrics,
                rng=self._random,
            )
            try:
                await elector.acquire()
                thread.post(_win, won)
                await _first(elector.renew(), thread.watch_caller(self.options.stall_limit))
            except asyncio.CancelledError:
                if self.options.release_on_cancel:
                    await elector.release()
                raise


class ThreadedShardedElector:
    """Campaigns for shards on its own thread and calls back on the loop that runs it."""

    def __init__(
        self,
        options: LeaderElection,
        connect: Connect,
        *,
        recorder: Recorder | None = None,
        metrics: RuntimeMetrics | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """``connect`` is called on the thread; see ``election_client``."""
        self.options: Final = options.checked()
        self._connect: Final = connect
        self._recorder: Final = recorder
        self._metrics: Final = metrics
        self._random: Final = rng
        self._elector: ShardedElector | None = None

    @property
    def held(self) -> tuple[int, ...]:
        """The shards we lead now."""
        return self._elector.held if self._elector is not None else ()

    def shard(self, key: Key | str) -> int:
        """The shard a key belongs to."""
        return shard_of(key, self.options.shards)

    def owns(self, key: Key | str) -> bool:
        """Whether this replica leads the shard of a key."""
        return self._elector is not None and self._elector.owns(key)

    def may_write(self, key: Key | str) -> bool:
        """Whether a write on behalf of a key is safe now."""
        return self._elector is not None and self._elector.may_write(key)

    def check(self) -> None:
        """A liveness check: raises for a shard whose Lease is late beyond all measure."""
        if self._elector is not None:
            self._elector.check()

    async def run(self, on_started: ShardCallback, on_stopped: ShardCallback) -> None:
        """Campaign until cancelled; callbacks get the shard that was won, lost or given back.

        Returns when this loop was blocked for too long, after ``on_stopped`` for every shard we had; call it
        again to campaign again. Raises ``ElectionFailed``, also for what the callbacks raise.
        """
        thread = ElectionThread(
            lambda: self._campaign(thread, on_started, on_stopped), lock=self.options.name
        )
        thread.start()
        try:
            await asyncio.shield(thread.ended)
        finally:
            await asyncio.shield(thread.stop(self.options.renew_deadline + STOP_GRACE))
        if thread.error is not None:
            raise ElectionFailed(f"leader election failed: {thread.error}") from thread.error

    async def _campaign(
        self, thread: ElectionThread, on_started: ShardCallback, on_stopped: ShardCallback
    ) -> None:
        """On the thread: from the beginning of a campaign to its end."""
        async with self._connect() as client:
            elector = self._elector = ShardedElector(
                client,
                self.options,
                tell=_teller(thread, self._recorder),
                metrics=self._metrics,
                rng=self._random,
            )
            # When the caller no longer answers, the campaign ends: nothing is renewed from that moment on.
            # What it was told to stop is waited for, however long that takes, before a Lease is given back.
            await _first(
                elector.run(
                    lambda shard: thread.call(on_started, shard),
                    lambda shard: thread.call(on_stopped, shard),
                ),
                thread.watch_caller(self.options.stall_limit),
            )


async def _first(*coroutines: Coroutine[None, None, None]) -> None:
    """Run until one of them ends; raises what it raises."""
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _teller(thread: ElectionThread, recorder: Recorder | None) -> Tell | None:
    """How an elector on the thread has its events recorded on the loop that runs it."""
    if recorder is None:
        return None

    def tell(lease: Lease, note: str) -> None:
        # Different actions: events that differ in their note only would become one series.
        action = "StopLeading" if note.endswith("stopped leading") else "BecomeLeader"
        thread.post(recorder.event, lease, "Normal", "LeaderElection", action, note)

    return tell


def _win(won: asyncio.Future[None]) -> None:
    if not won.done():
        won.set_result(None)
