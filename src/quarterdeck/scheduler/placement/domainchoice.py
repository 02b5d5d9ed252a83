"""Where pods with a topology constraint may be placed together.

The answer is a list of node sets to be tried in order, the narrowest domains first and among siblings those
that the pods fill most. Pods that only prefer to be close may end up anywhere in the tree; then nodes get
scores by their domain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from quarterdeck.scheduler.fiterror import (
    NOT_ENOUGH_RESOURCES,
    POD_SCHEDULING_ERRORS,
    FitError,
    missing_in_domain,
)
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.nodeset import NodeSet
from quarterdeck.scheduler.model.state import ACTIVE
from quarterdeck.scheduler.model.subgroup import DEFAULT_LEAF, Leaf, SubGroupSet
from quarterdeck.scheduler.model.task import Shape, Task
from quarterdeck.scheduler.model.topology import ROOT, Domain, Topologies, TopologyTree
from quarterdeck.scheduler.resource import NOTHING, Resources
from quarterdeck.scheduler.snapshot import PodConstraints, TopologyConstraint

_SCORE: Final = 10000
_NO_CONSTRAINTS: Final = PodConstraints()


class Scores:
    """Scores of nodes by their domain: the later in the list, the better."""

    __slots__ = ("_depth", "_of_domains", "_tree")

    def __init__(self, tree: TopologyTree, depth: int, domains: Sequence[Domain]) -> None:
        count = len(domains)
        self._tree: Final = tree
        self._depth: Final = depth
        self._of_domains: Final = {
            domain: _SCORE * math.floor((index + 1) / count * 10) for index, domain in enumerate(domains)
        }

    def of(self, node: NodeState) -> int:
        """The score of a node; 0 outside the domains."""
        domain = self._tree.lowest(node)
        return self._of_domains.get(domain.above(self._depth), 0) if domain is not None else 0


class Choice(msgspec.Struct):
    """Node sets to try in order, scores of nodes if the constraint has a preference, and what was wrong."""

    node_sets: Iterable[NodeSet]
    scores: Scores | None = None
    errors: tuple[FitError, ...] = ()


def choose_node_sets(
    topologies: Topologies,
    job: Job,
    group: SubGroupSet | Leaf,
    nodes: NodeSet,
    tasks: Sequence[Task],
) -> Choice:
    """The node sets for the pods of a group of a job."""
    constraint = group.constraint
    if constraint is None or not constraint.topology:
        return Choice([nodes])
    tree = topologies.get(constraint.topology)
    if tree is None:
        return _refuse(f"Requested topology {constraint.topology} does not exist")
    if not tasks:
        return Choice([nodes])
    return _Search(tree, job, group, constraint, nodes, tasks).run()


def _refuse(*messages: str) -> Choice:
    return Choice([], errors=tuple(_error(message) for message in messages))


def _error(message: str) -> FitError:
    return FitError(reason=POD_SCHEDULING_ERRORS, messages=(message,))


class _Search:
    """One choice of node sets."""

    def __init__(
        self,
        tree: TopologyTree,
        job: Job,
        group: SubGroupSet | Leaf,
        constraint: TopologyConstraint,
        nodes: NodeSet,
        tasks: Sequence[Task],
    ) -> None:
        self._tree = tree
        self._job = job
        self._group = group
        self._constraint = constraint
        self._nodes = nodes
        self._tasks = tasks
        self._needed = _total(tasks)
        self._sample = _sample(tasks)

    def run(self) -> Choice:
        constraint, tree = self._constraint, self._tree
        required = tree.depth_of(constraint.required_level)
        preferred = tree.depth_of(constraint.preferred_level)
        start = tree.common(self._nodes, preferred if preferred is not None else len(tree.levels))
        if not self._fits(start):
            where = "the cluster" if start.id == ROOT else start.id
            return _refuse(self._mismatch(f": not enough resources in {where} to allocate the job"))
        problem = self._level_problem(required, preferred)
        if problem:
            return _refuse(problem)
        deepest = max(preferred or 0, required or 0)
        by_depth = self._levels(start, deepest)
        scores = Scores(tree, preferred, by_depth[preferred]) if preferred is not None else None
        highest = required if required is not None else 0
        # One after the other: mostly the first will do.
        candidates = self._candidates(by_depth, range(deepest, highest - 1, -1), required)
        first = next(candidates, None)
        if first is None:
            return Choice([], scores, self._too_small(by_depth[highest]))
        found = itertools.chain([first], candidates)
        return Choice((tree.nodes_in(domain, self._nodes) for domain in found), scores)

    def _level_problem(self, required: int | None, preferred: int | None) -> str:
        constraint = self._constraint
        if constraint.required_level and required is None:
            return self._unknown_level("required", constraint.required_level)
        if constraint.preferred_level and preferred is None:
            return self._unknown_level("preferred", constraint.preferred_level)
        if required is None and preferred is None:
            return (
                f"no topology constraints were found for subgroup {self._group.name}, "
                f"with topology name {self._tree.name}"
            )
        return ""

    def _unknown_level(self, kind: str, level: str) -> str:
        name = self._group.name
        who = "workload" if name in ("", DEFAULT_LEAF) else f"sub-group {name}"
        return (
            f"topology constraint error: {who} specified '{level}' as the {kind} topology constraint level, "
            f"but the topology tree '{self._tree.name}' does not contain a level with this name"
        )

    def _mismatch(self, suffix: str = "") -> str:
        name = self._group.name
        subgroup = "" if name in ("", DEFAULT_LEAF) else f", subgroup {name}"
        return (
            f"topology {self._tree.name}, requirement {self._constraint.required_level} "
            f"couldn't be satisfied for job <{self._job.key}>{subgroup}{suffix}"
        )

    def _levels(self, start: Domain, deepest: int) -> list[list[Domain]]:
        """Domains by depth: the ancestors of the start, and what is below it, tightest siblings first."""
        by_depth = [[start.above(depth)] for depth in range(start.depth + 1)]
        while len(by_depth) <= deepest:
            by_depth.append([child for domain in by_depth[-1] for child in self._tightest_first(domain)])
        return by_depth

    def _tightest_first(self, domain: Domain) -> list[Domain]:
        return sorted(domain.children.values(), key=lambda child: (-child.pressure(self._needed), child.id))

    def _candidates(
        self, by_depth: Sequence[Sequence[Domain]], depths: range, required: int | None
    ) -> Iterator[Domain]:
        allowed = self._occupied(required) if required is not None else None
        for depth in depths:
            for domain in by_depth[depth]:
                if (allowed is None or domain.above(required or 0) in allowed) and self._fits(domain):
                    yield domain

    def _occupied(self, required: int) -> set[Domain | None] | None:
        """The domains of the required level that have active pods of the group; none if it has no such pods.

        Pods on nodes outside the topology are in no domain, and nothing can be near them.
        """
        group = self._group
        leaves = (group,) if isinstance(group, Leaf) else group.all_leaves()
        found: set[Domain | None] = set()
        for leaf in leaves:
            if not leaf.active:
                continue
            for task in leaf.tasks:
                if task.state in ACTIVE and task.node is not None:
                    domain = self._tree.lowest(task.node)
                    found.add(domain.above(required) if domain is not None else None)
        return found or None

    def _fits(self, domain: Domain) -> bool:
        if self._sample is not None:
            return self._count_copies(domain) >= len(self._tasks)
        return domain.pressure(self._needed) <= 1

    def _count_copies(self, domain: Domain) -> int:
        """How many pods as large as the largest of each resource fit on the nodes of a domain."""
        assert self._sample is not None
        return domain.copies(self._sample)

    def _too_small(self, domains: Sequence[Domain]) -> tuple[FitError, ...]:
        small = [domain for domain in domains if not self._fits(domain)]
        return (*map(self._shortage, small), _error(self._mismatch()))

    def _shortage(self, domain: Domain) -> FitError:
        if self._sample is not None:
            count, needed = self._count_copies(domain), len(self._tasks)
            short = [f"node-group {domain.id} can allocate only {count} of {needed} required pods"]
            long: list[str] = []
        else:
            short, long = missing_in_domain(domain.id, self._needed, domain.free)
        return FitError(
            reason=NOT_ENOUGH_RESOURCES,
            messages=tuple(short),
            details=tuple(long),
            subgroup=self._group.name,
            domain=domain.id,
        )


def _total(tasks: Sequence[Task]) -> Resources:
    total = NOTHING
    for task in tasks:
        shape = task.shape
        total += Resources(shape.cpu, shape.memory, task.wanted[2], shape.scalars)
    return total


def _sample(tasks: Sequence[Task]) -> Shape | None:
    """A pod as large as the largest of each resource; none if the pods need different kinds of resources."""
    shapes = {task.shape for task in tasks}
    if len(shapes) == 1:
        return next(iter(shapes))
    kinds = {(shape.needs_gpu, tuple(name for name, _ in shape.scalars)) for shape in shapes}
    shares = {shape.share for shape in shapes}
    if len(kinds) > 1 or len(shares) > 1:
        return None
    scalars = {name: max(dict(shape.scalars)[name] for shape in shapes) for name in next(iter(kinds))[1]}
    request = Resources(
        max(shape.cpu for shape in shapes),
        max(shape.memory for shape in shapes),
        max(shape.gpu for shape in shapes),
        tuple(sorted(scalars.items())),
    )
    return Shape(request, next(iter(shares)), _NO_CONSTRAINTS)
