"""HorizontalPodAutoscalers between autoscaling/v2 and autoscaling/v1, as whole documents.

What v1 has no field for (other metrics, behavior, conditions) travels in annotations, as upstream does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json

METRICS: Final = "autoscaling.alpha.kubernetes.io/metrics"
_CURRENT_METRICS: Final = "autoscaling.alpha.kubernetes.io/current-metrics"
_BEHAVIOR: Final = "autoscaling.alpha.kubernetes.io/behavior"
_CONDITIONS: Final = "autoscaling.alpha.kubernetes.io/conditions"
ROUND_TRIP: Final = (METRICS, _CURRENT_METRICS, _BEHAVIOR, _CONDITIONS)
SOURCES: Final = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "External": "external",
    "ContainerResource": "containerResource",
}


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
        extra[METRICS] = _encode(others)
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
    metrics = [_metric_to_v2(item, "target") for item in _decode_list(annotations.get(METRICS))]
    if (percent := spec.get("targetCPUUtilizationPercentage")) is not None:
        metrics.append(cpu_metric(percent))
    new_spec["metrics"] = metrics or [cpu_metric(80)]
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


def cpu_metric(percent: int) -> Json:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _is_cpu_utilization(metric: Mapping[str, Any]) -> bool:
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    return (
        metric.get("type") == "Resource"
        and resource.get("name") == "cpu"
        and target.get("averageUtilization") is not None
    )


def _with_annotations(meta: Json, extra: Mapping[str, str]) -> Json:
    annotations = {
        key: value for key, value in (meta.get("annotations") or {}).items() if key not in ROUND_TRIP
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
    key = SOURCES.get(kind, "")
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
    key = SOURCES.get(kind, "")
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
