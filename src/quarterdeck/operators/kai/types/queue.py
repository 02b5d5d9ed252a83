"""Queue: a share of the cluster."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Column, Duration, Map, Maybe, Model, Quantity, Resource, Seq, omitempty
from quarterdeck.api.instant import OptionalTime
from quarterdeck.api.marker import ListMap
from quarterdeck.api.model import EMPTY_MAP
from quarterdeck.operators.kai import names


class QueueResource(Model):
    """The share of one resource."""

    quota: Maybe[float] = UNSET
    """What the queue is guaranteed; -1 for no bound, 0 unless set."""
    over_quota_weight: Maybe[float] = UNSET
    """Its weight, relative to its siblings, in dividing resources beyond all quotas; 0 unless set."""
    limit: Maybe[float] = UNSET
    """The limit that it never exceeds; -1 for no limit. Unset means 0: nothing runs."""


class QueueResources(Model):
    """Shares: GPUs in devices, CPU in thousandths of a core, memory in megabytes (10^6 bytes)."""

    gpu: QueueResource = omitempty(QueueResource())
    """Share of GPUs, in devices."""
    cpu: QueueResource = omitempty(QueueResource())
    """Share of CPU, in thousandths of a core."""
    memory: QueueResource = omitempty(QueueResource())
    """Share of memory, in megabytes."""


class QueueSpec(Model):
    """The place of the queue in the tree, and its share."""

    display_name: str = omitempty("")
    """Shown instead of the name in messages."""
    parent_queue: str = omitempty("")
    """The queue that this one is a part of; unset for a root."""
    resources: Maybe[QueueResources] = UNSET
    """Shares of GPUs, CPU and memory."""
    priority: Maybe[int] = UNSET
    """Queues of higher priority get resources over quota first; 100 unless set."""
    preempt_min_runtime: Maybe[Duration] = UNSET
    """How long a group of the queue runs before one of higher priority in the queue may evict it."""
    reclaim_min_runtime: Maybe[Duration] = UNSET
    """How long a group of the queue runs before another queue may evict it."""


class QueueCondition(Model):
    """A condition of the queue."""

    type: str
    """Orphan or OverQuota."""
    status: str
    last_probe_time: OptionalTime = UNSET
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class QueueStatus(Model):
    """What runs in the queue and in the queues below it."""

    conditions: Annotated[Seq[QueueCondition], ListMap("type")] = omitempty(())
    child_queues: Seq[str] = omitempty(())
    """Queues that have this one as their parent."""
    allocated: Map[str, Quantity] = omitempty(EMPTY_MAP)
    """Requests of pods of the queue that have a node."""
    allocated_non_preemptible: Map[str, Quantity] = omitempty(EMPTY_MAP)
    """The same, of groups that may not be evicted."""
    requested: Map[str, Quantity] = omitempty(EMPTY_MAP)
    """Requests of all pods of the queue that have not ended."""


class Queue(
    Resource,
    group=names.GROUP,
    version="v2",
    scope="Cluster",
    status=True,
    columns=[
        Column("Priority", ".spec.priority"),
        Column("Parent", ".spec.parentQueue"),
        Column("Children", ".status.childQueues"),
        Column("DisplayName", ".spec.displayName"),
    ],
):
    """A share of the cluster, for a team or for a department of teams."""

    spec: QueueSpec = omitempty(QueueSpec())
    status: QueueStatus = omitempty(QueueStatus())
