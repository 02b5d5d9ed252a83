"""Runtimes that TrainJobs use. They may go, since every TrainJob has its snapshot; or a finalizer keeps them
until the last TrainJob is gone, as release 2.1 did it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from quarterdeck.api import Key
from quarterdeck.api.finalizer import add_finalizer, has_finalizer, remove_finalizer
from quarterdeck.errors import ApiError, Conflict, NotFound
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.index import JOBS_BY_RUNTIME, runtime_value, value_of, values_of
from quarterdeck.operators.trainer.logic.info import spec_of
from quarterdeck.operators.trainer.logic.status import is_finished
from quarterdeck.operators.trainer.lookup import RUNTIMES, runtime_namespace
from quarterdeck.operators.trainer.settings import TrainerSettings
from quarterdeck.operators.trainer.types import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate, never
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.finalizer import change_finalizers
from quarterdeck.runtime.reconcile.result import Result

_GONE: Final = Predicate("gone", create=never, update=never, generic=never)
R = TypeVar("R", TrainingRuntime, ClusterTrainingRuntime)


class RuntimeReconciler(Reconciler[R]):
    """Adds the finalizer to a runtime in use, and removes it from one that goes and is not.

    It stays when the last TrainJob is gone: only a deletion asks for it. Where runtimes are not protected, it
    is removed from those that have it from before.
    """

    def __init__(self, kind: type[R], recorder: Recorder, *, protects: bool) -> None:
        self._kind: Final[type[R]] = kind
        self._recorder: Final = recorder
        self._protects: Final = protects

    async def reconcile(self, ctx: Context[R]) -> Result | None:
        """Look at one runtime."""
        runtime = ctx.obj
        metadata = runtime.metadata
        is_used = len(ctx.index(TrainJob, JOBS_BY_RUNTIME(runtime_value(runtime)))) > 0
        if not self._protects:
            metadata = remove_finalizer(metadata, names.FINALIZER)
        elif is_used and not metadata.is_deleting and not has_finalizer(metadata, names.FINALIZER):
            metadata = add_finalizer(metadata, names.FINALIZER)
        elif metadata.is_deleting and has_finalizer(metadata, names.FINALIZER):
            if is_used or await self._is_used_after_all(ctx):
                return None
            metadata = remove_finalizer(metadata, names.FINALIZER)
        try:
            await change_finalizers(ctx.client, runtime, metadata)
        except NotFound:
            ctx.note_gone()
        except ApiError as error:
            if not isinstance(error, Conflict):
                note = f"finalizer {names.FINALIZER} could not be changed: {error}"
                self._recorder.event(runtime, "Warning", names.FINALIZER_WRITE_FAILED, "Reconcile", note)
            raise
        return None

    async def deleted(self, ctx: DeleteContext) -> None:
        """Tell the TrainJobs that use a runtime which is gone; they go on with what they have kept of it."""
        if not ctx.uid:
            return  # it was never there: a TrainJob that has kept nothing says so itself
        name = f"{self._kind.type_info.kind} {ctx.key.name}"
        for job in ctx.cache.lookup(TrainJob, JOBS_BY_RUNTIME(value_of(self._kind, ctx.key))):
            if not job.metadata.is_deleting and not is_finished(job.status):
                note = f"{name} is gone; the TrainJob goes on with the copy that it keeps"
                self._recorder.event(job, "Warning", names.RUNTIME_GONE, "Reconcile", note)

    async def _is_used_after_all(self, ctx: Context[R]) -> bool:
        """Ask the server: the cache may not know the newest TrainJob, and what is gone is gone."""
        value = runtime_value(ctx.obj)
        jobs = await ctx.client.list(TrainJob, namespace=ctx.key.namespace)
        return any(value in values_of(job) for job in jobs)


def _controller(kind: type[R], name: str, settings: TrainerSettings, recorder: Recorder) -> Controller[R]:
    info = kind.type_info

    def runtime_of(_: MapContext, job: TrainJob) -> Iterable[Key]:
        ref = spec_of(job).runtime_ref
        return (Key(runtime_namespace(job), ref.name),) if RUNTIMES.get(ref.key) is kind else ()

    return (
        Builder(name=name)
        .for_(kind)
        .watches(TrainJob, to=runtime_of, delay=lambda _: settings.finalizer_delay_seconds)
        .watches(TrainJob, to=runtime_of, predicates=[_GONE])  # nobody should have to wait for that
        .indexes(TrainJob, JOBS_BY_RUNTIME)
        .rbac(
            Rule(groups=(info.group,), resources=(info.plural,), verbs=("patch",)),
            Rule(groups=(info.group,), resources=(f"{info.plural}/finalizers",), verbs=("update",)),
        )
        .options(field_manager=names.FIELD_MANAGER, max_concurrent_reconciles=settings.runtime_workers)
        .build(RuntimeReconciler(kind, recorder, protects=settings.protect_runtimes))
    )


def training_runtime_controller(settings: TrainerSettings, recorder: Recorder) -> Controller[TrainingRuntime]:
    """The controller of namespaced runtimes, for ``manager.add``."""
    return _controller(TrainingRuntime, names.TRAINING_RUNTIME_CONTROLLER, settings, recorder)


def cluster_training_runtime_controller(
    settings: TrainerSettings, recorder: Recorder
) -> Controller[ClusterTrainingRuntime]:
    """The controller of cluster-wide runtimes, for ``manager.add``."""
    return _controller(ClusterTrainingRuntime, names.CLUSTER_TRAINING_RUNTIME_CONTROLLER, settings, recorder)
