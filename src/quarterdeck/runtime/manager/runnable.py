"""Groups of runnables, as the manager starts and stops them; what a runnable is, ``loop.runnable`` says."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from quarterdeck.client.clock import Clock
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.runnable import Group, Runnable
from quarterdeck.runtime.loop.supervision import Loop, Policy

_log: Final = get_logger(__name__)
SERVING_TIMEOUT: Final = 30.0


class RunnableGroup:
    """Runnables that start and stop together."""

    def __init__(
        self,
        group: Group,
        *,
        spawn: Callable[[Awaitable[None], str], "asyncio.Task[None]"],
        failed: Callable[[Runnable, Exception], None],
        clock: Clock,
    ) -> None:
        """``spawn`` makes a task of the manager's; ``failed`` is told about one that is to stop it."""
        self.group: Final = group
        self._spawn: Final = spawn
        self._failed: Final = failed
        self._clock: Final = clock
        self._policies: Final[dict[Runnable, Policy]] = {}
        self._waiting: list[Runnable] = []
        self._running: dict[Runnable, asyncio.Task[None]] = {}
        self._loops: dict[Runnable, Loop] = {}
        self.is_started = False

    def add(self, runnable: Runnable, policy: Policy | None = None) -> None:
        """Add a runnable; it starts with the group, at once if that has started.

        Without a policy it keeps the one it had; a new one stops the manager when it fails.
        """
        self._policies[runnable] = policy or self._policies.get(runnable, Policy.STOP)
        if self.is_started:
            self._start(runnable)
        else:
            self._waiting.append(runnable)

    def trouble(self) -> str | None:
        """Which runnables have failed and do not run now."""
        down = [f"{loop.name}: {loop.last_error}" for loop in self._loops.values() if loop.is_down]
        return "; ".join(down) if down else None

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
            try:
                async with asyncio.timeout(SERVING_TIMEOUT):
                    while not getattr(runnable, "is_serving", True) and not task.done():  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
            except TimeoutError:
                _log.warning("server does not serve yet, going on", runnable=describe(runnable))

    def _start(self, runnable: Runnable) -> None:
        policy = self._policies[runnable]
        loop = self._loops[runnable] = Loop(
            describe(runnable),
            runnable.run,
            policy=policy,
            failed=(lambda error: self._failed(runnable, error)) if policy is Policy.STOP else None,
            clock=self._clock,
        )
        self._running[runnable] = self._spawn(self._run(runnable, loop), loop.name)

    async def _run(self, runnable: Runnable, loop: Loop) -> None:
        try:
            await loop.run()
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
    """The group a runnable belongs to, by what it says of itself; without a word it needs leadership."""
    needs_leader: bool | None = getattr(runnable, "needs_leader_election", None)
    declared = getattr(runnable, "group", None)
    if needs_leader:
        return Group.LEADER
    if isinstance(declared, Group):
        return declared
    return Group.LEADER if needs_leader is None else Group.OTHERS
