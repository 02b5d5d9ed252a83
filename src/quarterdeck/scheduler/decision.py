"""The output of a cycle: what is to be done, in order, and what became of every pod.

The list is complete: carrying the decisions out one after the other is all that is left to do. Events are
given as reason and message where the scheduler's text is part of the contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

import msgspec

from quarterdeck.api import Key
from quarterdeck.scheduler.device import Allocation
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.settings import Action


class PodState(Enum):
    """The state of a pod as the scheduler counts it."""

    PENDING = "Pending"
    GATED = "Gated"
    ALLOCATED = "Allocated"
    """Given a node in this cycle."""
    PIPELINED = "Pipelined"
    """Promised, in this cycle, a node whose resources are still being released."""
    BINDING = "Binding"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    # Members are singletons: hashing by identity is done in C, and the counting of pods lives on it.
    __hash__ = object.__hash__


class DeleteBindRequest(msgspec.Struct, frozen=True):
    """A bind request that failed for good, or whose node is gone."""

    bind_request: Key


class Bind(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Create a bind request for the pod."""

    pod: Key
    pod_group: Key
    node: str
    gpu_count: int = 0
    """``receivedGPU.count``."""
    gpu_portion: float = 1.0
    """``receivedGPU.portion``; below 1 for a shared GPU."""
    is_fraction: bool = False
    """``receivedResourceType`` is Fraction instead of Regular."""
    gpu_groups: tuple[str, ...] = ()
    """``selectedGPUGroups``."""
    is_mig: bool = False
    """``receivedResourceType`` is MigInstance."""
    claims: tuple[tuple[str, Allocation], ...] = ()
    """``resourceClaimAllocations``, by what the pod calls its claims."""


class Pipeline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tell that the pod will get this node; nothing is stored."""

    pod: Key
    pod_group: Key
    node: str


class Evict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Delete the pod."""

    pod: Key
    pod_group: Key
    node: str
    action: Action
    message: str
    """Of the ``Evict`` event on the victim's pod group."""
    preemptor: Key | None = None
    """The pod group that gets the room; none for stale gangs."""
    evicted_pods: int = 1
    """How many pods are evicted together for the same reason, this one included."""


class SetLastStart(msgspec.Struct, frozen=True):
    """The gang got all its pods: write ``kai.scheduler/last-start-timestamp``."""

    pod_group: Key
    time: float


class SetLastEviction(msgspec.Struct, frozen=True):
    """The gang lost pods to others: write ``kai.scheduler/last-eviction-timestamp``."""

    pod_group: Key
    time: float


class ClearUnschedulable(msgspec.Struct, frozen=True):
    """All pods of the gang are bound: remove its scheduling conditions, which no longer hold."""

    pod_group: Key


class MarkStale(msgspec.Struct, frozen=True):
    """The gang fell below its minimum: write ``kai.scheduler/stale-podgroup-timestamp``."""

    pod_group: Key
    time: float


class ClearStale(msgspec.Struct, frozen=True):
    """The gang is whole again or gone: remove the annotation."""

    pod_group: Key


class StaleJob(msgspec.Struct, frozen=True):
    """Event Normal ``StaleJob`` on the pod group."""

    pod_group: Key
    message: str


class NotReady(msgspec.Struct, frozen=True):
    """Event Normal ``NotReady`` on the pod group; no conditions."""

    pod_group: Key
    message: str


class QueueDetails(msgspec.Struct, frozen=True, kw_only=True):
    """``reasons[].details.queueDetails``: the numbers behind a refusal by a queue; -1 is unlimited."""

    name: str
    requested: Resources
    deserved: Resources
    allocated: Resources
    allocated_non_preemptible: Resources
    limits: Resources
    pod_group_requested: Resources
    pod_group_requested_non_preemptible: Resources


class UnschedulableReason(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of ``reasons[]``."""

    reason: str
    message: str
    queue: QueueDetails | None = None


class Unschedulable(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is ready and still has pending pods at the end of the cycle.

    On each pod of ``pods``: event Warning ``Unschedulable`` and, if ``marks_pods``, condition
    PodScheduled=False. On the pod group: event Normal ``Unschedulable`` and, if ``writes_condition``, the
    scheduling condition.
    """

    pod_group: Key
    message: str
    """Of the pod group's event and condition; starts with the node pool if the group backs off."""
    reasons: tuple[UnschedulableReason, ...]
    pods: tuple[tuple[Key, str], ...]
    """Each pending pod with its message, by name."""
    writes_condition: bool
    """Only while no pod of the job is placed."""
    marks_pods: bool
    """``spec.markUnschedulable``."""


Decision: TypeAlias = (
    DeleteBindRequest
    | Bind
    | Pipeline
    | Evict
    | SetLastStart
    | SetLastEviction
    | MarkStale
    | ClearStale
    | StaleJob
    | Unschedulable
    | ClearUnschedulable
    | NotReady
)


class PodOutcome(msgspec.Struct, frozen=True, gc=False):
    """What a pod is after the cycle, and where."""

    state: PodState
    node: str = ""


class QueueShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue is entitled to and what it has at the end of the cycle."""

    fair_share: Resources
    allocated: Resources
    allocated_non_preemptible: Resources
    requested: Resources


class CycleResult(msgspec.Struct, frozen=True, kw_only=True):
    """All that a cycle decided."""

    decisions: tuple[Decision, ...]
    pods: Mapping[Key, PodOutcome]
    """Every pod of this scheduler that belongs to a pod group."""
    queues: Mapping[str, QueueShare]
    """For metrics."""
    ignored_pods: tuple[Key, ...] = ()
    """Pods that name a subgroup which is no leaf of their group: they are not scheduled."""
