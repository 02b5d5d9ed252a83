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

__all__ = ["GpuCount"]


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

    def has_slots(self, count: int, steps: Iterable[Step]) -> bool:
        """Whether the first pods find as many places, with those that victims leave."""
        if not self._size or self._slots >= count:
            return True
        freed: dict[NodeState, float] = {}
        slots = self._slots
        for step in steps:
            for node, gpus in step.freed.items():
                more = freed.get(node, 0)
                before = self._free.get(node, 0) + more
                freed[node] = more + gpus
                slots += self._fitting(before + gpus) - self._fitting(before)
                if slots >= count:
                    return True
        return False
