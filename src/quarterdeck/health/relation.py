"""What is wrong between objects: a queue that is missing, pods that no node could ever hold, and the like."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from .field import plural
from .kind import GroupFacts, NodeFacts, PodFacts, Seen
from .problem import Finding, Subject

World: TypeAlias = Mapping[str, Mapping[str, Seen]]
"""What is kept of every object, by resource and key. A kind that cannot be read is absent."""

_START: Final = 60.0
_UNITS: Final = (("Gi", 2.0**30), ("Mi", 2.0**20))


def relations(world: World) -> list[Finding]:
    """Everything that only several objects together show."""
    pods: list[PodFacts] = _facts(world, "pods")
    groups = {f"{each.namespace}/{each.name}": each for each in _facts(world, "podgroups")}
    members: dict[str, list[PodFacts]] = defaultdict(list)
    for pod in pods:
        members[pod.gang].append(pod)
    return [
        *_too_large(world, pods, groups),
        *_missing_queues(world, groups, members),
        *_below_minimum(groups, members),
        *_unreachable_webhooks(world),
    ]


def _facts(world: World, name: str) -> list[Any]:
    return [each.facts for each in world.get(name, {}).values() if each.facts is not None]


def _too_large(world: World, pods: Sequence[PodFacts], groups: Mapping[str, GroupFacts]) -> Iterator[Finding]:
    """Gangs, or pods without one, of which one pod is larger than every node."""
    nodes: list[NodeFacts] = _facts(world, "nodes")
    judged: dict[tuple[tuple[str, float], ...], str] = {}
    told: set[str] = set()
    for pod in pods if nodes else ():
        if pod.requests and pod.requests not in judged:
            judged[pod.requests] = _excess(pod.requests, nodes)
        reason = judged.get(pod.requests, "")
        group = groups.get(pod.gang)
        if not reason or (group is not None and pod.gang in told):
            continue
        told.add(pod.gang)
        yield Finding(
            situation="no-node-fits", subject=_subject(pod, group), reason=reason, since=pod.created
        )


def _subject(pod: PodFacts, group: GroupFacts | None) -> Subject:
    if group is None:
        return Subject(kind="Pod", namespace=pod.namespace, name=pod.name)
    return Subject(kind="PodGroup", namespace=group.namespace, name=group.name, queue=group.queue)


def _excess(requests: Sequence[tuple[str, float]], nodes: Sequence[NodeFacts]) -> str:
    """Why no node could hold this even if it were empty; nothing if one could."""
    if any(all(node.allocatable.get(name, 0.0) >= amount for name, amount in requests) for node in nodes):
        return ""
    for name, amount in requests:
        largest = max(node.allocatable.get(name, 0.0) for node in nodes)
        if not largest:
            return f"a pod asks for {_amount(name, amount)}, and no node has any"
        if largest < amount:
            return (
                f"a pod asks for {_amount(name, amount)}, and the largest node has {_amount(name, largest)}"
            )
    wanted = ", ".join(_amount(name, amount) for name, amount in requests)
    return f"a pod asks for {wanted}, and no single node has all of that"


def _amount(name: str, amount: float) -> str:
    if name.endswith("/gpu"):
        return plural(amount, "GPU")
    if name == "cpu":
        return f"{amount:g} CPU"
    for unit, size in _UNITS if name in ("memory", "ephemeral-storage") else ():
        if amount >= size:
            return f"{amount / size:.4g}{unit} of {name}"
    return f"{amount:g} {name}"


def _missing_queues(
    world: World, groups: Mapping[str, GroupFacts], members: Mapping[str, Sequence[PodFacts]]
) -> Iterator[Finding]:
    queues = world.get("queues")
    if queues is None:
        return
    for key, group in groups.items():
        if group.queue and group.queue not in queues and members.get(key):
            subject = Subject(kind="PodGroup", namespace=group.namespace, name=group.name, queue=group.queue)
            since = min(pod.created for pod in members[key])
            reason = f"queue {group.queue} does not exist"
            yield Finding(
                situation="queue-missing", subject=subject, reason=reason, since=since, about=group.queue
            )
    for name, queue in queues.items():
        parent = queue.facts
        if parent and parent not in queues:
            subject = Subject(kind="Queue", name=name, queue=name)
            reason = f"its parent queue {parent} does not exist"
            yield Finding(situation="queue-parent-missing", subject=subject, reason=reason, about=parent)


def _below_minimum(
    groups: Mapping[str, GroupFacts], members: Mapping[str, Sequence[PodFacts]]
) -> Iterator[Finding]:
    """Gangs that have begun and of which too few pods work; those that wait whole are told as such."""
    for key, group in groups.items():
        pods = members.get(key, ())
        placed = [pod for pod in pods if pod.node]
        working = sum(pod.ready for pod in placed)
        # pods that have ended are not here: a gang that is finishing has fewer, and that is right
        if placed and working < min(group.minimum, len(pods)):
            subject = Subject(kind="PodGroup", namespace=group.namespace, name=group.name, queue=group.queue)
            reason = f"{working} of the {plural(group.minimum, 'pod')} that it needs are ready"
            newest = max(pod.created for pod in pods)
            yield Finding(
                situation="gang-below-minimum", subject=subject, reason=reason, since=newest, after=_START
            )


def _unreachable_webhooks(world: World) -> Iterator[Finding]:
    slices = world.get("endpointslices")
    if slices is None:
        return
    ready: dict[str, int] = defaultdict(int)
    for each in slices.values():
        service, count = each.facts
        ready[service] += count
    for resource, kind in (
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    ):
        for name, config in world.get(resource, {}).items():
            for service, is_needed in sorted(set(config.facts)):
                if not ready[service]:
                    yield Finding(
                        situation="webhook-unreachable" if is_needed else "webhook-ignored",
                        subject=Subject(kind=kind, name=name),
                        reason=f"nothing is ready behind service {service}",
                        about=service,
                    )
