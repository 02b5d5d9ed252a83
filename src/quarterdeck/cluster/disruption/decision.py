"""What a budget allows, given the pods it covers: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from quarterdeck.api import Time
from quarterdeck.api.condition import Conditions
from quarterdeck.api.k8s import PodDisruptionBudget
from quarterdeck.api.k8s.policy import PodDisruptionBudgetStatus
from quarterdeck.cluster.podset.podview import PodView

DELETION_TIMEOUT: Final = 120.0
"""Seconds after an eviction within which the pod should be deleted."""
_CONDITION: Final = "DisruptionAllowed"


class Disrupted(NamedTuple):
    """Pods that were evicted and are still there."""

    waiting: Mapping[str, Time]
    """Those whose deletion is awaited, with the time of the eviction."""
    overdue: list[PodView]
    recheck_in: float | None
    """Seconds until the next one is overdue."""


def disrupted(budget: PodDisruptionBudget, pods: Iterable[PodView], now: float) -> Disrupted:
    """What became of the evictions that the server has noted."""
    known = budget.status.disrupted_pods
    waiting: dict[str, Time] = {}
    overdue: list[PodView] = []
    for pod in pods if known else ():
        time = known.get(pod.name)
        if time is None or pod.is_deleting:
            continue
        if time.timestamp() + DELETION_TIMEOUT < now:
            overdue.append(pod)
        else:
            waiting[pod.name] = time
    ends = [time.timestamp() + DELETION_TIMEOUT - now for time in waiting.values()]
    return Disrupted(waiting, overdue, min(ends, default=None))


def budget_status(
    budget: PodDisruptionBudget,
    pods: Iterable[PodView],
    waiting: Mapping[str, Time],
    *,
    expected: int,
    desired: int,
    now: float,
) -> PodDisruptionBudgetStatus:
    """The status of a budget: ``expected`` pods there should be, ``desired`` healthy ones at least."""
    healthy = 0
    for pod in pods:
        evicted = waiting.get(pod.name)
        is_leaving = evicted is not None and evicted.timestamp() + DELETION_TIMEOUT > now
        healthy += pod.is_ready and not pod.is_deleting and not is_leaving
    allowed = max(0, healthy - desired) if expected > 0 else 0
    generation = budget.metadata.generation
    conditions = Conditions(budget.status.conditions)
    conditions.set(
        _CONDITION,
        allowed > 0,
        reason="SufficientPods" if allowed > 0 else "InsufficientPods",
        now=Time.of_timestamp(now),
        observed_generation=generation or 0,
    )
    return PodDisruptionBudgetStatus(
        observed_generation=generation,
        disrupted_pods=waiting,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        conditions=tuple(conditions),
    )


def failed_status(budget: PodDisruptionBudget, message: str, now: float) -> PodDisruptionBudgetStatus:
    """Nothing is allowed while it is not known what would be left."""
    status = budget.status
    conditions = Conditions(status.conditions)
    conditions.set(
        _CONDITION,
        False,
        reason="SyncFailed",
        message=message,
        now=Time.of_timestamp(now),
        observed_generation=status.observed_generation or 0,
    )
    return status.evolve(disruptions_allowed=0, conditions=tuple(conditions))
