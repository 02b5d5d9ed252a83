"""How many pods metrics ask for: pure.

Pods without metrics count as if they used nothing when more pods would be made, and as if they used what is
asked for when fewer would be: autoscaling never guesses in its own favour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Final, NamedTuple

from quarterdeck.api import Time
from quarterdeck.api.k8s import Container, Pod
from quarterdeck.cluster.autoscaling.measure import Measure, Measures
from quarterdeck.errors import ReconcileError

_CPU_INITIALIZATION: Final = 300.0
"""Seconds after its start in which the CPU usage of a pod counts only if it was ready all the time."""
_READINESS_DELAY: Final = 30.0
"""Seconds after its start within which a pod that is not ready has never been."""
_LARGEST: Final = 2**31 - 1
_NO_PODS: Final = "no pods returned by selector while calculating replica count"
_NO_METRICS: Final = "did not receive metrics for targeted pods (pods might be unready)"


class Tolerance(NamedTuple):
    """By what part the load may differ from its target without a change."""

    down: float = 0.1
    up: float = 0.1

    def covers(self, ratio: float) -> bool:
        """Whether a ratio is near enough to one."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(NamedTuple):
    """What a metric asks for."""

    replicas: int
    usage: int
    """The average, in thousandths."""
    utilization: int = 0
    """The average in percent of what is requested."""


class _Groups(NamedTuple):
    ready: int
    unready: set[str]
    missing: set[str]
    ignored: set[str]


class _Ratio(NamedTuple):
    ratio: float
    usage: int
    utilization: int


