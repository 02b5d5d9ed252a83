"""State in memory, changes to disk, events to watchers.

Invariants (each has a test):
- a write is answered, and visible to anybody, only after its batch is durable;
- revisions grow by one per change, are never reused and survive restarts;
- a batch becomes visible at once, in revision order;
- subscribers of a bucket see every change of it exactly once, in order;
- at most one live value per key: expected revisions are checked against state plus the batch.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from .bucket import Bucket
from .entry import Entry, Event, EventType, body_at
from .error import Compacted, StorageError, StorageFull, WriteConflict, is_passing
from .log import Durability, Log, NoLog
from .past import Past, state_before
from .row import DELETE, PUT, Row
from .write import Batch, Outcome, Write

T = TypeVar("T")
_log = logging.getLogger("quarterdeck.apiserver.storage")

#: changes kept in memory for watches that resume, over all resources; more where no log has the others
RING_EVENTS = 100_000
RING_BYTES = 64 * 1024 * 1024
RING_BYTES_WITHOUT_LOG = 128 * 1024 * 1024
#: how long history is kept (upstream's etcd compaction period)
HISTORY_SECONDS = 300.0
#: changes that are forgotten before others have their turn
FORGOTTEN_AT_ONCE = 1_000
#: earlier states of one resource that lists are continued at; more take longer to look at again
PASTS = 8
#: how much of the history is read in one go: bytes of objects, and revisions to look for them in
SOME_BYTES = 128 * 1024
SOME_REVISIONS = 2_000
#: how often it is tried whether there is room for writes again
RETRY_SECONDS = 1.0
#: expected revision of a write that does not care what is stored
ANY = -1


class _Sample(NamedTuple):
    """How far the store was at a time."""

    time: float
    rev: int


class Store:
    """All buckets over one log. Lives on one event loop."""

    def __init__(
        self,
        directory: Path | None = None,
        durability: Durability = Durability.FULL,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = NoLog() if directory is None else Log(directory, durability)
        self._is_logged = directory is not None
        self._clock = clock
        self._buckets: dict[tuple[str, str], Bucket] = {}
        #: values on disk of buckets nobody has opened yet (a CRD's objects before the CRD is served)
        self._unclaimed: dict[str, list[Row]] = {}
        self.rev = self._log.last_rev
        self._queue: list[Write] = []
        self._scheduled = False
        self._committing: asyncio.Future[None] | None = None
        self._failure: StorageError | None = None
        self._recovery: asyncio.Task[None] | None = None
        self._compaction_failure: str | None = None
        self._ring: deque[tuple[Bucket, int]] = deque()
        self._ring_bytes = 0
        self._ring_limit = RING_BYTES if self._is_logged else RING_BYTES_WITHOUT_LOG
        self._samples: deque[_Sample] = deque([_Sample(clock(), self.rev)])
        self._thread = (
            ThreadPoolExecutor(1, thread_name_prefix="commit")
            if self._log.durability is Durability.FULL
            else None
        )
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._load()

    def _load(self) -> None:
        # sorted by key, so the rows of one resource come together
        for row in self._log.take_live():
            group, resource = row.key.split("/", 3)[1:3]
            self._unclaimed.setdefault(f"/{group}/{resource}/", []).append(row)

    @property
    def durability(self) -> Durability:
        return self._log.durability

    @property
    def compact_rev(self) -> int:
        return self._log.compact_rev

    @property
    def failure(self) -> str | None:
        """Why writes are refused, None while storage is healthy."""
        return None if self._failure is None else str(self._failure)

    @property
    def is_stuck(self) -> bool:
        """Whether writes are refused and only a restart may help."""
        return self._failure is not None and not isinstance(self._failure, StorageFull)

    @property
    def compaction_failure(self) -> str | None:
        """Why old history could not be removed when it was last tried, None if it could."""
        return self._compaction_failure

    def bucket(self, group: str, resource: str, *, namespaced: bool) -> Bucket:
        """The bucket of a resource, opened on first use."""
        bucket = self._buckets.get((group, resource))
        if bucket is None:
            # Of what was deleted before a restart nothing tells when: it may have been the last change.
            last_rev = self.rev if self._is_logged else self._log.compact_rev
            bucket = Bucket(group, resource, namespaced=namespaced, last_rev=last_rev)
            for row in self._unclaimed.pop(bucket.prefix, ()):
                place = bucket.split_key(row.key)
                bucket.load(Entry(*place, row.rev, row.create_rev, body_at(row.value, row.rev)))
            self._buckets[(group, resource)] = bucket
        bucket.namespaced = namespaced  # a definition that was deleted and made again may say otherwise
        return bucket

    def put(
        self,
        bucket: Bucket,
        namespace: str,
        name: str,
        value: bytes,
        *,
        expected: int,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        mark: object = None,
    ) -> Outcome:
        """Store a value if the stored revision is `expected` (0: nothing is stored, ANY: whatever)."""
        return self._submit(Write(bucket, namespace, name, expected, value, Outcome(), labels, fields, mark))

    def delete(self, bucket: Bucket, namespace: str, name: str, *, expected: int, value: bytes) -> Outcome:
        """Remove an object; `value` is its final state. The result carries the deletion's revision."""
        return self._submit(Write(bucket, namespace, name, expected, value, Outcome(), is_delete=True))

    def _submit(self, write: Write) -> Outcome:
        if self._failure is not None:
            write.outcome.set_exception(self._refusal())
            return write.outcome
        self._queue.append(write)
        if not self._scheduled and self._committing is None:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)
        return write.outcome

    def _flush(self) -> None:
        self._scheduled = False
        queue, self._queue = self._queue, []
        if not queue:
            return
        batch = Batch()
        states: dict[tuple[str, str, str], Entry | None] = {}
        rev = self.rev
        for write in queue:
            if write.outcome.done():  # the caller gave up before anything happened
                continue
            write.outcome.is_under_way = True
            bucket = write.bucket
            place = (bucket.prefix, write.namespace, write.name)
            current = states[place] if place in states else bucket.get(write.namespace, write.name)
            stored = 0 if current is None else current.rev
            if write.expected not in (stored, ANY) or (write.is_delete and current is None):
                # answered with the batch: a reason that is in it can be seen only when it is durable
                batch.refused.append((write.outcome, WriteConflict(write.name, current)))
                continue
            rev += 1
            create_rev = rev if current is None else current.create_rev
            entry = Entry(
                write.namespace,
                write.name,
                rev,
                create_rev,
                body_at(write.value, rev),
                write.labels,
                write.fields,
                write.mark,
            )
            if write.is_delete:
                kind = EventType.DELETED
                states[place] = None
            else:
                kind = EventType.ADDED if current is None else EventType.MODIFIED
                states[place] = entry
            batch.events.append((bucket, Event(rev, kind, entry, current)))
            batch.rows.append(
                Row(
                    rev,
                    bucket.key(write.namespace, write.name),
                    DELETE if write.is_delete else PUT,
                    create_rev,
                    stored,
                    write.value,
                )
            )
            batch.accepted.append((write.outcome, entry))
        if not batch.rows:
            batch.answer()
            return
        if self._thread is None:
            try:
                self._log.append(batch.rows)
            except (sqlite3.Error, StorageError) as error:
                self._fail(error, batch)
                return
            self._publish(batch)
            return
        loop = asyncio.get_running_loop()
        committing = self._committing = loop.run_in_executor(self._thread, self._log.append, batch.rows)
        committing.add_done_callback(lambda done: self._committed(done, batch))

    def _committed(self, done: asyncio.Future[None], batch: Batch) -> None:
        self._committing = None
        error = done.exception() if not done.cancelled() else asyncio.CancelledError()
        if error is not None:
            self._fail(error, batch)
            return
        self._publish(batch)
        if self._queue and not self._scheduled:
            self._flush()

    def _fail(self, error: BaseException, batch: Batch) -> None:
        # memory still equals what is durable; going on would let the two part ways
        self._stop_writes(error)
        queue, self._queue = self._queue, []
        for outcome in [*batch.outcomes(), *(write.outcome for write in queue)]:
            if not outcome.done():
                outcome.set_exception(self._refusal())

    def _stop_writes(self, error: BaseException) -> None:
        if not is_passing(error):
            self._failure = StorageError(f"storage failed: {error}")
            _log.error("storage failed, writes are refused until a restart", extra={"error": str(error)})
            return
        self._failure = StorageFull(f"storage cannot take writes now: {error}")
        if self._recovery is None:
            _log.error("storage cannot take writes, trying again", extra={"error": str(error)})
            self._recovery = asyncio.ensure_future(self._recover())

    def _refusal(self) -> StorageError:
        assert self._failure is not None
        return type(self._failure)(str(self._failure))  # one for each: they are raised in many places

    async def _recover(self) -> None:
        """Try until there is room for writes again."""
        try:
            while isinstance(self._failure, StorageFull):
                await asyncio.sleep(RETRY_SECONDS)
                try:
                    await self._on_disk(self._log.try_to_write)
                except Exception as error:  # noqa: BLE001 - supervision point: nobody waits for this task
                    self._stop_writes(error)
                else:
                    self._failure = None
                    _log.info("storage takes writes again")
        finally:
            self._recovery = None

    async def _on_disk(self, work: Callable[[], T]) -> T:
        """Do something with the log that takes a moment: between commits, where they happen."""
        if self._thread is None:
            await asyncio.sleep(0)
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _publish(self, batch: Batch) -> None:
        by_bucket: dict[Bucket, list[Event]] = {}
        for bucket, event in batch.events:
            bucket.apply(event)
            by_bucket.setdefault(bucket, []).append(event)
            self._ring.append((bucket, len(event.entry.body)))
            self._ring_bytes += len(event.entry.body)
        self.rev = batch.events[-1][1].rev
        self._trim_ring()
        batch.answer()
        for bucket, changes in by_bucket.items():
            bucket.subscribers.tell(changes)
        if self._waiters:
            self._wake_waiters()

    def _trim_ring(self) -> None:
        forgotten = 0
        while len(self._ring) > RING_EVENTS or self._ring_bytes > self._ring_limit:
            forgotten = self._forget_oldest()
        if forgotten > self._log.compact_rev and not self._is_logged:
            self._log.declare_compacted(forgotten)

    def _forget_oldest(self) -> int:
        """Forget the oldest change in memory; returns its revision."""
        bucket, size = self._ring.popleft()
        self._ring_bytes -= size
        bucket.evicted_rev = bucket.recent.popleft().rev
        return bucket.evicted_rev

    def _clean(self) -> tuple[int, bool]:
        """Remove a slice of compacted history; returns how much, and whether there is more."""
        if isinstance(self._log, Log):
            return self._log.clean()
        for count in range(FORGOTTEN_AT_ONCE):
            if not self._ring or self._ring[0][0].recent[0].rev > self._log.compact_rev:
                return count, False
            self._forget_oldest()
        return FORGOTTEN_AT_ONCE, True

    def check_kept(self, bucket: Bucket, rev: int) -> None:
        """Raises Compacted when changes of a bucket after a revision are gone."""
        if rev < bucket.evicted_rev and rev < self._log.compact_rev:
            raise Compacted(self._log.compact_rev)

    def some_changes(self, bucket: Bucket, rev: int) -> tuple[list[Event], int]:
        """Some changes of a bucket after a revision, in order, and the revision up to which they are all.

        One call takes a moment and little memory, however long the history is; who wants more asks again.
        Raises Compacted when some are gone.
        """
        self.check_kept(bucket, rev)
        if rev >= bucket.evicted_rev:
            events = bucket.some_after(rev, SOME_BYTES)
            is_all = not events or events[-1] is bucket.recent[-1]
            return events, self.rev if is_all else events[-1].rev
        events, size = [], 0
        last = min(rev + SOME_REVISIONS, bucket.evicted_rev)
        for row in self._log.changes(bucket.prefix, rev, last):
            events.append(self._event_of(bucket, row))
            size += len(row.value)
            if size > SOME_BYTES:
                return events, row.rev
        return events, last

    def _event_of(self, bucket: Bucket, row: Row) -> Event:
        namespace, name = bucket.split_key(row.key)
        entry = Entry(namespace, name, row.rev, row.create_rev, body_at(row.value, row.rev))
        prev = None
        if row.prev_rev:
            before = self._log.value_of(row.prev_rev)
            if before is not None:
                prev = Entry(namespace, name, row.prev_rev, row.create_rev, body_at(before, row.prev_rev))
        kind = EventType.DELETED if row.op == DELETE else EventType.MODIFIED
        if row.op == PUT and row.create_rev == row.rev:
            kind = EventType.ADDED
        return Event(row.rev, kind, entry, prev)

    def at(self, bucket: Bucket, rev: int) -> Bucket | Past:
        """A bucket as it was at a revision; raises Compacted when that is gone."""
        if rev >= bucket.last_rev:
            return bucket
        if rev < self._log.compact_rev:
            raise Compacted(self._log.compact_rev)
        past = bucket.pasts.pop(rev, None) or Past(bucket, rev)
        bucket.pasts[rev] = past
        if len(bucket.pasts) > PASTS:
            del bucket.pasts[next(iter(bucket.pasts))]
        missed: Iterator[tuple[tuple[str, str], Entry | None]] = iter(())
        if past.seen < bucket.evicted_rev:
            missed = self._states_before(bucket, past.seen)
        recent = map(state_before, bucket.events_after(max(past.seen, bucket.evicted_rev)))
        past.take_in(chain(missed, recent))
        return past

    def _states_before(self, bucket: Bucket, rev: int) -> Iterator[tuple[tuple[str, str], Entry | None]]:
        """The state at `rev` of what has changed since, as far as only the disk knows."""
        for key, prev_rev, create_rev, value in self._log.first_changes(
            bucket.prefix, rev, bucket.evicted_rev
        ):
            place = bucket.split_key(key)
            if value is None or create_rev is None:
                yield place, None
            else:
                yield place, Entry(*place, prev_rev, create_rev, body_at(value, prev_rev))

    async def writable(self) -> None:
        """Wait while there is no room for writes."""
        while isinstance(self._failure, StorageFull) and self._recovery is not None:
            await asyncio.wait([self._recovery])

    async def wait_for(self, rev: int, timeout: float) -> bool:
        """Wait until the store has reached a revision; False when it did not in time."""
        if rev <= self.rev:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((rev, future))
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiters = [waiter for waiter in self._waiters if waiter[1] is not future]
        return True

    def _wake_waiters(self) -> None:
        for rev, future in self._waiters:
            if rev <= self.rev and not future.done():
                future.set_result(None)

    async def compact(self, *, keep_seconds: float = HISTORY_SECONDS) -> int:
        """Drop history older than `keep_seconds`; returns the number of changes removed."""
        now = self._clock()
        self._samples.append(_Sample(now, self.rev))
        target = self._log.compact_rev
        while self._samples and self._samples[0].time <= now - keep_seconds:
            target = self._samples.popleft().rev
        return await self.compact_to(target)

    async def compact_to(self, rev: int) -> int:
        """Drop history at or below a revision, a slice at a time, while reads and writes go on.

        What cannot be removed now is removed by the next call; `compaction_failure` tells why.
        """
        removed, has_more = 0, not self.is_stuck
        try:
            if has_more and rev > self._log.compact_rev:
                await self._on_disk(lambda: self._log.declare_compacted(rev))
            self._forget_pasts()
            while has_more:
                count, has_more = await self._on_disk(self._clean)
                removed += count
        except sqlite3.Error as error:
            self._compaction_failure = str(error)
            self._samples.appendleft(_Sample(-math.inf, rev))
            _log.error("old history cannot be removed, trying again", extra={"error": str(error)})
            return removed
        self._compaction_failure = None
        return removed

    async def forget_history(self) -> None:
        """Drop all history, that in memory as well: watches begin at the newest revision or with a list."""
        await self.compact_to(self.rev)
        self._ring.clear()
        self._ring_bytes = 0
        for bucket in self._buckets.values():
            bucket.recent.clear()
            bucket.evicted_rev = self.rev

    def _forget_pasts(self) -> None:
        oldest = self._log.compact_rev
        for bucket in self._buckets.values():
            for rev in [rev for rev in bucket.pasts if rev < oldest]:
                del bucket.pasts[rev]

    async def close(self) -> None:
        """Finish what was submitted, then let go of the file."""
        while self._queue or self._committing is not None:
            if self._committing is not None:
                await asyncio.wait([self._committing])
            else:
                await asyncio.sleep(0)
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)
        if self._thread is not None:
            self._thread.shutdown(wait=True)
        self._log.close()
