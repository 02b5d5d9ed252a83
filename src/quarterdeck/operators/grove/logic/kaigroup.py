"""A PodGang in the words of KAI: one PodGroup, with a subgroup for each group of pods."""

from __future__ import annotations

from collections.abc import Mapping

from quarterdeck.api import UNSET, ObjectMeta, UnsetType, set_controller_reference
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import GangConstraint, PodGang
from quarterdeck.operators.kai.types import PodGroup, PodGroupSpec, SubGroup, TopologyConstraint

from .gangowner import MappingError
from .kinship import merged_owners

_KAI_LABELS = (names.KAI_NODE_POOL, names.KAI_QUEUE)


def pod_group_of(pod_gang: PodGang, queue: str, *, has_min_sub_group: bool = True) -> PodGroup:
    """The PodGroup of a gang; raises ``MappingError``.

    ``has_min_sub_group`` tells whether the installed KAI knows that field.
    """
    spec = pod_gang.spec
    topology = _Topology(pod_gang)
    parents: dict[str, str] = {}
    subgroups: list[SubGroup] = []
    for config in spec.topology_constraint_group_configs:
        if not config.pod_group_names:
            continue
        parents |= dict.fromkeys(config.pod_group_names, config.name)
        subgroups.append(
            SubGroup(
                name=config.name,
                min_sub_group=len(config.pod_group_names) if has_min_sub_group else UNSET,
                topology_constraint=topology.constraint(config.topology_constraint) or UNSET,
            )
        )
    for group in spec.podgroups:
        subgroups.append(
            SubGroup(
                name=group.name,
                min_member=group.min_replicas,
                parent=parents.get(group.name) or UNSET,
                topology_constraint=topology.constraint(group.topology_constraint) or UNSET,
            )
        )
    metadata = ObjectMeta(
        name=pod_gang.metadata.name,
        namespace=pod_gang.metadata.namespace,
        labels=pod_gang.metadata.labels,
        annotations=pod_gang.metadata.annotations,
    )
    return PodGroup(
        metadata=set_controller_reference(pod_gang, metadata),
        spec=PodGroupSpec(
            min_member=sum(group.min_replicas for group in spec.podgroups),
            queue=queue,
            priority_class_name=spec.priority_class_name,
            topology_constraint=topology.constraint(spec.topology_constraint) or TopologyConstraint(),
            sub_groups=tuple(subgroups),
        ),
    )


class _Topology:
    def __init__(self, pod_gang: PodGang) -> None:
        annotations = pod_gang.metadata.annotations
        self._name = annotations.get(names.TOPOLOGY_NAME) or annotations.get(names.KAI_TOPOLOGY, "")

    def constraint(self, given: GangConstraint | UnsetType) -> TopologyConstraint | None:
        """A constraint in the words of KAI; nothing where none is given."""
        pack = given.pack_constraint if given else UNSET
        if not pack or not (pack.required or pack.preferred):
            return None
        if not self._name:
            raise MappingError("topology name cannot be empty when topology constraints are defined")
        return TopologyConstraint(
            topology=self._name,
            required_topology_level=pack.required,
            preferred_topology_level=pack.preferred,
        )


def merged_group(present: PodGroup, wanted: PodGroup) -> PodGroup:
    """What is there, with what is wanted: KAI's own values and those of others stay.

    The very same object if nothing differs.
    """
    spec = present.spec.evolve(
        min_member=wanted.spec.min_member,
        priority_class_name=wanted.spec.priority_class_name,
        topology_constraint=wanted.spec.topology_constraint,
        sub_groups=wanted.spec.sub_groups,
    )
    old, new = present.metadata, wanted.metadata
    metadata = old.evolve(
        labels=_merged(old.labels, new.labels, keep=_KAI_LABELS),
        annotations=_merged(old.annotations, new.annotations),
        owner_references=merged_owners(old.owner_references, new.owner_references),
    )
    after = present.evolve(metadata=metadata, spec=spec)
    return present if after == present else after


def _merged(
    present: Mapping[str, str], wanted: Mapping[str, str], keep: tuple[str, ...] = ()
) -> dict[str, str]:
    return {
        **present,
        **{key: value for key, value in wanted.items() if key not in keep or key not in present},
    }