def by_utilization(
    pods: Sequence[Pod],
    measures: Measures,
    requests: Callable[[], Mapping[str, int]],
    *,
    target: int,
    current: int,
    resource: str,
    tolerance: Tolerance,
    now: float,
) -> Proposal:
    """The number of pods for a share (percent) of what they request; raises ``ReconcileError``."""
    groups, known = _grouped(pods, measures, resource, now)
    asked = requests()

    def ratio(values: Mapping[str, int]) -> _Ratio:
        counted = [(value, asked[name]) for name, value in values.items() if name in asked]
        requested = sum(request for _, request in counted)
        if not requested:
            raise ReconcileError("no metrics returned matched known pods")
        total = sum(value for value, _ in counted)
        utilization = total * 100 // requested
        return _Ratio(utilization / target, total // len(counted), utilization)

    def fallback(name: str) -> int:
        return asked.get(name, 0) * max(100, target) // 100

    return _proposal(groups, known, ratio, fallback, current, tolerance)


def by_usage(
    pods: Sequence[Pod],
    measures: Measures,
    *,
    target: int,
    current: int,
    resource: str,
    tolerance: Tolerance,
    now: float,
) -> Proposal:
    """The number of pods for an average usage, in thousandths; raises ``ReconcileError``."""
    groups, known = _grouped(pods, measures, resource, now)

    def ratio(values: Mapping[str, int]) -> _Ratio:
        usage = sum(values.values()) // len(values)
        return _Ratio(usage / target, usage, 0)

    return _proposal(groups, known, ratio, lambda _: target, current, tolerance)


def _proposal(
    groups: _Groups,
    known: dict[str, int],
    ratio: Callable[[Mapping[str, int]], _Ratio],
    fallback: Callable[[str], int],
    current: int,
    tolerance: Tolerance,
) -> Proposal:
    first = ratio(known)
    grows_with_unready = bool(groups.unready) and first.ratio > 1.0
    if not grows_with_unready and not groups.missing:
        is_near = tolerance.covers(first.ratio)
        replicas = current if is_near else ceil(first.ratio * groups.ready)
        return Proposal(replicas, first.usage, first.utilization)
    guessed = dict(known)
    if first.ratio < 1.0:
        guessed |= {name: fallback(name) for name in groups.missing}
    elif first.ratio > 1.0:
        guessed |= dict.fromkeys(groups.missing, 0)
    if grows_with_unready:
        guessed |= dict.fromkeys(groups.unready, 0)
    second = ratio(guessed).ratio
    replicas = ceil(second * len(guessed))
    turns = (first.ratio < 1.0 < second) or (second < 1.0 < first.ratio)
    contradicts = (second < 1.0 and replicas > current) or (second > 1.0 and replicas < current)
    if tolerance.covers(second) or turns or contradicts:
        replicas = current
    return Proposal(replicas, first.usage, first.utilization)


def by_ratio(pods: Sequence[Pod], ratio: float, current: int, tolerance: Tolerance) -> int:
    """The number of pods for a load that is so many times its target; raises ``ReconcileError``."""
    if not current:
        return ceil(ratio)
    if tolerance.covers(ratio):
        return current
    if not pods:
        raise ReconcileError(f"unable to calculate ready pods: {_NO_PODS}")
    ready = [pod for pod in pods if pod.status.phase == "Running" and _readiness(pod)[0] == "True"]
    return min(ceil(ratio * len(ready)), _LARGEST)


def by_total(total: int, target: int, current: int, tolerance: Tolerance) -> Proposal:
    """The number of pods that share a load if each takes so much, in thousandths."""
    replicas = current
    ratio = total / (target * current) if current else float("inf")
    if not tolerance.covers(ratio):
        replicas = min(ceil(total / target), _LARGEST)
    return Proposal(replicas, ceil(total / current) if current else total)


def _grouped(
    pods: Sequence[Pod], measures: Measures, resource: str, now: float
) -> tuple[_Groups, dict[str, int]]:
    if not pods:
        raise ReconcileError(_NO_PODS)
    ready, unready, missing, ignored = 0, set[str](), set[str](), set[str]()
    for pod in pods:
        name = pod.metadata.name
        measure = measures.get(name)
        if pod.metadata.is_deleting or pod.status.phase == "Failed":
            ignored.add(name)
        elif pod.status.phase == "Pending":
            unready.add(name)
        elif measure is None:
            missing.add(name)
        elif resource == "cpu" and _is_warming_up(pod, measure, now):
            unready.add(name)
        else:
            ready += 1
    left_out = unready | ignored
    known = {name: each.value for name, each in measures.items() if name not in left_out}
    if not known:
        raise ReconcileError(_NO_METRICS)
    return _Groups(ready, unready, missing, ignored), known


def _is_warming_up(pod: Pod, measure: Measure, now: float) -> bool:
    """Whether what a pod uses is what it takes to start."""
    status, since = _readiness(pod)
    start = pod.status.start_time
    if not status or not isinstance(start, Time):
        return True
    started = start.timestamp()
    if started + _CPU_INITIALIZATION > now:
        return status == "False" or measure.time < since + measure.window
    return status == "False" and started + _READINESS_DELAY > since


def _readiness(pod: Pod) -> tuple[str, float]:
    """Status of the condition Ready, and since when; empty without one."""
    for each in pod.status.conditions:
        if each.type == "Ready":
            since = each.last_transition_time
            return each.status, since.timestamp() if isinstance(since, Time) else 0.0
    return "", 0.0


def requests_of(pods: Sequence[Pod], resource: str, container: str) -> dict[str, int]:
    """What each pod, or one container of it, requests of a resource; raises ``ReconcileError``."""
    found = {}
    for pod in pods:
        name = pod.metadata.name
        whole = pod.spec.resources.requests if pod.spec.resources and not container else None
        if whole:
            if resource not in whole:
                raise ReconcileError(f"missing pod-level request for {resource} in Pod {name}")
            found[name] = whole[resource].milli_value
            continue
        found[name] = sum(_request(each, resource, name) for each in _containers(pod, container))
    return found


def _containers(pod: Pod, container: str) -> list[Container]:
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    everything = [*pod.spec.containers, *sidecars]
    if not container:
        return everything
    chosen = [each for each in everything if each.name == container]
    if not chosen:
        raise ReconcileError(f"container {container} not found in Pod {pod.metadata.name}")
    return chosen[:1]


def _request(container: Container, resource: str, pod: str) -> int:
    amount = container.resources.requests.get(resource)
    if amount is None:
        raise ReconcileError(f"missing request for {resource} in container {container.name} of Pod {pod}")
    return amount.milli_value
