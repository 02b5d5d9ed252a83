"""The status of a PodGroup: what its pods use, and why they do not run."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Map, Maybe, Model, Quantity, Seq, omitempty
from quarterdeck.api.instant import OptionalTime
from quarterdeck.api.marker import Int32
from quarterdeck.api.model import EMPTY_MAP

ResourceList = Map[str, Quantity]


class PodGroupCondition(Model):
    """A condition of the group; only kept for older readers, never written."""

    type: str = omitempty("")
    status: str = omitempty("")
    transition_id: str = omitempty("")
    """A number that grows with every change, as text."""
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class QueueDetails(Model):
    """The numbers of the queue that a group did not fit into."""

    name: str = omitempty("")
    """Name of the queue."""
    queue_requested_resources: ResourceList = omitempty(EMPTY_MAP)
    """What all groups of the queue ask for."""
    queue_deserved_resources: ResourceList = omitempty(EMPTY_MAP)
    """The quota of the queue."""
    queue_allocated_resources: ResourceList = omitempty(EMPTY_MAP)
    """What groups of the queue have."""
    queue_allocated_non_preemptible_resources: ResourceList = omitempty(EMPTY_MAP)
    """What groups of the queue have that may not be evicted."""
    queue_resource_limits: ResourceList = omitempty(EMPTY_MAP)
    """What the queue never exceeds."""
    pod_group_requested_resources: ResourceList = omitempty(EMPTY_MAP)
    """What this group asks for."""
    pod_group_requested_non_preemptible_resources: ResourceList = omitempty(EMPTY_MAP)
    """What this group asks for, if it may not be evicted."""


class UnschedulableDetails(Model):
    """Details for programs; which field is set depends on the reason."""

    queue_details: Maybe[QueueDetails] = UNSET


class UnschedulableExplanation(Model):
    """One reason why the group does not run."""

    reason: str = omitempty("")
    message: str = omitempty("")
    details: Maybe[UnschedulableDetails] = UNSET


class SchedulingCondition(Model):
    """What the scheduler of a node pool last reported about the group."""

    type: str = omitempty("")
    """UnschedulableOnNodePool."""
    node_pool: str = omitempty("")
    """The node pool of the scheduler that reports this."""
    status: str = omitempty("")
    reason: str = omitempty("")
    """Unschedulable; see reasons."""
    message: str = omitempty("")
    reasons: Seq[UnschedulableExplanation] = omitempty(())
    transition_id: str = omitempty("")
    """A number that grows with every change, as text."""
    last_transition_time: OptionalTime = UNSET


class PodGroupResourcesStatus(Model):
    """What the pods of the group ask for and have."""

    allocated: ResourceList = omitempty(EMPTY_MAP)
    """Requests of the pods that have a node."""
    allocated_non_preemptible: ResourceList = omitempty(EMPTY_MAP)
    """The same, for a group that may not be evicted."""
    requested: ResourceList = omitempty(EMPTY_MAP)
    """Requests of all pods that have not ended."""


class PodGroupStatus(Model):
    """What is known of the group."""

    phase: str = omitempty("")
    """Pending, Running, Succeeded or Failed."""
    conditions: Seq[PodGroupCondition] = omitempty(())
    running: Annotated[Maybe[int], Int32] = UNSET
    """Pods that run."""
    succeeded: Annotated[Maybe[int], Int32] = UNSET
    """Pods that succeeded."""
    failed: Annotated[Maybe[int], Int32] = UNSET
    """Pods that failed."""
    pending: Annotated[Maybe[int], Int32] = UNSET
    """Pods that wait."""
    scheduling_conditions: Seq[SchedulingCondition] = omitempty(())
    resources_status: PodGroupResourcesStatus = omitempty(PodGroupResourcesStatus())
