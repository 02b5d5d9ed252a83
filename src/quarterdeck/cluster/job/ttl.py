"""Finished Jobs go, with their pods, ``spec.ttlSecondsAfterFinished`` seconds after they finished."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import Time, UnsetType
from quarterdeck.api.k8s import Job
from quarterdeck.cluster.job import names
from quarterdeck.cluster.job.decision import find_condition
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import object_matches
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "ttl-after-finished-controller"


def _expiry(job: Job) -> float | None:
    """When a Job is to go, seconds since 1970; none if it is to stay, or is on its way out."""
    ttl = job.spec.ttl_seconds_after_finished
    if isinstance(ttl, UnsetType) or job.metadata.is_deleting:
        return None
    for type in (names.COMPLETE, names.FAILED):
        condition = find_condition(job.status.conditions, type)
        if condition is not None and isinstance(condition.last_transition_time, Time):
            return condition.last_transition_time.timestamp() + ttl
    return None


async def _remove(ctx: Context[Job]) -> Result | None:
    job = ctx.obj
    if _left(job) == 0:
        try:  # the time may have been changed a moment ago
            job = await ctx.get(Job, ctx.key.name, ctx.key.namespace, live=True)
        except NotFound:
            return None
    left = _left(job)
    if left is None:
        return None
    if left > 0:
        return Requeue(after=left)
    with ignore_not_found():
        await ctx.delete(job, propagation="Foreground")
    return None


def _left(job: Job) -> float | None:
    expiry = _expiry(job)
    return None if expiry is None else max(0.0, expiry - LoopClock().time())


def _expires(job: Job) -> bool:
    return _expiry(job) is not None


def ttl_controller() -> Controller[Job]:
    """The controller, for ``manager.add``."""
    return (
        Builder(Job, name=NAME)
        .predicates(object_matches(_expires, "expires"))
        .rbac(Rule(groups=("batch",), resources=("jobs",), verbs=("delete", "get")))
        .options(field_manager=FIELD_MANAGER)
        .build(_remove)
    )
