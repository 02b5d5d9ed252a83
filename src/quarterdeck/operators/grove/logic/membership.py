"""Who is who in a set: which cliques are in groups, and which clique a PodClique was made for."""

from __future__ import annotations

from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import (
    CliqueTemplate,
    PodClique,
    PodCliqueSetTemplate,
    ScalingGroupConfig,
)

from . import naming
from .label import set_index_of


def group_of(template: PodCliqueSetTemplate, clique: str) -> ScalingGroupConfig | None:
    """The group that a clique is in."""
    return next((group for group in template.pod_clique_scaling_groups if clique in group.clique_names), None)


def group_named(template: PodCliqueSetTemplate, name: str) -> ScalingGroupConfig | None:
    """The group of a name."""
    return next((group for group in template.pod_clique_scaling_groups if group.name == name), None)


def clique_named(template: PodCliqueSetTemplate, name: str) -> CliqueTemplate | None:
    """The clique of a name."""
    return next((clique for clique in template.cliques if clique.name == name), None)


def standalone_cliques(template: PodCliqueSetTemplate) -> list[CliqueTemplate]:
    """The cliques that are in no group, in order."""
    grouped = {name for group in template.pod_clique_scaling_groups for name in group.clique_names}
    return [clique for clique in template.cliques if clique.name not in grouped]


def min_available_of(spec_replicas: int, min_available: object) -> int:
    """The minimum of a clique; all of them where it is not said."""
    return min_available if isinstance(min_available, int) else spec_replicas


def clique_name_of(pclq: PodClique) -> str:
    """The name of the clique that a PodClique was made for; empty if its labels do not fit its name.

    Labels tell what stands before the name, so that a clique whose name ends like another is not confused.
    """
    labels, name = pclq.metadata.labels, pclq.metadata.name
    group = labels.get(names.SCALING_GROUP)
    if group is not None:
        prefix = naming.group_clique(group, group_index_of(pclq), "")
    else:
        prefix = naming.standalone_clique(labels.get(names.PART_OF, ""), set_index_of(labels), "")
    return name.removeprefix(prefix) if name.startswith(prefix) else ""


def group_index_of(pclq: PodClique) -> int:
    """The replica of its group that a PodClique belongs to; -1 for none."""
    text = pclq.metadata.labels.get(names.SCALING_GROUP_INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else -1


def is_on_delete(strategy: object) -> bool:
    """Whether an update strategy leaves running pods alone."""
    return bool(strategy) and getattr(strategy, "type", "") == names.ON_DELETE
