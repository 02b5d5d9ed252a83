"""A step of the search for victims."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.task import Amounts, Task


class Step:
    """Pods of a job that are evicted together: one that is above the minimum, or all."""

    __slots__ = ("freed", "gpus", "held", "is_whole", "job", "shape", "tasks")

    def __init__(self, job: Job, tasks: list[Task]) -> None:
        self.job: Final = job
        self.tasks: Final = tasks
        self.held: Final = total_charge(tasks)
        """What their queue is charged for them."""
        freed: dict[NodeState, float] = {}
        is_whole = True
        for task in tasks:
            node, gpus = task.node, task.shape.gpu
            if task.shape.share is not None:
                gpus += task.shape.share.devices
                is_whole = False
            if node is not None:
                freed[node] = freed.get(node, 0) + gpus
        self.freed: Final = freed
        """GPUs that they leave on each node; for a part of a GPU at most the whole one."""
        self.gpus: Final = sum(freed.values())
        self.is_whole: Final = is_whole
        """Whether parts of GPUs play no part."""
        shape = tasks[0].shape
        self.shape: Final = shape if all(task.shape is shape for task in tasks) else None
        """Of all pods, if they have the same."""


class VictimOutcome(NamedTuple):
    """What becomes of the victims of a scenario."""

    lost: Collection[Task]
    """Pods that are left without a place."""
    disturbed: Collection[Task]
    """These, and those that have to move."""


def outcome_of(steps: Iterable[Step]) -> VictimOutcome:
    """What has become of the victims in memory."""
    tasks = [task for step in steps for task in step.tasks]
    return VictimOutcome(
        {task for task in tasks if task.state is PodState.RELEASING},
        {task for task in tasks if task.is_evicted},
    )


def total_charge(tasks: Iterable[Task]) -> Amounts:
    """What queues are charged for pods."""
    cpu: float = 0
    memory: float = 0
    gpu: float = 0
    for task in tasks:
        charge = task.charge
        cpu += charge[0]
        memory += charge[1]
        gpu += charge[2]
    return (cpu, memory, gpu)
