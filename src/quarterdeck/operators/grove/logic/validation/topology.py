"""The rules of topology constraints when a set is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodCliqueSetTemplate, TopologyLevel
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, required

from .place import Place, places
from .rules import TEMPLATE, Rules

_OFF: Final = "topology constraints are not allowed when Topology Aware Scheduling is disabled"
_NO_NAME: Final = "topologyName is required when topologyConstraint is set and cannot be inherited"
_NAMES_DIFFER: Final = (
    "all topologyConstraint.topologyName values within a PodCliqueSet "  # one text, cut for its length
    "must match in the current implementation"
)
_OLD_WORD: Final = "packDomain is deprecated and cannot be used on new workloads; use pack.required"


class TopologyVerdict(msgspec.Struct, frozen=True):
    """What can be said before the topology is read."""

    name: str = ""
    """The topology to read; empty if there is nothing to check against one."""
    errors: tuple[FieldError, ...] = ()


def resolve_topology(template: PodCliqueSetTemplate, rules: Rules) -> TopologyVerdict:
    """Which topology the constraints of a new set are about, and what is wrong with them whatever it says."""
    constrained = [place for place in places(template) if place.constraint is not None]
    if not constrained:
        return TopologyVerdict()
    errors: list[FieldError] = []
    if not rules.has_topology:
        errors += [invalid(place.path, place.constraint, _OFF) for place in constrained]
    if not rules.has_default_topology:
        errors += [
            forbidden(f"{place.path}.packDomain", _OLD_WORD)
            for place in constrained
            if place.constraint is not None and place.constraint.pack_domain
        ]
    if not rules.has_topology:
        return TopologyVerdict(errors=tuple(errors))
    chosen: dict[str, None] = {}
    for place in constrained:
        own, inherited = _own_name(place), _inherited_name(place)
        if own and inherited and own != inherited:
            errors.append(invalid(f"{place.path}.topologyName", own, _NAMES_DIFFER))
        elif own or inherited:
            chosen[own or inherited] = None
        elif not rules.has_default_topology:
            errors.append(required(f"{place.path}.topologyName", _NO_NAME))
    if len(chosen) > 1:
        errors += [
            invalid(f"{place.path}.topologyName", _own_name(place), _NAMES_DIFFER)
            for place in constrained
            if _own_name(place)
        ]
    if errors:
        return TopologyVerdict(errors=tuple(errors))
    return TopologyVerdict(next(iter(chosen), names.DEFAULT_TOPOLOGY if rules.has_default_topology else ""))


def _inherited_name(place: Place) -> str:
    """The topology that the nearest constraint above names."""
    return next((name for name in map(_own_name, place.parents) if name), "")


def _own_name(place: Place) -> str:
    return place.constraint.topology_name if place.constraint is not None else ""


def unknown_topology(name: str) -> FieldError:
    """The topology is not there."""
    path = f"{TEMPLATE}.topologyConstraint.topologyName"
    return invalid(path, name, f'ClusterTopologyBinding "{name}" not found')


def check_domains(template: PodCliqueSetTemplate, levels: Sequence[TopologyLevel]) -> list[FieldError]:
    """What is wrong with the constraints of a new set, given the levels of their topology."""
    domains = [level.domain for level in levels]
    constrained = [place for place in places(template) if place.constraint is not None]
    by_kind = sorted(constrained, key=lambda place: place.kind == "PodCliqueScalingGroup")
    errors = [error for place in by_kind for error in _check_known(place, domains)]
    if errors:
        return errors
    rank = {domain: place for place, domain in enumerate(domains)}
    return [
        error
        for place in constrained
        for parent in place.parents
        if parent.constraint is not None
        for error in _check_nesting(parent, place, rank)
    ]


def _check_known(place: Place, domains: Sequence[str]) -> list[FieldError]:
    constraint = place.constraint
    assert constraint is not None
    pack = constraint.pack or None
    given = (
        ("packDomain", constraint.pack_domain or ""),
        ("pack.required", (pack and pack.required) or ""),
        ("pack.preferred", (pack and pack.preferred) or ""),
    )
    known = " ".join(domains)
    return [
        invalid(
            f"{place.path}.{field}",
            domain,
            f"topology domain '{domain}' does not exist in cluster topology [{known}]",
        )
        for field, domain in given
        if domain and domain not in domains
    ]


def _check_nesting(parent: Place, child: Place, rank: dict[str, int]) -> list[FieldError]:
    above, below = parent.constraint, child.constraint
    assert above is not None
    assert below is not None
    errors: list[FieldError] = []
    for path, outer, inner in (
        (parent.path, above.required, below.required),
        (f"{parent.path}.pack.preferred", above.preferred, below.preferred),
    ):
        if outer and inner and rank[outer] > rank[inner]:
            text = (
                f"{parent.title} topology constraint domain '{outer}' is narrower than "
                f"{child.title} topology constraint domain '{inner}'"
            )
            errors.append(invalid(path, outer, text))
    return errors
