"""Spans, if OpenTelemetry is there; nothing at all if it is not.

The runtime asks ``get_tracer()`` once per controller or server. Without the package (the ``trace`` extra) the
answer is ``NO_TRACER``, whose spans are one shared object that does nothing: no attributes are collected, no
context is touched. With it, spans go wherever the application configured OpenTelemetry to send them.

Spans: ``reconcile`` (controller, kind, namespace, name, reconcileID, attempt, priority, queue wait),
``webhook`` (path, bytes, code), and one child per API call (verb, path, code, retries) through
``trace_requests``. A trace may follow an object across controllers: ``inject`` writes the current one into
an annotation, ``extract`` gives the parent for the next span. Both are for those who ask; nothing is
annotated by itself.
"""

import importlib
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, Protocol

from quarterdeck.client import RequestRecord

TRACE_ANNOTATION: Final = "quarterdeck.io/traceparent"
"""Annotation that carries a W3C trace parent."""
Value = str | int | float | bool


class Span(Protocol):
    """A piece of work being timed."""

    def set(self, key: str, value: Value) -> None:
        """Add an attribute."""
        ...

    def fail(self, error: BaseException) -> None:
        """Mark the work as failed."""
        ...


class Tracer(Protocol):
    """Starts spans."""

    @property
    def is_enabled(self) -> bool:
        """Whether spans go anywhere; ask before computing attributes that cost something."""
        ...

    def span(
        self, name: str, attributes: Mapping[str, Value] | None = None, *, parent: str = ""
    ) -> AbstractContextManager[Span]:
        """Time a block; ``parent`` is what ``extract`` gave, empty for the current span."""
        ...

    def completed(self, name: str, seconds: float, attributes: Mapping[str, Value]) -> None:
        """Record a span that has just ended."""
        ...

    def inject(self) -> dict[str, str]:
        """Annotations that let another process go on with the current trace; empty without one."""
        ...


class _NoSpan:
    """The span of those who do not trace; entering it gives itself."""

    __slots__ = ()

    def set(self, key: str, value: Value) -> None:
        """Nothing."""

    def fail(self, error: BaseException) -> None:
        """Nothing."""

    def __enter__(self) -> "_NoSpan":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


_NO_SPAN: Final = _NoSpan()


class NoTracer:
    """Traces nothing, at no cost."""

    is_enabled: Final = False

    def span(
        self, name: str, attributes: Mapping[str, Value] | None = None, *, parent: str = ""
    ) -> AbstractContextManager[Span]:
        """The shared empty span."""
        return _NO_SPAN

    def completed(self, name: str, seconds: float, attributes: Mapping[str, Value]) -> None:
        """Nothing."""

    def inject(self) -> dict[str, str]:
        """Nothing."""
        return {}


NO_TRACER: Final = NoTracer()


class OtelTracer:
    """Traces with OpenTelemetry; made by ``get_tracer``."""

    is_enabled: Final = True

    def __init__(self, api: Any, name: str) -> None:
        """``api`` is the module ``opentelemetry``'s parts: ``trace`` and ``propagate``."""
        self._trace: Final = api.trace
        self._propagate: Final = api.propagate
        self._tracer: Final = api.trace.get_tracer(name)

    def span(
        self, name: str, attributes: Mapping[str, Value] | None = None, *, parent: str = ""
    ) -> AbstractContextManager[Span]:
        """Time a block; an exception that leaves it marks the span as failed."""
        context = self._propagate.extract({"traceparent": parent}) if parent else None
        return _OtelBlock(
            self._tracer.start_as_current_span(name, context=context, attributes=dict(attributes or {})),
            self._trace,
        )

    def completed(self, name: str, seconds: float, attributes: Mapping[str, Value]) -> None:
        """Record a span that has just ended; its parent is the current one."""
        end = time.time_ns()
        span = self._tracer.start_span(name, attributes=dict(attributes), start_time=end - int(seconds * 1e9))
        span.end(end_time=end)

    def inject(self) -> dict[str, str]:
        """The current trace as an annotation."""
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier)
        parent = carrier.get("traceparent")
        return {TRACE_ANNOTATION: parent} if parent else {}


class _OtelBlock:
    """One span as a context manager of ours."""

    def __init__(self, block: Any, trace: Any) -> None:
        self._block: Final = block
        self._trace: Final = trace
        self._span: Any = None

    def __enter__(self) -> "_OtelBlock":
        self._span = self._block.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, trace)

    def set(self, key: str, value: Value) -> None:
        self._span.set_attribute(key, value)

    def fail(self, error: BaseException) -> None:
        self._span.record_exception(error)
        self._span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(error)))


class _Api:
    """The two modules of OpenTelemetry that are used."""

    def __init__(self) -> None:
        self.trace: Any = importlib.import_module("opentelemetry.trace")
        self.propagate: Any = importlib.import_module("opentelemetry.propagate")


def get_tracer(name: str = "quarterdeck") -> Tracer:
    """OpenTelemetry's tracer if the package is installed, else one that does nothing."""
    try:
        api = _Api()
    except ImportError:
        return NO_TRACER
    return OtelTracer(api, name)


def extract(annotations: Mapping[str, str]) -> str:
    """The trace an object belongs to, for ``Tracer.span(parent=…)``; empty if it has none."""
    return annotations.get(TRACE_ANNOTATION, "")


def trace_requests(
    tracer: Tracer, observer: Callable[[RequestRecord], None] | None = None
) -> Callable[[RequestRecord], None] | None:
    """An observer for ``Client.connect`` that records API calls as spans, then tells ``observer``.

    Gives back ``observer`` itself when nothing is traced.
    """
    if not tracer.is_enabled:
        return observer

    def observe(record: RequestRecord) -> None:
        tracer.completed(
            f"{record.verb or record.method} {record.path}",
            record.seconds,
            {
                "http.request.method": record.method,
                "k8s.verb": record.verb,
                "url.path": record.path,
                "http.response.status_code": record.code,
                "retries": record.retry,
            },
        )
        if observer is not None:
            observer(record)

    return observe
