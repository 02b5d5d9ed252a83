"""When a gang that lacks pods is terminated, and how much of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from quarterdeck.api.condition import is_condition_true
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup

from .breach import breached_since, was_ever_healthy, was_ever_scheduled


class ReplicaTermination(msgspec.Struct, frozen=True):
    """What becomes of a replica of a set."""

    is_due: bool = False
    wait: float | None = None
    """Seconds until it is; nothing if no minimum is missed."""


def judge_replica(
    groups: Iterable[PodCliqueScalingGroup],
    cliques: Mapping[str, PodClique],
    expected: Iterable[str],
    *,
    delay: float,
    now: float,
) -> ReplicaTermination:
    """Judge one replica of a set by its groups and its standalone cliques.

    ``cliques`` are those that exist, by name; while one of ``expected`` is missing nothing is decided.
    """
    if any(name not in cliques for name in expected):
        return ReplicaTermination()
    waits: list[float] = []
    for pcsg in groups:
        since = breached_since(pcsg.status.conditions)
        is_terminating = is_condition_true(pcsg.status.conditions, names.GANG_TERMINATION)
        if since is not None and not is_terminating and was_ever_healthy(pcsg):
            waits.append(delay - (now - since.timestamp()))
    for pclq in cliques.values():
        since = breached_since(pclq.status.conditions)
        if since is not None and was_ever_scheduled(pclq):
            waits.append(delay - (now - since.timestamp()))
    if not waits:
        return ReplicaTermination()
    wait = min(waits)
    return ReplicaTermination(is_due=wait <= 0, wait=max(wait, 0.0))


class GroupTermination(msgspec.Struct, frozen=True):
    """What becomes of single replicas of a group."""

    expired: tuple[int, ...] = ()
    """Replicas to be deleted."""
    wait: float | None = None
    """Seconds until the next one is."""


def judge_group(
    replicas: Mapping[int, Sequence[PodClique]],
    *,
    count: int,
    least: int,
    delay: float,
    now: float,
) -> GroupTermination:
    """Judge the replicas of a group; the set decides if fewer than ``least`` of ``count`` would be left."""
    expired: list[int] = []
    waits: list[float] = []
    for index in range(count):
        since = [
            when.timestamp()
            for pclq in replicas.get(index, ())
            if (when := breached_since(pclq.status.conditions)) is not None and was_ever_scheduled(pclq)
        ]
        if not since:
            continue
        wait = delay - (now - min(since))
        if wait <= 0:
            expired.append(index)
        else:
            waits.append(wait)
    if count - len(expired) - len(waits) < least:
        return GroupTermination()
    return GroupTermination(tuple(expired), min(waits, default=None))
