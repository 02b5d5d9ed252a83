"""Placing a job: all of its next pods, or none.

The subgroup tree is walked from the root. Each set with a topology constraint narrows the nodes for what is
below it; where several node sets are possible they are tried in order, and what was placed is taken back in
between.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job, total_wanted
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.nodeset import NodeSet
from quarterdeck.scheduler.model.subgroup import Leaf, SubGroupSet
from quarterdeck.scheduler.model.task import Task
from quarterdeck.scheduler.placement.capacity import is_within_capacity, over_capacity
from quarterdeck.scheduler.placement.domainchoice import Choice, Scores, choose_node_sets
from quarterdeck.scheduler.placement.nodechoice import Pick, Picker, by_score
from quarterdeck.scheduler.placement.refusal import Refusals
from quarterdeck.scheduler.transaction import Transaction

_GPU_GROUPS: Final = uuid.UUID("6d2f7c6e-3f0c-4a53-9d5e-6a1a8d1f1c55")
"""Names of new shared GPUs are derived in this namespace, so that equal snapshots give equal decisions."""


class Placer:
    """Places jobs, for good or on trial."""

    __slots__ = ("_cluster", "_transaction", "refusals")

    def __init__(self, cluster: Cluster, transaction: Transaction) -> None:
        self._cluster: Final = cluster
        self._transaction: Final = transaction
        self.refusals: Final = Refusals(cluster, transaction)

    def allocate(self, job: Job) -> bool:
        """Give the job's next pods nodes, or promise them nodes; if that is impossible write down why."""
        tasks = job.tasks_to_allocate()
        error = over_capacity(job, job.wanted())
        if error is not None:
            self.refusals.add(job, error)
            return False
        attempt = _Attempt(self._cluster, self._transaction, job, tasks, self.refusals)
        return attempt.run(self._cluster.all_nodes)

    def promise(self, job: Job, tasks: Sequence[Task], nodes: NodeSet, *, joins_others: bool = False) -> bool:
        """On trial, promise pods of a job nodes; those that were evicted may stay where they are.

        With ``joins_others`` those that share GPUs move to devices that others share where that is possible.
        """
        if not is_within_capacity(job, total_wanted(tasks)):
            return False
        attempt = _Attempt(self._cluster, self._transaction, job, tasks, None, joins_others=joins_others)
        return attempt.run(nodes)


class _Attempt:
    """One attempt to place pods of a job."""

    def __init__(
        self,
        cluster: Cluster,
        transaction: Transaction,
        job: Job,
        tasks: Sequence[Task],
        refusals: Refusals | None,
        *,
        joins_others: bool = False,
    ) -> None:
        self._cluster = cluster
        self._transaction = transaction
        self._job = job
        self._refusals = refusals
        self._joins_others = joins_others
        self._start = transaction.checkpoint()
        self._has_leaving = job.queue is not None and any(queue.has_leaving for queue in job.queue.chain)
        self._tasks: dict[Leaf, list[Task]] = {}
        for task in tasks:
            assert task.leaf is not None
            self._tasks.setdefault(task.leaf, []).append(task)

    def run(self, nodes: NodeSet) -> bool:
        return self._place_set(self._job.root, nodes, None)

    def _place_set(self, group: SubGroupSet, nodes: NodeSet, scores: Scores | None) -> bool:
        tasks = [task for leaf in group.all_leaves() for task in self._tasks.get(leaf, ())]
        if not tasks:
            return True
        choice = self._choose(group, nodes, tasks)
        for node_set in choice.node_sets:
            position = self._transaction.checkpoint()
            if self._place_children(group, node_set, choice.scores or scores):
                return True
            self._transaction.rollback(position)
        return False

    def _choose(self, group: SubGroupSet | Leaf, nodes: NodeSet, tasks: Sequence[Task]) -> Choice:
        choice = choose_node_sets(self._cluster.topologies, self._job, group, nodes, tasks)
        if self._refusals is not None:
            for error in choice.errors:
                self._refusals.add(self._job, error)
        return choice

    def _place_children(self, group: SubGroupSet, nodes: NodeSet, scores: Scores | None) -> bool:
        return all(self._place_set(child, nodes, scores) for child in group.sets) and all(
            self._place_leaf(leaf, nodes, scores)
            for leaf in sorted(group.leaves, key=lambda leaf: leaf.order)
        )

    def _place_leaf(self, leaf: Leaf, nodes: NodeSet, scores: Scores | None) -> bool:
        tasks = self._tasks.get(leaf)
        if not tasks:
            return True
        choice = self._choose(leaf, nodes, tasks)
        for node_set in choice.node_sets:
            position = self._transaction.checkpoint()
            if self._place_tasks(leaf, tasks, node_set, choice.scores or scores):
                return True
            self._transaction.rollback(position)
        return False

    def _place_tasks(self, leaf: Leaf, tasks: Sequence[Task], nodes: NodeSet, scores: Scores | None) -> bool:
        picker = Picker(self._cluster, by_score(nodes, scores))
        for task in tasks:
            pick = None if task.shape.constraints.problems else picker.pick(task)
            if pick is None or not self._take(task, pick):
                if self._refusals is not None:
                    placed = self._transaction.checkpoint() - self._start
                    self._refusals.add_failure(self._job, leaf, task, nodes, placed)
                return False
        return True

    def _take(self, task: Task, pick: Pick) -> bool:
        node, is_now = pick
        is_own = task.state is PodState.RELEASING and node is task.node
        groups: tuple[str, ...] = ()
        if task.shape.share is not None:
            found = self._devices(task, node, is_own)
            if found is None:
                return False
            groups, is_ready = found
            is_now = is_now and is_ready
        stays = set(groups) == set(task.groups) and self._cluster.claims.can_stay(task, node)
        if is_own and stays:
            self._transaction.restore(task)
        else:
            is_given = is_now and self._refusals is not None and self._is_free_now(task, node)
            state = PodState.ALLOCATED if is_given else PodState.PIPELINED
            self._transaction.place(task, node, groups, state)
        return True

    def _is_free_now(self, task: Task, node: NodeState) -> bool:
        """Whether the queue has room for the pod before terminating pods are gone."""
        queue = self._job.queue
        assert queue is not None
        return not self._has_leaving or queue.has_now(node.charge(task.shape), self._job.is_preemptible)

    def _devices(self, task: Task, node: NodeState, is_own: bool) -> tuple[tuple[str, ...], bool] | None:
        """The shared GPUs of a pod on a node, and whether it can start on them at once."""
        if is_own and not self._joins_others and node.takes_back(task.shape, task.groups):
            return task.groups, True
        spreads = self._cluster.settings.gpu_placement == "spread"
        devices = node.devices_for(task.shape, task.groups if is_own else (), spreads=spreads)
        if devices is None:
            return None
        return (*devices.groups, *_new_groups(task, node, devices.new)), devices.is_now


def _new_groups(task: Task, node: NodeState, count: int) -> tuple[str, ...]:
    return tuple(
        str(uuid.uuid5(_GPU_GROUPS, f"{task.info.uid}/{node.name}/{index}")) for index in range(count)
    )
