"""Whether a clique or a group has fewer pods than its minimum, and since when that counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api import Condition, Time
from quarterdeck.api.condition import find_condition
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup

from .podstate import PodCount
from .verdict import Verdict

_SETTLING: Final = 5.0
"""Seconds after creation in which a condition takes its first form."""
_UPDATING: Final = ("Unknown", "UpdateInProgress", "Update is in progress")


def scheduled_verdict(least: int, count: PodCount) -> Verdict:
    """Whether a PodClique has its minimum of ``least`` on nodes."""
    type, numbers = names.PODCLIQUE_SCHEDULED, f"expected at least: {least}, found: {count.scheduled}"
    if count.scheduled >= least:
        return Verdict(type, "True", "SufficientScheduledPods", f"Sufficient scheduled pods found. {numbers}")
    return Verdict(type, "False", "InsufficientScheduledPods", f"Insufficient scheduled pods. {numbers}")


def breach_verdict(least: int, count: PodCount, *, is_updating: bool) -> Verdict:
    """Whether a PodClique has fewer pods than its minimum of ``least``."""
    type = names.MIN_AVAILABLE_BREACHED
    if is_updating:
        return Verdict(type, *_UPDATING)
    if count.scheduled < least:
        text = f"Scheduled replicas ({count.scheduled}) below MinAvailable ({least})"
        return Verdict(type, "True", "ScheduledReplicasBelowMinAvailable", text)
    usable = count.scheduled - count.failed - count.started_not_ready
    if usable < least:
        text = f"Insufficient ready or starting pods. expected at least: {least}, found: {usable}"
        return Verdict(type, "True", "InsufficientReadyPods", text)
    text = f"Either sufficient ready or starting pods found. expected at least: {least}, found: {usable}"
    return Verdict(type, "False", "SufficientReadyPods", text)


def group_verdict(least: int, unbreached: int, *, is_updating: bool) -> Verdict:
    """The condition of a group of which ``unbreached`` replicas are complete and not in breach."""
    type = names.MIN_AVAILABLE_BREACHED
    if is_updating:
        return Verdict(type, *_UPDATING)
    if unbreached < least:
        text = f"PCSG replicas not in breach ({unbreached}) below MinAvailable ({least})"
        return Verdict(type, "True", "InsufficientAvailablePodCliqueScalingGroupReplicas", text)
    text = f"PCSG replicas not in breach ({unbreached}) meets MinAvailable ({least})"
    return Verdict(type, "False", "SufficientAvailablePodCliqueScalingGroupReplicas", text)


def breached_since(conditions: Iterable[Condition]) -> Time | None:
    """Since when the minimum is not met; nothing if it is, or if that is not known."""
    found = find_condition(conditions, names.MIN_AVAILABLE_BREACHED)
    if found is None or found.status != "True" or not found.last_transition_time:
        return None
    return found.last_transition_time


def was_ever_scheduled(pclq: PodClique) -> bool:
    """The PodClique had its minimum on nodes at some time: what never started is not terminated."""
    found = find_condition(pclq.status.conditions, names.PODCLIQUE_SCHEDULED)
    return found is not None and (found.status == "True" or _has_changed(found, pclq))


def was_ever_healthy(pcsg: PodCliqueScalingGroup) -> bool:
    """The group had its minimum at some time."""
    found = find_condition(pcsg.status.conditions, names.MIN_AVAILABLE_BREACHED)
    return found is not None and (found.status == "False" or _has_changed(found, pcsg))


def loss_time(holder: PodClique | PodCliqueScalingGroup, now: Time) -> Time:
    """When a minimum that was met counts as lost: not while conditions still take their first form.

    A gang may be placed and broken within that time. Its transition would then be taken for the first form,
    and the gang would never be terminated, neither by us nor by upstream's operator.
    """
    created = holder.metadata.creation_timestamp
    if not created:
        return now
    return max(now, Time.of_timestamp(created.timestamp() + _SETTLING + 1.0))


def _has_changed(condition: Condition, holder: PodClique | PodCliqueScalingGroup) -> bool:
    """The condition took its present form after it had taken its first."""
    changed, created = condition.last_transition_time, holder.metadata.creation_timestamp
    return bool(changed and created and changed.timestamp() > created.timestamp() + _SETTLING)
