"""What to write: the PodGroup of a plan, and the mark on its pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from quarterdeck.api import UNSET, Maybe, ObjectMeta
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import PodGroup, PodGroupSpec, SubGroup

from .plan import GroupPlan, SubGroupPlan

T = TypeVar("T")


def new_pod_group(plan: GroupPlan) -> PodGroup:
    """The PodGroup as it is created for the first of its pods."""
    pool = {plan.node_pool_label: plan.node_pool} if plan.node_pool is not None else {}
    return PodGroup(
        metadata=ObjectMeta(
            namespace=plan.namespace,
            name=plan.name,
            labels={**pool, **plan.labels},
            annotations=dict(plan.annotations),
            owner_references=(plan.owner,),
        ),
        spec=PodGroupSpec(
            min_member=plan.min_member if plan.min_member > 0 else UNSET,
            queue=plan.queue,
            priority_class_name=plan.priority_class_name,
            preemptibility=plan.preemptibility or UNSET,
            preemption_delay=_set(plan.preemption_delay),
            staleness_grace_period=_set(plan.staleness_grace_period),
            min_sub_group=_set(plan.min_sub_group),
            topology_constraint=plan.constraint,
            sub_groups=tuple(_sub_group(group) for group in plan.sub_groups),
        ),
    )


def changed_pod_group(old: PodGroup, plan: GroupPlan) -> PodGroup | None:
    """The PodGroup brought up to date; nothing if it is.

    What others decide once it exists stays: queue, back-off, marking, node pool. Labels and annotations are
    added and changed, never removed.
    """
    new = new_pod_group(plan)
    spec = new.spec.evolve(
        queue=old.spec.queue,
        mark_unschedulable=old.spec.mark_unschedulable,
        scheduling_backoff=old.spec.scheduling_backoff,
        unknown_fields=old.spec.unknown_fields,
    )
    metadata = old.metadata.evolve(
        labels=_merged_labels(old.metadata.labels, new.metadata.labels, plan.node_pool_label),
        annotations={**old.metadata.annotations, **new.metadata.annotations},
        owner_references=new.metadata.owner_references,
    )
    if spec == old.spec and metadata == old.metadata:
        return None
    return old.evolve(metadata=metadata, spec=spec)


def pod_patch(pod: Pod, plan: GroupPlan) -> dict[str, Any]:
    """The merge patch that puts a pod into its group; empty if it is there."""
    metadata: dict[str, Any] = {}
    if pod.metadata.annotations.get(names.POD_GROUP_ANNOTATION) != plan.name:
        metadata["annotations"] = {names.POD_GROUP_ANNOTATION: plan.name}
    group = plan.sub_group_of(pod.metadata.name)
    if group and pod.metadata.labels.get(names.SUB_GROUP_LABEL) != group:
        metadata["labels"] = {names.SUB_GROUP_LABEL: group}
    return {"metadata": metadata} if metadata else {}


def _sub_group(plan: SubGroupPlan) -> SubGroup:
    return SubGroup(
        name=plan.name,
        min_member=plan.min_member if plan.min_member > 0 or plan.is_optional else UNSET,
        min_sub_group=_set(plan.min_sub_group),
        parent=_set(plan.parent),
        topology_constraint=_set(plan.constraint),
    )


def _set(value: T | None) -> Maybe[T]:
    return value if value is not None else UNSET


def _merged_labels(old: Mapping[str, str], new: Mapping[str, str], node_pool_label: str) -> dict[str, str]:
    """All labels; those that tell node pool and queue were decided when the group was made."""
    decided = {node_pool_label, *({names.QUEUE_LABEL} & old.keys())}
    return {**old, **{key: value for key, value in new.items() if key not in decided}}
