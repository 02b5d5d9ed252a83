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

from quarterdeck.api import Key, Resource, add_finalizer, remove_finalizer
from quarterdeck.client import AnyKind
from quarterdeck.errors import Conflict, NotFound, QuarterdeckError, ReconcileError, Terminal
from quarterdeck.errors import Requeue as RequeueError
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.contract import ReconcileMetrics, ReconcileResult
from quarterdeck.runtime.controller.option import LogConstructor
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.result import Result, Wait
from quarterdeck.runtime.controller.waiting import WaitingKeys
from quarterdeck.runtime.log.field import FieldLogger, LazyFields
from quarterdeck.runtime.log.repeat import RepeatGuard
from quarterdeck.runtime.loop.clock import Clock
from quarterdeck.runtime.loop.deadline import Deadlines
from quarterdeck.runtime.loop.execution import Execution
from quarterdeck.runtime.queue.workqueue import WorkQueue
from quarterdeck.runtime.reconcile.context import (
    Context,
    DeleteContext,
    in_context,
    working_on,
)
from quarterdeck.runtime.reconcile.finalizer import FinalizerError, FinalizerRegistry, change_finalizers
from quarterdeck.runtime.reconcile.recording import NotLeading
from quarterdeck.runtime.reconcile.services import ContextServices
from quarterdeck.runtime.trace import Span, Tracer

__all__ = ["ReconcileTimeout", "Worker"]

T = TypeVar("T", bound=Resource)


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
        self._is_async: Final = reconciler.is_async
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
                label = self._follow_up(key, priority, await self._run(key, priority, tools, reconcile_id))
            except Exception as error:  # noqa: BLE001  supervision point: user code
                span.fail(error)
                label = self._failed(key, priority, error)
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
            informer = await tools.cache.synced(self._reads)
            entry = informer.get(key.namespace, key.name)
            self._note_incarnation(key, entry)
            if entry is None:
                if self._has_deleted_hook:
                    await self._reconciler.deleted(DeleteContext(key, tools, self._log))
                return None
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
                result = await self._timed(context)
            except RequeueError as error:
                result = Result(requeue_after=error.after, reason=error.reason)
            except Exception:
                await self._write_failed_status(context)
                raise
            await self._write_status(context)
            return result

    def _note_incarnation(self, key: Key, entry: Entry | None) -> None:
        """What was written for an object that is gone, or another one by now, no longer matters."""
        known = self._uids.get(key)
        if entry is None:
            self._uids.pop(key, None)
            self._forget(key)
        elif known != entry.uid:
            if known is not None:
                self._forget(key)
            self._uids[key] = entry.uid

    async def _timed(self, context: Context[T]) -> Result | None:
        if not self._is_async:
            return await self._in_thread(context)
        deadlines = self._deadlines
        if deadlines is None:
            return await self._finalized(context)
        task = asyncio.current_task()
        assert task is not None
        already_cancelled = task.cancelling()
        deadlines.add(task)
        try:
            return await self._finalized(context)
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

    async def _in_thread(self, context: Context[T]) -> Result | None:
        """A plain function cannot be cancelled: past its deadline it is reported, and waited for."""
        started = self._clock.monotonic()
        result = await self._finalized(context)
        if self._timeout is not None and self._clock.monotonic() - started > self._timeout:
            if self._metrics is not None:
                self._metrics.timed_out()
            self._log.warning("reconcile in a thread took longer than its timeout", timeout=self._timeout)
        return result

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
        if self._is_async:
            return await cast("Awaitable[Result | None]", self._reconciler.reconcile(context))
        result = await self._execution.run_blocking(self._reconciler.reconcile, context)
        if inspect.isawaitable(result):
            return await result
        return result

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
        if result.requeue_after is not None and result.requeue_after > 0:
            queue.forget(key)
            queue.add(key, after=result.requeue_after, priority=priority)
            return "requeue_after"
        if result.requeue:
            queue.add(key, rate_limited=True, priority=priority)
            return "requeue"
        queue.forget(key)
        return "success"

    def _failed(self, key: Key, priority: int, error: Exception) -> ReconcileResult:
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
        elif _all(causes, self._errors):
            self._report(key, error, "Reconciler error", trace=not isinstance(error, QuarterdeckError))
        else:
            if metrics is not None:
                metrics.panicked()
            self._report(key, error, "Observed a panic", trace=True)
            if not self._recover_panic:
                raise error
        self._queue.add(key, rate_limited=True, priority=priority)
        return "error"

    def _report(self, key: Key, error: Exception, event: str, *, trace: bool, **fields: Any) -> None:
        text = f"{key} {event} {type(error).__name__} {error}"
        repeated = self._repeats.admit(text, self._clock.monotonic())
        if repeated is None:
            return
        if repeated:
            fields["repeated"] = repeated
        self._log.error(event, error, trace=trace, **fields)


def _all(errors: list[Exception], kinds: type[Exception] | tuple[type[Exception], ...]) -> bool:
    return all(isinstance(error, kinds) for error in errors)


_bits: Final = random.Random().getrandbits  # noqa: S311  a name for log lines, no secret


def _new_id() -> str:
    """A random UUID as text; ``uuid.uuid4()`` takes four times as long, for every run."""
    bits = _bits(128)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[bits & 3]}{text[17:20]}-{text[20:]}"
