"""What the manager and controllers need from parts that are built elsewhere, as small protocols.

Election, event recording and metrics plug in here; a controller runs without any of them.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from quarterdeck.api import Key, Writable

ReconcileResult = Literal["success", "error", "requeue", "requeue_after"]
Callback: TypeAlias = Callable[[], Awaitable[None]]


class Gauge(Protocol):
    """A number that goes up and down."""

    def set(self, value: float) -> None:
        """Make it ``value``."""
        ...

    def inc(self, amount: float = 1.0) -> None:
        """Add."""
        ...

    def dec(self, amount: float = 1.0) -> None:
        """Subtract."""
        ...


class ReconcileMetrics(Protocol):
    """What a controller counts; see ``controller_runtime_reconcile_*``."""

    @property
    def max_concurrent(self) -> Gauge: ...
    @property
    def active_workers(self) -> Gauge: ...

    def reconciled(self, result: ReconcileResult, seconds: float) -> None:
        """A reconcile ended."""
        ...

    def terminal(self) -> None:
        """Its error was terminal."""
        ...

    def panicked(self) -> None:
        """Its error was an exception nobody expects."""
        ...

    def timed_out(self) -> None:
        """Our own deadline ended it."""
        ...

    def requeued(self, reason: str) -> None:
        """The reconciler gave a reason for coming back."""
        ...

    def consistency_waited(self, seconds: float, *, in_time: bool) -> None:
        """A key was parked until the cache caught up."""
        ...


class Elector(Protocol):
    """Leader election, as the manager drives it."""

    async def run(self, on_started: Callback, on_stopped: Callback) -> None:
        """Campaign until cancelled; ``on_started`` when the lease is won, ``on_stopped`` when it is lost.

        Returns (or raises) when leadership is lost for good. Cancellation releases the lease, if configured.
        """
        ...

    def may_write(self) -> bool:
        """Whether a write issued now is safe: the lease was renewed recently enough."""
        ...


@runtime_checkable
class KeyElector(Protocol):
    """An election about keys instead of everything: replicas share them, shard by shard."""

    def owns(self, key: Key) -> bool:
        """Whether this replica should work on a key."""
        ...

    def may_write(self, key: Key) -> bool:
        """Whether a write issued now on behalf of a key is safe."""
        ...

    def shard(self, key: Key) -> int:
        """The shard a key belongs to."""
        ...

    async def run(
        self,
        on_started: Callable[[int], Awaitable[None]],
        on_stopped: Callable[[int], Awaitable[None]],
    ) -> None:
        """Campaign until cancelled; the callbacks get the shard that was won, or is about to be given up."""
        ...


class Recorder(Protocol):
    """Records events about objects; never blocks, never raises for lack of room."""

    def event(
        self,
        regarding: Writable,
        type: Literal["Normal", "Warning"],
        reason: str,
        action: str,
        note: str,
        *,
        related: Writable | None = None,
        annotations: Mapping[str, str] | None = None,
        field_path: str = "",
        host: str = "",
    ) -> None:
        """Queue an event for writing; ``field_path`` names a part of the object, ``host`` who saw it."""
        ...


@runtime_checkable
class RecorderSource(Protocol):
    """Makes the recorder of each controller and writes what they record."""

    def recorder(self, controller: str) -> Recorder:
        """The recorder of a controller."""
        ...

    async def run(self) -> None:
        """Write until cancelled, then write what is queued."""
        ...


class NoRecorder:
    """Forgets every event."""

    def event(
        self,
        regarding: Writable,
        type: Literal["Normal", "Warning"],
        reason: str,
        action: str,
        note: str,
        *,
        related: Writable | None = None,
        annotations: Mapping[str, str] | None = None,
        field_path: str = "",
        host: str = "",
    ) -> None:
        """Do nothing."""
