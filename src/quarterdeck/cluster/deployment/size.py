"""How large the ReplicaSets of a Deployment should be: pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api import value_or
from quarterdeck.api.intorstring import resolve_percent
from quarterdeck.api.k8s import Deployment, ReplicaSet
from quarterdeck.api.k8s.apps import RollingUpdateDeployment
from quarterdeck.cluster.deployment import names

_LARGEST: Final = 2**31 - 1


def desired_replicas(deployment: Deployment) -> int:
    """Pods the Deployment should have."""
    return value_or(deployment.spec.replicas, 1)


def replicas_of(replica_set: ReplicaSet) -> int:
    """Pods the ReplicaSet should have."""
    return value_or(replica_set.spec.replicas, 1)


def is_rolling(deployment: Deployment) -> bool:
    """Whether pods are replaced some at a time."""
    return deployment.spec.strategy.type == "RollingUpdate"


def age_order(replica_set: ReplicaSet) -> tuple[str, str]:
    """Older ones first; times of equal length compare as text."""
    return str(replica_set.metadata.creation_timestamp or ""), replica_set.metadata.name


def active_sets(sets: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Those that have, or should have, pods."""
    return [each for each in sets if replicas_of(each) > 0]


def _fence_posts(deployment: Deployment) -> tuple[int, int]:
    """How many pods there may be above what is desired, and how many may be missing."""
    how = deployment.spec.strategy.rolling_update or RollingUpdateDeployment()
    desired = desired_replicas(deployment)
    surge = resolve_percent(how.max_surge or 0, desired, round_up=True)
    missing = resolve_percent(how.max_unavailable or 0, desired, round_up=False)
    if surge == 0 and missing == 0:
        missing = 1  # a percentage may be rounded down to nothing, and then nothing would ever move
    return surge, missing


def max_surge(deployment: Deployment) -> int:
    """Pods there may be beyond the desired ones while they are replaced."""
    return _fence_posts(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Deployment) -> int:
    """Pods that may be missing while they are replaced."""
    desired = desired_replicas(deployment)
    if not is_rolling(deployment) or desired == 0:
        return 0
    return min(_fence_posts(deployment)[1], desired)


def new_set_size(deployment: Deployment, sets: Sequence[ReplicaSet], current: int) -> int:
    """How large the newest ReplicaSet, which has ``current`` pods, may be beside all others of ``sets``."""
    desired = desired_replicas(deployment)
    if not is_rolling(deployment):
        return desired
    allowed = desired + max_surge(deployment)
    there = sum(replicas_of(each) for each in sets)
    if there >= allowed:
        return current
    return current + min(allowed - there, desired - current)


def only_or_latest(newest: ReplicaSet | None, old: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The one ReplicaSet to be scaled; ``None`` if several have pods."""
    everything = [*old, newest] if newest is not None else list(old)
    if not everything:
        return None
    active = active_sets(everything)
    if len(active) == 1:
        return active[0]
    if active:
        return None
    return newest if newest is not None else max(old, key=age_order)


def is_saturated(deployment: Deployment, newest: ReplicaSet | None) -> bool:
    """Whether the newest ReplicaSet has all pods of the Deployment, and all of them are available."""
    if newest is None:
        return False
    desired = desired_replicas(deployment)
    return (
        replicas_of(newest) == desired
        and _number(newest, names.DESIRED_REPLICAS) == desired
        and value_or(newest.status.available_replicas, 0) == desired
    )


def is_scaled_elsewhere(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Whether the Deployment was made larger or smaller since its ReplicaSets were last sized."""
    desired = desired_replicas(deployment)
    known = (_number(each, names.DESIRED_REPLICAS) for each in active_sets(sets))
    return any(each is not None and each != desired for each in known)


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """What a ReplicaSet remembers about the size of its Deployment."""
    desired = desired_replicas(deployment)
    return {
        names.DESIRED_REPLICAS: str(desired),
        names.MAX_REPLICAS: str(desired + max_surge(deployment)),
    }


def proportional_sizes(deployment: Deployment, sets: Sequence[ReplicaSet]) -> list[tuple[ReplicaSet, int]]:
    """The sizes of ReplicaSets in the middle of a rollout, so that each has its share of what is new or gone.

    Largest first; among equals newer ones are made larger first, and older ones smaller.
    """
    active = active_sets(sets)
    desired = desired_replicas(deployment)
    allowed = desired + max_surge(deployment) if desired > 0 else 0
    change = allowed - sum(replicas_of(each) for each in active)
    if change:
        active.sort(key=age_order, reverse=change > 0)
        active.sort(key=replicas_of, reverse=True)
    sizes: list[tuple[ReplicaSet, int]] = []
    given = 0
    for each in active:
        share = _share(deployment, each, change, given)
        sizes.append((each, replicas_of(each) + share))
        given += share
    if sizes and change:
        largest, size = sizes[0]
        sizes[0] = largest, max(0, size + change - given)
    return sizes


def _share(deployment: Deployment, replica_set: ReplicaSet, change: int, given: int) -> int:
    if change in (0, given):
        return 0
    fraction = _fraction(deployment, replica_set)
    left = change - given
    return min(fraction, left) if change > 0 else max(fraction, left)


def _fraction(deployment: Deployment, replica_set: ReplicaSet) -> int:
    """How much larger a ReplicaSet is if it keeps its share of the Deployment."""
    size, desired = replicas_of(replica_set), desired_replicas(deployment)
    if desired == 0:
        return -size
    before = _number(replica_set, names.MAX_REPLICAS) or value_or(deployment.status.replicas, 0)
    if not before:
        return 0
    scaled = size * (desired + max_surge(deployment)) / before
    return int(scaled + 0.5) - size


def unhealthy_removals(
    deployment: Deployment, old: Sequence[ReplicaSet], most: int
) -> list[tuple[ReplicaSet, int]]:
    """Sizes of old ReplicaSets without the pods that are not available anyway: ``most`` at most."""
    sizes, removed = [], 0
    for each in sorted(old, key=age_order):
        size, available = replicas_of(each), value_or(each.status.available_replicas, 0)
        if removed >= most:
            break
        if size in (0, available):
            continue
        fewer = min(most - removed, size - available)
        sizes.append((each, size - fewer))
        removed += fewer
    return sizes


def healthy_removals(
    deployment: Deployment, old: Sequence[ReplicaSet], available: int
) -> list[tuple[ReplicaSet, int]]:
    """Sizes of old ReplicaSets such that enough of the ``available`` pods stay."""
    spare = available - (desired_replicas(deployment) - max_unavailable(deployment))
    sizes, removed = [], 0
    for each in sorted(old, key=age_order):
        if removed >= spare:
            break
        size = replicas_of(each)
        if size == 0:
            continue
        fewer = min(size, spare - removed)
        sizes.append((each, size - fewer))
        removed += fewer
    return sizes


def _number(replica_set: ReplicaSet, annotation: str) -> int | None:
    text = replica_set.metadata.annotations.get(annotation, "")
    if not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if number <= _LARGEST else None
