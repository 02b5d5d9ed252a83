"""Back-off limits per index (``spec.backoffLimitPerIndex``).

The number of failures of an index is carried from pod to pod as an annotation, so a failed pod keeps its
finalizer until its successor has taken the number over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quarterdeck.api import UnsetType, value_or
from quarterdeck.api.k8s import Job
from quarterdeck.cluster.job import names
from quarterdeck.cluster.job.backoff import Failures, JobSettings, remaining
from quarterdeck.cluster.job.index import IndexSet
from quarterdeck.cluster.job.podstate import PodState, has_failed
from quarterdeck.cluster.job.policy import match_failure_policy


def has_limit_per_index(job: Job) -> bool:
    """Whether each index has a back-off limit of its own."""
    return not isinstance(job.spec.backoff_limit_per_index, UnsetType)


def valid_index(job: Job, pod: PodState) -> int | None:
    """The index of a pod if the Job has such an index."""
    index = pod.index
    return index if index is not None and index < value_or(job.spec.completions, 0) else None


def _all_failures(pod: PodState) -> int:
    return pod.count(names.FAILURE_COUNT) + pod.count(names.IGNORED_FAILURE_COUNT)


def failed_indexes(job: Job, pods: Iterable[PodState]) -> IndexSet:
    """The indexes that are given up: those of the status, and those whose last chance was lost since."""
    known = IndexSet.parse(value_or(job.status.failed_indexes, ""), value_or(job.spec.completions, 0))
    lost = (valid_index(job, pod) for pod in pods if pod.is_tracked and _is_last_failure(job, pod))
    return known | IndexSet.of(index for index in lost if index is not None)


def _is_last_failure(job: Job, pod: PodState) -> bool:
    if not has_failed(job, pod):
        return False
    match = match_failure_policy(job, pod)
    if match.action == "FailIndex":
        return True
    return match.counts and pod.count(names.FAILURE_COUNT) >= value_or(job.spec.backoff_limit_per_index, 0)


def delayed_pods(
    job: Job, tracked: Iterable[PodState], active: Sequence[PodState], settled: IndexSet
) -> dict[int, PodState]:
    """The latest failed pod of each index that still needs a successor."""
    running = {pod.index for pod in active}
    latest: dict[int, PodState] = {}
    for pod in tracked:
        index = valid_index(job, pod)
        if index is None or not has_failed(job, pod) or index in running or index in settled:
            continue
        known = latest.get(index)
        if known is None or (
            _all_failures(known) <= _all_failures(pod) and pod.finish_time >= known.finish_time
        ):
            latest[index] = pod
    return latest


def wait_of_index(predecessor: PodState | None, now: float, settings: JobSettings) -> float:
    """Seconds until the index may have a new pod."""
    if predecessor is None:
        return 0.0
    failures = Failures(_all_failures(predecessor) + 1, predecessor.finish_time)
    return remaining(failures, now, settings)


def failure_annotations(job: Job, predecessor: PodState | None) -> dict[str, str]:
    """What a new pod carries of the failures before it."""
    if predecessor is None:
        return {names.FAILURE_COUNT: "0"}
    counts = match_failure_policy(job, predecessor).counts
    failed = predecessor.count(names.FAILURE_COUNT) + (1 if counts else 0)
    ignored = predecessor.count(names.IGNORED_FAILURE_COUNT) + (0 if counts else 1)
    annotations = {names.FAILURE_COUNT: str(failed)}
    return {**annotations, names.IGNORED_FAILURE_COUNT: str(ignored)} if ignored else annotations
