"""Changes to a recorded cluster: what if."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from quarterdeck.api import Key
from quarterdeck.errors import SchemaError
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import (
    GpuShare,
    NodeInfo,
    PodGroupInfo,
    PodInfo,
    PriorityClassInfo,
    QueueInfo,
    Snapshot,
    TopologyConstraint,
)

from .gangname import gangs_named

Change: TypeAlias = Callable[[Snapshot], Snapshot]
"""Makes another cluster of one; raises ``SchemaError`` if there is nothing to change."""

_HOST: Final = "kubernetes.io/hostname"
_MEGABYTE: Final = 10**6
_AMOUNTS: Final = {"quota": "quota", "limit": "limit", "overQuotaWeight": "over_quota_weight"}


def add_nodes(like: str, count: int = 1, *, labels: Mapping[str, str] | None = None) -> Change:
    """So many empty nodes like one there is, named after it; ``labels`` are added to its own."""

    def change(snapshot: Snapshot) -> Snapshot:
        model = _find(snapshot.nodes, like, "node")
        taken = {node.name for node in snapshot.nodes}
        names = (f"{like}-{number}" for number in range(1, len(taken) + count + 1))
        free = [name for name in names if name not in taken][:count]
        made = tuple(_copy(model, name, labels or {}) for name in free)
        return replace(snapshot, nodes=(*snapshot.nodes, *made))

    return change


def _copy(model: NodeInfo, name: str, labels: Mapping[str, str]) -> NodeInfo:
    own = {_HOST: name} if _HOST in model.labels else {}
    return replace(
        model,
        name=name,
        labels={**model.labels, **own, **labels},
        is_ready=True,
        is_unschedulable=False,
        pressures=(),
    )


def remove_nodes(*names: str) -> Change:
    """Nodes are gone; their pods are made anew and wait."""

    def change(snapshot: Snapshot) -> Snapshot:
        for name in names:
            _find(snapshot.nodes, name, "node")
        return replace(
            snapshot,
            nodes=tuple(node for node in snapshot.nodes if node.name not in names),
            pods=tuple(
                replace(pod, node="", phase="Pending", gpu_groups=()) if pod.node in names else pod
                for pod in snapshot.pods
            ),
            bind_requests=tuple(each for each in snapshot.bind_requests if each.node not in names),
        )

    return change


def end_gangs(*names: str, namespace: str = "default") -> Change:
    """Gangs have ended, by any name that `gangs_named` knows: their pods are gone."""

    def change(snapshot: Snapshot) -> Snapshot:
        ended = {key for name in names for key in gangs_named(snapshot, name, namespace)}
        gone = {pod.key for pod in snapshot.pods if Key(pod.namespace, pod.pod_group) in ended}
        return replace(
            snapshot,
            pod_groups=tuple(each for each in snapshot.pod_groups if each.key not in ended),
            pods=tuple(pod for pod in snapshot.pods if pod.key not in gone),
            bind_requests=tuple(
                each for each in snapshot.bind_requests if Key(each.namespace, each.pod) not in gone
            ),
        )

    return change


def change_queue(name: str, fields: Mapping[str, Any]) -> Change:
    """Other shares of a queue: ``priority``, ``parentQueue``, or ``gpu.quota``, ``cpu.limit``, ….

    Amounts are those of the API: GPUs, thousandths of a core, megabytes; -1 is no bound.
    """

    def change(snapshot: Snapshot) -> Snapshot:
        changed = _find(snapshot.queues, name, "queue")
        for field, value in fields.items():
            changed = _with_field(changed, field, value)
        queues = tuple(changed if each.name == name else each for each in snapshot.queues)
        return replace(snapshot, queues=queues)

    return change


def _with_field(queue: QueueInfo, field: str, value: Any) -> QueueInfo:
    resource, _, amount = field.partition(".")
    try:
        if field == "priority":
            return replace(queue, priority=int(value))
        if field == "parentQueue":
            return replace(queue, parent=str(value))
        if resource in ("cpu", "memory", "gpu") and amount in _AMOUNTS:
            number = float(value)
            if resource == "memory" and amount != "overQuotaWeight" and number >= 0:
                number *= _MEGABYTE
            share = replace(getattr(queue, resource), **{_AMOUNTS[amount]: number})
            return replace(queue, **{resource: share})
    except ValueError as error:
        raise SchemaError(f"queue {queue.name}: {field} cannot be {value!r}: give a number") from error
    known = ", ".join(("priority", "parentQueue", "gpu.quota", "gpu.limit", "gpu.overQuotaWeight"))
    raise SchemaError(f"queue {queue.name} has no field {field}: take one of {known}, or of cpu or memory")


def submit_gang(
    name: str,
    *,
    queue: str,
    pods: int = 1,
    minimum: int | None = None,
    request: Resources | None = None,
    gpu_share: GpuShare | None = None,
    priority: int = 50,
    preemptibility: str = "",
    topology: TopologyConstraint | None = None,
    namespace: str = "default",
) -> Change:
    """A gang of equal pods that waits; all of them are needed unless ``minimum`` says otherwise."""

    def change(snapshot: Snapshot) -> Snapshot:
        _find(snapshot.queues, queue, "queue")
        if any((each.namespace, each.name) == (namespace, name) for each in snapshot.pod_groups):
            raise SchemaError(f"pod group {namespace}/{name} exists: choose another name")
        group = PodGroupInfo(
            namespace=namespace,
            name=name,
            uid=name,
            created=snapshot.now,
            queue=queue,
            min_member=pods if minimum is None else minimum,
            priority_class_name=_priority_class(priority),
            preemptibility=preemptibility,  # type: ignore[arg-type]  # checked where it is read
            topology_constraint=topology or TopologyConstraint(),
        )
        members = tuple(
            PodInfo(
                namespace=namespace,
                name=f"{name}-{number}",
                uid=f"{name}-{number}",
                created=snapshot.now,
                pod_group=name,
                request=request or Resources(),
                gpu_share=gpu_share,
            )
            for number in range(pods)
        )
        return replace(
            snapshot,
            pod_groups=(*snapshot.pod_groups, group),
            pods=(*snapshot.pods, *members),
            priority_classes=_with_priority(snapshot.priority_classes, priority),
        )

    return change


def _priority_class(priority: int) -> str:
    return f"what-if-{priority}"


def _with_priority(classes: Iterable[PriorityClassInfo], priority: int) -> tuple[PriorityClassInfo, ...]:
    made = PriorityClassInfo(name=_priority_class(priority), value=priority)
    return (*(each for each in classes if each.name != made.name), made)


def _find(found: Iterable[Any], name: str, what: str) -> Any:
    known = {each.name: each for each in found}
    if name not in known:
        few = ", ".join(sorted(known)[:5]) or "none"
        raise SchemaError(
            f"there is no {what} {name}: the snapshot has {few}" + ("…" if len(known) > 5 else "")
        )
    return known[name]
