"""What need not be looked at again: plans of sets that have not changed, children that are as they should be.

Every change of a child wakes its set, and a set may have thousands of them. What is remembered here makes
the look at all the others cheap. A set that is changed, a child that anybody touches, and a process that
starts anew are worked out and compared as if nothing were known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from quarterdeck.api import Resource
from quarterdeck.api.k8s import HorizontalPodAutoscaler, Service
from quarterdeck.operators.grove.logic.childplan import plan_autoscalers, plan_services
from quarterdeck.operators.grove.logic.cliqueplan import plan_scaling_groups, plan_standalone_cliques
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup, PodCliqueSet

R = TypeVar("R", bound=Resource)


class SetPlan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The children of a set that nothing but the set itself decides about."""

    services: Sequence[Service]
    autoscalers: Sequence[HorizontalPodAutoscaler]
    cliques: Sequence[PodClique]
    groups: Sequence[PodCliqueScalingGroup]


class SetPlans:
    """The last plan of each set."""

    def __init__(self) -> None:
        self._known: Final[dict[str, tuple[object, SetPlan]]] = {}

    def of(self, pcs: PodCliqueSet, hashes: Mapping[str, str]) -> SetPlan:
        """The plan of a set, the same one as long as the set does not change; hashes are of its templates."""
        metadata = pcs.metadata
        cause = (metadata.generation, metadata.labels, metadata.annotations)
        known = self._known.get(metadata.uid)
        if known is not None and known[0] == cause:
            return known[1]
        made = SetPlan(
            services=plan_services(pcs),
            autoscalers=plan_autoscalers(pcs),
            cliques=plan_standalone_cliques(pcs, hashes),
            groups=plan_scaling_groups(pcs),
        )
        self._known[metadata.uid] = (cause, made)
        return made

    def forget(self, uid: str) -> None:
        """A set is gone."""
        self._known.pop(uid, None)


class SettledChildren:
    """Children by the UID of their set."""

    def __init__(self) -> None:
        self._known: Final[dict[str, dict[tuple[type, str], tuple[object, object]]]] = {}

    def is_settled(self, owner: str, child: Resource, wanted: object) -> bool:
        """Whether a child was found to be what is wanted, and neither has changed since."""
        found = self._known.get(owner, {}).get((type(child), child.metadata.name))
        return found is not None and found == (wanted, _state(child))

    def settle(self, owner: str, child: Resource, wanted: object) -> None:
        """A child is what is wanted."""
        self._known.setdefault(owner, {})[type(child), child.metadata.name] = (wanted, _state(child))

    def others(self, owner: str, wanted: Sequence[R], present: Iterable[R]) -> list[R]:
        """What is wanted without those that are settled."""
        by_name = {child.metadata.name: child for child in present}
        return [
            each
            for each in wanted
            if (child := by_name.get(each.metadata.name)) is None or not self.is_settled(owner, child, each)
        ]

    def forget(self, owner: str) -> None:
        """A set is gone."""
        self._known.pop(owner, None)


def _state(child: Resource) -> object:
    """What changes whenever anything does that a set decides about; a status is none of that."""
    metadata = child.metadata
    return (
        metadata.uid,
        metadata.is_deleting,
        metadata.generation or metadata.resource_version,  # Services have no generation
        metadata.labels,
        metadata.annotations,
        metadata.owner_references,
    )
