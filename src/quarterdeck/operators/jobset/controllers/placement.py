"""The controller of exclusive placement: followers that were sent elsewhere than their leader are recreated.

That happens when a leader gets another node after its followers were admitted. Pods are read only of Jobs
that are placed exclusively: those of all others are none of this operator's business, and are not cached.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api import value_or
from quarterdeck.api.k8s import Job, Node, Pod
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.operators.jobset.logic.exclusive import (
    disrupted,
    is_leader,
    is_placed_exclusively,
    misplaced,
)
from quarterdeck.operators.jobset.types import names
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.attempt import attempt_all
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "jobset-placement"
_LOOK_AGAIN: Final = 5.0
"""Seconds between two looks at the pods of a Job that are not all ready."""
_OF_JOBSETS: Final = Predicate(
    "of_jobsets",
    create=lambda event: names.JOBSET_NAME in event.entry.labels,
    update=lambda event: names.JOBSET_NAME in event.entry.labels,
    delete=lambda _: False,
)


class PlacementReconciler(Reconciler[Job]):
    """Looks after the pods of one exclusively placed Job after the other."""

    async def reconcile(self, ctx: Context[Job]) -> Result | None:
        """Delete the followers of a Job if one of them was sent elsewhere."""
        job = ctx.obj
        annotations = job.spec.template.metadata.annotations
        is_concerned = (
            names.EXCLUSIVE_TOPOLOGY in annotations and names.NODE_SELECTOR_STRATEGY not in annotations
        )
        active = value_or(job.status.active, 0)
        if not is_concerned or not active or job.metadata.is_deleting:
            return None
        key = job.metadata.labels.get(names.JOB_KEY, "")
        listed = await ctx.client.list(Pod, namespace=job.metadata.namespace, labels={names.JOB_KEY: key})
        pods = [pod for pod in listed if _belongs(pod, job) and is_placed_exclusively(pod)]
        leader = next((pod for pod in pods if is_leader(pod) and not pod.metadata.is_deleting), None)
        if leader is not None and leader.spec.node_name and await _has_strays(ctx, leader, pods):
            await _delete(ctx, [pod for pod in pods if not is_leader(pod)])
        return Requeue(after=_LOOK_AGAIN) if value_or(job.status.ready, 0) < active else None


def _belongs(pod: Pod, job: Job) -> bool:
    return any(
        each.controller is True and each.uid == job.metadata.uid for each in pod.metadata.owner_references
    )


async def _has_strays(ctx: Context[Job], leader: Pod, pods: list[Pod]) -> bool:
    """Whether a follower was sent elsewhere; not while the leader's node is away or lacks the label."""
    try:
        node = await ctx.client.get(Node, leader.spec.node_name)
    except NotFound:
        return False
    domain = node.metadata.labels.get(leader.metadata.annotations[names.EXCLUSIVE_TOPOLOGY])
    return domain is not None and misplaced(leader, domain, pods)


async def _delete(ctx: Context[Job], pods: list[Pod]) -> None:
    async def delete(pod: Pod) -> None:
        with ignore_not_found():
            marked = disrupted(pod, ctx.now())
            if marked is not pod:
                await ctx.client.status.update(marked)
            await ctx.delete(pod, propagation="Background")

    for error in await attempt_all(pods, delete):
        if error is not None:
            raise error


def placement_controller() -> Controller[Job]:
    """The controller, for ``manager.add``."""
    return (
        Builder[Job](name=NAME)
        .for_(Job, predicates=(_OF_JOBSETS,))
        .rbac(
            Rule(groups=("",), resources=("nodes",), verbs=("get",)),
            Rule(groups=("",), resources=("pods",), verbs=("list", "delete")),
            Rule(groups=("",), resources=("pods/status",), verbs=("update",)),
        )
        .options(field_manager="jobset-controller-manager")
        .build(PlacementReconciler())
    )
