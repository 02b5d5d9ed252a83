"""What holds between PodGroups, their pods and queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, TypeAlias

from quarterdeck.api import Key, Quantity, Resource
from quarterdeck.api.invariant import Invariant, Objects
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import PodGroup, Queue

__all__ = ["INVARIANTS"]

Found: TypeAlias = Iterator[tuple[Resource, str, str]]
_LIMITS: Final = (("gpu", "nvidia.com/gpu", 1.0), ("cpu", "cpu", 1e-3), ("memory", "memory", 1e6))
"""Fields of a queue, the resource each limits, and what its unit is in the resource's."""


def _gangs(objects: Objects) -> Found:
    placed: Counter[Key] = Counter()
    for pod in objects.of(Pod):
        group = pod.metadata.annotations.get(names.POD_GROUP_ANNOTATION, "")
        if group and pod.spec.node_name:
            placed[Key(pod.metadata.namespace, group)] += 1
    for each in objects.of(PodGroup):
        wanted = each.spec.min_member or 1
        if not each.spec.sub_groups and 0 < placed[each.key] < wanted:
            problem = f"{placed[each.key]} of its pods have a node, and it needs {wanted} to work"
            yield each, problem, "see `quarterdeck scheduler explain podgroup` for what the others wait for"


def _limits(objects: Objects) -> Found:
    for queue in objects.of(Queue):
        resources = queue.spec.resources
        if not resources:
            continue
        for field, resource, unit in _LIMITS:
            limit = getattr(resources, field).limit or 0.0
            used = float(queue.status.allocated.get(resource, Quantity(0)).as_fraction())
            if limit >= 0 and used > limit * unit * (1 + 1e-9):
                problem = f"{used:g} {resource} are in use, and its limit is {limit * unit:g}"
                yield queue, problem, "raise the limit, or delete a workload of the queue"


INVARIANTS: Final = (
    Invariant(
        "kai/gang-minimum", "A gang runs with its minimum or not at all.", (PodGroup, Pod), _gangs, True
    ),
    Invariant("kai/queue-limit", "A queue never has more than its limit.", (Queue,), _limits, True),
)
