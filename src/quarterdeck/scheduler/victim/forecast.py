"""What a scenario would come to, without trying it, where pods are all of one kind.

Pods of the same shape take each other's places one for one. If all victims are alike it is certain who gets
places back before it is the preemptor's turn; if the preemptor is like them, too, the whole outcome is known.
Most scenarios of a large search fail, and this tells so at a small part of the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from quarterdeck.scheduler.joborder import QueuedJob, as_waiting_without
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.nodeset import NodeSet
from quarterdeck.scheduler.model.queue import QueueState, plus
from quarterdeck.scheduler.model.task import Amounts, Shape, Task
from quarterdeck.scheduler.placement.capacity import is_within_capacity
from quarterdeck.scheduler.victim.evictionstep import Step
from quarterdeck.scheduler.victim.gpucount import GpuCount
from quarterdeck.scheduler.victim.placementorder import PlacementOrder


class Prospect(NamedTuple):
    """What is known of a scenario."""

    is_hopeless: bool
    """The preemptor certainly finds no place."""
    lost: frozenset[Task] | None = None
    """The pods that will be left without a place; none if that is not known."""


_UNKNOWN: Final = Prospect(False)
_HOPELESS: Final = Prospect(True)


class Forecast:
    """Forecasts of one search; asked while nothing is evicted."""

    __slots__ = ("_cluster", "_gpu_count", "_in_line", "_placement_order", "_shapes", "_slots", "_usable")

    def __init__(
        self, cluster: Cluster, placement_order: PlacementOrder, usable: NodeSet, gpu_count: GpuCount
    ) -> None:
        """``usable`` are the nodes for pods besides those of the victims."""
        self._cluster: Final = cluster
        self._placement_order: Final = placement_order
        self._usable: Final = usable
        self._gpu_count: Final = gpu_count
        self._slots: dict[Shape, int] = {}
        self._shapes: dict[Step, Shape | None] = {}
        self._in_line: dict[tuple[Step, ...], QueuedJob] = {}

    def of(self, preemptor: QueuedJob, steps: Sequence[Step]) -> Prospect:
        """What becomes of the preemptor and of the victims."""
        shape = self._common_shape(steps)
        if shape is None:
            return _UNKNOWN
        evicted = self._in_line_again(steps)
        if any(task.shape is not shape for queued in evicted for task in queued.tasks):
            return _UNKNOWN
        is_alike = preemptor.job.is_plain and all(task.shape is shape for task in preemptor.tasks)
        held = _held_by_queue(steps)
        for queue, amounts in held.items():
            queue.charge(amounts, True, -1)
        placed: list[QueuedJob] = []
        is_possible = self._place(preemptor, steps, evicted, shape if is_alike else None, placed)
        for queued in placed:
            _charge(queued, -1)
        for queue, amounts in held.items():
            queue.charge(amounts, True, 1)
        if not is_possible:
            return _HOPELESS
        if not is_alike:
            return _UNKNOWN
        kept = {task for queued in placed for task in queued.tasks}
        return Prospect(False, frozenset(task for step in steps for task in step.tasks if task not in kept))

    def _place(
        self,
        preemptor: QueuedJob,
        steps: Sequence[Step],
        evicted: Sequence[QueuedJob],
        shape: Shape | None,
        placed: list[QueuedJob],
    ) -> bool:
        """Count places instead of filling them; false if none are left for the preemptor.

        Without a shape that all have in common it ends when it is the preemptor's turn.
        """
        slots = self._count_slots(shape, steps) if shape is not None else 0
        taken = 0.0
        for queued in self._placement_order.in_turn([preemptor, *evicted]):
            if queued is preemptor and shape is None:
                return self._has_gpus(preemptor, steps, taken)
            is_placed = is_within_capacity(queued.job, queued.amounts)
            if shape is not None:
                is_placed = is_placed and slots >= len(queued.tasks)
            if is_placed:
                slots -= len(queued.tasks)
                taken += queued.amounts[2]
                _charge(queued, 1)
                placed.append(queued)
            elif queued is preemptor:
                return False
        return True

    def _has_gpus(self, preemptor: QueuedJob, steps: Sequence[Step], taken: float) -> bool:
        return self._gpu_count.lacks(len(preemptor.tasks)) <= sum(step.gpus for step in steps) - taken

    def _count_slots(self, shape: Shape, steps: Sequence[Step]) -> int:
        """Places for pods of a shape once the victims are gone."""
        slots = self._slots.get(shape)
        if slots is None:
            objections = self._cluster.predicates.objections_to
            slots = sum(node.copies(shape) for node in self._usable.nodes if not objections(shape, node))
            self._slots[shape] = slots
        nodes = {node for step in steps for node in step.freed}
        more = sum(node.copies(shape) for node in nodes if node not in self._usable)
        return slots + more + sum(len(step.tasks) for step in steps)

    def _common_shape(self, steps: Sequence[Step]) -> Shape | None:
        """The shape of all victims, if they have one and nothing speaks against the places they have."""
        if self._cluster.affinities.is_needed or not steps:
            return None
        shape = self._shape_of(steps[0])
        return shape if all(self._shape_of(step) is shape for step in steps) else None

    def _shape_of(self, step: Step) -> Shape | None:
        if step not in self._shapes:
            shape = step.shape
            if (
                shape is None
                or not shape.is_simple
                or not step.job.is_plain
                or any(
                    not node.is_sound or self._cluster.predicates.objections_to(shape, node)
                    for node in step.freed
                )
            ):
                shape = None
            self._shapes[step] = shape
        return self._shapes[step]

    def _in_line_again(self, steps: Sequence[Step]) -> list[QueuedJob]:
        """The victims as they will wait once they are evicted."""
        by_job: dict[Job, list[Step]] = {}
        for step in steps:
            by_job.setdefault(step.job, []).append(step)
        waiting = []
        for job, its in by_job.items():
            key = tuple(its)
            queued = self._in_line.get(key)
            if queued is None:
                gone = {task for step in its for task in step.tasks}
                queued = self._in_line[key] = as_waiting_without(job, gone)
            waiting.append(queued)
        return waiting


def _held_by_queue(steps: Sequence[Step]) -> dict[QueueState, Amounts]:
    """What victims hold; they can all be preempted."""
    held: dict[QueueState, Amounts] = {}
    for step in steps:
        queue = step.job.queue
        assert queue is not None
        held[queue] = plus(held[queue], step.held) if queue in held else step.held
    return held


def _charge(queued: QueuedJob, sign: int) -> None:
    assert queued.job.queue is not None
    queued.job.queue.charge(queued.amounts, queued.job.is_preemptible, sign)
