"""The controller: sources fill its queue, workers empty it, one worker per key at a time.

Its life: sources start and enqueue the present state; workers start when all sources have done so (and,
with warm-up, when this process leads); on ``request_stop()`` the queue closes and running reconciles may
finish. What a reconcile's outcome means for its key is in ``worker``.

A controller serves one cluster, or several that come and go (``engage``, ``disengage``): its keys carry the
cluster's name, and its contexts are bound to it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from quarterdeck.api import Key, Resource
from quarterdeck.client import AnyKind, Client, field_owner
from quarterdeck.errors import QuarterdeckError
from quarterdeck.runtime.cache.cache import Cache
from quarterdeck.runtime.cache.index import Index
from quarterdeck.runtime.controller.environment import ControllerEnvironment
from quarterdeck.runtime.controller.option import ControllerOptions
from quarterdeck.runtime.controller.pool import WorkerPool
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.queuechoice import make_queue
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.source import KindSource, Source, SourceContext
from quarterdeck.runtime.controller.statistics import ControllerStatistics
from quarterdeck.runtime.controller.waiting import WaitingKeys
from quarterdeck.runtime.controller.worker import Worker
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.step import unless
from quarterdeck.runtime.loop.supervision import Loop, Policy, end_all
from quarterdeck.runtime.loop.taskerror import unwrapped
from quarterdeck.runtime.queue.ratelimit import RateLimiter
from quarterdeck.runtime.queue.workqueue import (
    LOW_PRIORITY,
    WorkQueue,
)
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.application import AppliedMemory
from quarterdeck.runtime.reconcile.consistency import WriteTracker
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.current import ContextWrites, current_key
from quarterdeck.runtime.reconcile.finalizer import FinalizerRegistry
from quarterdeck.runtime.reconcile.recording import recording_client
from quarterdeck.runtime.reconcile.result import Result
from quarterdeck.runtime.reconcile.services import ContextServices

T = TypeVar("T", bound=Resource)

_TWICE: Final = (
    "controller was started more than once. This is likely to be caused by being added to a manager multiple "
    "times"
)
_HANDOVER_PERIOD: Final = 0.01
_OWN_CLUSTER: Final = ""
"""The name of the manager's own cluster."""


class SyncTimeout(QuarterdeckError):
    """A source was not ready in time; the message says which, and what keeps it."""


class WatchHandle:
    """A source that is attached to a controller; give it to ``unwatch``."""

    __slots__ = ("loops", "source", "synced", "tasks")

    def __init__(self, source: Source) -> None:
        self.source: Final = source
        self.loops: dict[str, Loop] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.synced: set[str] = set()


