"""What a grove case expects of events, metrics, calls of backends and the order of things."""

from __future__ import annotations

import re
from typing import Any, Final

from quarterdeck.testing import LoggedEvent
from tests.harness.words import Named, refuse_unknown, words

from .evidence import Check, Evidence, Json, Lines
from .match import differs, split_ref
from .trace import check_ready_order, check_trace, check_write_order

__all__ = ["EVENT", "METRIC", "RECORD_CHECKS", "check_event", "check_metric"]


EVENT: Final = words("object", "type", "reason", "message", "messageContains", "count")
METRIC: Final = words("name", "labels", "value", "atLeast")
_CALLS: Final = Named(words("podGang", "atLeast", "exactly", "atMost", "backend"))


def check_event(wanted: Json, events: list[LoggedEvent]) -> Lines:
    """Whether an event was recorded."""
    refuse_unknown(wanted, EVENT, "event")
    kind, name = split_ref(wanted["object"]) if "object" in wanted else ("", "")

    def fits(event: LoggedEvent) -> bool:
        about = event.regarding
        return (
            (not kind or (about.kind, about.metadata.name) == (kind, name))
            and event.type == wanted.get("type", event.type)
            and event.reason == wanted.get("reason", event.reason)
            and event.note == wanted.get("message", event.note)
            and wanted.get("messageContains", "") in event.note
        )

    found = sum(map(fits, events))
    if "count" in wanted:
        return [] if found == wanted["count"] else differs("events", wanted, found)
    return [] if found else differs("an event", wanted, [str(each) for each in events])


async def _event(wanted: Any, evidence: Evidence) -> Lines:
    chosen = wanted if isinstance(wanted, list) else [wanted]
    return [line for each in chosen for line in check_event(each, evidence.operator.events.events)]


async def _event_absent(wanted: Any, evidence: Evidence) -> Lines:
    chosen = wanted if isinstance(wanted, list) else [wanted]
    return [
        line for each in chosen for line in check_event({**each, "count": 0}, evidence.operator.events.events)
    ]


_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def check_metric(wanted: Json, text: str) -> Lines:
    """Whether a metric has a value; series whose labels fit are added up."""
    refuse_unknown(wanted, METRIC, "metric")
    total, found = 0.0, False
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None or match[1] != wanted["name"]:
            continue
        labels = dict(_LABEL.findall(match[2] or ""))
        if all(labels.get(key) == value for key, value in (wanted.get("labels") or {}).items()):
            total, found = total + float(match[3]), True
    if not found and wanted.get("value") != 0:
        return [f"there is no metric {wanted['name']} with {wanted.get('labels')}"]
    if "atLeast" in wanted:
        return [] if total >= wanted["atLeast"] else differs(f"metric {wanted['name']}", wanted, total)
    return [] if total == wanted["value"] else differs(f"metric {wanted['name']}", wanted, total)


async def _metric(wanted: Any, evidence: Evidence) -> Lines:
    text = evidence.operator.metrics.registry.expose().decode()
    chosen = wanted if isinstance(wanted, list) else [wanted]
    return [line for each in chosen for line in check_metric(each, text)]


def _check_calls(wanted: dict[str, Json], evidence: Evidence, begin: int) -> Lines:
    refuse_unknown(wanted, _CALLS, "spyCalls")
    lines: Lines = []
    for hook, rule in wanted.items():
        found = sum(
            call.hook == hook
            and call.pod_gang == rule.get("podGang", call.pod_gang)
            and call.backend == rule.get("backend", call.backend)
            for call in evidence.operator.backends.calls[begin:]
        )
        if found < rule.get("atLeast", 0) or found > rule.get("atMost", found):
            lines += differs(f"calls of {hook}", rule, found)
        if found != rule.get("exactly", found):
            lines += differs(f"calls of {hook}", rule, found)
    return lines


async def _calls(wanted: dict[str, Json], evidence: Evidence) -> Lines:
    return _check_calls(wanted, evidence, 0)


async def _calls_since(wanted: dict[str, Json], evidence: Evidence) -> Lines:
    return _check_calls(wanted, evidence, evidence.asked_before)


async def _parsed(wanted: dict[str, int], evidence: Evidence) -> Lines:
    return [] if wanted == evidence.parsed else differs("arguments", wanted, evidence.parsed)


async def _error(wanted: Any, evidence: Evidence) -> Lines:
    parts = wanted if isinstance(wanted, list) else [wanted]
    return [
        line
        for part in parts
        if part not in evidence.error
        for line in differs("the error", part, evidence.error)
    ]


async def _write_order(wanted: list[str], evidence: Evidence) -> Lines:
    records = evidence.history.since(evidence.recorded_from)
    return check_write_order(wanted, records)


async def _ready_order(wanted: list[list[list[str]]], evidence: Evidence) -> Lines:
    cliques = {each["metadata"]["name"]: each for each in await evidence.objects.items("PodClique")}
    return check_ready_order(wanted, evidence.history.since(kinds=("Pod",)), cliques)


async def _trace(wanted: Json, evidence: Evidence) -> Lines:
    cliques = {each["metadata"]["name"]: each for each in await evidence.objects.items("PodClique")}
    return check_trace(wanted, evidence.history, evidence.trace_from, cliques)


RECORD_CHECKS: Final[dict[str, Check]] = {
    "event": _event,
    "events": _event,
    "eventAbsent": _event_absent,
    "metric": _metric,
    "metrics": _metric,
    "spyCalls": _calls,
    "spyCallsSinceMark": _calls_since,
    "parsed": _parsed,
    "errorContains": _error,
    "writeOrder": _write_order,
    "readyOrder": _ready_order,
    "trace": _trace,
}
