"""What a Job needs to know of a pod, read from its bytes once.

A Job looks at all its pods again and again, and it may have ten thousand: whole objects would cost too much.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import msgspec

from quarterdeck.api import Key, ObjectMeta, Time
from quarterdeck.api.k8s import Job, Pod
from quarterdeck.cluster.job import names
from quarterdeck.runtime.cache import Entry

__all__ = ["PodState", "has_failed", "replaces_failed_only"]

_TERMINAL: Final = ("Succeeded", "Failed")
_PHASE_ORDER: Final = {"Pending": 0, "Running": 2}
_LARGEST_COUNT: Final = 2**31 - 1


class _Terminated(msgspec.Struct, rename="camel", gc=False, frozen=True):
    exit_code: int = 0
    finished_at: str | None = None


class _State(msgspec.Struct, gc=False, frozen=True):
    terminated: _Terminated | None = None


class _Container(msgspec.Struct, rename="camel", gc=False, frozen=True):
    name: str = ""
    restart_count: int = 0
    state: _State = _State()


class _Condition(msgspec.Struct, rename="camel", gc=False, frozen=True):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Status(msgspec.Struct, rename="camel", gc=False, frozen=True):
    phase: str = ""
    conditions: tuple[_Condition, ...] = ()
    container_statuses: tuple[_Container, ...] = ()
    init_container_statuses: tuple[_Container, ...] = ()


class _Init(msgspec.Struct, rename="camel", gc=False, frozen=True):
    name: str = ""
    restart_policy: str = ""


class _Spec(msgspec.Struct, rename="camel", gc=False, frozen=True):
    node_name: str = ""
    init_containers: tuple[_Init, ...] = ()


class _Meta(msgspec.Struct, rename="camel", gc=False, frozen=True):
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()


class _Document(msgspec.Struct, gc=False, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode: Final = msgspec.json.Decoder(_Document).decode


class PodState:
    """A pod as its Job sees it."""

    def __init__(self, entry: Entry) -> None:
        document = _decode(entry.raw)
        self.entry: Final = entry
        self._document: Final = document
        self.uid: Final = entry.uid
        self.is_deleting: Final = entry.is_deleting
        self.phase: Final = document.status.phase
        self.has_finalizer: Final = names.TRACKING in document.metadata.finalizers
        self.is_tracked = self.has_finalizer
        """Whether it waits to be counted; one that was counted may still be seen with its finalizer."""
        self.index: Final = _number(document.metadata.annotations.get(names.COMPLETION_INDEX))
        """Its completion index; none if the annotation is missing or makes no sense."""
        self.is_succeeded: Final = self.phase == "Succeeded"
        self.is_active: Final = self.phase not in _TERMINAL and not self.is_deleting
        """Whether it runs, or is going to."""
        self.is_terminating: Final = self.phase not in _TERMINAL and self.is_deleting
        """Whether it is being deleted and has not ended."""

    @property
    def key(self) -> Key:
        return self.entry.key

    @property
    def reference(self) -> Pod:
        """Enough of the object to patch or to delete it."""
        return Pod(
            metadata=ObjectMeta(name=self.entry.name, namespace=self.entry.namespace, uid=self.entry.uid)
        )

    @cached_property
    def is_ready(self) -> bool:
        """Whether the condition Ready is true."""
        return ("Ready", "True") in self.conditions

    @cached_property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """Type and status of each condition."""
        return tuple((each.type, each.status) for each in self._document.status.conditions)

    @cached_property
    def exits(self) -> tuple[tuple[str, int], ...]:
        """Containers that failed, with their exit codes; init containers last."""
        status = self._document.status
        return tuple(
            (each.name, each.state.terminated.exit_code)
            for each in (*status.container_statuses, *status.init_container_statuses)
            if each.state.terminated is not None and each.state.terminated.exit_code
        )

    @property
    def restarts(self) -> int:
        """Restarts of all containers, if the pod has not ended."""
        if self.phase not in ("Running", "Pending"):
            return 0
        status = self._document.status
        return sum(
            each.restart_count for each in (*status.container_statuses, *status.init_container_statuses)
        )

    def count(self, annotation: str) -> int:
        """A number of failures that the pod carries as an annotation."""
        count = _number(self._document.metadata.annotations.get(annotation)) or 0
        return count if count <= _LARGEST_COUNT else 0

    @cached_property
    def finish_time(self) -> float:
        """When it ended, seconds since 1970: as its containers tell, or the best guess there is."""
        ends = self._container_ends()
        if ends:
            return max(ends)
        for each in self._document.status.conditions:
            if (each.type, each.status) == ("Ready", "False") and each.last_transition_time:
                return _seconds(each.last_transition_time)
        metadata = self._document.metadata
        if metadata.deletion_timestamp:
            return _seconds(metadata.deletion_timestamp) - (metadata.deletion_grace_period_seconds or 0)
        return _seconds(metadata.creation_timestamp)

    def _container_ends(self) -> list[float]:
        """When each container ended, sidecars included; nothing while one has not."""
        status, spec = self._document.status, self._document.spec
        sidecars = {each.name for each in spec.init_containers if each.restart_policy == "Always"}
        ends = []
        for each in (
            *status.container_statuses,
            *(each for each in status.init_container_statuses if each.name in sidecars),
        ):
            terminated = each.state.terminated
            if terminated is None or not terminated.finished_at:
                return []
            ends.append(_seconds(terminated.finished_at))
        return ends

    @cached_property
    def removal_rank(self) -> tuple[Any, ...]:
        """Order in which pods are given up: those that have got least far first."""
        document = self._document
        since = next(
            (
                _seconds(each.last_transition_time)
                for each in document.status.conditions
                if (each.type, each.status) == ("Ready", "True")
            ),
            None,
        )
        restarts = max((each.restart_count for each in document.status.container_statuses), default=0)
        return (
            bool(document.spec.node_name),
            _PHASE_ORDER.get(self.phase, 1),
            since is not None,
            -(since or 0.0),
            -restarts,
            -_seconds(document.metadata.creation_timestamp),
        )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _seconds(time: str | None) -> float:
    return Time(time).timestamp() if time else 0.0


def has_failed(job: Job, pod: PodState) -> bool:
    """Whether the pod counts as failed; one that is deleted does as well, unless it must end first."""
    if pod.phase == "Failed":
        return True
    return not replaces_failed_only(job) and pod.is_deleting and not pod.is_succeeded


def replaces_failed_only(job: Job) -> bool:
    """Whether a pod is replaced only when it has ended, not when its deletion begins."""
    return job.spec.pod_replacement_policy == "Failed"
