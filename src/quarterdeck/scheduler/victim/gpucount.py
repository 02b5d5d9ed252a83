"""A quick look whether a scenario can work out at all: are there enough GPUs, with those of the victims?

The answer is only ever wrong in saying yes. It spares the search the scenarios that evict too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.task import Task
from quarterdeck.scheduler.victim.evictionstep import Step


class GpuCount:
    """GPUs that are free, for the pods of one job."""

    __slots__ = ("_free", "_needed", "_size", "_slots", "_total")

    def __init__(self, nodes: Iterable[NodeState], tasks: Sequence[Task]) -> None:
        sizes = [task.shape.gpu for task in tasks]
        is_known = all(task.shape.share is None for task in tasks)
        self._needed: Final = [0.0, *accumulate(sizes)] if is_known else []
        """GPUs of the first pods, by their number; nothing if parts of GPUs are among them."""
        self._size: Final = sizes[0] if is_known and sizes and min(sizes) == max(sizes) else 0
        """Of each pod, if all have the same."""
        self._free: Final = {node: node.free.gpu for node in nodes if node.has_gpus}
        self._total: Final = sum(max(0, node.spare_gpus()) for node in self._free)
        """Rests of shared GPUs included: pods that move there leave whole ones."""
        self._slots: Final = sum(map(self._fitting, self._free.values()))

    def _fitting(self, free: float) -> int:
        """Pods that fit side by side."""
        return int(free // self._size) if self._size and free > 0 else 0

    def lacks(self, count: int) -> float:
        """How many GPUs more the first pods need than are free; zero if they need parts of GPUs."""
        return self._needed[count] - self._total if self._needed else 0.0

    def after(self, steps: Iterable[Step]) -> GpusAfter:
        """What is free when some victims are gone."""
        return GpusAfter(self, steps)

    def slots_of(self, node: NodeState, freed: float, more: float) -> int:
        """Places that a node has more if victims leave more of it than so much."""
        before = self._free.get(node, 0) + freed
        return self._fitting(before + more) - self._fitting(before)

    @property
    def is_counted(self) -> bool:
        """Whether places can be counted at all: all pods need as many GPUs."""
        return self._size > 0

    @property
    def slots(self) -> int:
        """Places for pods before anybody leaves."""
        return self._slots


class GpusAfter:
    """GPUs that are free once some victims are gone; others may follow them."""

    __slots__ = ("_count", "freed", "gpus", "slots")

    def __init__(self, count: GpuCount, steps: Iterable[Step]) -> None:
        self._count: Final = count
        self.gpus = 0.0
        """What the victims leave."""
        self.freed: dict[NodeState, float] = {}
        self.slots = count.slots
        """Places for pods, side by side."""
        for step in steps:
            self.gpus += step.gpus
            for node, gpus in step.freed.items():
                had = self.freed.get(node, 0)
                self.slots += count.slots_of(node, had, gpus)
                self.freed[node] = had + gpus

    def has_slots(self, wanted: int, more: Iterable[Step]) -> bool:
        """Whether so many pods find places when more victims leave."""
        count = self._count
        if not count.is_counted or self.slots >= wanted:
            return True
        freed: dict[NodeState, float] = {}
        slots = self.slots
        for step in more:
            for node, gpus in step.freed.items():
                had = freed.get(node) or self.freed.get(node, 0)
                slots += count.slots_of(node, had, gpus)
                if slots >= wanted:
                    return True
                freed[node] = had + gpus
        return False

    def may_help(self, wanted: int, node: NodeState, more: float) -> bool:
        """The same if all that leaves more is on one node."""
        count = self._count
        if not count.is_counted or self.slots >= wanted:
            return True
        return self.slots + count.slots_of(node, self.freed.get(node, 0), more) >= wanted
