"""Read your writes: a key is not reconciled before the cache has seen what its last run wrote.

A write returns before its watch event arrives. The next run of the same key could read the state before
the write, create a second child, or overwrite a status with old data. So every write of a reconcile is
recorded under its key, and a key that is taken from the queue too early is *parked*: attached to the stores
it waits for, without holding a worker, and queued again when they have caught up. After ``timeout`` it is
queued anyway, with a warning and a count.

What is waited for: for a write, the store's version reaches that of the answer; for a deletion, whose
answer may carry no comparable version, the store shows the object with a deletion timestamp, as another
incarnation, or not at all.

Not guaranteed: anything about writes of others, or about objects the cache does not hold. Responses are
never put into the store: two writers to one store would reorder history.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import msgspec

from quarterdeck.api import Key
from quarterdeck.client.clock import Clock
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.shard import Shard
from quarterdeck.runtime.cache.version import is_at_least, is_newer
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.deadline import Deadlines

_log: Final = get_logger(__name__)


class ConsistencyMetrics(Protocol):
    """Who counts the waiting."""

    def consistency_waited(self, seconds: float, *, in_time: bool) -> None:
        """A key was parked this long; ``in_time`` is false if the cache did not catch up."""
        ...


class ConsistencyStatistics(msgspec.Struct, frozen=True):
    """How much is being waited for."""

    keys: int
    """Keys with writes the cache has not been checked against."""
    parked: int
    waits: int
    timeouts: int


class _Writes:
    """What one key wrote and the cache has not shown yet."""

    __slots__ = ("deletions", "versions")

    def __init__(self) -> None:
        self.versions: dict[Shard, str] = {}
        self.deletions: dict[tuple[Shard, str, str], str] = {}

    def settle(self) -> bool:
        """Drop what the cache shows by now; returns whether that is everything."""
        for shard in [s for s, v in self.versions.items() if is_at_least(s.store.version, v)]:
            del self.versions[shard]
        for deletion, uid in list(self.deletions.items()):
            shard, namespace, name = deletion
            if _is_gone(shard.store.get(namespace, name), uid):
                del self.deletions[deletion]
        return not self.versions and not self.deletions


def _is_gone(entry: Entry | None, uid: str) -> bool:
    return entry is None or entry.uid != uid or entry.is_deleting


class _Parked:
    """A key that waits for the cache."""

    __slots__ = ("cancels", "missing", "priority", "since")

    def __init__(self, priority: int, since: float) -> None:
        self.priority = priority
        self.since = since
        self.missing = 0
        self.cancels: list[Callable[[], None]] = []

    def close(self) -> None:
        for cancel in self.cancels:
            cancel()
        self.cancels.clear()


class WriteTracker:
    """Remembers the writes of each key of one controller, and parks keys that would read too early."""

    def __init__(
        self,
        *,
        release: Callable[[Key, int], None],
        clock: Clock,
        timeout: float = 5.0,
        metrics: ConsistencyMetrics | None = None,
    ) -> None:
        """``release(key, priority)`` queues a key again."""
        self._release: Final = release
        self._clock: Final = clock
        self._deadlines: Final = Deadlines(timeout, self._expire)
        self._metrics: Final = metrics
        self._writes: dict[Key, _Writes] = {}
        self._parked: dict[Key, _Parked] = {}
        self._waits = 0
        self._timeouts = 0

    def wrote(self, key: Key, shard: Shard, version: str) -> None:
        """A run of ``key`` wrote an object that ``shard`` is going to show at ``version``."""
        versions = self._writes.setdefault(key, _Writes()).versions
        known = versions.get(shard)
        if known is None or is_newer(version, known):
            versions[shard] = version

    def deleted(self, key: Key, shard: Shard, namespace: str, name: str, uid: str) -> None:
        """A run of ``key`` deleted an object."""
        if uid:
            self._writes.setdefault(key, _Writes()).deletions[shard, namespace, name] = uid

    def park(self, key: Key, priority: int) -> bool:
        """Whether ``key`` must wait; if so it is parked and will be released later."""
        parked = self._parked.get(key)
        if parked is not None:
            # Woken by an event while it waits: the release takes care of it.
            parked.priority = max(parked.priority, priority)
            return True
        writes = self._writes.get(key)
        if writes is None:
            return False
        if writes.settle():
            del self._writes[key]
            return False
        self._attach(key, writes, priority)
        return True

    def _attach(self, key: Key, writes: _Writes, priority: int) -> None:
        parked = self._parked[key] = _Parked(priority, self._clock.monotonic())
        self._waits += 1
        parked.missing = len(writes.versions) + len(writes.deletions)
        self._deadlines.add(key)

        def arrived() -> None:
            parked.missing -= 1
            if not parked.missing:
                self._unpark(key, in_time=True)

        for shard, version in list(writes.versions.items()):
            parked.cancels.append(shard.when_version(version, arrived))
        for (shard, namespace, name), uid in list(writes.deletions.items()):
            parked.cancels.append(shard.when_entry(namespace, name, partial(_is_gone, uid=uid), arrived))

    def _expire(self, key: Key) -> None:
        writes = self._writes.get(key)
        behind = [f"{s.store.version}<{v}" for s, v in writes.versions.items()] if writes is not None else []
        _log.warning("cache did not catch up with own writes", key=str(key), behind=behind)
        self._timeouts += 1
        self._unpark(key, in_time=False)

    def _unpark(self, key: Key, *, in_time: bool) -> None:
        parked = self._parked.pop(key, None)
        if parked is None:
            return
        self._deadlines.drop(key)
        parked.close()
        self._writes.pop(key, None)
        if self._metrics is not None:
            self._metrics.consistency_waited(self._clock.monotonic() - parked.since, in_time=in_time)
        self._release(key, parked.priority)

    def forget(self, key: Key) -> None:
        """The object behind the key is gone, or another one: what was written no longer matters."""
        self._writes.pop(key, None)

    def discard(self, unwanted: Callable[[Key], bool]) -> None:
        """Drop keys, parked ones included (a cluster left)."""
        for key in [key for key in self._parked if unwanted(key)]:
            self._deadlines.drop(key)
            self._parked.pop(key).close()
        for key in [key for key in self._writes if unwanted(key)]:
            del self._writes[key]

    def close(self) -> None:
        """Stop all waiting."""
        self.discard(lambda _key: True)

    def statistics(self) -> ConsistencyStatistics:
        """Keys with writes, keys parked, and what became of earlier ones."""
        return ConsistencyStatistics(len(self._writes), len(self._parked), self._waits, self._timeouts)
