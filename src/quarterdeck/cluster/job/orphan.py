"""Frees pods whose Job is gone, so that the finalizer for counting them does not hold them back for ever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import Key, controller_of, value_or
from quarterdeck.api.k8s import Job, Pod
from quarterdeck.cluster.job import names
from quarterdeck.cluster.job.decision import is_finished
from quarterdeck.cluster.job.podcontrol import free_pod
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.errors import NotFound
from quarterdeck.runtime.cache import controller_uid
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "job-orphan-pod-controller"


async def _free_orphan(ctx: Context[Pod]) -> Result | None:
    owner = controller_of(ctx.obj.metadata.owner_references)
    if owner is not None:
        if (owner.api_version, owner.kind) != (Job.type_info.gvk.api_version, Job.type_info.kind):
            return None
        try:
            job = await ctx.get(Job, owner.name, ctx.key.namespace)
        except NotFound:
            job = None
        if job is not None and job.metadata.uid == owner.uid and _looks_after_its_pods(job):
            return None
    if names.TRACKING in ctx.obj.metadata.finalizers:
        await free_pod(ctx.client, ctx.obj)
    return None


def _looks_after_its_pods(job: Job) -> bool:
    is_foreign = value_or(job.spec.managed_by, names.CONTROLLER) != names.CONTROLLER
    return is_foreign or not is_finished(job)


def _pods_of_job(ctx: MapContext, job: Job) -> Iterable[Key]:
    return [pod.key for pod in ctx.cache.lookup(Pod, controller_uid(job.metadata.uid))]


def _may_be_orphan(event: ObjectEvent[Any]) -> bool:
    """Counted pods that go, or that nobody controls."""
    entry = event.entry
    return names.TRACKING in entry.finalizers and (
        entry.is_deleting or controller_of(entry.owner_references) is None
    )


_MAY_BE_ORPHAN: Final = Predicate(
    "may_be_orphan", create=_may_be_orphan, update=_may_be_orphan, delete=lambda _: False
)
_GONE: Final = Predicate("gone", create=lambda _: False, update=lambda _: False)


def orphan_pod_controller() -> Controller[Pod]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=NAME)
        .for_(Pod, predicates=[_MAY_BE_ORPHAN])
        .watches(Job, to=_pods_of_job, predicates=[_GONE])
        .indexes(Pod, controller_uid)
        .rbac(Rule(groups=("",), resources=("pods",), verbs=("patch",)))
        .options(field_manager=FIELD_MANAGER)
        .build(_free_orphan)
    )
