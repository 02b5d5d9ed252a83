"""ResourceQuota and LimitRange. Quotas are enforced by admission (`admission.quota`), ranges are not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, section
from quarterdeck.apiserver.builtin.pod.resources import (
    STANDARD_RESOURCES,
    is_overcommit_allowed,
    quantity_or_zero,
    validate_container_resource,
    validate_quantity,
    validate_resource_name,
)
from quarterdeck.apiserver.document.quantity import NANO, Quantity, round_list
from quarterdeck.apiserver.errorlimit import repeated
from quarterdeck.apiserver.metadata import IMMUTABLE, invalid_json, qualified_name_errors
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, duplicate, forbidden, invalid, required

_SCOPES: Final = frozenset(
    (
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
        "VolumeAttributesClass",
    )
)
_ONLY_EXISTS: Final = _SCOPES - {"PriorityClass", "VolumeAttributesClass"}
_MUST_EXIST: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
    "ResourceQuotaScopeCrossNamespacePodAffinity"
)


class ResourceQuotaStrategy(BuiltinStrategy):
    has_status = True

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        if spec.get("hard"):
            round_list(spec["hard"])
        status = section(obj, "status")
        for key in ("hard", "used"):
            if status.get(key):
                round_list(status[key])

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        for name, source in (spec.get("hard") or {}).items():
            path = f"spec.hard[{name}]"
            errors += validate_resource_name(name, path)
            if "/" not in name and not _is_quota_resource(name):
                errors.append(invalid(path, name, "must be a standard resource for quota"))
            errors += validate_quantity(name, quantity_or_zero(source), path)
        scopes = spec.get("scopes") or []
        if unknown := sum(scope not in _SCOPES for scope in scopes):
            errors += repeated(invalid_json("spec.scopes", scopes, "unsupported scope"), unknown)
        hard = _Hard(spec.get("hard") or ())
        if misfits := sum(map(hard.misfits, scopes)):
            misfit = invalid_json("spec.scopes", scopes, "unsupported scope applied to resource")
            errors += repeated(misfit, misfits)
        if _conflict(scopes):
            errors.append(invalid_json("spec.scopes", scopes, "conflicting scopes"))
        return errors + _selector_errors(spec, hard)

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = self.validate_create(obj, ctx)
        new = (obj.get("spec") or {}).get("scopes") or []
        if set(new) != set((old.get("spec") or {}).get("scopes") or []):
            errors.append(invalid_json("spec.scopes", new or None, IMMUTABLE))
        return errors


def _conflict(scopes: Iterable[str]) -> bool:
    chosen = set(scopes)
    pairs = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
    return any(pair <= chosen for pair in pairs)


def _selector_errors(spec: Json, hard: _Hard) -> list[FieldError]:
    """The long form of scopes; upstream shows the selector with its internal names."""
    selector = spec.get("scopeSelector")
    if selector is None:
        return []
    field = "spec.scopeSelector.matchExpressions"
    terms = selector.get("matchExpressions") or []
    shown = {
        "MatchExpressions": [
            {
                "ScopeName": term.get("scopeName"),
                "Operator": term.get("operator"),
                "Values": term.get("values"),
            }
            for term in terms
        ]
    }
    errors: list[FieldError] = []
    misfit: FieldError | None = None  # shows the whole selector, so it is made once
    for term in terms:
        scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values")
        if scope not in _SCOPES:
            errors.append(invalid(f"{field}.scopeName", scope, "unsupported scope"))
        if misfits := hard.misfits(scope):
            misfit = misfit or invalid_json(field, shown, "unsupported scope applied to resource")
            errors += repeated(misfit, misfits)
        if scope in _ONLY_EXISTS and operator != "Exists":
            errors.append(invalid(f"{field}.operator", operator, _MUST_EXIST))
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.append(required(f"{field}.values", text))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.append(invalid_json(f"{field}.values", values, text))
        else:
            errors.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    if _conflict(term.get("scopeName") or "" for term in terms):
        errors.append(invalid_json(field, spec.get("scopes"), "conflicting scopes"))
    return errors


def _is_standard(name: str) -> bool:
    return name in STANDARD_RESOURCES or name.startswith(("hugepages-", "requests.hugepages-"))


def _is_quota_resource(name: str) -> bool:
    return _is_standard(name) or name.startswith("count/") or ".storageclass.storage.k8s.io" in name


_COMPUTE: Final = frozenset(
    ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
)


class _Hard:
    """The limited resources of a quota, and how many of them do not go with a scope."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = [name for name in names if _is_standard(name)]
        self._misfits: dict[str, int] = {}

    def misfits(self, scope: str) -> int:
        if scope not in self._misfits:
            self._misfits[scope] = (
                sum(not _scope_fits(scope, name) for name in self._names) if scope in _SCOPES else 0
            )
        return self._misfits[scope]


