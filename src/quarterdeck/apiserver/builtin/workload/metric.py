"""Metrics a HorizontalPodAutoscaler scales by, and what it may refer to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.apiserver.builtin.pod.resources import validate_container_resource
from quarterdeck.apiserver.document.quantity import canonical, nanos_of
from quarterdeck.apiserver.metadata import label_errors, path_segment_errors
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, not_supported, required

from .autoscalingversion import SOURCES

_SOURCE_TYPES: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")


def validate_metric(metric: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = metric.get("type") or ""
    if not kind:
        errors.append(required(f"{field}.type", "must specify a metric source type"))
    if kind not in SOURCES:
        errors.append(not_supported(f"{field}.type", kind, _SOURCE_TYPES))
    order = ("object", "external", "pods", "resource", "containerResource")
    present = [key for key in order if metric.get(key) is not None]
    if present:
        errors += _validate_source(present[0], metric[present[0]], f"{field}.{present[0]}")
    expected = SOURCES.get(kind)
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
            errors += validate_reference(described, f"{field}.describedObject", any_group=True)
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


def validate_reference(
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
