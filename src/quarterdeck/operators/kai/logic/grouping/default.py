"""The grouper of workloads that need no other: one group for all pods of the top owner.

The others begin with its plan and change what is special about their kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import yaml

from quarterdeck.api import Duration, DynamicObject, owner_reference
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import TopologyConstraint
from quarterdeck.wire.gostyle import quote

from .plan import GroupingError, GroupPlan
from .workload import KindDefault, Workload

_NOT_INHERITED: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
"""kubectl's copy of the owner would make kubectl take the PodGroup for the owner."""
_PREEMPTIBILITIES: Final = ("", names.PREEMPTIBLE, names.NON_PREEMPTIBLE)


def group_by_owner(workload: Workload) -> GroupPlan:
    """One group for the top owner; every owner on the way may name priority and preemptibility."""
    return default_plan(workload, workload.top_owner, owners=workload.owners)


def default_plan(
    workload: Workload,
    owner: DynamicObject,
    *,
    owners: Sequence[DynamicObject] = (),
    priority: str = names.TRAIN,
) -> GroupPlan:
    """One group for ``owner``.

    ``owners`` are asked for priority and preemptibility, by default ``owner`` alone; ``priority`` is the
    class if nobody names one that exists.
    """
    asked = owners or (owner,)
    return GroupPlan(
        namespace=workload.pod.metadata.namespace,
        name=group_name(owner.metadata.name, owner.metadata.uid),
        owner=owner_reference(owner),
        labels=_labels(workload, owner),
        annotations=_annotations(workload, owner),
        node_pool_label=workload.node_pool_label,
        node_pool=workload.node_pool,
        queue=_queue(workload, owner),
        priority_class_name=_priority_class(workload, asked) or priority,
        preemptibility=_preemptibility(workload, asked),
        preemption_delay=_duration(workload, asked, names.PREEMPTION_DELAY_ANNOTATION, may_be_negative=False),
        staleness_grace_period=_duration(workload, asked, names.STALENESS_GRACE_PERIOD_ANNOTATION),
        constraint=constraint_of(owner.metadata.annotations),
    )


def group_name(*parts: str) -> str:
    """The name of a group: what it stands for, after a prefix."""
    return "-".join(("pg", *parts))


def constraint_of(annotations: Mapping[str, str]) -> TopologyConstraint:
    """The constraint that annotations ask for."""
    return TopologyConstraint(
        topology=annotations.get(names.TOPOLOGY_ANNOTATION, ""),
        required_topology_level=annotations.get(names.TOPOLOGY_REQUIRED_ANNOTATION, ""),
        preferred_topology_level=annotations.get(names.TOPOLOGY_PREFERRED_ANNOTATION, ""),
    )


def minimum_of(annotations: Mapping[str, str], whose: str) -> int | None:
    """The minimum that an annotation asks for; raises ``GroupingError`` if it is no positive number."""
    text = annotations.get(names.MIN_MEMBER_ANNOTATION)
    if not text:
        return None
    where = f"invalid {names.MIN_MEMBER_ANNOTATION} annotation on {whose}"
    try:
        minimum = int(text)
    except ValueError as error:
        raise GroupingError(f"{where}: {quote(text)} is no whole number") from error
    if minimum < 1:
        raise GroupingError(f"{where}: value {minimum} must be >= 1")
    return minimum


def parse_preemptibility(text: str) -> str:
    """A value of the label; raises ``ValueError`` for any other text."""
    if text not in _PREEMPTIBILITIES:
        raise ValueError(f"invalid preemptibility value: {text}")
    return text


def _labels(workload: Workload, owner: DynamicObject) -> dict[str, str]:
    user = _only(workload.pod.metadata.labels, names.USER_LABEL)
    return {**user, **owner.metadata.labels}


def _annotations(workload: Workload, owner: DynamicObject) -> dict[str, str]:
    user = _only(workload.pod.metadata.annotations, names.USER_LABEL)
    inherited = {key: value for key, value in owner.metadata.annotations.items() if key not in _NOT_INHERITED}
    return {**user, names.TOP_OWNER_ANNOTATION: _owner_text(owner), **inherited}


def _only(values: Mapping[str, str], key: str) -> dict[str, str]:
    return {key: values[key]} if key in values else {}


def _owner_text(owner: DynamicObject) -> str:
    kind = owner.gvk
    described = {
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "group": kind.group,
        "version": kind.version,
        "kind": kind.kind,
    }
    return str(yaml.safe_dump(described, sort_keys=False))


def _queue(workload: Workload, owner: DynamicObject) -> str:
    labels, own = owner.metadata.labels, workload.pod.metadata.labels
    if names.QUEUE_LABEL in labels:
        return labels[names.QUEUE_LABEL]
    if names.QUEUE_LABEL in own:
        return own[names.QUEUE_LABEL]
    project = labels.get(names.PROJECT_LABEL, own.get(names.PROJECT_LABEL, ""))
    if not project:
        return names.DEFAULT_QUEUE
    pool = workload.node_pool
    return f"{project}-{pool}" if pool is not None else project


def _priority_class(workload: Workload, owners: Sequence[DynamicObject]) -> str:
    """The first class that is named and exists; what an owner does not name, the pod may."""
    pod = workload.pod
    named = (
        owner.metadata.labels.get(names.PRIORITY_CLASS_LABEL)
        or pod.metadata.labels.get(names.PRIORITY_CLASS_LABEL)
        or pod.spec.priority_class_name
        for owner in owners
    )
    defaults = (default.priority_name for default in _defaults(workload, owners))
    return next((name for name in (*named, *defaults) if name in workload.priority_classes), "")


def _preemptibility(workload: Workload, owners: Sequence[DynamicObject]) -> str:
    objects = (*(owner.metadata for owner in owners), workload.pod.metadata)
    for metadata in objects:
        label = metadata.labels.get(names.PREEMPTIBILITY_LABEL)
        if label in _PREEMPTIBILITIES:
            return label
    for default in _defaults(workload, owners):
        wanted = default.preemptibility.lower()
        if wanted and wanted in _PREEMPTIBILITIES:
            return wanted
    return ""


def _duration(
    workload: Workload, owners: Sequence[DynamicObject], annotation: str, *, may_be_negative: bool = True
) -> Duration | None:
    """The first span of time that an owner or the pod names; what cannot be read does not count."""
    for metadata in (*(owner.metadata for owner in owners), workload.pod.metadata):
        try:
            found = Duration(metadata.annotations[annotation])
            is_fitting = found.seconds >= 0 or may_be_negative
        except (KeyError, ValueError):
            continue
        if is_fitting:
            return found
    return None


def _defaults(workload: Workload, owners: Sequence[DynamicObject]) -> Iterable[KindDefault]:
    """The defaults for the kinds of the owners; those for a kind of any group come second."""
    by_kind = {(default.group, default.type_name): default for default in workload.kind_defaults}
    for owner in owners:
        kind = owner.gvk
        found = by_kind.get((kind.group, kind.kind)) or by_kind.get(("", kind.kind))
        if found is not None:
            yield found
