"""What a PodGroup should be, as a grouper sees it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from quarterdeck.api import Duration, OwnerReference
from quarterdeck.errors import QuarterdeckError
from quarterdeck.operators.kai.types import TopologyConstraint

NO_CONSTRAINT = TopologyConstraint()


class GroupingError(QuarterdeckError):
    """The group of a pod cannot be told; the message goes to the pod's events."""


class SubGroupPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A subgroup, and the pods that are known to be in it."""

    name: str
    min_member: int = 0
    """0 leaves it to the scheduler, which takes 1."""
    is_optional: bool = False
    """Whether nobody waits for its pods: a minimum of 0 in so many words."""
    min_sub_group: int | None = None
    """Children needed to start; all unless told."""
    parent: str | None = None
    constraint: TopologyConstraint | None = None
    pods: frozenset[str] = frozenset()


class GroupPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup."""

    namespace: str
    name: str
    owner: OwnerReference
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    node_pool_label: str
    node_pool: str | None
    """Value of that label of the pod."""
    queue: str
    priority_class_name: str
    preemptibility: str = ""
    min_member: int = 1
    """0 if the subgroups tell."""
    min_sub_group: int | None = None
    """Subgroups needed to start; all unless told."""
    preemption_delay: Duration | None = None
    staleness_grace_period: Duration | None = None
    constraint: TopologyConstraint = NO_CONSTRAINT
    sub_groups: tuple[SubGroupPlan, ...] = ()

    def sub_group_of(self, pod: str) -> str:
        """The subgroup that lists a pod; empty if none does."""
        return next((group.name for group in self.sub_groups if pod in group.pods), "")
