"""Which pods of a DaemonSet to make and to remove: pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from quarterdeck.api.intorstring import resolve_percent
from quarterdeck.api.k8s import DaemonSet
from quarterdeck.cluster.daemonset.nodefit import DaemonPod, Fit
from quarterdeck.cluster.podset.revision import REVISION_LABEL

GENERATION_ANNOTATION: Final = "deprecated.daemonset.template.generation"
GENERATION_LABEL: Final = "pod-template-generation"
_FIRST_BACKOFF: Final = 1.0
_LONGEST_BACKOFF: Final = 900.0


class NodeState(NamedTuple):
    """A node with the pods that are meant for it."""

    name: str
    fit: Fit
    pods: Sequence[DaemonPod]


class Changes(msgspec.Struct):
    """What to do next."""

    create: list[str] = []
    """Nodes that need a pod."""
    remove: list[DaemonPod] = []
    failed: list[DaemonPod] = []
    """Those of the removed ones that have failed."""
    succeeded: list[DaemonPod] = []
    """And those that have ended although they should not."""
    wait: float | None = None
    """Seconds until a failed pod may be removed."""


class FailureBackoff:
    """How long a failed pod is left alone: a second, doubled by each failure on the node, 15 min at most."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[float, float]] = {}

    def remaining(self, key: str, now: float) -> float:
        """Seconds to wait; zero if there is nothing to wait for."""
        backoff, last = self._entries.get(key, (0.0, 0.0))
        if now - last > 2 * _LONGEST_BACKOFF:
            return 0.0
        return backoff if now - last < backoff else 0.0

    def failed(self, key: str, now: float) -> None:
        """A failed pod is removed."""
        backoff, last = self._entries.get(key, (0.0, 0.0))
        is_new = not backoff or now - last > 2 * _LONGEST_BACKOFF
        self._entries[key] = (_FIRST_BACKOFF if is_new else min(2 * backoff, _LONGEST_BACKOFF)), now

    def forget(self, prefix: str) -> None:
        """Forget what begins with a prefix."""
        self._entries = {key: value for key, value in self._entries.items() if not key.startswith(prefix)}


def seniority(pod: DaemonPod) -> tuple[bool, float, str]:
    """Pods that are on their node first, then older ones."""
    return not pod.node_name, pod.created, pod.name


def place(
    daemon_set: DaemonSet, nodes: Sequence[NodeState], digest: str, backoff: FailureBackoff, now: float
) -> Changes:
    """One pod on every node that should have one, none elsewhere; ended ones go."""
    changes = Changes()
    may_surge = _amount(daemon_set, "max_surge", 1) > 0
    for node in nodes:
        if node.fit.starts and not node.pods:
            changes.create.append(node.name)
        elif node.fit.continues:
            running = _running(daemon_set, node, changes, backoff, now)
            if not may_surge:
                changes.remove += sorted(running, key=seniority)[1:]
            elif not running:
                if node.fit.starts:
                    changes.create.append(node.name)
            elif len(running) > 1:
                changes.remove += _superseded(daemon_set, running, digest, now)
        else:
            changes.remove += [pod for pod in node.pods if not pod.is_deleting]
    return changes


def _running(
    daemon_set: DaemonSet, node: NodeState, changes: Changes, backoff: FailureBackoff, now: float
) -> list[DaemonPod]:
    """The pods of a node that have not ended; those that have are to be removed, failed ones in time."""
    running = []
    for pod in node.pods:
        if pod.is_deleting:
            continue
        if pod.phase == "Failed":
            metadata, status = daemon_set.metadata, daemon_set.status
            key = f"{metadata.uid}/{status.observed_generation or 0}/{node.name}"
            wait = backoff.remaining(key, now)
            if wait:
                changes.wait = wait if changes.wait is None else min(wait, changes.wait)
                continue
            backoff.failed(key, now)
            changes.remove.append(pod)
            changes.failed.append(pod)
        elif pod.phase == "Succeeded":
            changes.remove.append(pod)
            changes.succeeded.append(pod)
        else:
            running.append(pod)
    return running


def _superseded(
    daemon_set: DaemonSet, running: Sequence[DaemonPod], digest: str, now: float
) -> list[DaemonPod]:
    """With surge: all but the oldest new and the oldest old pod; that one too if the new one is available."""
    by_age: dict[bool, list[DaemonPod]] = {True: [], False: []}
    for pod in sorted(running, key=seniority):
        by_age[pod.labels.get(REVISION_LABEL) == digest].append(pod)
    new, old = by_age[True], by_age[False]
    doomed = [*new[1:], *old[1:]]
    min_ready = daemon_set.spec.min_ready_seconds or 0
    if new and old and (not old[0].is_ready or new[0].is_available(min_ready, now)):
        doomed.append(old[0])
    return doomed


