"""What is written about a group that does not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api import UNSET, Quantity, Time
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import (
    QueueDetails,
    SchedulingCondition,
    UnschedulableDetails,
    UnschedulableExplanation,
)
from quarterdeck.scheduler import decision as core
from quarterdeck.scheduler.resource import Resources

from .amount import resource_list

_COMPARED: Final = ("type", "node_pool", "status", "reason", "message")
_UNLIMITED: Final = -1


def with_unschedulable(
    conditions: Sequence[SchedulingCondition],
    *,
    node_pool: str,
    message: str,
    reasons: Sequence[UnschedulableExplanation],
    now: Time,
) -> tuple[SchedulingCondition, ...] | None:
    """The conditions of a group that does not fit a node pool; nothing if the last one says just that.

    A node pool has one entry, and the latest entry is the last, with the highest transition ID.
    """
    last = conditions[-1] if conditions else None
    added = SchedulingCondition(
        type=names.UNSCHEDULABLE_ON_NODE_POOL,
        node_pool=node_pool,
        status="True",
        reason=names.UNSCHEDULABLE,
        message=message,
        reasons=tuple(reasons),
        transition_id=str(_number(last) + 1),
        last_transition_time=now,
    )
    if last is not None and all(getattr(last, field) == getattr(added, field) for field in _COMPARED):
        return None
    return (*(each for each in conditions if each.node_pool != node_pool), added)


def _number(condition: SchedulingCondition | None) -> int:
    text = condition.transition_id if condition is not None else ""
    return int(text) if text.isascii() and text.isdecimal() else 0


def explanations(reasons: Sequence[core.UnschedulableReason]) -> tuple[UnschedulableExplanation, ...]:
    """The reasons, for people and for programs."""
    return tuple(
        UnschedulableExplanation(
            reason=each.reason,
            message=each.message,
            details=UnschedulableDetails(queue_details=_details(each.queue)) if each.queue else UNSET,
        )
        for each in reasons
    )


def _details(queue: core.QueueDetails) -> QueueDetails:
    return QueueDetails(
        name=queue.name,
        queue_requested_resources=resource_list(queue.requested),
        queue_deserved_resources=_bounds(queue.deserved),
        queue_allocated_resources=resource_list(queue.allocated),
        queue_allocated_non_preemptible_resources=resource_list(queue.allocated_non_preemptible),
        queue_resource_limits=_bounds(queue.limits),
        pod_group_requested_resources=resource_list(queue.pod_group_requested),
        pod_group_requested_non_preemptible_resources=resource_list(
            queue.pod_group_requested_non_preemptible
        ),
    )


def _bounds(resources: Resources) -> dict[str, Quantity]:
    """Quotas or limits: -1 is no amount but the absence of a bound, and stays as it is."""
    shown = resource_list(resources, keep_zeros=True)
    amounts = {"cpu": resources.cpu, "memory": resources.memory, names.GPU_RESOURCE: resources.gpu}
    return {
        name: Quantity(_UNLIMITED) if amounts.get(name) == _UNLIMITED else amount
        for name, amount in shown.items()
    }
