"""A quick look whether a scenario can work out at all: are there enough GPUs, with those of the victims?

The answer is only ever wrong in saying yes. It spares the search the scenarios that evict too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from quarterdeck.scheduler.node import NodeState
from quarterdeck.scheduler.task import Task

__all__ = ["Room"]


class Room:
    """GPUs that are free or become free, for the pods of one job."""

    __slots__ = ("_base", "_extra", "_slots", "_total")

    def __init__(self, base: _Base) -> None:
        self._base: Final = base
        self._extra: dict[NodeState, float] = {}
        self._total = base.total
        self._slots = base.slots

    @classmethod
    def of(cls, nodes: Iterable[NodeState], tasks: Sequence[Task]) -> Room:
        """What is free now, for these pods."""
        return cls(_Base(nodes, tasks))

    def alone(self) -> Room:
        """The same without any victims."""
        return Room(self._base)

    def reset(self) -> None:
        """Forget the victims."""
        self._extra.clear()
        self._total, self._slots = self._base.total, self._base.slots

    def add(self, victims: Iterable[Task]) -> None:
        """Count what victims set free; for a part of a GPU the whole one."""
        base, extra = self._base, self._extra
        for task in victims:
            node, freed = task.node, task.shape.gpu
            if task.shape.share is not None:
                freed += task.shape.share.devices
            if node is None or not freed:
                continue
            more = extra.get(node, 0)
            before = base.free.get(node, 0) + more
            extra[node] = more + freed
            self._total += freed
            self._slots += base.fitting(before + freed) - base.fitting(before)

    def may_hold(self, count: int) -> bool:
        """Whether there may be room for the first pods, so many of them."""
        return self.has_enough(count) and (not self._base.size or self._slots >= count)

    def has_enough(self, count: int, *, besides: float = 0.0) -> bool:
        """Whether there are as many GPUs as the first pods need, and some more, wherever they are."""
        sizes = self._base.sizes
        return not sizes or self._total >= sum(sizes[:count]) + besides


class _Base:
    """What is free without victims."""

    __slots__ = ("free", "size", "sizes", "slots", "total")

    def __init__(self, nodes: Iterable[NodeState], tasks: Sequence[Task]) -> None:
        sizes = [task.shape.gpu for task in tasks]
        is_known = all(task.shape.share is None for task in tasks)
        self.sizes: Final = sizes if is_known else []
        """GPUs of each pod; nothing if parts of GPUs are among them."""
        self.size: Final = sizes[0] if is_known and sizes and min(sizes) == max(sizes) else 0
        """Of each pod, if all have the same."""
        self.free: Final = {node: node.free.gpu for node in nodes if node.has_gpus}
        self.total: Final = sum(free for free in self.free.values() if free > 0)
        self.slots: Final = sum(map(self.fitting, self.free.values()))

    def fitting(self, free: float) -> int:
        """Pods that fit side by side."""
        return int(free // self.size) if self.size and free > 0 else 0
