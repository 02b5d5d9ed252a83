"""Objects of our own kinds as the scheduler's snapshot wants them; nodes and pods the core reads itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, cast

from quarterdeck.api import UNSET, Duration, Maybe, ObjectMeta, Time, to_dict, value_or
from quarterdeck.api.k8s import PriorityClass
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import (
    BindRequest,
    PodGroup,
    Queue,
    QueueResource,
    QueueResources,
    SubGroup,
    Topology,
    TopologyConstraint,
)
from quarterdeck.scheduler import snapshot as core
from quarterdeck.scheduler.deviceintake import read_allocation

DEFAULT_QUEUE_PRIORITY: Final = 100
_MEGABYTE: Final = 10**6
_Preemptibility: TypeAlias = Literal["", "preemptible", "non-preemptible"]


def queue_info(queue: Queue) -> core.QueueInfo:
    """A queue; a resource that it does not mention has quota and limit 0."""
    spec = queue.spec
    resources = spec.resources or QueueResources()
    return core.QueueInfo(
        name=queue.metadata.name,
        display_name=spec.display_name,
        parent=spec.parent_queue,
        priority=value_or(spec.priority, DEFAULT_QUEUE_PRIORITY),
        created=_created(queue.metadata),
        cpu=_share(resources.cpu),
        memory=_share(resources.memory, unit=_MEGABYTE),
        gpu=_share(resources.gpu),
        preempt_min_runtime=_seconds(spec.preempt_min_runtime),
        reclaim_min_runtime=_seconds(spec.reclaim_min_runtime),
    )


def _share(resource: QueueResource, unit: float = 1.0) -> core.QueueResource:
    def amount(value: Maybe[float]) -> float:
        number = value or 0.0
        return number if number == core.UNLIMITED else number * unit

    return core.QueueResource(
        quota=amount(resource.quota),
        limit=amount(resource.limit),
        over_quota_weight=resource.over_quota_weight or 0.0,
    )


def _seconds(duration: Maybe[Duration]) -> float | None:
    """A duration that cannot be read counts as none: one bad queue must not stop the scheduler."""
    if duration is UNSET:
        return None
    try:
        return duration.seconds
    except ValueError:
        return None


def pod_group_info(group: PodGroup) -> core.PodGroupInfo:
    """A pod group."""
    spec, annotations = group.spec, group.metadata.annotations
    preemptibility = spec.preemptibility or ""
    is_known = preemptibility in (names.PREEMPTIBLE, names.NON_PREEMPTIBLE)
    return core.PodGroupInfo(
        namespace=group.metadata.namespace,
        name=group.metadata.name,
        uid=group.metadata.uid,
        created=_created(group.metadata),
        queue=spec.queue,
        min_member=spec.min_member or 0,
        priority_class_name=spec.priority_class_name,
        preemptibility=cast("_Preemptibility", preemptibility if is_known else ""),
        mark_unschedulable=spec.mark_unschedulable is not False,
        scheduling_backoff=value_or(spec.scheduling_backoff, -1),
        topology_constraint=_constraint(spec.topology_constraint),
        subgroups=tuple(_subgroup(each) for each in spec.sub_groups),
        min_subgroup=value_or(spec.min_sub_group, None),
        last_start=timestamp_of(annotations, names.LAST_START_ANNOTATION),
        stale_since=timestamp_of(annotations, names.STALE_ANNOTATION),
        last_eviction=timestamp_of(annotations, names.LAST_EVICTION_ANNOTATION),
        preemption_delay=_seconds(spec.preemption_delay) or 0.0,
        staleness_grace_period=_seconds(spec.staleness_grace_period),
        scheduling_conditions=tuple(
            core.SchedulingConditionInfo(type=each.type, node_pool=each.node_pool, status=each.status)
            for each in group.status.scheduling_conditions
        ),
    )


def _subgroup(group: SubGroup) -> core.SubGroupInfo:
    constraint = group.topology_constraint
    return core.SubGroupInfo(
        name=group.name,
        min_member=group.min_member or 0,
        is_optional=group.min_member == 0,
        parent=value_or(group.parent, None),
        topology_constraint=_constraint(constraint) if constraint is not UNSET else None,
        min_subgroup=value_or(group.min_sub_group, None),
    )


def _constraint(constraint: TopologyConstraint) -> core.TopologyConstraint:
    return core.TopologyConstraint(
        topology=constraint.topology,
        required_level=constraint.required_topology_level,
        preferred_level=constraint.preferred_topology_level,
    )


def bind_request_info(request: BindRequest) -> core.BindRequestInfo:
    """A bind request."""
    return core.BindRequestInfo(
        namespace=request.metadata.namespace,
        name=request.metadata.name,
        pod=request.spec.pod_name,
        node=request.spec.selected_node,
        gpu_groups=tuple(request.spec.selected_gpu_groups),
        claims=tuple(
            (each.name, read_allocation(to_dict(each.allocation)))
            for each in request.spec.resource_claim_allocations
            if each.allocation is not UNSET
        ),
        phase=request.status.phase,
        failed_attempts=request.status.failed_attempts,
        backoff_limit=value_or(request.spec.backoff_limit, None),
    )


def priority_class_info(priority: PriorityClass) -> core.PriorityClassInfo:
    """A priority class."""
    return core.PriorityClassInfo(
        name=priority.metadata.name,
        value=priority.value or 0,
        is_global_default=priority.global_default is True,
    )


def topology_info(topology: Topology) -> core.TopologyInfo:
    """A topology."""
    return core.TopologyInfo(
        name=topology.metadata.name, levels=tuple(level.node_label for level in topology.spec.levels)
    )


def timestamp_of(annotations: Mapping[str, str], key: str) -> float | None:
    """A time kept in an annotation; nothing if it is missing or cannot be read."""
    text = annotations.get(key)
    if not text:
        return None
    try:
        return Time(text).timestamp()
    except ValueError:
        return None


def _created(metadata: ObjectMeta) -> float:
    return metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0
