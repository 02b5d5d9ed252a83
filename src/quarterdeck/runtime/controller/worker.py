"""One run of one key: find the object, run the reconciler, write the status, decide what comes next.

What the outcome does to the key:

=====================  =============================================  ============================
outcome                queue                                          ``result`` label
=====================  =============================================  ============================
exception              again after the back-off of the key            ``error``
``Terminal``           nothing; the failure count stays               ``error`` (and terminal)
``requeue_after``      forgotten, again after that time               ``requeue_after``
``Wait``               forgotten, again when it is seen               ``requeue_after``
``requeue``            again after the back-off                       ``requeue``
``None``               forgotten                                      ``success``
=====================  =============================================  ============================

An earlier wake-up that is queued already always wins. Exceptions that say what went wrong (API and
transport errors, time-outs, whatever ``errors`` lists) are *errors*; any other is a *panic*: counted as
such, logged with its traceback, and retried all the same.
"""

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from time import perf_counter
from typing import Any, Final, Generic, TypeVar, cast

from quarterdeck.api import GroupVersionKind, Key, Resource
from quarterdeck.api.finalizer import add_finalizer, remove_finalizer
from quarterdeck.client import AnyKind, metadata_of
from quarterdeck.client.clock import Clock
from quarterdeck.errors import Conflict, ForeignObject, NotFound, QuarterdeckError, ReconcileError, Terminal
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.contract import ReconcileMetrics, ReconcileResult
from quarterdeck.runtime.controller.option import LogConstructor
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.waiting import WaitingKeys
from quarterdeck.runtime.log.field import FieldLogger, LazyFields
from quarterdeck.runtime.log.repeat import RepeatGuard
from quarterdeck.runtime.loop.deadline import Deadlines
from quarterdeck.runtime.loop.execution import Execution
from quarterdeck.runtime.loop.supervision import Stray, contained
from quarterdeck.runtime.queue.workqueue import WorkQueue
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.current import in_context, working_on
from quarterdeck.runtime.reconcile.finalizer import FinalizerError, FinalizerRegistry, change_finalizers
from quarterdeck.runtime.reconcile.recording import NotLeading
from quarterdeck.runtime.reconcile.result import Requeue, Result, Wait, until_free
from quarterdeck.runtime.reconcile.services import ContextServices
from quarterdeck.runtime.trace import Span, Tracer

T = TypeVar("T", bound=Resource)
V = TypeVar("V")
_AFTER_TIMEOUT: Final = 1.0
"""Seconds at least until a reconcile that took too long is tried again."""
_UNSYNCED_PERIOD: Final = 5.0
"""Seconds until a key of a cluster that cannot be read yet is looked at again."""


class ReconcileTimeout(QuarterdeckError):
    """The reconcile took longer than its controller allows."""


