"""Topologies: which one a set is about, and domains as keys of node labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from quarterdeck.api import UNSET, Maybe, UnsetType
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import (
    GangConstraint,
    PackConstraint,
    PodCliqueSetTemplate,
    TopologyConstraint,
    TopologyLevel,
)


class TopologyView(msgspec.Struct, frozen=True):
    """A topology that constraints are about."""

    name: str
    keys: Mapping[str, str]
    """Key of the node label by domain."""

    def constraint(self, given: Maybe[TopologyConstraint]) -> GangConstraint | None:
        """A constraint in keys of node labels; nothing if none of its domains exists."""
        if isinstance(given, UnsetType):
            return None
        required, preferred = self.keys.get(given.required, ""), self.keys.get(given.preferred, "")
        if not required and not preferred:
            return None
        return GangConstraint(pack_constraint=PackConstraint(required=required, preferred=preferred))


def constraints_of(template: PodCliqueSetTemplate) -> list[TopologyConstraint]:
    """All constraints of a set."""
    given = (
        template.topology_constraint,
        *(group.topology_constraint for group in template.pod_clique_scaling_groups),
        *(clique.topology_constraint for clique in template.cliques),
    )
    return [each for each in given if not isinstance(each, UnsetType)]


def constrained_place(template: PodCliqueSetTemplate) -> str:
    """Who has the first constraint, in words; empty if nobody has one."""
    if template.topology_constraint is not UNSET:
        return "PodCliqueSet"
    places = (
        *((f'PodClique "{each.name}"', each.topology_constraint) for each in template.cliques),
        *(
            (f'PodCliqueScalingGroup "{each.name}"', each.topology_constraint)
            for each in template.pod_clique_scaling_groups
        ),
    )
    return next((place for place, given in places if given is not UNSET), "")


def topology_name_of(template: PodCliqueSetTemplate, *, has_default: bool) -> str:
    """The topology of a set; ``has_default`` tells whether one is configured. Empty if none is named."""
    named = (each.topology_name for each in constraints_of(template) if each.topology_name)
    return next(named, names.DEFAULT_TOPOLOGY if has_default else "")


def unavailable_domains(template: PodCliqueSetTemplate, levels: Iterable[TopologyLevel]) -> list[str]:
    """Domains of constraints that the topology does not have, each once."""
    known = {level.domain for level in levels}
    wanted = (domain for each in constraints_of(template) for domain in (each.required, each.preferred))
    return list(dict.fromkeys(domain for domain in wanted if domain and domain not in known))


class ConfiguredLevel(msgspec.Struct, frozen=True):
    """A level of the configuration."""

    domain: str
    key: str


def configured_levels(levels: Sequence[ConfiguredLevel]) -> tuple[TopologyLevel, ...]:
    """The levels of the topology that the configuration asks for.

    In the well-known order where all domains are well known, and with hosts at the end.
    """
    chosen = list(levels)
    if all(level.domain in names.DOMAINS for level in chosen):
        chosen.sort(key=lambda level: names.DOMAINS.index(level.domain))
    made = [TopologyLevel(domain=level.domain, key=level.key) for level in chosen]
    if all(level.domain != names.HOST for level in made):
        made.append(TopologyLevel(domain=names.HOST, key=names.HOSTNAME_KEY))
    return tuple(made)