class Controller(Generic[T]):
    """Reconciles objects of one kind."""

    def __init__(
        self,
        *,
        name: str,
        kind: type[T] | None,
        reads: AnyKind | None = None,
        reconciler: Reconciler[T],
        sources: Sequence[Source] = (),
        predicates: Sequence[Predicate] = (),
        finalizers: FinalizerRegistry[Context[T]] | None = None,
        options: ControllerOptions | None = None,
        limiter: RateLimiter[Key] | None = None,
        indexes: Sequence[tuple[AnyKind, Index[Any]]] = (),
        rules: Sequence[Rule] = (),
    ) -> None:
        """Everything here is what the builder collects; see ``builder``.

        ``reads`` is the representation in which reconciles get their object; default ``kind`` itself.
        """
        self.name: Final = name
        self.kind: Final = kind
        self._reads: Final = reads if reads is not None else kind
        self.options: Final = options if options is not None else ControllerOptions()
        self._reconciler: Final = reconciler
        self._predicates: Final = tuple(predicates)
        self._finalizers: Final = finalizers if finalizers is not None else FinalizerRegistry()
        self._limiter: Final = limiter
        self._indexes: Final = tuple(indexes)
        self.rules: Final = tuple(rules)
        """The permissions it needs, as derived from its declarations."""
        self._handles: list[WatchHandle] = [WatchHandle(source) for source in sources]
        self._clusters: dict[str, ContextServices] = {}
        self._pending_clusters: dict[str, tuple[Client, Cache]] = {}
        self._waiting: Final = WaitingKeys()
        self._applied: Final = AppliedMemory()
        about = (
            {"controllerGroup": kind.type_info.group, "controllerKind": kind.type_info.kind}
            if kind is not None
            else {}
        )
        self._log: Final = (
            self.options.log_constructor(None)
            if self.options.log_constructor is not None
            else get_logger(__name__, controller=name, **about)
        )
        self._environment: ControllerEnvironment | None = None
        self._queue: WorkQueue[Key] | None = None
        self._tracker: WriteTracker | None = None
        self._pool: WorkerPool | None = None
        self._end_follow: Callable[[], None] | None = None
        self._group: asyncio.TaskGroup | None = None
        self._synced = asyncio.Event()
        self._may_work = asyncio.Event()
        self._stopping = asyncio.Event()
        self._started = False

    @property
    def needs_leader_election(self) -> bool:
        """Whether it runs only while this process leads."""
        return self.options.need_leader_election

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that are attached."""
        return tuple(handle.source for handle in self._handles)

    @property
    def queue(self) -> WorkQueue[Key]:
        """The work queue; there is one once the controller belongs to a manager."""
        if self._queue is None:
            raise RuntimeError(f"controller {self.name} belongs to no manager yet")
        return self._queue

    def attach(self, environment: ControllerEnvironment) -> None:
        """Join a manager; once."""
        if self._environment is not None:
            raise RuntimeError(_TWICE)
        self._environment = environment
        self._renew()
        for cluster, (client, cache) in self._pending_clusters.items():
            self.engage(cluster, client, cache)

    def _renew(self) -> None:
        """A fresh queue and fresh gates: at the begin, and for each new term of leadership."""
        environment, options = self._need_environment(), self.options
        queue = self._queue = make_queue(
            self.name,
            options,
            limiter=self._limiter,
            metrics=environment.queue_metrics,
            rng=environment.rng,
        )
        if self._end_follow is not None:
            self._end_follow()
        follow = getattr(environment.queue_metrics, "follow", None)
        self._end_follow = follow(queue.statistics) if follow is not None else None
        if options.consistency == "own-writes":
            self._tracker = WriteTracker(
                release=lambda key, priority: queue.add(key, priority=priority),
                clock=environment.clock,
                timeout=options.consistency_timeout,
                metrics=environment.metrics,
            )
        self._synced, self._may_work, self._stopping = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._started = False

    def _need_environment(self) -> ControllerEnvironment:
        if self._environment is None:
            raise RuntimeError(f"controller {self.name} belongs to no manager yet")
        return self._environment

    def engage(self, cluster: str, client: Client, cache: Cache) -> None:
        """Serve a cluster: its sources start now, or with the controller."""
        if self._environment is None:
            self._pending_clusters[cluster] = (client, cache)
            return
        self._clusters[cluster] = self._make_tools(cluster, client, cache)
        if self._reads is not None:
            cache.informer(self._reads, optional=False)
        for handle in self._handles:
            self._prepare(handle.source, cache)
        for kind, index in self._indexes:  # after the sources: these say whether a kind may be absent
            cache.informer(kind).declare_index(index)
        if self._group is not None:
            for handle in self._handles:
                self._start_source(handle, cluster, self._group)

    def _make_tools(self, cluster: str, client: Client, cache: Cache) -> ContextServices:
        environment = self._need_environment()
        ask = environment.may_write if self.needs_leader_election else None

        def fence() -> bool:
            return ask is None or ask(current_key())

        manager = self.options.field_manager or self.name
        owned = field_owner(client, manager)
        recording = recording_client(owned, ContextWrites(), may_write=fence if ask is not None else None)
        if self._reads is not None:
            recording.represent(self._reads)  # known by its class from now on, metadata included
        return ContextServices(
            client=recording,
            cache=cache,
            cluster=cluster,
            field_manager=manager,
            clock=environment.clock,
            execution=environment.execution,
            recorder=environment.recorder,
            tracker=self._tracker,
            applied=self._applied,
        )

    @staticmethod
    def _prepare(source: Source, cache: Cache) -> None:
        if isinstance(source, KindSource):
            source.prepare(cache)

    async def disengage(self, cluster: str) -> None:
        """Stop serving a cluster: its sources end, its queued, parked and waiting keys are dropped."""
        self._clusters.pop(cluster, None)
        tasks = [task for handle in self._handles if (task := handle.tasks.pop(cluster, None)) is not None]
        await end_all(tasks)
        for handle in self._handles:
            handle.loops.pop(cluster, None)
            handle.synced.discard(cluster)

        def belongs(key: Key) -> bool:
            return key.cluster == cluster

        self._waiting.discard(belongs)
        self.queue.discard(belongs)
        if self._tracker is not None:
            self._tracker.discard(belongs)
        if self._pool is not None:
            self._pool.discard(belongs)

    def watch(self, source: Source) -> WatchHandle:
        """Attach one more source, before or after start."""
        handle = WatchHandle(source)
        self._handles.append(handle)
        for cluster, tools in self._clusters.items():
            self._prepare(source, tools.cache)
            if self._group is not None:
                self._start_source(handle, cluster, self._group)
        return handle

    async def unwatch(self, handle: WatchHandle) -> None:
        """Detach a source; keys it has queued stay queued."""
        if handle in self._handles:
            self._handles.remove(handle)
        tasks = list(handle.tasks.values())
        handle.tasks.clear()
        handle.loops.clear()
        await end_all(tasks)

    def statistics(self) -> ControllerStatistics:
        """Queue, workers and what is waited for."""
        return ControllerStatistics(
            name=self.name,
            workers=self._pool.alive if self._pool is not None else 0,
            active=self._pool.active if self._pool is not None else 0,
            sources=len(self._handles),
            queue=self.queue.statistics(),
            consistency=self._tracker.statistics() if self._tracker is not None else None,
            waiting=len(self._waiting),
            is_synced=self._synced.is_set(),
        )

    async def run(self) -> None:
        """Start sources, then workers; ends after ``request_stop()``. Raises ``SyncTimeout``."""
        environment = self._need_environment()
        if self._started:
            raise RuntimeError(_TWICE)
        self._started = True
        try:
            with unwrapped():
                async with asyncio.TaskGroup() as group:
                    self._group = group
                    await self._start_sources(group)
                    if not self.options.enable_warmup:
                        self._may_work.set()
                    await unless(self._stopping, self._may_work.wait())
                    if not self._stopping.is_set():
                        await self._work(environment)
                    await end_all(task for handle in self._handles for task in handle.tasks.values())
        finally:
            self._group = None
            self._close()

    def _close(self) -> None:
        self.queue.shut_down()
        if self._tracker is not None:
            self._tracker.close()
        self._waiting.discard(lambda _: True)
        for handle in self._handles:
            handle.tasks.clear()
            handle.loops.clear()
            handle.synced.clear()

    def lead(self) -> None:
        """This process leads: a warmed-up controller may start its workers."""
        self._may_work.set()

    def request_stop(self) -> None:
        """Take no new keys; reconciles that run may finish, then ``run()`` ends."""
        if not self._stopping.is_set():
            self._log.info("Shutdown signal received, waiting for all workers to finish")
        self._stopping.set()
        if self._queue is not None:
            self._queue.shut_down()

    def renew(self) -> None:
        """Make a controller that has ended ready to run again: for another term of leadership."""
        clusters = dict(self._clusters)
        self._renew()
        for name, tools in clusters.items():
            # The contexts of the new term record into the new tracker.
            self._clusters[name] = msgspec.structs.replace(tools, tracker=self._tracker)

    async def wait_synced(self) -> None:
        """Wait until all sources have enqueued the present state."""
        await self._synced.wait()

    async def _start_sources(self, group: asyncio.TaskGroup) -> None:
        self._log.info("Starting Controller")
        for cluster in self._clusters:
            for handle in self._handles:
                self._start_source(handle, cluster, group)
        timeout = self.options.cache_sync_timeout
        try:
            async with asyncio.timeout(timeout):
                await unless(self._stopping, self._synced.wait())
        except TimeoutError as error:
            raise SyncTimeout(self._why_not_synced(timeout)) from error

    def _start_source(self, handle: WatchHandle, cluster: str, group: asyncio.TaskGroup) -> None:
        environment, tools, queue = self._need_environment(), self._clusters[cluster], self.queue

        def enqueue(key: Key, priority: int, *, after: float = 0.0) -> None:
            if cluster and not key.cluster:
                key = Key(key.namespace, key.name, cluster)
            queue.add(key, after=after, priority=priority)

        def synced() -> None:
            handle.synced.add(cluster)
            # A cluster of a fleet that cannot be read holds up nobody but itself.
            if all(_OWN_CLUSTER in each.synced for each in self._handles):
                self._synced.set()

        context = SourceContext(
            cache=tools.cache,
            cluster=cluster,
            enqueue=enqueue,
            predicates=self._predicates,
            clock=environment.clock,
            rng=environment.rng,
            synced=synced,
        )
        self._log.info("Starting EventSource", source=handle.source.name)
        loop = Loop(
            f"{self.name} {handle.source.name}",
            lambda: handle.source.run(context),
            policy=Policy.RESTART,
            log=self._log,
            clock=environment.clock,
        )
        handle.loops[cluster] = loop
        handle.tasks[cluster] = group.create_task(loop.run(), name=loop.name)

    def _why_not_synced(self, timeout: float) -> str:
        late = []
        for handle in self._handles:
            if _OWN_CLUSTER in handle.synced:
                continue
            source, loop = handle.source, handle.loops.get(_OWN_CLUSTER)
            why = str(loop.last_error) if loop is not None and loop.last_error is not None else ""
            if isinstance(source, KindSource):
                why = str(self._clusters[_OWN_CLUSTER].cache.informer(source.kind).health)
            late.append(f"{source.name} ({why})" if why else source.name)
        names = ", ".join(late)
        return f"failed to wait for {self.name} caches to sync: not synced within {timeout:g}s: {names}"

    async def _work(self, environment: ControllerEnvironment) -> None:
        count = self.options.max_concurrent_reconciles or environment.workers
        if environment.metrics is not None:
            environment.metrics.max_concurrent.set(count)
        self._log.info("Starting workers", **{"worker count": count})
        self._pool = WorkerPool(
            self.name,
            count,
            worker=self._make_worker(environment),
            queue=self.queue,
            tracker=self._tracker,
            owns=environment.owns if self.needs_leader_election else None,
            recovers=self.options.recover_panic,
            metrics=environment.metrics,
            log=self._log,
            clock=environment.clock,
        )
        try:
            await self._pool.run()
        finally:
            self._pool = None
        self._log.info("All workers finished")

    def trouble(self) -> str | None:
        """What keeps it from doing its work, for readiness; ``None`` when all is well.

        Clusters of a fleet do not count: one of them that is away is its own trouble.
        """
        loops = [handle.loops[_OWN_CLUSTER] for handle in self._handles if _OWN_CLUSTER in handle.loops]
        loops += self._pool.loops if self._pool is not None else ()
        down = [f"{loop.name}: {loop.last_error}" for loop in loops if loop.is_down]
        return "; ".join(down) if down else None

    def _make_worker(self, environment: ControllerEnvironment) -> Worker[T]:
        return Worker(
            kind=self.kind,
            reads=self._reads,
            reconciler=self._reconciler,
            finalizers=self._finalizers,
            queue=self.queue,
            waiting=self._waiting,
            tools=self._clusters.get,
            execution=environment.execution,
            clock=environment.clock,
            log=self._log,
            log_constructor=self.options.log_constructor,
            timeout=self.options.reconcile_timeout,
            errors=self.options.errors,
            recover_panic=self.options.recover_panic,
            metrics=environment.metrics,
            tracer=environment.tracer,
            name=self.name,
            forget=self._tracker.forget if self._tracker is not None else _ignore,
        )

    async def reconcile_once(self, key: Key) -> Result | None:
        """Reconcile one key here and now, past the queue: for tests and tools.

        Returns what the reconciler returned and raises what it raised. The caches must be filled, and the
        controller must not run: nothing here keeps a worker from the same key.
        """
        return await self._make_worker(self._need_environment()).run_once(key)

    def take_over(self, mine: Callable[[Key], bool]) -> None:
        """Queue every object among these keys: they were another replica's until now."""
        if self._reads is None:
            return
        for cluster, tools in self._clusters.items():
            for entry in tools.cache.informer(self._reads).entries():
                key = Key(entry.namespace, entry.name, cluster)
                if mine(key):
                    self.queue.add(key, priority=LOW_PRIORITY)

    async def hand_over(self, others: Callable[[Key], bool]) -> None:
        """Drop what is queued of these keys and wait for those that are being reconciled."""
        self.queue.discard(others)
        while any(others(key) for key in self.queue.processing):  # noqa: ASYNC110  nobody signals this
            await asyncio.sleep(_HANDOVER_PERIOD)


def _ignore(_key: Key) -> None:
    return None
