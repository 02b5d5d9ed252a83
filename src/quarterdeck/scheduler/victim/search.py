"""The search for victims: whom to evict so that a job can be placed.

The pods of the job are added one by one; each starts with the victims that were needed so far and adds
others, in victim order, until the pods can be placed. In every scenario the evicted jobs are placed again
where possible, in the order in which a later cycle would do it: who finds room keeps running or is moved.

A scenario is asked about three times, each time at a higher price: whether it can work out at all, by
counting; what a forecast makes of it; and what comes of it when it is carried out on trial. All three ask the
same rules of the action.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from quarterdeck.scheduler.joborder import QueuedJob
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job, total_wanted
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.nodeset import NodeSet
from quarterdeck.scheduler.model.task import Task
from quarterdeck.scheduler.placement.jobplacement import Placer
from quarterdeck.scheduler.transaction import Transaction
from quarterdeck.scheduler.victim.evictionstep import Step, VictimOutcome, outcome_of
from quarterdeck.scheduler.victim.forecast import Forecast
from quarterdeck.scheduler.victim.gpucount import GpuCount, GpusAfter
from quarterdeck.scheduler.victim.growingscenario import GrowingScenario
from quarterdeck.scheduler.victim.placementorder import PlacementOrder
from quarterdeck.scheduler.victim.victimorder import VictimOrder


class Rules(Protocol):
    """What an action demands of a scenario."""

    def may_allow(self, tasks: Sequence[Task], steps: Sequence[Step], must_lose: float) -> bool:
        """Whether ``allow`` could say yes if these victims lose so many GPUs; wrong only in saying so."""

    def allow(self, tasks: Sequence[Task], steps: Sequence[Step], outcome: VictimOutcome) -> bool:
        """Whether the pods may be placed at this cost."""


class _Found(NamedTuple):
    """A scenario that works out."""

    steps: Sequence[Step]
    joins_others: bool
    """Whether its victims joined each other on shared GPUs."""

    @property
    def needed(self) -> list[Step]:
        """The steps of which somebody has to go, as the cluster in memory shows it now."""
        return [step for step in self.steps if any(task.is_evicted for task in step.tasks)]


class VictimSearch:
    """A search on behalf of one job; if it succeeds its result is in the transaction, to be committed."""

    def __init__(
        self,
        cluster: Cluster,
        transaction: Transaction,
        placer: Placer,
        placement_order: PlacementOrder,
        *,
        job: Job,
        candidates: Iterable[Job],
        rules: Rules,
    ) -> None:
        """``candidates`` are the jobs that may be evicted."""
        self._cluster: Final = cluster
        self._transaction: Final = transaction
        self._placer: Final = placer
        self._placement_order: Final = placement_order
        self._job: Final = job
        self._victims: Final = VictimOrder(candidates, placement_order.keys)
        self._rules: Final = rules
        self._tasks: Final = job.tasks_to_allocate()
        self._gpu_count: Final = GpuCount(cluster.all_nodes.nodes, self._tasks)
        self._usable: Final = self._usable_nodes()
        self._forecast: Final = Forecast(cluster, placement_order, self._usable, self._gpu_count)
        self._refused: Final[set[NodeState]] = set()
        """Nodes of victims whose scenarios placed everybody and were refused; they stay usable while the
        same pods are tried, so that pods without GPUs may move there."""

    def _usable_nodes(self) -> NodeSet:
        """Where the pods may go before anyone is evicted."""
        nodes = self._cluster.all_nodes
        if any(not task.shape.needs_gpu or task.shape.other_gpus for task in self._job.tasks):
            return nodes
        return nodes.view([node for node in nodes.nodes if node.spare_gpus() > 0 or node.idle.gpu > 0])

    def run(self) -> bool:
        """Find victims for all pods of the job; if there are none nothing is changed."""
        if not self._tasks or not self._may_work(
            self._tasks, (), self._victims.everyone(), self._gpu_count.after(())
        ):
            return False
        self._placement_order.begin()
        used = self._job.used
        start = self._transaction.checkpoint()
        found = self._solve_all(start)
        if (
            found is not None
            and self._job.is_gang_satisfied
            and self._job.used > used
            and self._would_last(found, start)
        ):
            return True
        self._transaction.rollback(start)
        return False

    def _solve_all(self, start: int) -> _Found | None:
        """A scenario for all pods, found by adding one after the other."""
        chosen: list[Step] = []
        found = None
        for count in range(1, len(self._tasks) + 1):
            self._transaction.rollback(start)
            found = self._solve(self._tasks[:count], chosen)
            if found is None:
                break
            chosen = found.needed
        return found

    def _would_last(self, found: _Found, start: int) -> bool:
        """Whether the next cycle would leave the room to the job.

        It serves everyone who waits in turn. If somebody ahead of the job took the room, the victims would
        have to leave for nothing, and perhaps again and again.
        """
        preemptor = QueuedJob(self._job, 0, total_wanted(self._tasks), self._tasks)
        self._transaction.rollback(start)
        self._evict(found.steps)
        for queued in self._placement_order.everyone(preemptor, _jobs_of(found.steps)):
            nodes = self._cluster.all_nodes
            is_placed = self._placer.promise(queued.job, queued.tasks, nodes, joins_others=found.joins_others)
            if queued.job is self._job:
                break
        self._transaction.rollback(start)
        if not is_placed:
            return False
        self._evict(found.steps)
        return self._place_all(preemptor, found)

    def _evict(self, steps: Iterable[Step]) -> None:
        for step in steps:
            for task in step.tasks:
                self._transaction.evict(task)

    def _may_work(
        self, tasks: Sequence[Task], chosen: Sequence[Step], more: Sequence[Step], after: GpusAfter
    ) -> bool:
        """Whether there are enough GPUs with those of more victims, ``after`` the chosen ones.

        What the pods need beyond the GPUs that are free somebody will lack in the end.
        """
        must_lose = self._gpu_count.lacks(len(tasks))
        return (
            must_lose <= after.gpus + sum(step.gpus for step in more)
            and after.has_slots(len(tasks), more)
            and self._rules.may_allow(tasks, [*chosen, *more], must_lose)
        )

    def _solve(self, tasks: Sequence[Task], chosen: Sequence[Step]) -> _Found | None:
        """Find a scenario for the first pods that evicts the victims chosen so far, and others if need be."""
        self._refused.clear()
        after = self._gpu_count.after(chosen)
        if chosen:
            found = self._try(tasks, chosen, (), after)
            if found is not None:
                return found
        scenario = GrowingScenario(after, len(tasks), self._victims.nodes_of)
        gpus = after.gpus
        must_lose = self._gpu_count.lacks(len(tasks))
        for step in self._victims.without(chosen):
            nodes = scenario.add(step)
            gpus += step.gpus
            if must_lose > gpus:
                continue
            for node in nodes:
                steps = scenario.at(node)
                found = self._try(tasks, chosen, steps, after) if steps is not None else None
                if found is not None:
                    return found
        return None

    def _try(
        self, tasks: Sequence[Task], chosen: Sequence[Step], more: Sequence[Step], after: GpusAfter
    ) -> _Found | None:
        """Evict the chosen victims and some more, place everyone again, and ask the action.

        Pods that share GPUs stay on their devices if that will do; else they join each other, which frees
        devices whatever the order in which they are placed.
        """
        if not self._may_work(tasks, chosen, more, after):
            return None
        steps = [*chosen, *more]
        preemptor = QueuedJob(self._job, 0, total_wanted(tasks), list(tasks))
        if not self._is_worth_trying(preemptor, steps):
            return None
        position = self._transaction.checkpoint()
        for joins_others in (False, True) if any(not step.is_whole for step in steps) else (False,):
            found = _Found(steps, joins_others)
            self._evict(steps)
            if self._place_all(preemptor, found):
                if self._rules.allow(tasks, steps, outcome_of(steps)):
                    return found
                self._refused.update(_nodes_of(steps))
            self._transaction.rollback(position)
        return None

    def _is_worth_trying(self, preemptor: QueuedJob, steps: Sequence[Step]) -> bool:
        """Whether a forecast leaves hope for the scenario."""
        is_hopeless, lost = self._forecast.of(preemptor, steps)
        if is_hopeless or lost is None or not self._cluster.settings.allow_consolidating_reclaim:
            return not is_hopeless
        # Who will be moved is not known; that may only count against the scenario later.
        if self._rules.allow(preemptor.tasks, steps, VictimOutcome(lost, lost)):
            return True
        self._refused.update(_nodes_of(steps))
        return False

    def _place_all(self, preemptor: QueuedJob, found: _Found) -> bool:
        nodes = self._nodes(found.steps)
        for queued in self._placement_order.order(preemptor, _jobs_of(found.steps)):
            is_placed = self._placer.promise(queued.job, queued.tasks, nodes, joins_others=found.joins_others)
            if queued.job is self._job and not is_placed:
                return False
        return True

    def _nodes(self, steps: Sequence[Step]) -> NodeSet:
        """The usable nodes and those of the victims."""
        more = {node for node in (*_nodes_of(steps), *self._refused) if node not in self._usable}
        return self._cluster.all_nodes.view(self._usable.members | more) if more else self._usable


def _jobs_of(steps: Iterable[Step]) -> list[Job]:
    return list(dict.fromkeys(step.job for step in steps))


def _nodes_of(steps: Iterable[Step]) -> Iterator[NodeState]:
    return (task.node for step in steps for task in step.tasks if task.node is not None)
