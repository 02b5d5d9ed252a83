"""The grouper of Grove: a PodGang says which pods start together.

The owner of the group is the PodGang, not the PodCliqueSet above it: one PodCliqueSet has many gangs, and a
group goes with its gang.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import TopologyConstraint

from .default import constraint_of, default_plan, parse_preemptibility
from .field import items_at, object_at, text_at, whole_at
from .plan import NO_CONSTRAINT, GroupingError, GroupPlan, SubGroupPlan
from .workload import Reference, Workload

GROUP: Final = "grove.io"
POD_GANG: Final = GroupVersionKind("scheduler.grove.io", "v1alpha1", "PodGang")
POD_GANG_LABEL: Final = "grove.io/podgang"
TOPOLOGY_NAME_ANNOTATION: Final = "grove.io/topology-name"


def related_gang(workload: Workload) -> Reference:
    """The PodGang of a pod; raises ``GroupingError`` if the pod does not say."""
    pod = workload.pod
    name = pod.metadata.labels.get(POD_GANG_LABEL)
    if name is None:
        raise GroupingError(
            f"label for podgang name (key: {POD_GANG_LABEL}) not found in pod "
            f"{pod.metadata.namespace}/{pod.metadata.name}"
        )
    return Reference(POD_GANG, name, is_watched=True)


def group_gang(workload: Workload) -> GroupPlan:
    """One group for the PodGang, with a subgroup for each of its parts."""
    gang, top = workload.related, workload.top_owner
    assert gang is not None
    spec, topology = object_at(gang, "spec") or {}, _topology(gang)
    plan = _with_top_owner(_with_gang(default_plan(workload, gang), spec, topology), top)
    parents: dict[str, str] = {}
    configs = [
        _config(config, topology, parents)
        for config in items_at(spec, "topologyConstraintGroupConfigs") or ()
    ]
    parts = [
        _part(part, place, gang, topology, parents)
        for place, part in enumerate(items_at(spec, "podgroups") or ())
    ]
    return msgspec.structs.replace(
        plan,
        sub_groups=(*(config for config in configs if config is not None), *parts),
        min_member=sum(part.min_member for part in parts),
    )


def _topology(gang: DynamicObject) -> str:
    annotations = gang.metadata.annotations
    own = annotations.get(TOPOLOGY_NAME_ANNOTATION)
    return own if own is not None else annotations.get(names.TOPOLOGY_ANNOTATION, "")


def _with_gang(plan: GroupPlan, spec: Mapping[str, Any], topology: str) -> GroupPlan:
    constraint = _constraint(spec, topology)
    if constraint is not None:
        plan = msgspec.structs.replace(plan, constraint=constraint)
    priority = text_at(spec, "priorityClassName")
    return plan if priority is None else msgspec.structs.replace(plan, priority_class_name=priority)


def _with_top_owner(plan: GroupPlan, top: DynamicObject) -> GroupPlan:
    """Labels and annotations of the PodCliqueSet apply where the gang has none of its own."""
    labels = {**top.metadata.labels, **plan.labels}
    annotations = {**top.metadata.annotations, **plan.annotations}
    wished = constraint_of(annotations)
    constraint = TopologyConstraint(
        topology=plan.constraint.topology or wished.topology,
        required_topology_level=plan.constraint.required_topology_level or wished.required_topology_level,
        preferred_topology_level=plan.constraint.preferred_topology_level or wished.preferred_topology_level,
    )
    try:
        preemptibility = parse_preemptibility(labels.get(names.PREEMPTIBILITY_LABEL, plan.preemptibility))
    except ValueError as error:
        raise GroupingError(
            f"failed to parse preemptibility from top owner {plan.namespace}/{plan.name}. Err: {error}"
        ) from error
    return msgspec.structs.replace(
        plan,
        labels=labels,
        annotations=annotations,
        constraint=constraint,
        priority_class_name=labels.get(names.PRIORITY_CLASS_LABEL, plan.priority_class_name),
        preemptibility=preemptibility,
    )


def _config(config: Any, topology: str, parents: dict[str, str]) -> SubGroupPlan | None:
    """A subgroup of subgroups that share a constraint; nothing if it names none."""
    name = text_at(config, "name")
    if name is None:
        raise GroupingError("missing required 'name' field")
    members = items_at(config, "podGroupNames")
    if not members:
        return None
    parents.update((str(member), name) for member in members)
    return SubGroupPlan(name=name, constraint=_constraint(config, topology))


def _part(
    part: Any, place: int, gang: DynamicObject, topology: str, parents: Mapping[str, str]
) -> SubGroupPlan:
    namespace = gang.metadata.namespace
    try:
        name = text_at(part, "name")
        if name is None:
            raise GroupingError("missing required 'name' field")
        minimum = whole_at(part, "minReplicas")
        if minimum is None:
            raise GroupingError("missing required 'minReplicas' field")
        if minimum <= 0:
            raise GroupingError("invalid 'minReplicas' field. Must be greater than 0")
        return SubGroupPlan(
            name=name,
            min_member=minimum,
            parent=parents.get(name),
            pods=_pods(part, namespace),
            constraint=_constraint(part, topology),
        )
    except GroupingError as error:
        where = f"spec.podgroups[{place}] from PodGang {namespace}/{gang.metadata.name}"
        raise GroupingError(f"failed to parse {where}. Err: {error}") from error


def _pods(part: Any, namespace: str) -> frozenset[str]:
    references = items_at(part, "podReferences")
    if references is None:
        raise GroupingError("missing required 'podReferences' field")
    found = set()
    for reference in references:
        where, name = text_at(reference, "namespace"), text_at(reference, "name")
        if where is None:
            raise GroupingError("missing required 'namespace' field")
        if name is None:
            raise GroupingError("missing required 'name' field")
        if where != namespace:
            raise GroupingError(
                f"cross-namespace pod reference not allowed: pod {where}/{name} cannot be referenced "
                f"from PodGang in namespace {namespace}"
            )
        found.add(name)
    return frozenset(found)


def _constraint(holder: Any, topology: str) -> TopologyConstraint | None:
    pack = object_at(holder, "topologyConstraint", "packConstraint") or {}
    required, preferred = text_at(pack, "required"), text_at(pack, "preferred")
    if required is None and preferred is None:
        return None
    if not topology:
        raise GroupingError("topology name cannot be empty when topology constraints are defined")
    return NO_CONSTRAINT.evolve(
        topology=topology,
        required_topology_level=required or "",
        preferred_topology_level=preferred or "",
    )