def _scope_fits(scope: str, name: str) -> bool:
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in ("persistentvolumeclaims", "requests.storage")
    return name == "pods" or name in _COMPUTE


class LimitRangeStrategy(BuiltinStrategy):
    allows_create_on_update = True

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        spec = section(obj, "spec")
        spec["limits"] = spec.get("limits") or None  # an empty list is stored as none

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        self.prepare_create(obj, ctx)

    def default(self, obj: Json) -> None:
        for item in section(obj, "spec").get("limits") or ():
            for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
                if item.get(key):
                    round_list(item[key])
            if item.get("type") != "Container":
                continue
            limits = dict(item.get("default") or {})
            requests = dict(item.get("defaultRequest") or {})
            for name, quantity in (item.get("max") or {}).items():
                limits.setdefault(name, quantity)
            for source in (limits, item.get("min") or {}):
                for name, quantity in source.items():
                    requests.setdefault(name, quantity)
            if limits:
                item["default"] = limits
            if requests:
                item["defaultRequest"] = requests

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
            path = f"spec.limits[{index}]"
            kind = item.get("type") or ""
            errors += _validate_limit_type(kind, f"{path}.type")
            if kind in seen:
                errors.append(duplicate(f"{path}.type", kind))
            seen.add(kind)
            errors += _validate_limit(item, kind, path)
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)


def _validate_limit_type(kind: str, field: str) -> list[FieldError]:
    errors = [invalid(field, kind, text) for text in qualified_name_errors(kind)]
    if not errors and "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
        errors.append(invalid(field, kind, "must be a standard limit type or fully qualified"))
    return errors


def _validate_limit(item: Json, kind: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    check = validate_container_resource if kind in ("Pod", "Container") else validate_resource_name
    tables: dict[str, dict[str, Quantity]] = {}
    for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        listed = item.get(key) or {}
        if kind == "Pod" and key in ("default", "defaultRequest"):
            if listed:
                errors.append(forbidden(f"{path}.{key}", "may not be specified when `type` is 'Pod'"))
            listed = {}
        for name in listed:
            errors += check(name, f"{path}.{key}[{name}]")
        tables[key] = {name: quantity_or_zero(source) for name, source in listed.items()}
        if key == "defaultRequest" and kind == "PersistentVolumeClaim" and not _has_storage(tables):
            text = "either minimum or maximum storage value is required, but neither was provided"
            errors.append(required(f"{path}.limits", text))
    names = sorted(set().union(*tables.values()))
    for name in names:
        errors += _validate_limit_values(name, tables, path)
    return errors


def _has_storage(tables: dict[str, dict[str, Quantity]]) -> bool:
    return "storage" in tables["min"] or "storage" in tables["max"]


def _validate_limit_values(name: str, tables: dict[str, dict[str, Quantity]], path: str) -> list[FieldError]:
    low, high = tables["min"].get(name), tables["max"].get(name)
    limit, request = tables["default"].get(name), tables["defaultRequest"].get(name)
    ratio = tables["maxLimitRequestRatio"].get(name)
    errors: list[FieldError] = []

    def add(key: str, value: Quantity, text: str) -> None:
        errors.append(invalid(f"{path}.{key}[{name}]", value.text, text))

    if low and high and low.nanos > high.nanos:
        add("min", low, f"min value {low.text} is greater than max value {high.text}")
    if request and low and low.nanos > request.nanos:
        text = f"min value {low.text} is greater than default request value {request.text}"
        add("defaultRequest", request, text)
    if request and high and request.nanos > high.nanos:
        text = f"default request value {request.text} is greater than max value {high.text}"
        add("defaultRequest", request, text)
    if request and limit and request.nanos > limit.nanos:
        text = f"default request value {request.text} is greater than default limit value {limit.text}"
        add("defaultRequest", request, text)
    if limit and low and low.nanos > limit.nanos:
        add("default", low, f"min value {low.text} is greater than default value {limit.text}")
    if limit and high and limit.nanos > high.nanos:
        add("default", high, f"default value {limit.text} is greater than max value {high.text}")
    if ratio and ratio.nanos < NANO:
        add("maxLimitRequestRatio", ratio, f"ratio {ratio.text} is less than 1")
    if ratio and low and high and low.nanos and ratio.nanos * low.nanos > high.nanos * NANO:
        text = f"ratio {ratio.text} is greater than max/min = {high.nanos / low.nanos:f}"
        add("maxLimitRequestRatio", ratio, text)
    if limit and request and limit.nanos != request.nanos and not is_overcommit_allowed(name):
        text = f"default value {limit.text} must equal to defaultRequest value {request.text} in {name}"
        add("defaultRequest", request, text)
    return errors
