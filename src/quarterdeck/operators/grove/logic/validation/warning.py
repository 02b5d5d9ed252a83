"""What is allowed, and should be known."""

from __future__ import annotations

from collections.abc import Sequence

from quarterdeck.operators.grove.types import PodCliqueSetTemplate, TopologyLevel

from .place import places


def warnings_of(template: PodCliqueSetTemplate, levels: Sequence[TopologyLevel] = ()) -> list[str]:
    """Warnings about a set; ``levels`` are those of its topology, if it has constraints."""
    found = [
        "restartPolicy will be ignored, it will be set to Always"
        for clique in template.cliques
        if clique.spec.pod_spec.restart_policy
    ]
    rank = {level.domain: place for place, level in enumerate(levels)}
    for place in places(template):
        constraint = place.constraint
        if constraint is None:
            continue
        path = place.path
        if constraint.pack_domain:
            found.append(f"{path}.packDomain is deprecated; use {path}.pack.required instead")
        required, preferred = rank.get(constraint.required), rank.get(constraint.preferred)
        if required is not None and preferred is not None and preferred < required:
            found.append(f"{path}.pack.preferred is coarser than {path}.pack.required and is redundant")
    return found
