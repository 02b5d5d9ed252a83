"""What is told about backends: log lines, metrics, events, and the condition of the operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final, Literal

from quarterdeck.api import Condition, Time
from quarterdeck.api.condition import Conditions
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.metrics import GroveMetrics
from quarterdeck.operators.grove.types import PodGang
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.log import get_logger

Operation = Literal["create", "update", "delete", "status_update", "mutate"]
_LOG_NAMES: Final[dict[Operation, str]] = {
    "create": "OnPodGangCreate",
    "update": "OnPodGangUpdate",
    "delete": "OnPodGangDelete",
    "status_update": "OnPodGangStatus",
    "mutate": "MutatePodSpec",
}
NOT_CONFIGURED: Final = "scheduler backend is not configured"
_QUIET: Final = 300.0
"""Seconds in which the same failure of a gang is not told again."""
_REMEMBERED: Final = 10_000
_log: Final = get_logger(__name__)


def initialized_text(backend: str) -> str:
    """What is said about a backend that has started."""
    return f"Scheduler backend '{backend}' initialized successfully"


class BackendReport:
    """Tells what backends do; one per operator."""

    def __init__(
        self,
        metrics: GroveMetrics,
        recorder: Recorder,
        *,
        now: Callable[[], Time],
        clock: Callable[[], float],
    ) -> None:
        """``now`` is the date, ``clock`` counts seconds."""
        self._metrics: Final = metrics
        self._recorder: Final = recorder
        self._now: Final = now
        self._clock: Final = clock
        self._told: dict[tuple[str, str], float] = {}
        self._conditions: Final = Conditions()
        self._set("Unknown", "BackendNotConfigured", NOT_CONFIGURED)

    @property
    def condition(self) -> Condition:
        """Whether the operator has a backend."""
        return self._conditions.frozen()[0]

    def _set(self, status: Literal["True", "False", "Unknown"], reason: str, message: str) -> None:
        self._conditions.set(names.BACKEND_READY, status, reason=reason, message=message, now=self._now())

    @contextmanager
    def initializing(self, backend: str, *, is_active: bool = True) -> Iterator[None]:
        """The time of a backend's start; an error passes through."""
        _log.info("Backend operation started", backend=backend, operation="Init")
        started = perf_counter()
        try:
            yield
        except Exception as error:
            self._metrics.initialized(backend, perf_counter() - started, is_success=False)
            _log.error("Backend operation failed", error, backend=backend, operation="Init", trace=False)
            if is_active:
                text = f"Failed to initialize scheduler backend '{backend}': {error}"
                self._set("False", "BackendInitializationFailed", text)
            raise
        self._metrics.initialized(backend, perf_counter() - started, is_success=True)
        if is_active:
            self._set("True", "BackendInitialized", initialized_text(backend))

    def kept(self, backend: str) -> None:
        """Nobody asks for another backend any more than the one that has been at work all along."""
        self._set("True", "BackendInitialized", initialized_text(backend))

    def activated(self, backend: str, version: str) -> None:
        """A backend is the active one."""
        self._metrics.active(backend, version)

    def checked(self, backend: str, *, is_healthy: bool) -> None:
        """A health check ended."""
        self._metrics.checked(backend, is_healthy=is_healthy)

    def retired(self, backend: str) -> None:
        """A backend has nothing to do any more."""
        _log.info("scheduler backend is drained", backend=backend)
        self._metrics.retired(backend)

    @contextmanager
    def operating(self, backend: str, operation: Operation, pod_gang: PodGang) -> Iterator[None]:
        """The time of a hook; an error passes through, and is told about the gang."""
        fields = {
            "backend": backend,
            "operation": _LOG_NAMES[operation],
            "podgang": pod_gang.metadata.name,
        }
        _log.info("Backend operation started", **fields)
        started = perf_counter()
        try:
            with self.telling(pod_gang, operation):
                yield
        except Exception as error:
            self._metrics.operated(backend, operation, perf_counter() - started, is_success=False)
            _log.error("Backend operation failed", error, trace=False, **fields)
            raise
        self._metrics.operated(backend, operation, perf_counter() - started, is_success=True)

    @contextmanager
    def telling(self, pod_gang: PodGang, operation: Operation) -> Iterator[None]:
        """Tell the users of a gang what fails inside the block; the error passes through."""
        try:
            yield
        except Exception as error:
            self.failed(pod_gang, _LOG_NAMES[operation], error)
            raise

    def failed(self, pod_gang: PodGang, operation: str, error: object) -> None:
        """Tell the users of a gang what failed, each thing once in a while."""
        text = f"Backend operation '{operation}' failed for PodGang '{pod_gang.metadata.name}': {error}"
        key, now = (pod_gang.metadata.uid, text), self._clock()
        if now - self._told.get(key, -_QUIET) < _QUIET:
            return
        if len(self._told) >= _REMEMBERED:
            self._told = {each: when for each, when in self._told.items() if now - when < _QUIET}
        self._told[key] = now
        self._recorder.event(pod_gang, "Warning", "BackendOperationFailed", operation, text)
