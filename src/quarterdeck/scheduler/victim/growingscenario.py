"""A scenario that grows by one step at a time, and what of it is worth trying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.victim.evictionstep import Step
from quarterdeck.scheduler.victim.gpucount import GpusAfter


class GrowingScenario:
    """The victims that were considered, beyond those that are chosen already."""

    __slots__ = (
        "_after",
        "_freed",
        "_nodes_of",
        "_numbers",
        "_on_node",
        "_spread",
        "_steps",
        "_tried",
        "_wanted",
    )

    def __init__(self, after: GpusAfter, wanted: int, nodes_of: Callable[[Job], Sequence[NodeState]]) -> None:
        """So many pods are to find places when victims are gone, ``after`` those that are chosen."""
        self._after: Final = after
        self._wanted: Final = wanted
        self._nodes_of: Final = nodes_of
        self._freed: dict[NodeState, float] = {}
        """GPUs that the steps leave."""
        self._spread: set[NodeState] = set()
        """Nodes of jobs that are on other nodes as well."""
        self._steps: dict[Job, list[Step]] = {}
        self._numbers: dict[Step, int] = {}
        """Which step came when."""
        self._on_node: dict[NodeState, set[Job]] = {}
        self._tried: dict[frozenset[Job], int] = {}
        """Jobs that were tried together, with the number of their steps."""

    def add(self, step: Step) -> Sequence[NodeState]:
        """Add the next step; the nodes of its job on which it may have made room enough."""
        job, freed, on_node = step.job, self._freed, self._on_node
        self._numbers[step] = len(self._numbers)
        if job in self._steps:
            self._steps[job].append(step)
        else:
            self._steps[job] = [step]
        for node, gpus in step.freed.items():
            if node in freed:
                freed[node] += gpus
                on_node[node].add(job)
            else:
                freed[node] = gpus
                on_node[node] = {job}
        nodes = self._nodes_of(job)
        if len(nodes) > 1:
            self._spread.update(nodes)
            return nodes
        node = nodes[0]
        may_help = self._after.may_help(self._wanted, node, freed.get(node, 0))
        return nodes if may_help or node in self._spread else ()

    def at(self, node: NodeState) -> list[Step] | None:
        """All steps of the jobs that have victims on a node; none if the same were tried before."""
        jobs = frozenset(self._on_node.get(node, ()))
        steps = [step for job in jobs for step in self._steps[job]]
        if self._tried.get(jobs) == len(steps):
            return None
        self._tried[jobs] = len(steps)
        steps.sort(key=self._numbers.__getitem__)
        return steps