class Worker(Generic[T]):
    """Reconciles single keys; all workers of a controller share one."""

    def __init__(
        self,
        *,
        kind: type[T] | None,
        reads: AnyKind | None,
        reconciler: Reconciler[T],
        finalizers: FinalizerRegistry[Context[T]],
        queue: WorkQueue[Key],
        waiting: WaitingKeys,
        tools: Callable[[str], ContextServices | None],
        execution: Execution,
        clock: Clock,
        log: FieldLogger,
        log_constructor: LogConstructor | None,
        timeout: float | None,
        errors: tuple[type[Exception], ...],
        recover_panic: bool,
        metrics: ReconcileMetrics | None,
        tracer: Tracer,
        name: str,
        forget: Callable[[Key], None],
    ) -> None:
        """``tools(cluster)`` finds the shared parts of a cluster; ``forget(key)`` drops recorded writes."""
        self._reads: Final = reads
        self._kind_name: Final = kind.type_info.kind if kind is not None else "object"
        self._reconciler: Final = reconciler
        self.is_async: Final = reconciler.is_async
        self._has_deleted_hook: Final = type(reconciler).deleted is not Reconciler.deleted
        self._finalizers: Final = finalizers
        self._queue: Final = queue
        self._waiting: Final = waiting
        self._tools: Final = tools
        self._execution: Final = execution
        self._clock: Final = clock
        self._log: Final = log
        self._make_log: Final = log_constructor
        self._timeout: Final = timeout
        self._deadlines: Final[Deadlines[asyncio.Task[Any]] | None] = (
            Deadlines(timeout, self._expire) if timeout is not None else None
        )
        self._expired: set[asyncio.Task[Any]] = set()
        self._errors: Final[tuple[type[Exception], ...]] = (QuarterdeckError, TimeoutError, *errors)
        self._recover_panic: Final = recover_panic
        self._metrics: Final = metrics
        self._tracer: Final = tracer
        self._name: Final = name
        self._forget: Final = forget
        self._repeats: Final = RepeatGuard()
        self._uids: dict[Key, str] = {}
        self._threads: dict[Key, asyncio.Future[Any]] = {}

    async def process(self, key: Key, priority: int) -> None:
        """Run the reconciler for a key that was taken from the queue, and queue what follows."""
        tools = self._tools(key.cluster)
        if tools is None:
            return  # the cluster has left meanwhile
        reconcile_id = _new_id()
        with (
            LazyFields(lambda: self._log_fields(key, reconcile_id)),
            working_on(key),
            self._span(key, priority, reconcile_id) as span,
        ):
            started = perf_counter()
            try:
                self._waiting.drop(key)
                label = self._follow_up(key, priority, await self._run(key, priority, tools, reconcile_id))
            except BaseException as raised:  # noqa: BLE001  supervision point: user code
                error = contained(raised)
                span.fail(error)
                label = self._failed(key, priority, error, tools)
            if self._metrics is not None:
                self._metrics.reconciled(label, perf_counter() - started)

    def _log_fields(self, key: Key, reconcile_id: str) -> dict[str, object]:
        return {
            self._kind_name: {"name": key.name, "namespace": key.namespace},
            "namespace": key.namespace,
            "name": key.name,
            "reconcileID": reconcile_id,
        }

    async def run_once(self, key: Key) -> Result | None:
        """Run the reconciler for a key, and let its result and its errors through."""
        tools = self._tools(key.cluster)
        if tools is None:
            raise ReconcileError(f"there is no cluster {key.cluster!r}")
        with working_on(key):
            return await self._run(key, 0, tools, _new_id())

    def discard(self, unwanted: Callable[[Key], bool]) -> None:
        """Forget what is remembered about keys (a cluster left)."""
        for key in [key for key in self._uids if unwanted(key)]:
            del self._uids[key]

    def _span(self, key: Key, priority: int, reconcile_id: str) -> AbstractContextManager[Span]:
        if not self._tracer.is_enabled:
            return self._tracer.span("reconcile")
        return self._tracer.span(
            "reconcile",
            {
                "controller": self._name,
                "k8s.kind": self._kind_name,
                "k8s.namespace": key.namespace,
                "k8s.name": key.name,
                "reconcileID": reconcile_id,
                "attempt": self._queue.failures(key),
                "priority": priority,
                "queueWait": self._queue.waited(key),
            },
        )

    async def _run(self, key: Key, priority: int, tools: ContextServices, reconcile_id: str) -> Result | None:
        obj: T | None = None
        if self._reads is not None:
            informer = tools.cache.informer(self._reads)
            if not informer.has_synced:
                if key.cluster:  # one cluster that cannot be read must not hold the workers of the others
                    return Result(requeue_after=_UNSYNCED_PERIOD, reason="cluster-not-synced")
                await informer.wait_readable()
            entry = informer.get(key.namespace, key.name)
            known = self._uids.get(key)
            if entry is None or known != entry.uid:
                if entry is None or known is not None:
                    await self._tell_deleted(key, tools)
                if entry is None:
                    return None
                self._uids[key] = entry.uid
            obj = cast("T", informer.decoder(self._reads)(entry))
        context: Context[T] = Context(
            key=key,
            obj=obj,
            tools=tools,
            log=self._make_log(key) if self._make_log is not None else self._log,
            reconcile_id=reconcile_id,
            priority=priority,
            attempt=self._queue.failures(key),
        )
        with in_context(context):
            try:
                result = await self._timed(self._finalized(context))
            except Requeue as error:
                result = error
            except BaseException as raised:
                failure = contained(raised)
                foreign = _foreign(failure)
                if foreign is not None and self._reads is not None:
                    context.event("Warning", "ForeignObject", str(foreign))
                await self._write_failed_status(context)
                if failure is raised:
                    raise
                raise failure from raised
            await self._write_status(context)
            return result

    async def _tell_deleted(self, key: Key, tools: ContextServices) -> None:
        """The object is gone, or another one has its name; what was written for it no longer matters.

        Forgotten only when the reconciler has taken it: one that fails is told again.
        """
        uid = self._uids.get(key, "")
        if self._has_deleted_hook:
            context = DeleteContext(key, tools, self._log, uid=uid)
            await self._timed(self._reconciler.deleted(context))
        self._uids.pop(key, None)
        self._forget(key)
        self._queue.forget(key)

    async def _timed(self, run: Awaitable[V]) -> V:
        deadlines = self._deadlines
        if deadlines is None:
            return await run
        task = asyncio.current_task()
        assert task is not None
        already_cancelled = task.cancelling()
        deadlines.add(task)
        try:
            return await run
        except asyncio.CancelledError as error:
            if task not in self._expired:
                raise
            self._expired.remove(task)
            if task.uncancel() > already_cancelled:
                raise  # somebody else has cancelled it as well
            if self._metrics is not None:
                self._metrics.timed_out()
            raise ReconcileTimeout(f"reconcile took longer than {self._timeout:g}s") from error
        finally:
            deadlines.drop(task)
            if task in self._expired:  # it ended in another way at the same moment
                self._expired.remove(task)
                task.uncancel()

    def _expire(self, task: "asyncio.Task[Any]") -> None:
        """A run has used up its time; it ends where it waits, as by ``asyncio.timeout``."""
        self._expired.add(task)
        task.cancel()

    async def _finalized(self, context: Context[T]) -> Result | None:
        """Declared finalizers first; an object that is being deleted is theirs alone."""
        if not len(self._finalizers):
            return await self._call(context)
        metadata = context.obj.metadata
        if not metadata.is_deleting:
            for name in self._finalizers.missing(metadata):
                metadata = add_finalizer(metadata, name)
            context.replace(await change_finalizers(context.client, context.obj, metadata))
            return await self._call(context)
        outcome = await self._finalizers.run(context, metadata)
        for name in outcome.done:
            metadata = remove_finalizer(metadata, name)
        try:
            context.replace(await change_finalizers(context.client, context.obj, metadata))
        except NotFound:
            context.note_gone()
            return None
        if outcome.errors:
            raise FinalizerError(outcome.errors)
        return outcome.pending

    async def _call(self, context: Context[T]) -> Result | None:
        if self.is_async:
            return await cast("Awaitable[Result | None]", self._reconciler.reconcile(context))
        # A thread cannot be cancelled: past its time it is left behind, and its key waits until it ends.
        thread = self._execution.submit(self._reconciler.reconcile, context)
        self._threads[context.key] = thread
        try:
            result = await asyncio.shield(thread)
        except asyncio.CancelledError:
            if not thread.done():
                context.expire()
            raise
        finally:
            if thread.done():
                del self._threads[context.key]
        if inspect.isawaitable(result):
            return await result
        return result

    def when_free(self, key: Key, callback: Callable[[], None]) -> None:
        """Call back once nothing works on a key any more: at once, unless a thread was left behind."""
        thread = self._threads.get(key)
        if thread is None:
            callback()
            return

        def ended(_: object) -> None:
            self._threads.pop(key, None)
            callback()

        thread.add_done_callback(ended)

    async def _write_status(self, context: Context[T]) -> None:
        try:
            await context.write_status()
        except NotFound:
            context.note_gone()  # it went away while it was reconciled

    async def _write_failed_status(self, context: Context[T]) -> None:
        """The status of a reconcile that failed tells why; the failure itself is the error to report."""
        try:
            await self._write_status(context)
        except QuarterdeckError as error:
            self._log.warning("cannot write the status of a failed reconcile", error)

    def _follow_up(self, key: Key, priority: int, result: Result | None) -> ReconcileResult:
        queue = self._queue
        if result is None:
            queue.forget(key)
            return "success"
        if not isinstance(result, Result):
            raise TypeError(f"a reconcile returns a Result or None, not {type(result).__name__}")
        if result.priority is not None:
            priority = result.priority
        if result.reason:
            self._log.debug("reconcile wants to come back", reason=result.reason, after=result.requeue_after)
            if self._metrics is not None:
                self._metrics.requeued(result.reason)
        if isinstance(result, Wait):
            queue.forget(key)
            queue.add(key, after=result.requeue_after or 0.0, priority=priority)
            tools = self._tools(key.cluster)
            if tools is not None:
                arrived = partial(queue.add, key, priority=priority)
                self._waiting.wait(key, result.until, tools.cache, arrived)
            return "requeue_after"
        if result.requeue_after is not None and (result.requeue_after > 0 or not result.requeue):
            queue.forget(key)
            queue.add(key, after=max(0.0, result.requeue_after), priority=priority)
            return "requeue_after"
        if result.requeue:
            queue.add(key, rate_limited=True, priority=priority)
            return "requeue"
        queue.forget(key)
        return "success"

    def _failed(self, key: Key, priority: int, error: Exception, tools: ContextServices) -> ReconcileResult:
        metrics = self._metrics
        causes = [each for _, each in error.errors] if isinstance(error, FinalizerError) else [error]
        if _all(causes, Terminal):
            if metrics is not None:
                metrics.terminal()
            self._report(key, error, "Reconciler error", trace=False, terminal=True)
            return "error"
        if _all(causes, (Conflict, NotLeading)):
            # Somebody was faster; the next run starts from the new state.
            self._log.debug("reconcile met a conflict", cause=str(error))
        elif _all(causes, self._errors) and not any(isinstance(cause, Stray) for cause in causes):
            self._report(key, error, "Reconciler error", trace=not isinstance(error, QuarterdeckError))
        else:
            if metrics is not None:
                metrics.panicked()
            self._report(key, error, "Observed a panic", trace=True)
            if not self._recover_panic:
                raise error
        # What used up its whole time once is likely to do so again: others first.
        least = _AFTER_TIMEOUT if isinstance(error, ReconcileTimeout) else 0.0
        self._queue.add(key, rate_limited=True, at_least=least, priority=priority)
        foreign = _foreign(error)
        if foreign is not None:
            self._wait_for_name(key, foreign, tools.cache)
        return "error"

    def _wait_for_name(self, key: Key, foreign: ForeignObject, cache: Cache) -> None:
        """Run again as soon as somebody else's object is gone, where the cache shows it."""
        kind = metadata_of(GroupVersionKind.parse(foreign.api_version, foreign.kind))
        if not cache.has_informer(kind):
            return
        self._waiting.wait(key, until_free(foreign, kind), cache, partial(self._queue.add, key))

    def _report(self, key: Key, error: Exception, event: str, *, trace: bool, **fields: Any) -> None:
        text = f"{key} {event} {type(error).__name__} {error}"
        repeated = self._repeats.admit(text, self._clock.monotonic())
        if repeated is None:
            return
        if repeated:
            fields["repeated"] = repeated
        self._log.error(event, error, trace=trace, **fields)


def _foreign(error: BaseException | None) -> ForeignObject | None:
    """The object of somebody else that is behind an error, if one is."""
    while error is not None and not isinstance(error, ForeignObject):
        error = error.__cause__
    return error


def _all(errors: list[Exception], kinds: type[Exception] | tuple[type[Exception], ...]) -> bool:
    return all(isinstance(error, kinds) for error in errors)


_bits: Final = random.Random().getrandbits  # noqa: S311  a name for log lines, no secret


def _new_id() -> str:
    """A random UUID as text; ``uuid.uuid4()`` takes four times as long, for every run."""
    bits = _bits(128)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[bits & 3]}{text[17:20]}-{text[20:]}"
