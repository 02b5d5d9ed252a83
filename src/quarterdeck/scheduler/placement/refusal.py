"""What was wrong with jobs that could not be placed, collected for the reports at the end of the cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from quarterdeck.scheduler.fiterror import (
    POD_SCHEDULING_ERRORS,
    FitError,
    lacking_resources,
    pod_message,
)
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.nodeset import NodeSet
from quarterdeck.scheduler.model.subgroup import DEFAULT_LEAF, Leaf
from quarterdeck.scheduler.model.task import Shape, Task
from quarterdeck.scheduler.placement.capacity import over_capacity
from quarterdeck.scheduler.placement.toolarge import too_large
from quarterdeck.scheduler.transaction import Transaction

_POD_NUMBER: Final = "node(s) pod number exceeded"

Reasons = Mapping[str, Sequence[str]]


class Refusals:
    """Errors of jobs, and the reasons of nodes not to take a pod."""

    __slots__ = ("_cluster", "_known", "_of_jobs", "_of_tasks", "_transaction")

    def __init__(self, cluster: Cluster, transaction: Transaction) -> None:
        self._cluster: Final = cluster
        self._transaction: Final = transaction
        self._of_jobs: dict[Job, list[FitError]] = {}
        self._of_tasks: dict[Task, dict[str, Sequence[str]]] = {}
        self._known: dict[tuple[Shape, NodeSet], tuple[int, Reasons]] = {}

    def add(self, job: Job, error: FitError) -> None:
        """Write down an error of a job."""
        self._of_jobs.setdefault(job, []).append(error)

    def add_once(self, job: Job, error: FitError) -> None:
        """The same for an error that several actions come across."""
        if error not in self._of_jobs.get(job, ()):
            self.add(job, error)

    def of_job(self, job: Job) -> Sequence[FitError]:
        """The errors of a job in the order in which they occurred."""
        return self._of_jobs.get(job, ())

    def of_task(self, task: Task) -> str:
        """Why no node took a pod; empty if it was not tried."""
        reasons = self._of_tasks.get(task)
        problems = task.shape.constraints.problems
        if problems:
            return f"Scheduling conditions were not met for pod {task.key}:\n" + ".\n".join(problems)
        if reasons is None:
            return ""
        # what the nodes lack is said in any case, and that none could ever do behind it
        return " ".join((pod_message(reasons), *too_large(self._cluster, task)))

    def add_failure(self, job: Job, leaf: Leaf, task: Task, nodes: NodeSet, placed: int) -> None:
        """Write down that a pod found no node after so many others did."""
        self._of_tasks.setdefault(task, {}).update(self._reasons(task, nodes))
        why = self.of_task(task)
        is_gang = any(each.minimum > 1 for each in job.leaves.values())
        if not is_gang or leaf.used >= leaf.minimum:
            text = f"Resources were not found for pod {task.key} due to: {why}"
        elif leaf.name == DEFAULT_LEAF and len(job.leaves) == 1:
            text = (
                f"Resources were found for {placed} pods while {leaf.minimum} are required for gang "
                f"scheduling. Additional pods cannot be scheduled due to: {why}"
            )
        else:
            text = (
                f"Resources were found for {placed} pods from all sub-groups while sub-group {leaf.name} "
                f"requires {leaf.minimum} pods for gang scheduling. "
                f"Additional pods cannot be scheduled in this sub-group due to: {why}"
            )
        self.add(job, FitError(reason=POD_SCHEDULING_ERRORS, messages=(text,)))

    def _reasons(self, task: Task, nodes: NodeSet) -> Reasons:
        """By node; equal pods that fail in the same state share the answer."""
        if self._cluster.affinities.is_needed or not nodes.is_lasting:
            return self._judge(task, nodes)
        key = (task.shape, nodes)
        known = self._known.get(key)
        if known is None or known[0] != self._transaction.version:
            known = self._known[key] = (self._transaction.version, self._judge(task, nodes))
        return known[1]

    def _judge(self, task: Task, nodes: NodeSet) -> Reasons:
        found = {}
        for node in nodes.nodes:
            reasons = self._objections(task, node)
            if reasons:
                found[node.name] = reasons
        return found

    def _objections(self, task: Task, node: NodeState) -> Sequence[str]:
        lacking = _lacking(task.shape, node)
        if lacking:
            return lacking_resources(lacking)
        if node.free.pods < 1:
            return (_POD_NUMBER,)
        objections = self._cluster.predicates.objections(task, node)
        if objections:
            return objections
        conflict = self._cluster.predicates.conflict(task, node, is_now=False)
        return (conflict,) if conflict else _over_capacity(task, node)


def _lacking(shape: Shape, node: NodeState) -> list[str]:
    free = node.free
    lacking = []
    if shape.gpu > free.gpu or (shape.share is not None and node.devices_for(shape) is None):
        lacking.append("GPUs")
    if shape.share is not None and not node.can_share(shape.share):
        lacking.append("GPU memory")
    if shape.cpu > free.cpu:
        lacking.append("CPU cores")
    if shape.memory > free.memory:
        lacking.append("memory")
    lacking.extend(name for name, need in shape.scalars if need > free.scalars.get(name, 0))
    return lacking


def _over_capacity(task: Task, node: NodeState) -> tuple[str, ...]:
    """GPU memory is worth more quota on small devices than on large ones."""
    assert task.job is not None
    error = over_capacity(task.job, node.charge(task.shape))
    if error is None:
        return ()
    return (f"node does not have enough capacity. Reason: {error.reason}, Details: {error.messages[0]}",)
