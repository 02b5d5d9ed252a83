"""What a Job needs to know of a pod, beside what the controller of any set does."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from quarterdeck.api.k8s import Job
from quarterdeck.cluster.job import names
from quarterdeck.cluster.podset.podview import PodView, seconds_of
from quarterdeck.runtime.cache import Entry

_PHASE_ORDER: Final = {"Pending": 0, "Running": 2}
_LARGEST_COUNT: Final = 2**31 - 1


class PodState(PodView):
    """A pod as its Job sees it."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        metadata = self.document.metadata
        self.has_finalizer: Final = names.TRACKING in metadata.finalizers
        self.is_tracked = self.has_finalizer
        """Whether it waits to be counted; one that was counted may still be seen with its finalizer."""
        self.index: Final = _number(metadata.annotations.get(names.COMPLETION_INDEX))
        """Its completion index; none if the annotation is missing or makes no sense."""
        self.is_succeeded: Final = self.phase == "Succeeded"

    @cached_property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """Type and status of each condition."""
        return tuple((each.type, each.status) for each in self.document.status.conditions)

    @cached_property
    def exits(self) -> tuple[tuple[str, int], ...]:
        """Containers that failed, with their exit codes; init containers last."""
        status = self.document.status
        return tuple(
            (each.name, each.state.terminated.exit_code)
            for each in (*status.container_statuses, *status.init_container_statuses)
            if each.state.terminated is not None and each.state.terminated.exit_code
        )

    @cached_property
    def all_restarts(self) -> int:
        """Restarts of all containers, if the pod has not ended."""
        if self.phase not in ("Running", "Pending"):
            return 0
        status = self.document.status
        return sum(
            each.restart_count for each in (*status.container_statuses, *status.init_container_statuses)
        )

    def count(self, annotation: str) -> int:
        """A number of failures that the pod carries as an annotation."""
        count = _number(self.annotations.get(annotation)) or 0
        return count if count <= _LARGEST_COUNT else 0

    @cached_property
    def finish_time(self) -> float:
        """When it ended, seconds since 1970: as its containers tell, or the best guess there is."""
        ends = self._container_ends()
        if ends:
            return max(ends)
        for each in self.document.status.conditions:
            if (each.type, each.status) == ("Ready", "False") and each.last_transition_time:
                return seconds_of(each.last_transition_time)
        metadata = self.document.metadata
        if metadata.deletion_timestamp:
            return seconds_of(metadata.deletion_timestamp) - (metadata.deletion_grace_period_seconds or 0)
        return self.created

    def _container_ends(self) -> list[float]:
        """When each container ended, sidecars included; nothing while one has not."""
        ends = []
        for each in (*self.document.status.container_statuses, *self.sidecars):
            terminated = each.state.terminated
            if terminated is None or not terminated.finished_at:
                return []
            ends.append(seconds_of(terminated.finished_at))
        return ends

    @cached_property
    def removal_rank(self) -> tuple[Any, ...]:
        """Order in which pods are given up: those that have got least far first."""
        return (
            bool(self.node_name),
            _PHASE_ORDER.get(self.phase, 1),
            self.is_ready,
            -self.ready_since,
            -self.most_restarts[0],
            -self.created,
        )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def has_failed(job: Job, pod: PodState) -> bool:
    """Whether the pod counts as failed; one that is deleted does as well, unless it must end first."""
    if pod.phase == "Failed":
        return True
    return not replaces_failed_only(job) and pod.is_deleting and not pod.is_succeeded


def replaces_failed_only(job: Job) -> bool:
    """Whether a pod is replaced only when it has ended, not when its deletion begins."""
    return job.spec.pod_replacement_policy == "Failed"
