"""What a set asks of its scheduler, for backends that say what they can."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, Literal, TypeAlias

from quarterdeck.operators.grove.types import PodCliqueSet, TopologyConstraint
from quarterdeck.wire.fielderror import FieldError, forbidden

Capability: TypeAlias = Literal[
    "gang", "hierarchical-gang", "topology-required", "topology-preferred", "priority"
]
CAPABILITIES: Final[tuple[Capability, ...]] = (
    "gang",
    "hierarchical-gang",
    "topology-required",
    "topology-preferred",
    "priority",
)
_TEMPLATE: Final = "spec.template"


def missing_capabilities(pcs: PodCliqueSet, scheduler: str, can: Collection[str]) -> list[FieldError]:
    """Errors for what a scheduler cannot do, each capability once."""
    missing: dict[str, str] = {}
    for capability, path in _needs(pcs):
        if capability not in can:
            missing.setdefault(capability, path)
    return [
        forbidden(path, f'scheduler backend "{scheduler}" does not support {capability}')
        for capability, path in missing.items()
    ]


def _needs(pcs: PodCliqueSet) -> Iterator[tuple[Capability, str]]:
    template = pcs.spec.template
    cliques = f"{_TEMPLATE}.cliques"
    for index, clique in enumerate(template.cliques):
        if (clique.spec.min_available or 0) > 1:
            yield "gang", f"{cliques}[{index}].spec.minAvailable"
    if len(template.cliques) > 1:
        yield "hierarchical-gang", cliques
    if template.priority_class_name:
        yield "priority", f"{_TEMPLATE}.priorityClassName"
    yield from _of_constraint(template.topology_constraint, _TEMPLATE)
    for index, clique in enumerate(template.cliques):
        yield from _of_constraint(clique.topology_constraint, f"{cliques}[{index}]")
    for index, group in enumerate(template.pod_clique_scaling_groups):
        path = f"{_TEMPLATE}.podCliqueScalingGroups[{index}]"
        yield from _of_constraint(group.topology_constraint, path)


def _of_constraint(constraint: object, path: str) -> Iterator[tuple[Capability, str]]:
    if not isinstance(constraint, TopologyConstraint):
        return
    place = f"{path}.topologyConstraint"
    pack = constraint.pack
    if constraint.pack_domain or (pack and pack.required):
        yield "topology-required", place
    if pack and pack.preferred:
        yield "topology-preferred", place
