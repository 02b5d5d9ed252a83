"""Which PodCliques start after which.

Order holds inside a gang. A clique of the base gang waits for all replicas of its parent that are in the base
gang; one of a scaled gang only for its parent in the same replica of the same group.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import CliqueTemplate, PodCliqueSet

from . import naming
from .membership import clique_named, group_of, min_available_of


class Parent(msgspec.Struct, frozen=True):
    """A PodClique whose pods are to be ready first."""

    name: str
    min_available: int
    """How many of its pods."""


def parents_of(pcs: PodCliqueSet, clique: str, *, replica: int, group_index: int = -1) -> list[Parent]:
    """The PodCliques that the one of ``clique`` starts after; ``group_index`` is its place in its group."""
    template = pcs.spec.template
    own = group_of(template, clique)
    is_scaled = own is not None and group_index >= own.min_available
    found: list[Parent] = []
    for name in _parent_names(pcs, clique):
        parent = clique_named(template, name)
        if parent is None:
            continue
        group = group_of(template, name)
        if is_scaled and group is not own:
            continue
        if group is None:
            full = [naming.standalone_clique(pcs.metadata.name, replica, name)]
        else:
            group_name = naming.scaling_group(pcs.metadata.name, replica, group.name)
            indices: Sequence[int] = [group_index] if is_scaled else range(group.min_available)
            full = [naming.group_clique(group_name, index, name) for index in indices]
        found += [Parent(each, _minimum(parent)) for each in full]
    return found


def _minimum(clique: CliqueTemplate) -> int:
    return min_available_of(clique.spec.replicas, clique.spec.min_available)


def _parent_names(pcs: PodCliqueSet, clique: str) -> Sequence[str]:
    template = pcs.spec.template
    order = [each.name for each in template.cliques]
    if clique not in order:
        return ()
    if template.clique_startup_type == names.IN_ORDER:
        place = order.index(clique)
        return order[place - 1 : place] if place else ()
    if template.clique_startup_type == names.EXPLICIT:
        return template.cliques[order.index(clique)].spec.starts_after
    return ()
