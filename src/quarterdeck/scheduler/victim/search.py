"""The search for victims: whom to evict so that a job can be placed.

The pods of the job are added one by one; each starts with the victims that were needed so far and adds
others, in victim order, until the pods can be placed. In every scenario the evicted jobs are placed again
where possible, in the order in which a later cycle would do it: who finds room keeps running or is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from quarterdeck.scheduler.joborder import JobOrder, QueuedJob, as_victim
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job, total_wanted
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.nodeset import NodeSet
from quarterdeck.scheduler.model.state import ACTIVE
from quarterdeck.scheduler.model.subgroup import leaf_order
from quarterdeck.scheduler.model.task import Task
from quarterdeck.scheduler.placement.jobplacement import Placer
from quarterdeck.scheduler.transaction import Transaction
from quarterdeck.scheduler.victim.evictionstep import Step, VictimOutcome, outcome_of
from quarterdeck.scheduler.victim.forecast import Forecast
from quarterdeck.scheduler.victim.gpucount import GpuCount, GpusAfter
from quarterdeck.scheduler.victim.placementorder import PlacementOrder


class Rules(Protocol):
    """What an action demands of a scenario."""

    def may_allow(
        self, tasks: Sequence[Task], recorded: Sequence[Step], more: Sequence[Step], must_lose: float
    ) -> bool:
        """Whether it could be allowed that these victims lose so many GPUs; asked before they are evicted."""

    def allow(self, tasks: Sequence[Task], steps: Sequence[Step], outcome: VictimOutcome) -> bool:
        """Whether the pods may be placed at this cost."""


def next_victims(job: Job, active: Sequence[Task]) -> list[Task]:
    """Which of the active pods of a job go first, given that the others are gone already."""
    counts = dict.fromkeys(job.leaves.values(), 0)
    for task in active:
        assert task.leaf is not None
        counts[task.leaf] += 1
    leaves = sorted(counts, key=lambda leaf: leaf_order(leaf, counts[leaf]), reverse=True)
    victims: list[Task] = []
    for leaf in leaves:
        tasks = [task for task in active if task.leaf is leaf]
        tasks.sort(key=lambda task: task.order, reverse=True)
        if counts[leaf] > leaf.minimum:
            return tasks[:1]
        victims += tasks
    return victims


class _Considered:
    """The steps of a growing scenario."""

    __slots__ = ("_after", "_by_job", "_by_node", "_freed", "_nodes_of", "_spread", "_tried", "_wanted")

    def __init__(self, after: GpusAfter, wanted: int, nodes_of: Callable[[Job], Sequence[NodeState]]) -> None:
        """So many pods are to find places when these victims are gone, ``after`` those that are recorded."""
        self._after: Final = after
        self._wanted: Final = wanted
        self._nodes_of: Final = nodes_of
        self._freed: dict[NodeState, float] = {}
        """GPUs that the steps leave."""
        self._spread: set[NodeState] = set()
        """Nodes of jobs that are on other nodes as well."""
        self._by_job: dict[Job, list[tuple[int, Step]]] = {}
        """Steps with their numbers."""
        self._by_node: dict[NodeState, set[Job]] = {}
        self._tried: dict[frozenset[Job], int] = {}
        """Jobs that were tried together, with the number of their steps."""

    def add(self, step: Step, number: int) -> list[NodeState]:
        """Add the next step; the nodes of its job on which it may have made room enough."""
        job = step.job
        steps = self._by_job.get(job)
        if steps is None:
            self._by_job[job] = [(number, step)]
        else:
            steps.append((number, step))
        freed, by_node = self._freed, self._by_node
        for node, gpus in step.freed.items():
            freed[node] = freed.get(node, 0) + gpus
            jobs = by_node.get(node)
            if jobs is None:
                by_node[node] = {job}
            else:
                jobs.add(job)
        nodes = self._nodes_of(job)
        if len(nodes) > 1:
            self._spread.update(nodes)
        may_help, wanted = self._after.may_help, self._wanted
        return [node for node in nodes if node in self._spread or may_help(wanted, node, freed.get(node, 0))]

    def at(self, node: NodeState) -> list[Step] | None:
        """All steps of the jobs that have victims on a node; none if they were tried before.

        The outcome would be the same.
        """
        jobs = frozenset(self._by_node.get(node, ()))
        numbered = [each for job in jobs for each in self._by_job[job]]
        if self._tried.get(jobs) == len(numbered):
            return None
        self._tried[jobs] = len(numbered)
        return [step for _, step in sorted(numbered, key=_number)]


def _number(numbered: tuple[int, Step]) -> int:
    return numbered[0]


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
        self._cluster = cluster
        self._transaction = transaction
        self._placer = placer
        self._placement_order = placement_order
        self._job = job
        self._candidates = [as_victim(each, _active(each)) for each in candidates]
        self._rules = rules
        self._tasks = job.tasks_to_allocate()
        self._gpu_count = GpuCount(cluster.all_nodes.nodes, self._tasks)
        self._usable = self._usable_nodes()
        self._forecast = Forecast(cluster, placement_order, self._usable, self._gpu_count)
        self._recorded: list[Step] = []
        self._after: tuple[list[Step], GpusAfter] | None = None
        """What is free once the recorded victims are gone."""
        self._order: list[Step] = []
        """Victims in order as long as none is recorded, as far as it was asked for."""
        self._rest: Iterator[Step] | None = None
        self._sizes: Final = {each.job: len(each.tasks) for each in self._candidates}
        """Pods of each candidate that may be evicted."""
        self._places: Final[dict[Job, Sequence[NodeState]]] = {}
        self._accepted: tuple[list[Step], bool] = ([], False)
        """The last scenario that was allowed, and whether its victims joined each other."""
        self._kept: set[NodeState] = set()
        """Nodes of victims whose scenarios placed everybody and were refused; they stay usable for the rest
        of the attempts, so that pods without GPUs may move there."""

    def _usable_nodes(self) -> NodeSet:
        """Where the pods may go before anyone is evicted."""
        nodes = self._cluster.all_nodes
        if any(not task.shape.needs_gpu or task.shape.other_gpus for task in self._job.tasks):
            return nodes
        return nodes.view([node for node in nodes.nodes if node.spare_gpus() > 0 or node.idle.gpu > 0])

    def run(self) -> bool:
        """Find victims for all pods of the job; if there are none nothing is changed."""
        if not self._tasks or not self._is_promising():
            return False
        self._placement_order.begin()
        used = self._job.used
        start = self._transaction.checkpoint()
        for count in range(1, len(self._tasks) + 1):
            self._transaction.rollback(start)
            if not self._solve(self._tasks[:count]):
                self._transaction.rollback(start)
                return False
        if self._job.is_gang_satisfied and self._job.used > used and self._would_last(start):
            return True
        self._transaction.rollback(start)
        return False

    def _would_last(self, start: int) -> bool:
        """Whether the next cycle would leave the room to the job.

        It serves everyone who waits in turn. If somebody ahead of the job took the room, the victims would
        have to leave for nothing, and perhaps again and again.
        """
        steps, joins_others = self._accepted
        preemptor = QueuedJob(self._job, 0, total_wanted(self._tasks), self._tasks)
        self._transaction.rollback(start)
        self._evict(steps)
        evicted = list(dict.fromkeys(step.job for step in steps))
        for queued in self._placement_order.everyone(preemptor, evicted):
            nodes = self._cluster.all_nodes
            is_placed = self._placer.promise(queued.job, queued.tasks, nodes, joins_others=joins_others)
            if queued.job is self._job:
                break
        self._transaction.rollback(start)
        if not is_placed:
            return False
        self._evict(steps)
        return self._place_all(preemptor, steps, joins_others)

    def _evict(self, steps: Iterable[Step]) -> None:
        for step in steps:
            for task in step.tasks:
                self._transaction.evict(task)

    def _is_promising(self) -> bool:
        """Whether all candidates together would be enough."""
        everyone = [Step(candidate.job, candidate.tasks) for candidate in self._candidates]
        return self._may_work(self._tasks, everyone)

    def _may_work(self, tasks: Sequence[Task], more: Sequence[Step]) -> bool:
        """Whether there are enough GPUs with those of the victims.

        What the pods need beyond the GPUs that are free somebody will lack in the end.
        """
        count = len(tasks)
        after = self._after_recorded()
        must_lose = self._gpu_count.lacks(count)
        return (
            must_lose <= after.gpus + sum(step.gpus for step in more)
            and after.has_slots(count, more)
            and self._rules.may_allow(tasks, self._recorded, more, must_lose)
        )

    def _after_recorded(self) -> GpusAfter:
        if self._after is None or self._after[0] is not self._recorded:
            self._after = (self._recorded, self._gpu_count.after(self._recorded))
        return self._after[1]

    def _solve(self, tasks: Sequence[Task]) -> bool:
        """Find a scenario for the first pods; the victims it needs are recorded."""
        self._kept.clear()
        recorded = {task for step in self._recorded for task in step.tasks}
        if recorded and self._try(tasks, ()):
            return True
        after = self._after_recorded()
        considered = _Considered(after, len(tasks), self._nodes_of)
        gpus = after.gpus
        must_lose = self._gpu_count.lacks(len(tasks))
        for number, step in enumerate(self._steps(recorded)):
            nodes = considered.add(step, number)
            gpus += step.gpus
            if nodes and must_lose <= gpus and self._try_nodes(tasks, considered, nodes):
                return True
        return False

    def _nodes_of(self, job: Job) -> Sequence[NodeState]:
        """Where a job has pods, in order."""
        nodes = self._places.get(job)
        if nodes is None:
            found = {task.node for task in job.tasks if task.node is not None}
            nodes = self._places[job] = sorted(found, key=lambda node: node.rank)
        return nodes

    def _steps(self, recorded: set[Task]) -> Iterable[Step]:
        """Victims in order, one step at a time, without those that are recorded.

        Where every recorded victim is gone as a whole, the order of the others is what it was without them:
        it is remembered.
        """
        if all(len(step.tasks) == self._sizes[step.job] for step in self._recorded):
            known = {step.job for step in self._recorded}
            return (step for step in self._remembered() if step.job not in known)
        return self._ordered(recorded)

    def _remembered(self) -> Iterator[Step]:
        """The order without recorded victims, found out as far as it is asked for."""
        place = 0
        while True:
            if place == len(self._order):
                if self._rest is None:
                    self._rest = iter(self._ordered(set()))
                step = next(self._rest, None)
                if step is None:
                    return
                self._order.append(step)
            yield self._order[place]
            place += 1

    def _ordered(self, recorded: set[Task]) -> Iterator[Step]:
        order = JobOrder(self._candidates, self._placement_order.keys, is_victims=True)
        while True:
            queued = order.pop()
            if queued is None:
                return
            victims = next_victims(queued.job, queued.tasks)
            is_known = not recorded.isdisjoint(victims)
            gone = recorded if is_known else set(victims)
            rest = [task for task in queued.tasks if task not in gone]
            if rest:
                order.push(as_victim(queued.job, rest))
            if not is_known:
                yield Step(queued.job, victims)

    def _try_nodes(self, tasks: Sequence[Task], considered: _Considered, nodes: Sequence[NodeState]) -> bool:
        """Try the scenario on some nodes of the newest victim, with all victims that are there."""
        for node in nodes:
            steps = considered.at(node)
            if steps is not None and self._try(tasks, steps):
                return True
        return False

    def _try(self, tasks: Sequence[Task], more: Sequence[Step]) -> bool:
        """Evict the recorded victims and some more, place everyone again, and ask the action.

        Pods that share GPUs stay on their devices if that will do; else they join each other, which frees
        devices whatever the order in which they are placed.
        """
        steps = [*self._recorded, *more]
        preemptor = QueuedJob(self._job, 0, total_wanted(tasks), list(tasks))
        if not self._may_work(tasks, more) or not self._is_worth_trying(preemptor, steps):
            return False
        position = self._transaction.checkpoint()
        for joins_others in (False, True) if any(not step.is_whole for step in steps) else (False,):
            self._evict(steps)
            if self._place_all(preemptor, steps, joins_others):
                if self._rules.allow(tasks, steps, outcome_of(steps)):
                    self._recorded = [step for step in steps if any(task.is_evicted for task in step.tasks)]
                    self._accepted = (steps, joins_others)
                    return True
                self._kept.update(_nodes_of(steps))
            self._transaction.rollback(position)
        return False

    def _is_worth_trying(self, preemptor: QueuedJob, steps: Sequence[Step]) -> bool:
        """Whether a forecast leaves hope for the scenario."""
        is_hopeless, lost = self._forecast.of(preemptor, steps)
        if is_hopeless or lost is None or not self._cluster.settings.allow_consolidating_reclaim:
            return not is_hopeless
        # Who will be moved is not known; that may only count against the scenario later.
        if self._rules.allow(preemptor.tasks, steps, VictimOutcome(lost, lost)):
            return True
        self._kept.update(_nodes_of(steps))
        return False

    def _place_all(self, preemptor: QueuedJob, steps: Sequence[Step], joins_others: bool) -> bool:
        nodes = self._nodes(steps)
        evicted = list(dict.fromkeys(step.job for step in steps))
        for queued in self._placement_order.order(preemptor, evicted):
            is_placed = self._placer.promise(queued.job, queued.tasks, nodes, joins_others=joins_others)
            if queued.job is self._job and not is_placed:
                return False
        return True

    def _nodes(self, steps: Sequence[Step]) -> NodeSet:
        """The usable nodes and those of the victims."""
        more = {node for node in (*_nodes_of(steps), *self._kept) if node not in self._usable}
        return self._cluster.all_nodes.view(self._usable.members | more) if more else self._usable


def _nodes_of(steps: Iterable[Step]) -> Iterator[NodeState]:
    return (task.node for step in steps for task in step.tasks if task.node is not None)


def _active(job: Job) -> list[Task]:
    """The pods that may be evicted; one whose node is not in the snapshot leaves no room."""
    return [task for task in job.tasks if task.state in ACTIVE and task.node is not None]
