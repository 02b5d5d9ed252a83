"""What a scenario would come to, without trying it, where pods are all of one kind.

Pods of the same shape take each other's places one for one. If all victims are alike it is certain who gets
places back before it is the preemptor's turn; if the preemptor is like them, too, the whole outcome is known.
Most scenarios of a large search fail, and this tells so at a small part of the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from quarterdeck.scheduler.capacity import is_within_capacity
from quarterdeck.scheduler.cluster import Cluster
from quarterdeck.scheduler.job import Job
from quarterdeck.scheduler.joborder import QueuedJob, as_waiting_without
from quarterdeck.scheduler.nodeset import NodeSet
from quarterdeck.scheduler.replacing import Replacing
from quarterdeck.scheduler.room import Room
from quarterdeck.scheduler.step import Step
from quarterdeck.scheduler.task import Amounts, Shape, Task

__all__ = ["Forecast", "Prospect"]


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

    __slots__ = ("_cluster", "_replacing", "_room", "_slots", "_usable")

    def __init__(self, cluster: Cluster, replacing: Replacing, usable: NodeSet, room: Room) -> None:
        """``usable`` are the nodes for pods besides those of the victims, ``room`` the GPUs there are."""
        self._cluster: Final = cluster
        self._replacing: Final = replacing
        self._usable: Final = usable
        self._room: Final = room
        self._slots: dict[Shape, int] = {}

    def of(self, preemptor: QueuedJob, steps: Sequence[Step]) -> Prospect:
        """What becomes of the preemptor and of the victims."""
        shape = self._common_shape(steps)
        if shape is None:
            return _UNKNOWN
        evicted = _in_line_again(steps)
        if any(task.shape is not shape for queued in evicted for task in queued.tasks):
            return _UNKNOWN
        is_alike = preemptor.job.is_plain and all(task.shape is shape for task in preemptor.tasks)
        for step in steps:
            _charge(step.job, step.held, -1)
        placed: list[QueuedJob] = []
        is_possible = self._place(preemptor, steps, evicted, shape if is_alike else None, placed)
        for queued in placed:
            _charge(queued.job, queued.amounts, -1)
        for step in steps:
            _charge(step.job, step.held, 1)
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
        for queued in self._replacing.in_turn([preemptor, *evicted]):
            if queued is preemptor and shape is None:
                return self._has_gpus(preemptor, steps, taken)
            is_placed = is_within_capacity(queued.job, queued.amounts)
            if shape is not None:
                is_placed = is_placed and slots >= len(queued.tasks)
            if is_placed:
                slots -= len(queued.tasks)
                taken += queued.amounts[2]
                _charge(queued.job, queued.amounts, 1)
                placed.append(queued)
            elif queued is preemptor:
                return False
        return True

    def _has_gpus(self, preemptor: QueuedJob, steps: Sequence[Step], taken: float) -> bool:
        room = self._room.alone()
        for step in steps:
            room.add(step.tasks)
        return room.has_enough(len(preemptor.tasks), besides=taken)

    def _count_slots(self, shape: Shape, steps: Sequence[Step]) -> int:
        """Places for pods of a shape once the victims are gone."""
        slots = self._slots.get(shape)
        if slots is None:
            objections = self._cluster.predicates.objections_to
            slots = sum(node.copies(shape) for node in self._usable.nodes if not objections(shape, node))
            self._slots[shape] = slots
        nodes = {task.node for step in steps for task in step.tasks if task.node is not None}
        more = sum(node.copies(shape) for node in nodes if node not in self._usable)
        return slots + more + sum(len(step.tasks) for step in steps)

    def _common_shape(self, steps: Sequence[Step]) -> Shape | None:
        """The shape of all victims, if they have one and nothing speaks against the places they have."""
        if self._cluster.affinities.is_needed or not steps:
            return None
        shape = steps[0].tasks[0].shape
        if not shape.is_simple or not all(step.job.is_plain for step in steps):
            return None
        predicates = self._cluster.predicates
        for step in steps:
            for task in step.tasks:
                node = task.node
                if task.shape is not shape or node is None or not node.is_sound:
                    return None
                if predicates.objections_to(shape, node):
                    return None
        return shape


def _in_line_again(steps: Sequence[Step]) -> list[QueuedJob]:
    """The victims as they will wait once they are evicted."""
    gone: dict[Job, set[Task]] = {}
    for step in steps:
        gone.setdefault(step.job, set()).update(step.tasks)
    return [as_waiting_without(job, tasks) for job, tasks in gone.items()]


def _charge(job: Job, amounts: Amounts, sign: int) -> None:
    assert job.queue is not None
    job.queue.charge(amounts, job.is_preemptible, sign)
