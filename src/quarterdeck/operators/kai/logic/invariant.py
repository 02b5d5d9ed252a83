"""What holds between PodGroups, their pods and queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from quarterdeck.api import Key, Quantity, Resource, Time
from quarterdeck.api.invariant import Invariant, Objects
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import PodGroup, Queue
from quarterdeck.wire.gostyle import quote

from .subgroup import mixed_case

Found: TypeAlias = Iterator[tuple[Resource, str, str]]
_LIMITS: Final = (("gpu", "nvidia.com/gpu", 1.0), ("cpu", "cpu", 1e-3), ("memory", "memory", 1e6))
"""Fields of a queue, the resource each limits, and what its unit is in the resource's."""


def _gangs(objects: Objects) -> Found:
    placed: Counter[Key] = Counter()
    waiting: set[Key] = set()
    for pod in objects.of(Pod):
        group = pod.metadata.annotations.get(names.POD_GROUP_ANNOTATION, "")
        if group and pod.spec.node_name:
            placed[Key(pod.metadata.namespace, group)] += 1
        elif group:
            waiting.add(Key(pod.metadata.namespace, group))
    for each in objects.of(PodGroup):
        wanted = each.spec.min_member or 1
        # Unless a pod waits, nobody is missing: others of the gang have ended, or its minimum was raised.
        if each.key in waiting and not each.spec.sub_groups and 0 < placed[each.key] < wanted:
            problem = f"{placed[each.key]} of its pods have a node, and it needs {wanted} to work"
            yield each, problem, "see `quarterdeck scheduler explain podgroup` for what the others wait for"


def _lowercase(objects: Objects) -> Found:
    """Groups that were stored before their names were judged; they cannot be changed in any other way."""
    for group in objects.of(PodGroup):
        if wrong := mixed_case(group.spec):
            problem = f"names of subgroups must be lowercase: {', '.join(map(quote, wrong))}"
            renamed = ", ".join(f"{quote(name)} to {quote(name.lower())}" for name in wrong)
            yield (
                group,
                problem,
                f"rename {renamed} in one write, and the label {names.SUB_GROUP_LABEL} of its pods",
            )


def _limits(objects: Objects) -> Found:
    last = _last_placement(objects)
    for queue in objects.of(Queue):
        resources = queue.spec.resources
        if not resources:
            continue
        for field, resource, unit in _LIMITS:
            limit = getattr(resources, field).limit or 0.0
            used = float(queue.status.allocated.get(resource, Quantity(0)).as_fraction())
            if limit >= 0 and used > limit * unit * (1 + 1e-9) and _is_to_blame(queue, last):
                problem = f"{used:g} {resource} are in use, and its limit is {limit * unit:g}"
                yield queue, problem, "raise the limit, or delete a workload of the queue"


def _is_to_blame(queue: Queue, last: Mapping[str, float]) -> bool:
    """Whether anything was placed since the limit is what it is: what ran before it was lowered may go on."""
    placed, edited = last.get(queue.metadata.name), _last_edit(queue)
    return placed is None or edited is None or placed > edited


def _last_edit(queue: Queue) -> float | None:
    """When somebody last wrote a queue that had been there before; its status does not count."""
    times = [
        each.time.timestamp()
        for each in queue.metadata.managed_fields
        if isinstance(each.time, Time) and not each.subresource
    ]
    return max(times, default=None) if queue.metadata.generation > 1 else None


def _last_placement(objects: Objects) -> dict[str, float]:
    """When a pod last got a node in each queue, or in one below it."""
    queue_of = {each.key: each.spec.queue for each in objects.of(PodGroup)}
    parents = {each.metadata.name: each.spec.parent_queue for each in objects.of(Queue)}
    last: dict[str, float] = {}
    for pod in objects.of(Pod):
        group = Key(pod.metadata.namespace, pod.metadata.annotations.get(names.POD_GROUP_ANNOTATION, ""))
        scheduled = (each for each in pod.status.conditions if each.type == "PodScheduled")
        since = next((each.last_transition_time for each in scheduled), None)
        if not pod.spec.node_name or not isinstance(since, Time):
            continue
        queue, seen = queue_of.get(group, ""), set[str]()
        while queue and queue not in seen:
            seen.add(queue)
            last[queue] = max(last.get(queue, 0.0), since.timestamp())
            queue = parents.get(queue, "")
    return last


INVARIANTS: Final = (
    Invariant(
        "kai/gang-minimum", "A gang runs with its minimum or not at all.", (PodGroup, Pod), _gangs, True
    ),
    Invariant("kai/lowercase-subgroups", "Names of subgroups are lowercase.", (PodGroup,), _lowercase),
    Invariant(
        "kai/queue-limit", "A queue is given no more than its limit.", (Queue, PodGroup, Pod), _limits, True
    ),
)
