"""The replicas of a scaling group, as their PodCliques are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from quarterdeck.api.condition import is_condition_true
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodClique

from .membership import clique_name_of, group_index_of, min_available_of


class GroupReplica(msgspec.Struct, frozen=True, kw_only=True):
    """One replica; PodCliques that are terminating are not among its members."""

    index: int
    members: tuple[PodClique, ...]
    is_complete: bool
    """All its cliques exist."""

    @property
    def is_scheduled(self) -> bool:
        """Every clique has its minimum on nodes."""
        return self.is_complete and all(
            is_condition_true(pclq.status.conditions, names.PODCLIQUE_SCHEDULED) for pclq in self.members
        )

    @property
    def is_available(self) -> bool:
        """And ready."""
        return self.is_scheduled and all(map(_is_ready, self.members))

    @property
    def is_breached(self) -> bool:
        """A clique has fewer pods than its minimum."""
        return any(
            is_condition_true(pclq.status.conditions, names.MIN_AVAILABLE_BREACHED) for pclq in self.members
        )

    def is_converged(self, generation_hash: str) -> bool:
        """All cliques are what the set says now."""
        return self.is_complete and all(
            pclq.status.current_pod_clique_set_generation_hash == generation_hash for pclq in self.members
        )

    def is_old(self, hashes: Mapping[str, str]) -> bool:
        """A clique was made from another template than the present one."""
        return any(
            pclq.metadata.labels.get(names.TEMPLATE_HASH) != hashes.get(clique_name_of(pclq))
            for pclq in self.members
        )

    @property
    def is_working(self) -> bool:
        """All its cliques have their minimum ready."""
        return self.is_complete and all(
            pclq.status.scheduled_replicas >= _least(pclq) and _is_ready(pclq) for pclq in self.members
        )


def _least(pclq: PodClique) -> int:
    return min_available_of(pclq.spec.replicas, pclq.spec.min_available)


def _is_ready(pclq: PodClique) -> bool:
    return pclq.status.ready_replicas >= _least(pclq)


def group_replicas(
    cliques: Iterable[PodClique], *, count: int, clique_names: Sequence[str]
) -> list[GroupReplica]:
    """The replicas 0 … ``count`` - 1 of a group; PodCliques of other indices are left out."""
    members: dict[int, list[PodClique]] = {index: [] for index in range(count)}
    for pclq in cliques:
        index = group_index_of(pclq)
        if index in members and not pclq.metadata.is_deleting:
            members[index].append(pclq)
    wanted = set(clique_names)
    return [
        GroupReplica(
            index=index,
            members=tuple(found),
            is_complete=wanted <= {clique_name_of(pclq) for pclq in found},
        )
        for index, found in members.items()
    ]
