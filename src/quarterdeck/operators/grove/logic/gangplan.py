"""The PodGangs that a set should have.

A replica of a set is one base gang: its standalone cliques and the first ``minAvailable`` replicas of its
groups. Every further replica of a group is a gang of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from quarterdeck.api import UNSET, ObjectMeta, set_controller_reference
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import (
    CliqueTemplate,
    GangConstraint,
    GangGroup,
    GroupConstraint,
    NamespacedName,
    PodCliqueSet,
    PodGang,
    PodGangSpec,
    ScalingGroupConfig,
)

from . import naming
from .label import component_labels
from .membership import clique_named, min_available_of, standalone_cliques
from .topology import TopologyView


class GroupPlan(msgspec.Struct, frozen=True):
    """The pods of one PodClique in a gang."""

    name: str
    min_replicas: int
    constraint: GangConstraint | None = None


class GangPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One gang."""

    name: str
    replica: int
    groups: tuple[GroupPlan, ...]
    constraint: GangConstraint | None = None
    group_constraints: tuple[GroupConstraint, ...] = ()
    topology_name: str = ""
    """Set if any of the constraints is."""


def plan_gangs(
    pcs: PodCliqueSet, group_replicas: Mapping[str, int], topology: TopologyView | None = None
) -> list[GangPlan]:
    """All gangs of a set; ``group_replicas`` are those of the groups that exist, by full name."""
    plan = _Planner(pcs, topology)
    return [gang for replica in range(pcs.spec.replicas) for gang in plan.gangs(replica, group_replicas)]


class _Planner:
    def __init__(self, pcs: PodCliqueSet, topology: TopologyView | None) -> None:
        self._name = pcs.metadata.name
        self._template = template = pcs.spec.template
        self._topology = topology
        self._standalone = standalone_cliques(template)
        self._grouped = [
            (
                group,
                [each for name in group.clique_names if (each := clique_named(template, name)) is not None],
            )
            for group in template.pod_clique_scaling_groups
        ]
        self._set_constraint = self._constraint(template)

    def _constraint(self, holder: object) -> GangConstraint | None:
        given = getattr(holder, "topology_constraint", UNSET)
        return self._topology.constraint(given) if self._topology is not None else None

    def gangs(self, replica: int, group_replicas: Mapping[str, int]) -> Iterator[GangPlan]:
        yield self._base(replica)
        for group, cliques in self._grouped:
            full = naming.scaling_group(self._name, replica, group.name)
            for index in range(group.min_available, group_replicas.get(full, group.replicas)):
                yield self._gang(
                    naming.scaled_gang(full, index, group.min_available),
                    replica,
                    self._members(full, index, cliques),
                    self._constraint(group) or self._set_constraint,
                )

    def _base(self, replica: int) -> GangPlan:
        groups = [
            self._group(naming.standalone_clique(self._name, replica, clique.name), clique)
            for clique in self._standalone
        ]
        near: list[GroupConstraint] = []
        for group, cliques in self._grouped:
            full = naming.scaling_group(self._name, replica, group.name)
            for index in range(group.min_available):
                members = self._members(full, index, cliques)
                groups += members
                near += self._near(group, f"{full}-{index}", members)
        return self._gang(
            naming.base_gang(self._name, replica), replica, groups, self._set_constraint, tuple(near)
        )

    def _near(
        self, group: ScalingGroupConfig, name: str, members: Sequence[GroupPlan]
    ) -> list[GroupConstraint]:
        constraint = self._constraint(group)
        if constraint is None:
            return []
        names_of = tuple(member.name for member in members)
        return [GroupConstraint(name=name, pod_group_names=names_of, topology_constraint=constraint)]

    def _members(self, group: str, index: int, cliques: Sequence[CliqueTemplate]) -> list[GroupPlan]:
        return [self._group(naming.group_clique(group, index, clique.name), clique) for clique in cliques]

    def _group(self, name: str, clique: CliqueTemplate) -> GroupPlan:
        least = min_available_of(clique.spec.replicas, clique.spec.min_available)
        return GroupPlan(name, least, self._constraint(clique))

    def _gang(
        self,
        name: str,
        replica: int,
        groups: Sequence[GroupPlan],
        constraint: GangConstraint | None,
        near: tuple[GroupConstraint, ...] = (),
    ) -> GangPlan:
        is_constrained = constraint is not None or near or any(each.constraint for each in groups)
        return GangPlan(
            name=name,
            replica=replica,
            groups=tuple(groups),
            constraint=constraint,
            group_constraints=near,
            topology_name=self._topology.name if is_constrained and self._topology is not None else "",
        )


def mirrored(values: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations of a set that its gangs have, too: all that are not Grove's."""
    return {
        key: value
        for key, value in values.items()
        if not key.startswith(names.PREFIX) and key != names.HASH_VERSION
    }


def gang_object(
    pcs: PodCliqueSet, plan: GangPlan, *, scheduler: str, pods: Mapping[str, Sequence[str]]
) -> PodGang:
    """The object of a gang, as it is applied; ``pods`` are the names of its pods by PodClique.

    ``scheduler`` is the backend that owns it; empty leaves open whose it is.
    """
    annotations = mirrored(pcs.metadata.annotations)
    if plan.topology_name:
        annotations[names.TOPOLOGY_NAME] = plan.topology_name
    metadata = ObjectMeta(
        name=plan.name,
        namespace=pcs.metadata.namespace,
        labels={
            **mirrored(pcs.metadata.labels),
            **component_labels(pcs.metadata.name, names.PODGANG_COMPONENT),
            **({names.SCHEDULER_NAME: scheduler} if scheduler else {}),
        },
        annotations=annotations,
    )
    spec = PodGangSpec(
        podgroups=tuple(
            GangGroup(
                name=group.name,
                min_replicas=group.min_replicas,
                pod_references=tuple(
                    NamespacedName(namespace=pcs.metadata.namespace, name=pod)
                    for pod in sorted(pods.get(group.name, ()))
                ),
                topology_constraint=group.constraint or UNSET,
            )
            for group in plan.groups
        ),
        topology_constraint=plan.constraint or UNSET,
        topology_constraint_group_configs=plan.group_constraints,
        priority_class_name=pcs.spec.template.priority_class_name,
    )
    return PodGang(metadata=set_controller_reference(pcs, metadata), spec=spec)
