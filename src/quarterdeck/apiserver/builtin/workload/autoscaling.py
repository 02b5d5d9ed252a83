"""HorizontalPodAutoscaler: defaults and validation, in autoscaling/v2 and as autoscaling/v1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import non_negative
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, section
from quarterdeck.apiserver.document.quantity import canonical, nanos_of
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, not_supported, required

from .autoscalingversion import METRICS, ROUND_TRIP, SOURCES, cpu_metric, to_v2
from .metric import validate_metric, validate_reference


class HorizontalPodAutoscalerStrategy(BuiltinStrategy):
    """Both versions; the document says which one it is."""

    has_status = True

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        status = section(obj, "status")
        if _is_v1(obj):
            status.setdefault("currentReplicas", 0)
            status.setdefault("desiredReplicas", 0)
            annotations = obj["metadata"].get("annotations") or {}
            if spec.get("targetCPUUtilizationPercentage") is None and METRICS not in annotations:
                spec["targetCPUUtilizationPercentage"] = 80
            return
        # a v1 document that was only relabelled: what its annotations say has fields here
        meta = obj["metadata"]
        if any(key in ROUND_TRIP for key in meta.get("annotations") or ()):
            kept = {key: text for key, text in meta.pop("annotations").items() if key not in ROUND_TRIP}
            if kept:
                meta["annotations"] = kept
        if not spec.get("metrics"):
            spec["metrics"] = [cpu_metric(80)]
        for metric in spec["metrics"]:
            for key in SOURCES.values():
                target = (metric.get(key) or {}).get("target")
                for name in ("value", "averageValue"):
                    if target and target.get(name) is not None:
                        target[name] = canonical(target[name])
        behavior = spec.get("behavior")
        if behavior is not None:
            behavior["scaleUp"] = _with_defaults(behavior.get("scaleUp"), _SCALE_UP)
            behavior["scaleDown"] = _with_defaults(behavior.get("scaleDown"), _SCALE_DOWN)
        status.setdefault("desiredReplicas", 0)
        status.setdefault("currentMetrics", None)

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        if _is_v1(obj):
            obj["status"] = {"currentReplicas": 0, "desiredReplicas": 0}
        else:
            obj["status"] = {"desiredReplicas": 0, "currentMetrics": None}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return _validate_spec(_spec_v2(obj))

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return _validate_spec(_spec_v2(obj), _spec_v2(old))

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        status = obj.get("status") or {}
        errors: list[FieldError] = []
        for key in ("currentReplicas", "desiredReplicas"):
            errors += non_negative(status.get(key), f"status.{key}")
        return errors


def _is_v1(obj: Mapping[str, Any]) -> bool:
    return obj.get("apiVersion") == "autoscaling/v1"


def _spec_v2(obj: Json) -> Mapping[str, Any]:
    shaped = to_v2(obj) if _is_v1(obj) else obj
    return shaped.get("spec") or {}


_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": (
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ),
}
_SCALE_DOWN: Final = {
    "selectPolicy": "Max",
    "policies": ({"type": "Percent", "value": 100, "periodSeconds": 15},),
}


def _with_defaults(rules: Json | None, defaults: Mapping[str, Any]) -> Json:
    filled: Json = {key: value for key, value in (rules or {}).items() if value is not None}
    for key, value in defaults.items():
        if key not in filled:
            filled[key] = [dict(item) for item in value] if key == "policies" else value
    return filled


def _validate_spec(spec: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[FieldError]:
    errors: list[FieldError] = []
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    bound = 0 if old is not None and old.get("minReplicas") == 0 else 1
    if least is not None and least < bound:
        errors.append(invalid("spec.minReplicas", least, f"must be greater than or equal to {bound}"))
    if most == 0:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if least is not None and most < least:
        text = "must be greater than or equal to `minReplicas`"
        errors.append(invalid("spec.maxReplicas", most, text))
    reference = spec.get("scaleTargetRef") or {}
    unchanged = old is not None and old.get("scaleTargetRef") == reference
    errors += validate_reference(reference, "spec.scaleTargetRef", any_version=unchanged)
    for index, metric in enumerate(spec.get("metrics") or ()):
        errors += validate_metric(metric, f"spec.metrics[{index}]")
    kinds = {metric.get("type") for metric in spec.get("metrics") or ()}
    if least == 0 and not kinds & {"Object", "External"}:
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", text))
    behavior = spec.get("behavior") or {}
    for key in ("scaleUp", "scaleDown"):
        if (rules := behavior.get(key)) is not None:
            errors += _validate_rules(rules, f"spec.behavior.{key}")
    return errors


def _validate_rules(rules: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    window = rules.get("stabilizationWindowSeconds")
    path = f"{field}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.append(invalid(path, window, "must be greater than or equal to zero"))
    if window is not None and window > 3600:
        errors.append(invalid(path, window, "must be less than or equal to 3600"))
    select = rules.get("selectPolicy")
    if select is not None and select not in ("Disabled", "Max", "Min"):
        errors.append(not_supported(f"{field}.selectPolicy", select, ("Disabled", "Max", "Min")))
    policies = rules.get("policies") or ()
    if not policies:
        errors.append(required(f"{field}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        at = f"{field}.policies[{index}]"
        if (kind := policy.get("type") or "") not in ("Percent", "Pods"):
            errors.append(not_supported(f"{at}.type", kind, ("Percent", "Pods")))
        errors += [
            invalid(f"{at}.{key}", policy.get(key) or 0, "must be greater than zero")
            for key in ("value", "periodSeconds")
            if (policy.get(key) or 0) <= 0
        ]
        if (period := policy.get("periodSeconds") or 0) > 1800:
            errors.append(invalid(f"{at}.periodSeconds", period, "must be less than or equal to 1800"))
    if (tolerance := rules.get("tolerance")) is not None and nanos_of(tolerance) < 0:
        text = "must be greater than or equal to 0"
        errors.append(invalid(f"{field}.tolerance", canonical(tolerance), text))
    return errors
