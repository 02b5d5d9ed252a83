"""What the operator measures: what backends do, and how long it takes."""

from __future__ import annotations

from typing import Final

from quarterdeck.runtime.metrics import Registry

INIT_BUCKETS: Final = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0)
OPERATION_BUCKETS: Final = (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
SUCCESS: Final = "success"
FAILURE: Final = "failure"


class GroveMetrics:
    """Made once per registry."""

    def __init__(self, registry: Registry) -> None:
        self._initializations: Final = registry.histogram(
            "grove_scheduler_backend_initialization_duration_seconds",
            "Length of the initialization of scheduler backends.",
            ["backend_name", "status"],
            buckets=INIT_BUCKETS,
        )
        self._durations: Final = registry.histogram(
            "grove_scheduler_backend_operation_duration_seconds",
            "Length of operations of scheduler backends.",
            ["backend_name", "operation"],
            buckets=OPERATION_BUCKETS,
        )
        self._operations: Final = registry.counter(
            "grove_scheduler_backend_operation_total",
            "Operations of scheduler backends.",
            ["backend_name", "operation", "status"],
        )
        self._info: Final = registry.gauge(
            "grove_scheduler_backend_info", "1 for the active scheduler backend.", ["backend_name", "version"]
        )
        self._active: tuple[str, str] | None = None
        self._healthy: Final = registry.gauge(
            "grove_scheduler_backend_healthy",
            "Whether the last health check of a scheduler backend passed.",
            ["backend_name"],
        )

    def initialized(self, backend: str, seconds: float, *, is_success: bool) -> None:
        """A backend was initialized, or not."""
        self._initializations.labelled(backend, _status(is_success)).observe(seconds)

    def operated(self, backend: str, operation: str, seconds: float, *, is_success: bool) -> None:
        """A hook of a backend ended."""
        self._durations.labelled(backend, operation).observe(seconds)
        self._operations.labelled(backend, operation, _status(is_success)).inc()

    def active(self, backend: str, version: str) -> None:
        """A backend is the active one, and no other."""
        if self._active is not None:
            self._info.remove(*self._active)
        self._active = (backend, version)
        self._info.labelled(backend, version).set(1)

    def checked(self, backend: str, *, is_healthy: bool) -> None:
        """A health check ended."""
        self._healthy.labelled(backend).set(1 if is_healthy else 0)

    def retired(self, backend: str) -> None:
        """A backend is not at work any more; what it did stays counted."""
        self._healthy.remove(backend)


def _status(is_success: bool) -> str:
    return SUCCESS if is_success else FAILURE
