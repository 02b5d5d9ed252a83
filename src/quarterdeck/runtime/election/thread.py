"""The election on a thread of its own.

Renewing shares nothing with reconciling: its own event loop, its own client, its own connection. A reconciler
that blocks the main loop for a few seconds therefore does not cost the Lease. It must not be kept for ever
on behalf of a process that does nothing, either: when the main loop has not answered for ``stall_limit``
seconds, the thread stops renewing and another replica takes over.

``ThreadedElector`` is the ``Elector`` of ``quarterdeck.runtime.seam``.
"""

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

from quarterdeck.api.k8s import Lease
from quarterdeck.client import Client, Config, user_agent
from quarterdeck.errors import QuarterdeckError
from quarterdeck.runtime._logfield import get_logger
from quarterdeck.runtime.election.elector import LeaderElector
from quarterdeck.runtime.election.options import LeaderElection
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.seam import Recorder

__all__ = ["ElectionFailed", "ThreadedElector", "election_client"]

STOP_GRACE: Final = 5.0
"""Seconds beyond the renew deadline that the thread may take to end."""
_log: Final = get_logger(__name__)

Callback: TypeAlias = Callable[[], Awaitable[None]]
Connect: TypeAlias = Callable[[], Client]


class ElectionFailed(QuarterdeckError):
    """The election itself broke down (a bug, an impossible configuration), not the Lease."""


def election_client(config: Config, options: LeaderElection) -> Connect:
    """How the election's thread gets a client of its own."""

    def connect() -> Client:
        settings = config.evolve(user_agent=user_agent("leader-election"), timeout=options.request_timeout)
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
        term = _Term(self)
        term.start()
        try:
            await self._serve_term(term, on_started, on_stopped)
        finally:
            await asyncio.shield(term.stop())

    async def _serve_term(self, term: "_Term", on_started: Callback, on_stopped: Callback) -> None:
        """From candidate to leader to loser; returns when the Lease is lost."""
        await asyncio.wait({term.won, term.lost}, return_when=asyncio.FIRST_COMPLETED)
        if not term.won.done():
            raise ElectionFailed(f"leader election failed: {term.error}") from term.error
        starting = asyncio.ensure_future(on_started())
        try:
            await asyncio.wait({starting, term.lost}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            await term.lost
        finally:
            if not starting.done():
                starting.cancel()
                await asyncio.wait({starting})
        await on_stopped()


class _Term:
    """One thread: from the beginning of a campaign to the loss of the Lease, or the end of the process."""

    def __init__(self, owner: ThreadedElector) -> None:
        self._owner: Final = owner
        self._loop: Final = asyncio.get_running_loop()
        self.won: Final[asyncio.Future[None]] = self._loop.create_future()
        self.lost: Final[asyncio.Future[None]] = self._loop.create_future()
        self._ended: Final[asyncio.Future[None]] = self._loop.create_future()
        self._thread: Final = threading.Thread(target=self._run, name="leader-election", daemon=True)
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._heard_at = 0.0
        self.error: Exception | None = None
        self._lock: Final = threading.Lock()

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """End the thread; the Lease is given back if so configured."""
        with self._lock:
            self._is_stopping = True
            loop, task = self._own_loop, self._task
        if loop is not None and task is not None:
            with suppress(RuntimeError):  # its loop may be closed already
                loop.call_soon_threadsafe(task.cancel)
        try:
            async with asyncio.timeout(self._owner.options.renew_deadline + STOP_GRACE):
                await self._ended
        except TimeoutError:
            _log.error("the election's thread did not end", lock=self._owner.options.name)
        for future in (self.won, self.lost):
            future.cancel()

    # -- on the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._main())
        except Exception as error:  # noqa: BLE001  supervision point: the thread's last words
            self.error = error
            _log.error("leader election failed unexpectedly", error)
        finally:
            self._post(_settle, self.lost)
            self._post(_settle, self._ended)

    async def _main(self) -> None:
        campaign = asyncio.create_task(self._campaign(), name="leader election")
        with self._lock:
            self._own_loop, self._task = asyncio.get_running_loop(), campaign
            if self._is_stopping:
                campaign.cancel()
        with suppress(asyncio.CancelledError):
            await campaign

    async def _campaign(self) -> None:
        owner = self._owner
        async with owner._connect() as client:
            elector = LeaderElector(
                client,
                owner.options,
                tell=self._tell if owner._recorder is not None else None,
                metrics=owner._metrics,
                rng=owner._random,
            )
            owner._elector = elector
            try:
                await elector.acquire()
                self._post(_settle, self.won)
                await self._lead(elector)
            except asyncio.CancelledError:
                if owner.options.release_on_cancel:
                    await elector.release()
                raise

    async def _lead(self, elector: LeaderElector) -> None:
        """Renew until the Lease is lost, or the main loop has not answered for too long."""
        tasks = {
            asyncio.create_task(elector.renew(), name="renew lease"),
            asyncio.create_task(self._watch_main_loop(), name="watch main loop"),
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch_main_loop(self) -> None:
        limit = self._owner.options.stall_limit
        self._hear()
        while time.monotonic() - self._heard_at <= limit:
            self._post(self._hear)
            await asyncio.sleep(min(1.0, limit / 4))
        _log.error("the main event loop is blocked: giving up leadership", seconds=limit)

    def _hear(self) -> None:
        self._heard_at = time.monotonic()

    def _tell(self, lease: Lease, note: str) -> None:
        recorder = self._owner._recorder
        if recorder is not None:
            # Different actions: events that differ in their note only would become one series.
            action = "StopLeading" if note.endswith("stopped leading") else "BecomeLeader"
            self._post(recorder.event, lease, "Normal", "LeaderElection", action, note)

    def _post(self, function: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the main loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(function, *arguments)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
