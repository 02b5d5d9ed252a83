"""What a manager runs, and in which order.

A runnable has ``async def run()``, which ends when it is cancelled. It may also have

- ``request_stop()``: called first on shutdown; ``run()`` then ends by itself within the grace period;
- ``needs_leader_election``: ``False`` to run on every replica; the default is to need it;
- ``is_serving``: it is a server; the next group starts when this is true;
- ``adopt_checks(checks)``: it is told the manager's health checks when it is added;
- ``cache``: controllers stand on it, so it starts with the caches;
- ``group``: the group it belongs to, where the rest does not say so (the webhook server).

Groups start one after the other and stop in another order; within a group everything happens at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final, Protocol

from quarterdeck.runtime.log.field import get_logger

__all__ = ["Group", "Runnable", "RunnableGroup", "describe", "group_of"]

_log: Final = get_logger(__name__)
SERVING_TIMEOUT: Final = 30.0


class Group(Enum):
    """The groups, in the order they start."""

    SERVERS = "servers"
    """Health, metrics, profiling: before caches, so that probes answer while they sync."""
    WEBHOOKS = "webhooks"
    """Before caches, because the first list may need the conversion webhook, and before whoever writes."""
    CACHES = "caches"
    """Caches, and what else controllers stand on."""
    OTHERS = "others"
    """What needs no leadership."""
    WARMUP = "warm-up"
    """Controllers that start their sources before the lease is won."""
    LEADER = "leader"
    """What only the leader does: controllers."""


class Runnable(Protocol):
    """Something with a life."""

    async def run(self) -> None:
        """Do it until cancelled, or until it is done. An exception stops the manager."""
        ...


class RunnableGroup:
    """Runnables that start and stop together."""

    def __init__(
        self,
        group: Group,
        *,
        spawn: Callable[[Awaitable[None], str], "asyncio.Task[None]"],
        failed: Callable[[Runnable, Exception], None],
    ) -> None:
        """``spawn`` makes a task of the manager's; ``failed`` is told about a runnable that raised."""
        self.group: Final = group
        self._spawn: Final = spawn
        self._failed: Final = failed
        self._waiting: list[Runnable] = []
        self._running: dict[Runnable, asyncio.Task[None]] = {}
        self.is_started = False

    def add(self, runnable: Runnable) -> None:
        """Add a runnable; it starts with the group, at once if that has started."""
        if self.is_started:
            self._start(runnable)
        else:
            self._waiting.append(runnable)

    @property
    def runnables(self) -> tuple[Runnable, ...]:
        """Those that wait and those that run."""
        return (*self._waiting, *self._running)

    def start(self) -> None:
        """Start everything that was added, and from now on everything that will be."""
        self.is_started = True
        for runnable in self._waiting:
            self._start(runnable)
        self._waiting.clear()

    async def wait_serving(self) -> None:
        """Wait until every server of the group accepts connections."""
        for runnable, task in tuple(self._running.items()):
            if not hasattr(runnable, "is_serving"):
                continue
            try:
                async with asyncio.timeout(SERVING_TIMEOUT):
                    while not runnable.is_serving and not task.done():  # noqa: ASYNC110  any server
                        await asyncio.sleep(0.01)
            except TimeoutError:
                _log.warning("server does not serve yet, going on", runnable=describe(runnable))

    def _start(self, runnable: Runnable) -> None:
        self._running[runnable] = self._spawn(self._run(runnable), describe(runnable))

    async def _run(self, runnable: Runnable) -> None:
        try:
            await runnable.run()
        except Exception as error:  # noqa: BLE001  supervision point: the manager decides
            self._failed(runnable, error)
        finally:
            self._running.pop(runnable, None)

    def request_stop(self) -> None:
        """Ask everything to end: gently where possible, by cancellation otherwise."""
        self._waiting.clear()
        for runnable, task in tuple(self._running.items()):
            ask = getattr(runnable, "request_stop", None)
            if ask is not None:
                ask()
            else:
                task.cancel()

    async def wait_stopped(self, timeout: float | None) -> list[str]:
        """Wait for the end; returns the names of those that had to be cancelled."""
        tasks = dict(self._running)
        if not tasks:
            return []
        await asyncio.wait(tasks.values(), timeout=timeout)
        late = [runnable for runnable, task in tasks.items() if not task.done()]
        for runnable in late:
            tasks[runnable].cancel()
        return [describe(runnable) for runnable in late]

    async def wait_cancelled(self) -> None:
        """Wait for tasks that were cancelled."""
        if self._running:
            await asyncio.wait(self._running.values())

    def reset(self) -> None:
        """Ready to be started again."""
        self.is_started = False


def describe(runnable: Runnable) -> str:
    """A name for logs."""
    name = getattr(runnable, "name", "")
    return f"{type(runnable).__name__} {name}".strip()


def group_of(runnable: Runnable) -> Group:
    """The group a runnable belongs to, by what it says of itself."""
    declared = getattr(runnable, "group", None)
    if isinstance(declared, Group):
        return declared
    if hasattr(runnable, "is_serving"):
        return Group.LEADER if getattr(runnable, "needs_leader_election", False) else Group.SERVERS
    if hasattr(runnable, "cache"):
        return Group.CACHES
    return Group.LEADER if getattr(runnable, "needs_leader_election", True) else Group.OTHERS