def roll(daemon_set: DaemonSet, nodes: Sequence[NodeState], digest: str, now: float) -> Changes:
    """The next step from old pods to new ones, given that every node has what it should have."""
    desired = sum(1 for node in nodes if node.fit.starts)
    surge = _amount(daemon_set, "max_surge", desired)
    missing = _amount(daemon_set, "max_unavailable", desired)
    if desired and not surge and not missing:
        missing = 1
    concerned = [node for node in nodes if node.pods or node.fit.starts]
    if surge:
        return _roll_with_surge(daemon_set, concerned, digest, surge, desired, now)
    return _roll_in_place(daemon_set, concerned, digest, missing, now)


def _roll_in_place(
    daemon_set: DaemonSet, nodes: Sequence[NodeState], digest: str, most: int, now: float
) -> Changes:
    min_ready = daemon_set.spec.min_ready_seconds or 0
    lacking = 0
    free: list[DaemonPod] = []
    candidates: list[DaemonPod] = []
    for node in nodes:
        pair = _pair(daemon_set, node, digest)
        if pair is None or (pair.new is None) == (pair.old is None):
            lacking += 1
        elif pair.new is not None:
            lacking += not pair.new.is_available(min_ready, now)
        elif pair.old is not None and not pair.old.is_available(min_ready, now):
            free.append(pair.old)
            lacking += 1
        elif pair.old is not None:
            candidates.append(pair.old)
    return Changes(remove=[*free, *candidates[: max(0, most - lacking)]])


def _roll_with_surge(
    daemon_set: DaemonSet, nodes: Sequence[NodeState], digest: str, most: int, desired: int, now: float
) -> Changes:
    min_ready = daemon_set.spec.min_ready_seconds or 0
    changes = Changes()
    surging = available = 0
    leaving: list[DaemonPod] = []
    candidates: list[str] = []
    for node in nodes:
        pair = _pair(daemon_set, node, digest)
        if pair is None:
            surging += 1
            continue
        new, old = pair
        first = old or new
        is_available = first is not None and first.is_available(min_ready, now)
        available += is_available
        if old is None:
            continue
        if new is not None:
            if new.is_available(min_ready, now):
                changes.remove.append(old)
            else:
                surging += 1
        elif not node.fit.starts:
            (leaving if is_available else changes.remove).append(old)
        elif is_available:
            candidates.append(node.name)
        else:
            changes.create.append(node.name)
    changes.remove += leaving[: max(0, available - desired)]
    changes.create += candidates[: max(0, most - surging)]
    return changes


class _Pair(NamedTuple):
    new: DaemonPod | None
    old: DaemonPod | None


def _pair(daemon_set: DaemonSet, node: NodeState, digest: str) -> _Pair | None:
    """The new and the old pod of a node; ``None`` if there are several of one sort."""
    new: list[DaemonPod] = []
    old: list[DaemonPod] = []
    for pod in node.pods:
        if not pod.is_deleting:
            (new if is_updated(daemon_set, pod, digest) else old).append(pod)
    if len(new) > 1 or len(old) > 1:
        return None
    return _Pair(new[0] if new else None, old[0] if old else None)


def is_updated(daemon_set: DaemonSet, pod: DaemonPod, digest: str) -> bool:
    """Whether a pod is of the newest template, by its revision or by the old count of templates."""
    generation = daemon_set.metadata.annotations.get(GENERATION_ANNOTATION)
    return pod.labels.get(REVISION_LABEL) == digest or (
        generation is not None and pod.labels.get(GENERATION_LABEL) == generation
    )


def _amount(daemon_set: DaemonSet, name: str, desired: int) -> int:
    strategy = daemon_set.spec.update_strategy
    if strategy.type != "RollingUpdate" or not strategy.rolling_update:
        return 0
    value: int | str = getattr(strategy.rolling_update, name) or 0
    return resolve_percent(value, desired, round_up=True)


class Counts(NamedTuple):
    """The pods of a DaemonSet in numbers."""

    desired: int
    current: int
    misscheduled: int
    ready: int
    available: int
    updated: int


def count(daemon_set: DaemonSet, nodes: Sequence[NodeState], digest: str, now: float) -> Counts:
    """Count nodes by the oldest pod of each."""
    min_ready = daemon_set.spec.min_ready_seconds or 0
    desired = current = misscheduled = ready = available = updated = 0
    for node in nodes:
        if not node.fit.starts:
            misscheduled += bool(node.pods)
            continue
        desired += 1
        if not node.pods:
            continue
        current += 1
        pod = min(node.pods, key=seniority)
        ready += pod.is_ready
        available += pod.is_available(min_ready, now)
        updated += is_updated(daemon_set, pod, digest)
    return Counts(desired, current, misscheduled, ready, available, updated)
