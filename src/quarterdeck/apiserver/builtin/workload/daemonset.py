"""DaemonSet and ControllerRevision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.builtin.formats import non_negative
from quarterdeck.apiserver.builtin.kind import (
    BuiltinStrategy,
    SpecStrategy,
    immutable,
    not_supported_json,
    same,
    section,
)
from quarterdeck.apiserver.builtin.pod.defaults import default_template
from quarterdeck.apiserver.document.internalform import internal_form
from quarterdeck.apiserver.metadata import invalid_json, validate_label_selector
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire import gostyle
from quarterdeck.wire.fielderror import FieldError, invalid, required
from quarterdeck.wire.gonumber import parse_uint

from .template import (
    collision_count_decremented,
    int_or_percent,
    selector_changed,
    validate_at_most_100_percent,
    validate_counts,
    validate_int_or_percent,
    validate_pod_template,
    workload_warnings,
)

_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_SHOWN_COUNTS: Final = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
)
_COUNTS: Final = (
    *_SHOWN_COUNTS,
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


class DaemonSetStrategy(SpecStrategy):
    def default(self, obj: Json) -> None:
        # a field inside the real server, which shows it as an annotation
        generation = section(obj["metadata"], "annotations").setdefault(_TEMPLATE_GENERATION, "0")
        if not generation.isdecimal():
            why = f"strconv.ParseInt: parsing {gostyle.quote(generation)}: invalid syntax"
            raise status.bad_request(f'DaemonSet in version "v1" cannot be handled as a DaemonSet: {why}')
        spec = section(obj, "spec")
        update = section(spec, "updateStrategy")
        if not update.get("type"):
            update["type"] = "RollingUpdate"
        if update["type"] == "RollingUpdate":
            rolling = section(update, "rollingUpdate")
            if rolling.get("maxUnavailable") is None:
                rolling["maxUnavailable"] = 1
            if rolling.get("maxSurge") is None:
                rolling["maxSurge"] = 0
        if spec.get("revisionHistoryLimit") is None:
            spec["revisionHistoryLimit"] = 10
        default_template(section(spec, "template"))
        counts = section(obj, "status")
        for key in _SHOWN_COUNTS:
            counts.setdefault(key, 0)

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = dict.fromkeys(_SHOWN_COUNTS, 0)
        annotations = section(obj["metadata"], "annotations")
        if _number(annotations.get(_TEMPLATE_GENERATION)) < 1:
            annotations[_TEMPLATE_GENERATION] = "1"

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        before = _template_generation(old)
        changed = not same((obj.get("spec") or {}).get("template"), (old.get("spec") or {}).get("template"))
        section(obj["metadata"], "annotations")[_TEMPLATE_GENERATION] = str(before + changed)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        selector = spec.get("selector")
        errors = validate_label_selector(selector, "spec.selector")
        template_errors = validate_pod_template(spec, "spec.template", "DaemonSet", refuse_bad_selector=False)
        if template_errors and template_errors[0].field == "spec.template.metadata.labels":
            errors.append(template_errors.pop(0))
        if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
            errors.append(invalid_json("spec.selector", {}, "empty selector is invalid for daemonset"))
        errors += template_errors
        errors += non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += _validate_update_strategy(spec.get("updateStrategy") or {})
        return errors + non_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = selector_changed(obj.get("spec") or {}, old.get("spec") or {}, "spec.selector")
        return errors + self.validate_create(obj, ctx)

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        status = obj.get("status") or {}
        errors = validate_counts(status, _COUNTS)
        return errors + collision_count_decremented(status, old.get("status") or {})

    def warnings(self, obj: Json, old: Json | None) -> Iterable[str]:
        if old is not None and _template_generation(obj) == _template_generation(old):
            return []
        return workload_warnings(obj, old, named=False)


def _template_generation(obj: Json) -> int:
    return _number((obj["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION))


def _number(text: str | None) -> int:
    return parse_uint(text or "", 2**63 - 1) or 0


def _validate_update_strategy(strategy: Json) -> list[FieldError]:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    path = "spec.updateStrategy"
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        shown = internal_form("DaemonSetUpdateStrategy", strategy)
        return [not_supported_json(path, shown, ("RollingUpdate", "OnDelete"))]
    path = f"{path}.rollingUpdate"
    unavailable, surge = (rolling or {}).get("maxUnavailable"), (rolling or {}).get("maxSurge")
    errors = validate_int_or_percent(unavailable, f"{path}.maxUnavailable")
    errors += validate_int_or_percent(surge, f"{path}.maxSurge")
    errors += validate_at_most_100_percent(unavailable, f"{path}.maxUnavailable")
    errors += validate_at_most_100_percent(surge, f"{path}.maxSurge")
    has_unavailable, has_surge = int_or_percent(unavailable) != 0, int_or_percent(surge) != 0
    if has_unavailable and has_surge:
        text = "may not be set when maxUnavailable is non-zero"
        errors.append(invalid(f"{path}.maxSurge", surge, text))
    elif not has_unavailable and not has_surge:
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


class ControllerRevisionStrategy(BuiltinStrategy):
    def default(self, obj: Json) -> None:
        obj.setdefault("revision", 0)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors = non_negative(obj.get("revision"), "revision")
        data = obj.get("data")
        if data is None:
            errors.append(required("data", "data is mandatory"))
        elif not isinstance(data, dict):
            errors.append(required("data", "data must be a valid JSON object"))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = non_negative(obj.get("revision"), "revision")
        return errors + immutable(obj.get("data"), old.get("data"), "data")
