"""HorizontalPodAutoscaler: stored as autoscaling/v2, also served as autoscaling/v1.

`to_v1` and `to_v2` translate whole documents. What v1 has no field for (other metrics, behavior,
conditions) travels in annotations, as upstream does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.apiserver.builtin.formats import non_negative
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, section
from quarterdeck.apiserver.builtin.pod.resources import validate_container_resource
from quarterdeck.apiserver.builtin.quantity import canonical, nanos_of
from quarterdeck.apiserver.metadata import label_errors, path_segment_errors
from quarterdeck.apiserver.resource.strategy import Json, WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, not_supported, required

_METRICS: Final = "autoscaling.alpha.kubernetes.io/metrics"
_CURRENT_METRICS: Final = "autoscaling.alpha.kubernetes.io/current-metrics"
_BEHAVIOR: Final = "autoscaling.alpha.kubernetes.io/behavior"
_CONDITIONS: Final = "autoscaling.alpha.kubernetes.io/conditions"
_ROUND_TRIP: Final = (_METRICS, _CURRENT_METRICS, _BEHAVIOR, _CONDITIONS)
_SOURCES: Final = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "External": "external",
    "ContainerResource": "containerResource",
}
_SOURCE_TYPES: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")


def _cpu_metric(percent: int) -> Json:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


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
            if spec.get("targetCPUUtilizationPercentage") is None and _METRICS not in annotations:
                spec["targetCPUUtilizationPercentage"] = 80
            return
        if not spec.get("metrics"):
            spec["metrics"] = [_cpu_metric(80)]
        for metric in spec["metrics"]:
            for key in _SOURCES.values():
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
    errors += _validate_reference(reference, "spec.scaleTargetRef", any_version=unchanged)
    for index, metric in enumerate(spec.get("metrics") or ()):
        errors += _validate_metric(metric, f"spec.metrics[{index}]")
    kinds = {metric.get("type") for metric in spec.get("metrics") or ()}
    if least == 0 and not kinds & {"Object", "External"}:
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", text))
    behavior = spec.get("behavior") or {}
    for key in ("scaleUp", "scaleDown"):
        if (rules := behavior.get(key)) is not None:
            errors += _validate_rules(rules, f"spec.behavior.{key}")
    return errors


def _validate_reference(
    reference: Mapping[str, Any], field: str, *, any_version: bool = False, any_group: bool = False
) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("kind", "name"):
        if value := reference.get(key):
            errors += [invalid(f"{field}.{key}", value, text) for text in path_segment_errors(value)]
        else:
            errors.append(required(f"{field}.{key}"))
    version: str = reference.get("apiVersion") or ""
    if any_version:
        return errors
    if version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        errors.append(invalid(f"{field}.apiVersion", version, text))
    elif not any_group and not version.rpartition("/")[0] and reference.get("kind") not in _CORE_SCALABLE:
        errors.append(invalid(f"{field}.apiVersion", version, "apiVersion must specify API group"))
    return errors


#: the one scalable kind of the core group
_CORE_SCALABLE: Final = ("ReplicationController",)


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


def _validate_metric(metric: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = metric.get("type") or ""
    if not kind:
        errors.append(required(f"{field}.type", "must specify a metric source type"))
    if kind not in _SOURCES:
        errors.append(not_supported(f"{field}.type", kind, _SOURCE_TYPES))
    order = ("object", "external", "pods", "resource", "containerResource")
    present = [key for key in order if metric.get(key) is not None]
    if present:
        errors += _validate_source(present[0], metric[present[0]], f"{field}.{present[0]}")
    expected = _SOURCES.get(kind)
    if expected is None:
        errors.append(not_supported(f"{field}.type", kind, _SOURCE_TYPES))
    elif metric.get(expected) is None:
        text = "must populate information for the given metric source"
        errors.append(required(f"{field}.{expected}", text))
    if len(present) != 1:
        text = "must populate the given metric source only"
        errors += [forbidden(f"{field}.{key}", text) for key in present if key != expected]
    return errors


def _validate_source(key: str, source: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if key in ("resource", "containerResource"):
        name = source.get("name") or ""
        if not name:
            errors.append(required(f"{field}.name", "must specify a resource name"))
        if key == "containerResource":
            if name:
                errors += validate_container_resource(name, f"{field}.name")
            if container := source.get("container"):
                found = label_errors(container)
                errors += [invalid(f"{field}.container", container, text) for text in found]
            else:
                errors.append(required(f"{field}.container", "must specify a container"))
    else:
        if key == "object":
            described = source.get("describedObject") or {}
            errors += _validate_reference(described, f"{field}.describedObject", any_group=True)
        metric = (source.get("metric") or {}).get("name")
        if metric:
            errors += [invalid(f"{field}.metric.name", metric, text) for text in path_segment_errors(metric)]
        else:
            errors.append(required(f"{field}.metric.name", "must specify a metric name"))
    target: Mapping[str, Any] = source.get("target") or {}
    errors += _validate_target(target, f"{field}.target")
    return errors + _validate_target_fields(key, target, f"{field}.target")


def _validate_target(target: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = target.get("type") or ""
    if not kind:
        errors.append(required(f"{field}.type", "must specify a metric target type"))
    if kind not in ("Utilization", "Value", "AverageValue"):
        text = "must be either Utilization, Value, or AverageValue"
        errors.append(invalid(f"{field}.type", kind, text))
    errors += [
        invalid(f"{field}.{key}", canonical(target[key]), "must be positive")
        for key in ("value", "averageValue")
        if target.get(key) is not None and nanos_of(target[key]) <= 0
    ]
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.append(invalid(f"{field}.averageUtilization", utilization, "must be greater than 0"))
    return errors


def _validate_target_fields(key: str, target: Mapping[str, Any], field: str) -> list[FieldError]:
    has = {name: target.get(name) is not None for name in ("value", "averageValue", "averageUtilization")}
    if key == "pods":
        if not has["averageValue"]:
            text = "must specify a positive target averageValue"
            return [required(f"{field}.averageValue", text)]
        return []
    if key in ("object", "external"):
        if not has["value"] and not has["averageValue"]:
            text = (
                "must set either a target value or averageValue"
                if key == "object"
                else "must set either a target value for metric or a per-pod target"
            )
            return [required(f"{field}.averageValue", text)]
        if key == "external" and has["value"] and has["averageValue"]:
            text = "may not set both a target value for metric and a per-pod target"
            return [forbidden(f"{field}.value", text)]
        return []
    if not has["averageUtilization"] and not has["averageValue"]:
        text = "must set either a target raw value or a target utilization"
        return [required(f"{field}.averageUtilization", text)]
    if has["averageUtilization"] and has["averageValue"]:
        text = "may not set both a target raw value and a target utilization"
        return [forbidden(f"{field}.averageValue", text)]
    return []


def _is_cpu_utilization(metric: Mapping[str, Any]) -> bool:
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    return (
        metric.get("type") == "Resource"
        and resource.get("name") == "cpu"
        and target.get("averageUtilization") is not None
    )


def to_v1(hpa: Json) -> Json:
    """An autoscaling/v2 document as autoscaling/v1; a new document."""
    spec, status = hpa.get("spec") or {}, hpa.get("status") or {}
    metrics: Sequence[Json] = spec.get("metrics") or ()
    new_spec = {key: spec[key] for key in ("scaleTargetRef", "minReplicas", "maxReplicas") if key in spec}
    percents = [
        item["resource"]["target"]["averageUtilization"] for item in metrics if _is_cpu_utilization(item)
    ]
    if percents:
        new_spec["targetCPUUtilizationPercentage"] = percents[0]
    new_status: Json = {
        "currentReplicas": status.get("currentReplicas") or 0,
        "desiredReplicas": status.get("desiredReplicas") or 0,
    }
    for key in ("observedGeneration", "lastScaleTime"):
        if status.get(key) is not None:
            new_status[key] = status[key]
    current: Sequence[Json] = status.get("currentMetrics") or ()
    for item in current:
        resource = item.get("resource") or {}
        percent = (resource.get("current") or {}).get("averageUtilization")
        if item.get("type") == "Resource" and resource.get("name") == "cpu" and percent is not None:
            new_status["currentCPUUtilizationPercentage"] = percent
    extra: dict[str, str] = {}
    others = [_metric_to_v1(item, "target") for item in metrics if not _is_cpu_utilization(item)]
    if others:
        extra[_METRICS] = _encode(others)
    if current:
        extra[_CURRENT_METRICS] = _encode([_metric_to_v1(item, "current") for item in current])
    if (behavior := spec.get("behavior")) is not None:
        extra[_BEHAVIOR] = _encode(_go_names(behavior, _BEHAVIOR_KEYS))
    if conditions := status.get("conditions"):
        extra[_CONDITIONS] = _encode(conditions)
    shaped = {**hpa, "spec": new_spec, "status": new_status}
    if "apiVersion" in hpa:
        shaped["apiVersion"] = "autoscaling/v1"
    shaped["metadata"] = _with_annotations(hpa.get("metadata") or {}, extra)
    return shaped


def to_v2(hpa: Json) -> Json:
    """An autoscaling/v1 document as autoscaling/v2; a new document."""
    spec, status = hpa.get("spec") or {}, hpa.get("status") or {}
    meta: Json = hpa.get("metadata") or {}
    annotations: Mapping[str, str] = meta.get("annotations") or {}
    new_spec = {key: spec[key] for key in ("scaleTargetRef", "minReplicas", "maxReplicas") if key in spec}
    metrics = [_metric_to_v2(item, "target") for item in _decode_list(annotations.get(_METRICS))]
    if (percent := spec.get("targetCPUUtilizationPercentage")) is not None:
        metrics.append(_cpu_metric(percent))
    new_spec["metrics"] = metrics or [_cpu_metric(80)]
    behavior = _decode(annotations.get(_BEHAVIOR))
    if isinstance(behavior, dict) and behavior:
        new_spec["behavior"] = _json_names(behavior)
    new_status: Json = {"desiredReplicas": status.get("desiredReplicas") or 0, "currentMetrics": None}
    if status.get("currentReplicas"):  # always shown in v1, only when not zero in v2
        new_status["currentReplicas"] = status["currentReplicas"]
    for key in ("observedGeneration", "lastScaleTime"):
        if status.get(key) is not None:
            new_status[key] = status[key]
    current = [_metric_to_v2(item, "current") for item in _decode_list(annotations.get(_CURRENT_METRICS))]
    if not current and (percent := status.get("currentCPUUtilizationPercentage")) is not None:
        resource = {"name": "cpu", "current": {"averageUtilization": percent}}
        current = [{"type": "Resource", "resource": resource}]
    if current:
        new_status["currentMetrics"] = current
    if conditions := _decode_list(annotations.get(_CONDITIONS)):
        new_status["conditions"] = conditions
    shaped = {**hpa, "spec": new_spec, "status": new_status}
    if "apiVersion" in hpa:
        shaped["apiVersion"] = "autoscaling/v2"
    shaped["metadata"] = _with_annotations(meta, {})
    return shaped


def _with_annotations(meta: Json, extra: Mapping[str, str]) -> Json:
    annotations = {
        key: value for key, value in (meta.get("annotations") or {}).items() if key not in _ROUND_TRIP
    }
    annotations.update(extra)
    shaped = dict(meta)
    if annotations:
        shaped["annotations"] = annotations
    else:
        shaped.pop("annotations", None)
    return shaped


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _decode(text: str | None) -> Any:
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _decode_list(text: str | None) -> list[Json]:
    value = _decode(text)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


_BEHAVIOR_KEYS: Final = (
    "scaleUp",
    "scaleDown",
    "stabilizationWindowSeconds",
    "selectPolicy",
    "policies",
    "tolerance",
    "type",
    "value",
    "periodSeconds",
)


def _go_names(value: Any, keys: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return {key[0].upper() + key[1:]: _go_names(value[key], keys) for key in keys if key in value}
    if isinstance(value, list):
        return [_go_names(item, keys) for item in value]
    return value


def _json_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key[:1].lower() + key[1:]: _json_names(item) for key, item in value.items() if item is not None
        }
    if isinstance(value, list):
        return [_json_names(item) for item in value]
    return value


def _metric_to_v1(metric: Json, side: str) -> Json:
    """A metric (`side` "target") or its reading ("current") in the flat form of v1 annotations."""
    kind = metric.get("type") or ""
    key = _SOURCES.get(kind, "")
    source: Json = metric.get(key) or {}
    values: Json = source.get(side) or {}
    flat: Json = {}
    if key in ("resource", "containerResource"):
        flat["name"] = source.get("name")
        if key == "containerResource":
            flat["container"] = source.get("container")
        _move(values, "averageUtilization", flat, f"{side}AverageUtilization")
        _move(values, "averageValue", flat, f"{side}AverageValue")
    else:
        identifier: Json = source.get("metric") or {}
        if key == "object":
            flat["target"] = source.get("describedObject")
        flat["metricName"] = identifier.get("name")
        _move(values, "value", flat, f"{side}Value")
        name = "averageValue" if key == "object" else f"{side}AverageValue"
        _move(values, "averageValue", flat, name)
        _move(identifier, "selector", flat, "metricSelector" if key == "external" else "selector")
    return {"type": kind, key: flat} if key else {"type": kind}


def _metric_to_v2(metric: Json, side: str) -> Json:
    kind = metric.get("type") or ""
    key = _SOURCES.get(kind, "")
    flat: Json = metric.get(key) or {}
    values: Json = {}
    source: Json = {}
    if key in ("resource", "containerResource"):
        source["name"] = flat.get("name")
        if key == "containerResource":
            source["container"] = flat.get("container")
        _move(flat, f"{side}AverageUtilization", values, "averageUtilization")
        _move(flat, f"{side}AverageValue", values, "averageValue")
        target_type = "AverageValue" if "averageUtilization" not in values else "Utilization"
    else:
        identifier: Json = {"name": flat.get("metricName")}
        _move(flat, "metricSelector" if key == "external" else "selector", identifier, "selector")
        source["metric"] = identifier
        if key == "object":
            source["describedObject"] = flat.get("target")
        _move(flat, f"{side}Value", values, "value")
        name = "averageValue" if key == "object" else f"{side}AverageValue"
        _move(flat, name, values, "averageValue")
        target_type = "AverageValue" if "averageValue" in values else "Value"
    if side == "target":
        values = {"type": target_type, **values}
    source[side] = values
    return {"type": kind, key: source} if key else {"type": kind}


def _move(source: Mapping[str, Any], key: str, target: Json, name: str) -> None:
    if source.get(key) is not None:
        target[name] = source[key]
