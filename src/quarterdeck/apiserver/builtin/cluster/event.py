"""Event: one store, two shapes.

Events are stored in the shape of core/v1; `to_events` and `to_core` translate to and from
events.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, immutable, section, text_at
from quarterdeck.apiserver.metadata import byte_length, qualified_name_errors, subdomain_errors
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, invalid, required

_TO_EVENTS: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_TO_CORE: Final = {new: old for old, new in _TO_EVENTS.items()}
#: left out of events.k8s.io/v1 when empty, shown by core/v1
_OPTIONAL_TEXT: Final = ("reportingController", "reportingInstance")


def to_events(event: Json) -> Json:
    """A core/v1 Event as events.k8s.io/v1; a new document that shares its parts."""
    shaped = {_TO_EVENTS.get(key, key): value for key, value in event.items()}
    if "apiVersion" in shaped:
        shaped["apiVersion"] = "events.k8s.io/v1"
    for key in _OPTIONAL_TEXT:
        if key in shaped and not shaped[key]:
            del shaped[key]
    default_events(shaped)
    return shaped


def to_core(event: Json) -> Json:
    """An events.k8s.io/v1 Event as core/v1; a new document that shares its parts."""
    shaped = {_TO_CORE.get(key, key): value for key, value in event.items()}
    if "apiVersion" in shaped:
        shaped["apiVersion"] = "v1"
    default_core(shaped)
    return shaped


def default_core(event: Json) -> None:
    """What core/v1 shows even when empty."""
    section(event, "involvedObject")
    section(event, "source")
    for key in ("firstTimestamp", "lastTimestamp", "eventTime"):
        event.setdefault(key, None)
    for key in ("reportingComponent", "reportingInstance"):
        if event.get(key) is None:
            event[key] = ""


def default_events(event: Json) -> None:
    """What events.k8s.io/v1 shows even when empty."""
    event.setdefault("eventTime", None)
    section(event, "regarding")
    section(event, "deprecatedSource")
    event.setdefault("deprecatedFirstTimestamp", None)
    event.setdefault("deprecatedLastTimestamp", None)


def _source(event: Json) -> str:
    return (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""


def _reference_fields(field: str) -> dict[str, Callable[[Json], str]]:
    """The selectable fields of the object an event is about."""
    keys = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    return {f"{field}.{key}": text_at(field, key) for key in keys}


class EventStrategy(BuiltinStrategy):
    """core/v1."""

    allows_create_on_update = True
    selectable_fields = {  # noqa: RUF012 # never changed
        **_reference_fields("involvedObject"),
        "reason": text_at("reason"),
        "reportingComponent": text_at("reportingComponent"),
        "source": _source,
        "type": text_at("type"),
    }

    def default(self, obj: Json) -> None:
        default_core(obj)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return _validate_legacy(obj, "reportingComponent")

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return _validate_legacy(obj, "reportingComponent")


class EventsEventStrategy(BuiltinStrategy):
    """events.k8s.io/v1; documents are in that shape."""

    allows_create_on_update = True
    selectable_fields = {  # noqa: RUF012 # never changed
        **_reference_fields("regarding"),
        "reason": text_at("reason"),
        "reportingController": text_at("reportingController"),
        "type": text_at("type"),
    }

    def default(self, obj: Json) -> None:
        default_events(obj)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        event = to_core(obj)
        errors = _validate_legacy(event, "reportingController")
        errors += _validate_series(event)
        if not event.get("eventTime"):
            errors.append(required("eventTime"))
        kind = event.get("type") or ""
        if kind not in ("Normal", "Warning"):
            errors.append(invalid("type", "", f"has invalid value: {kind}"))
        errors += [
            invalid(key, "", "needs to be unset")
            for key in ("firstTimestamp", "lastTimestamp", "count")
            if event.get(key)
        ]
        source = event.get("source") or {}
        if source.get("component") or source.get("host"):
            errors.append(invalid("source", "", "needs to be unset"))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        event = to_core(obj)
        before = old if "involvedObject" in old else to_core(old)
        errors = _validate_legacy(event, "reportingController")
        if event.get("series") != before.get("series"):
            errors += _validate_series(event)
        for key, zero, struct in _IMMUTABLE:
            shown = "reportingController" if key == "reportingComponent" else key
            errors += immutable(event.get(key, zero), before.get(key, zero), shown, struct=struct)
        return errors


#: fields, what they are when left out, and the struct they are
_IMMUTABLE: Final[tuple[tuple[str, Any, str], ...]] = (
    ("involvedObject", {}, "ObjectReference"),
    ("reason", "", ""),
    ("message", "", ""),
    ("source", {}, "EventSource"),
    ("firstTimestamp", None, ""),
    ("lastTimestamp", None, ""),
    ("count", 0, ""),
    ("reason", "", ""),
    ("type", "", ""),
    ("eventTime", None, ""),
    ("action", "", ""),
    ("related", None, "ObjectReference"),
    ("reportingComponent", "", ""),
    ("reportingInstance", "", ""),
)


def _validate_series(event: Json) -> list[FieldError]:
    series: Json | None = event.get("series")
    if series is None:
        return []
    errors: list[FieldError] = []
    if (series.get("count") or 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


def _limited(event: Json, key: str, limit: int, *, needed: bool = True) -> list[FieldError]:
    value: Any = event.get(key) or ""
    errors = [] if value or not needed else [required(key)]
    if byte_length(value) > limit:
        errors.append(invalid(key, "", f"can have at most {limit} characters"))
    return errors


def _validate_legacy(event: Json, controller_field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    namespace = (event.get("metadata") or {}).get("namespace") or ""
    involved = (event.get("involvedObject") or {}).get("namespace") or ""
    mismatch = invalid("involvedObject.namespace", involved, "does not match event.namespace")
    if not event.get("eventTime"):
        if (not involved and namespace not in ("", "default")) or (involved and involved != namespace):
            errors.append(mismatch)
    else:
        if not involved and namespace not in ("default", "kube-system"):
            errors.append(mismatch)
        controller = event.get("reportingComponent") or ""
        if not controller:
            errors.append(required(controller_field))
        errors += [invalid(controller_field, controller, text) for text in qualified_name_errors(controller)]
        errors += _limited(event, "reportingInstance", 128)
        errors += _limited(event, "action", 128)
        errors += _limited(event, "reason", 128)
        errors += _limited(event, "message", 1024, needed=False)
    return errors + [invalid("namespace", namespace, text) for text in subdomain_errors(namespace)]
