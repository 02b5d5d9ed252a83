"""All topology constraints of a set: where they stand, and from whom they inherit."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from quarterdeck.operators.grove.types import PodCliqueSetTemplate, TopologyConstraint

from .rules import TEMPLATE


class Place(msgspec.Struct, frozen=True):
    """A constraint and its surroundings."""

    kind: str
    """``PodCliqueSet``, ``PodCliqueScalingGroup`` or ``PodClique``."""
    name: str
    path: str
    constraint: TopologyConstraint | None
    parents: tuple[Place, ...] = ()
    """The nearest first."""

    @property
    def title(self) -> str:
        """How texts call it."""
        return f"{self.kind} '{self.name}'" if self.name else self.kind


def places(template: PodCliqueSetTemplate) -> Iterator[Place]:
    """The set, its groups, its cliques; also those without a constraint."""
    top = Place("PodCliqueSet", "", f"{TEMPLATE}.topologyConstraint", template.topology_constraint or None)
    yield top
    group_of: dict[str, Place] = {}
    for index, group in enumerate(template.pod_clique_scaling_groups):
        path = f"{TEMPLATE}.podCliqueScalingGroups[{index}].topologyConstraint"
        place = Place("PodCliqueScalingGroup", group.name, path, group.topology_constraint or None, (top,))
        group_of |= {name: place for name in group.clique_names if name not in group_of}
        yield place
    for index, clique in enumerate(template.cliques):
        path = f"{TEMPLATE}.cliques[{index}].topologyConstraint"
        parents = (group_of[clique.name], top) if clique.name in group_of else (top,)
        yield Place("PodClique", clique.name, path, clique.topology_constraint or None, parents)
