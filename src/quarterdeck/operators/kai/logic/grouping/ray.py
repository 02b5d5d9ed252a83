"""The groupers of Ray: a gang of the head and the workers that a cluster needs at least.

A RayJob or RayService makes a RayCluster, and its status says which; the cluster says how many pods there
are. Each group of workers is a subgroup, and may want to be near each other.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import TopologyConstraint

from .default import constraint_of, default_plan
from .field import flag_at, items_at, object_at, text_at, whole_at
from .plan import GroupingError, GroupPlan, SubGroupPlan
from .workload import Reference, Workload

GROUP_LABEL: Final = "ray.io/group"
PRIORITY_LABEL: Final = "ray.io/priority-class-name"
HEAD: Final = "headgroup"
CLUSTER: Final = "RayCluster"


def related_to_job(workload: Workload) -> Reference:
    """The cluster of a RayJob; raises ``GroupingError`` as long as there is none."""
    return _cluster_of(workload.top_owner, ("status", "rayClusterName"))


def related_to_service(workload: Workload) -> Reference:
    """The cluster of a RayService: the one that serves, or the one that is to."""
    return _cluster_of(
        workload.top_owner,
        ("status", "activeServiceStatus", "rayClusterName"),
        ("status", "pendingServiceStatus", "rayClusterName"),
    )


def _cluster_of(owner: DynamicObject, *paths: tuple[str, ...]) -> Reference:
    for path in paths:
        name = text_at(owner, *path)
        if name:
            return Reference(GroupVersionKind(owner.gvk.group, owner.gvk.version, CLUSTER), name)
    raise GroupingError(
        f"failed to extract rayClusterName for {owner.metadata.namespace}/{owner.metadata.name} of kind "
        f"{owner.gvk.kind}. Please make sure that the ray-operator is up and a rayCluster child-object has "
        "been created"
    )


def group_above_cluster(workload: Workload) -> GroupPlan:
    """One group for what made the cluster."""
    assert workload.related is not None
    return _group(workload, workload.related)


def group_cluster(workload: Workload) -> GroupPlan:
    """One group for the cluster."""
    return _group(workload, workload.top_owner)


def _group(workload: Workload, cluster: DynamicObject) -> GroupPlan:
    owner, pod = workload.top_owner, workload.pod.metadata
    plan = default_plan(workload, owner)
    head = SubGroupPlan(
        name=HEAD,
        min_member=1,
        constraint=_constraint(object_at(cluster, "spec", "headGroupSpec"), "headGroupSpec"),
    )
    specs = items_at(cluster, "spec", "workerGroupSpecs") or ()
    workers = [_workers(spec, number) for number, spec in enumerate(specs)]
    groups = [head, *(each for each in workers if each is not None)]
    mine = pod.labels.get(GROUP_LABEL)
    return msgspec.structs.replace(
        plan,
        priority_class_name=owner.metadata.labels.get(PRIORITY_LABEL, plan.priority_class_name),
        min_member=sum(each.min_member for each in groups),
        sub_groups=tuple(
            msgspec.structs.replace(each, pods=frozenset({pod.name})) if each.name == mine else each
            for each in groups
        ),
    )


def _workers(spec: Any, number: int) -> SubGroupPlan | None:
    """A group of workers; nothing if it wants none."""
    if flag_at(spec, "suspended"):
        return None
    wanted, least = whole_at(spec, "replicas") or 0, whole_at(spec, "minReplicas") or 0
    if least > wanted:
        raise GroupingError(
            "ray-cluster replicas for a workerGroupsSpec can't be less than minReplicas. "
            f"Given {wanted} replicas and {least} minReplicas. "
            f"Please fix the replicas field for group number {number}"
        )
    if not wanted:
        return None
    hosts = whole_at(spec, "numOfHosts")
    name = text_at(spec, "groupName") or f"worker-group-{number}"
    return SubGroupPlan(
        name=name,
        min_member=(least or wanted) * (1 if hosts is None else hosts),
        constraint=_constraint(spec, f"workerGroupSpecs.{name}"),
    )


def _constraint(spec: Any, where: str) -> TopologyConstraint | None:
    annotations = object_at(spec, "template", "metadata", "annotations") or {}
    found = constraint_of(annotations)
    if not found.required_topology_level and not found.preferred_topology_level:
        return None
    if not found.topology:
        raise GroupingError(
            f"topology annotation ({names.TOPOLOGY_ANNOTATION}) is required for {where} when topology "
            "placement annotations are set"
        )
    return found
