"""Tracing: nothing without OpenTelemetry, spans with it."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from quarterdeck.client import RequestRecord
from quarterdeck.client.lane import LaneName
from quarterdeck.runtime.trace import (
    NO_TRACER,
    TRACE_ANNOTATION,
    OtelTracer,
    extract,
    get_tracer,
    trace_requests,
)

RECORD = RequestRecord("GET", "get", "api:443", "200", 0.25, 0, 100, 1, LaneName.DEFAULT, "/api/v1/pods/a")


class FakeSpan:
    def __init__(
        self, name: str, attributes: dict[str, Any], context: Any = None, start_time: int = 0
    ) -> None:
        self.name, self.attributes, self.context, self.start_time = name, attributes, context, start_time
        self.error: Any = None
        self.end_time = 0

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def record_exception(self, error: BaseException) -> None:
        self.error = error

    def set_status(self, status: Any) -> None:
        self.attributes["status"] = status

    def end(self, end_time: int = 0) -> None:
        self.end_time = end_time

    def __enter__(self) -> FakeSpan:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.error = self.error or error


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[FakeSpan]:
    """Just enough of the ``opentelemetry`` package."""
    made: list[FakeSpan] = []

    class FakeTracer:
        def start_as_current_span(self, name: str, **options: Any) -> FakeSpan:
            made.append(FakeSpan(name, options["attributes"], options["context"]))
            return made[-1]

        def start_span(self, name: str, **options: Any) -> FakeSpan:
            made.append(FakeSpan(name, options["attributes"], None, options["start_time"]))
            return made[-1]

    trace = types.ModuleType("opentelemetry.trace")
    trace.get_tracer = lambda name: FakeTracer()  # type: ignore[attr-defined]  # a module made by hand
    trace.Status = lambda code, text: (code, text)  # type: ignore[attr-defined]  # a module made by hand
    trace.StatusCode = types.SimpleNamespace(ERROR="error")  # type: ignore[attr-defined]  # a module made by hand
    propagate = types.ModuleType("opentelemetry.propagate")
    propagate.extract = lambda carrier: ("context", carrier["traceparent"])  # type: ignore[attr-defined]  # by hand
    propagate.inject = lambda carrier: carrier.update(traceparent="00-abc-def-01")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry", types.ModuleType("opentelemetry"))
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", trace)
    monkeypatch.setitem(sys.modules, "opentelemetry.propagate", propagate)
    return made


def test_without_the_package_spans_are_one_shared_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    tracer = get_tracer()
    assert tracer is NO_TRACER
    with tracer.span("a") as one, tracer.span("b") as two:
        one.set("x", 1)
        one.fail(ValueError())
        assert one is two
    tracer.completed("c", 1.0, {})
    assert tracer.inject() == {}

    def observer(record: RequestRecord) -> None:
        raise AssertionError

    assert trace_requests(tracer, observer) is observer
    assert trace_requests(tracer) is None


def test_spans_carry_attributes_parents_and_failures(spans: list[FakeSpan]) -> None:
    tracer = get_tracer("gang")
    assert isinstance(tracer, OtelTracer)
    parent = extract({TRACE_ANNOTATION: "00-1-2-01"})

    def work() -> None:
        with tracer.span("reconcile", {"controller": "gang"}, parent=parent) as span:
            span.set("attempt", 2)
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        work()
    with tracer.span("webhook") as span:
        span.fail(RuntimeError("denied"))
    reconcile, webhook = spans
    assert reconcile.attributes == {"controller": "gang", "attempt": 2}
    assert reconcile.context == ("context", "00-1-2-01")
    assert str(reconcile.error) == "boom"
    assert webhook.attributes["status"] == ("error", "denied")
    assert webhook.context is None
    assert tracer.inject() == {TRACE_ANNOTATION: "00-abc-def-01"}
    assert extract({}) == ""


def test_api_calls_become_spans_and_are_passed_on(spans: list[FakeSpan]) -> None:
    seen: list[RequestRecord] = []
    observe = trace_requests(get_tracer(), seen.append)
    assert observe is not None
    observe(RECORD)
    assert seen == [RECORD]
    [span] = spans
    assert span.name == "get /api/v1/pods/a"
    assert span.attributes["http.response.status_code"] == "200"
    assert span.attributes["retries"] == 1
    assert span.end_time - span.start_time == pytest.approx(0.25e9)
